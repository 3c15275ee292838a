"""One audit from beginning to end."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from biaslib.audit import findings, measures, report, result
from biaslib.audit.choices import check, roles_of
from biaslib.audit.looking import Seen, contents, look
from biaslib.audit.pictures import check_pictures, find_masks
from biaslib.audit.reliability import reliability
from biaslib.audit.result import Audit, Shown
from biaslib.audit.subjects import Subject, subject
from biaslib.audit.tables import Binary, Labelled, Table, check_files, labelled, listed
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint, provenance

ALPHA = 0.05
SHOWN = 6
_LEAST_DEALS, _DEALS = 99, 499
_SOON_DEALT = 2_500_000  # rows of one group, a few seconds; more only where the number of tests asks for it
_MOST_DEALT = 500_000_000  # rows, about ten minutes


def run(
    *,
    labels: Table,
    target: str,
    groups: str | Sequence[str],
    data: str | Path | None = None,
    model: str | Path | nn.Module | None = None,
    weights: str | Path | None = None,
    predictions: Table | None = None,
    masks: str | Path | None = None,
    wanted: Sequence[str] = (),
    unwanted: Sequence[str] = (),
    train_labels: Table | None = None,
    file_column: str | None = None,
    output: int | None = None,
    yes: Sequence[int] = (),
    no: Sequence[int] = (),
    group_outputs: Sequence[int] = (),
    threshold: float | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    crop: float | None = None,
    batch: int | None = None,
    corrected: bool = True,
    deals: int | None = None,
    images: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    force: bool = False,
) -> Audit:
    """Audits one model, or its predictions, for one target and one or more groups.

    Everything is checked before the first image is looked at. The model's answers and maps are kept in the store, so
    that a killed audit goes on where it was.

    Args:
        labels: CSV, parquet or data frame, one row an image.
        target: column of what the model tells, with two values.
        groups: columns of the groups, with two values each.
        data: folder of the images; not needed for predictions.
        model: what to audit, see `subjects.subject`; **some forms of it run code that comes with them**.
        weights: of an architecture's name.
        predictions: instead of a model: a column of the labels, or another table.
        masks: folder of masks of one region, which is named as the folder, or of one such folder a region.
        wanted: regions that the model is meant to look at: a map that avoids one is a finding.
        unwanted: regions that it is not meant to look at: a map that lies there is a finding. The other regions are
            described and not tested.
        train_labels: labels of the training images, for amplification; the labels stand in where not given.
        file_column: column with the images' names.
        output: the model's output for the target, counted from 0; None where it has one, or two classes.
        yes: of a model whose largest output wins, the classes that mean yes.
        no: the classes that mean no; empty: all others.
        group_outputs: its outputs for the groups, in their order.
        threshold: above it an output, or a score among the predictions, says yes; None: 0 for outputs, and
            predictions are written as the labels are.
        size: of the model's images in pixels; None: its own, else 224.
        mean: that is subtracted from pixels in [0, 1]; None: the model's own, else ImageNet's.
        std: that they are divided by; None: likewise.
        crop: share of the shorter side that is kept; None: the model's own, else all.
        batch: images at once; None: 32.
        corrected: p-values by Holm over all tests of the audit.
        deals: how often the answers are dealt anew to test an amplification, whose p is at least 1 / (1 + deals);
            None: 499, fewer for many images, but as many as the corrected test needs to find anything, where that
            takes minutes at most. With fewer than that it is not tested, and the report says so.
        images: whether the report may hold pictures; without them it names the files only.
        seed: of the bootstrap and the deals.
        out: folder for `report.html` and `audit.json`; None writes nothing.
        force: replace a report that is there.

    Raises:
        BiaslibError: for whatever does not fit, in one sentence.
    """
    names = [groups] if isinstance(groups, str) else list(groups)
    for_model = {
        "weights": weights, "masks": masks, "output": output, "yes": yes or None, "no": no or None,
        "group_outputs": group_outputs or None, "size": size, "mean": mean, "std": std, "crop": crop, "batch": batch,
    }  # fmt: skip
    check(
        groups=names, model=model, predictions=predictions, data=data, for_model=for_model,
        regions=[*wanted, *unwanted], threshold=threshold, deals=deals,
    )  # fmt: skip
    if out is not None:
        # a model or predictions may be a name: only what is a file lies anywhere
        files = [one for one in (labels, predictions, train_labels, model) if isinstance(one, (str, Path))]
        folders = [Path(one) for one in (data, masks, weights) if one is not None]
        result.check_place(Path(out), [*(Path(one) for one in files if Path(one).is_file()), *folders])
    told = labelled(
        labels,
        target=target,
        groups=names,
        file_column=file_column,
        predictions=predictions,
        threshold=threshold,
        train_labels=train_labels,
    )
    folder = None if data is None else Path(data)
    inside = None if masks is None else Path(masks)
    unlabelled = () if folder is None else check_files(folder, told.files, leave_out=inside)
    of_pictures = "" if folder is None or model is None else check_pictures(folder, told.files)
    outlines = {} if inside is None or folder is None else find_masks(inside, folder, told.files)
    roles = roles_of(outlines, wanted=wanted, unwanted=unwanted)
    asked = None
    if model is not None:
        given = {"size": size, "mean": _three(mean), "std": _three(std), "crop": crop}
        asked = subject(
            model, weights=weights, output=output, yes=yes, no=no, group_outputs=group_outputs, threshold=threshold,
            batch=batch or 32, preprocessing=given,
        )  # fmt: skip
    settings = {
        "labels": _name(labels), "images": _name(data), "target": target, "groups": ", ".join(names),
        "predictions": _name(predictions), "threshold": "" if threshold is None else f"{threshold:g}",
        "masks": ", ".join(f"{region} ({role})" for region, role in roles.items()),
        "training labels": _name(train_labels), "pictures in the report": "" if images else "none",
        "correction": "Holm, over all tests of this report" if corrected else "none",
        "deals": str(deals or ""), "seed": str(seed),
    }  # fmt: skip
    held = [] if asked is None or folder is None else contents(folder, told.files, outlines)
    key = fingerprint.of_value(
        [settings, list(told.files), told.labels, told.predicted, told.train, asked.key if asked else "", held]
    )
    if out is not None:
        result.check_folder(Path(out), key, force=force)
    seen = None
    if asked is not None and folder is not None:
        seen = look(asked, folder, told.files, outlines, batch=batch or 32, held=held)
    audit = _measured(
        told, seen, asked, folder, unlabelled, settings, key,
        roles=roles, of_pictures=of_pictures, corrected=corrected, deals=deals, images=images, seed=seed,
    )  # fmt: skip
    if out is not None:
        result.write(audit, report.page(audit), Path(out))
    return audit


def _measured(
    told: Labelled,
    seen: Seen | None,
    asked: Subject | None,
    folder: Path | None,
    unlabelled: tuple[str, ...],
    settings: dict[str, str],
    key: str,
    *,
    roles: dict[str, str],
    of_pictures: str,
    corrected: bool,
    deals: int | None,
    images: bool,
    seed: int,
) -> Audit:
    target, *others = told.columns.values()
    kept = np.ones(len(told.files), bool) if seen is None else seen.read
    labels = told.labels[kept].reset_index(drop=True)
    files = [name for name, could in zip(told.files, kept, strict=True) if could]
    unreadable = [name for name, could in zip(told.files, kept, strict=True) if not could]
    for name in labels:
        if labels[name].nunique() < 2:
            raise BiaslibError(f"Of the images that can be read all have the same value of {name!r}: mend the others.")
    predicted = told.predicted if seen is None else _said(seen, target, others)
    assert predicted is not None
    correct = predicted[target.name].to_numpy() == labels[target.name].to_numpy()
    tables = _tables(told, labels, predicted, correct, seen, target, others, roles=roles, seed=seed)
    planned = findings.count(tables) + sum(len(measures.directions(predicted, group)) for group in others)
    at_once = planned if corrected else 1
    needed = measures.deals_needed(at_once, ALPHA)
    dealt = deals or _deals(needed, len(labels), len(others))
    tables["amplification"] = measures.amplification(
        labels, predicted, told.train, target, others, draws=dealt, seed=seed
    )  # fmt: skip
    untested = list(findings.untested(tables, dealt=dealt, needed=needed, tests=at_once, alpha=ALPHA))
    tests = findings.correct(tables, corrected=corrected)
    alpha = ALPHA / max(1, tests) if corrected else ALPHA
    tables["visible"] = measures.what_could_be_seen(correct, labels, target, others, alpha=alpha)
    tables["trust"] = reliability(tables)
    found = tuple(findings.found(tables, target, others, alpha=ALPHA))
    return Audit(
        key=key,
        target=target,
        groups=tuple(others),
        settings={name: value for name, value in (settings | {"deals": str(dealt)}).items() if value},
        subject={} if asked is None else asked.described | _preprocessing(asked),
        numbers={
            "images": len(labels), "unreadable": len(unreadable), "without labels": len(unlabelled), "tests": tests,
        },
        warnings=tuple(findings.warnings(tables, target, others)),
        findings=found,
        tables=tables,
        unmeasured=(*findings.unmeasured(tables, target, others, predicted, asked, told, seen), *untested),
        notes=tuple(_notes(unreadable, unlabelled, of_pictures)),
        shown=() if seen is None or folder is None or asked is None
        else tuple(_shown(tables, labels, correct, seen, files, folder, asked, target, others, images=images)),
        average_maps={} if seen is None or seen.maps is None
        else {
            group.name: measures.average_maps(seen.maps[:, 0], labels, target, group)
            for group in [each for each in others if any(each.name == finding.of for finding in found)] or others[:1]
        },
        about={"versions": provenance.versions(), "device": provenance.device(), "date": _today()},
    )  # fmt: skip


def _tables(
    told: Labelled,
    labels: pd.DataFrame,
    predicted: pd.DataFrame,
    correct: np.ndarray,
    seen: Seen | None,
    target: Binary,
    others: list[Binary],
    *,
    roles: dict[str, str],
    seed: int,
) -> dict[str, pd.DataFrame]:
    tables = {
        "overall": measures.overall(correct, labels, predicted, target),
        "counts": measures.counts(labels, target, others),
        "correlations": measures.correlations(labels, predicted, told.train, target, others, seed=seed),
        "accuracies": measures.accuracies(correct, labels, target, others),
        "gaps": measures.gaps(correct, labels, target, others),
    }
    if seen is not None and seen.maps is not None:
        if seen.maps.shape[1] > 1:
            tables["attention"] = measures.attention(seen.maps, others, seed=seed)
        if seen.mass:
            tables["regions"] = measures.regions(seen.mass, seen.score, seen.area, roles=roles, seed=seed)
            tables["regions_by_cell"] = measures.regions_by_cell(
                seen.mass, seen.area, labels, target, others, seed=seed
            )
    return tables


def _deals(needed: int, images: int, groups: int) -> int:
    soon = int(np.clip(_SOON_DEALT // images, _LEAST_DEALS, _DEALS))
    return max(needed, soon) if needed * images * groups <= _MOST_DEALT else soon


def _said(seen: Seen, target: Binary, others: list[Binary]) -> pd.DataFrame:
    names = [target.name, *(group.name for group in others)][: seen.answers.shape[1]]
    return pd.DataFrame(seen.answers > 0, columns=names)


def _shown(
    tables: dict[str, pd.DataFrame],
    labels: pd.DataFrame,
    correct: np.ndarray,
    seen: Seen,
    files: list[str],
    folder: Path,
    asked: Subject,
    target: Binary,
    others: list[Binary],
    *,
    images: bool,
) -> list[Shown]:
    shown = []
    for group in others:
        own = tables["accuracies"][tables["accuracies"]["group"] == group.name]
        worst = min(own.to_dict("records"), key=lambda row: row["accuracy"].estimate)["cell"]
        wrong = np.flatnonzero(~correct & (measures.cells(labels, target, group) == worst))
        surest = wrong[np.argsort(-np.abs(seen.answers[wrong, 0]), kind="stable")][:SHOWN]
        if len(surest):
            shown.append(
                Shown(
                    group=group.name,
                    cell=str(worst),
                    files=tuple(files[row] for row in surest),
                    answers=tuple(float(value) for value in seen.answers[surest, 0]),
                    images=np.stack([asked.preprocessing.picture(folder / files[row]) for row in surest])
                    if images
                    else None,
                    maps=None if seen.maps is None else seen.maps[surest, 0],
                )
            )
    return shown


def _notes(unreadable: list[str], unlabelled: tuple[str, ...], of_pictures: str) -> list[str]:
    notes = [of_pictures] if of_pictures else []
    if unreadable:
        notes.append(f"Left out, as they cannot be read: {len(unreadable):,} of the images ({', '.join(unreadable)}).")
    if unlabelled:
        notes.append(
            f"Not looked at, as the table has no row for them: {len(unlabelled):,} of the images in the folder "
            f"({listed(unlabelled)})."
        )
    return notes


def _preprocessing(asked: Subject) -> dict[str, str]:
    steps = asked.preprocessing
    return {
        "preprocessing": (
            f"shorter side to {int(steps.size / steps.crop)} px ({steps.interpolation}), the middle {steps.size} x "
            f"{steps.size}; mean {_numbers(steps.mean)}, deviation {_numbers(steps.std)}; {steps.source}"
        )
    }


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _three(values: Sequence[float] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _name(source: Any) -> str:
    if source is None:
        return ""
    # a folder's name, not its place: a report is handed on
    return f"a table of {len(source):,} rows" if isinstance(source, pd.DataFrame) else Path(source).name


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
