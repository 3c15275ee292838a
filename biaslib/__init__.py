"""Measure bias in image classifiers, and check every metric against the true causal effect."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biaslib import (
        attribution,
        audit,
        datasets,
        dial,
        figures,
        gan,
        metrics,
        mitigation,
        models,
        statistics,
        training,
        worlds,
    )

__version__ = "0.1.0"
__all__ = [
    "attribution",
    "audit",
    "datasets",
    "dial",
    "figures",
    "gan",
    "metrics",
    "mitigation",
    "models",
    "statistics",
    "training",
    "worlds",
]


def __getattr__(name: str) -> ModuleType:
    """A room of the package, imported when it is first asked for: some of them take seconds."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
