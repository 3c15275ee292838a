"""Recomputing what a paper reports from what its authors released."""

from biaslib.chapters.papers.claims import quoted, residuals, sentences, words
from biaslib.chapters.papers.tables import compute, missing

__all__ = ["compute", "missing", "quoted", "residuals", "sentences", "words"]
