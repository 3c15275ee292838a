"""What is annotated or predicted: attributes and a group for every image; and predictions permuted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import to_numpy


@dataclass(frozen=True, eq=False)
class Labels:
    """The attributes and the group of every image, as annotated or as predicted.

    Attributes:
        attributes: (N, A) bool, or 0 and 1; NumPy, torch, or a data frame, whose columns then are the names.
        groups: (N,) whole numbers 0, 1, ..., the group of each image.
        names: of the A attributes, for tables; their numbers where not given.

    Raises:
        BiaslibError: for no images or attributes, values other than 0 and 1, groups that are no whole numbers from 0,
            lengths that differ.
    """

    attributes: Any
    groups: Any
    names: Sequence[Any] = ()

    def __post_init__(self) -> None:
        names = self.names
        if isinstance(self.attributes, pd.DataFrame) and len(names) == 0:
            names = tuple(self.attributes.columns)
        attributes, groups = _binary(to_numpy(self.attributes)), _whole(to_numpy(self.groups))
        if len(attributes) != len(groups):
            raise BiaslibError(f"{len(attributes)} images but {len(groups)} groups: give one group for every image.")
        if len(names) not in (0, attributes.shape[1]):
            raise BiaslibError(f"{attributes.shape[1]} attributes but {len(names)} names: give one for each.")
        for field, value in (("attributes", attributes), ("groups", groups), ("names", tuple(names))):
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.groups)


def permutation_baseline(test: Labels, predicted: Labels, *, rng: np.random.Generator, together: bool = True) -> Labels:
    r"""The same predictions permuted, so that errors about attributes and errors about groups are independent.

    The baseline of an amplification. Predicted attributes change places among the images of exactly the same true
    attributes, predicted groups among those of the same true group. Every $P(\hat m \mid m)$ and $P(\hat g \mid g)$
    stays as it was, while the predicted attributes no longer depend on the group given the true attributes, nor the
    predicted group on the attributes given the true group (conditional independence). Amplification that is left is
    that of mere errors: they wash associations out, and absolute changes count that. Attributes are predicted of one
    image together, so which errors go with which is kept.

    Where there are many attributes, hardly two images have exactly the same ones, and nothing could change places. Then
    permute each attribute for itself (`together=False`) among the images that agree in it: every attribute keeps its
    rates of misses and false alarms, and errors about different attributes become independent, too.

    Args:
        test: labels of the test images.
        predicted: what the model says of them, in their order; a BiaslibError where their number is another.
        rng: draws the permutations.
        together: permute all attributes of an image at once.
    """
    if len(predicted) != len(test):
        raise BiaslibError(f"{len(predicted)} predictions for {len(test)} test images: predict every test image once.")
    if together:
        patterns = np.unique(test.attributes, axis=0, return_inverse=True)[1].ravel()
        attributes = predicted.attributes[_permuted_within(patterns, rng)]
    else:
        pairs = zip(test.attributes.T, predicted.attributes.T, strict=True)
        attributes = np.column_stack([column[_permuted_within(true, rng)] for true, column in pairs])
    return Labels(attributes, predicted.groups[_permuted_within(test.groups, rng)], predicted.names)


def _permuted_within(strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random permutation of the rows that takes each to one of its own stratum."""
    source = np.empty(len(strata), np.intp)
    source[np.argsort(strata, kind="stable")] = np.lexsort((rng.random(len(strata)), strata))
    return source


def check_comparable(train: Labels, test: Labels, predicted: Labels, n_groups: int | None) -> int:
    """The number of groups, where the three fit together and every group and attribute occurs in train and test."""
    if len(predicted) != len(test):
        raise BiaslibError(f"{len(predicted)} predictions for {len(test)} test images: predict every test image once.")
    widths = [labels.attributes.shape[1] for labels in (train, test, predicted)]
    if len(set(widths)) > 1:
        raise BiaslibError(
            f"train, test and predicted have {widths[0]}, {widths[1]} and {widths[2]} attributes: "
            "give the same columns in the same order."
        )
    if n_groups is None:
        n_groups = 1 + int(max(train.groups.max(), test.groups.max()))
    if n_groups < 2:
        raise BiaslibError("There is one group only: amplification compares two groups or more.")
    for what, labels in (("train", train), ("test", test), ("predicted", predicted)):
        if labels.groups.max() >= n_groups:
            raise BiaslibError(
                f"{what} has the group {labels.groups.max()}, but there are {n_groups} groups, 0 to {n_groups - 1}: "
                "number them from 0 or give a larger n_groups."
            )
    for what, labels in (("train", train), ("test", test)):
        missing = np.setdiff1d(np.arange(n_groups), labels.groups)
        if len(missing):
            raise BiaslibError(
                f"Group {missing[0]} of {n_groups} has no image in {what}, so nothing can be said of it: "
                "leave it out and number the others from 0."
            )
        absent = np.flatnonzero(~labels.attributes.any(axis=0))
        if len(absent):
            name = repr(labels.names[absent[0]]) if labels.names else absent[0]
            raise BiaslibError(
                f"Attribute {name} never occurs in {what}, so no change of it can be measured: "
                "drop its column from train, test and predicted."
            )
    return n_groups


def _binary(values: np.ndarray) -> np.ndarray:
    if values.ndim != 2 or values.size == 0:
        raise BiaslibError(f"attributes must be (N, A) with at least one image and one attribute, not {values.shape}.")
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind not in "iufO" or not ((values == 0) | (values == 1)).all():
        raise BiaslibError("attributes must hold 0 and 1 only (or bool): threshold scores before measuring.")
    return values.astype(bool)


def _whole(values: np.ndarray) -> np.ndarray:
    if values.ndim != 1:
        raise BiaslibError(f"groups must be (N,), one group for every image, not {values.shape}.")
    numbers = values.astype(np.int64) if values.dtype.kind in "iub" else values
    if numbers.dtype != np.int64 or (numbers < 0).any():
        raise BiaslibError("groups must be whole numbers 0, 1, ...: pandas.factorize turns names into them.")
    return numbers
