"""What an audit is asked, what it answers, and the folder that keeps the answer."""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from biaslib import store
from biaslib.audit.inputs import Binary
from biaslib.audit.tables import Table, listed
from biaslib.errors import BiaslibError, refused
from biaslib.statistics import Interval

PAGE, VALUES, ANSWERS, CARDS = "report.html", "audit.json", "answers.csv", ("model_card.md", "annex.md")
VERSION = "3.0"  # of `audit.json`, which `schema.json` describes; it says how this number rises
_MOST_PERMUTATIONS = 1_000_000  # hours, for a p that no family of tests asks for


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The arguments of `audit.run`, paths also as text; a `BiaslibError` where they do not go together."""

    labels: Table  #: CSV, parquet or data frame, one row an image
    target: str | Sequence[str]  #: column of what the model tells, with two values; the tests of several are one family
    groups: str | Sequence[str]  #: columns of the groups; of more than two values, up to 12, each is a group of its own
    bins: Mapping[str, Sequence[float]] | None = None  #: group -> edges, for a column of numbers: {"age": [18, 40, 65]}
    intersections: bool = False  #: whether combinations of the groups' values are groups, too
    drop_missing: bool = False  #: leave out rows without a value, which are refused otherwise
    cluster: str | None = None  #: column of the patient, or whatever else makes images depend on each other
    train_labels: Table | None = None  #: of the training images, for amplification; None: the labels stand in
    file_column: str | None = None  #: column with the images' names
    data: Path | None = None  #: folder of the images; not needed for predictions
    #: what to audit, see `model.model_under_audit`; **some forms of it run code that comes with them**
    model: str | Path | nn.Module | None = None
    weights: str | Path | None = None  #: of an architecture's name
    predictions: Table | Sequence[str] | None = None  #: instead of a model: a column of the labels a target, or a table
    #: other predictions, weights or model to compare with on the same images; tables that describe it end in _other
    against: Table | nn.Module | None = None
    #: predictions, weights or models of the same training with other seeds, at least two
    retrained: Sequence[Table | nn.Module] = ()
    output: int | Sequence[int] | None = None  #: the model's for each target, from 0; None: it has one, or two classes
    yes: Sequence[int] = ()  #: of a model whose largest output wins, the classes that mean yes
    no: Sequence[int] = ()  #: the classes that mean no; empty: all others
    group_outputs: Sequence[int] = ()  #: its outputs for the groups, in their order
    #: above it an output, or a predicted score, says yes; None: 0, and predictions are as the labels are
    threshold: float | None = None
    #: of maps: grad-cam, rollout, integrated-gradients, occlusion or none; None: the first that fits (see `model.WAYS`)
    attribution: str | None = None
    layer: str | None = None  #: whose output Grad-CAM takes as the map, by its name in the model; None: the last map
    #: folder of masks of one region, named as the folder, or of one such folder a region; or a file in COCO's JSON
    masks: Path | None = None
    mask_value: int | None = None  #: where masks are label maps: the value that is the region
    wanted: Sequence[str] = ()  #: regions that the model is meant to look at: a map that avoids one is a finding
    #: regions that it is not meant to look at; the regions with neither role are described, not tested
    unwanted: Sequence[str] = ()
    size: int | None = None  #: of the model's images in pixels; None: its own, else 224
    mean: Sequence[float] | None = None  #: is subtracted from pixels in [0, 1]; None: the model's own, else ImageNet's
    std: Sequence[float] | None = None  #: that they are divided by; None: likewise
    crop: float | None = None  #: share of the shorter side that is kept; None: the model's own, else all
    squash: bool | None = None  #: resize both sides, so that without crop a picture is seen whole; None: the model's
    batch: int | None = None  #: images at once; None: 32
    margin: float = 0.05  #: how large a gap in accuracy must be to matter, in (0, 1)
    corrected: bool = True  #: p-values by Holm over all tests of the audit
    #: of the answers, among images of equal labels, to test an amplification, whose p is at least 1 / (1 +
    #: permutations); None: as many as the corrected test needs, where that takes minutes, and at most 499 where it
    #: needs fewer. With too few it is not tested, and the report says so.
    permutations: int | None = None
    deals: int | None = None  #: the first edition's name of `permutations`
    discover: bool = False  #: look for slices of images in which the model errs more, whatever the groups
    repair: bool = False  #: measure what thresholds for each group, and a last layer trained anew, would change
    seed: int = 0  #: of the bootstrap and the permutations
    images: bool = True  #: whether the report may hold pictures; without them it names the files only
    title: str = ""  #: of the report; empty: target and groups
    author: str = ""  #: who answers for it
    #: folder for `report.html`, `audit.json`, `answers.csv`, `model_card.md` and `annex.md`; None writes nothing
    out: Path | None = None
    force: bool = False  #: replace a report that is there

    def __post_init__(self) -> None:
        kinds = {"data": Path, "masks": Path, "out": Path, **dict.fromkeys(("yes", "no", "mean", "std"), tuple)}
        read = {name: kind(getattr(self, name)) for name, kind in kinds.items() if getattr(self, name) is not None}
        read["groups"] = (self.groups,) if isinstance(self.groups, str) else tuple(self.groups)
        read["permutations"] = self.deals if self.permutations is None else self.permutations
        for name in ("target", "output", "predictions"):
            if isinstance(given := getattr(self, name), Iterable) and not isinstance(given, (str, pd.DataFrame)):
                several = given.tolist() if isinstance(given, (np.ndarray, pd.Index)) else list(given)
                read[name] = several[0] if len(several) == 1 else tuple(several)
        vars(self).update(read, group_outputs=tuple(self.group_outputs), retrained=tuple(self.retrained))
        if len(self.retrained) == 1:
            raise BiaslibError("One model that was trained again shows no spread: give at least two, better five.")
        if (self.model is None) == (self.predictions is None):
            raise BiaslibError("Give either a model or its predictions, one of the two.")
        if self.model is not None and self.data is None:
            raise BiaslibError("A model needs images: name their folder.")
        for_model = ["weights", "masks", "output", "yes", "no", "group_outputs", "size", "mean", "std", "crop", "batch"]
        for_model += ["squash", "mask_value", "attribution", "layer"]
        idle = [name for name in for_model if getattr(self, name) not in (None, ())]
        if self.predictions is not None and idle:
            verb, pronoun = ("has", "it") if len(idle) == 1 else ("have", "them")
            raise refused("options without effect", idle=" and ".join(idle), verb=verb, pronoun=pronoun)
        roles = [*self.wanted, *self.unwanted, *([] if self.mask_value is None else [self.mask_value])]
        if roles and self.masks is None:
            raise BiaslibError(f"{roles[0]!r} is to be a region, but there are no masks: name their folder.")
        for name, edges in (self.bins or {}).items():
            numbers = pd.to_numeric(pd.Series(edges), errors="coerce").to_numpy(float)
            grow = len(numbers) > 0 and np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()
            if name not in self.groups or not grow:
                raise BiaslibError(f"Bins are a group and edges that grow, such as age=18,40,65, not {name}={edges}.")
        if self.threshold is not None and not np.isfinite(self.threshold):
            raise BiaslibError(f"threshold must be a finite number, not {self.threshold}.")
        if not 0 < self.margin < 1:
            raise BiaslibError(f"margin must lie between 0 and 1, such as 0.05 for 5 points, not be {self.margin}.")
        if self.permutations is not None and not 1 <= self.permutations <= _MOST_PERMUTATIONS:
            raise BiaslibError(f"permutations must be from 1 to {_MOST_PERMUTATIONS:,}, not {self.permutations}.")
        if self.cluster is not None and self.permutations is not None:
            raise BiaslibError("Images that come in clusters are not permuted: leave out the cluster or permutations.")
        if self.predictions is not None and self.discover:
            raise BiaslibError("Discovery reads the model's features, and there are only predictions: give the model.")
        if self.predictions is not None and self.repair and self.threshold is None:
            raise refused("repair without scores")
        if self.group_outputs and len(self.group_outputs) != len(self.groups):
            groups, outputs = len(self.groups), len(self.group_outputs)
            raise BiaslibError(f"There are {groups} groups but {outputs} outputs for them: name one for each.")

    def other(self, source: Any) -> "AuditOptions":
        """The same of what is compared with, of which no maps are drawn."""
        if self.predictions is not None and not isinstance(source, nn.Module):
            return replace(self, predictions=source, against=None, retrained=())
        whole = self.weights is None or isinstance(source, nn.Module)
        changed: dict[str, Any] = {"model": source, "weights": None} if whole else {"weights": source}
        changed |= {**dict.fromkeys(("predictions", "masks", "mask_value", "layer", "against")), "retrained": ()}
        changed |= dict.fromkeys(("discover", "repair"), False)
        return replace(self, attribution="none", wanted=(), unwanted=(), **changed)

    def check_place(self) -> None:
        """Refuses a place that a report cannot be written to, and one that holds what it is made of."""
        if self.out is None:
            return
        place = self.out.resolve()
        # a model or predictions may be a name: only what is a file lies anywhere
        predictions = self.predictions if isinstance(self.predictions, tuple) else (self.predictions,)
        named = (self.labels, *predictions, self.train_labels, self.model, self.against, *self.retrained)
        files = [Path(source) for source in named if isinstance(source, (str, Path)) and Path(source).is_file()]
        files += [Path(source) for source in (self.data, self.masks, self.weights) if source is not None]
        for name, path in (("the current folder", Path.cwd()), *((str(file), file) for file in files)):
            if path.resolve().is_relative_to(place):
                raise BiaslibError(f"{self.out} is or holds {name}: name a folder of its own for the report.")
        there = next(path for path in (place, *place.parents) if path.exists())
        if not there.is_dir():
            raise BiaslibError(f"{there} is a file: name a folder for the report.")
        if not os.access(there, os.W_OK):
            raise BiaslibError(f"{there} cannot be written: mend its permissions, or name another folder to write to.")

    def check_folder(self, key: str) -> None:
        """Refuses a folder that holds something else than the same audit, where that is not to be replaced."""
        # what begins with a dot is a system's, or was left by an audit that was killed while it wrote
        there = [] if self.out is None else sorted(path.name for path in self.out.glob("[!.]*"))
        if self.out is None or self.force or not there or _key(self.out) == key:
            return
        if others := [name for name in there if name not in (PAGE, VALUES, ANSWERS, *CARDS)]:
            raise BiaslibError(f"{self.out} holds other files ({others[0]}): name another folder, or add --force.")
        raise refused("another report", out=self.out)

    def roles(self, regions: Iterable[str]) -> dict[str, str]:
        """Region -> wanted, unwanted or neutral; a BiaslibError for two roles, or one of a region that is not there."""
        roles = dict.fromkeys(regions, "neutral")
        for role, names in (("wanted", self.wanted), ("unwanted", self.unwanted)):
            for name in names:
                if name not in roles:
                    raise BiaslibError(f"There is no region {name!r}: the masks have {listed(list(roles))}.")
                if roles[name] not in ("neutral", role):
                    raise BiaslibError(f"Region {name!r} cannot be wanted and unwanted at once: name it once.")
                roles[name] = role
        return roles

    def described(self, roles: Mapping[str, str]) -> dict[str, str]:
        """The settings of a report, in words."""
        return {
            "labels": name_of(self.labels),
            "images": name_of(self.data),
            "target": str(self.target),
            "groups": ", ".join(self.groups),
            "bins": "; ".join(f"{name} at {', '.join(map(str, edges))}" for name, edges in (self.bins or {}).items()),
            "intersections": "of all groups" if self.intersections else "",
            "clusters": self.cluster or "",
            "predictions": name_of(self.predictions),
            "threshold": "" if self.threshold is None else f"{self.threshold:g}",
            "margin": f"{100 * self.margin:g} point{'s' * (self.margin != 0.01)}",
            "masks": ", ".join(f"{region} ({role})" for region, role in roles.items()),
            "mask value": "" if self.mask_value is None else str(self.mask_value),
            "training labels": name_of(self.train_labels),
            "pictures in the report": "" if self.images else "none",
            "correction": "Holm, over all tests of this report" if self.corrected else "none",
            "deals": str(self.permutations or ""),
            "seed": str(self.seed),
            **({} if self.against is None else {"compared with": name_of(self.against)}),  # else the key is as it was
            **({"trained again": ", ".join(map(name_of, self.retrained))} if self.retrained else {}),
            **({"discovery": "slices of features and maps"} if self.discover else {}),
            **({"repairs": "thresholds for each group, last layer"} if self.repair else {}),
        }


@dataclass(frozen=True)
class Finding:
    """One thing that differs by more than chance, and p after correction."""

    kind: str  # "gap", "amplification", "region"; of a comparison "larger gap", "smaller gap"
    of: str  # the group's column, or the region
    sentence: str
    p: float


@dataclass(frozen=True)
class Shown:
    """Images to look at: the mistakes that the model is surest of, in the cell of a group with the lowest accuracy.

    Or in a slice, whose name takes the place of the group's, and with the answer that of the cell.
    """

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
    margin: float  #: above which a gap is said to be shown
    #: overall, counts, correlations, accuracies, gaps, rates, disparities, visible, amplification; of a comparison,
    #: against and the other's rates and so on by the names with _other; of trainings, retrained; with scores, scores
    #: and calibration; with maps, attention, regions, regions_by_cell (see `audit.measurements`); p with and without
    #: correction; trust and, of a corrected report, error_rates; if asked for, intersections, slices, repair and
    #: repair_costs (`audit.discovery`)
    tables: Mapping[str, pd.DataFrame]
    unmeasured: tuple[str, ...]  #: what could not be measured, and why
    notes: tuple[str, ...]  #: what a reader should know of the data
    shown: tuple[Shown, ...]  #: images to look at
    #: group -> cell -> (h, w) mean share of the target's map; the groups with a finding, else the first
    average_maps: Mapping[str, Mapping[str, np.ndarray]]
    answers: pd.DataFrame  #: a row an image: file, labels, score, answers, right; of several targets in the first's
    about: Mapping[str, Any] = field(default_factory=dict)  #: versions, device, date
    discovered: tuple[str, ...] = ()  #: a sentence for each slice in which the model errs more, or that there is none
    slices: tuple[Shown, ...] = ()  #: images of these slices
    repairs: tuple[str, ...] = ()  #: a sentence for each repair of each group
    further: tuple["Audit", ...] = ()  #: of several targets the others'; the tests of all are corrected together

    def parts(self) -> list[tuple[str, "Audit"]]:
        """The audit of each target, this one first, and how what it says begins: with its name, if not alone."""
        return [(f"{one.target.name}: " if self.further else "", one) for one in (self, *self.further)]

    def remarks(self) -> list[str]:
        """What the command says beside the findings: warnings, notes, and what could not be measured."""
        remarks = []
        for name, audit in self.parts():
            heads = {"warning": audit.warnings, "biaslib": audit.notes, "not measured": audit.unmeasured}
            remarks += [f"{head}: {name}{sentence}" for head, sentences in heads.items() for sentence in sentences]
        return remarks

    def conclusions(self) -> list[str]:
        """A sentence for each finding, or one that there is none; then those on slices and on repairs."""
        none = "nothing that these images can tell from chance; the report says how much they could have shown"
        conclusions = []
        for name, audit in self.parts():  # a finding names its target
            conclusions += [finding.sentence for finding in audit.findings] or [f"{name}{none}"]
            conclusions += [f"{name}{sentence}" for sentence in (*audit.discovered, *audit.repairs)]
        return conclusions

    def to_json(self) -> dict[str, Any]:
        """Plain values: an interval is an object of estimate, low, high and n; undefined is null."""
        values: dict[str, Any] = {"format": "biaslib-audit", "version": VERSION}
        values |= {"model" if name == "subject" else name: value for name, value in vars(self).items()}
        del values["average_maps"], values["answers"]
        further = [one.to_json() for one in values.pop("further")]
        return _plain(values | ({"further": further} if further else {}))

    def write(self, texts: Mapping[str, str], out: Path, *, force: bool) -> None:
        """Puts texts by name, answers and values into the folder, all whole before any takes its place."""
        kept = [name for name in CARDS if (out / name).exists() and not force]  # they may hold somebody's answers
        values = json.dumps(self.to_json(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        every = {**texts, ANSWERS: self.answers.to_csv(index=False), VALUES: values}
        try:
            with contextlib.ExitStack() as files:
                # last in, first out: the values name the audit, so that one that is killed after them is known again
                for name, text in every.items():
                    if name not in kept:
                        files.enter_context(store.replacing(out / name)).write_text(text, encoding="utf-8")
        except OSError as error:
            raise BiaslibError(f"No report can be written to {out}: {error.strerror}; make room and retry.") from error


def _key(out: Path) -> str | None:
    try:
        return str(json.loads((out / VALUES).read_text(encoding="utf-8"))["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def name_of(source: Any) -> str:
    """What a report calls a table, a folder or a model."""
    if source is None:
        return ""
    if isinstance(source, nn.Module):
        return type(source).__name__
    # a folder's name, not its place: a report is handed on
    return f"a table of {len(source):,} rows" if isinstance(source, pd.DataFrame) else Path(source).name


def _plain(value: Any) -> Any:
    match value:
        case Interval():
            return _plain({name: getattr(value, name) for name in ("estimate", "low", "high", "n")})
        case Binary():
            return {"column": value.name, "values": list(value.values)}
        case Shown():
            return _plain({name: getattr(value, name) for name in ("group", "cell", "files", "answers")})
        case Finding():
            return vars(value)
        case pd.DataFrame():
            return [_plain(row) for row in value.to_dict("records")]
        case tuple() | list():
            return [_plain(inner) for inner in value]
        case Mapping():
            return {str(name): _plain(inner) for name, inner in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value
