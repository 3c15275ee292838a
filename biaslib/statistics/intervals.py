"""Intervals, tests and corrections: how sure a number is."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import ArrayLike

from biaslib.errors import BiaslibError

# of fewer units a bootstrap knows too few orders: of four in order it would say [1, 1], where the exact p is 1/12
_LEAST_UNITS = 6
_BLOCK = 4_000_000  # values drawn at once, at most
# pairs, all of whose flips of signs are made, and how many flips are drawn for more pairs
_EXACT_UP_TO, _FLIPS = 16, 10_000


@dataclass(frozen=True)
class Interval:
    """An estimate, the interval that covers the truth, the values behind it; NaN is undefined, and counted apart."""

    estimate: float
    low: float
    high: float
    n: int
    confidence: float = 0.95
    undefined: int = 0

    def __format__(self, spec: str) -> str:
        spec = spec or ".2f"
        if np.isnan(self.low) and np.isnan(self.high):
            return f"{self.estimate:{spec}} (no interval)"
        return f"{self.estimate:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self) -> str:
        return format(self)


def interval(
    values: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 2000,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Interval:
    """Bootstrap interval of a mean; over images nested in models where `clusters` names the model of each value.

    Without clusters the values are resampled. With clusters the estimate is the mean of the clusters' means, and each
    resample draws clusters and then values inside each drawn cluster (Davison and Hinkley 1997, section 3.8). A
    bootstrap over few units is too narrow; its deviations from the estimate are therefore widened by sqrt(m / (m - 1))
    and by the ratio of Student's to the normal quantile, m being the number of units drawn first (Hesterberg 2015,
    section 3): over three models this is what makes 95 % mean 95 %.

    Values are (N,) numbers, of which NaN counts as undefined and is left out, clusters (N,) labels. The interval does
    not leave `bounds`, the range of the quantity, such as (0, 1) for an accuracy. Its low and high are NaN with fewer
    than two units, everything is NaN without values. A `BiaslibError` is raised where values and clusters have
    different lengths, or the confidence is not between 0 and 1.
    """
    check_confidence(confidence)
    data = _flat("values", values)
    keys = np.arange(len(data)) if clusters is None else _keys(clusters)
    if len(keys) != len(data):
        raise BiaslibError(f"{len(data)} values but {len(keys)} clusters: give the cluster of every value.")
    defined = ~np.isnan(data)
    data, keys = data[defined], keys[defined]
    undefined = int((~defined).sum())
    units = [data[keys == key] for key in np.unique(keys)] if clusters is not None else [data]
    size = len(units) if clusters is not None else len(data)
    if len(data) == 0:
        return Interval(np.nan, np.nan, np.nan, 0, confidence, undefined)
    estimate = float(np.mean([unit.mean() for unit in units]))
    if size < 2:
        return Interval(estimate, np.nan, np.nan, len(data), confidence, undefined)
    rng = np.random.default_rng(seed)
    means = _nested_means(units, resamples, rng) if clusters is not None else _means(data, resamples, rng)
    low, high = widened(means, estimate, size, confidence, bounds)
    return Interval(estimate, low, high, len(data), confidence, undefined)


def kendall(
    x: ArrayLike, y: ArrayLike, *, clusters: ArrayLike | None = None, seed: int = 0, resamples: int = 1000
) -> Interval:
    """Kendall's tau-b between two variables, with a 95 % bootstrap interval over pairs, or whole clusters of pairs.

    tau-b = (concordant - discordant) / sqrt((pairs not tied in x)(pairs not tied in y)), in [-1, 1] (Kendall 1945);
    undefined, NaN, where x or y is constant. Pairs with a NaN are left out and counted. The interval is the percentile
    one; over clusters the resamples, which hold some cluster twice, have another centre than the pairs, and are moved
    by as much as their median lies off the estimate. Its low and high are NaN with fewer than six units (pairs, or
    clusters), and where all resamples agree, as those of a perfect order do. Different lengths are a `BiaslibError`.
    """
    a, b = _flat("x", x), _flat("y", y)
    keys = np.arange(len(a)) if clusters is None else _keys(clusters)
    if not len(a) == len(b) == len(keys):
        raise BiaslibError(f"x has {len(a)} values, y {len(b)} and clusters {len(keys)}: give the same number of each.")
    defined = ~(np.isnan(a) | np.isnan(b))
    a, b, keys = a[defined], b[defined], keys[defined]
    undefined = int((~defined).sum())
    estimate = _tau_b(a, b)
    units, unit_of = np.unique(keys, return_inverse=True)
    if np.isnan(estimate) or len(units) < _LEAST_UNITS:
        return Interval(estimate, np.nan, np.nan, len(a), undefined=undefined)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(len(units), [1 / len(units)] * len(units), resamples)
    taus = _weighted_tau_b(a, b, times[:, unit_of].astype(float))
    taus = taus[~np.isnan(taus)]
    if len(taus) == 0 or np.ptp(taus) < 1e-12:  # of a perfect order, but for rounding
        return Interval(estimate, np.nan, np.nan, len(a), undefined=undefined)
    if clusters is not None:
        taus = np.clip(taus + estimate - np.median(taus), -1, 1)
    return Interval(estimate, *percentile_ends(taus, (1 - 0.95) / 2), len(a), undefined=undefined)


@dataclass(frozen=True)
class Comparison:
    """Outcome of a two-sided test: difference in means, its interval, Cohen's d, the statistic and the p-value."""

    difference: float
    low: float
    high: float
    effect_size: float
    statistic: float
    p: float
    n: tuple[int, int]


def welch(a: ArrayLike, b: ArrayLike) -> Comparison:
    """Welch's unequal-variance t-test of mean(a) - mean(b), two-sided, with a 95 % interval.

    The effect size is Cohen's d with the pooled standard deviation. Everything but the difference is NaN where a
    side has fewer than two values or both sides are constant. NaN values are left out.
    """
    first, second = (v[~np.isnan(v)] for v in (_flat("a", a), _flat("b", b)))
    n = (len(first), len(second))
    difference = float(first.mean() - second.mean()) if min(n) > 0 else np.nan
    if min(n) < 2 or (np.ptp(first) == 0 and np.ptp(second) == 0):
        return Comparison(difference, np.nan, np.nan, np.nan, np.nan, np.nan, n)
    with warnings.catch_warnings():
        # scipy warns where one side is constant, which is a value like any other here
        warnings.simplefilter("ignore", RuntimeWarning)
        test = scipy.stats.ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval(0.95)
    pooled = np.sqrt(((n[0] - 1) * first.var(ddof=1) + (n[1] - 1) * second.var(ddof=1)) / (sum(n) - 2))
    statistic, p = float(test.statistic), float(test.pvalue)
    return Comparison(difference, float(low), float(high), difference / pooled, statistic, p, n)


def sign_flip(differences: ArrayLike, *, seed: int = 0) -> Comparison:
    """Sign-flip test that paired differences have mean zero, two-sided.

    Where nothing differs between the two sides of a pair, each difference is as likely as its negative: p is the share
    of all 2^n flips of signs whose mean is at least as far from zero (Fisher 1935, section 21). Above 16 pairs
    10,000 flips are drawn, and the data count as one of them: p = (1 + hits) / (1 + flips) (Phipson and Smyth 2010).
    **The smallest p that n pairs can reach is 2 / 2^n**: .25 for 3 pairs, .0625 for 5, .03125 for 6; with
    fewer than 6 nothing is significant at .05, before any correction.

    The 95 % interval is Student's for the mean difference, as few pairs have no finite one by flipping; it may exclude
    0 where p is not small. The effect size is Cohen's d_z, the mean in standard deviations; the statistic is the mean.

    Differences are (N,), one a pair, such as model A minus model B trained with the same seed; NaN is left out. The
    Comparison has n = (pairs, pairs). All of it is NaN without pairs; the interval and the effect size are NaN for one
    pair or equal differences. Differences that are all zero have p = 1.
    """
    data = _flat("differences", differences)
    data = data[~np.isnan(data)]
    n = len(data)
    if n == 0:
        return Comparison(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, (0, 0))
    mean = float(data.mean())
    # flips that equal the data but for rounding are hits
    least = abs(mean) - 1e-12 * np.abs(data).mean()
    if n <= _EXACT_UP_TO:
        flips = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        p = float(np.mean(np.abs(flips @ data) / n >= least))
    else:
        rng = np.random.default_rng(seed)
        drawn = (rng.choice([-1.0, 1.0], (size, n)) for size in _blocks(n, _FLIPS))
        p = (1 + sum(int((np.abs(flip @ data) / n >= least).sum()) for flip in drawn)) / (1 + _FLIPS)
    if n < 2 or np.ptp(data) == 0:
        return Comparison(mean, np.nan, np.nan, np.nan, mean, p, (n, n))
    deviation = float(data.std(ddof=1))
    half = scipy.stats.t.ppf((1 + 0.95) / 2, n - 1) * deviation / np.sqrt(n)
    return Comparison(mean, float(mean - half), float(mean + half), mean / deviation, mean, p, (n, n))


def holm(p: ArrayLike) -> np.ndarray:
    """Holm's (1979) step-down adjusted p-values, in order; NaN is no test, what is outside [0, 1] a `BiaslibError`."""
    values = _flat("p", p)
    tested = np.flatnonzero(~np.isnan(values))
    if np.any((values[tested] < 0) | (values[tested] > 1)):
        raise BiaslibError("p-values must lie in [0, 1].")
    order = tested[np.argsort(values[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full(len(values), np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted


def percentile_ends(draws: np.ndarray, tail: float = 0.025) -> tuple[float, float]:
    """What `tail` of the draws (n,) of a bootstrap lies below, and above; NaN draws are left out, NaN without any."""
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0:
        return np.nan, np.nan
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def widened(
    means: np.ndarray, estimate: float, size: int, confidence: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """The ends of a percentile interval of bootstrap means, widened as in `interval` for `size` >= 2 units."""
    tail = (1 - confidence) / 2
    widening = np.sqrt(size / (size - 1)) * scipy.stats.t.ppf(1 - tail, size - 1) / scipy.stats.norm.ppf(1 - tail)
    low, high = np.clip(estimate + widening * (np.array(percentile_ends(means, tail)) - estimate), *bounds)
    return float(low), float(high)


def check_confidence(confidence: float) -> None:
    """Refuses what is not between 0 and 1."""
    if not 0 < confidence < 1:
        raise BiaslibError(f"confidence must lie between 0 and 1, not {confidence}.")


def _keys(clusters: ArrayLike) -> np.ndarray:
    keys = pd.factorize(np.asarray(clusters))[0]
    if (keys < 0).any():
        raise BiaslibError(f"{int((keys < 0).sum())} clusters are missing: name the cluster of every value.")
    return keys


def _tau_b(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    # scipy's asymptotic p-value, which is not used here, divides by zero for two pairs
    method = "asymptotic" if len(x) > 2 else "exact"
    return float(scipy.stats.kendalltau(x, y, method=method).statistic)


def _weighted_tau_b(a: np.ndarray, b: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(R,) tau-b of R samples that hold the N points so many times, (R, N): all at once, by products of matrices."""
    a, b = scipy.stats.rankdata(a), scipy.stats.rankdata(b)  # infinite values have no differences
    sums = np.zeros((3, len(times)))  # concordant less discordant pairs, pairs not tied in a, in b; each counted twice
    for start in range(0, len(a), 512):
        some = slice(start, start + 512)
        over, up = np.sign(a[:, None] - a[some]), np.sign(b[:, None] - b[some])
        sums += [((times @ pairs) * times[:, some]).sum(axis=1) for pairs in (over * up, over**2, up**2)]
    with np.errstate(invalid="ignore"):
        return np.asarray(sums[0] / np.sqrt(sums[1] * sums[2]))


def _means(data: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    n = len(data)
    return np.concatenate([data[rng.integers(n, size=(size, n))].mean(axis=1) for size in _blocks(n, resamples)])


def _blocks(n: int, resamples: int) -> list[int]:
    """How many resamples of n values are drawn at once, so that memory does not grow with the data."""
    block = max(1, _BLOCK // n)
    return [min(block, resamples - start) for start in range(0, resamples, block)]


def _nested_means(units: list[np.ndarray], resamples: int, rng: np.random.Generator) -> np.ndarray:
    chosen = rng.integers(len(units), size=(resamples, len(units)))
    means = np.empty(chosen.shape)
    for index, unit in enumerate(units):
        places = chosen == index
        means[places] = _means(unit, int(places.sum()), rng)
    return means.mean(axis=1)


def _flat(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1:
        raise BiaslibError(f"{name} must be one-dimensional, not of shape {array.shape}; flatten it and give clusters.")
    return array
