"""The one look of every figure: palette, sizes, a style that leaves the session alone, and words that keep apart."""

import html
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.rcsetup import cycler
from scipy.optimize import isotonic_regression

from biaslib.errors import BiaslibError
from biaslib.store.files import beside


@cache
def templates(room: str, **options: Any) -> jinja2.Environment:
    """The templates beside the modules of a room; a name that one of them is not given is an error."""
    loader, strict = jinja2.PackageLoader("biaslib", room), jinja2.StrictUndefined
    return jinja2.Environment(loader=loader, undefined=strict, trim_blocks=True, lstrip_blocks=True, **options)


TEMPLATES = templates("figures")
TEMPLATES.filters["escaped"] = lambda value: html.escape(str(value))
_PALETTE = beside(__file__)
COLOURS, LABEL_COLOURS, _DARK_LABELS = ({name: str(of[i]) for name, of in _PALETTE["hues"].items()} for i in range(3))

# Drawn in these, shown in the page's own: `show` replaces each by a CSS variable that follows light and dark.
_HOUSE = mpl.rc_params_from_file(Path(__file__).with_name("house.mplstyle"), use_default_template=False)
INK, MUTED, GRID = (_HOUSE[name] for name in ("text.color", "axes.edgecolor", "grid.color"))
PAPER = "#fdfdfe"

# One perceptually uniform map for everything that is "how much": dark is little, bright is much.
HEAT: str = _HOUSE["image.cmap"]

WIDTH = 6.2  # of a figure, in inches: as wide as a page's text

STYLE: Any = {**_HOUSE, "axes.prop_cycle": cycler(color=list(COLOURS.values()))}
# where a name stands off its point
_DIRECTIONS = [(1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1)]
_DISTANCES = (6.0, 14.0, 26.0, 42.0)  # points
_LETTER, _LINE = 0.6, 1.25  # about the width of a letter, and the height of a line, in font sizes
_SIZE: float = STYLE["font.size"]  # points


class HouseAxes(Axes):
    """Axes whose titles, words and legends keep the house style, which matplotlib would ask the session for."""

    set_title = mpl.rc_context(STYLE)(Axes.set_title)
    text = mpl.rc_context(STYLE)(Axes.text)
    legend = mpl.rc_context(STYLE)(Axes.legend)


@mpl.rc_context(STYLE)
def new(aspect: float = 0.62, rows: int = 1, cols: int = 1, **subplots: Any) -> tuple[Figure, Any]:
    """An empty figure in the house style, and its Axes or an array of them; the session's own style stays as it is.

    `aspect` is its height over its width, that of a page's text. It has `rows` x `cols` axes; the rest (sharex,
    width_ratios, squeeze, ...) goes to `matplotlib.figure.Figure.subplots`.
    """
    if not aspect > 0:
        raise BiaslibError(f"aspect is height over width and must be above 0, not {aspect}.")
    layout = ConstrainedLayoutEngine(w_pad=0.04, h_pad=0.04, wspace=0.04, hspace=0.04)
    figure = Figure(figsize=(WIDTH, WIDTH * aspect), layout=layout)
    keywords = {"axes_class": HouseAxes, **subplots.pop("subplot_kw", {})}
    return figure, figure.subplots(rows, cols, subplot_kw=keywords, **subplots)


def css(of: str) -> str:
    """The palette as variables of CSS, light and dark: of "figures", as `figures.css` and their SVG have them.

    Of the book's "page", in its theme's variables, which a build writes beside `book.css`; or of an audit's "report",
    which is light alone.
    """
    words = {"light": {**LABEL_COLOURS, "ink": INK, "paper": PAPER}, "dark": _DARK_LABELS}
    template = TEMPLATES.get_template("palette.css.j2")
    return template.render(of=of, palette=_PALETTE, page_words=words, ink=INK, paper=PAPER, rule=GRID)


def colour_of(name: str) -> str:
    """The hexadecimal colour of a palette name, "ink" and "muted" among them; a colour that is none passes through."""
    return {**COLOURS, "ink": INK, "muted": MUTED}.get(name, name)


def label_colour_of(colour: str) -> str:
    """The colour in which words about marks of `colour` (a palette name or its hexadecimal form) are set."""
    marks = {mark: name for name, mark in COLOURS.items()}
    return LABEL_COLOURS.get(marks.get(colour, colour), colour_of(colour))


def figure_of(ax: Axes) -> Figure:
    """The whole figure, also for axes in a part of one."""
    figure = ax.figure
    return figure if isinstance(figure, Figure) else figure.figure


def bare(ax: Axes) -> None:
    """Takes away everything around a picture: ticks, frame and grid."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)
    ax.spines[:].set_visible(False)


def as_float(values: Any, what: str) -> np.ndarray:
    """The values as a float array."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise BiaslibError(f"{what} must hold numbers only; convert or drop what is not a number.") from error


def _spread(positions: np.ndarray, gap: float, low: float, high: float) -> np.ndarray:
    """Positions moved as little as possible, until they are `gap` apart and inside; without room, the lowest stays."""
    order = np.argsort(positions, kind="stable")
    steps = gap * np.arange(len(positions))
    lowered = np.minimum(isotonic_regression(positions[order] - steps).x + steps, high - steps[::-1])
    placed = np.empty_like(positions)
    placed[order] = np.maximum(lowered, low + steps)
    return placed


@mpl.rc_context(STYLE)
def name_lines(ax: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Writes each line's name beside its end, in its colour, moved apart; `ends` are (name, x, y, colour) as drawn."""
    if not ends:
        return
    figure_of(ax).draw_without_rendering()
    to_pixels = ax.transData.transform([(x, y) for _, x, y, _ in ends])
    scale = ax.figure.dpi / 72
    line = _SIZE * _LINE * scale
    window = ax.get_window_extent()
    heights = _spread(to_pixels[:, 1], line, window.y0, window.y1)
    for (name, x, y, colour), before, after in zip(ends, to_pixels[:, 1], heights, strict=True):
        ax.annotate(name, (x, y), xytext=(8, (after - before) / scale), textcoords="offset points", va="center",
                    color=label_colour_of(colour), annotation_clip=False)  # fmt: skip


@mpl.rc_context(STYLE)
def names_above(ax: Axes, names: Sequence[tuple[str, str]]) -> None:
    """Writes names, given with their colours, over the plot, side by side as far as the figure is wide.

    Names that stand above another panel of the figure are not written again.
    """
    figure = figure_of(ax)
    written = {text.get_text() for panel in figure.axes for text in panel.texts if text.get_gid() == "name"}
    if written.issuperset(text for text, _ in names):
        return
    figure.draw_without_rendering()
    room = (figure.bbox.x1 - ax.get_window_extent().x0) * 72 / ax.figure.dpi
    lines: list[list[tuple[str, str, float]]] = [[]]
    at = 0.0
    for text, colour in names:
        width = len(text) * _SIZE * _LETTER
        if lines[-1] and at + width > room:
            lines, at = [*lines, []], 0.0
        lines[-1].append((text, colour, at))
        at += width + 16
    for row, line in enumerate(reversed(lines)):
        for text, colour, left in line:
            ax.annotate(text, (0, 1), xycoords="axes fraction", xytext=(left, 6 + row * _SIZE * _LINE),
                        textcoords="offset points", fontweight="bold", gid="name",
                        color=label_colour_of(colour_of(colour)))  # fmt: skip


@mpl.rc_context(STYLE)
def beside_points(ax: Axes, points: np.ndarray, names: dict[int, str]) -> None:
    """Writes names beside some of the points, where they cover neither a point nor another name."""
    size = _SIZE - 0.5
    figure_of(ax).draw_without_rendering()
    scale = 72 / ax.figure.dpi
    spots = ax.transData.transform(points) * scale
    window = ax.get_window_extent()
    inside = np.array([window.x0, window.y0, window.x1, window.y1]) * scale
    taken: list[np.ndarray] = []
    for index, name in names.items():
        width, height = len(name) * size * _LETTER, size * _LINE
        options = [
            (_box(spots[index], direction, distance, width, height), distance, direction)
            for distance, direction in product(_DISTANCES, _DIRECTIONS)
        ]
        box, distance, (right, _) = min(options, key=lambda o: _cost(o[0], spots, taken, inside) + o[1])
        taken.append(box)
        anchor, side = {1: (box[0], "left"), 0: ((box[0] + box[2]) / 2, "center"), -1: (box[2], "right")}[right]
        offset = (anchor - spots[index][0], (box[1] + box[3]) / 2 - spots[index][1])
        line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6} if distance > 10 else None
        ax.annotate(name, tuple(points[index]), xytext=offset, textcoords="offset points", va="center", ha=side,
                    fontsize=size, color=INK, arrowprops=line, annotation_clip=False)  # fmt: skip


def _box(spot: np.ndarray, direction: tuple[int, int], distance: float, width: float, height: float) -> np.ndarray:
    """x0, y0, x1, y1 of a text that stands off a point, all in points."""
    x = spot[0] + direction[0] * distance + (direction[0] - 1) / 2 * width
    y = spot[1] + direction[1] * distance - height / 2 + direction[1] * height / 4
    return np.array([x, y, x + width, y + height])


def _cost(box: np.ndarray, spots: np.ndarray, taken: Sequence[np.ndarray], inside: np.ndarray) -> float:
    covered = np.all((spots > box[:2] - 3) & (spots < box[2:] + 3), axis=1).sum()
    clashes = sum(bool(np.all((box[:2] < other[2:]) & (other[:2] < box[2:]))) for other in taken)
    out = np.maximum(inside[:2] - box[:2], 0).sum() + np.maximum(box[2:] - inside[2:], 0).sum()
    return 60.0 * float(covered) + 400.0 * clashes + 4.0 * float(out)
