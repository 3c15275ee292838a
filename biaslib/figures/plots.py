"""Plots of numbers, on given axes or a new figure: the marks are seaborn's, names, intervals and tooltips ours."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.figures.pieces import remember_values, tooltip
from biaslib.figures.table import number

# the shapes of marks, and the signs for them in a key: colour is never the only difference
_SIGNS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}


def line_plot(
    frame: pd.DataFrame,
    *,
    x: str,
    y: str,
    low: str | None = None,
    high: str | None = None,
    by: str | None = None,
    n: str | None = None,
    colours: Mapping[Any, str] | None = None,
    x_label: str = "",
    y_label: str = "",
    y_range: tuple[float, float] | None = None,
    digits: int = 2,
    ax: Axes | None = None,
) -> Figure:
    """How a number answers to a dial: one line for each kind of `by`, named at its end, with its interval as a band.

    The frame has one row a point, with the columns `x` (numbers, the ticks where they are twelve or fewer), `y` (NaN
    leaves a gap), `low` and `high` (its interval, both or neither), `by` (tells the lines apart, in the order of first
    appearance) and `n` (the number of values behind a point, for the tooltip). `colours` gives a value of `by` a name
    in `COLOURS` or any colour. `x_label` stands under the axis, `y_label` level above the other, whose limits are
    `y_range`; `digits` are the tooltips' decimals. Without `ax` it is drawn on a new page-wide figure. A `BiaslibError`
    is raised for a column that is not in the frame or holds no numbers, and for `low` without `high`.
    """
    _check(frame, x, y, low, high, by, n)
    ax = ax or theme.new(aspect=0.52)[1]
    _remember(ax, frame, y_label, by, x, y, low, high, n)
    ends = []
    for kind, rows, colour, shape in _series(frame, by, colours):
        rows = rows.sort_values(x)
        across, values = _floats(rows, x, y)
        _spans(ax.fill_between, across, rows, low, high, color=colour, alpha=0.18, linewidth=0)
        shown = np.isfinite(values)
        parts = np.cumsum(~shown)  # a line for each part between gaps
        if shown.any():
            sns.lineplot(x=across, y=values, units=parts, estimator=None, color=colour, linewidth=1.8, ax=ax)
        texts = [_say(row, kind, x, y, low, high, n, digits) for _, row in rows[shown].iterrows()]
        _points(ax, across[shown], values[shown], texts, s=26, color=colour, marker=shape, clip_on=False)
        if shown.any():
            ends.append((str(kind), across[shown][-1], values[shown][-1], colour))
    stops = theme.as_float(frame[x], x)
    ticks = np.unique(stops[np.isfinite(stops)])
    if 0 < len(ticks) <= 12:
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    if y_range is not None:
        ax.set_ylim(*y_range)
    ax.set(xlabel=x_label, ylabel="")
    ax.set_title(y_label, fontweight="normal", color=theme.MUTED)
    ax.grid(axis="x", visible=False)
    if by is not None:
        theme.name_lines(ax, ends)
    return theme.figure_of(ax)


def dot_plot(
    frame: pd.DataFrame,
    *,
    label: str,
    value: str,
    low: str | None = None,
    high: str | None = None,
    n: str | None = None,
    by: str | None = None,
    colours: Mapping[Any, str] | None = None,
    highlight: Sequence[str] = (),
    reference: float | Mapping[str, float] | None = None,
    reference_name: str = "",
    sort: bool = True,
    x_label: str = "",
    digits: int = 2,
    ax: Axes | None = None,
) -> Figure:
    """One dot with its interval for every label: the plot for many attributes, regions or groups.

    The frame has one row a dot, with the columns `label` (the names down the left side), `value` (a label with none but
    NaN keeps its line and is marked "n/a") and `by` (tells several dots of one label apart; its kinds' names stand
    above the first line). `highlight` are labels set in bold. `reference` is where an upright line is drawn (chance,
    zero), or for some labels where a tick stands in their line; `reference_name` says what the ticks are. The largest
    value is on top, unless `sort` is False. The others are as for `line_plot`, but a new figure is as high as it needs.
    A `BiaslibError` is raised for a column that is not in the frame or holds no numbers, and for `low` without `high`.
    """
    _check(frame, label, value, low, high, n, by)
    names = list(dict.fromkeys(frame[label]))
    if sort:
        best = frame.groupby(label)[value].max()
        names.sort(key=lambda name: -np.inf if np.isnan(best[name]) else best[name], reverse=True)
    ax = ax or theme.new(aspect=min(2.2, 0.14 + 0.037 * max(len(names), 3)))[1]
    _remember(ax, frame, x_label, label, by, value, low, high, n)
    rank = {name: i for i, name in enumerate(names)}
    series = _series(frame, by, colours)
    apart = len(series) - 1 if frame[label].duplicated().any() else 0  # dots alone in their lines stand on them
    step = min(0.3, 0.6 / apart) if apart else 0.0
    if isinstance(reference, Mapping):
        marked = {name: float(reference[name]) for name in names if name in reference}
        texts = [f"{reference_name or 'reference'}, {name}: {at:.{digits}f}" for name, at in marked.items()]
        ticks = ax.scatter(
            list(marked.values()), [rank[name] for name in marked], marker="|", s=170, lw=1.6, color=theme.MUTED
        )
        tooltip(ticks, texts)
    elif reference is not None:
        ax.axvline(reference, color=theme.MUTED, linewidth=0.8)
    for i, (kind, rows, colour, shape) in enumerate(series):
        height = np.array([rank[name] for name in rows[label]]) + step * (i - (len(series) - 1) / 2)
        values = theme.as_float(rows[value], value)
        shown = np.isfinite(values)
        _spans(ax.hlines, height[shown], rows[shown], low, high, color=colour, lw=1.6)
        texts = [_say(row, kind, label, value, low, high, n, digits) for _, row in rows[shown].iterrows()]
        _points(ax, values[shown], height[shown], texts, color=colour, marker=shape)
        for y in height[~shown]:
            ax.annotate("n/a", (0, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                        va="center", color=theme.MUTED, fontsize=8.5)  # fmt: skip
    ax.set_ylim(len(names) - 0.4, -0.6)
    with mpl.rc_context(theme.STYLE):
        ax.set_yticks(range(len(names)), [str(name) for name in names])
    for text, name in zip(ax.get_yticklabels(), names, strict=True):
        text.set_color(theme.INK)
        text.set_fontweight("bold" if name in highlight else "normal")
    layout = theme.figure_of(ax).get_layout_engine()
    if highlight and isinstance(layout, ConstrainedLayoutEngine):
        layout.set(rect=(0.03, 0, 0.97, 1))  # a phone's bold letters are wider than the measured ones
    ax.spines["left"].set_visible(False)
    ax.set(xlabel=x_label, ylabel="")
    kinds = [(f"{_SIGNS[shape]} {kind}", colour) for kind, _, colour, shape in series if by is not None]
    theme.names_above(ax, kinds + [(f"| {reference_name}", theme.MUTED)] * bool(reference_name))
    return theme.figure_of(ax)


def scatter(
    frame: pd.DataFrame,
    *,
    x: str,
    y: str,
    name: str,
    x_low: str | None = None,
    x_high: str | None = None,
    y_low: str | None = None,
    y_high: str | None = None,
    highlight: Sequence[str] | Mapping[str, str] = (),
    x_label: str = "",
    y_label: str = "",
    digits: int = 2,
) -> Figure:
    """One point for each name, with intervals both ways; the highlighted ones are named, the others when pointed at.

    The frame has one row a point, with the columns `x` and `y` (a row with NaN in either is left out), `name`, and the
    ends of the intervals along both. `highlight` are names that are written beside their points, or a mapping from them
    to colours. The others are as for `line_plot`. A `BiaslibError` is raised for a column that is not in the frame or
    holds no numbers, half an interval, or a highlighted name that no point has.
    """
    _check(frame, x, y, x_low, x_high, name)
    _check(frame, x, y, y_low, y_high)
    if strangers := [item for item in highlight if item not in set(frame[name])]:
        raise BiaslibError(f"highlight names {strangers[0]!r}, which is not in column {name!r}; check its spelling.")
    ax = theme.new(aspect=0.72)[1]
    _remember(ax, frame, y_label, name, x, x_low, x_high, y, y_low, y_high)
    rows = frame[np.isfinite(_floats(frame, x, y)).all(axis=0)]
    chosen = dict(highlight) if isinstance(highlight, Mapping) else dict.fromkeys(highlight, "vermillion")
    tints = [theme.colour_of(chosen.get(item, "blue")) for item in rows[name]]
    across, up = _floats(rows, x, y)
    _spans(ax.hlines, up, rows, x_low, x_high, colors=tints, lw=1.1, alpha=0.45)
    _spans(ax.vlines, across, rows, y_low, y_high, colors=tints, lw=1.1, alpha=0.45)
    places = zip(rows[name], across, up, strict=True)
    spec = f".{digits}f"
    texts = [f"{item}: {x} {number(float(a), spec)}, {y} {number(float(b), spec)}" for item, a, b in places]
    _points(ax, across, up, texts, c=tints)
    ax.set(xlabel=x_label, ylabel="")
    ax.set_title(y_label, fontweight="normal", color=theme.MUTED)
    names = {i: str(item) for i, item in enumerate(rows[name]) if item in chosen}
    theme.beside_points(ax, np.stack([across, up], axis=1), names)
    return theme.figure_of(ax)


def matrix(
    frame: pd.DataFrame,
    *,
    limit: float | None = None,
    x_label: str = "",
    digits: int = 2,
    numbers: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Numbers of either sign in coloured squares: orange above 0, blue below, the stronger the larger.

    A line has one row of the frame; NaN leaves its square empty. A number of size `limit`, by default the largest, is
    shown at full strength, and so is everything beyond it. With `numbers` each is also written in its square, with
    `digits` decimals, as in the tooltips. `x_label` stands over the columns. Without `ax` it is drawn on a new
    page-wide figure, as high as it needs. No rows or columns, or values that are no numbers, are a `BiaslibError`.
    """
    values = theme.as_float(frame.to_numpy(), "the matrix")
    if values.size == 0:
        raise BiaslibError("A matrix needs at least one row and one column.")
    rows, columns = values.shape
    ax = ax or theme.new(aspect=min(1.6, 0.22 + 0.8 * rows / max(columns, 8)))[1]
    remember_values(theme.figure_of(ax), frame.reset_index(names="row"))
    sizes = np.abs(values)
    top = limit or float(np.nanmax(sizes, initial=0)) or 1.0
    shown = [(line, at) for line in range(rows) for at in range(columns) if np.isfinite(values[line, at])]
    names = [[str(name) for name in axis] for axis in (frame.index, frame.columns)]
    written = {cell: number(values[cell], f".{digits}f") for cell in shown}
    words = [f"{names[0][line]}, {names[1][at]}: {value}" for (line, at), value in written.items()]
    hues = ["vermillion" if values[cell] > 0 else "blue" for cell in shown]
    squares(ax, [(at, line) for line, at in shown], hues, [sizes[cell] / top for cell in shown], words, height=0.92)
    for (line, at), value in written.items() if numbers else ():
        ax.text(at, line, value, ha="center", va="center", fontsize=8)
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xlabel=x_label)
    ax.grid(visible=False)
    with mpl.rc_context(theme.STYLE):
        ax.set_xticks(range(columns), names[1], rotation=60, ha="left", rotation_mode="anchor")
        ax.set_yticks(range(rows), names[0])
    ax.xaxis.tick_top()
    for text in ax.get_yticklabels():
        text.set_color(theme.INK)
    ax.spines[:].set_visible(False)
    ax.xaxis.set_label_position("top")
    return theme.figure_of(ax)


def squares(
    ax: Axes, at: Sequence[tuple[float, float]], hues: Sequence[str], shares: Sequence[float],
    words: Sequence[str] = (), *, height: float,
) -> None:  # fmt: skip
    """A square at each place, as dense as its share in [0, 1], with words as its tooltip."""
    corners = np.array([(-0.46, -0.5), (0.46, -0.5), (0.46, 0.5), (-0.46, 0.5)]) * (1, height)
    pairs = zip(hues, np.clip(shares, 0, 1), strict=True)
    faces = [(*to_rgb(theme.colour_of(hue)), float(share)) for hue, share in pairs]
    drawn = ax.add_collection(PolyCollection([corners + np.array(place) for place in at], facecolors=faces, lw=0))
    if words:
        tooltip(drawn, words)


def _series(
    frame: pd.DataFrame, by: str | None, colours: Mapping[Any, str] | None
) -> list[tuple[Any, pd.DataFrame, str, str]]:
    """Each kind of `by` with its rows, its colour (the one that was chosen, else the next of the palette) and shape."""
    kinds = [None] if by is None else list(frame[by].unique())
    chosen = {**dict(zip(kinds, cycle(theme.COLOURS), strict=False)), **(colours or {})}
    rows = [frame if by is None else frame[frame[by] == kind] for kind in kinds]
    return [
        (kind, part, theme.colour_of(chosen[kind]), shape)
        for kind, part, shape in zip(kinds, rows, cycle(_SIGNS), strict=False)
    ]


def _check(frame: pd.DataFrame, *columns: str | None) -> None:
    _, _, low, high, *_ = (*columns, None, None)
    if (low is None) != (high is None):
        raise BiaslibError("an interval has two ends: give the column of its lower end and that of its upper end.")
    for column in columns:
        if column is not None and column not in frame.columns:
            raise BiaslibError(f"the frame has no column {column!r}; it has {', '.join(map(str, frame.columns))}.")


def _remember(ax: Axes, frame: pd.DataFrame, panel: str, *columns: str | None) -> None:
    shown = frame[list(dict.fromkeys(column for column in columns if column))]
    remember_values(theme.figure_of(ax), shown.assign(panel=panel) if panel else shown)


def _floats(frame: Any, *columns: str) -> list[np.ndarray]:
    return [theme.as_float(frame[column], column) for column in columns]


def _spans(draw: Callable[..., Any], at: Any, frame: Any, low: str | None, high: str | None, **style: Any) -> None:
    """Intervals, where the frame has columns with their ends."""
    if low and high:
        draw(at, *_floats(frame, low, high), **style)


def _points(ax: Axes, across: Any, up: Any, texts: Sequence[str], **style: Any) -> None:
    if len(across):
        sns.scatterplot(x=across, y=up, linewidth=0, ax=ax, **{"s": 26, "zorder": 3, **style})
        tooltip(ax.collections[-1], texts)


def _say(row: pd.Series, kind: Any, head: str, y: str, low: str | None, high: str | None, n: str | None,
         digits: int) -> str:  # fmt: skip
    spec = f".{digits}f"
    where = row[head] if isinstance(row[head], str) else f"{row[head]:g}"
    text = f"{'' if kind is None else f'{kind}, '}{where}: {number(float(row[y]), spec)}"
    if low and high and np.isfinite([row[low], row[high]]).all():
        text += f" [{number(float(row[low]), spec)}, {number(float(row[high]), spec)}]"
    return text + (f", n = {int(row[n]):,}" if n else "")
