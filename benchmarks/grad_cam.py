"""All 40 targets: ours, the bare passes that they need, and the grad-cam library, in turn."""

import torch
from pytorch_grad_cam import GradCAM

from benchmarks import bare, workloads
from benchmarks.measure import in_turn, peak_memory
from benchmarks.report import Figure

BATCH = 8


def run() -> list[Figure]:
    model, images = workloads.classifier(BATCH)
    workloads.explain(model, images)  # the first call of anything is slow
    targets = iter(range(workloads.TARGETS))
    # every one of the 40 targets is measured, none is extrapolated
    times = in_turn(
        lambda: bare.grad_cam(model, images, workloads.TARGETS),
        lambda: workloads.explain(model, images),
        lambda: library(model, images, next(targets)),
        rounds=workloads.TARGETS,
    )
    memory = {name: peak_memory(name)["added"] for name in ("forward", "explain")}
    return [
        Figure(f"Grad-CAM, 40 targets, ResNet-50, 224 px, {BATCH} images", times.of(1), "s"),
        Figure("  beside its bare passes", times.ratio(1, 0), "x", "<=", bare.MOST),
        Figure("  the grad-cam library, all 40 targets one by one", times.seconds[:, 2].sum(), "s"),
        Figure("  speed beside the grad-cam library", times.ratio(2, 1) * workloads.TARGETS, "x", ">=", 100),
        Figure(
            "  peak memory beside one forward pass (32 images)", memory["explain"] / memory["forward"], "x", "<=", 1.5
        ),
    ]


def library(model: torch.nn.Module, images: torch.Tensor, target: int) -> None:
    with GradCAM(model, [model.get_submodule("layer4")]) as cam:
        cam(images, [lambda logits: logits[target].abs()] * len(images))
