"""Time and memory of a call, measured so that a busy machine does not decide."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Times:
    """Seconds of several calls that took turns, (rounds, calls)."""

    seconds: np.ndarray

    def of(self, call: int) -> float:
        """The median time of a call."""
        return float(np.median(self.seconds[:, call]))

    def ratio(self, call: int, beside: int) -> float:
        """The median over the rounds of one call's time beside another's: a ratio of neighbours in time."""
        return float(np.median(self.seconds[:, call] / self.seconds[:, beside]))


def in_turn(*calls: Callable[[], Any], rounds: int) -> Times:
    """Every call once, then every call again: what else the machine does meets all of them alike."""
    return Times(np.array([[seconds(call) for call in calls] for _ in range(rounds)]))


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_memory(workload: str) -> dict[str, float]:
    """Bytes that a workload of `benchmarks.workloads` needs, in a process of its own: `added` by the call, `total`."""
    command = [sys.executable, "-m", "benchmarks.workloads", workload]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
