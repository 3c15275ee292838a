"""The one shape data has: images, labels and masks, row by row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.mixins import NDArrayOperatorsMixin

from biaslib.errors import refused


@dataclass(eq=False)
class MappedRows(NDArrayOperatorsMixin):
    """Rows of a memory map, which are read when they are asked for: an array of them that holds no pixels.

    It has an array's shape, type, length and indices. A number, a slice or a list reads these rows; all else, all.
    """

    whole: np.ndarray
    rows: np.ndarray

    def __post_init__(self) -> None:
        self.shape = (len(self.rows), *self.whole.shape[1:])
        self.dtype, self.ndim = self.whole.dtype, self.whole.ndim
        self.nbytes = len(self.rows) * self.whole.strides[0]  # of an array of these rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> np.ndarray:
        if isinstance(index, int | np.integer | slice | list) or (isinstance(index, np.ndarray) and index.ndim == 1):
            return self.whole[self.rows[index]]
        return np.asarray(self)[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.whole[self.rows], dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        inputs = tuple(np.asarray(each) if isinstance(each, MappedRows) else each for each in inputs)
        return getattr(ufunc, method)(*inputs, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"neither MappedRows nor an array has an attribute {name!r}")
        return getattr(np.asarray(self), name)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()  # to another process go the rows, not the whole map


@dataclass(frozen=True)
class Samples:
    """N labelled images; parts that do not describe the same N are a `BiaslibError`."""

    images: np.ndarray  #: (N, H, W, 3) uint8, RGB; may be a memory map, or rows of one that are read when they are used
    labels: pd.DataFrame  #: N rows, one column per attribute (bool) or class (int)
    masks: Mapping[str, np.ndarray] = field(default_factory=dict)  #: region name -> (N, H, W) bool, True inside

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.shape[-1] != 3 or self.images.dtype != np.uint8:
            raise refused("samples that are no images", dtype=self.images.dtype, shape=self.images.shape)
        if len(self.labels) != len(self.images):
            raise refused("images without labels", images=len(self.images), labels=len(self.labels))
        for region, mask in self.masks.items():
            if mask.shape != self.images.shape[:3] or mask.dtype != np.bool_:
                raise refused("mask unlike its images", region=region, wanted=self.images.shape[:3], mask=mask)

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: Any) -> "Samples":
        """The rows at `index` (integers, a slice or a boolean array), in that order; of a map none is read."""
        rows = np.arange(len(self))[index]
        return Samples(
            images=_rows(self.images, rows),
            labels=self.labels.iloc[rows].reset_index(drop=True),
            masks={region: _rows(mask, rows) for region, mask in self.masks.items()},
        )


def _rows(array: Any, rows: np.ndarray) -> Any:
    if isinstance(array, MappedRows):
        return MappedRows(array.whole, array.rows[rows])
    # what was computed from a map has its type, but lies in memory
    return MappedRows(array, rows) if isinstance(array, np.memmap) and array.filename else array[rows]
