"""All pairs of 40 attributes on 4,500 images: one call, and the released formula pair by pair, in turn."""

import numpy as np

from benchmarks import workloads
from benchmarks.measure import in_turn, peak_memory
from benchmarks.report import Figure


def run() -> list[Figure]:
    maps = workloads.maps_of_a_test_set()
    np.testing.assert_allclose(workloads.all_pairs(maps), workloads.pair_by_pair(maps), rtol=1e-5)
    times = in_turn(lambda: workloads.all_pairs(maps), lambda: workloads.pair_by_pair(maps), rounds=3)
    memory = {name: peak_memory(name)["total"] / 1e9 for name in ("all_pairs", "pair_by_pair")}
    return [
        Figure("Attention-IoU, 40 x 40 pairs of 4,500 images, 7 x 7", times.of(0), "s", "<=", 10),
        Figure("  the released formula pair by pair", times.of(1), "s"),
        Figure("  speed beside it", times.ratio(1, 0), "x"),
        Figure("  peak memory of the process", memory["all_pairs"], "GB", "<=", 1.5),
        Figure("  peak memory of the loop's process", memory["pair_by_pair"], "GB"),
    ]
