"""From tables to sentences: what differs by more than chance, and what could not be measured."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from biaslib.audit.looking import Seen
from biaslib.audit.measures import SMALL
from biaslib.audit.result import Finding
from biaslib.audit.subjects import Subject
from biaslib.audit.tables import Binary, Labelled
from biaslib.figures import p_value
from biaslib.figures.table import number
from biaslib.statistics import Interval, holm

TESTED = ("gaps", "amplification", "regions")


def correct(tables: dict[str, pd.DataFrame], *, corrected: bool) -> int:
    """Adds the column `p corrected` to every table with tests, over all of them; returns how many tests there are."""
    names = [name for name in TESTED if name in tables]
    values = np.concatenate([tables[name]["p"].to_numpy(float) for name in names])
    adjusted = holm(values) if corrected else values
    for name in names:
        tables[name]["p corrected"], adjusted = np.split(adjusted, [len(tables[name])])
    return int(np.isfinite(values).sum())


def found(tables: dict[str, pd.DataFrame], target: Binary, groups: list[Binary], *, alpha: float) -> Iterator[Finding]:
    """A sentence for everything whose corrected p is at most alpha; of regions, for those with more than their area."""
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
        yield Finding(
            "amplification",
            row["group"],
            f"{target.name} and {row['group']}, {row['direction']}: the answers change how far they go together by "
            f"{number(row['size'], '.3f')}, errors that know nothing of each other by "
            f"{number(row['unrelated errors'], '.3f')} ({_p(row)}).",
            row["p corrected"],
        )
    for row in _rows(tables, "regions", alpha):
        if row["excess"].estimate > 0:
            yield Finding(
                "region",
                row["region"],
                f"{row['region']} holds {number(row['mass'], '.1%')} of the map of {target.name}, on "
                f"{number(row['area'].estimate, '.1%')} of the image ({row['n']:,} images, {_p(row)}).",
                row["p corrected"],
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
    for region, values in seen.mass.items():
        missing = int((~np.isfinite(values)).sum())
        if missing:
            yield (
                f"Attention in {region}: {missing:,} of {len(values):,} images have no mask, an empty one, or a map "
                "without mass."
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
