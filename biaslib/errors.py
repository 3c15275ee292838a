"""The kinds of error that are told without a traceback."""

import math
import tomllib
from collections.abc import Collection
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final

_SENTENCES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class BiaslibError(Exception):
    """A wrong input, named in one sentence with its remedy: the command line prints it alone, and exits with code 2."""


class PageError(Exception):
    """A notebook stopped at a cell, or the pages could not be made; the text shows the place and the error."""


def refused(problem: str, **words: Any) -> BiaslibError:
    """The error of a problem, by its name in `errors.toml`, with the words that its sentence takes."""
    return BiaslibError(_SENTENCES[problem].format(**words))


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
