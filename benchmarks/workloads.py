"""What is measured; run as a module, one workload's peak memory: `python -m benchmarks.workloads NAME`."""

import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import nn

from biaslib import models
from biaslib.attribution import grad_cam, integrated_gradients, score_cam
from biaslib.metrics import Labels, attention_iou, bias_amplification

THREADS = 2
SIZE = 224
TARGETS = 40
KINDS = ("undirected", "group_to_attribute", "attribute_to_group")

LabelTriple = tuple[Labels, Labels, Labels]


def classifier(batch: int, size: int = SIZE) -> tuple[nn.Module, torch.Tensor]:
    """Paper A's ResNet-50 with its two-layer head (untrained: the weights do not change the cost) and images."""
    torch.manual_seed(0)
    return models.build("resnet50", TARGETS, hidden=2048).eval(), torch.randn(batch, 3, size, size)


def efficientnet(size: int = SIZE) -> tuple[nn.Module, torch.Tensor]:
    """Paper C's EfficientNet-B0 (untrained: the weights do not change the cost) and an image."""
    torch.manual_seed(0)
    return models.build("efficientnet_b0", 2).eval(), torch.randn(1, 3, size, size)


def score_cam_ours(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return score_cam(model, images, [1])[:, 0]


def score_cam_library(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """The grad-cam library's map before it is scaled and resized."""
    from pytorch_grad_cam import ScoreCAM  # here, so that it is in no other workload's memory
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    layer = model.get_submodule("bn2")
    silence = redirect_stderr(io.StringIO())  # a progress bar an image
    with silence, ScoreCAM(model, [layer]) as library, torch.no_grad():
        library.activations_and_grads(images)
        activations = library.activations_and_grads.activations[0].numpy()
        targets = [ClassifierOutputTarget(1)] * len(images)
        return torch.from_numpy(library.get_cam_image(images, layer, targets, activations, None)).clamp(min=0)


def integrated_gradients_ours(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return integrated_gradients(model, images, [1], signed=True)[:, 0]


def integrated_gradients_captum(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """All 64 steps at once, as captum does unless it is told otherwise."""
    from captum.attr import IntegratedGradients

    black = models.to_tensor(torch.zeros(1, 1, 1, 3, dtype=torch.uint8)).expand_as(images)
    return IntegratedGradients(model).attribute(images, black, 1, n_steps=64, method="riemann_trapezoid")


def maps_with_regions(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Relevance at the size of photos, without ties, and a box in each of them."""
    rng = np.random.default_rng(0)
    relevance = rng.random((n, SIZE, SIZE), np.float32)
    masks = np.zeros(relevance.shape, bool)
    for mask, (top, left, height, width) in zip(masks, rng.integers(20, 100, (n, 4)), strict=True):
        mask[top : top + height, left : left + width] = True
    return relevance, masks


def maps_of_a_test_set() -> np.ndarray:
    """As many maps as 40 attributes have on paper A's 4,500 test images."""
    return np.random.default_rng(0).random((4500, TARGETS, 7, 7), np.float32)


def forward(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(images)


def explain(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return grad_cam(model, images, range(TARGETS), absolute=True, batch=len(images))


def all_pairs(maps: np.ndarray) -> np.ndarray:
    return attention_iou(maps[:, :, None], maps[:, None, :])


def pair_by_pair(maps: np.ndarray) -> np.ndarray:
    """The released formula, (N, A, A): normalise, multiply, divide, one pair of attributes after the other."""
    scores = np.empty((len(maps), TARGETS, TARGETS))
    for i in range(TARGETS):
        for j in range(TARGETS):
            a = maps[:, i] / maps[:, i].sum((1, 2), keepdims=True)
            b = maps[:, j] / maps[:, j].sum((1, 2), keepdims=True)
            scores[:, i, j] = (a * b).sum((1, 2)) / (((a + b) / 2) ** 2).sum((1, 2))
    return scores


def dense_labels(images: int, attributes: int, groups: int) -> LabelTriple:
    """Training and test labels in which all sets of attributes occur, and predictions with one answer in 20 wrong."""
    rng = np.random.default_rng(0)

    def some() -> Labels:
        return Labels(rng.random((images, attributes)) < 0.5, rng.integers(0, groups, images))

    train, test = some(), some()
    return train, test, _wrong(test, rng, groups, share=0.05)


def object_labels(images: int, attributes: int, groups: int) -> LabelTriple:
    """As in COCO: few objects on most images, 15 on some, common ones and rare ones."""
    rng = np.random.default_rng(0)

    def some() -> Labels:
        common = 1 / np.arange(1, attributes + 1) ** 0.8
        order = (rng.random((images, attributes)) ** (1 / common)).argsort(axis=1).argsort(axis=1)
        many = np.minimum(rng.geometric(0.28, images), 15)
        return Labels(attributes - 1 - order < many[:, None], rng.integers(0, groups, images))

    train, test = some(), some()
    return train, test, _wrong(test, rng, groups, share=0.005)


def _wrong(labels: Labels, rng: np.random.Generator, groups: int, *, share: float) -> Labels:
    attributes = labels.attributes ^ (rng.random(labels.attributes.shape) < share)
    other = rng.integers(0, groups, len(labels))
    return Labels(attributes, np.where(rng.random(len(labels)) < share, other, labels.groups))


def all_kinds(labels: LabelTriple) -> list[float]:
    """Three metrics, mean and variance, over all sets."""
    return [bias_amplification(*labels, kind=kind).mean for kind in KINDS]


def set_by_set(train: Labels, test: Labels, predicted: Labels) -> float:
    """The undirected mean as one would write it first: a mask of the images for every set of attributes."""
    n_groups, width = 1 + train.groups.max(), train.attributes.shape[1]
    total, n_sets = 0.0, 0
    for code in range(1, 1 << width):
        members = np.flatnonzero(code >> np.arange(width) & 1)
        in_train, in_test, in_predicted = (side.attributes[:, members].all(axis=1) for side in (train, test, predicted))
        if not (in_train.any() and in_test.any()):
            continue
        n_sets += 1
        shown = np.bincount(train.groups[in_train], minlength=n_groups)
        said = np.bincount(predicted.groups[in_predicted], minlength=n_groups)
        if said.any():
            over = shown * n_groups > shown.sum()
            total += np.abs(said / said.sum() - shown / shown.sum())[over].sum()
    return total / n_sets


def audit_of_predictions(images: int = 50_000) -> Callable[[], Any]:
    """Scores of a target by skin (6 values), age (4 bins) and one group of two, from a table in a file."""
    from biaslib import audit  # here, so that it is in no other workload's memory

    rng = np.random.default_rng(0)
    cat = rng.integers(0, 2, images)
    table = pd.DataFrame({"file": [f"{row}.png" for row in range(images)], "cat": cat})
    table = table.assign(skin=rng.choice(["I", "II", "III", "IV", "V", "VI"], images), age=rng.integers(1, 90, images))
    score = 1 / (1 + np.exp(rng.normal(1.2 - 2.4 * cat + 0.1 * (table["skin"] == "VI"))))
    table = table.assign(old=rng.choice(["yes", "no"], images), score=score.round(4))

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            table.to_csv(f"{folder}/labels.csv", index=False)
            audit.run(
                labels=f"{folder}/labels.csv", target="cat", groups=["skin", "age", "old"], bins={"age": [18, 40, 65]},
                predictions="score", threshold=0.5, out=f"{folder}/report",
            )  # fmt: skip

    return call


def audit_of_pictures(images: int, architecture: str = "resnet18", size: int = SIZE) -> Callable[[], Any]:
    """An untrained network's answers and maps of pictures in files, nothing of which is in a store yet."""
    from biaslib import audit

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, (images, 2)), columns=["cat", "old"])
    table = table.assign(file=[f"{row}.jpg" for row in range(images)])
    torch.manual_seed(0)
    model = models.build(architecture, 2).eval()

    def call() -> float:
        """Seconds of the audit alone."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, BIASLIB_STORE=f"{folder}/store"):
            Path(folder, "pictures").mkdir()
            for name in table["file"]:
                picture = Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8))
                picture.save(Path(folder, "pictures", name))
            start = time.perf_counter()
            audit.run(
                model=model, data=f"{folder}/pictures", labels=table, target="cat", groups="old", size=size,
                out=f"{folder}/report", permutations=99,
            )  # fmt: skip
            return time.perf_counter() - start

    return call


LABELS: dict[str, Callable[[], LabelTriple]] = {
    "60,000 x 20, two groups": lambda: dense_labels(60_000, 20, 2),
    "160,000 x 23, three groups": lambda: dense_labels(160_000, 23, 3),
    "30,000 x 51, two groups, as COCO": lambda: object_labels(30_000, 51, 2),
}


ATTRIBUTIONS: dict[str, Callable[[nn.Module, torch.Tensor], torch.Tensor]] = {
    "score_cam_ours": score_cam_ours,
    "score_cam_library": score_cam_library,
    "integrated_gradients_ours": integrated_gradients_ours,
    "integrated_gradients_captum": integrated_gradients_captum,
}


def _prepare(name: str) -> Callable[[], Any]:
    if name in LABELS:
        labels = LABELS[name]()
        return lambda: all_kinds(labels)
    if name == "audit":
        return audit_of_predictions()
    if name.endswith(" pictures"):
        return audit_of_pictures(int(name.split()[0]))
    if name in ("forward", "explain"):
        model, images = classifier(batch=32)
        return lambda: (forward if name == "forward" else explain)(model, images)
    if name in ATTRIBUTIONS:
        efficient, image = efficientnet()
        return lambda: ATTRIBUTIONS[name](efficient, image)
    maps = maps_of_a_test_set()
    return lambda: (all_pairs if name == "all_pairs" else pair_by_pair)(maps)


def _peak() -> int:
    """The most memory this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux ru_maxrss begins with the parent's
        return 1024 * int(next(line for line in status.read_text().splitlines() if "VmHWM" in line).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    call = _prepare(sys.argv[1])
    before = _peak()
    call()
    print(json.dumps({"added": _peak() - before, "total": _peak()}))
