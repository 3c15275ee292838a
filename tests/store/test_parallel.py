import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from biaslib import store
from biaslib.errors import BiaslibError
from biaslib.store import parallel


def free_port():
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def is_alive(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def gone(process_id, *, within=20):
    deadline = time.monotonic() + within
    while is_alive(process_id) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not is_alive(process_id)


def test_cores_can_be_limited(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "3")
    assert parallel.cores() == 3
    monkeypatch.delenv("BIASLIB_CORES")
    assert parallel.cores() >= 1


@pytest.mark.parametrize("chosen", ["x", "0", "-1", "1.5"])
def test_a_number_of_cores_that_is_none_is_one_sentence(monkeypatch, chosen):
    monkeypatch.setenv("BIASLIB_CORES", chosen)
    with pytest.raises(BiaslibError, match=f"BIASLIB_CORES must be a whole number of at least 1, not '{chosen}'"):
        parallel.cores()


def test_single_threaded_gives_the_threads_back_even_after_an_error():
    before = torch.get_num_threads()
    assert parallel.on_threads(1, torch.get_num_threads) == 1
    with pytest.raises(ZeroDivisionError):
        parallel.on_threads(1, lambda: 1 / 0)
    assert torch.get_num_threads() == before


def test_without_a_scheduler_work_runs_in_processes_here(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    with parallel.workers() as (executor, at_once):
        assert at_once == 1
        assert executor.submit(abs, -3).result() == 3


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    address = f"tcp://127.0.0.1:{free_port()}"
    monkeypatch.setattr(parallel, "_PATIENCE", 0.5)
    monkeypatch.setenv("BIASLIB_SCHEDULER", address)
    with pytest.raises(BiaslibError, match="no Dask scheduler answers at tcp"), parallel.workers():
        pass


def test_shared_workers_serve_several_processes_in_turn(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    seen = []
    with parallel.shared_workers() as address:
        monkeypatch.setenv("BIASLIB_SCHEDULER", address)
        for _ in range(2):  # each as another notebook would
            with parallel.workers() as (executor, at_once):
                assert at_once == 1
                seen.append(executor.submit(os.getpid).result())
    assert seen[0] == seen[1] != os.getpid()
    assert gone(seen[0])


PROGRAM = """
import os, time
from biaslib.store import parallel

if __name__ == "__main__":
    with parallel.workers() as (executor, _):
        print(executor.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


SHARED = PROGRAM.replace("workers()", "shared_workers() as os.environ['BIASLIB_SCHEDULER'], parallel.workers()")


@pytest.mark.parametrize("text", [PROGRAM, SHARED])
def test_workers_end_with_the_process_that_started_them(tmp_path, monkeypatch, text):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    program = tmp_path / "program.py"
    program.write_text(text)
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    assert gone(worker)


@store.stored("squares")
def squared(key):
    return {"value": key**2}


def test_results_come_in_order_and_only_the_missing_are_computed(monkeypatch):
    assert squared.many([3, 1, 3]) == [{"value": 9}, {"value": 1}, {"value": 9}]
    monkeypatch.setattr(parallel, "workers", lambda: pytest.fail("nothing is missing"))
    assert squared.many([1, 3]) == [{"value": 1}, {"value": 9}]


def test_workers_stay_for_the_next_call_and_go_after_an_error(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")

    def worker():
        with parallel.workers() as (executor, _):
            return executor.submit(os.getpid).result()

    first = worker()
    assert worker() == first
    with pytest.raises(ZeroDivisionError), parallel.workers() as (executor, _):
        executor.submit(divmod, 1, 0).result()
    assert worker() != first


def test_a_dead_worker_is_replaced(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    with pytest.raises(BiaslibError, match="ended before the work was done"), parallel.workers() as (executor, _):
        executor.submit(os._exit, 1).result()
    with parallel.workers() as (executor, _):
        assert executor.submit(abs, -3).result() == 3


@store.stored("nested")
def nested(key):
    inner = process.many([key, key + 1])
    return {"own": os.getpid(), "inner": inner[0]["process"]}


@store.stored("processes")
def process(key):
    return {"process": os.getpid()}


def test_a_worker_starts_no_workers(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    (found,) = nested.many([1])
    assert found["own"] == found["inner"] != os.getpid()


@store.stored("nap")
def napping(key):
    time.sleep(1)
    return {"key": key}


def test_waiting_for_a_worker_is_not_computing(monkeypatch):
    @contextlib.contextmanager
    def busy(scheduler=None):
        with ThreadPoolExecutor(1) as executor:  # as a cluster that others use: it does less at once than is asked
            yield executor, 3

    monkeypatch.setattr(parallel, "workers", busy)
    assert napping.many([1, 2, 3]) == [{"key": 1}, {"key": 2}, {"key": 3}]
    assert all(1 <= entry.seconds < 1.5 for entry in store.entries())
    assert len(store.entries()) == 3
