"""Time and memory of a call, measured so that a busy machine does not decide."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_memory(workload: str) -> dict[str, float]:
    """Bytes that a workload of `benchmarks.workloads` needs, in a process of its own: `added` by the call, `total`."""
    command = [sys.executable, "-m", "benchmarks.workloads", workload]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
