"""Which rows of a table of labels a model is trained on, said in plain values: a part of a `Recipe`."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.mitigation import resampling
from biaslib.mitigation.subsampling import subsample_to_mcc


@dataclass(frozen=True, kw_only=True)
class Subset:
    """The rows with one value of an attribute, with a chosen correlation of two attributes, or both.

    Attributes:
        only: an attribute and its value; None: either.
        correlation: two attributes and their MCC, reached by `subsample_to_mcc`; None: as it is.
        kept: how many rows are left where a correlation is asked for; None: as many as can be.
        seed: of the choice.
    """

    only: tuple[str, bool] | None = None
    correlation: tuple[str, str, float] | None = None
    kept: int | None = None
    seed: int = 0

    def chosen(self, table: pd.DataFrame) -> np.ndarray:
        """Positions, increasing.

        Raises:
            BiaslibError: where no row is left; as `subsample_to_mcc` does.
        """
        rows = np.arange(len(table))
        if self.only:
            name, value = self.only
            rows = rows[table[name].to_numpy(bool) == value]
        if self.correlation:
            first, second = (table[name].to_numpy(bool)[rows] for name in self.correlation[:2])
            rows = rows[subsample_to_mcc(first, second, [self.correlation[2]], size=self.kept, seed=self.seed)[0]]
        if len(rows) == 0:
            raise BiaslibError(f"No image is left to train on among {len(table)}: take more images.")
        return rows


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """Rows drawn again or left out, so that attributes and group come together as if by chance.

    Attributes:
        attributes: columns of 0 and 1.
        group: the column of the group.
        eps: how balanced oversampling makes each attribute; None: data repair in its place.
        kept: share of the rows that data repair keeps.
        seed: of the choice.
    """

    attributes: tuple[str, ...]
    group: str
    eps: float | None = None
    kept: float = 0.5
    seed: int = 0

    def chosen(self, table: pd.DataFrame) -> np.ndarray:
        """Positions, with repetitions where oversampled."""
        attributes, groups = table[list(self.attributes)].to_numpy(bool), table[self.group].to_numpy()
        if self.eps is not None:
            return resampling.oversample(attributes, groups, eps=self.eps, seed=self.seed)
        return resampling.data_repair(attributes, groups, size=round(self.kept * len(table)), seed=self.seed)
