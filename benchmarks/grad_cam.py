"""All 40 targets: ours, one forward pass, and the grad-cam library, in turn."""

from statistics import median

import torch
from pytorch_grad_cam import GradCAM

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure

BATCH = 8
ROUNDS = 5


def run() -> list[Figure]:
    model, images = workloads.classifier(BATCH)
    forward_times, our_times, library_time = [], [], 0.0
    seconds(lambda: workloads.explain(model, images))  # the first call of anything is slow
    for turn in range(ROUNDS):
        for _ in range(3):
            forward_times.append(seconds(lambda: workloads.forward(model, images)))
            our_times.append(seconds(lambda: workloads.explain(model, images)))
        # a fifth of the targets each round: in the end every target has been timed once, none is extrapolated
        for target in range(turn, workloads.TARGETS, ROUNDS):
            library_time += seconds(lambda target=target: library(model, images, target))
    ours = median(our_times)
    ratio = median(own / plain for own, plain in zip(our_times, forward_times, strict=True))
    memory = {name: peak_memory(name)["added"] for name in ("forward", "explain")}
    return [
        Figure(f"Grad-CAM, 40 targets, ResNet-50, 224 px, {BATCH} images", ours, "s"),
        Figure("  beside one forward pass", ratio, "x", "<=", 1.25),
        Figure("  the grad-cam library, all 40 targets one by one", library_time, "s"),
        Figure("  speed beside the grad-cam library", library_time / ours, "x", ">=", 100),
        Figure(
            "  peak memory beside one forward pass (32 images)", memory["explain"] / memory["forward"], "x", "<=", 1.5
        ),
    ]


def library(model: torch.nn.Module, images: torch.Tensor, target: int) -> None:
    with GradCAM(model, [model.get_submodule("layer4")]) as cam:
        cam(images, [lambda logits: logits[target].abs()] * len(images))
