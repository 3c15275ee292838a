"""Run a notebook with parameters, run them all, make the pages."""

from biaslib.book.building import build, page
from biaslib.book.execution import PageError, names, read_parameters, run

__all__ = ["PageError", "build", "names", "page", "read_parameters", "run"]
