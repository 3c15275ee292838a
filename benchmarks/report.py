"""Figures beside their targets."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch

COLUMNS = "{:<66} {:>12} {:>12}  {}"


@dataclass(frozen=True)
class Figure:
    """One measured number; a target of None is there for comparison alone."""

    name: str
    value: float
    unit: str = ""
    bound: Literal["<=", ">="] | None = None
    target: float = float("nan")

    @property
    def met(self) -> bool:
        """Whether the target holds."""
        if self.bound is None:
            return True
        return self.value <= self.target if self.bound == "<=" else self.value >= self.target

    def __str__(self) -> str:
        target = f"{self.bound} {self.target:g}" if self.bound else ""
        verdict = ("pass" if self.met else "MISSED") if self.bound else ""
        return COLUMNS.format(self.name, f"{self.value:.3g} {self.unit}".strip(), target, verdict)


def publish(parts: Iterable[list[Figure | str]], path: Path) -> bool:
    """Prints each part's figures once they are known, writes all as JSON, and says whether every target was met.

    A line of text among the figures says why something was not measured.
    """
    print(COLUMNS.format("", "measured", "target", ""), flush=True)
    figures = []
    for part in parts:
        figures += [row for row in part if isinstance(row, Figure)]
        print(*part, sep="\n", flush=True)
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
    rows = [{**asdict(figure), "target": figure.target if figure.bound else None} for figure in figures]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"machine": machine, "figures": rows}, indent=2) + "\n")
    partial.replace(path)
    return all(figure.met for figure in figures)
