"""The notebooks' kernels: on Linux, copies of one process that took seconds to import what nearly every page needs.

The first of a command is a process of its own, as one page alone needs less than all of that.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from biaslib.errors import PageError
from biaslib.store import fingerprint

_IMPORTED = ["ipykernel.kernelapp", "ipykernel.debugger", "matplotlib_inline.backend_inline", "seaborn", "torch"]
_IMPORTED += ["distributed", "ipywidgets", "sklearn.linear_model", "timm"]
# how a kernel draws, and that its debugger need not say what it cannot see of Python's own code
_OF_A_KERNEL = {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
# at its end all that was registered is done, but nothing taken apart, which takes each kernel most of a second
_SERVE = f"import atexit, os; atexit.register(os._exit, 0); from {__name__} import serve; serve()"
_BEGUN = itertools.count()
_ONE_AT_A_TIME = threading.Lock()  # the pages of a build begin in threads of one process
# what a kernel, or the event loop of a Dask client in it, logs has no place on a page
_QUIET = (
    "--log-level=CRITICAL",
    "--IPKernelApp.exec_lines=__import__('logging').getLogger('asyncio').setLevel('CRITICAL')",
)


def manager(environment: Mapping[str, str], connection: Path) -> type:
    """The class of a manager of kernels of this very interpreter, whatever is registered as python3.

    A kernel finds `environment` beside this process's own; `connection` is the file that says how to reach it.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", *_QUIET]
    # the bars, the store and the threads are the page's own; what libraries read as they are imported is not
    shared = {k: v for k, v in environment.items() if not k.startswith(("BIASLIB_", "OMP_", "MKL_", "OPENBLAS_"))}
    with _ONE_AT_A_TIME:  # and before free ports are chosen: a kernel that begins seconds later may find them taken
        copied = next(_BEGUN) and hasattr(os, "pidfd_open")
        server = _server(tuple(shared.items())) if copied else None

    class ThisInterpreter(AsyncKernelManager):
        kernel_spec = KernelSpec(
            argv=command, display_name="Python 3", language="python", env={**environment, **_OF_A_KERNEL}
        )
        connection_file = str(connection)

        async def _async_launch_kernel(self, kernel_cmd: list[str], **options: Any) -> None:
            if server is None:
                return await super()._async_launch_kernel(kernel_cmd, **options)
            provisioner: Any = self.provisioner
            begun = _Copy(server, arguments=kernel_cmd[3:], environ=options["env"], folder=str(options["cwd"]))
            provisioner.process, provisioner.pid, provisioner.pgid = begun, begun.pid, begun.pid
            self._reconcile_connection_info(provisioner.connection_info)

    return ThisInterpreter


class _Copy:
    """A kernel that another process forked, with what jupyter_client asks of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, server: Any, **wanted: Any) -> None:
        with _ONE_AT_A_TIME:
            print(json.dumps(wanted), file=server.stdin, flush=True)
            self.pid = int(_answer(server))
        self._handle = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """None while it runs; the status that it ended with is known to its parent alone."""
        return 0 if select.select([self._handle], [], [], 0)[0] else None

    def wait(self) -> int:
        select.select([self._handle], [], [])
        os.close(self._handle)
        return 0

    def send_signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._handle, number)

    kill = functools.partialmethod(send_signal, signal.SIGKILL)
    terminate = functools.partialmethod(send_signal, signal.SIGTERM)


@functools.cache
def _server(environment: tuple[tuple[str, str], ...]) -> Any:
    """A process that runs `serve` until this one ends; an interrupt from the keyboard is not for it."""
    server: Any = subprocess.Popen(
        [sys.executable, "-c", _SERVE], env={**os.environ, **dict(environment), **_OF_A_KERNEL},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    atexit.register(server.__exit__, None, None, None)  # closes its input, on which it ends
    _answer(server)  # once all is imported
    return server


def _answer(server: Any) -> str:
    if not (line := server.stdout.readline()):
        raise PageError("No notebook can be run: a process ended that imports what they need. Its error is above.")
    return str(line)


def serve() -> None:
    """Imports, says so, then becomes a kernel in a new process for every line of the input, and writes its number."""
    for name in _IMPORTED:
        importlib.import_module(name)
    fingerprint.parse_all()
    gc.freeze()  # or each copy would look through all of it again and again
    print("ready", flush=True)
    for line in sys.stdin:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass  # those that have ended
        if not (number := os.fork()):
            _become(**json.loads(line))
            break
        print(number, flush=True)


def _become(*, arguments: list[str], environ: dict[str, str], folder: str) -> None:
    import torch
    from ipykernel.kernelapp import IPKernelApp
    from threadpoolctl import threadpool_limits

    os.setsid()  # so that a signal to the kernel reaches its own worker processes
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    if (threads := environ.get("OMP_NUM_THREADS", "")).isdigit():
        threadpool_limits(int(threads))
        torch.set_num_threads(int(threads))
    IPKernelApp.launch_instance(argv=[*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])
