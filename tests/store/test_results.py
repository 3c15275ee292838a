import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

from biaslib import store
from biaslib.errors import BiaslibError
from biaslib.store import parallel
from biaslib.store.files import beside


def counting(value):
    calls = []

    def compute():
        calls.append(1)
        return value

    return compute, calls


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (np.arange(6.0).reshape(2, 3), np.array_equal),
        ({"a": np.arange(3), "b": np.ones((2, 2), bool)}, lambda x, y: all(np.array_equal(x[k], y[k]) for k in y)),
        (pd.DataFrame({"name": ["x", "y"], "score": [0.5, float("nan")]}), pd.DataFrame.equals),
        ({"weight": torch.ones(2, 3)}, lambda x, y: torch.equal(x["weight"], y["weight"])),
        ({"accuracy": 0.5, "names": ["a"]}, lambda x, y: x == y),
    ],
)
def test_second_call_reads_what_the_first_computed(value, same):
    compute, calls = counting(value)
    first = store.get_or_compute("kind", {"seed": 1}, compute)
    second = store.get_or_compute("kind", {"seed": 1}, compute)
    assert len(calls) == 1
    assert same(first, value)
    assert same(second, value)


def test_another_configuration_is_another_entry():
    compute, calls = counting({"x": 1})
    store.get_or_compute("kind", {"seed": 1}, compute)
    store.get_or_compute("kind", {"seed": 2}, compute)
    assert len(calls) == 2
    assert {entry.kind for entry in store.entries()} == {"kind"}
    assert len(store.entries()) == 2


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("file", ["array.npy", "record.json"])
def test_a_damaged_entry_is_said_and_computed_again(file):
    compute, calls = counting(np.arange(100))
    store.get_or_compute("kind", 1, compute)
    damage(store.entries()[0].path / file) if file == "array.npy" else (store.entries()[0].path / file).write_text("{")
    assert len(store.verify()) == 1
    with pytest.warns(store.DamagedEntryWarning, match="computed again"):
        again = store.get_or_compute("kind", 1, compute)
    assert np.array_equal(again, np.arange(100))
    assert len(calls) == 2
    assert store.verify() == []


def test_a_record_that_is_no_mapping_is_a_damaged_entry():
    compute, calls = counting(np.arange(3))
    store.get_or_compute("kind", {"seed": 1}, compute)
    next(store.root().glob("kind/*/record.json")).write_text("null")
    assert store.entries() == []
    assert [problem.partition(" ")[2] for problem in store.verify()] == ["has no readable record"]
    with pytest.warns(store.DamagedEntryWarning, match="no readable record"):
        store.get_or_compute("kind", {"seed": 1}, compute)
    assert len(calls) == 2


def test_an_error_leaves_nothing_behind():
    def fails():
        raise ValueError("no result")

    with pytest.raises(ValueError, match="no result"):
        store.get_or_compute("kind", 1, fails)
    assert store.entries() == []
    assert [path for path in store.root().rglob("*partial*")] == []


def test_an_object_array_is_refused_and_not_pickled():
    with pytest.raises(ValueError, match="allow_pickle"):
        store.get_or_compute("kind", 1, lambda: np.array([object()]))
    assert store.entries() == []


def test_remove_by_kind_and_by_key():
    for seed in range(3):
        store.get_or_compute("a", seed, lambda: {"x": 1})
    store.get_or_compute("b", 0, lambda: {"x": 1})
    assert store.remove("b") == 1
    assert store.remove(store.entries()[0].key[:12]) == 1
    assert store.remove("a") == 2
    with pytest.raises(BiaslibError, match="say which entries"):
        store.remove("")


def test_a_store_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "file" / "store"))
    with pytest.raises(BiaslibError, match="cannot write the store"):
        store.get_or_compute("kind", 1, lambda: {"x": 1})


PROGRAM = """
import os, sys, time
from biaslib import store
def compute():
    with open(sys.argv[1], "a") as log:
        log.write("computing\\n")
    time.sleep(float(sys.argv[2]))
    return {"pid": os.getpid()}
print(store.get_or_compute("kind", 1, compute)["pid"])
"""


def start(program, log, seconds):
    command = [sys.executable, str(program), str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_compute_once(tmp_path):
    program, log = tmp_path / "program.py", tmp_path / "log"
    program.write_text(PROGRAM)
    both = [start(program, log, 0.5) for _ in range(2)]
    printed = [process.communicate(timeout=60)[0] for process in both]
    assert printed[0] == printed[1] != ""
    assert log.read_text().count("computing") == 1


def test_a_killed_process_leaves_no_entry_and_no_lock(tmp_path):
    program, log = tmp_path / "program.py", tmp_path / "log"
    program.write_text(PROGRAM)
    victim = start(program, log, 60)
    while not log.exists():
        time.sleep(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert store.entries() == []
    heir = start(program, log, 0)
    assert heir.communicate(timeout=60)[0].strip() == str(heir.pid)


def seconds():
    return {entry.kind: entry.seconds for entry in store.entries()}


NAP = 1.0


def nap(length=NAP):
    time.sleep(length)
    return {"x": 1}


def test_waiting_for_another_computation_of_an_entry_is_not_computing():
    with ThreadPoolExecutor(1) as other:
        first = other.submit(store.get_or_compute, "inner", 1, nap)
        time.sleep(0.1)
        store.get_or_compute("outer", 1, lambda: store.get_or_compute("inner", 1, nap))
        first.result()
    assert seconds()["inner"] >= NAP
    assert seconds()["outer"] < NAP / 2


def test_waiting_for_the_threads_of_the_process_is_not_computing():
    with ThreadPoolExecutor(1) as other:
        first = other.submit(parallel.on_threads, 1, nap)
        time.sleep(0.1)
        store.get_or_compute("second", 1, lambda: parallel.on_threads(1, nap, 0.05))
        first.result()
    assert 0.05 <= seconds()["second"] < NAP / 2


def test_computing_an_entry_that_is_needed_first_is_computing():
    store.get_or_compute("outer", 1, lambda: store.get_or_compute("inner", 1, nap))
    assert seconds()["outer"] >= NAP


def test_the_file_beside_a_module_is_read_with_tuples(tmp_path):
    (tmp_path / "room.toml").write_text('sizes = [1, [2, 3]]\n[part]\nwords = ["a"]\n', encoding="utf-8")
    assert beside(str(tmp_path / "room.py")) == {"sizes": (1, (2, 3)), "part": {"words": ("a",)}}
