"""Typeset tables, and numbers for prose: every value with its interval and its n."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.figures.pieces import HtmlFigure, download, frame, raw_markup, words
from biaslib.statistics import Interval

_Format = str | Callable[[Any], str]


def table(
    frame_: pd.DataFrame,
    *,
    caption: str,
    name: str,
    formats: Mapping[str, _Format] | None = None,
    heat: Mapping[str, Callable[[Any], float]] | None = None,
    note: str | None = None,
    missing: str = "not available: undefined or not measured for this row",
) -> HtmlFigure:
    """A data frame as a typeset table, with its raw values to download.

    Numbers stand right; an interval reads `0.83 [0.81, 0.85]`; NaN reads "n/a" and says why when pointed at. The index,
    where it is more than a row count, becomes the first columns; the first column names the rows. Cells may be numbers,
    text, bool, or intervals (`biaslib.statistics.Interval`). `caption` is a sentence above the table, `name` its anchor
    and the name of the CSV file: letters, digits, - and _. `formats` are, by column, a format specification (".3f",
    "d", "+.1%") or a function from value to text; floats have two decimals where nothing is said. `missing` says what
    NaN means in this table. A `BiaslibError` is raised for an empty caption, a bad name, or a format for a column that
    is not there. `heat` gives, by column, a function from a value to how much of the colour its cell has, from 0 to 1;
    NaN leaves it blank. `note` is a column of text that stands small under the rows' names. Where no more than two
    columns hold intervals, each is also drawn, a column on one scale. A reader sorts a column by its head.
    """
    if not caption.strip():
        raise BiaslibError("caption must say what the table holds; one sentence is enough.")
    formats, heat = formats or {}, heat or {}
    shown = frame_.reset_index() if frame_.index.name or frame_.index.nlevels > 1 else frame_
    if unknown := [column for column in (*formats, *heat, *([note] if note else ())) if column not in shown.columns]:
        known = ", ".join(map(str, shown.columns))
        raise BiaslibError(f"formats names {unknown[0]!r}, which is no column of the table; its columns are {known}.")
    printed = shown.drop(columns=note) if note else shown
    columns = []
    for i, (column, scale) in enumerate(zip(printed.columns, _scales(printed), strict=True)):
        values = [value for value in printed.iloc[:, i] if isinstance(value, Interval) or not _is_missing(value)]
        numeric = bool(values) and all(map(_is_number, values))
        ways = {"spec": formats.get(column, ".2f"), "hot": heat.get(column), "scale": scale}
        columns.append({"name": column, "numeric": numeric, **ways})
    body = _template().render(
        caption=caption, columns=columns, missing=missing, rows=printed.itertuples(index=False, name=None),
        notes=[str(text) for text in shown[note]] if note else None,
    )  # fmt: skip
    body += download(shown, name=name)
    sheets = ("figures.css", "table.css")
    framed = frame(body, alt=caption, caption=None, name=name, classes="biaslib-table", sheets=sheets)
    return HtmlFigure(framed, caption)


@cache
def _template() -> jinja2.Template:
    shipped = theme.TEMPLATES.overlay()
    shipped.tests["missing"], shipped.tests["number"] = _is_missing, _is_number
    shipped.tests["interval"] = lambda value: isinstance(value, Interval)
    shipped.globals |= {"words": words, "number": number, "bracket": _bracket, "ends": _numbers, "place": _place}
    return shipped.get_template("table.html.j2")


def glue_number(name: str, value: Any, digits: int | str = 2) -> None:
    """Lends a number to the prose, where the role `glue:text` with its name prints it.

    The value is a number, an interval (`0.83 [0.81, 0.85]`), or a text; NaN reads "n/a", and a number that is not whole
    has so many digits, or the format specification that is given, such as ".0%". A text with a backtick or a link,
    which the role prints as they are, is a `BiaslibError`.
    """
    if isinstance(value, str) and raw_markup(value):
        raise BiaslibError(f"the quoted text {value!r} holds a backtick or a link: prose prints it as plain words.")
    from IPython.display import display

    # what `myst_nb.glue(name, text, display=False)` writes; importing it costs every notebook three seconds
    prefix = "application/papermill.record/"
    text = repr(number(value, digits if isinstance(digits, str) else f".{digits}f"))
    display({f"{prefix}text/plain": text}, metadata={"scrapbook": {"name": name, "mime_prefix": prefix}}, raw=True)


def number(value: Any, spec: _Format = ".2f") -> str:
    """A value as it is printed: with a true minus sign, thousands apart, an interval in brackets, NaN as "n/a"."""
    if callable(spec):
        return spec(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if _is_missing(value):
        return "n/a"
    if isinstance(value, Interval):
        return f"{number(value.estimate, spec)} {_bracket(value, spec)}"
    if isinstance(value, (int, np.integer)):
        return _minus(f"{int(value):,}" if spec.endswith("f") else f"{int(value):{spec}}")
    return _minus(f"{float(value):{spec}}") if isinstance(value, (float, np.floating)) else str(value)


def p_value(value: float, digits: int = 3) -> str:
    """A p-value as it is printed, and a format for `table`: NaN reads "n/a", and what no digits can say "< 0.001"."""
    if _is_missing(value) or value >= 10**-digits:
        return number(value, f".{digits}f")
    return f"< {10**-digits:.{digits}f}"


def _bracket(value: Interval, spec: str) -> str:
    """The interval's ends: `[0.81, 0.85]`, or that there are none."""
    if _is_missing(value.low) and _is_missing(value.high):
        return "(no interval)"
    return f"[{number(float(value.low), spec)}, {number(float(value.high), spec)}]"


def _minus(text: str) -> str:
    # a rounded -0.00 is no negative number
    return text.removeprefix("-") if not text.strip("-0.%") else text.replace("-", "−")


def _is_missing(value: Any) -> bool:
    value = value.estimate if isinstance(value, Interval) else value
    return value is None or value is pd.NA or (isinstance(value, (float, np.floating)) and math.isnan(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number, Interval)) and not isinstance(value, (bool, np.bool_))


def _scales(shown: pd.DataFrame) -> list[tuple[float, float] | None]:
    """Of each column of intervals the ends of the scale that they are drawn on; none where there are more than two."""
    ends = []
    for i in range(shown.shape[1]):
        spans = [value for value in shown.iloc[:, i] if isinstance(value, Interval)]
        edges = [edge for span in spans for edge in _numbers(span) if math.isfinite(edge)]
        ends.append((min(edges), max(edges)) if len(spans) > 1 and edges and min(edges) < max(edges) else None)
    return ends if sum(end is not None for end in ends) <= 2 else [None] * len(ends)


def _numbers(value: Interval) -> tuple[float, float, float]:
    """Estimate and ends of an interval, in which a record's missing end is NaN."""
    ends = (value.estimate, value.low, value.high)
    estimate, low, high = (math.nan if _is_missing(end) else float(end) for end in ends)
    return estimate, low, high


def _place(x: float, low: float, high: float) -> str:
    return f"{3 + 58 * (x - low) / (high - low):.1f}"
