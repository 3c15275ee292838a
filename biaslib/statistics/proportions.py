"""A share, the difference of two, such as the accuracies of two groups: interval, test, and what that test can see."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.optimize
import scipy.stats
from scipy.special import betaln, softmax

from biaslib.errors import BiaslibError, check_number
from biaslib.statistics.intervals import Comparison, Interval

_OUT = 5.0  # binomial counts further out than this have a probability below 1e-6 together
_LARGEST = 100_000_000  # images in a group
_EXACT_BELOW = 10  # expected images in a cell
_DRAWN = 10_000  # permutations
_STEPS = (np.arange(32) + 0.5) / 32  # at which is integrated; more matter only where groups have nothing in common


def compare_shares(a: np.ndarray, b: np.ndarray, *, confidence: float = 0.95) -> Comparison:
    """The share of True in `a` less that in `b`, such as the accuracies of two groups.

    The interval, of 95 % where nothing else is said, is Newcombe's (1998, method 10), made of the Wilson intervals of
    both shares; the test is `share_p_values`. Both hold for few images and for shares near 0 and 1, where a t-test does
    not: two groups of which one is always right and the other never have no variance at all. The sides are (N,) and
    (M,) bool, others are a `BiaslibError`. The effect size is Cohen's h, 2 asin(sqrt(p_a)) - 2 asin(sqrt(p_b)); the
    statistic is the difference. All of it is NaN where a side has no images.
    """
    first, second = np.asarray(a), np.asarray(b)
    if first.dtype != np.bool_ or second.dtype != np.bool_ or first.ndim != 1 or second.ndim != 1:
        raise BiaslibError("both sides must be bool (N,): compare predictions with labels first.")
    n = (len(first), len(second))
    if min(n) == 0:
        return Comparison(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, n)
    hits = int(first.sum()), int(second.sum())
    share_a, share_b = (share_interval(*side, confidence=confidence) for side in zip(hits, n, strict=True))
    difference = float(share_a.estimate - share_b.estimate)
    down = np.hypot(share_a.estimate - share_a.low, share_b.high - share_b.estimate)
    up = np.hypot(share_a.high - share_a.estimate, share_b.estimate - share_b.low)
    effect = float(np.subtract(*(2 * np.arcsin(np.sqrt([share_a.estimate, share_b.estimate])))))
    p = float(share_p_values(hits[0], n[0], hits[1], n[1]))
    return Comparison(difference, float(difference - down), float(difference + up), effect, difference, p, n)


def compare_changes(a: np.ndarray, b: np.ndarray, *, seed: int = 0) -> Comparison:
    """The mean of `a` less that of `b`, (N,) and (M,) of -1, 0 and 1: what two groups gain by another model.

    The 95 % interval is Agresti and Min's (2005) of pairs, with half an image more for -1 and 1 and one for 0 on each
    side, so that it has a width where nothing varies. For p images are put on the sides by chance, 10,000 times: gains
    of both sides have no small p, only different ones. All of it is NaN where a side has no images; there is no effect.
    """
    counts, steps = np.array([np.bincount(side + 1, minlength=3) for side in (a, b)]), np.array([-1, 0, 1])
    n, both = counts.sum(axis=1), counts.sum(axis=0)
    if n.min() == 0:
        return Comparison(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, (len(a), len(b)))
    difference = float(np.subtract(*(counts @ steps / n)))
    shares = (counts + np.array([0.5, 1, 0.5])) / (n[:, None] + 2)
    middle, variances = np.subtract(*(shares @ steps)), (shares @ steps**2 - (shares @ steps) ** 2) / (n + 2)
    half = scipy.stats.norm.ppf(0.975) * np.sqrt(variances.sum())
    first = np.random.default_rng(seed).multivariate_hypergeometric(both, n[0], _DRAWN) @ steps
    far = abs(first / n[0] - (both @ steps - first) / n[1]) >= abs(difference) - 1e-12
    p = float((1 + far.sum()) / (1 + _DRAWN))
    return Comparison(difference, middle - half, middle + half, np.nan, difference, p, (len(a), len(b)))


def as_independent(
    sides: Sequence[np.ndarray], clusters: Sequence[np.ndarray], *, confidence: float = 0.95
) -> list[np.ndarray]:
    r"""As few independent images as tell as much of each side's share of True as its images do, which come in clusters.

    Of n images count $n / (1 + \rho (m - 1))$, m being the mean size of an image's cluster (Rao and Scott 1992) and rho
    in [0, 1] the correlation inside clusters by analysis of variance (Ridout, Demetrio and Firth 1999), apart from the
    sides' shares: 1 where nothing varies, and too small where only one or two clusters are unlike the others. Two sides
    of the same clusters count for more, as their difference varies less, but at most for n; few clusters for less, by
    the squared ratio of the normal to Student's quantile at this confidence. No more clusters than sides leave nothing.
    """
    names, codes = np.unique(np.concatenate(clusters), return_inverse=True)
    n, free = np.array([len(side) for side in sides]), len(names) - len(sides)
    if free < 1 or n.min() == 0:
        return [side[:0] for side in sides]
    # (sides, clusters) images; the images of each cluster; how far each answer is from its side's share
    counts = np.array([np.bincount(np.searchsorted(names, of), minlength=len(names)) for of in clusters], float)
    sizes, left = counts.sum(axis=0), np.concatenate([side - side.mean() for side in sides])
    explained = (np.bincount(codes, left) ** 2 / sizes).sum()
    between, within = explained / free, (left @ left - explained) / max(n.sum() - len(names), 1)
    typical = (n - (counts**2).sum(axis=1) / n).sum() / free
    rho = np.clip((between - within) / (between + (typical - 1) * within), 0, 1) if left.any() else 1.0
    covariance = np.diag((1 - rho) / n) + rho * counts @ counts.T / np.outer(n, n)  # of the shares, over p (1 - p)
    alone = np.diag(covariance)
    together = max(2 * alone.sum() - covariance.sum(), 1e-12)  # the variance of the difference; of one side, its own
    student = scipy.stats.norm.ppf((1 + confidence) / 2) / scipy.stats.t.ppf((1 + confidence) / 2, free)
    worth = np.maximum(np.minimum(alone.sum() / together / alone, n) * student**2, 1).astype(int)
    return [np.arange(size) < round(side.mean() * size) for side, size in zip(sides, worth, strict=True)]


def share_interval(hits: float, n: int, *, confidence: float = 0.95) -> Interval:
    """A share with Wilson's interval, good for few images and near 0 and 1; NaN for n = 0, an error for more hits.

    Hits may be a fraction, as of draws that each succeed in part, which scipy's intervals of counts refuse.
    """
    check_number(f"hits of {n}", hits, 0, n)
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0, confidence)
    z2, share = float(scipy.stats.norm.ppf((1 + confidence) / 2)) ** 2, hits / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = (z2 * (share * (1 - share) + z2 / (4 * n)) / n) ** 0.5 / (1 + z2 / n)
    low, high = 0.0 if hits == 0 else middle - half, 1.0 if hits == n else middle + half
    return Interval(share, low, high, n, confidence)


def shrunk_shares(hits: np.ndarray, n: np.ndarray, toward: float) -> np.ndarray:
    r"""Shares of groups, each drawn toward those of the others the more, the fewer images it has (beta-binomial).

    (3, G) estimates and the ends of 95 % intervals, from (G,) hits among n, which may be fractions. The underlying
    shares are taken to follow a beta distribution: with its mean m, and w, the images that it is worth, the mean of a
    group's share is $(hits + w m) / (n + w)$. Neither is taken to be known: both are integrated over, with flat priors
    on m and on w / (w + median n). The estimate is the mean that comes of it, and the ends are those of a beta
    distribution with this mean and the variance that comes of it. Where `toward`, the share of all images, about which
    m is looked for, is 0 or 1, or no group has images, the estimates are `toward` and the ends NaN.
    """
    if toward in (0, 1) or not n.any():
        return np.array([[toward], [np.nan], [np.nan]]) + np.zeros(len(n))
    worth = np.median(n[n > 0]) * (_STEPS / (1 - _STEPS))[:, None]
    # as many independent images as all are worth; each mean that is tried counts by its likelihood over its density
    images = n.sum() ** 2 * (worth + 1) / (n * (n + worth)).sum(axis=1, keepdims=True)
    tried = scipy.stats.beta(toward * images + 0.5, (1 - toward) * images + 0.5)
    means = tried.ppf(_STEPS)
    a, b = (worth * means)[..., None], (worth * (1 - means))[..., None]  # (worths, means, 1)
    likely = (betaln(hits + a, n - hits + b) - betaln(a, b)).sum(axis=-1)
    weights = softmax(likely - tried.logpdf(means))[..., None]
    shares, size = (hits + a) / (n + a + b), n + a + b
    middle = (weights * shares).sum(axis=(0, 1))
    variance = (weights * (shares * (1 - shares) / (size + 1) + (shares - middle) ** 2)).sum(axis=(0, 1))
    together = middle * (1 - middle) / variance - 1
    return np.array([middle, *scipy.stats.beta.ppf([[0.025], [0.975]], middle * together, (1 - middle) * together)])


def area_interval(area: float, positives: int, n: int) -> Interval:
    """An area under the ROC curve with Newcombe's (2006, part 2, method 5) 95 % interval, good for few images."""
    areas = np.sort([*np.linspace(0, 1, 10_001), area])
    spread = areas * (1 - areas) * (1 + (n / 2 - 1) * ((1 - areas) / (2 - areas) + areas / (1 + areas)))
    near = abs(areas - area) * np.sqrt(positives * (n - positives)) <= scipy.stats.norm.ppf(0.975) * np.sqrt(spread)
    low, high = areas[near][[0, -1]] if near.any() else (np.nan, np.nan)
    return Interval(float(area), float(low), float(high), n)


def share_p_values(hits_a: Any, n_a: int, hits_b: Any, n_b: int) -> np.ndarray:
    r"""Two-sided p-values that two groups have the same underlying share, such as the same accuracy.

    The "N - 1" chi-squared test (Campbell 2007): with $N = n_a + n_b$ and the pooled share $\bar p$,

    $$z^2 = \frac{N - 1}{N} \cdot \frac{(p_a - p_b)^2}{\bar p (1 - \bar p)(1/n_a + 1/n_b)}$$

    where every expected count is at least 10, and Fisher's exact test elsewhere. He recommends 1, which holds a level
    of .05; at the far smaller levels that corrected tests ask for, the approximation then rejects up to four times too
    often. The hits (...) are how many of each group's images, at least one, are hits; both are broadcast. It is 1 where
    all are hits or none is: nothing differs. No images in a group, or more hits than images, are a `BiaslibError`.
    """
    _check_sizes(n_a, n_b)
    a, b = np.broadcast_arrays(np.asarray(hits_a, dtype=np.int64), np.asarray(hits_b, dtype=np.int64))
    if ((a < 0) | (a > n_a) | (b < 0) | (b > n_b)).any():
        raise BiaslibError(f"hits must lie in 0 ... {n_a} for the first group and in 0 ... {n_b} for the second.")
    total = n_a + n_b
    pooled = (a + b) / total
    spread = pooled * (1 - pooled) * (1 / n_a + 1 / n_b)
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 where nothing differs
        z = np.sqrt((total - 1) / total) * np.abs(a / n_a - b / n_b) / np.sqrt(spread)
    p = np.where(spread > 0, 2 * scipy.stats.norm.sf(z), 1.0)
    rare = (min(n_a, n_b) * np.minimum(pooled, 1 - pooled) < _EXACT_BELOW) & (spread > 0)
    for hits in np.unique((a + b)[rare]):
        places = rare & (a + b == hits)
        p[places] = _fisher(int(hits), n_a, total)[a[places] - max(0, hits - n_b)]
    return p


def gap_power(share_a: float, n_a: int, share_b: float, n_b: int, *, alpha: float = 0.05) -> float:
    """The probability in [0, 1] that `share_p_values` is at most alpha, for two underlying shares: its power.

    Exact up to 1e-6: the test is made of every pair of counts that may come out, weighed by its binomial probability.
    With equal shares it is the test's true rate of false alarms. The shares are those of the first and of the second
    group, in [0, 1], and `n_a` and `n_b` their images; `alpha` is the level of the test: divide it by the number of
    tests where they are corrected. What is out of range is a `BiaslibError`, and so is a group without images.
    """
    _check_sizes(n_a, n_b)
    _check_share(share_a=share_a, share_b=share_b, alpha=alpha)
    a, b = _likely(n_a, share_a), _likely(n_b, share_b)
    seen = share_p_values(a[:, None], n_a, b[None], n_b) <= alpha
    return float(scipy.stats.binom.pmf(a, n_a, share_a) @ seen @ scipy.stats.binom.pmf(b, n_b, share_b))


def minimum_detectable_gap(accuracy: float, n_a: int, n_b: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """How far below `accuracy` the second group must be for the test to show it with the given power.

    `accuracy` is the underlying share of the first group; `n_a` and `n_b` are the images in it and in the second, worse
    group; `power` in (alpha, 1) is wanted. `alpha` and errors are as for `gap_power`. The smallest gap lies in (0,
    accuracy]; it is NaN where not even an accuracy of 0 would be seen that often.
    """
    _check_share(accuracy=accuracy, power=power, alpha=alpha)
    if not alpha < power < 1:
        raise BiaslibError(f"power must lie between alpha, {alpha:g}, and 1, not be {power:g}.")

    def missing(gap: float) -> float:
        return gap_power(accuracy, n_a, max(accuracy - gap, 0.0), n_b, alpha=alpha) - power

    if missing(accuracy) < 0:
        return float("nan")
    return float(scipy.optimize.brentq(missing, 0.0, accuracy, xtol=1e-4))


def images_needed(accuracy: float, gap: float, *, share: float = 0.5, power: float = 0.8, alpha: float = 0.05) -> float:
    r"""How many images both groups together need for a gap to be seen with the given power.

    $$n_a = \frac{\left(z_{1 - \alpha/2} \sqrt{(r + 1) \bar p \bar q} + z_{power} \sqrt{r p_a q_a + p_b q_b}\right)^2}
      {r (p_a - p_b)^2}, \qquad n_b = r n_a$$

    with $p_b = p_a - gap$, q = 1 - p and $\bar p$ the mean weighted by the sizes (Fleiss, Levin and Paik 2003, section
    4.4, without the correction for continuity that the test does not have either), raised in steps of 2 % where the
    exact `gap_power` of so many images is still too low, as it may be for small groups and shares near 1.

    `gap` > 0 is how far the second group is below the `accuracy` of the first, `share` in (0, 1) that of the images
    which belong to the second group; `power`, `alpha` and errors are as for `minimum_detectable_gap`. The result is a
    whole number; NaN where the gap is larger than the accuracy.
    """
    _check_share(accuracy=accuracy, share=share, power=power, alpha=alpha)
    if not gap > 0 or not 0 < share < 1:
        raise BiaslibError(f"gap must be above 0 and share between 0 and 1, not {gap} and {share}.")
    worse = accuracy - gap
    if worse < -1e-12:
        return float("nan")
    ratio = share / (1 - share)
    pooled = (accuracy + ratio * worse) / (1 + ratio)
    level, wanted = scipy.stats.norm.ppf(1 - alpha / 2), scipy.stats.norm.ppf(power)
    null = level * np.sqrt((ratio + 1) * pooled * (1 - pooled))
    alternative = wanted * np.sqrt(ratio * accuracy * (1 - accuracy) + max(worse * (1 - worse), 0.0))
    images = float(np.ceil((null + alternative) ** 2 / (ratio * gap**2) * (1 + ratio)))
    while images < _LARGEST:
        second = max(1, round(images * share))
        if gap_power(accuracy, max(1, int(images) - second), max(worse, 0.0), second, alpha=alpha) >= power:
            break
        images = float(np.ceil(1.02 * images))
    return images


def _likely(n: int, share: float) -> np.ndarray:
    """The counts that come out but for a probability of 1e-6."""
    reach = _OUT * np.sqrt(n * share * (1 - share)) + _OUT
    return np.arange(max(0, int(n * share - reach)), min(n, int(np.ceil(n * share + reach))) + 1)


@lru_cache(maxsize=512)  # a search for a gap asks for the same again and again
def _fisher(hits: int, n_a: int, total: int) -> np.ndarray:
    """Two-sided p of each count that the first group may have, given all margins: all that is at most as likely."""
    possible = np.arange(max(0, hits - (total - n_a)), min(hits, n_a) + 1)
    likely = scipy.stats.hypergeom.pmf(possible, total, hits, n_a)
    ordered = np.sort(likely)
    as_likely = np.searchsorted(ordered, likely * (1 + 1e-7), side="right")  # equal ones differ by rounding
    return np.minimum(np.cumsum(ordered)[as_likely - 1], 1.0)


def _check_sizes(*sizes: int) -> None:
    if min(sizes) < 1 or max(sizes) > _LARGEST:
        raise BiaslibError(f"a group needs at least one image to be compared, and at most {_LARGEST:,}, not {sizes}.")


def _check_share(**shares: float) -> None:
    for name, share in shares.items():
        check_number(name, share, 0, 1)
