"""Integrated gradients of EfficientNet-B0 in 64 steps: ours, and captum's, in turn."""

from statistics import median

import torch

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure


def run(size: int = workloads.SIZE, repeats: int = 3) -> list[Figure]:
    model, image = workloads.efficientnet(size)
    # captum divides 63 intervals by their 64 ends
    expected = workloads.integrated_gradients_captum(model, image).detach() * 64 / 63
    most = expected.abs().max()
    torch.testing.assert_close(workloads.integrated_gradients_ours(model, image), expected, rtol=0, atol=1e-3 * most)
    our_times, captum_times = [], []
    for _ in range(repeats):
        our_times.append(seconds(lambda: workloads.integrated_gradients_ours(model, image)))
        captum_times.append(seconds(lambda: workloads.integrated_gradients_captum(model, image)))
    # ratios of neighbours in time
    ratio = median(peer / ours for peer, ours in zip(captum_times, our_times, strict=True))
    memory = {name: peak_memory(f"integrated_gradients_{name}")["added"] for name in ("ours", "captum")}
    return [
        Figure(f"Integrated gradients, 64 steps, EfficientNet-B0, {size} px, one image", median(our_times), "s"),
        Figure("  captum", median(captum_times), "s"),
        Figure("  speed beside captum", ratio, "x", ">=", 1),
        Figure("  peak memory beside it (224 px)", memory["ours"] / memory["captum"], "x", "<=", 0.25),
    ]
