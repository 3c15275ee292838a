"""Where a GPU is: training beside a plain loop over timm's network, and maps beside the grad-cam library and captum."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import timm
import torch
from timm.optim import create_optimizer_v2
from torch.nn import functional as F

from benchmarks import bare, workloads
from benchmarks.grad_cam import library
from benchmarks.measure import in_turn
from benchmarks.report import Figure
from biaslib import models
from biaslib.attribution import integrated_gradients
from biaslib.samples import Samples
from biaslib.training import TrainingConfig, loop
from biaslib.training.objectives import CrossEntropy

ABSENT = (
    "Training beside timm's network, and maps beside the grad-cam library and captum: not measured, they need a GPU"
)
STEPS, POINTS = 64, 128  # of integrated gradients, and how many of them at once


def run() -> list[Figure | str]:
    if not torch.cuda.is_available():
        return [ABSENT]
    return [*training(), *maps(torch.device("cuda"))]


def training(
    architecture: str = "resnet50", n: int = 4096, size: int = 224, batch: int = 128, rounds: int = 3
) -> list[Figure]:
    """An epoch where networks compute, in pictures a second."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    images = rng.integers(0, 256, (n, size, size, 3), np.uint8)
    ours, plain = _ours(architecture, images, labels, batch), _plain(architecture, images, labels, batch)
    ours()
    plain()
    times = in_turn(ours, plain, rounds=rounds)
    return [
        Figure(f"Training of {architecture}, {size} px, batch {batch}, pictures a second", n / times.of(0)),
        Figure("  plain AMP loop over timm's network", n / times.of(1)),
        Figure("  time beside the plain loop", times.ratio(0, 1), "x", "<=", bare.MOST),
    ]


def _ours(architecture: str, images: np.ndarray, labels: np.ndarray, batch: int) -> Callable[[], None]:
    config = TrainingConfig(
        architecture=architecture, batch=batch, optimiser="sgd", learning_rate=1e-3, schedule="constant",
        augmentation=(), precision="bfloat16",
    )  # fmt: skip
    samples, targets = Samples(images, pd.DataFrame({"yes": labels == 1})), torch.from_numpy(labels)
    state = loop._Run.start(samples, targets, config, CrossEntropy(outputs=2))
    return _finished(lambda: state.train_epoch(samples, targets), state.device)


def _plain(architecture: str, images: np.ndarray, labels: np.ndarray, batch: int) -> Callable[[], None]:
    device = models.device()
    model = timm.create_model(architecture, num_classes=2).to(device, memory_format=torch.channels_last).train()
    optimiser = create_optimizer_v2(model, opt="sgd", lr=1e-3, weight_decay=1e-4)
    mean, deviation = (
        torch.tensor(values, device=device)[:, None, None] * 255 for values in models.normalisation(model)
    )
    rng = np.random.default_rng(0)

    def epoch() -> None:
        for rows in np.array_split(rng.permutation(len(images)), len(images) // batch):
            pixels = torch.from_numpy(images[rows]).to(device).permute(0, 3, 1, 2)
            targets = torch.from_numpy(labels[rows]).to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.cross_entropy(model((pixels.float() - mean) / deviation), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return _finished(epoch, device)


def maps(
    device: torch.device, size: int = workloads.SIZE, batch: int = 32, few: int = 4, rounds: int = 3
) -> list[Figure]:
    """Grad-CAM of all targets, Score-CAM of an image, integrated gradients of a few, on a device."""
    model, images = (each.to(device) for each in workloads.classifier(batch, size))
    efficient, image = (each.to(device) for each in workloads.efficientnet(size))
    some = image.repeat(few, 1, 1, 1)
    return [
        *_beside(
            f"Grad-CAM on {device.type}, 40 targets, ResNet-50, {size} px, {batch} images", "the grad-cam library",
            lambda: workloads.explain(model, images),
            lambda: [library(model, images, target) for target in range(workloads.TARGETS)],
            device, rounds,
        ),
        *_beside(
            f"Score-CAM on {device.type}, EfficientNet-B0, {size} px, one image", "the grad-cam library",
            lambda: workloads.score_cam_ours(efficient, image), lambda: workloads.score_cam_library(efficient, image),
            device, rounds,
        ),
        *_beside(
            f"Integrated gradients on {device.type}, EfficientNet-B0, {size} px, {few} images", "captum",
            lambda: integrated_gradients(efficient, some, [1], steps=STEPS, batch=POINTS),
            lambda: captum(efficient, some), device, rounds,
        ),
    ]  # fmt: skip


def captum(model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    """As many points at once as ours."""
    from captum.attr import IntegratedGradients

    black = models.to_tensor(torch.zeros(1, 1, 1, 3, dtype=torch.uint8)).to(images).expand_as(images)
    options = {"n_steps": STEPS, "method": "riemann_trapezoid", "internal_batch_size": POINTS}
    return IntegratedGradients(model).attribute(images, black, 1, **options)


def _beside(
    name: str, peer: str, ours: Callable[[], Any], theirs: Callable[[], Any], device: torch.device, rounds: int
) -> list[Figure]:
    calls = [_finished(call, device) for call in (ours, theirs)]
    for call in calls:
        call()  # the first call of anything is slow
    times = in_turn(*calls, rounds=rounds)
    return [
        Figure(name, times.of(0), "s"),
        Figure(f"  {peer}", times.of(1), "s"),
        Figure(f"  speed beside {peer}", times.ratio(1, 0), "x", ">=", 1),
    ]


def _finished(call: Callable[[], Any], device: torch.device) -> Callable[[], None]:
    """The call, which returns when the device has done what it was asked."""

    def whole() -> None:
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return whole
