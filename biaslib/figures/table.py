"""Typeset tables, and numbers for prose: every value with its interval and its n."""

import base64
import html
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.figures.pieces import HtmlFigure, check_name, frame, raw_markup, words
from biaslib.statistics import Interval

_Format = str | Callable[[Any], str]
_NUMBER = ' class="biaslib-number"'


def table(
    frame_: pd.DataFrame,
    *,
    caption: str,
    name: str,
    formats: Mapping[str, _Format] | None = None,
    missing: str = "not available: undefined or not measured for this row",
) -> HtmlFigure:
    """A data frame as a typeset table, with its raw values to download.

    Numbers stand right; an interval reads `0.83 [0.81, 0.85]`; NaN reads "n/a" and says why when pointed at. The index,
    where it is more than a row count, becomes the first columns; the first column names the rows. Cells may be numbers,
    text, bool, or intervals (`biaslib.statistics.Interval`). `caption` is a sentence above the table, `name` its anchor
    and the name of the CSV file: letters, digits, - and _. `formats` are, by column, a format specification (".3f",
    "d", "+.1%") or a function from value to text; floats have two decimals where nothing is said. `missing` says what
    NaN means in this table. A `BiaslibError` is raised for an empty caption, a bad name, or a format for a column that
    is not there.
    """
    if not caption.strip():
        raise BiaslibError("caption must say what the table holds; one sentence is enough.")
    formats = formats or {}
    shown = frame_.reset_index() if frame_.index.name or frame_.index.nlevels > 1 else frame_
    if unknown := [column for column in formats if column not in shown.columns]:
        known = ", ".join(map(str, shown.columns))
        raise BiaslibError(f"formats names {unknown[0]!r}, which is no column of the table; its columns are {known}.")
    head = ""
    for i, column in enumerate(shown.columns):
        values = [value for value in shown.iloc[:, i] if isinstance(value, Interval) or not _is_missing(value)]
        align = _NUMBER if values and all(map(_is_number, values)) else ""
        head += f'<th scope="col"{align}>{html.escape(str(column))}</th>'
    specs = [formats.get(column, ".2f") for column in shown.columns]
    rows = "".join(f"<tr>{_row(row, specs, missing)}</tr>" for row in shown.itertuples(index=False, name=None))
    body = (
        f'<div class="biaslib-scroll" tabindex="0" role="region" aria-label="{html.escape(caption)}">'
        f"<table><caption><span>{words(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f'</div><p class="biaslib-download"><a href="{_csv_uri(shown)}" download="{check_name(name)}.csv">'
        f"Download CSV</a></p>"
    )
    sheets = ("figures.css", "table.css")
    framed = frame(body, alt=caption, caption=None, name=name, classes="biaslib-table", sheets=sheets)
    return HtmlFigure(framed, caption)


def glue_number(name: str, value: Any, digits: int = 2) -> None:
    """Lends a number to the prose, where the role `glue:text` with its name prints it.

    The value is a number, an interval (`0.83 [0.81, 0.85]`), or a text; NaN reads "n/a", and a number that is not whole
    has so many digits. A text with a backtick or a link, which the role prints as they are, is a `BiaslibError`.
    """
    if isinstance(value, str) and raw_markup(value):
        raise BiaslibError(f"the quoted text {value!r} holds a backtick or a link: prose prints it as plain words.")
    from IPython.display import display

    # what `myst_nb.glue(name, text, display=False)` writes; importing it costs every notebook three seconds
    prefix = "application/papermill.record/"
    text = repr(number(value, f".{digits}f"))
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
    if isinstance(value, (float, np.floating)):
        return _minus(f"{float(value):{spec}}")
    return str(value)


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


def _row(row: tuple[Any, ...], specs: list[_Format], missing: str) -> str:
    cells = []
    for i, (value, spec) in enumerate(zip(row, specs, strict=True)):
        align = _NUMBER if _is_number(value) or _is_missing(value) else ""
        if _is_missing(value):
            text = f'<abbr title="{html.escape(missing)}">n/a</abbr>'
        elif isinstance(value, Interval) and not callable(spec):
            estimate, ends = number(float(value.estimate), spec), _bracket(value, spec)
            text = f'<span title="n = {value.n:,}">{estimate} <span class="biaslib-range">{ends}</span></span>'
        else:
            text = html.escape(number(value, spec))
        cells.append(f'<th scope="row"{align}>{text}</th>' if i == 0 else f"<td{align}>{text}</td>")
    return "".join(cells)


def _csv_uri(shown: pd.DataFrame) -> str:
    raw: dict[str, list[Any]] = {}
    for i, column in enumerate(map(str, shown.columns)):
        raw[column] = values = list(shown.iloc[:, i])
        if any(isinstance(value, Interval) for value in values):
            for name, part in ((column, "estimate"), *((f"{column} {end}", end) for end in ("low", "high", "n"))):
                raw[name] = [getattr(value, part, None) for value in values]
    text = pd.DataFrame(raw).to_csv(index=False, lineterminator="\n")
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode()
