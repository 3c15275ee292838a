"""A short sample of `make faults`: the same doors and the same judgement, some seconds of it."""

import subprocess
import sys

import pytest

from tests.faults import files, inputs
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


def test_killed_work_ends_with_the_same_result_and_leaves_nothing(tmp_path):
    program = "import sys, torch; from pathlib import Path; from tests.faults import kills, outcome\n"
    program += "torch.set_num_threads(1); found = outcome.Outcomes()\n"
    program += "kills.campaign(Path(sys.argv[1]), found, kills=2, seed=0); print(*found.faults); print(found.total())"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    faults, total = done.stdout.rstrip("\n").split("\n")[-2:]
    assert faults == ""
    assert int(total) >= 4


def test_a_fault_is_counted():
    outcomes = Outcomes()
    outcomes.add("damage: entry", "survived")
    outcomes.add("damage: entry", "silent", "an entry")
    assert outcomes.faults == ["damage: entry: silent: an entry"]
    (row,) = outcomes.table().to_dict("records")
    assert (row["trials"], row["survived"], row["silent"], row["raw"]) == (2, 1, 1, 0)
