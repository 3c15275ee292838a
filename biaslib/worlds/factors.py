"""Tables of factors: how their columns are drawn, how the cue is tied to the target, and what a row may hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError


@dataclass(frozen=True)
class Factor:
    """A column: what it may hold and what it is drawn from."""

    low: float
    high: float
    drawn: tuple[float, float] | None = None  # the range it is drawn from, evenly; None: the whole allowed range
    whole: bool = False  # only whole numbers

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """N values: float32, or the smallest whole-number type that holds them."""
        low, high = self.drawn or (self.low, self.high)
        if self.whole:
            return rng.integers(int(low), int(high) + 1, n).astype(np.int8 if self.high < 128 else np.uint32)
        return rng.uniform(low, high, n).astype(np.float32)


SHARE = Factor(0.0, 1.0)
CHOICE = Factor(0, 1, whole=True)
SEED = Factor(0, 2**32 - 1, whole=True)


def check_draw(n: int, strength: float, seed: int) -> None:
    """Refuses n below 1, a strength outside [0, 1], and a seed that is no whole number >= 0."""
    if not isinstance(n, Integral) or n < 1:
        raise BiaslibError(f"n is the number of rows, a whole number from 1 on, not {n!r}.")
    if not isinstance(strength, Real) or not 0 <= strength <= 1:
        raise BiaslibError(f"strength must lie in [0, 1] (0 no bias, 1 full bias), not {strength!r}.")
    if not isinstance(seed, Integral) or seed < 0:
        raise BiaslibError(f"seed must be a whole number from 0 on, not {seed!r}.")


def check_size(size: int) -> None:
    """Refuses a size that is no whole number of at least 8 pixels."""
    if not isinstance(size, Integral) or size < 8:
        raise BiaslibError(f"size must be a whole number of at least 8 pixels, not {size!r}.")


def draw_factors(known: Mapping[str, Factor], n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A column of n values for every factor, independent of each other, in the mapping's order."""
    return {name: factor.draw(n, rng) for name, factor in known.items()}


def balanced_bool(n: int, rng: np.random.Generator) -> np.ndarray:
    """N values in random order, half of them True (the smaller half where n is odd)."""
    return rng.permutation(np.arange(n) % 2 == 1)


def draw_agreement(target: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Which rows' cue agrees with their target.

    The share (1 + strength) / 2 is kept in every class, to the nearest row, so that a small sample has the bias that
    was asked for. The rows are ranked without regard to the strength: a stronger bias only adds rows that agree.

    Args:
        target: (n,) classes.
        strength: the dial, in [0, 1].
        rng: its draws do not depend on the strength.

    Returns:
        (n,) bool.
    """
    agrees = np.zeros(len(target), bool)
    for value in np.unique(target):
        rows = rng.permutation(np.flatnonzero(target == value))
        agrees[rows[: round((1 + strength) / 2 * len(rows))]] = True
    return agrees


def validated(table: pd.DataFrame, known: Mapping[str, Factor]) -> dict[str, np.ndarray]:
    """The known columns of a table as arrays, checked; other columns are left alone.

    Raises:
        BiaslibError: a column is missing, or a value is no number, not whole where it has to be, or out of range.
    """
    missing = [name for name in known if name not in table.columns]
    if missing:
        raise BiaslibError(
            f"the table lacks the factor{'s' * (len(missing) > 1)} {', '.join(missing)}: start from the world's "
            "factors(...) and edit its columns."
        )
    columns = {}
    for name, factor in known.items():
        values = table[name].to_numpy()
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            raise BiaslibError(f"factor {name!r} must hold numbers, not {table[name].dtype}.") from None
        wrong = ~((numbers >= factor.low) & (numbers <= factor.high))
        if factor.whole:
            wrong |= numbers != np.floor(numbers)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise BiaslibError(
                f"factor {name!r} must be a {'whole ' * factor.whole}number in [{factor.low:g}, {factor.high:g}], "
                f"but row {row} has {values[row]!r}."
            )
        columns[name] = values.astype(np.uint32) if factor.whole else numbers.astype(np.float32)
    return columns
