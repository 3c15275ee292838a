import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gan, workloads
from benchmarks.report import Figure, publish
from biaslib.metrics import bias_amplification


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("a", 1.2, "x", "<=", 1.25), True),
        (Figure("a", 1.3, "x", "<=", 1.25), False),
        (Figure("a", 100, "x", ">=", 100), True),
        (Figure("a", 99, "x", ">=", 100), False),
        (Figure("a", float("nan"), "x", ">=", 100), False),
        (Figure("a", 99), True),
    ],
)
def test_a_missed_target_is_said_and_written(
    figure: Figure, met: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made" / "bench.json"
    assert publish([[Figure("b", 0.0)], [figure]], path) is met
    assert ("MISSED" in capsys.readouterr().out) is not met
    rows = json.loads(path.read_text())["figures"]
    assert [row["target"] for row in rows] == [None, figure.target if figure.bound else None]
    assert list(path.parent.iterdir()) == [path]


def test_the_loop_that_is_compared_with_computes_the_same() -> None:
    maps = workloads.maps_of_a_test_set()[:3]
    np.testing.assert_allclose(workloads.all_pairs(maps), workloads.pair_by_pair(maps), rtol=1e-5)


def test_the_loop_over_sets_computes_the_same() -> None:
    for labels in (workloads.dense_labels(200, 5, 3), workloads.object_labels(200, 8, 2)):
        assert bias_amplification(*labels).mean == pytest.approx(workloads.set_by_set(*labels))


def test_a_training_step_is_timed_beside_the_plain_loop() -> None:
    ours, plain, ratio = gan.run(steps=1, rounds=1)
    assert ratio.value == pytest.approx(plain.value / ours.value)
    assert ours.value > 0
