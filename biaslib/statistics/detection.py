"""Whether audited models stand out from unbiased reference models: by a limit for normal values, or by ranks."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from biaslib.errors import BiaslibError, check_known, check_number

Side = Literal["above", "below"]
_SIDES = get_args(Side)


def p_value(values: ArrayLike, reference: ArrayLike, *, side: Side) -> float:
    r"""How often the mean of as many unbiased models would be at least as far on the expected side; one-sided.

    The p at which the limit $\bar x \pm t_{m-1}\, s \sqrt{1/k + 1/m}$ for the mean of k further models, were the values
    of m reference models with mean x and standard deviation s normal (Hahn and Meeker 1991, section 4.7), meets that of
    the values. The audited models lend the test no variance: a biased one may spread as it likes.

    Values are (k,), of the audited models, and (m,), of the reference models; NaN is left out. The p lies in [0, 1]; it
    is NaN without a value or with fewer than two reference models; 0 or 1, beyond them or not, where these are alike.
    """
    check_known("side", side, _SIDES)
    k, audited, _ = _moments(values)
    m, mean, deviation = _moments(reference)
    if k < 1 or m < 2:
        return float("nan")
    shift = (audited - mean) if side == "above" else (mean - audited)
    rounding = 1e-12 * abs(mean)
    if deviation <= rounding:
        return 0.0 if shift > rounding else 1.0
    return float(scipy.stats.t.sf(shift / (deviation * np.sqrt(1 / k + 1 / m)), m - 1))


def rank_p_values(values: ArrayLike, reference: ArrayLike, *, side: Side) -> np.ndarray:
    r"""The p of each audited model by its rank among itself and all reference models; one-sided, whatever the values.

    $$p = \frac{1 + k}{m + 1}$$

    where k of the m reference values are at least as far on the expected side (Phipson and Smyth 2010). An unbiased
    model that could change places with any reference model has $p \le a$ with a probability of at most a. No p is
    smaller than 1 / (m + 1): 5 % take 19 reference models.

    Values are (M,), of the audited models, and (m,), of the reference models, NaN left out. The p are (M,) in (0, 1];
    NaN for a model without a value, and without reference models.
    """
    check_known("side", side, _SIDES)
    audited, others = np.asarray(values, dtype=float), np.asarray(reference, dtype=float)
    others = others[~np.isnan(others)]
    extreme = others >= audited[:, None] if side == "above" else others <= audited[:, None]
    return np.where(np.isnan(audited) | (len(others) == 0), np.nan, (1 + extreme.sum(axis=1)) / (len(others) + 1))


def largest_distances(values: ArrayLike) -> np.ndarray:
    """Of each model of a pool, how far it is from all the others in the metric in which it is farthest.

    Values (M, K) are risk scores, larger where a biased model is expected, of M models by K metrics. The distance in a
    metric is that from the mean of the other models in their standard deviations. NaN is left out; others that are all
    alike are infinitely far from a larger value. (M,) numbers, -inf for a model without a distance.
    """
    data = np.asarray(values, dtype=float)
    found = np.full(data.shape, -np.inf)
    for place, own in enumerate(data):
        others = np.delete(data, place, axis=0)
        known = np.flatnonzero(np.isfinite(own) & (np.isfinite(others).sum(axis=0) > 1))
        apart = own[known] - np.nanmean(others[:, known], axis=0)
        spread = np.nanstd(others[:, known], axis=0, ddof=1)
        alike = np.where(apart > 0, np.inf, 0.0)
        found[place, known] = np.divide(apart, spread, out=alike, where=spread > 0)
    return np.asarray(found.max(axis=1, initial=-np.inf))


def rank_p_value(values: ArrayLike, reference: ArrayLike) -> float:
    r"""How often an unbiased model would stand out as far in any of several metrics: one test for all of them.

    The audited model is pooled with the m reference models. Each model's statistic is its `largest_distances`, and
    $p = \#\{i: T_i \ge T_{\text{audited}}\} / (m + 1)$, the audited model counted. Where the audited model is as the
    reference models are, all orders of the pool are equally likely, and p is at most any level that often, whatever
    the distributions of the metrics and however they go together. The smallest p is 1 / (m + 1).

    Values are (K,), reference is (m, K): risk scores, larger where a biased model is expected; NaN is left out.
    """
    pool = np.vstack([np.asarray(values, dtype=float)[None], np.asarray(reference, dtype=float)])
    farthest = largest_distances(pool)
    return float((farthest >= farthest[0]).mean())


def winkler(low: Any, high: Any, truth: Any, *, confidence: float = 0.95) -> Any:
    r"""How good an interval was once the truth is known: its width, and what it missed the truth by, times 2 / alpha.

    $(u - l) + \frac{2}{\alpha} (l - x)_+ + \frac{2}{\alpha} (x - u)_+$ with alpha = 1 - confidence (Winkler 1972): 0 is
    best. On average nobody does better than to state the interval in which they believe. Arrays broadcast.
    """
    low, high, truth = (np.asarray(part, dtype=float) for part in (low, high, truth))
    missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return (high - low + 2 / (1 - confidence) * missed)[()]


def detection_power(
    *, shift: Any, n_reference: int, models: int = 1, spread: Any = 1.0, reference_spread: Any = 1.0,
    confidence: float = 0.95,
) -> Any:  # fmt: skip
    r"""How often the rule reports biased models, were values normal in either kind of model.

    The mean of k biased models lies $\Delta$ beyond the unbiased mean on the expected side and varies by
    $s_1/\sqrt k$; the limit is drawn from m reference models that vary by $s_0$. With $v^2 = s_1^2/k + s_0^2/m$ and the
    limit's factor $c = t_{m-1} \sqrt{1/k + 1/m}$, the rule reports with probability

    $$P\Bigl(\frac{Z + \Delta / v}{\sqrt{\chi^2_{m-1} / (m-1)}} > \frac{c\, s_0}{v}\Bigr),$$

    the upper tail of a noncentral t distribution. For $\Delta = 0$ and equal spreads it is 1 - confidence.

    `shift` (...) is $\Delta$, below 0 for a model that moves to the other side; `n_reference` is m >= 2, `models` is
    k >= 1. `spread` and `reference_spread` (...) are $s_1$ and $s_0$, >= 0; `confidence` is that of the limit. Others
    are a `BiaslibError`. The result is (...) in [0, 1], without any spread whether the shift is above 0, or NaN.
    """
    check_number("models", models, 1)
    check_number("n_reference, the unbiased reference models,", n_reference, 2)
    moved, biased, unbiased = np.broadcast_arrays(
        *(np.asarray(argument, dtype=float) for argument in (shift, spread, reference_spread))
    )
    if (biased < 0).any() or (unbiased < 0).any():
        raise BiaslibError("a spread is a standard deviation, 0 or more: give the values' own.")
    v = np.sqrt(biased**2 / models + unbiased**2 / n_reference)
    factor = scipy.stats.t.ppf(confidence, n_reference - 1) * np.sqrt(1 / models + 1 / n_reference)
    varies = v > 0
    safe = np.where(varies, v, 1.0)
    # beyond a shift of 30 the tail is 1 to the last digit, where the noncentral t is slow and may fail
    tail = scipy.stats.nct.sf(factor * unbiased / safe, n_reference - 1, np.clip(moved / safe, -30.0, 30.0))
    certain = np.where(np.isnan(moved + biased + unbiased), np.nan, (moved > 0).astype(float))
    return np.where(varies, np.clip(tail, 0.0, 1.0), certain)[()]


def detection_threshold(strengths: Sequence[float], shares: Sequence[float], *, share: float = 1.0) -> float:
    """The strength from which on at least this share of models is reported, there and at every greater strength.

    The shares in [0, 1] are of the models reported at each of the strengths, or the power there; strengths come in any
    order. NaN where not even the greatest strength has the share.
    """
    threshold = np.nan
    for strength, reported in sorted(zip(strengths, shares, strict=True), reverse=True):
        if not reported >= share:
            break
        threshold = strength
    return threshold


def _moments(values: ArrayLike) -> tuple[int, float, float]:
    """How many values there are, their mean and standard deviation."""
    data = np.asarray(values, dtype=float)
    data = data[~np.isnan(data)]
    mean = float(data.mean()) if len(data) else float("nan")
    return len(data), mean, float(data.std(ddof=1)) if len(data) > 1 else float("nan")
