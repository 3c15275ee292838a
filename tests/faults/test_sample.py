"""A short sample of `make faults`: the same doors and the same judgement, some seconds of it."""

import pytest

from tests.faults import files, inputs, kills
from tests.faults.outcome import Outcomes


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    folder = tmp_path / "scratch"
    (folder / "notebooks").mkdir(parents=True)
    (folder / "_config.yml").touch()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BIASLIB_STORE", str(folder / "store"))
    monkeypatch.setenv("BIASLIB_DATA", str(folder / "data"))
    return folder


@pytest.mark.parametrize(("part", "count"), [(files, 40), (inputs, 105)])
def test_no_fault_is_silent_raw_or_run(scratch, part, count):
    outcomes = Outcomes()
    part.campaign(scratch, outcomes, count=count, seed=0)
    assert outcomes.total() >= count
    assert outcomes.faults == []


@pytest.mark.slow  # minutes
def test_killed_work_ends_with_the_same_result_and_leaves_nothing(tmp_path):
    faults, total = kills.elsewhere(tmp_path, kills=2, timeout=1800)
    assert faults == ""
    assert total >= len(kills.WORKS)


def test_a_fault_is_counted():
    outcomes = Outcomes()
    outcomes.add("damage: entry", "survived")
    outcomes.add("damage: entry", "silent", "an entry")
    assert outcomes.faults == ["damage: entry: silent: an entry"]
    (row,) = outcomes.table().to_dict("records")
    assert (row["trials"], row["survived"], row["silent"], row["raw"]) == (2, 1, 1, 0)
