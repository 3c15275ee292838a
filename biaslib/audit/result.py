"""What an audit found, as plain tables, and how it is kept."""

import json
import shutil
from collections.abc import Mapping
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
        images: (k, S, S, 3) uint8, as the model sees them.
        maps: (k, h, w), or None.
    """

    group: str
    cell: str
    files: tuple[str, ...]
    answers: tuple[float, ...]
    images: np.ndarray
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
        findings: what differs by more than chance; empty where nothing does.
        tables: counts, correlations, accuracies, gaps, visible, amplification and, where there are maps, attention,
            regions and regions_by_cell (see `audit.measures`); p-values with and without correction.
        unmeasured: what could not be measured, and why.
        notes: what a reader should know of the data.
        shown: images to look at.
        average_maps: cell -> (h, w) mean share of the target's map, for the first group.
        about: versions, device, date.
    """

    key: str
    target: Binary
    groups: tuple[Binary, ...]
    settings: Mapping[str, str]
    subject: Mapping[str, str]
    numbers: Mapping[str, int]
    findings: tuple[Finding, ...]
    tables: Mapping[str, pd.DataFrame]
    unmeasured: tuple[str, ...]
    notes: tuple[str, ...]
    shown: tuple[Shown, ...]
    average_maps: Mapping[str, np.ndarray]
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


def check_folder(out: Path, key: str, *, force: bool) -> None:
    """Refuses a folder that holds something else than the same audit.

    Raises:
        BiaslibError: where a file is in the way.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise BiaslibError(f"{out} is a file: name a folder for the report.")
    others = sorted(path.name for path in out.iterdir() if path.name not in (PAGE, VALUES))
    if others:
        raise BiaslibError(f"{out} holds other files ({others[0]}): name a folder of its own for the report.")
    if any(out.iterdir()) and not force and _key(out) != key:
        raise BiaslibError(
            f"{out} holds a report on other data or with other settings: name another folder, or replace it with "
            "--force."
        )


def write(audit: Audit, page: str, out: Path) -> None:
    """Puts page and values into the folder at once; a report that is there is replaced."""
    with store.replacing(out) as folder:
        folder.mkdir()
        (folder / PAGE).write_text(page, encoding="utf-8")
        text = json.dumps(audit.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
        (folder / VALUES).write_text(text + "\n", encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)


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
