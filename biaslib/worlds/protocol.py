"""What every generated world offers."""

from typing import Protocol

import pandas as pd

from biaslib.samples import Samples


class World(Protocol):
    """A generated data set whose bias is a dial and whose counterfactuals are exact.

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

    def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
        """Draws the rows: images (N, size, size, 3) uint8, labels = the attributes, masks = the regions."""
        ...
