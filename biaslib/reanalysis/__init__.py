"""Recomputing what a paper reports from what its authors released."""

from biaslib.reanalysis.claims import quoted, residuals, sentences, words
from biaslib.reanalysis.tables import compute, missing

__all__ = ["compute", "missing", "quoted", "residuals", "sentences", "words"]
