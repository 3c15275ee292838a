"""One EfficientNet-B0 map of Score-CAM: ours, and the grad-cam library's, in turn."""

from statistics import median

import torch

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure


def run(size: int = workloads.SIZE, repeats: int = 3) -> list[Figure]:
    model, image = workloads.efficientnet(size)
    expected = workloads.score_cam_library(model, image)
    torch.testing.assert_close(workloads.score_cam_ours(model, image), expected, rtol=0, atol=1e-4 * expected.max())
    our_times, library_times = [], []
    for _ in range(repeats):
        our_times.append(seconds(lambda: workloads.score_cam_ours(model, image)))
        library_times.append(seconds(lambda: workloads.score_cam_library(model, image)))
    # ratios of neighbours in time
    ratio = median(peer / ours for peer, ours in zip(library_times, our_times, strict=True))
    memory = {name: peak_memory(f"score_cam_{name}")["added"] for name in ("ours", "library")}
    return [
        Figure(f"Score-CAM, one target, EfficientNet-B0, {size} px, one image", median(our_times), "s"),
        Figure("  the grad-cam library", median(library_times), "s"),
        Figure("  speed beside the grad-cam library", ratio, "x", ">=", 1.5),
        Figure("  peak memory beside it (224 px)", memory["ours"] / memory["library"], "x", "<=", 0.25),
    ]
