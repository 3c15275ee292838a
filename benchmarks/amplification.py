"""All sets of attributes: the three metrics at three sizes, and a loop over the sets at a size that it can finish."""

import numpy as np

from benchmarks import workloads
from benchmarks.measure import in_turn, peak_memory, seconds
from benchmarks.report import Figure
from biaslib.metrics import bias_amplification

# seconds and gigabytes
TARGETS = {
    "60,000 x 20, two groups": (3, 1),
    "160,000 x 23, three groups": (30, 4),
    "30,000 x 51, two groups, as COCO": (60, 4),
}


def run() -> list[Figure]:
    figures = []
    for name, (most_seconds, most_memory) in TARGETS.items():
        labels = workloads.LABELS[name]()
        time = in_turn(lambda labels=labels: workloads.all_kinds(labels), rounds=3).of(0)
        n_sets = bias_amplification(*labels).n_sets
        memory = peak_memory(name)["total"] / 1e9
        figures += [
            Figure(f"Amplification, {name}: {n_sets:,} sets", time, "s", "<=", most_seconds),
            Figure("  peak memory of the process", memory, "GB", "<=", most_memory),
        ]
    labels = workloads.dense_labels(20_000, 16, 2)
    np.testing.assert_allclose(bias_amplification(*labels).mean, workloads.set_by_set(*labels))
    ours = in_turn(lambda: bias_amplification(*labels), rounds=5).of(0)
    loop = seconds(lambda: workloads.set_by_set(*labels))
    return [
        *figures,
        Figure("Amplification, 20,000 x 16, one metric", ours, "s"),
        Figure("  set by set", loop, "s"),
        Figure("  speed beside it", loop / ours, "x", ">=", 100),
    ]
