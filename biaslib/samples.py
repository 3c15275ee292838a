"""The one shape data has: images, labels and masks, row by row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError


@dataclass(frozen=True)
class Samples:
    """N labelled images.

    Attributes:
        images: (N, H, W, 3) uint8, RGB; may be a memory map.
        labels: N rows, one column per attribute (bool) or class (int).
        masks: region name -> (N, H, W) bool, True inside the region.

    Raises:
        BiaslibError: where the parts do not describe the same N images.
    """

    images: np.ndarray
    labels: pd.DataFrame
    masks: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.shape[-1] != 3 or self.images.dtype != np.uint8:
            raise BiaslibError(
                f"images must be uint8 of shape (N, H, W, 3), not {self.images.dtype} of shape {self.images.shape}; "
                "convert them before making Samples."
            )
        if len(self.labels) != len(self.images):
            raise BiaslibError(
                f"{len(self.images)} images but {len(self.labels)} rows of labels: give one row for every image."
            )
        for region, mask in self.masks.items():
            if mask.shape != self.images.shape[:3] or mask.dtype != np.bool_:
                raise BiaslibError(
                    f"mask {region!r} must be bool of shape {self.images.shape[:3]}, not {mask.dtype} of shape "
                    f"{mask.shape}; resize or threshold it before making Samples."
                )

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: Any) -> "Samples":
        """The rows at `index` (integers, a slice or a boolean array), in that order."""
        rows = np.arange(len(self))[index]
        return Samples(
            images=self.images[rows],
            labels=self.labels.iloc[rows].reset_index(drop=True),
            masks={region: mask[rows] for region, mask in self.masks.items()},
        )
