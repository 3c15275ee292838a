"""Where independent work runs: on this machine's cores, or on the workers of a Dask cluster."""

import contextlib
import ctypes
import functools
import logging
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from biaslib.errors import BiaslibError, refused
from biaslib.store import results as store

_PATIENCE = 10.0  # seconds until a scheduler that does not answer counts as absent
# what `keep_memory` sets, as the environment of a process that is to be started
KEEP_MEMORY: Final = {name: str(2**30) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")}
_ONE_AT_A_TIME = threading.RLock()  # what it calls may compute what it needs first


def cores() -> int:
    """The number of cores this process may use ($BIASLIB_CORES, else what the system grants)."""
    if os.environ.get("BIASLIB_CORES"):
        return _number_in("BIASLIB_CORES")
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def places() -> list[dict[str, str]]:
    """The environment of every worker process here: one a card where networks compute on cards, else one a core.

    $BIASLIB_PER_CARD processes share a card (1, as two large networks may not fit). Each sees its own card alone.
    """
    import torch

    chosen = os.environ.get("BIASLIB_DEVICE", "cuda")
    if not torch.cuda.is_available() or not chosen.startswith("cuda"):
        return [{}] * cores()
    share = _number_in("BIASLIB_PER_CARD")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = visible.split(",") if visible else [str(card) for card in range(torch.cuda.device_count())]
    if ":" in chosen:
        cards = [cards[int(chosen.partition(":")[2])]]
    # card after card, so that the first processes do not share one
    return [{"CUDA_VISIBLE_DEVICES": card, "BIASLIB_DEVICE": "cuda"} for card in cards * share][: cores()]


def _number_in(variable: str) -> int:
    """What a variable of the environment says, 1 where it is not set."""
    chosen = os.environ.get(variable, "1")
    if not chosen.isdecimal() or int(chosen) == 0:
        raise BiaslibError(f"{variable} must be a whole number of at least 1, not {chosen!r}.")
    return int(chosen)


def keep_memory() -> None:
    """Lets this process keep what it frees: glibc hands large batches back at once, which doubles a training's time."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        allocator = ctypes.CDLL(None)
        for parameter in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            if not allocator.mallopt(parameter, 2**30):
                allocator.mallopt(parameter, 2**25)  # the most that some versions take


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

    The work goes to the Dask scheduler at $BIASLIB_SCHEDULER, such as tcp://host:8786, else to processes of this
    machine (`places`). Where workers of the cluster offer the resource GPU, it goes to these alone. A `BiaslibError`
    says where no scheduler answers, it has no workers, one of them cannot see the store, or Dask is not installed.
    """
    address = os.environ.get("BIASLIB_SCHEDULER")
    try:
        with _dask(address) if address else _processes() as found:
            yield found
    except (BrokenExecutor, CancelledError, ConnectionError) as error:
        who = f"the Dask scheduler at {address} or its workers" if address else "a worker process"
        raise refused("worker that ended", who=who) from error


@contextlib.contextmanager
def shared_workers() -> Iterator[str]:
    """Workers of this machine (`places`) that several processes can send work to: their scheduler's address.

    They stay until the end, so that what each has to import, seconds of it, is imported once.
    """
    import dask
    from distributed import Client, LocalCluster, WorkerPlugin

    ours = places()

    class OneCard(WorkerPlugin):
        """Tells each worker, also one that is started again, which card is its own."""

        def setup(self, worker: Any) -> None:
            os.environ.update(ours[worker.name])  # a LocalCluster's are numbers

    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    # Dask's own choice would hand memory back after every tensor
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": threads | KEEP_MEMORY}),
        LocalCluster(
            n_workers=len(ours), threads_per_worker=1, memory_limit=None, dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
    ):  # fmt: skip
        if any(ours):
            with Client(cluster) as client:
                client.register_plugin(OneCard())
        yield cluster.scheduler_address


@contextlib.contextmanager
def _processes() -> Iterator[tuple[Executor, int]]:
    ours = tuple(tuple(place.items()) for place in places())
    last_edit = max(file.stat().st_mtime_ns for file in Path(__file__).parents[1].rglob("*.py"))
    pool = _pool(ours, (str(store.root()), os.environ.get("BIASLIB_DATA")), last_edit)
    try:
        yield pool, len(ours)
    except BaseException:
        # what was begun would go on unseen, and a pool whose worker died is of no more use
        _pool.cache_clear()
        pool.shutdown(cancel_futures=True)
        raise


@functools.lru_cache(maxsize=1)
def _pool(ours: tuple[Any, ...], folders: tuple[str | None, ...], edited: int) -> ProcessPoolExecutor:
    """Workers that stay for the next call, as each takes seconds to start; new ones for other folders or newer code."""
    # a forked child would inherit torch's thread pool in an unknown state
    spawn = multiprocessing.get_context("spawn")
    waiting = spawn.SimpleQueue()
    for place in ours:
        waiting.put(place)
    return ProcessPoolExecutor(len(ours), mp_context=spawn, initializer=_begin, initargs=(waiting,))


def _begin(waiting: Any) -> None:
    """Gives a worker its place, and lets it end with the process that started it, and without a word if interrupted."""
    os.environ.update(waiting.get())
    keep_memory()
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
        raise refused("scheduler without Dask", address=address) from error
    try:
        client = Client(address, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise refused("scheduler that does not answer", address=address) from error
    try:
        known = client.scheduler_info(n_workers=-1)["workers"].values()
        if not known:
            raise BiaslibError(f"the Dask scheduler at {address} has no workers: start some with `dask worker`.")
        cards = sum(int(worker.get("resources", {}).get("GPU", 0)) for worker in known)
        asked = {"resources": {"GPU": 1}} if cards else {}
        executor = client.get_executor(pure=False, **asked)
        # work is sent with the store that it belongs to: a worker without it would train again what is there
        place = str(store.root().resolve()), store.mark()
        executor.submit = functools.partial(executor.submit, _in_store, place)
        yield executor, cards or sum(worker["nthreads"] for worker in known)
    finally:
        client.close()


def _in_store(place: tuple[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives, computed by a worker; a BiaslibError where that does not see the sender's store."""
    folder, mark = place
    os.environ.setdefault("BIASLIB_STORE", folder)
    if store.mark(make=False) != mark:
        raise refused("worker with another store", node=platform.node(), own=store.root(), folder=folder)
    return function(*arguments)
