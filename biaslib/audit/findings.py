"""From measurements to sentences: which tests there are, what they find or could not measure, what stops a pipeline."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.measurements import FEW, SMALL, Tables
from biaslib.audit.model import ModelUnderAudit
from biaslib.audit.predictions import Predictions
from biaslib.audit.records import Audit, Finding
from biaslib.audit.tables import listed
from biaslib.errors import BiaslibError
from biaslib.figures import p_value
from biaslib.figures.table import number
from biaslib.statistics import Interval, holm
from biaslib.store.files import beside

_SAY: Final = beside(__file__)
ALPHA = 0.05
TESTED = ("gaps", "against", "amplification", "regions")  # tables of which every row is a test


def tested(of_targets: Sequence[Tables], *, permutations: int, at_once: int, corrected: bool) -> list[Tables]:
    """Of each target the tables of which every row is a test, with p-values by Holm over all targets, if asked for.

    So many tests are made at once. A p is NaN where it has too little behind it for its test to find anything.
    """
    p = {(at, name): tables[name]["p"] for at, tables in enumerate(of_targets) for name in TESTED if name in tables}
    for at, tables in enumerate(of_targets):
        if permutations < permutations_needed(at_once):
            p[at, "amplification"] = p[at, "amplification"] * math.nan
        if "regions" in tables:
            p[at, "regions"] = p[at, "regions"].where(tables["regions"]["n"] >= _images_needed(at_once))
    raw = np.concatenate(list(p.values()))
    parts = np.split(holm(raw) if corrected else raw, np.cumsum([len(each) for each in p.values()])[:-1])
    made: list[Tables] = [{} for _ in of_targets]
    for ((at, name), own), adjusted in zip(p.items(), parts, strict=True):
        made[at][name] = of_targets[at][name].assign(p=own).assign(**{"p corrected": adjusted})
    return made


def untested(tables: Tables, permutations: int, at_once: int) -> Iterator[str]:
    """What has too little behind it for its test to find anything."""
    say, needed, least = _SAY["unmeasured"], permutations_needed(at_once), _images_needed(at_once)
    if 0 < permutations < needed:
        yield say["permutations"].format(at_once=at_once, needed=needed, permutations=permutations)
    for row in _rows(tables, "regions"):
        if 0 < row["n"] < least and row["role"] != "neutral":
            yield say["region"].format(**row, at_once=at_once, least=least)


def findings(tables: Tables, target: Binary, groups: Sequence[Binary]) -> Iterator[Finding]:
    """A sentence for everything that differs by more than chance in the direction that harms.

    A change of a gap from another model's is told in either direction. An amplification is a finding where the answers
    are off, and further in that direction than as many mistakes that ignore the group; an unwanted region where it
    holds more of the map than of the image, a wanted one less, any other region never.
    """
    words = {group.name: group.words for group in groups}

    def found(kind: str, of: str, sentence: str, row: Mapping[str, Any], **more: str) -> Finding:
        (outside, inside), p = words.get(of, ("", "")), p_value(row["p corrected"])
        more |= {"probability": f"p {p}" if p.startswith("<") else f"p = {p}", "outside": outside, "inside": inside}
        known = {**row, "target": target.name, "yes": target.words[1], **more}
        return Finding(kind, of, _SAY["found"][sentence].format(**known), row["p corrected"])

    for row in _significant(tables, "gaps"):
        yield found("gap", row["group"], "gaps", row, points=_points(row["gap"]))
    for row in _significant(tables, "against"):
        here, there = (number(100 * row[name].estimate, "+.1f") for name in ("gap", "gap_other"))
        kind = "larger gap" if abs(row["gap"].estimate) > abs(row["gap_other"].estimate) else "smaller gap"
        yield found(kind, row["group"], "against", row, points=_points(row["change"]), here=here, there=there)
    for row in _significant(tables, "amplification"):
        shift, by_chance = row["shift"].estimate, row["unrelated errors"]
        if shift * (shift - by_chance) > 0:
            points, chance = f"{100 * shift:+.1f}", f"{100 * by_chance:+.1f}"
            yield found("amplification", row["group"], row["direction"], row, points=points, chance=chance)
    for row in _significant(tables, "regions"):
        more, sign = ("more than", 1) if row["role"] == "unwanted" else ("less than", -1)
        if sign * row["excess"].estimate > 0:
            held, share = number(row["mass"], ".1%"), number(row["area"].estimate, ".1%")
            yield found("region", row["region"], "regions", row, held=held, share=share, more=more)


def warnings(
    tables: Tables, answered: LabelledImages, models: Sequence[ModelUnderAudit], maps: np.ndarray | None, *, of: int
) -> Iterator[str]:
    """What a reader must know first: a guess, coarse maps (N, T, h, w), images lost (`of` so many), unknown gaps."""
    say, target, overall = _SAY["warnings"], answered.target, tables["overall"].set_index("measure")["value"]
    for model, role in zip(models, ("is audited", "it is compared with"), strict=False):
        if model.preprocessing.assumed:
            name = " with ".join(model.described[key] for key in ("model", "weights") if key in model.described)
            whose = f" for the model that {role} ({name})" if len(models) > 1 else ""
            yield say["assumed"].format(**vars(model.preprocessing), whose=whose)
    if maps is not None and min(places := maps.shape[2:]) < 4:
        yield say["coarse"].format(rows=places[0], columns=places[1])
    if (lost := of - len(answered.files)) > of / 10:
        yield say["lost"].format(lost=lost, of=of)
    said, accuracy, common = (overall[name].estimate for name in ("share said yes", "accuracy", "share labelled yes"))
    majority = target.words[1] if common >= 0.5 else target.words[0]
    common = max(common, 1 - common)
    if said in (0, 1):
        yield say["constant"].format(answer=target.words[int(said)])
    elif accuracy < common:
        yield say["useless"].format(accuracy=accuracy, majority=majority, common=common)
    if accuracy < 0.5:
        yield say["wrong"]
    words = {group.name: group.words for group in answered.groups}
    for row, smallest in zip(_rows(tables, "gaps"), tables["visible"]["smallest"], strict=True):
        outside, inside = words[row["group"]]
        row |= {"outside": outside, "inside": inside}
        if not min(row["n_in"], row["n_out"]):
            yield say["no_image"].format(**row, empty=outside if row["n_in"] else inside)
        elif np.isnan(smallest):
            yield say["unseen"].format(**row, better=max(row["right_in"], row["right_out"]))


def notes(asked: LabelledImages, answered: LabelledImages, unlabelled: Sequence[str], deep: int) -> Iterator[str]:
    """What a reader should know of the data: of images of 16 bits, so many, and of those that were not looked at."""
    say, readable = _SAY["notes"], {*answered.files}
    yield from asked.notes
    if deep:
        yield say["deep"].format(deep=deep)
    if unreadable := [name for name in asked.files if name not in readable]:
        yield say["unreadable"].format(n=len(unreadable), names=", ".join(unreadable))
    if unlabelled:
        yield say["unlabelled"].format(n=len(unlabelled), names=listed(unlabelled))


def without_labels(tables: Tables, answered: LabelledImages) -> Iterator[str]:
    """What could not be measured for want of images or labels, and why; one sentence each."""
    say = _SAY["unmeasured"]
    for row in _rows(tables, "counts"):
        if row["n"] == 0:
            yield say["no_image"].format(**row)
        elif row["small"]:
            yield say["few"].format(**row, least=SMALL)
    if without := [group.name for group in answered.groups if group.name not in answered.predicted]:
        yield say["groups"].format(target=answered.target.name, groups=", ".join(without))
    if answered.clusters is not None:
        yield say["clusters"]
        for row in _rows(tables, "gaps"):
            if min(row["n_in"], row["n_out"]) > 0 and np.isnan(row["p"]):
                yield say["few_clusters"].format(**row, least=FEW)
        parts = {"scores": "areas under the ROC curve", "against": "changes of gaps, with their p"}
        if lacking := [words for table, words in parts.items() if table in tables]:
            yield say["intervals"].format(parts=" and of ".join(lacking))
    if answered.train is None:
        yield say["training"]


def without_maps(
    tables: Tables, target: str, model: ModelUnderAudit | None, predictions: Predictions | None
) -> Iterator[str]:
    """What could not be measured for want of maps, masks or roles, and why; one sentence each."""
    say, regions = _SAY["unmeasured"], _rows(tables, "regions")
    if model is None or predictions is None:
        yield say["answers"]
        return
    if predictions.maps is None:
        yield say["maps"].format(reason=model.no_maps.rstrip("."))
        return
    if "attention" not in tables:
        yield say["attention"].format(target=target)
    for row in _rows(tables, "attention"):
        if row["empty"]:
            yield say["empty_maps"].format(**row)
    if not regions:
        yield say["masks"]
    if neutral := [row["region"] for row in regions if row["role"] == "neutral"]:
        yield say["neutral"].format(regions=", ".join(neutral))
    images = int(predictions.readable.sum())
    for row in regions:
        if row["n"] < images:
            yield say["no_mask"].format(**row, lacking=images - row["n"], images=images)


def gap_limit(fail_on: str) -> float | None:
    """The limit of `gap>0.05`, None of `finding`; a BiaslibError for anything else."""
    limit = re.fullmatch(r"gap>(0?\.\d+)", fail_on)
    if limit is None and fail_on != "finding":
        raise BiaslibError(f"fail-on is 'finding' or a gap such as 'gap>0.05', in quotation marks, not {fail_on!r}.")
    return None if limit is None else float(limit[1])


def failure(audit: Audit, limit: float | None) -> str:
    """Why a pipeline stops, "" where it goes on: anything was found, or a gap is shown to be larger than a limit."""
    if limit is None:
        found = [each for _, one in audit.parts() for each in one.findings if each.kind != "smaller gap"]
        return f"{len(found)} found" if found else ""
    # whose intervals allow for the number of tests
    gaps = [row for _, one in audit.parts() for row in one.tables["visible"].to_dict("records")]
    beyond = [row for row in gaps if max(row["gap"].low, -row["gap"].high) > limit]
    return "; ".join(f"the gap of {row['group']} among {row['among']} is {number(row['gap'], '.3f')}" for row in beyond)


def permutations_needed(tests: int) -> int:
    """How many permutations make the smallest p there is, times so many tests, at most `ALPHA`."""
    return math.ceil(tests / ALPHA)


def _images_needed(tests: int) -> int:
    # all flips of the signs of n differences are 2^n, and two of them are as far out as the data
    return math.ceil(np.log2(2 * tests / ALPHA))


def _rows(tables: Tables, name: str) -> list[dict[Any, Any]]:
    return tables[name].to_dict("records") if name in tables else []


def _significant(tables: Tables, name: str) -> list[dict[Any, Any]]:
    """The rows that differ by more than chance."""
    return [row for row in _rows(tables, name) if row["p corrected"] <= ALPHA]


def _points(gap: Interval) -> str:
    low, high = (gap.low, gap.high) if gap.estimate > 0 else (-gap.high, -gap.low)
    size = Interval(100 * abs(gap.estimate), 100 * low, 100 * high, gap.n)
    return f"{number(size, '.1f')} points {'more' if gap.estimate > 0 else 'less'}"
