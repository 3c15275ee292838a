"""The kinds of error that are told without a traceback."""

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any


class BiaslibError(Exception):
    """A wrong input, named in one sentence with its remedy: the command line prints it alone, and exits with code 2."""


class PageError(Exception):
    """A notebook stopped at a cell, or the pages could not be made; the text shows the place and the error."""


def check_known(what: str, value: object, known: Collection[object]) -> None:
    """Refuses a value that is not among the known ones."""
    if value not in known:
        raise BiaslibError(f"{what} must be one of {', '.join(map(str, known))}, not {value!r}.")


def check_number(what: str, value: Any, low: float, high: float = math.inf, *, whole: bool = False) -> None:
    """Refuses what is no number, or no whole one, from `low` to `high`, both allowed."""
    if not isinstance(value, Integral if whole else Real) or not low <= float(value) <= high:
        wanted = f"of at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
        raise BiaslibError(f"{what} must be a {'whole ' * whole}number {wanted}, not {value!r}.")


def reason(error: Exception) -> str:
    """The first line of what an error says, without a stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
