"""What an audit is asked, what it answers, and the folder that keeps the answer."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslib import store
from biaslib.audit.inputs import Binary, Table, listed
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval

_PAGE, VALUES = "report.html", "audit.json"
_MOST_PERMUTATIONS = 1_000_000  # hours, for a p that no family of tests asks for


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """What `audit.run` is given, which says what each of them is; a BiaslibError where they do not go together."""

    labels: Table
    target: str
    groups: Sequence[str]
    data: Path | None
    model: Any
    weights: str | Path | None
    predictions: Table | None
    masks: Path | None
    wanted: Sequence[str]
    unwanted: Sequence[str]
    train_labels: Table | None
    file_column: str | None
    output: int | None
    yes: Sequence[int]
    no: Sequence[int]
    group_outputs: Sequence[int]
    threshold: float | None
    size: int | None
    mean: Sequence[float] | None
    std: Sequence[float] | None
    crop: float | None
    batch: int | None
    corrected: bool
    permutations: int | None
    images: bool
    seed: int
    out: Path | None
    force: bool

    def __post_init__(self) -> None:
        if (self.model is None) == (self.predictions is None):
            raise BiaslibError("Give either a model or its predictions, one of the two.")
        if self.model is not None and self.data is None:
            raise BiaslibError("A model needs images: name their folder.")
        for_model = ("weights", "masks", "output", "yes", "no", "group_outputs", "size", "mean", "std", "crop", "batch")
        idle = [name for name in for_model if getattr(self, name) not in (None, ())]
        if self.predictions is not None and idle:
            verb, pronoun = ("has", "it") if len(idle) == 1 else ("have", "them")
            raise BiaslibError(
                f"{' and '.join(idle)} {verb} no effect beside predictions, as there is no model to ask: leave "
                f"{pronoun} out, or give the model."
            )
        roles = [*self.wanted, *self.unwanted]
        if roles and self.masks is None:
            raise BiaslibError(f"{roles[0]!r} is to be a region, but there are no masks: name their folder.")
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise BiaslibError(f"threshold must be a finite number, not {self.threshold}.")
        if self.permutations is not None and not 1 <= self.permutations <= _MOST_PERMUTATIONS:
            raise BiaslibError(f"permutations must be from 1 to {_MOST_PERMUTATIONS:,}, not {self.permutations}.")
        if self.group_outputs and len(self.group_outputs) != len(self.groups):
            groups, outputs = len(self.groups), len(self.group_outputs)
            raise BiaslibError(f"There are {groups} groups but {outputs} outputs for them: name one for each.")

    def check_place(self) -> None:
        """Refuses a place that a report cannot be written to, and one that holds what it is made of."""
        if self.out is None:
            return
        place = self.out.resolve()
        # a model or predictions may be a name: only what is a file lies anywhere
        named = (self.labels, self.predictions, self.train_labels, self.model)
        files = [Path(source) for source in named if isinstance(source, (str, Path)) and Path(source).is_file()]
        files += [Path(source) for source in (self.data, self.masks, self.weights) if source is not None]
        for name, path in (("the current folder", Path.cwd()), *((str(file), file) for file in files)):
            if path.resolve().is_relative_to(place):
                raise BiaslibError(f"{self.out} is or holds {name}: name a folder of its own for the report.")
        there = next(path for path in (place, *place.parents) if path.exists())
        if not there.is_dir():
            raise BiaslibError(f"{there} is a file: name a folder for the report.")
        if not os.access(there, os.W_OK):
            raise BiaslibError(
                f"{there} cannot be written: mend its permissions, or name another folder for the report."
            )

    def check_folder(self, key: str) -> None:
        """Refuses a folder that holds something else than the same audit, where that is not to be replaced."""
        # what begins with a dot is a system's, or was left by an audit that was killed while it wrote
        there = [] if self.out is None else sorted(path.name for path in self.out.glob("[!.]*"))
        if self.out is None or self.force or not there or _key(self.out) == key:
            return
        others = [name for name in there if name not in (_PAGE, VALUES)]
        if others:
            raise BiaslibError(
                f"{self.out} holds other files ({others[0]}): name a folder of its own for the report, or put it "
                "beside them with --force."
            )
        raise BiaslibError(
            f"{self.out} holds a report on another model, on other data or with other settings: name another folder, "
            "or replace it with --force."
        )

    def roles(self, regions: Iterable[str]) -> dict[str, str]:
        """Region -> wanted, unwanted or neutral; a BiaslibError for two roles, or one of a region that is not there."""
        roles = dict.fromkeys(regions, "neutral")
        for role, names in (("wanted", self.wanted), ("unwanted", self.unwanted)):
            for name in names:
                if name not in roles:
                    raise BiaslibError(f"There is no region {name!r}: the masks have {listed(list(roles))}.")
                if roles[name] not in ("neutral", role):
                    raise BiaslibError(
                        f"Region {name!r} cannot be wanted and unwanted at once: name it in one of the two."
                    )
                roles[name] = role
        return roles

    def described(self, roles: Mapping[str, str]) -> dict[str, str]:
        """The settings of a report, in words."""
        return {
            "labels": _name(self.labels),
            "images": _name(self.data),
            "target": self.target,
            "groups": ", ".join(self.groups),
            "predictions": _name(self.predictions),
            "threshold": "" if self.threshold is None else f"{self.threshold:g}",
            "masks": ", ".join(f"{region} ({role})" for region, role in roles.items()),
            "training labels": _name(self.train_labels),
            "pictures in the report": "" if self.images else "none",
            "correction": "Holm, over all tests of this report" if self.corrected else "none",
            "deals": str(self.permutations or ""),
            "seed": str(self.seed),
        }


@dataclass(frozen=True)
class Finding:
    """One thing that differs by more than chance: a "gap", "amplification" or "region", and p after correction."""

    kind: str
    of: str  # the group's column, or the region
    sentence: str
    p: float


@dataclass(frozen=True)
class Shown:
    """Images to look at: the mistakes that the model is surest of, in the cell of a group with the lowest accuracy."""

    group: str
    cell: str
    files: tuple[str, ...]  # the surest mistake first
    answers: tuple[float, ...]  # further from 0 for surer
    images: np.ndarray | None  # (k, S, S, 3) uint8, as the model sees them; None where the report holds no pictures
    maps: np.ndarray | None  # (k, h, w)


@dataclass(frozen=True)
class Audit:
    """Everything an audit found; the page and the JSON are made of this alone."""

    key: str  #: fingerprint of what was asked
    target: Binary  #: the column that the model tells
    groups: tuple[Binary, ...]  #: the columns that were compared
    settings: Mapping[str, str]  #: what was asked, in words
    subject: Mapping[str, str]  #: the model, in words
    numbers: Mapping[str, int]  #: images measured, unreadable, without labels; tests made
    warnings: tuple[str, ...]  #: what a reader must know first, such as a model that always gives the same answer
    findings: tuple[Finding, ...]  #: what differs by more than chance; empty where nothing does
    #: overall, counts, correlations, accuracies, gaps, visible, amplification and, where there are maps, attention,
    #: regions and regions_by_cell (see `audit.measurements`), p-values with and without correction; and trust (how
    #: reliable the measures are)
    tables: Mapping[str, pd.DataFrame]
    unmeasured: tuple[str, ...]  #: what could not be measured, and why
    notes: tuple[str, ...]  #: what a reader should know of the data
    shown: tuple[Shown, ...]  #: images to look at
    #: group -> cell -> (h, w) mean share of the target's map; the groups with a finding, else the first
    average_maps: Mapping[str, Mapping[str, np.ndarray]]
    about: Mapping[str, Any] = field(default_factory=dict)  #: versions, device, date

    def remarks(self) -> list[str]:
        """What the command says beside the findings: warnings, notes, and what could not be measured."""
        heads = {"warning": self.warnings, "biaslib": self.notes, "not measured": self.unmeasured}
        return [f"{head}: {sentence}" for head, sentences in heads.items() for sentence in sentences]

    def conclusions(self) -> list[str]:
        """A sentence for each finding, or one that there is none."""
        none = "nothing that these images can tell from chance; the report says how much they could have shown"
        return [finding.sentence for finding in self.findings] or [none]

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
                {"group": each.group, "cell": each.cell, "files": list(each.files), "answers": list(each.answers)}
                for each in self.shown
            ],
            "about": dict(self.about),
        }

    def write(self, page: str, out: Path) -> None:
        """Puts page and values into the folder, both whole before either takes its place."""
        text = json.dumps(self.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
        try:
            # the values, which name the audit, come first: an audit that is killed between the two is known again
            with store.replacing(out / _PAGE) as page_file, store.replacing(out / VALUES) as values_file:
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


def _name(source: Any) -> str:
    if source is None:
        return ""
    # a folder's name, not its place: a report is handed on
    return f"a table of {len(source):,} rows" if isinstance(source, pd.DataFrame) else Path(source).name


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return {name: _plain(getattr(value, name)) for name in ("estimate", "low", "high", "n")}
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value
