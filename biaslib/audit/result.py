"""What an audit found, as plain tables, and how it is kept."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslib import store
from biaslib.audit.tables import Binary
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval

PAGE, VALUES = "report.html", "audit.json"


@dataclass(frozen=True)
class Finding:
    """One thing that differs by more than chance, after correction.

    Attributes:
        kind: "gap", "amplification" or "region".
        of: the group's column, or the region.
        sentence: what was found.
        p: corrected.
    """

    kind: str
    of: str
    sentence: str
    p: float


@dataclass(frozen=True)
class Shown:
    """Images to look at: the mistakes that the model is surest of, in the cell it serves worst.

    Attributes:
        group: whose cells were compared.
        cell: the one with the lowest accuracy.
        files: names, the surest mistake first.
        answers: of the model, further from 0 for surer.
        images: (k, S, S, 3) uint8, as the model sees them; None where the report is to hold no pictures.
        maps: (k, h, w), or None.
    """

    group: str
    cell: str
    files: tuple[str, ...]
    answers: tuple[float, ...]
    images: np.ndarray | None
    maps: np.ndarray | None


@dataclass(frozen=True)
class Audit:
    """Everything an audit found; the page and the JSON are made of this alone.

    Attributes:
        key: fingerprint of what was asked.
        target: the column that the model tells.
        groups: the columns that were compared.
        settings: what was asked, in words.
        subject: the model, in words.
        numbers: images measured, unreadable, without labels; tests made.
        warnings: what a reader must know first, such as a model that always gives the same answer.
        findings: what differs by more than chance; empty where nothing does.
        tables: overall, counts, correlations, accuracies, gaps, visible, amplification and, where there are maps,
            attention, regions and regions_by_cell (see `audit.measures`), p-values with and without correction; and
            trust (`audit.reliability`).
        unmeasured: what could not be measured, and why.
        notes: what a reader should know of the data.
        shown: images to look at.
        average_maps: group -> cell -> (h, w) mean share of the target's map; the groups with a finding, else the first.
        about: versions, device, date.
    """

    key: str
    target: Binary
    groups: tuple[Binary, ...]
    settings: Mapping[str, str]
    subject: Mapping[str, str]
    numbers: Mapping[str, int]
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]
    tables: Mapping[str, pd.DataFrame]
    unmeasured: tuple[str, ...]
    notes: tuple[str, ...]
    shown: tuple[Shown, ...]
    average_maps: Mapping[str, Mapping[str, np.ndarray]]
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values: an interval is an object of estimate, low, high and n; undefined is null."""
        return {
            "key": self.key,
            "target": {"column": self.target.name, "values": list(self.target.values)},
            "groups": [{"column": group.name, "values": list(group.values)} for group in self.groups],
            "settings": dict(self.settings),
            "model": dict(self.subject),
            "numbers": dict(self.numbers),
            "warnings": list(self.warnings),
            "findings": [vars(finding) for finding in self.findings],
            "tables": {name: [_plain(row) for row in table.to_dict("records")] for name, table in self.tables.items()},
            "unmeasured": list(self.unmeasured),
            "notes": list(self.notes),
            "shown": [
                {"group": one.group, "cell": one.cell, "files": list(one.files), "answers": list(one.answers)}
                for one in self.shown
            ],
            "about": dict(self.about),
        }


def check_place(out: Path, inputs: Iterable[Path]) -> None:
    """Refuses a place that a report cannot be written to, and one that holds what it is made of.

    Args:
        out: folder for the report.
        inputs: the files and folders that are read.

    Raises:
        BiaslibError: where the folder is one of them, the current one, or above either; a file; or not to be written.
    """
    place = out.resolve()
    for name, one in (("the current folder", Path.cwd()), *((str(path), path) for path in inputs)):
        if one.resolve().is_relative_to(place):
            raise BiaslibError(f"{out} is or holds {name}: name a folder of its own for the report.")
    there = next(path for path in (place, *place.parents) if path.exists())
    if not there.is_dir():
        raise BiaslibError(f"{there} is a file: name a folder for the report.")
    if not os.access(there, os.W_OK):
        raise BiaslibError(f"{there} cannot be written: mend its permissions, or name another folder for the report.")


def check_folder(out: Path, key: str, *, force: bool) -> None:
    """Refuses a folder that holds something else than the same audit.

    Raises:
        BiaslibError: where something is there and is not to be replaced.
    """
    # what begins with a dot is a system's, or was left by an audit that was killed while it wrote
    there = sorted(path.name for path in out.glob("[!.]*"))
    if force or not there or _key(out) == key:
        return
    others = [name for name in there if name not in (PAGE, VALUES)]
    if others:
        raise BiaslibError(
            f"{out} holds other files ({others[0]}): name a folder of its own for the report, or put it beside them "
            "with --force."
        )
    raise BiaslibError(
        f"{out} holds a report on another model, on other data or with other settings: name another folder, or replace "
        "it with --force."
    )


def write(audit: Audit, page: str, out: Path) -> None:
    """Puts page and values into the folder, both whole before either takes its place; other files stay as they are.

    Raises:
        BiaslibError: where they cannot be written.
    """
    text = json.dumps(audit.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
    try:
        # the values, which name the audit, come first: an audit that is killed between the two is known again
        with store.replacing(out / PAGE) as page_file, store.replacing(out / VALUES) as values_file:
            page_file.write_text(page, encoding="utf-8")
            values_file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BiaslibError(
            f"The report cannot be written to {out}: {error.strerror}; make room and try again."
        ) from error


def _key(out: Path) -> str | None:
    try:
        return str(json.loads((out / VALUES).read_text(encoding="utf-8"))["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return {name: _plain(getattr(value, name)) for name in ("estimate", "low", "high", "n")}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value
