"""Where each attribute of a generated face is drawn: what a model that looks nowhere else would attend to."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.worlds.faces import Faces


def where_drawn(
    factors: pd.DataFrame, attributes: Sequence[str], *, size: int = 64, grid: int | None = None
) -> np.ndarray:
    """How much each pixel changes when a face is drawn with an attribute and without it, all else the same.

    Args:
        factors: N rows of `worlds.faces`.
        attributes: A binary columns.
        size: height and width of the faces, in pixels.
        grid: cells along a side, over which pixels are averaged, as coarse as a model's maps; None: single pixels.

    Returns:
        (N, A, h, w) float32 in [0, 1]: absolute change, averaged over the three colours.

    Raises:
        BiaslibError: for an unknown or a non-binary column, or a grid that does not divide the size.
    """
    cells = size if grid is None else grid
    if cells < 1 or size % cells:
        raise BiaslibError(f"grid must divide the size, {size}, into equal cells; {grid} does not.")
    for name in attributes:
        if name not in factors or not factors[name].isin((0, 1)).all():
            raise BiaslibError(f"{name!r} is no binary column of the table: take one of {', '.join(Faces.attributes)}.")
    found = np.empty((len(factors), len(attributes), cells, cells), np.float32)
    as_they_are = _drawn(factors, size)  # with an attribute where they have it, without it where they have not
    for at, name in enumerate(attributes):
        values = factors[name].to_numpy()
        change = np.abs(_drawn(factors.assign(**{name: (values == 0).astype(values.dtype)}), size) - as_they_are)
        found[:, at] = (change.mean(axis=-1) / 255).reshape(-1, cells, size // cells, cells, size // cells).mean((2, 4))
    return found


def _drawn(factors: pd.DataFrame, size: int) -> np.ndarray:
    return Faces().render(factors, size=size, regions=()).images.astype(np.float32)
