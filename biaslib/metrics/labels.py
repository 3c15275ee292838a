"""What is annotated or predicted: attributes and a group for every image; and predictions permuted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import checked_binary, to_numpy

_CROWDS = 8  # strata of about as many images, by how many attributes they truly have


@dataclass(frozen=True, eq=False)
class Labels:
    """The attributes and the group of every image, as annotated or predicted; others are a `BiaslibError`."""

    attributes: Any  #: (N, A) bool, or 0 and 1; NumPy, torch, or a data frame, whose columns then are the names
    groups: Any  #: (N,) whole numbers 0, 1, ..., the group of each image
    names: Sequence[Any] = ()  #: of the A attributes, for tables; their numbers where not given

    def __post_init__(self) -> None:
        names = self.names
        if isinstance(self.attributes, pd.DataFrame) and len(names) == 0:
            names = tuple(self.attributes.columns)
        attributes = to_numpy(self.attributes)
        if attributes.ndim != 2 or attributes.size == 0:
            shape = attributes.shape
            raise BiaslibError(f"attributes must be (N, A) with at least one image and one attribute, not {shape}.")
        attributes = checked_binary("attributes", attributes, "threshold scores before measuring")
        groups = to_numpy(self.groups)
        if groups.ndim != 1:
            raise BiaslibError(f"groups must be (N,), one group for every image, not {groups.shape}.")
        if groups.dtype.kind not in "iub" or (groups < 0).any():
            raise BiaslibError("groups must be whole numbers 0, 1, ...: pandas.factorize turns names into them.")
        if len(attributes) != len(groups):
            raise BiaslibError(f"{len(attributes)} images but {len(groups)} groups: give one group for every image.")
        if len(names) not in (0, attributes.shape[1]):
            raise BiaslibError(f"{attributes.shape[1]} attributes but {len(names)} names: give one for each.")
        for field, value in (("attributes", attributes), ("groups", groups.astype(np.int64)), ("names", tuple(names))):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, index: Any) -> "Labels":
        """The images at `index` (whole numbers, a slice or a boolean array), in that order."""
        return Labels(self.attributes[index], self.groups[index], self.names)


def permutation_baseline(test: Labels, predicted: Labels, *, rng: np.random.Generator, together: bool = True) -> Labels:
    r"""The same predictions permuted, so that errors about attributes and errors about groups are independent.

    The baseline of an amplification. Predicted attributes change places among the images of exactly the same true
    attributes, predicted groups among those of the same true group. Every $P(\hat m \mid m)$ and $P(\hat g \mid g)$
    stays as it was, while the predicted attributes no longer depend on the group given the true attributes, nor the
    predicted group on the attributes given the true group (conditional independence). Amplification that is left is
    that of mere errors: they wash associations out, and absolute changes count that. Attributes are predicted of one
    image together, so which errors go with which is kept.

    With many attributes hardly two images have the same, and nothing could change places. Then permute each attribute
    for itself (`together=False`) among the images that agree in it and have about as many true attributes, and the
    groups among those of the same group and about as many: every attribute keeps its rates of misses and false alarms,
    and crowded images keep theirs. Without these strata of crowdedness, eighths of the images, a model whose errors do
    not depend on the group is often said to amplify. Errors about different attributes become independent.

    `predicted` is what the model says of the `test` images, in their order; another number is a `BiaslibError`.
    """
    n = len(test)
    if len(predicted) != n:
        raise BiaslibError(f"{len(predicted)} predictions for {n} test images: predict every test image once.")
    if together:
        crowded = np.zeros(len(test), np.intp)
        patterns = np.unique(test.attributes, axis=0, return_inverse=True)[1].ravel()
        attributes = predicted.attributes[permuted_within(patterns, rng.random(n))]
    else:
        present = test.attributes.sum(axis=1)
        crowded = np.searchsorted(np.quantile(present, np.arange(1, _CROWDS) / _CROWDS), present)
        pairs = zip(test.attributes.T, predicted.attributes.T, strict=True)
        attributes = np.column_stack(
            [said[permuted_within(true * _CROWDS + crowded, rng.random(n))] for true, said in pairs]
        )
    groups = predicted.groups[permuted_within(test.groups * _CROWDS + crowded, rng.random(n))]
    return Labels(attributes, groups, predicted.names)


def permuted_within(strata: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The permutation of the rows by their random keys that takes each to one of its own stratum."""
    source, order = np.empty(len(strata), np.intp), np.argsort(keys)
    source[np.argsort(strata, kind="stable")] = order[np.argsort(strata[order], kind="stable")]
    return source
