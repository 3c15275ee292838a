"""Results by content: computed once, kept with a checksum, computed again where they are damaged."""

from biaslib.store.files import replacing, scratch, sealed
from biaslib.store.functions import Calls, Stored, stored
from biaslib.store.results import DamagedEntryWarning, Entry, entries, get_or_compute, remove, root, verify

__all__ = [
    "Calls",
    "DamagedEntryWarning",
    "Entry",
    "Stored",
    "entries",
    "get_or_compute",
    "remove",
    "replacing",
    "root",
    "scratch",
    "sealed",
    "stored",
    "verify",
]
