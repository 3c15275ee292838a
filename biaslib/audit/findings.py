"""From measurements to sentences: which tests there are, what they find, and what could not be measured."""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.measurements import FEW, SMALL, Tables
from biaslib.audit.model import ModelUnderAudit
from biaslib.audit.predictions import Predictions
from biaslib.audit.records import Finding
from biaslib.figures import p_value
from biaslib.figures.table import number
from biaslib.statistics import Interval, holm

ALPHA = 0.05
_TESTED = ("gaps", "against", "amplification", "regions")  # tables of which every row is a test


def tested(of_targets: Sequence[Tables], *, permutations: int, at_once: int, corrected: bool) -> list[Tables]:
    """Of each target the tables of which every row is a test, with p-values by Holm over all targets, if asked for.

    So many tests are made at once. A p is NaN where it has too little behind it for its test to find anything.
    """
    p = {(at, name): tables[name]["p"] for at, tables in enumerate(of_targets) for name in _TESTED if name in tables}
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
    needed = permutations_needed(at_once)
    if 0 < permutations < needed:
        yield _sentence("few permutations", tests=at_once, needed=needed, permutations=permutations)
    least = _images_needed(at_once)
    for row in _rows(tables, "regions"):
        if 0 < row["n"] < least and row["role"] != "neutral":
            yield _sentence("few images of a region", region=row["region"], n=row["n"], tests=at_once, least=least)


def findings(tables: Tables, target: Binary, groups: Sequence[Binary]) -> Iterator[Finding]:
    """A sentence for everything that differs by more than chance in the direction that harms.

    A change of a gap from another model's is told in either direction. An amplification is a finding where the answers
    are further off than as many mistakes that ignore the group; an unwanted region where it holds more of the map than
    of the image, a wanted one less, any other region never.
    """
    words = {group.name: dict(zip(("outside", "inside"), group.words, strict=True)) for group in groups}
    for row, chance in _significant(tables, "gaps"):
        shares = {name: number(row[name], ".1%") for name in ("right_in", "right_out")}
        of_gap = row | shares | words[row["group"]] | {"points": _points(row["gap"]), "chance": chance}
        yield Finding("gap", row["group"], _sentence("gap", **of_gap), row["p corrected"])
    for row, chance in _significant(tables, "against"):
        here, there = (number(100 * row[name].estimate, "+.1f") for name in ("gap", "gap_other"))
        of_change = row | words[row["group"]] | {"points": _points(row["change"]), "chance": chance}
        sentence = _sentence("change of a gap", **of_change, here=here, there=there)
        kind = "larger gap" if abs(row["gap"].estimate) > abs(row["gap_other"].estimate) else "smaller gap"
        yield Finding(kind, row["group"], sentence, row["p corrected"])
    for row, chance in _significant(tables, "amplification"):
        if row["size"].estimate > row["unrelated errors"]:
            sentence = f"{_amplified(row, target, words[row['group']])} ({chance})."
            yield Finding("amplification", row["group"], sentence, row["p corrected"])
    for row, chance in _significant(tables, "regions"):
        more, sign = ("more than", 1) if row["role"] == "unwanted" else ("less than", -1)
        if sign * row["excess"].estimate > 0:
            shares = {"held": number(row["mass"], ".1%"), "covered": number(row["area"].estimate, ".1%")}
            sentence = _sentence("region", **row, **shares, target=target.name, more=more, chance=chance)
            yield Finding("region", row["region"], sentence, row["p corrected"])


def warnings(tables: Tables, answered: LabelledImages) -> Iterator[str]:
    """What a reader must know before anything else: that the model is of little use, and which gaps are not known."""
    target = answered.target
    overall = tables["overall"].set_index("measure")["value"]
    said, accuracy, common = (overall[name].estimate for name in ("share said yes", "accuracy", "share labelled yes"))
    majority = target.words[1] if common >= 0.5 else target.words[0]
    common = max(common, 1 - common)
    if said in (0, 1):
        yield _sentence("one answer", answer=target.words[int(said)])
    elif accuracy < common:
        yield f"The model is right for {accuracy:.1%} of the images, always answering {majority} for {common:.1%}."
    if accuracy < 0.5:
        yield "The answers are wrong more often than right: check which output is asked, and which value is yes."
    words = {group.name: group.words for group in answered.groups}
    for row, smallest in zip(_rows(tables, "gaps"), tables["visible"]["smallest"], strict=True):
        of_gap = row | dict(zip(("outside", "inside"), words[row["group"]], strict=True))
        if not min(row["n_in"], row["n_out"]):
            yield _sentence("empty cell", **of_gap, empty=of_gap["outside" if row["n_in"] else "inside"])
        elif np.isnan(smallest):
            yield _sentence("unseen gap", **of_gap, better=max(row["right_in"], row["right_out"]))


def without_labels(tables: Tables, answered: LabelledImages) -> Iterator[str]:
    """What could not be measured for want of images or labels, and why; one sentence each."""
    target = answered.target.name
    for row in _rows(tables, "counts"):
        if row["n"] == 0:
            yield f"{row['cell']}: no image, so nothing is known of this cell and no gap goes over it."
        elif row["small"]:
            yield f"{row['cell']}: {row['n']} images only (fewer than {SMALL}), so its intervals are wide."
    for row in _rows(tables, "intersections"):
        if row["n"] < SMALL:
            right, drawn = (number(row[name], ".1%") for name in ("accuracy", "shrunk"))
            yield _sentence("small combination", of=row["of"], n=row["n"], least=SMALL, right=right, drawn=drawn)
    without = [group.name for group in answered.groups if group.name not in answered.predicted]
    if without:
        yield _sentence("no predictions of groups", target=target, groups=", ".join(without))
    if answered.clusters is not None:
        yield "Whether amplification is more than unrelated errors give: images that come in clusters are not permuted."
        for row in _rows(tables, "gaps"):
            if min(row["n_in"], row["n_out"]) > 0 and np.isnan(row["p"]):
                side = f"one side has images of fewer than {FEW} clusters"
                yield f"Whether the gap of {row['group']} among {row['among']} is more than chance: {side}."
        parts = {"scores": "areas under the ROC curve", "against": "changes of gaps, with their p"}
        if lacking := [words for table, words in parts.items() if table in tables]:
            yield f"Intervals of {' and of '.join(lacking)}: they are known for images that do not come in clusters."
    if answered.train is None:
        yield "What the model amplifies of its training data: no training labels were given, these labels stand in."


def without_maps(
    tables: Tables, target: str, model: ModelUnderAudit | None, predictions: Predictions | None
) -> Iterator[str]:
    """What could not be measured for want of maps, masks or roles, and why; one sentence each."""
    if model is None or predictions is None:
        yield "Where the model looks, and its surest mistakes: answers were given, neither model nor images."
        return
    if predictions.maps is None:
        yield f"Where the model looks: {model.no_maps.rstrip('.')}."
        return
    if "attention" not in tables:
        yield f"Whether {target} and the group share their attention: there is no map of an answer about the group."
    for shared in _rows(tables, "attention"):
        if shared["empty"]:
            yield f"Attention-IoU with {shared['group']}: {shared['empty']:,} images have a map without any mass."
    regions = _rows(tables, "regions")
    if not regions:
        yield "Attention in regions: no masks were given."
    neutral = [row["region"] for row in regions if row["role"] == "neutral"]
    if neutral:
        yield _sentence("neutral regions", regions=", ".join(neutral))
    images = int(predictions.readable.sum())
    for row in regions:
        if row["n"] < images:
            yield _sentence("images without a region", region=row["region"], lacking=images - row["n"], images=images)


def permutations_needed(tests: int) -> int:
    """How many permutations make the smallest p there is, times so many tests, at most `ALPHA`."""
    return math.ceil(tests / ALPHA)


def _images_needed(tests: int) -> int:
    # all flips of the signs of n differences are 2^n, and two of them are as far out as the data
    return math.ceil(np.log2(2 * tests / ALPHA))


def _amplified(row: Mapping[str, Any], target: Binary, words: Mapping[str, str]) -> str:
    """What the model says how often beside how often it is so, and what mistakes alone would make of that."""
    shares = {name: f"{row[name]:.1%}" for name in ("said_in", "labelled_in", "said_out", "labelled_out")}
    sizes = {"size": f"{100 * row['size'].estimate:.1f} points", "chance": f"{100 * row['unrelated errors']:.1f}"}
    names = {"yes": target.words[1], "target": target.name, "group": row["group"], **words}
    return _sentence(row["direction"], **shares, **sizes, **names)


def _sentence(name: str, **values: Any) -> str:
    """One of the sentences in `findings.toml`."""
    return str(_sentences()[name].format(**values))


@cache
def _sentences() -> dict[str, str]:
    return tomllib.loads(resources.files("biaslib.audit").joinpath("findings.toml").read_text(encoding="utf-8"))


def _rows(tables: Tables, name: str) -> list[dict[Any, Any]]:
    return tables[name].to_dict("records") if name in tables else []


def _significant(tables: Tables, name: str) -> Iterator[tuple[dict[Any, Any], str]]:
    """The rows that differ by more than chance, with their p in words."""
    for row in _rows(tables, name):
        if row["p corrected"] <= ALPHA:
            value = p_value(row["p corrected"])
            yield row, f"p {value}" if value.startswith("<") else f"p = {value}"


def _points(gap: Interval) -> str:
    low, high = (gap.low, gap.high) if gap.estimate > 0 else (-gap.high, -gap.low)
    size = Interval(100 * abs(gap.estimate), 100 * low, 100 * high, gap.n)
    return f"{number(size, '.1f')} points {'more' if gap.estimate > 0 else 'less'}"
