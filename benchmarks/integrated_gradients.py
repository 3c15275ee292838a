"""Integrated gradients of EfficientNet-B0 in 64 steps: ours, the bare passes that they need, and captum's."""

import torch

from benchmarks import bare, workloads
from benchmarks.measure import in_turn, peak_memory
from benchmarks.report import Figure


def run(size: int = workloads.SIZE, rounds: int = 3) -> list[Figure]:
    model, image = workloads.efficientnet(size)
    # captum divides 63 intervals by their 64 ends
    expected = workloads.integrated_gradients_captum(model, image).detach() * 64 / 63
    most = expected.abs().max()
    torch.testing.assert_close(workloads.integrated_gradients_ours(model, image), expected, rtol=0, atol=1e-3 * most)
    fast = bare.folded(model, image)
    times = in_turn(
        lambda: workloads.integrated_gradients_ours(model, image),
        lambda: workloads.integrated_gradients_captum(model, image),
        lambda: bare.forward_and_backward(fast, image, 64, 8),
        rounds=rounds,
    )
    memory = {name: peak_memory(f"integrated_gradients_{name}")["added"] for name in ("ours", "captum")}
    return [
        Figure(f"Integrated gradients, 64 steps, EfficientNet-B0, {size} px, one image", times.of(0), "s"),
        Figure("  beside its bare passes", times.ratio(0, 2), "x", "<=", bare.MOST),
        Figure("  captum", times.of(1), "s"),
        Figure("  speed beside captum", times.ratio(1, 0), "x", ">=", 1),
        Figure("  peak memory beside it (224 px)", memory["ours"] / memory["captum"], "x", "<=", 0.25),
    ]
