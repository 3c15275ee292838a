"""Results by content: computed once, kept with a checksum, computed again where they are damaged."""

from biaslib.store.files import SEAL, is_whole, replacing, scratch, sealed
from biaslib.store.functions import Calls, Stored, stored
from biaslib.store.results import (
    CONFIG_LENGTH,
    DamagedEntryWarning,
    Entry,
    entries,
    get_or_compute,
    remove,
    root,
    verify,
)

__all__ = [
    "CONFIG_LENGTH",
    "SEAL",
    "Calls",
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
    "verify",
]
