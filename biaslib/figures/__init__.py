"""Every kind of plot, table and interactive piece the book has, in one style that follows the page's light and dark."""

from biaslib.figures.interactive import dial, explorer, map_editor
from biaslib.figures.labels import name_lines
from biaslib.figures.matrix import matrix
from biaslib.figures.pictures import contact_sheet, maps_over_images, overlay, strip, strip_with_axes
from biaslib.figures.pieces import Piece, show, tooltip
from biaslib.figures.plots import dots, response, scatter
from biaslib.figures.table import p_value, quote, table
from biaslib.figures.theme import COLOURS, new

__all__ = [
    "COLOURS",
    "Piece",
    "contact_sheet",
    "dial",
    "dots",
    "explorer",
    "map_editor",
    "maps_over_images",
    "matrix",
    "name_lines",
    "new",
    "overlay",
    "p_value",
    "quote",
    "response",
    "scatter",
    "show",
    "strip",
    "strip_with_axes",
    "table",
    "tooltip",
]
