"""Where independent work runs: on this machine's cores, or on the workers of a Dask cluster."""

import contextlib
import functools
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from biaslib.errors import BiaslibError
from biaslib.store import results as store

_PATIENCE = 10.0  # seconds until a scheduler that does not answer counts as absent
_ONE_AT_A_TIME = threading.RLock()  # what it calls may compute what it needs first


def cores() -> int:
    """The number of cores this process may use ($BIASLIB_CORES, else what the system grants)."""
    chosen = os.environ.get("BIASLIB_CORES")
    if chosen:
        if not chosen.isdecimal() or int(chosen) == 0:
            raise BiaslibError(f"BIASLIB_CORES must be a whole number of at least 1, not {chosen!r}.")
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_threads(count: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function with torch on so many threads: the last bits of its result depend on their number.

    Calls from several threads of one process wait for each other, as torch's random state is the process's own.
    """
    import torch

    with contextlib.ExitStack() as stack:
        with store.waiting():
            stack.enter_context(_ONE_AT_A_TIME)
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(count)
        return function(*arguments)


@contextlib.contextmanager
def workers() -> Iterator[tuple[Executor, int]]:
    """An executor for independent work, and how many pieces it does at once.

    The work goes to the Dask scheduler at $BIASLIB_SCHEDULER, such as tcp://host:8786, else to one process for each
    core of this machine. A `BiaslibError` says where no scheduler answers, it has no workers, or Dask is not installed.
    """
    address = os.environ.get("BIASLIB_SCHEDULER")
    try:
        with _dask(address) if address else _processes() as found:
            yield found
    except (BrokenExecutor, CancelledError, ConnectionError) as error:
        who = f"the Dask scheduler at {address} or its workers" if address else "a worker process"
        raise BiaslibError(
            f"{who} ended before the work was done (killed, or out of memory?): what was finished is kept, and the "
            "same command goes on from there."
        ) from error


@contextlib.contextmanager
def shared_workers() -> Iterator[str]:
    """Workers of this machine, one for each core, that several processes can send work to: their scheduler's address.

    They stay until the end, so that what each has to import, seconds of it, is imported once.
    """
    import dask
    from distributed import LocalCluster

    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    # Dask's choice hands memory back after every tensor, glibc's after large ones; that doubles the time of a training
    kept = {name: str(2**30) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")}
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": threads | kept}),
        LocalCluster(
            n_workers=cores(), threads_per_worker=1, memory_limit=None, dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
    ):  # fmt: skip
        yield cluster.scheduler_address


@contextlib.contextmanager
def _processes() -> Iterator[tuple[Executor, int]]:
    pool = _pool(cores(), (str(store.root()), os.environ.get("BIASLIB_DATA")), _last_edit())
    try:
        yield pool, cores()
    except BaseException:
        # what was begun would go on unseen, and a pool whose worker died is of no more use
        _pool.cache_clear()
        pool.shutdown(cancel_futures=True)
        raise


@functools.lru_cache(maxsize=1)
def _pool(size: int, folders: tuple[str | None, ...], edited: int) -> ProcessPoolExecutor:
    """Workers that stay for the next call, as each takes seconds to start; new ones for other folders or newer code."""
    # a forked child would inherit torch's thread pool in an unknown state
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(size, mp_context=spawn, initializer=_end_with_parent)


def _last_edit() -> int:
    return max(file.stat().st_mtime_ns for file in Path(__file__).parents[1].rglob("*.py"))


def _end_with_parent() -> None:
    """Lets a worker end when the process that started it was killed, and without a word when it is interrupted."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise BiaslibError(
            f"sending work to the scheduler at {address} needs Dask: run `pip install 'dask[distributed]'`, or leave "
            "--scheduler and $BIASLIB_SCHEDULER out."
        ) from error
    try:
        client = Client(address, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise BiaslibError(
            f"no Dask scheduler answers at {address}: start one with `dask scheduler`, or leave --scheduler out."
        ) from error
    try:
        threads = sum(client.nthreads().values())
        if threads == 0:
            raise BiaslibError(f"the Dask scheduler at {address} has no workers: start some with `dask worker`.")
        yield client.get_executor(pure=False), threads
    finally:
        client.close()
