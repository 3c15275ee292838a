"""Every kind of plot, table and interactive piece the book has, in one style that follows the page's light and dark."""

from biaslib.figures.interactive import dial, explorer, map_editor
from biaslib.figures.pictures import contact_sheet, image_strip, image_strip_with_axes, maps_over_images, overlay
from biaslib.figures.pieces import HtmlFigure, show, tooltip
from biaslib.figures.plots import dot_plot, line_plot, matrix, scatter
from biaslib.figures.table import glue_number, p_value, table
from biaslib.figures.theme import COLOURS, new

__all__ = [
    "COLOURS", "HtmlFigure", "contact_sheet", "dial", "dot_plot", "explorer", "glue_number", "image_strip",
    "image_strip_with_axes", "line_plot", "map_editor", "maps_over_images", "matrix", "new", "overlay", "p_value",
    "scatter", "show", "table", "tooltip",
]  # fmt: skip
