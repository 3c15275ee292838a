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
from distributed import Client

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


def two_cards(monkeypatch, **environment):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, value in {"BIASLIB_CORES": "16", **environment}.items():
        monkeypatch.setenv(name, value)
    return [place.get("CUDA_VISIBLE_DEVICES", "") for place in parallel.places()]


def test_as_many_processes_as_cards_each_with_its_own(monkeypatch):
    assert two_cards(monkeypatch) == ["0", "1"]
    assert two_cards(monkeypatch, BIASLIB_PER_CARD="2") == ["0", "1", "0", "1"]
    assert two_cards(monkeypatch, BIASLIB_CORES="3") == ["0", "1", "0"]
    assert two_cards(monkeypatch, BIASLIB_DEVICE="cuda:1", BIASLIB_PER_CARD="1") == ["1"]
    assert two_cards(monkeypatch, BIASLIB_DEVICE="cpu") == [""] * 16


def test_a_machine_whose_cards_are_named_for_it(monkeypatch):
    two_cards(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-7a")
    assert [place["CUDA_VISIBLE_DEVICES"] for place in parallel.places()] == ["5", "GPU-7a"]


@pytest.mark.parametrize("share", ["0", "x", "1.5"])
def test_a_share_of_a_card_that_is_none_is_one_sentence(monkeypatch, share):
    with pytest.raises(BiaslibError, match="BIASLIB_PER_CARD must be a whole number of at least 1"):
        two_cards(monkeypatch, BIASLIB_PER_CARD=share)


def test_workers_find_their_own_card_in_their_environment_and_shared_ones_serve_several_processes(monkeypatch):
    monkeypatch.setattr(parallel, "places", lambda: [{"CUDA_VISIBLE_DEVICES": "5"}])
    with parallel.workers() as (executor, at_once):
        assert at_once == 1
        assert executor.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result() == "5"
    seen = []
    with parallel.shared_workers() as address:
        monkeypatch.setenv("BIASLIB_SCHEDULER", address)
        for _ in range(2):  # each as another notebook would
            with parallel.workers() as (executor, at_once):
                assert at_once == 1
                assert executor.submit(os.getenv, "CUDA_VISIBLE_DEVICES").result() == "5"
                seen.append(executor.submit(os.getpid).result())
    assert seen[0] == seen[1] != os.getpid()
    assert gone(seen[0])


@contextlib.contextmanager
def cluster(*workers):
    """A scheduler and workers as a user starts them: their options and what they find in their environment."""
    address = f"tcp://127.0.0.1:{free_port()}"
    dask = [sys.executable, "-m", "dask"]
    port = address.rpartition(":")[2]
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(
            subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"])
        )
        stack.callback(scheduler.kill)
        for options, environment in workers:
            environment = {name: value for name, value in os.environ.items() if name != "BIASLIB_STORE"} | environment
            command = [*dask, "worker", address, "--nthreads", "1", "--no-dashboard", *options]
            worker = stack.enter_context(subprocess.Popen(command, env=environment))
            stack.callback(worker.terminate)
        with Client(address, timeout=30) as client:
            client.wait_for_workers(len(workers), timeout=60)
        yield address, scheduler


@pytest.mark.slow
def test_a_killed_worker_is_started_again_and_a_killed_scheduler_is_one_sentence(monkeypatch):
    with cluster(((), {})) as (address, scheduler):
        monkeypatch.setenv("BIASLIB_SCHEDULER", address)
        with parallel.workers() as (executor, _):
            first = executor.submit(os.getpid).result()
            long = executor.submit(time.sleep, 3)
            os.kill(first, signal.SIGKILL)
            long.result()
            assert executor.submit(os.getpid).result() != first

        def killed_meanwhile():
            with parallel.workers() as (executor, _):
                long = executor.submit(time.sleep, 600)
                scheduler.kill()
                long.result()

        with pytest.raises(BiaslibError, match="ended before the work was done"):
            killed_meanwhile()


@pytest.mark.slow
def test_a_worker_gets_the_store_and_one_that_cannot_see_it_says_so(monkeypatch, tmp_path):
    with cluster(((), {}), (("--resources", "GPU=1"), {})) as (address, _):
        monkeypatch.setenv("BIASLIB_SCHEDULER", address)
        with parallel.workers() as (executor, at_once):
            assert at_once == 1  # the one with a card
            assert executor.submit(os.getenv, "BIASLIB_STORE").result() == str(store.root().resolve())
    with cluster(((), {"BIASLIB_STORE": str(tmp_path / "another")})) as (address, _):
        monkeypatch.setenv("BIASLIB_SCHEDULER", address)
        with (
            pytest.raises(BiaslibError, match=r"keeps its results in .*another, which is not the store"),
            parallel.workers() as (executor, _),
        ):
            executor.submit(os.getpid).result()


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    address = f"tcp://127.0.0.1:{free_port()}"
    monkeypatch.setattr(parallel, "_PATIENCE", 0.5)
    monkeypatch.setenv("BIASLIB_SCHEDULER", address)
    with pytest.raises(BiaslibError, match="no Dask scheduler answers at tcp"), parallel.workers():
        pass


PROGRAM = """
import os, time
from biaslib.store import parallel

if __name__ == "__main__":
    with parallel.workers() as (executor, _):
        print(executor.submit(os.getpid).result(), flush=True)
        time.sleep(60)
"""


SHARED = PROGRAM.replace("workers()", "shared_workers() as os.environ['BIASLIB_SCHEDULER'], parallel.workers()")


@pytest.mark.slow
@pytest.mark.parametrize("text", [PROGRAM, SHARED])
def test_workers_end_with_the_process_that_started_them(tmp_path, monkeypatch, text):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    program = tmp_path / "program.py"
    program.write_text(text)
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    assert gone(worker)


@pytest.fixture
def one_core(store_of_the_module, monkeypatch):
    """One worker, which stays for the next test."""
    monkeypatch.setenv("BIASLIB_CORES", "1")


def test_without_a_scheduler_work_runs_in_processes_here(one_core):
    with parallel.workers() as (executor, at_once):
        assert at_once == 1
        assert executor.submit(abs, -3).result() == 3


@store.stored("squares")
def squared(key):
    return {"value": key**2}


def test_results_come_in_order_and_only_the_missing_are_computed(one_core, monkeypatch):
    assert squared.many([3, 1, 3]) == [{"value": 9}, {"value": 1}, {"value": 9}]
    monkeypatch.setattr(parallel, "workers", lambda: pytest.fail("nothing is missing"))
    assert squared.many([1, 3]) == [{"value": 1}, {"value": 9}]


@pytest.mark.slow
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


def test_a_dead_worker_is_replaced(one_core):
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


def test_a_worker_starts_no_workers(one_core):
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
