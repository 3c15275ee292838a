"""One audit from beginning to end."""

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslib.audit import amplifying, discovery, findings, measurements, report
from biaslib.audit.discovery import Looked
from biaslib.audit.findings import ALPHA, permutations_needed
from biaslib.audit.inputs import LabelledImages, name_column, read_labels
from biaslib.audit.model import ModelUnderAudit, model_under_audit
from biaslib.audit.opening import open_model
from biaslib.audit.pictures import check_files, check_pictures, find_masks
from biaslib.audit.predictions import Predictions, file_digests, predict
from biaslib.audit.records import PAGE, Audit, AuditOptions, Shown, name_of
from biaslib.audit.tables import Mask, read
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint, results

_SHOWN = 6
_PERMUTATIONS = (99, 499)  # at least, and at most where no test asks for more
_SOON_PERMUTED = 2_500_000  # rows; more only where the number of tests asks for it
_MOST_PERMUTED = 500_000_000  # rows, less than a minute, or of many groups that are predicted some minutes


@dataclass(frozen=True)
class _Case:
    """What is known before the first image is looked at; the model's part is empty where there are predictions."""

    options: AuditOptions
    inputs: LabelledImages
    unlabelled: tuple[str, ...]
    deep: int = 0  # images of 16 bits a colour
    masks: Mapping[str, Sequence[Mask | None]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    model: ModelUnderAudit | None = None
    digests: Sequence[Sequence[str]] = ()
    other: ModelUnderAudit | None = None  # that it is compared with

    @property
    def asked(self) -> list[Any]:
        """All that the answers depend on."""
        inputs, model = self.inputs, self.model
        tables = [inputs.labels, inputs.predicted if model is None else None, inputs.train]
        asked = [self.options.described(self.roles), list(inputs.files), *tables, inputs.scores, inputs.clusters]
        return [*asked, "" if model is None else model.key, list(self.digests)]


# what is known of one target before its tests are corrected, with those of all others
_Measured = tuple[_Case, Predictions | None, LabelledImages, measurements.Tables]


def run(**given: Any) -> Audit:
    """Audits one model, or its predictions, for one or more targets and groups.

    Each target is measured by itself, and the tests of all are one family; the first one's audit holds the others'.
    Everything is checked before the first image is looked at; a killed audit goes on where it was. A `BiaslibError` is
    raised for whatever does not fit, in one sentence. `AuditOptions` says what each of the arguments is.
    """
    options = AuditOptions(**given)
    options.check_place()
    alone = _by_target(options)
    once = cache(operator.call)  # all targets have one model and the same pictures
    cases = [[_checked(each, once) for each in (one, *map(one.other, _others(one)))] for one in alone]
    asked = [[case.asked for case in of_target] if of_target[1:] else of_target[0].asked for of_target in cases]
    key = fingerprint.of_value(asked if len(asked) > 1 else asked[0])
    options.check_folder(key)
    audit = _audited([_measured(*of_target) for of_target in cases], key)
    if options.out is not None:
        audit.write({PAGE: report.page(audit), **report.cards(audit)}, options.out, force=options.force)
    return audit


run.__signature__ = inspect.signature(AuditOptions).replace(return_annotation=Audit)  # type: ignore[attr-defined]


def _others(options: AuditOptions) -> list[Any]:
    """What else is asked: what the model is compared with, if anything, and then what was trained again."""
    return [*([] if options.against is None else [options.against]), *options.retrained]


def _by_target(options: AuditOptions) -> list[AuditOptions]:
    """The options of each target, with the output or predictions that are its own; else a BiaslibError."""
    targets = [options.target] if isinstance(options.target, str) else list(options.target)
    number, predictions = len(targets), options.predictions
    if len(set(targets)) < max(number, 1):
        raise BiaslibError(f"Name at least one target, and each once, not {targets}.")
    if number > 1 and (options.yes or options.no):
        raise BiaslibError(f"Classes of which the largest wins tell one target, not {number}: name an output for each.")
    own = options.output if predictions is None else predictions
    named = len(own) if isinstance(own, tuple) else number if _is_table(own) else int(own is not None)
    if named != number and max(named, number) > 1:
        if isinstance(own, str):
            read_labels(replace(options, target=targets[0]))  # of what is no column either it says so
        what = "outputs" if predictions is None else "columns or tables of predictions"
        raise BiaslibError(f"There are {number} targets but {named} {what} for them: name one for each.")
    if number == 1:
        return [options]
    if columns := [] if predictions is None else [each for each in _others(options) if not _is_table(each)]:
        what = f"{name_of(columns[0])!r} is no table"
        raise BiaslibError(f"{what}: to compare several targets, give one with all of them.")
    # as a path, a table is not taken for a column
    table = Path(predictions) if isinstance(predictions, str) else predictions
    outputs, tables = (of if isinstance(of, tuple) else [of] * number for of in (options.output, table))
    each = zip(targets, outputs, tables, strict=True)
    return [replace(options, target=target, output=output, predictions=of) for target, output, of in each]


def _is_table(source: Any) -> bool:
    return isinstance(source, (Path, pd.DataFrame)) or (isinstance(source, str) and Path(source).is_file())


def _checked(options: AuditOptions, once: Callable[..., Any]) -> _Case:
    """With `once`, which calls a function, but not again with the same arguments."""
    inputs = read_labels(options)
    folder = options.data
    unlabelled = () if folder is None else once(check_files, folder, inputs.files, leave_out=options.masks)
    if folder is None or options.model is None:
        return _Case(options, inputs, unlabelled)
    deep = once(check_pictures, folder, inputs.files)
    masks = {} if options.masks is None else once(find_masks, options.masks, folder, inputs.files)
    if options.mask_value is not None and options.masks is not None and options.masks.is_file():
        raise BiaslibError(f"A mask value is for label maps, and {options.masks} holds outlines: leave it out.")
    roles = options.roles(masks)
    model = model_under_audit(options, partial(once, open_model))
    digests = once(file_digests, folder, inputs.files, tuple(map(tuple, masks.values())))
    return _Case(options, inputs, unlabelled, deep, masks, roles, model, digests)


def _predicted(case: _Case) -> Predictions | None:
    model, data, files = case.model, case.options.data, case.inputs.files
    if model is None or data is None:
        return None
    return predict(model, data, files, case.masks, digests=case.digests, batch=case.options.batch or 32)


def _measured(case: _Case, *others: _Case) -> _Measured:
    """Everything that needs neither permutations nor the number of tests."""
    predictions = _predicted(case)
    answered, seed = _answered(case, predictions), case.options.seed
    tables = measurements.measure(answered, predictions, roles=case.roles, seed=seed)
    compared = [_answered(other, _predicted(other)) for other in others]
    if case.options.against is not None:
        case, first = replace(case, other=others[0].model), compared.pop(0)
        tables["against"] = measurements.against(answered, first, seed)
        tables |= {f"{name}_other": table for name, table in measurements.described(first).items()}
    if compared:
        tables["retrained"] = measurements.retrained(answered, compared, seed)
    return case, predictions, answered, tables


def _audited(measured: Sequence[_Measured], key: str) -> Audit:
    """Tests over all targets, and the audit of each in that of the first."""
    (case, _, answered, _), *_ = measured
    options, independent = case.options, answered.clusters is None
    at_once = 1
    if options.corrected:
        groups = [(answered, group) for *_, answered, _ in measured for group in answered.groups if independent]
        counted = [tables[name]["p"].count() for *_, tables in measured for name in findings.TESTED if name in tables]
        at_once = max(1, sum(len(amplifying.directions(*each)) for each in groups) + int(sum(counted)))
    images = sum(len(answered.labels) for _, _, answered, _ in measured)  # each target's are permuted
    needed, soon = permutations_needed(at_once), int(np.clip(_SOON_PERMUTED // images, *_PERMUTATIONS))
    enough = max(needed, soon) if needed * images <= _MOST_PERMUTED else soon
    permutations = options.permutations or enough if independent else 0
    for _, _, answered, tables in measured:
        tables["amplification"] = amplifying.amplification(answered, permutations=permutations, seed=options.seed)
    family = {"permutations": permutations, "at_once": at_once}
    tested = findings.tested([tables for *_, tables in measured], **family, corrected=options.corrected)
    made = sum(int(table["p"].count()) for tables in tested for table in tables.values())
    for (*_, tables), corrected in zip(measured, tested, strict=True):
        tables.update(corrected)
    embedded = cache(partial(discovery.embed, case.model, options.data, batch=options.batch or 32))
    first, *further = (_audit(of, key, made=made, embedded=embedded, **family) for of in measured)
    if not further:
        return first
    answers = _by_image([answered for _, _, answered, _ in measured], options)
    return replace(first, further=tuple(further), answers=answers)


def _by_image(targets: Sequence[LabelledImages], options: AuditOptions) -> pd.DataFrame:
    """A row an image, in the labels' order; answers about a group that differ by target stand side by side."""
    together, *further = (of.by_image(f" about {of.target.name}").set_index("file") for of in targets)
    for of, table in zip(targets[1:], further, strict=True):
        own, before = table.align(together, join="inner")
        unlike = own.columns[(own != before).any()]
        table = table.rename(columns={name: f"{name} ({of.target.name})" for name in unlike})
        together = together.combine_first(table)[list(dict.fromkeys([*together, *table]))]
    labels = read(options.labels)
    files = labels[name_column(labels, options.file_column)].astype(str)
    return together.loc[files[files.isin(together.index)].unique()].reset_index(names="file").convert_dtypes()


def _audit(
    measured: _Measured, key: str, *, made: int, embedded: Callable[..., np.ndarray], permutations: int, at_once: int
) -> Audit:
    """The sentences on one target, and whatever else is made once the number of tests is known."""
    case, predictions, answered, tables = measured
    target, groups, model, options = answered.target, answered.groups, case.model, case.options
    models = [each for each in (model, case.other) if each is not None]
    alpha = ALPHA / max(1, made) if options.corrected else ALPHA
    tables["visible"] = measurements.detectable_gaps(answered, alpha=alpha, margin=options.margin)
    slices, repaired = _looked_further(case, predictions, answered, embedded)
    tables |= {**slices.tables, **repaired.tables}
    tables["trust"] = report.reliability(tables)
    tables |= {"error_rates": report.error_rates(tables)} if options.corrected else {}
    harms = tuple(findings.findings(tables, target, groups))
    with_finding = [group for group in groups if group.name in {finding.of for finding in harms}]
    maps = None if predictions is None else predictions.maps
    average_maps = {}
    if maps is not None:
        for group in with_finding or groups[:1]:
            average_maps[group.name] = measurements.average_maps(maps[:, 0], answered, group)
    settings = {"title": options.title, "author": options.author} | options.described(case.roles)
    settings |= {"deals": str(permutations or ""), "confidence of outcomes": f"{1 - alpha:.2%}"}
    return Audit(
        key=key,
        target=target,
        groups=groups,
        settings={name: value for name, value in settings.items() if value},
        subject={} if model is None else model.described | {"preprocessing": model.preprocessing.words()},
        numbers={
            "images": len(answered.labels),
            "unreadable": len(case.inputs.files) - len(answered.files),
            "without labels": len(case.unlabelled),
            "tests": made,
        },
        warnings=tuple(findings.warnings(tables, answered, models, maps, of=len(case.inputs.files))),
        findings=harms,
        margin=options.margin,
        tables=tables,
        unmeasured=(
            *findings.without_labels(tables, answered),
            *findings.without_maps(tables, target.name, model, predictions),
            *findings.untested(tables, permutations, at_once),
            *slices.unmeasured,
            *repaired.unmeasured,
        ),
        notes=tuple(findings.notes(case.inputs, answered, case.unlabelled, case.deep)),
        shown=tuple(_surest_mistakes(case, predictions, answered, _worst_cells(answered, tables["accuracies"]))),
        average_maps=average_maps,
        answers=answered.by_image(),
        about={"versions": results.versions(), "device": results.device(), "date": results.now()[:10]},
        discovered=tuple(slices.sentences),
        slices=tuple(_surest_mistakes(case, predictions, answered, slices.slices)),
        repairs=tuple(repaired.sentences),
    )


def _answered(case: _Case, predictions: Predictions | None) -> LabelledImages:
    """The images that can be read, and what the model answered about them; all where there is no model."""
    inputs = case.inputs
    if predictions is None:
        return inputs
    readable = inputs.only(predictions.readable)
    labels = readable.labels
    for name in labels:
        if labels[name].nunique() < 2:
            raise BiaslibError(f"Of the images that can be read all have the same value of {name!r}: mend the others.")
    predicted = pd.DataFrame(predictions.outputs > 0, columns=list(labels)[: predictions.outputs.shape[1]])
    scores = predictions.outputs[:, 0] + (case.options.threshold or 0.0)  # as the model gave them
    return replace(readable, predicted=predicted, scores=scores)


def _worst_cells(answered: LabelledImages, accuracies: pd.DataFrame) -> dict[tuple[str, str], np.ndarray]:
    """Each group and its cell with the lowest accuracy -> (N,) bool which images are in it."""
    right = accuracies.set_index(["group", "cell"])["accuracy"].map(lambda share: share.estimate)
    worst = {group: str(right[group.name].idxmin()) for group in answered.groups}
    return {(group.name, cell): answered.cells(group) == cell for group, cell in worst.items()}


def _surest_mistakes(
    case: _Case, predictions: Predictions | None, answered: LabelledImages, places: Mapping[tuple[str, str], np.ndarray]
) -> Iterator[Shown]:
    """For each place, in words and as (N,) bool, the first few."""
    options = case.options
    if predictions is None or case.model is None or options.data is None:
        return
    margins = predictions.outputs[:, 0]
    for (name, cell), among in places.items():
        wrong = np.flatnonzero(~answered.correct & among)
        surest = wrong[np.argsort(-np.abs(margins[wrong]), kind="stable")][:_SHOWN]
        if len(surest):
            names = tuple(answered.files[at] for at in surest)
            pictures = [case.model.preprocessing.picture(options.data / name) for name in names if options.images]
            images = np.stack(pictures) if pictures else None
            maps = None if predictions.maps is None else predictions.maps[surest, 0]
            yield Shown(name, cell, names, tuple(map(float, margins[surest])), images, maps)


def _looked_further(
    case: _Case, predictions: Predictions | None, answered: LabelledImages, embedded: Callable[..., np.ndarray]
) -> tuple[Looked, Looked]:
    """Discovery and repairs, as they were asked for; the features of images are the same for every target."""
    options, slices, repaired = case.options, Looked({}), Looked({})
    if options.discover and predictions is not None:
        spaces = {"features": embedded(answered.files)}
        spaces |= {} if predictions.maps is None else {"maps": predictions.maps[:, 0]}
        columns = discovery.columns_of(options.labels, answered, options.file_column)
        slices = discovery.discover(answered, spaces, columns, options.seed)
    if options.repair:
        now = options.threshold or 0.0
        features = embedded(answered.files)
        repaired = discovery.repairs(answered, features, now=now, margin=options.margin, seed=options.seed)
    return slices, repaired
