"""What the pages of several chapters have alike: intervals as columns of a plot, a record beside this run, words."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslib import figures
from biaslib.book import claims, recorded
from biaslib.statistics import Interval, crossed_interval, interval
from biaslib.statistics.proportions import share_interval
from biaslib.store.files import beside

_WORDS: Final = beside(__file__)
KINDS, USE_CASES, NETWORKS = (_WORDS[name] for name in ("kinds", "use_cases", "networks"))


def quotes(digits: int | str = 2, **values: Any) -> None:
    """Lends several numbers to the prose, with so many digits or in this format; see `figures.glue_number`."""
    for name, value in values.items():
        figures.glue_number(name, value, digits)


def unpacked(rows: pd.DataFrame | Iterable[dict[str, Any]], column: str = "value") -> pd.DataFrame:
    """Rows for a plot: the interval in `column` becomes its estimate, its ends `low` and `high`, beside `n`."""
    table = pd.DataFrame(rows)
    spans = list(table[column])
    parts = {part: [getattr(span, part) for span in spans] for part in ("low", "high", "n")}
    return table.assign(**{column: [span.estimate for span in spans]}, **parts)


def dots(rows: pd.DataFrame | Iterable[dict[str, Any]], *, label: str, **options: Any) -> Figure:
    """`figures.dot_plot` of rows that have an interval in `value`, in their order."""
    ends: dict[str, Any] = {"value": "value", "low": "low", "high": "high", "n": "n", "sort": False}
    return figures.dot_plot(unpacked(rows), label=label, **ends, **options)


def lines(rows: pd.DataFrame | Iterable[dict[str, Any]], *, x: str, **options: Any) -> Figure:
    """`figures.line_plot` of rows that have an interval in `value`."""
    return figures.line_plot(unpacked(rows), x=x, y="value", low="low", high="high", **options)


def along(models: pd.DataFrame, step: str, measures: Mapping[str, str], **options: Any) -> Figure:
    """Means over models with 95 % intervals of `measures`, columns in [0, 1], along a column `step`: a line plot."""
    rows = (
        {step: place, "what": what, "value": interval(part[column], bounds=(0, 1))}
        for what, column in measures.items()
        for place, part in models.groupby(step)
    )
    return lines(rows, x=step, by="what", y_range=(-0.02, 1.02), **options)


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose intervals are numbers, for plots: each column x of them becomes `x`, `x_low` and `x_high`."""
    columns: dict[str, list[object]] = {}
    for name, values in table.items():
        if len(values) and all(isinstance(value, Interval) for value in values):
            columns[f"{name}"] = [value.estimate for value in values]
            columns |= {f"{name}_{end}": [getattr(value, end) for value in values] for end in ("low", "high")}
        else:
            columns[f"{name}"] = list(values)
    return pd.DataFrame(columns, index=table.index)


def parts(span: Interval) -> dict[str, float]:
    """An interval as columns of a table: `estimate`, `low`, `high` and `n`."""
    return {part: getattr(span, part) for part in ("estimate", "low", "high", "n")}


def spans(table: pd.DataFrame, column: str, n: int) -> list[Interval]:
    """The intervals that a table has as numbers, `column`, `column_low` and `column_high`: each of `n` values."""
    parts = table[[column, f"{column}_low", f"{column}_high"]]
    return [Interval(estimate, low, high, n) for estimate, low, high in parts.itertuples(index=False)]


def shares(table: pd.DataFrame, count: str) -> list[Interval]:
    """A column of counts as shares of the column `n`, with Wilson's 95 % intervals; NaN where there is no count."""
    pairs = table[[count, "n"]].itertuples(index=False)
    return [share_interval(0, 0) if pd.isna(hits) else share_interval(int(hits), int(n)) for hits, n in pairs]


def changes(before: np.ndarray, after: np.ndarray, *, seed: int) -> dict[str, Interval]:
    """How "score", scores "near" one half and "answer" change: classifiers' (M, N) probabilities for moved faces."""
    near = np.where((before > 0.3) & (before < 0.7), after - before, np.nan)
    kinds = {"score": after - before, "near": near, "answer": (after >= 0.5) - (before >= 0.5).astype(float)}
    return {name: crossed_interval(each, seed=seed, resamples=400, bounds=(-1, 1)) for name, each in kinds.items()}


def recalled(value: Any) -> Any:
    """What a record holds, its mappings intervals again, also in tables and other mappings; NaN where there is none."""
    if isinstance(value, pd.DataFrame):
        return value.map(recalled)
    if isinstance(value, Mapping) and value:
        if "estimate" in value:
            return Interval(*(recalled(value[part]) for part in ("estimate", "low", "high", "n")))
        return {name: recalled(part) for name, part in value.items()}
    return math.nan if value is None or value == {} else value


def source(record: Mapping[str, Any] | None) -> str:
    """The end of a caption: where the recorded numbers beside this run's come from."""
    return f" Recorded run: {recorded.described(record)}." if record else " No larger run is recorded yet."


def claims_table(
    listed: Sequence[claims.Claim], record: claims.Numbers | None, this_run: claims.Numbers | None = None,
    about: Mapping[str, Any] | None = None, more: str = "",
) -> figures.HtmlFigure:  # fmt: skip
    """A chapter's claims with their marks; `about` is the record of its numbers, `more` goes into the caption."""
    words = "Holds: the interval lies in the range under the claim. Does not hold: outside. "
    words += "Too small to tell: part inside, part outside. "
    caption = (words + more).strip() + (source(about) if about else "")
    rows = claims.table(listed, record=record, this_run=this_run)
    return figures.table(rows, note="measured", name="claims", caption=caption)


def signed(number: float | Interval, spec: str = "+.2f") -> str:
    """A number as prose prints it, with a true minus sign."""
    return f"{number:{spec}}".replace("-", "−")


def readable(attribute: str) -> str:
    """An attribute's name as one says it: Wavy Hair, 5 o'Clock Shadow."""
    return attribute.replace("5_o_Clock", "5 o'Clock").replace("_", " ")


def short_name(attribute: str) -> str:
    """The same, shorter, for the labels of a plot: Hat, Mouth open."""
    return readable(attribute.replace("Wearing_", "").replace("Mouth_Slightly_Open", "Mouth open"))


def short_metric(name: str) -> str:
    """A metric of the dial, shorter: IG for integrated gradients, the true causal effect for its exact measure."""
    for long, short in _WORDS["short_metrics"].items():
        name = name.replace(long, short)
    return name


def attention_strip(shown: Mapping[str, tuple[Sequence[Any], str, np.ndarray | None]]) -> Figure:
    """Average attention maps side by side, by label: the mean over models of what they see of an attribute on rows."""
    maps = [[model.average_map(attribute, rows) for model in models] for models, attribute, rows in shown.values()]
    means = np.stack([np.ma.masked_invalid(of_models).mean(axis=0).filled(0.0) for of_models in maps])
    return figures.image_strip({"average attention, all maps on one scale": means}, labels=list(shown))


def live_dial(show: Callable[..., Any], **stops: Sequence[Any]) -> Any:
    """A slider for each parameter of `show`, which gives a figure, and what it gives under them.

    `stops` of each slider are more than one; it begins on the first. An `ipywidgets.interactive`, to be the last thing
    of a cell; None while the book builds a page, as nobody answers there.
    """
    if "BIASLIB_PAGE" in os.environ:
        return None
    import ipywidgets

    sliders = {
        name: ipywidgets.SelectionSlider(options=list(values), description=name, continuous_update=False)
        for name, values in stops.items()
    }
    return ipywidgets.interactive(show, {"auto_display": True}, **sliders)
