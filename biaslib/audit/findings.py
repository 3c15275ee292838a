"""From tables to sentences: what differs by more than chance, and what could not be measured."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslib.audit.looking import Seen
from biaslib.audit.measures import RATES, SMALL
from biaslib.audit.result import Finding
from biaslib.audit.subjects import Subject
from biaslib.audit.tables import Binary, Labelled
from biaslib.figures import p_value
from biaslib.figures.table import number
from biaslib.statistics import Interval, holm

TESTED = ("gaps", "amplification", "regions")


def count(tables: Mapping[str, pd.DataFrame]) -> int:
    """How many tests the tables hold."""
    return sum(int(tables[name]["p"].notna().sum()) for name in TESTED if name in tables)


def untested(tables: dict[str, pd.DataFrame], *, dealt: int, needed: int, tests: int, alpha: float) -> Iterator[str]:
    """What has too little behind it for its test to find anything; its p-values are taken out, one sentence each."""
    if dealt < needed:
        tables["amplification"]["p"] = np.nan
        yield (
            f"Whether amplification is more than unrelated errors give could not be tested: with {tests} tests at "
            f"once {needed:,} deals of the answers are needed, and there were {dealt:,}; ask for more with --deals."
        )
    if "regions" in tables:
        # all flips of the signs of n differences are 2^n, and two of them are as far out as the data
        least = int(np.ceil(np.log2(2 * tests / alpha)))
        for row in tables["regions"].query(f"0 < n < {least} and role != 'neutral'").to_dict("records"):
            yield (
                f"Whether the map leans to {row['region']} could not be tested: {row['n']} images have it, and with "
                f"{tests} tests at once {least} are needed."
            )
        few = tables["regions"]["n"] < least
        tables["regions"]["p"] = tables["regions"]["p"].mask(few)


def correct(tables: dict[str, pd.DataFrame], *, corrected: bool) -> int:
    """Adds the column `p corrected` to every table with tests, over all of them; returns how many tests there are."""
    names = [name for name in TESTED if name in tables]
    values = np.concatenate([tables[name]["p"].to_numpy(float) for name in names])
    adjusted = holm(values) if corrected else values
    for name in names:
        tables[name]["p corrected"], adjusted = np.split(adjusted, [len(tables[name])])
    return count(tables)


def found(tables: dict[str, pd.DataFrame], target: Binary, groups: list[Binary], *, alpha: float) -> Iterator[Finding]:
    """A sentence for everything that differs by more than chance in the direction that harms.

    Its corrected p is at most alpha. An amplification is a finding where the answers are further off than as many
    mistakes that ignore the group, and not where they are nearer; an unwanted region where it holds more of the map
    than of the image, a wanted one where it holds less, and any other region never.
    """
    words = {group.name: group.words for group in groups}
    for row in _rows(tables, "gaps", alpha):
        outside, inside = words[row["group"]]
        yield Finding(
            "gap",
            row["group"],
            f"{row['among']}: {number(row['right_in'], '.1%')} of the answers are right for {inside} and "
            f"{number(row['right_out'], '.1%')} for {outside}, {_points(row['gap'])} "
            f"({row['n_in']:,} and {row['n_out']:,} images, {_p(row)}).",
            row["p corrected"],
        )
    for row in _rows(tables, "amplification", alpha):
        if row["size"].estimate <= row["unrelated errors"]:
            continue
        sentence = f"{_amplified(row, target, words[row['group']])} ({_p(row)})."
        yield Finding("amplification", row["group"], sentence, row["p corrected"])
    for row in _rows(tables, "regions", alpha):
        excess = row["excess"].estimate
        if excess > 0 if row["role"] == "unwanted" else excess < 0:
            more = "more than" if row["role"] == "unwanted" else "less than"
            yield Finding(
                "region",
                row["region"],
                f"{row['region']}, a region marked as {row['role']}, holds {number(row['mass'], '.1%')} of the map of "
                f"{target.name}, {more} its {number(row['area'].estimate, '.1%')} of the image ({row['n']:,} images, "
                f"{_p(row)}).",
                row["p corrected"],
            )


def warnings(tables: dict[str, pd.DataFrame], target: Binary, groups: list[Binary]) -> Iterator[str]:
    """What a reader must know before anything else: that the model is of little use, and which gaps are not known."""
    value = {row["measure"]: row["value"].estimate for row in tables["overall"].to_dict("records")}
    said, accuracy, common = value["share said yes"], value["accuracy"], value["share labelled yes"]
    majority = target.words[1] if common >= 0.5 else target.words[0]
    common = max(common, 1 - common)
    if said in (0, 1):
        yield (
            f"The model gives the same answer, {target.words[int(said)]}, for every image. Its gaps are 0 or undefined "
            "for that reason, and say nothing about whom it serves."
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
    words = {group.name: group.words for group in groups}
    for row, seen in zip(tables["gaps"].to_dict("records"), tables["visible"].to_dict("records"), strict=True):
        outside, inside = words[row["group"]]
        if not min(row["n_in"], row["n_out"]):
            empty = outside if row["n_in"] else inside
            yield (
                f"The gap between {inside} and {outside} among images labelled {row['among']} could not be measured: "
                f"there is no image in the cell {row['among']}, {empty}."
            )
        elif np.isnan(seen["smallest"]):
            yield (
                f"A gap between {inside} and {outside} among images labelled {row['among']} could not have been seen, "
                f"however large: there are {row['n_in']:,} and {row['n_out']:,} images, and the answers are right for "
                f"{max(row['right_in'], row['right_out']):.1%} of the better group."
            )


def unmeasured(
    tables: dict[str, pd.DataFrame],
    target: Binary,
    groups: list[Binary],
    predicted: pd.DataFrame,
    asked: Subject | None,
    told: Labelled,
    seen: Seen | None,
) -> Iterator[str]:
    """What could not be measured, and why; one sentence each."""
    counts = tables["counts"]
    for row in counts[counts["small"]].to_dict("records"):
        if row["n"] == 0:
            yield f"{row['cell']}: no image, so nothing is known of this cell and no gap goes over it."
        else:
            yield f"{row['cell']}: {row['n']} images only (fewer than {SMALL}), so its intervals are wide."
    without = [group.name for group in groups if group.name not in predicted]
    if without:
        yield (
            f"Amplification from {target.name} to {', '.join(without)}, and of both predicted: it needs predictions of "
            "the group, and there are none."
        )
    if told.train is None:
        yield "What the model amplifies of its training data: no training labels were given, these labels stand in."
    if asked is None or seen is None:
        yield "Where the model looks, and its surest mistakes: only yes and no were given, neither model nor images."
        return
    if seen.maps is None:
        yield f"Where the model looks: {asked.no_maps.rstrip('.')}."
        return
    if seen.maps.shape[1] == 1:
        yield f"Whether {target.name} and the group share their attention: no output of the model tells the group."
    else:
        for row in tables["attention"].to_dict("records"):
            if row["empty"]:
                yield f"Attention-IoU with {row['group']}: {row['empty']:,} images have a map without any mass."
    if not seen.mass:
        yield "Attention in regions: no masks were given."
    else:
        neutral = tables["regions"].query("role == 'neutral'")["region"]
        if len(neutral):
            yield (
                f"Whether the map should lie on {', '.join(neutral)} or not was not said, so it is described and not "
                "tested: name each region as wanted or unwanted."
            )
    for region, values in seen.mass.items():
        missing = int((~np.isfinite(values)).sum())
        if missing:
            yield (
                f"Attention in {region}: {missing:,} of {len(values):,} images have no mask, an empty one, or a map "
                "without mass."
            )


def _amplified(row: dict[str, Any], target: Binary, group: tuple[str, str]) -> str:
    """What the model says how often beside how often it is so, and what mistakes alone would make of that."""
    said_in, labelled_in, said_out, labelled_out = (f"{row[rate]:.1%}" for rate in RATES)
    (outside, inside), yes = group, target.words[1]
    size = f"{100 * row['size'].estimate:.1f} points"
    chance = f"{100 * row['unrelated errors']:.1f}"
    match row["direction"]:
        case "group → target":
            return (
                f"The model says {yes} of {said_in} of the images marked {inside} ({labelled_in} are labelled so) and "
                f"of {said_out} of those marked {outside} ({labelled_out}): {size} off on average, where as many "
                f"mistakes that ignore {row['group']} would be {chance} off"
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


def _rows(tables: dict[str, pd.DataFrame], name: str, alpha: float) -> list[dict[Any, Any]]:
    table = tables.get(name, pd.DataFrame({"p corrected": []}))
    return table[table["p corrected"] <= alpha].to_dict("records")


def _points(gap: Interval) -> str:
    low, high = (gap.low, gap.high) if gap.estimate > 0 else (-gap.high, -gap.low)
    size = Interval(100 * abs(gap.estimate), 100 * low, 100 * high, gap.n)
    return f"{number(size, '.1f')} points {'more' if gap.estimate > 0 else 'less'}"


def _p(row: dict[str, Any]) -> str:
    shown = p_value(float(row["p corrected"]))
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"
