"""The one look of every figure: palette, sizes, and a style that is applied to a figure and never to the session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.rcsetup import cycler

from biaslib.errors import BiaslibError
from biaslib.store.files import beside

_PALETTE = beside(__file__)
COLOURS, LABEL_COLOURS, _DARK_LABELS = ({name: str(of[i]) for name, of in _PALETTE["hues"].items()} for i in range(3))

# Drawn in these, shown in the page's own: `show` replaces each by a CSS variable that follows light and dark.
_HOUSE = mpl.rc_params_from_file(Path(__file__).with_name("house.mplstyle"), use_default_template=False)
INK, MUTED, GRID = (_HOUSE[name] for name in ("text.color", "axes.edgecolor", "grid.color"))
PAPER = "#fdfdfe"
_REPORT_MUTED = "#5b616a"  # small print of an audit's report, which is light alone

# One perceptually uniform map for everything that is "how much": dark is little, bright is much.
HEAT: str = _HOUSE["image.cmap"]

WIDTH = 6.2  # of a figure, in inches: as wide as a page's text

STYLE: Any = {**_HOUSE, "axes.prop_cycle": cycler(color=list(COLOURS.values()))}


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


def figure_css() -> str:
    """The palette as the variables that `figures.css` and the figures' SVG speak of, for light and dark pages."""
    labels, dark_labels = ({f"{name}-label": c for name, c in of.items()} for of in (LABEL_COLOURS, _DARK_LABELS))
    dark = 'html[data-theme="dark"] .biaslib-figure,\nbody[data-jp-theme-light="false"] .biaslib-figure'
    light = {"ink": "currentColor", **COLOURS, **labels}
    return _rule(".biaslib-figure", "biaslib", light) + _rule(dark, "biaslib", {**_PALETTE["dark"], **dark_labels})


def page_css() -> str:
    """The book's own colours, light and dark, in the theme's variables: a build writes it beside `book.css`."""
    css = _rule(":root", "book", {"card": PAPER})
    for mode, words in (("light", {**LABEL_COLOURS, "ink": INK, "paper": PAPER}), ("dark", _DARK_LABELS)):
        colours = {name: words.get(colour, colour) for name, colour in _PALETTE["page"][mode].items()}
        css += _rule(f'html[data-theme="{mode}"]', "pst-color", colours)
    return css


def report_css() -> str:
    """The palette as the variables that the style of an audit's report speaks of."""
    return _rule(":root", "report", {**COLOURS, "ink": INK, "paper": PAPER, "rule": GRID, "muted": _REPORT_MUTED})


def _rule(selector: str, prefix: str, values: Mapping[str, str]) -> str:
    lines = "".join(f"--{prefix}-{name}: {value};\n" for name, value in values.items())
    return f"{selector} {{\n{lines}}}\n"


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
