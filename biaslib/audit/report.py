"""What an audit hands on: its page, which needs no network and nothing beside it, and two cards in Markdown."""

import re
import warnings
from collections.abc import Container, Mapping
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslib import figures
from biaslib.audit.measurements import POWER
from biaslib.audit.records import ANSWERS, CARDS, VALUES, Audit, Shown
from biaslib.figures import p_value, theme
from biaslib.figures.table import number as printed
from biaslib.statistics import Interval
from biaslib.store.files import beside

_MARKS = re.compile(r"[\\`*_{}<>|~$&#]|\[(?![-−\d])|\](?=[(\[:])")


def page(audit: Audit) -> str:
    """The whole HTML document."""
    with warnings.catch_warnings():
        # names may hold signs that matplotlib's own font lacks; the browser's has them
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        parts = [(one, f"-target-{at}" if audit.further else "") for at, (_, one) in enumerate(audit.parts(), start=1)]
        shown = [{name: piece.html for name, piece in pieces(one, mark).items()} for one, mark in parts]
    shipped = theme.templates("audit", autoescape=True)
    shipped.filters["percent"] = lambda value: printed(value, ".1%")
    return shipped.get_template("report.html.j2").render(
        audit=audit, parts=list(zip(parts, shown, strict=True)), overview=_overview, words=_words(audit),
        palette=theme.css("report"), power=POWER, values=VALUES, answers=ANSWERS, cards=CARDS,
    )  # fmt: skip


def cards(audit: Audit) -> dict[str, str]:
    """The model card and the annex by their files' names, in Markdown that no name or label can add to."""
    shipped = theme.templates("audit", finalize=_escaped, keep_trailing_newline=True)
    shipped.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    shown = {"audit": audit, "number": printed, "p_value": p_value}
    return {name: shipped.get_template(f"{name}.j2").render(shown) for name in CARDS}


def pieces(audit: Audit, mark: str = "") -> dict[str, figures.HtmlFigure]:
    """The figures and tables of one target by name, as a notebook can show them; a mark ends their anchors."""
    words = _words(audit)
    start = f"{audit.target.name}: ".replace("`", "'").replace("](", "] (") if mark else ""  # a caption is no Markdown
    captions = {name: start + text for name, text in words["captions"].items()}
    made = {"visible-figure": _outcomes(audit, captions["visible-figure"], f"outcomes{mark}")}
    for name, table in audit.tables.items():
        if name in captions and len(table):
            made[name] = _table(table, name + mark, captions[name], words["columns"])
    for number, (group, maps) in enumerate(audit.average_maps.items(), start=1):
        name = "average-maps" if number == 1 else f"average-maps-{number}"
        made[name] = _averages(maps, audit.target.name, group, name + mark)
    shown = [(f"mistakes-{number}", mistakes) for number, mistakes in enumerate(audit.shown, start=1)]
    shown += [(f"slice-{number}", mistakes) for number, mistakes in enumerate(audit.slices, start=1)]
    for name, mistakes in shown:
        if mistakes.images is not None:
            made[name] = _mistakes(mistakes, mistakes.images, name + mark)
        files = pd.DataFrame({"file": mistakes.files, f"answer about {audit.target.name}": mistakes.answers})
        caption = f"{start}The files of these images ({mistakes.cell})."
        made[f"{name}-files"] = figures.table(files, caption=caption, name=f"{name}-files{mark}")
    return made


def reliability(tables: Container[str]) -> pd.DataFrame:
    """What the dial says of the measures in these tables of an audit, for one model.

    The table travels with the package, so that an audit outside a checkout of the book holds it too.
    `tools/reliability.py` makes it from the dial's record, and a test compares the two.
    """
    recorded = _recorded("reliability")
    rows = recorded[[name in tables for name in recorded["table"]]].reset_index(drop=True)
    accused = [Interval(row["accused"], row["low"], row["high"], int(row["n"])) for row in rows.to_dict("records")]
    words = rows.drop(columns=["table", "images", "accused", "low", "high", "n"])
    words.insert(1, "unbiased accused", pd.Series(accused, dtype=object))
    return words


def error_rates(tables: Container[str]) -> pd.DataFrame:
    """How often reports with such tables, corrected for all their tests, were wrong in the generated worlds.

    `chapters.audit_rates.error_rates` makes it from the record of the book's page on audits; it travels as the other.
    """
    rates = _recorded("error_rates")
    rows = rates[rates["report"] == ("maps" if "regions" in tables else "answers alone")].reset_index(drop=True)
    hidden = [name for name in map(str, rows) if name.startswith("slices") and "slices" not in tables]
    return rows.drop(columns=["report", "images", *hidden])


def _overview(audit: Audit) -> figures.HtmlFigure:
    """How often each target is right, and its gap that is surest to be large."""
    rows, words = [], _words(audit)
    for _, one in audit.parts():
        gaps, right = one.tables["visible"].to_dict("records"), one.tables["overall"]["value"][0]
        surest = max(gaps, key=lambda row: np.nan_to_num(max(row["gap"].low, -row["gap"].high), nan=-1.0))
        shown = {name: surest[name] for name in ("group", "among", "gap", "outcome")}
        rows.append({"target": one.target.name, "right": right, **shown, "found": len(one.findings)})
    return _table(pd.DataFrame(rows), "overview", words["captions"]["overview"], words["columns"])


def _outcomes(audit: Audit, caption: str, name: str) -> figures.HtmlFigure:
    """Each gap and its interval, inside what was too small to be seen; dotted lines are the margin."""
    table = audit.tables["visible"]
    frame = pd.DataFrame([astuple(gap)[:4] for gap in table["gap"]], columns=["gap", "low", "high", "n"])
    frame["images"] = [_plain(name) for name in table["group"] + ", among " + table["among"]]
    drawn = figures.dot_plot(
        frame.assign(outcome=table["outcome"]), label="images", value="gap", low="low", high="high", n="n",
        by="outcome", colours={"shown": "vermillion", "excluded": "blue", "cannot be told": "orange"}, reference=0.0,
        sort=False, digits=3, x_label="accuracy in the group less that of the others",
    )  # fmt: skip
    unseen = table["smallest"].fillna(1.0)  # no gap could have been seen
    drawn.axes[0].barh(range(len(table)), 2 * unseen, left=-unseen, height=0.7, color=theme.GRID, zorder=0)
    for end in (-audit.margin, audit.margin):
        drawn.axes[0].axvline(end, color=theme.MUTED, linewidth=0.8, linestyle=":")
    values = "; ".join(f"{name} {gap:.2f}" for name, gap in zip(frame["images"], frame["gap"], strict=True))
    return figures.show(drawn, alt=f"Each gap in accuracy: {values}.", caption=caption, name=name)


def _averages(maps: Mapping[str, np.ndarray], target: str, group: str, name: str) -> figures.HtmlFigure:
    row = {f"{_plain(target)}: mean share of the map": np.stack(list(maps.values()))}
    strip = figures.image_strip(row, labels=[_plain(cell) for cell in maps])
    alt = f"Mean attention maps for the cells {'; '.join(maps)}."
    caption = f"Where the map of the answer lies on average, by {group}, cell by cell, one scale: bright is much."
    return figures.show(strip, alt=alt, caption=caption, name=name)


def _mistakes(mistakes: Shown, images: np.ndarray, name: str) -> figures.HtmlFigure:
    titles = [f"{value:+.1f}".replace("-", "−") for value in mistakes.answers]
    columns = max(3, len(images))
    if mistakes.maps is None:
        figure = figures.contact_sheet(images, columns=columns, titles=titles)
    else:
        both, totals = np.concatenate([images, images]), mistakes.maps.sum((1, 2), keepdims=True)
        bare = np.zeros_like(mistakes.maps)
        heat = np.concatenate([bare, np.divide(mistakes.maps, totals, out=bare.copy(), where=totals > 0)])
        both, heat = (_padded(values, len(images), columns) for values in (both, heat))
        above = [*titles, *[""] * (2 * columns - len(titles))]
        figure = figures.maps_over_images(both, heat, columns=columns, titles=above, label="share of the map")
    below = "" if mistakes.maps is None else " and, below, where the map lies"
    alt = f"{len(images)} images of {mistakes.cell}, all answered wrongly{below}."
    caption = f"{mistakes.cell}: the surest wrong answers{below}. Above each: the answer, 0 being undecided."
    return figures.show(figure, alt=alt, caption=caption, name=name)


def _padded(values: np.ndarray, row: int, columns: int) -> np.ndarray:
    """Rows of so many columns: a sheet of few pictures would show them very large."""
    blank = np.full((columns - row, *values.shape[1:]), 253 if values.dtype == np.uint8 else 0, values.dtype)
    return np.concatenate([values[:row], blank, values[row:], blank])


def _table(frame: pd.DataFrame, name: str, caption: str, columns: Mapping[str, str]) -> figures.HtmlFigure:
    # a flag that is not set, and a value that is defined nowhere, are not worth a column
    rare = ["small", "in the training labels", "unrelated errors", "signed", "p corrected", "calibration error"]
    mute = frame.columns.intersection(rare)
    idle = [column for column in mute if not (frame[column] if column == "small" else frame[column].notna()).any()]
    shown = _paired(frame).drop(columns=[*idle, *({"p"} & set(frame))]).rename(columns=columns)
    special: Mapping[str, Any] = {columns["p corrected"]: p_value, columns["needed"]: ",.0f", columns["as_far"]: ".0f"}
    formats = {
        str(column): special.get(str(column), ".3f")
        for column in shown
        if shown[column].map(lambda value: not isinstance(value, (str, bool, int))).any()
    }
    if columns["small"] in shown:
        shown = shown.assign(few=shown["few"].map({True: "few", False: ""}))
    return figures.table(shown, caption=caption, name=name.replace("_", "-"), formats=formats)


def _paired(frame: pd.DataFrame) -> pd.DataFrame:
    """Two rates in one column, "0.500 (0.470)": one each would be wider than a screen."""
    if "said_in" not in frame:
        return frame
    pairs = {
        f"said (labelled), {words}": [
            f"{printed(predicted, '.3f')} ({printed(labelled, '.3f')})"
            for predicted, labelled in zip(frame[f"said_{side}"], frame[f"labelled_{side}"], strict=True)
        ]
        for side, words in (("in", "in group"), ("out", "others"))
    }
    rest = frame.drop(columns=["group", "direction", "said_in", "labelled_in", "said_out", "labelled_out"])
    return pd.concat([frame[["group", "direction"]], pd.DataFrame(pairs, index=frame.index), rest], axis=1)


def _plain(text: str) -> str:
    """A text that matplotlib takes as it is: dollars would start a formula."""
    return text.replace("$", r"\$")


def _escaped(value: Any) -> str:
    safe = hasattr(value, "__html__")  # and Markdown already
    return str(value) if safe else _MARKS.sub(lambda mark: f"\\{mark[0]}", re.sub(r"\s+", " ", str(value)))


def _words(audit: Audit) -> dict[str, dict[str, str]]:
    """What the page says in its own words, with the numbers of this audit filled in."""
    known = {"correction": audit.settings["correction"], "gap": audit.settings["margin"], "power": POWER}
    known |= {"images": int(_recorded("reliability")["images"].iloc[0])}
    known |= {"rated": int(_recorded("error_rates")["images"].iloc[0])}
    known |= {"confidence": audit.settings["confidence of outcomes"]}
    words = beside(__file__).items()
    return {part: {name: text.format(**known) for name, text in texts.items()} for part, texts in words}


@cache
def _recorded(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(__file__).with_name(f"{name}.csv"))
