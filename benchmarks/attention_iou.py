"""All pairs of 40 attributes on 4,500 images: one call, and the released formula pair by pair, in turn."""

from statistics import median

import numpy as np

from benchmarks import workloads
from benchmarks.measure import peak_memory, seconds
from benchmarks.report import Figure


def run() -> list[Figure]:
    maps = workloads.maps_of_a_test_set()
    np.testing.assert_allclose(workloads.all_pairs(maps), workloads.pair_by_pair(maps), rtol=1e-5)
    our_times, loop_times = [], []
    for _ in range(3):
        our_times.append(seconds(lambda: workloads.all_pairs(maps)))
        loop_times.append(seconds(lambda: workloads.pair_by_pair(maps)))
    ours, loop = median(our_times), median(loop_times)
    memory = {name: peak_memory(name)["total"] / 1e9 for name in ("all_pairs", "pair_by_pair")}
    return [
        Figure("Attention-IoU, 40 x 40 pairs of 4,500 images, 7 x 7", ours, "s", "<=", 10),
        Figure("  the released formula pair by pair", loop, "s"),
        Figure("  speed beside it", loop / ours, "x"),
        Figure("  peak memory of the process", memory["all_pairs"], "GB", "<=", 1.5),
        Figure("  peak memory of the loop's process", memory["pair_by_pair"], "GB"),
    ]
