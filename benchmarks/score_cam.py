"""One EfficientNet-B0 map of Score-CAM: ours, and the grad-cam library's, in turn."""

import torch

from benchmarks import workloads
from benchmarks.measure import in_turn, peak_memory
from benchmarks.report import Figure


def run(size: int = workloads.SIZE, rounds: int = 3) -> list[Figure]:
    model, image = workloads.efficientnet(size)
    expected = workloads.score_cam_library(model, image)
    torch.testing.assert_close(workloads.score_cam_ours(model, image), expected, rtol=0, atol=1e-4 * expected.max())
    times = in_turn(
        lambda: workloads.score_cam_ours(model, image),
        lambda: workloads.score_cam_library(model, image),
        rounds=rounds,
    )
    memory = {name: peak_memory(f"score_cam_{name}")["added"] for name in ("ours", "library")}
    return [
        Figure(f"Score-CAM, one target, EfficientNet-B0, {size} px, one image", times.of(0), "s"),
        Figure("  the grad-cam library", times.of(1), "s"),
        Figure("  speed beside the grad-cam library", times.ratio(1, 0), "x", ">=", 1.5),
        Figure("  peak memory beside it (224 px)", memory["ours"] / memory["library"], "x", "<=", 0.25),
    ]
