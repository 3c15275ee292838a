"""What every world offers and all drawn worlds share: tables of factors, and a picture for each of their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, check_known, check_number, refused
from biaslib.samples import Samples
from biaslib.worlds.drawing import chunks


@dataclass(frozen=True)
class Factor:
    """A column: what it may hold and what it is drawn from."""

    low: float = 0.0
    high: float = 1.0
    drawn: tuple[float, float] | None = None  # the range it is drawn from, evenly; None: the whole allowed range
    whole: bool = False  # only whole numbers

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """N values: float32, or the smallest whole-number type that holds them."""
        low, high = self.drawn or (self.low, self.high)
        if self.whole:
            return rng.integers(int(low), int(high) + 1, n).astype(np.int8 if self.high < 128 else np.uint32)
        return rng.uniform(low, high, n).astype(np.float32)


SHARE = Factor()
CHOICE = Factor(whole=True)
SEED = Factor(high=2**32 - 1, whole=True)
_KINDS = {"share": SHARE, "signed share": Factor(-1.0), "choice": CHOICE, "seed": SEED}


def factors_of(groups: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Factor]]:
    """The columns of each group in a TOML file, by their names: one of the usual kinds, or the fields of a factor."""
    return [
        {name: _KINDS[of] if isinstance(of, str) else Factor(**of) for name, of in group.items()}
        for group in groups.values()
    ]


def check_draw(n: int, strength: float, seed: int) -> None:
    """Refuses n below 1, a strength outside [0, 1], and a seed that is no whole number >= 0."""
    check_number("n, the number of rows,", n, 1, whole=True)
    check_number("strength (0 no bias, 1 full bias)", strength, 0, 1)
    check_number("seed", seed, 0, whole=True)


def draw_factors(known: Mapping[str, Factor], n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A column of n values for every factor, independent of each other, in the mapping's order."""
    return {name: factor.draw(n, rng) for name, factor in known.items()}


def balanced_bool(n: int, rng: np.random.Generator) -> np.ndarray:
    """N values in random order, half of them True (the smaller half where n is odd)."""
    return rng.permutation(np.arange(n) % 2 == 1)


def draw_agreement(target: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Which rows' cue agrees with their target, (n,) bool, for the target's classes (n,).

    The share (1 + strength) / 2 is kept in every class, to the nearest row, so that a small sample has the bias that
    was asked for. The rows are ranked without regard to the strength: a stronger bias only adds rows that agree.
    """
    agrees = np.zeros(len(target), bool)
    for value in np.unique(target):
        rows = rng.permutation(np.flatnonzero(target == value))
        agrees[rows[: round((1 + strength) / 2 * len(rows))]] = True
    return agrees


def validated(table: pd.DataFrame, known: Mapping[str, Factor]) -> dict[str, np.ndarray]:
    """The known columns of a table as arrays; one that is missing, no number or out of range is a `BiaslibError`."""
    missing = [name for name in known if name not in table.columns]
    if missing:
        raise refused("factors that are missing", s="s" * (len(missing) > 1), missing=", ".join(missing))
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
            raise refused(
                "factor out of range", name=name, whole="whole " * factor.whole, of=factor, row=row, value=values[row]
            )
        columns[name] = values.astype(np.uint32) if factor.whole else numbers.astype(np.float32)
    return columns


class World:
    """A data set whose bias is a dial and whose counterfactuals are exact.

    A row of `factors` holds everything that is drawn: attributes and nuisances. The same row always renders to the
    same pixels, so an edited table is an exact counterfactual:
    `world.render(factors.assign(background=1 - factors.background))` changes the background and leaves every pixel
    that the object fully covers as it was; at its soft edge, a pixel blends both and changes by the background's share.

    Each world names its columns, and says how its tables and pictures are drawn.
    """

    name: str  #: that `worlds.get` knows
    target: str  #: the column a classifier is trained to predict
    cue: str  #: the column that is spuriously tied to the target
    attributes: tuple[str, ...]  #: every labelled column, target and cue among them
    regions: tuple[str, ...]  #: the names of the masks; the last one lies behind all others
    _classes: tuple[str, ...] = ()  # the attributes that are whole numbers; all others are true or false
    _count, _favoured = 2, 1  # how many classes the target has, and which of them goes with the cue
    _patches_across = 1  # how many patches side by side fill a picture, where most of the drawing is done on patches

    @property
    def _columns(self) -> Mapping[str, Factor]:
        """Every column that the pictures are drawn from."""
        raise NotImplementedError

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        """Of a world whose cue agrees where it goes with one class of the target, and whose other columns are free."""
        target = rng.permutation(np.arange(n) % self._count)
        cue = (target == self._favoured) == draw_agreement(target, strength, rng)
        table = {self.target: target.astype(np.int8 if self.target in self._classes else bool)}
        table[self.cue] = cue.astype(np.int8)
        free = {name: factor for name, factor in self._columns.items() if name not in table}
        return pd.DataFrame(table | draw_factors(free, n, rng))

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        """The pictures of some rows, (n, size, size, 3) uint8; writes each pixel's region into `region_index`."""
        raise NotImplementedError

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """Draws n rows: the classes of the target equally often, in each a share (1 + strength) / 2 whose cue agrees.

        The shares are exact to a row. The same seed with another strength, in [0, 1], gives the same rows, but for the
        cue of as few as possible, unless the world says so. An argument out of range is a `BiaslibError`.
        """
        check_draw(n, strength, seed)
        return self._draw_table(n, strength, np.random.default_rng(seed))

    def render(self, factors: pd.DataFrame, *, size: int = 64, regions: Sequence[str] | None = None) -> Samples:
        """Draws the rows, each for itself: the same row gives the same pixels in whatever table it stands.

        `factors` is a table from `factors`, edited at will; further columns are left alone. `size` is height and width
        in pixels. `regions` names the masks to return; None: all of them. Training sets need none: `()`.

        Returned are images (n, size, size, 3), labels (the attributes) and the chosen masks: a pixel belongs to the
        region that covers more than half of it, and all regions together divide the picture. A `BiaslibError` is raised
        for a missing column, a value out of range, a size below 8 and an unknown region.
        """
        check_number("size, in pixels,", size, 8, whole=True)
        for region in regions or ():
            check_known("a region", region, self.regions)
        images, labels, region_index = self._render(factors, size)
        numbers = {name: self.regions.index(name) for name in (self.regions if regions is None else regions)}
        return Samples(images, labels, {name: region_index == number for name, number in numbers.items()})

    def _render(self, factors: pd.DataFrame, size: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
        """Pictures, labels, and for every pixel the number of its region."""
        table = validated(factors, self._columns)
        labels = {name: table[name].astype(np.int8 if name in self._classes else bool) for name in self.attributes}
        images = np.empty((len(factors), size, size, 3), np.uint8)
        region_index = np.full(images.shape[:3], len(self.regions) - 1, np.uint8)
        for rows in chunks(len(factors), max(1, size // self._patches_across)):
            part = {name: values[rows] for name, values in table.items()}
            images[rows] = self._draw(part, region_index[rows], size)
        return images, pd.DataFrame(labels), region_index
