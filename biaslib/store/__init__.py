"""Results by content: computed once, kept with a checksum, computed again where they are damaged."""

from biaslib.store.files import SEAL, is_whole, replacing, scratch, sealed
from biaslib.store.functions import Stored, stored
from biaslib.store.results import (
    DamagedEntryWarning,
    Entry,
    entries,
    get_or_compute,
    remove,
    root,
    timed,
    verify,
    waiting,
)

__all__ = [
    "SEAL",
    "DamagedEntryWarning",
    "Entry",
    "Stored",
    "entries",
    "get_or_compute",
    "is_whole",
    "remove",
    "replacing",
    "root",
    "scratch",
    "sealed",
    "stored",
    "timed",
    "verify",
    "waiting",
]
