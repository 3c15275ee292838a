"""What every world offers, and what all drawn worlds share: a table of factors, and a picture for each of its rows."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.worlds.drawing import chunks
from biaslib.worlds.factors import Factor, check_draw, check_size, validated


class World(Protocol):
    """A data set whose bias is a dial and whose counterfactuals are exact.

    A row of `factors` holds everything that is drawn: attributes and nuisances. The same row always renders to the
    same pixels, so an edited table is an exact counterfactual:
    `world.render(factors.assign(background=1 - factors.background))` changes the background and leaves every pixel
    that the object fully covers as it was; at its soft edge, a pixel blends both and changes by the background's share.

    Attributes:
        name: the name that `worlds.get` knows.
        target: the column a classifier is trained to predict.
        cue: the column that is spuriously tied to the target.
        attributes: every labelled column, target and cue among them.
        regions: the names of the masks.
    """

    name: str
    target: str
    cue: str
    attributes: tuple[str, ...]
    regions: tuple[str, ...]

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """N rows, one an image; P(cue agrees with target) = (1 + strength) / 2, strength in [0, 1]."""
        ...

    def render(self, factors: pd.DataFrame, *, size: int = 64, regions: Sequence[str] | None = None) -> Samples:
        """Draws the rows: images (N, size, size, 3) uint8, labels = the attributes, masks = the chosen regions."""
        ...


class DrawnWorld(World):
    """A world that draws tables and pictures; each world names its columns, and says how both are drawn.

    The last one of its regions is what lies behind all others.
    """

    _classes: tuple[str, ...] = ()  # the attributes that are whole numbers; all others are true or false
    _patches_across = 1  # how many patches side by side fill a picture, where most of the drawing is done on patches

    @property
    def _columns(self) -> Mapping[str, Factor]:
        """Every column that the pictures are drawn from."""
        raise NotImplementedError

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        raise NotImplementedError

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        """The pictures of some rows, (n, size, size, 3) uint8; writes each pixel's region into `region_index`."""
        raise NotImplementedError

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """Draws n rows: the classes of the target equally often, in each a share (1 + strength) / 2 whose cue agrees.

        The shares are exact to the nearest row. The same seed with another strength gives the same rows, but for the
        cue in as few of them as possible.

        Args:
            n: number of rows, >= 1.
            strength: the dial, in [0, 1].
            seed: >= 0.

        Raises:
            BiaslibError: n, strength or seed out of range.
        """
        check_draw(n, strength, seed)
        return self._draw_table(n, strength, np.random.default_rng(seed))

    def render(self, factors: pd.DataFrame, *, size: int = 64, regions: Sequence[str] | None = None) -> Samples:
        """Draws the rows, each for itself: the same row gives the same pixels in whatever table it stands.

        Args:
            factors: a table from `factors`, edited at will; further columns are left alone.
            size: height and width in pixels.
            regions: the masks to return, of `regions`; None: all of them. Training sets need none: `()`.

        Returns:
            Images (n, size, size, 3); labels, the attributes; the chosen masks: a pixel belongs to the region that
            covers more than half of it. All regions together divide the picture.

        Raises:
            BiaslibError: a column is missing or a value is out of range; size below 8; a region that is not known.
        """
        check_size(size)
        for region in regions or ():
            if region not in self.regions:
                raise BiaslibError(f"there is no region {region!r}; the regions are {', '.join(self.regions)}.")
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
