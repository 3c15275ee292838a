"""Kernels that begin as copies of one process that has the book's libraries: to import these anew takes seconds a page.

`python -m biaslib.book.forking` is that process: it imports, then makes a copy of itself for every line that it reads.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Fork = Callable[..., "Forked"]

_LIBRARIES = (
    "matplotlib_inline.backend_inline", "biaslib.book.recorded", "biaslib.chapters.page", "biaslib.attribution",
    "biaslib.recipes",
)  # fmt: skip


class Forked:
    """A kernel's process, which is not our child, as `subprocess.Popen` would have it."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid, self._file = pid, os.pidfd_open(pid)

    def poll(self) -> int | None:
        """0 when it has ended: how, only its parent is told."""
        return 0 if select.select([self._file], [], [], 0)[0] else None

    def wait(self) -> int:
        """0 as soon as it has ended."""
        select.select([self._file], [], [])
        os.close(self._file)
        return 0

    def send_signal(self, number: int) -> None:
        """Sends it a signal; an OSError where it has ended."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end; an OSError where it has."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it; an OSError where it has ended."""
        self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def kernels(environment: Mapping[str, str]) -> Iterator[Fork | None]:
    """A function that starts a kernel with an environment, in a folder; None where the system cannot fork like this.

    `environment` is what the libraries find, beside what this process has, when they are imported.
    """
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    ) as process:
        orders, answers = process.stdin, process.stdout
        assert orders is not None and answers is not None
        one_at_a_time = threading.Lock()

        def fork(command: list[str], *, env: Mapping[str, str], cwd: Any, **_: Any) -> Forked:
            arguments = command[command.index("ipykernel_launcher") + 1 :]
            with one_at_a_time:
                orders.write(json.dumps([arguments, dict(env), str(cwd)]) + "\n")
                orders.flush()
                return Forked(int(answers.readline()))

        yield fork


def main() -> None:
    """Imports, and makes a copy that becomes a kernel for each line of its arguments, environment and folder."""
    for library in _LIBRARIES:
        importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for a kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        if pid := os.fork():
            print(pid, flush=True)
        else:
            return _kernel(*json.loads(line))


def _kernel(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    from ipykernel.kernelapp import launch_new_instance

    os.setsid()  # signals go to the kernel and its own processes
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))  # it ends with that process
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    launch_new_instance(argv=arguments)


if __name__ == "__main__":
    main()
