"""Every kind of plot, table and interactive piece the book has, in one style that follows the page's light and dark."""

from biaslib.figures.pieces import Piece, show
from biaslib.figures.svg import tooltip
from biaslib.figures.table import quote, table
from biaslib.figures.theme import COLOURS, new

__all__ = ["COLOURS", "Piece", "new", "quote", "show", "table", "tooltip"]
