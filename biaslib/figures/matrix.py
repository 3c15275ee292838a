"""A square for every pair of names: correlations, angles, what leaks from one attribute into another."""

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.figures.pieces import tooltip
from biaslib.figures.table import number

_UP, _DOWN = "vermillion", "blue"


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

    Args:
        frame: one row a line, one column a column; NaN leaves its square empty.
        limit: the size shown at full strength, and everything beyond it; the largest of all where not given.
        x_label: words over the columns.
        digits: decimals in the tooltips and squares.
        numbers: whether each number is also written in its square.
        ax: where to draw; a new page-wide figure, as high as it needs, where not given.

    Raises:
        BiaslibError: for no rows or columns, or values that are no numbers.
    """
    values = theme.as_float(frame.to_numpy(), "the matrix")
    if values.size == 0:
        raise BiaslibError("A matrix needs at least one row and one column.")
    rows, columns = values.shape
    ax = theme.axes_of(ax, width="page", aspect=min(1.6, 0.22 + 0.8 * rows / max(columns, 8)))
    sizes = np.abs(values)
    top = limit or float(np.nanmax(sizes, initial=0)) or 1.0
    shown = [(line, at) for line in range(rows) for at in range(columns) if np.isfinite(values[line, at])]
    hues = [
        (*to_rgb(theme.COLOURS[_UP if values[cell] > 0 else _DOWN]), float(np.clip(sizes[cell] / top, 0, 1)))
        for cell in shown
    ]
    corners = np.array([(-0.46, -0.46), (0.46, -0.46), (0.46, 0.46), (-0.46, 0.46)])
    squares = ax.add_collection(PolyCollection([corners + np.array([at, line]) for line, at in shown], facecolors=hues))
    names = [[str(name) for name in axis] for axis in (frame.index, frame.columns)]
    if shown:
        tooltip(
            squares,
            [f"{names[0][line]}, {names[1][at]}: {number(values[line, at], f'.{digits}f')}" for line, at in shown],
        )
    for line, at in shown if numbers else []:
        ax.text(at, line, number(values[line, at], f".{digits}f"), ha="center", va="center", fontsize=8)
    ax.set_xlim(-0.5, columns - 0.5)
    ax.set_ylim(rows - 0.5, -0.5)
    ax.grid(visible=False)
    with mpl.rc_context(theme.STYLE):
        ax.set_xticks(range(columns), names[1], rotation=60, ha="left", rotation_mode="anchor")
        ax.set_yticks(range(rows), names[0])
    ax.xaxis.tick_top()
    for text in ax.get_yticklabels():
        text.set_color(theme.INK)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xlabel(x_label)
    ax.xaxis.set_label_position("top")
    return theme.figure_of(ax)
