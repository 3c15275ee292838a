"""A share, and the difference of two, with interval and test."""

import numpy as np
from scipy.stats import binomtest

from biaslib.errors import BiaslibError
from biaslib.statistics.intervals import Comparison, Interval
from biaslib.statistics.power import share_p_values


def compare_shares(a: np.ndarray, b: np.ndarray, *, confidence: float = 0.95) -> Comparison:
    """The share of True in `a` less that in `b`, such as the accuracies of two groups.

    The interval is Newcombe's (1998, method 10), made of the Wilson intervals of both shares; the test is
    `power.share_p_values`. Both hold for few images and for shares near 0 and 1, where a t-test does not: two groups of
    which one is always right and the other never have no variance at all.

    Args:
        a: (N,) bool.
        b: (M,) bool.
        confidence: of the interval, between 0 and 1.

    Returns:
        Comparison: the effect size is Cohen's h, 2 asin(sqrt(p_a)) - 2 asin(sqrt(p_b)); the statistic is the
        difference. All of it is NaN where a side has no images.

    Raises:
        BiaslibError: for values that are not bool, or a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise BiaslibError(f"confidence must lie between 0 and 1, not {confidence}.")
    first, second = np.asarray(a), np.asarray(b)
    if first.dtype != np.bool_ or second.dtype != np.bool_ or first.ndim != 1 or second.ndim != 1:
        raise BiaslibError("both sides must be bool (N,): compare predictions with labels first.")
    n = (len(first), len(second))
    if min(n) == 0:
        return Comparison(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, n)
    hits = int(first.sum()), int(second.sum())
    p = np.array(hits) / n
    low, high = np.array([_wilson(*side, confidence) for side in zip(hits, n, strict=True)]).T
    difference = float(p[0] - p[1])
    down = np.hypot(p[0] - low[0], high[1] - p[1])
    up = np.hypot(high[0] - p[0], p[1] - low[1])
    effect = float(np.subtract(*(2 * np.arcsin(np.sqrt(p)))))
    tested = float(share_p_values(hits[0], n[0], hits[1], n[1]))
    return Comparison(difference, float(difference - down), float(difference + up), effect, difference, tested, n)


def share_interval(hits: int, n: int, *, confidence: float = 0.95) -> Interval:
    """A share with Wilson's interval, which holds for few images and for shares near 0 and 1; NaN where n is 0.

    Raises:
        BiaslibError: for more hits than n, or a confidence that is not between 0 and 1.
    """
    if not 0 <= hits <= n or not 0 < confidence < 1:
        raise BiaslibError(f"hits must lie in [0, n] and confidence in (0, 1), not {hits} of {n}, {confidence}.")
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0, confidence)
    return Interval(hits / n, *_wilson(hits, n, confidence), n, confidence)


def _wilson(hits: int, n: int, confidence: float) -> tuple[float, float]:
    bounds = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    return bounds.low, bounds.high
