"""All 40 targets: ours, one forward pass, and the grad-cam library, in turn."""

from statistics import median

import torch
from pytorch_grad_cam import GradCAM

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure

BATCH = 8


def run() -> list[Figure]:
    model, images = workloads.classifier(BATCH)
    forward_times, our_times, library_times = [], [], []
    seconds(lambda: workloads.explain(model, images))  # the first call of anything is slow
    # ratios of neighbours in time; every one of the 40 targets is measured, none is extrapolated
    for target in range(workloads.TARGETS):
        forward_times.append(seconds(lambda: workloads.forward(model, images)))
        our_times.append(seconds(lambda: workloads.explain(model, images)))
        library_times.append(seconds(lambda target=target: library(model, images, target)))
    beside_forward = median(ours / plain for ours, plain in zip(our_times, forward_times, strict=True))
    one_target = median(peer / ours for peer, ours in zip(library_times, our_times, strict=True))
    memory = {name: peak_memory(name)["added"] for name in ("forward", "explain")}
    return [
        Figure(f"Grad-CAM, 40 targets, ResNet-50, 224 px, {BATCH} images", median(our_times), "s"),
        Figure("  beside one forward pass", beside_forward, "x", "<=", 1.25),
        Figure("  the grad-cam library, all 40 targets one by one", sum(library_times), "s"),
        Figure("  speed beside the grad-cam library", one_target * workloads.TARGETS, "x", ">=", 100),
        Figure(
            "  peak memory beside one forward pass (32 images)", memory["explain"] / memory["forward"], "x", "<=", 1.5
        ),
    ]


def library(model: torch.nn.Module, images: torch.Tensor, target: int) -> None:
    with GradCAM(model, [model.get_submodule("layer4")]) as cam:
        cam(images, [lambda logits: logits[target].abs()] * len(images))
