"""From measurements to sentences: which tests there are, what they find, and what could not be measured."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslib.audit.inputs import Binary
from biaslib.audit.measurements import SMALL, Amplification, Answered, Gap, Measurements, Region
from biaslib.audit.model import ModelUnderAudit
from biaslib.audit.predictions import Predictions
from biaslib.audit.records import Finding
from biaslib.figures import p_value
from biaslib.figures.table import number
from biaslib.statistics import Interval, holm

ALPHA = 0.05


@dataclass(frozen=True)
class Test:
    """Whether one measurement differs by more than chance; p is NaN where it has too little behind it to be tested."""

    measured: Gap | Amplification | Region
    p: float
    corrected: float


def tests_of(
    measured: Measurements, amplification: Sequence[Amplification], *, permutations: int, at_once: int, corrected: bool
) -> list[Test]:
    """All tests of an audit, so many of them at once; p-values are corrected by Holm over all, where asked for."""
    enough = permutations >= permutations_needed(at_once)
    least = _images_needed(at_once)
    rows: list[Gap | Amplification | Region] = [*measured.gaps, *amplification, *measured.regions]
    p = [row.p for row in measured.gaps]
    p += [row.p if enough else math.nan for row in amplification]
    p += [row.p if row.n >= least else math.nan for row in measured.regions]
    adjusted = holm(p).tolist() if corrected else p
    return [Test(row, raw, after) for row, raw, after in zip(rows, p, adjusted, strict=True)]


def untested(measured: Measurements, permutations: int, at_once: int) -> Iterator[str]:
    """What has too little behind it for its test to find anything."""
    needed = permutations_needed(at_once)
    if permutations < needed:
        yield (
            f"Whether amplification is more than unrelated errors give could not be tested: with {at_once} tests at "
            f"once {needed:,} permutations of the answers are needed, and there were {permutations:,}; ask for more "
            "with --permutations."
        )
    least = _images_needed(at_once)
    for row in measured.regions:
        if 0 < row.n < least and row.role != "neutral":
            yield (
                f"Whether the map leans to {row.region} could not be tested: {row.n} images have it, and with "
                f"{at_once} tests at once {least} are needed."
            )


def findings(tests: Sequence[Test], target: Binary, groups: Sequence[Binary]) -> Iterator[Finding]:
    """A sentence for everything that differs by more than chance in the direction that harms.

    An amplification is a finding where the answers are further off than as many mistakes that ignore the group; an
    unwanted region where it holds more of the map than of the image, a wanted one less, any other region never.
    """
    words = {group.name: group.words for group in groups}
    for test in tests:
        if not test.corrected <= ALPHA:
            continue
        row, value = test.measured, p_value(test.corrected)
        p = f"p {value}" if value.startswith("<") else f"p = {value}"
        match row:
            case Gap():
                outside, inside = words[row.group]
                sentence = (
                    f"{row.among}: {number(row.right_in, '.1%')} of the answers are right for {inside} and "
                    f"{number(row.right_out, '.1%')} for {outside}, {_points(row.gap)} "
                    f"({row.n_in:,} and {row.n_out:,} images, {p})."
                )
                yield Finding("gap", row.group, sentence, test.corrected)
            case Amplification() if row.size.estimate > row.unrelated_errors:
                sentence = f"{_amplified(row, target, words[row.group])} ({p})."
                yield Finding("amplification", row.group, sentence, test.corrected)
            case Region() if (row.excess.estimate if row.role == "unwanted" else -row.excess.estimate) > 0:
                more = "more than" if row.role == "unwanted" else "less than"
                sentence = (
                    f"{row.region}, a region marked as {row.role}, holds {number(row.mass, '.1%')} of the map of "
                    f"{target.name}, {more} its {number(row.area.estimate, '.1%')} of the image ({row.n:,} images, "
                    f"{p})."
                )
                yield Finding("region", row.region, sentence, test.corrected)


def warnings(measured: Measurements, detectable: pd.DataFrame, answered: Answered) -> Iterator[str]:
    """What a reader must know before anything else: that the model is of little use, and which gaps are not known."""
    target = answered.target
    answers_yes, accuracy, common = (
        measured.overall[name].estimate for name in ("share said yes", "accuracy", "share labelled yes")
    )
    majority = target.words[1] if common >= 0.5 else target.words[0]
    common = max(common, 1 - common)
    if answers_yes in (0, 1):
        yield (
            f"The model gives the same answer, {target.words[int(answers_yes)]}, for every image. Its gaps are 0 or "
            "undefined for that reason, and say nothing about whom it serves."
        )
    elif accuracy < common:
        yield (
            f"The model is right for {accuracy:.1%} of the images. Always answering {majority} would be right for "
            f"{common:.1%}."
        )
    if accuracy < 0.5:
        yield (
            "The answers are wrong more often than right: check which output tells the target, and which value of the "
            "column is the yes."
        )
    words = {group.name: group.words for group in answered.groups}
    for row, smallest in zip(measured.gaps, detectable["smallest"], strict=True):
        outside, inside = words[row.group]
        if not min(row.n_in, row.n_out):
            empty = outside if row.n_in else inside
            yield (
                f"The gap between {inside} and {outside} among images labelled {row.among} could not be measured: "
                f"there is no image in the cell {row.among}, {empty}."
            )
        elif np.isnan(smallest):
            yield (
                f"A gap between {inside} and {outside} among images labelled {row.among} could not have been seen, "
                f"however large: there are {row.n_in:,} and {row.n_out:,} images, and the answers are right for "
                f"{max(row.right_in, row.right_out):.1%} of the better group."
            )


def without_labels(measured: Measurements, answered: Answered) -> Iterator[str]:
    """What could not be measured for want of images or labels, and why; one sentence each."""
    target = answered.target.name
    for row in measured.counts[measured.counts["small"]].to_dict("records"):
        if row["n"] == 0:
            yield f"{row['cell']}: no image, so nothing is known of this cell and no gap goes over it."
        else:
            yield f"{row['cell']}: {row['n']} images only (fewer than {SMALL}), so its intervals are wide."
    without = [group.name for group in answered.groups if group.name not in answered.predicted]
    if without:
        yield (
            f"Amplification from {target} to {', '.join(without)}, and of both predicted: it needs predictions of "
            "the group, and there are none."
        )
    if answered.train is None:
        yield "What the model amplifies of its training data: no training labels were given, these labels stand in."


def without_maps(
    measured: Measurements, target: str, model: ModelUnderAudit | None, predictions: Predictions | None
) -> Iterator[str]:
    """What could not be measured for want of maps, masks or roles, and why; one sentence each."""
    if model is None or predictions is None:
        yield "Where the model looks, and its surest mistakes: only yes and no were given, neither model nor images."
        return
    if predictions.maps is None:
        yield f"Where the model looks: {model.no_maps.rstrip('.')}."
        return
    if measured.attention.empty:
        yield f"Whether {target} and the group share their attention: no output of the model tells the group."
    for shared in measured.attention.to_dict("records"):
        if shared["empty"]:
            yield f"Attention-IoU with {shared['group']}: {shared['empty']:,} images have a map without any mass."
    if not measured.regions:
        yield "Attention in regions: no masks were given."
    neutral = [region.region for region in measured.regions if region.role == "neutral"]
    if neutral:
        yield (
            f"Whether the map should lie on {', '.join(neutral)} or not was not said, so it is described and not "
            "tested: name each region as wanted or unwanted."
        )
    images = int(predictions.readable.sum())
    for region in measured.regions:
        if region.n < images:
            yield (
                f"Attention in {region.region}: {images - region.n:,} of {images:,} images have no mask, an empty one, "
                "or a map without mass."
            )


def permutations_needed(tests: int) -> int:
    """How many permutations make the smallest p there is, times so many tests, at most `ALPHA`."""
    return math.ceil(tests / ALPHA)


def _images_needed(tests: int) -> int:
    # all flips of the signs of n differences are 2^n, and two of them are as far out as the data
    return math.ceil(np.log2(2 * tests / ALPHA))


def _amplified(row: Amplification, target: Binary, words: tuple[str, str]) -> str:
    """What the model says how often beside how often it is so, and what mistakes alone would make of that."""
    said_in, labelled_in = f"{row.said_in:.1%}", f"{row.labelled_in:.1%}"
    (outside, inside), yes = words, target.words[1]
    size, chance = f"{100 * row.size.estimate:.1f} points", f"{100 * row.unrelated_errors:.1f}"
    match row.direction:
        case "group → target":
            return (
                f"The model says {yes} of {said_in} of the images marked {inside} ({labelled_in} are labelled so) and "
                f"of {row.said_out:.1%} of those marked {outside} ({row.labelled_out:.1%}): {size} off on average, "
                f"where as many mistakes that ignore {row.group} would be {chance} off"
            )
        case "target → group":
            return (
                f"The model says {inside} of {said_in} of the images labelled {yes} ({labelled_in} are labelled so): "
                f"{size} off, where as many mistakes that ignore {target.name} would be {chance} off"
            )
        case _:
            return (
                f"Of the images that the model calls {yes} it calls {said_in} {inside}, too (by the labels "
                f"{labelled_in}): {size} off, where as many mistakes that know nothing of each other would be {chance} "
                "off"
            )


def _points(gap: Interval) -> str:
    low, high = (gap.low, gap.high) if gap.estimate > 0 else (-gap.high, -gap.low)
    size = Interval(100 * abs(gap.estimate), 100 * low, 100 * high, gap.n)
    return f"{number(size, '.1f')} points {'more' if gap.estimate > 0 else 'less'}"
