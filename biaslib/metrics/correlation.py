"""Correlation of two binary attributes."""

from typing import Any

import numpy as np

from biaslib.errors import BiaslibError


def matthews_correlation(a: Any, b: Any) -> np.ndarray:
    """Matthews correlation coefficient (phi) of two sets of binary values, for many sets at once.

    MCC = (n n11 - n1. n.1) / sqrt(n1. (n - n1.) n.1 (n - n.1)), in [-1, 1] (Matthews 1975; Chicco and Jurman 2020).

    Both are (..., N) of 0 and 1 or bool, broadcast against each other; the result is (...) float64. Undefined, NaN,
    where one of them has one value only (scikit-learn gives 0 there). A `BiaslibError` is raised where the last axes
    differ in length or a value is neither 0 nor 1.
    """
    first, second = _binary("a", a), _binary("b", b)
    if first.shape[-1] != second.shape[-1]:
        raise BiaslibError(f"a has {first.shape[-1]} values and b {second.shape[-1]}: give the same number of each.")
    return matthews_from_counts(
        both=(first & second).sum(axis=-1), a=first.sum(axis=-1), b=second.sum(axis=-1), n=first.shape[-1]
    )


def matthews_from_counts(*, both: Any, a: Any, b: Any, n: Any) -> np.ndarray:
    """Matthews correlation coefficient of n, of which a and b have either attribute and `both` have both of them.

    The counts may be weighted and are broadcast against each other; NaN where one of the attributes has one value only.
    """
    both, a, b, n = (np.asarray(count, dtype=np.float64) for count in (both, a, b, n))
    spread = a * (n - a) * b * (n - b)
    covariance = n * both - a * b
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, covariance / np.sqrt(spread), np.nan)


def _binary(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype == np.bool_:
        return array
    if not np.isin(array, (0, 1)).all():
        raise BiaslibError(f"{name} must hold 0 and 1 only: threshold it before measuring its correlation.")
    return array.astype(bool)
