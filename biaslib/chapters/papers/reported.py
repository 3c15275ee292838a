"""What the four papers print, type in and claim, from data/published/, whose column `where` names the place."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslib.book.claims import FAILS, HOLDS, UNCERTAIN, Claim, all_of, unpaired, within
from biaslib.chapters.papers.attention_iou import LOCALISED
from biaslib.datasets import published
from biaslib.figures.table import number
from biaslib.statistics import Interval

_Tables = Mapping[str, pd.DataFrame]
_KEYS = ("attribute", "name", "trained_on", "faces", "backbone", "bias", "group", "region")  # columns that name a row


def printed(name: str) -> pd.DataFrame:
    """A table of a paper as printed, by its file in data/published/ without ".csv".

    Of Schaaf et al. (2021), whose p-values of 0.00 stand for p < 0.005: "schaaf-accuracy" (Table 1), "schaaf-p-values"
    (Tables 2 and 4), "schaaf-aopc" (Tables 3 and 5) and "schaaf-set-up".
    """
    return published.read(f"{name}.csv").drop(columns="where")


def family(network: str) -> str | None:
    """The network of Schaaf et al. ("EfficientNet" or "MobileNet") that a network is named after, or None."""
    return next((name for name in ("EfficientNet", "MobileNet") if name.lower() in network.lower()), None)


def not_rejected(object_: str, measure: str) -> tuple[int, int]:
    """In how many of the paper's tests the change of an object is not significant at its level, and of how many."""
    table = printed("schaaf-p-values")
    p = table[(table["object"] == object_) & (table["measure"] == measure)]["p"]
    return int((p > _set_up()["level"]).sum()), len(p)


def images_a_test() -> dict[str, int]:
    """Images of one object, which a test is about, by use case; the paper leaves out some wrong ones."""
    set_up = _set_up()
    return {name: int(set_up[f"{name}: images"] // set_up[f"{name}: classes"]) for name in ("pets", "fruits")}


def celeba_amplification() -> pd.DataFrame:
    """The values of CelebA that Zhao, Andrews and Xiang (2023) released, multiplied by 100, with 95 % intervals.

    Undirected values of single attributes cannot be compared with ours: the released code counts each hair colour
    twice, for the faces with it and without, and divides the absolute sum by these six rows, not by the 23 attributes.
    One row a value: kind ("mAP" or a kind of amplification), sets, sign, value, interval (half of its width), printed.
    """
    table = printed("amplification-celeba")
    pairs = zip(table["value"], table["interval"], strict=True)
    return table.assign(printed=[f"{value:.3f}\u00a0±\u00a0{half:.3f}".replace("-", "−") for value, half in pairs])


def paper_claims() -> list[Claim]:
    """What Attention-IoU's abstract, text, captions and slides claim, as far as its files can be asked about it.

    A quoted number holds where the files' value gives it, rounded or cut off, or lies between the list's bounds.
    """
    return [
        Claim(
            row.says, all_of(*(within(name, *_bounds(row)) for name in _names(row))), paper=row.paper, given=row.given
        )
        for row in _listed()
        if row.table
    ]


def claim_numbers(tables: _Tables) -> dict[str, Interval | float]:
    """What `paper_claims` rest on, by name; a difference of two released means takes the widest ends of both."""
    rows = _rows(tables)
    numbers: dict[str, Interval | float] = {}
    for row in _listed():
        for name, part in zip(_names(row), row.row.split("|"), strict=True):
            if row.paper:
                value = rows[row.table][part][row.value]
                numbers[name] = abs(value) if row.value == "tau" else value  # the authors' figures drop its sign
            elif row.table:
                numbers[name] = _span(rows[row.table][part], row.value)
                if row.minus:
                    other = _other(rows[row.table], part, row.minus, row.value)
                    numbers[name] = unpaired(numbers[name], _span(rows[row.table][other], row.value))
    return numbers


def spans(tables: _Tables, places: Mapping[str, str]) -> dict[str, Interval]:
    """Values in `attention_iou.compute`'s tables by names of your own; a place reads "trends: mask_wga, tau"."""
    rows = _rows(tables)
    parts = {name: re.split(": |, ", place) for name, place in places.items()}
    return {name: _span(rows[table][row], column) for name, (table, row, column) in parts.items()}


def claims_table(numbers: Mapping[str, Interval | float]) -> pd.DataFrame:
    """Every claim, a row each: where it stands, its words, what the files give, our mark (or why none, in `remark`)."""
    marks = {HOLDS: "replicated", FAILS: "not replicated", UNCERTAIN: UNCERTAIN}
    claims, rows = iter(paper_claims()), []
    for row in _listed():
        value = f": {row.paper}" + (f"\u00a0±\u00a0{row.paper_sd}" if row.paper_sd else "") if row.paper else ""
        cells = {"where": row.where.replace(" ", "\u00a0"), "the paper says": row.says + value}
        if row.table:
            spans = [numbers[name] for name in _names(row)]
            digits = max(2, int(row.decimals or 0))
            values = (span.estimate if isinstance(span, Interval) and span.low == span.high else span for span in spans)
            cells |= {"released files": "; ".join(number(each, f".{digits}f") for each in values)}
            cells |= {"record": marks[next(claims).mark(numbers)]}
        else:
            cells |= {"released files": "none", "record": row.given}
        rows.append(cells | {"remark": row.remark})
    return pd.DataFrame(rows)


def _listed() -> list[Any]:
    """The lines of data/published/attention-iou-claims.csv, as data/README.md describes them, all parts as text."""
    return list(published.read("attention-iou-claims.csv").astype(str).itertuples(index=False))


def _names(row: Any) -> list[str]:
    """The names of a claim's numbers, as `paper_claims` and `claim_numbers` have them."""
    tail = f"{row.value}{' as quoted' if row.paper else ''}" + (f" minus {row.minus}" if row.minus else "")
    return [f"{row.table}: {part}, {tail}" for part in row.row.split("|")]


def _bounds(row: Any) -> tuple[float, float]:
    if row.paper and not row.low:
        unit = 10.0 ** -int(row.decimals)
        return float(row.paper) - unit / 2 - 1e-9, float(row.paper) + unit
    return float(row.low or -np.inf), float(row.high or np.inf)


def _set_up() -> pd.Series:
    return printed("schaaf-set-up").set_index("quantity")["value"]


def _rows(tables: _Tables) -> dict[str, dict[str, dict[str, float]]]:
    """The rows of all tables by what stands in their key columns, or in several with a space between."""
    printed = published.printed_values()
    precision = printed["normalized_average_precision"]
    ranked = precision.assign(rank=precision["mean"].rank(ascending=False))
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for name, table in {**tables, "normalized_average_precision": ranked}.items():
        if key := [column for column in _KEYS if column in table]:
            names = table[key].astype(str).agg(" ".join, axis=1)
            rows[name] = {at: dict(row) for at, (_, row) in zip(names, table.iterrows(), strict=True)}
    typed = printed["worst_group_accuracy"].set_index("attribute")["mean"]
    difference = (tables["attributes"].set_index("attribute")["wga"] - typed).abs().max()
    slides = next(sum(_bounds(row)) / 2 for row in _listed() if row.row == "nearest_to_slides")  # between its limits
    nearest = min(tables["waterbirds"]["wga"], key=lambda value: abs(value - slides))
    rows["typed"] = {"worst_group_accuracy": {"difference": difference}, "nearest_to_slides": {"value": nearest}}
    return rows | _of_profiles(tables["profiles"])


def _of_profiles(profiles: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """How far attributes' mask scores lie from Male's on average, and Blond Hair's from Wavy Hair's, by region."""
    wide = profiles.assign(half=(profiles["high"] - profiles["low"]) / 2)
    wide = wide.pivot_table(["mean", "half"], "attribute", "region")
    mean, half = (wide[part][list(LOCALISED)] for part in ("mean", "half"))

    def apart(size: pd.Series, reach: pd.Series, name: str) -> dict[str, dict[str, float]]:
        return {
            at: {name: size[at], f"{name}_low": size[at] - reach[at], f"{name}_high": size[at] + reach[at]}
            for at in size.index
        }

    from_male = (mean - mean.loc["Male"]).abs().mean(axis=1), (half + half.loc["Male"]).mean(axis=1)
    hair = (mean.loc["Blond_Hair"] - mean.loc["Wavy_Hair"]).abs(), half.loc["Blond_Hair"] + half.loc["Wavy_Hair"]
    return {"likeness": apart(*from_male, "distance"), "hair_colours": apart(*hair, "difference")}


def _other(rows: Mapping[str, Mapping[str, float]], part: str, minus: str, value: str) -> str:
    """The row to take away: its name, "highest other", "lowest other", or "Male *" for the same region of Male."""
    if minus.endswith(" other"):
        others = [name for name in rows if name not in (part, published.PROTECTED)]
        return (max if minus.startswith("highest") else min)(others, key=lambda name: rows[name][value])
    return minus.replace("*", part.split()[-1])


def _span(row: Mapping[str, float], name: str) -> Interval:
    """A value of a row with the ends of its interval; a value without them is its own."""
    prefix = "" if name in ("mean", "tau") else f"{name}_"
    low, high = (row.get(f"{prefix}{end}", np.nan) for end in ("low", "high"))
    return Interval(row[name], row[name] if np.isnan(low) else low, row[name] if np.isnan(high) else high, 1)
