"""The book's measurements on a reader's own model and data; a page, its numbers, and cards to hand on come out."""

from biaslib.audit.records import Audit, AuditOptions, Finding, Shown
from biaslib.audit.report import page, pieces
from biaslib.audit.running import run

__all__ = ["Audit", "AuditOptions", "Finding", "Shown", "page", "pieces", "run"]
