"""One EfficientNet-B0 map of Score-CAM: ours, the bare passes that it needs, and the grad-cam library's, in turn."""

import torch

from benchmarks import bare, workloads
from benchmarks.measure import in_turn, peak_memory
from benchmarks.report import Figure
from biaslib.models import cached_batch


def run(size: int = workloads.SIZE, rounds: int = 3) -> list[Figure]:
    model, image = workloads.efficientnet(size)
    expected = workloads.score_cam_library(model, image)
    torch.testing.assert_close(workloads.score_cam_ours(model, image), expected, rtol=0, atol=1e-4 * expected.max())
    with torch.no_grad():
        live = int(model.forward_features(image).any(3).any(2).sum())
    fast = bare.folded(model, image)
    times = in_turn(
        lambda: workloads.score_cam_ours(model, image),
        lambda: workloads.score_cam_library(model, image),
        lambda: bare.forward(fast, image, live, cached_batch(size, size)),
        rounds=rounds,
    )
    memory = {name: peak_memory(f"score_cam_{name}")["added"] for name in ("ours", "library")}
    return [
        Figure(f"Score-CAM, one target, EfficientNet-B0, {size} px, one image", times.of(0), "s"),
        Figure(f"  beside its bare passes ({live:,} channels)", times.ratio(0, 2), "x", "<=", bare.MOST),
        Figure("  the grad-cam library", times.of(1), "s"),
        Figure("  speed beside the grad-cam library", times.ratio(1, 0), "x", ">=", 1.5),
        Figure("  peak memory beside it (224 px)", memory["ours"] / memory["library"], "x", "<=", 0.25),
    ]
