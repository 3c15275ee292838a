"""Models that were all measured on the same images: intervals and comparisons that take both as samples."""

import functools
from dataclasses import dataclass

import numpy as np
import scipy.stats

from biaslib.errors import BiaslibError, refused
from biaslib.statistics.intervals import Comparison, Interval, check_confidence, widened

_RESAMPLES = 2000  # of a bootstrap


@dataclass(frozen=True)
class _Components:
    """Variance of the models' means, of the images' means, and the rest; NaN with fewer than two models or images.

    `n` counts models and images; images that were not measured on every model are `left_out`.
    """

    models: float
    images: float
    rest: float
    n: tuple[int, int]
    left_out: int


def components(values: np.ndarray) -> _Components:
    r"""Variance components of a table of models by images, by the method of moments.

    $$\sigma^2_{models} = \frac{MS_{models} - MS_{rest}}{N}, \quad
      \sigma^2_{images} = \frac{MS_{images} - MS_{rest}}{M}, \quad \sigma^2_{rest} = MS_{rest}$$

    with the mean squares of a two-way analysis of variance (Searle, Casella and McCulloch 1992, section 4.5); a
    component that would be negative is 0. The rest is that models differ on some images only, and noise. Values are
    (M, N), another shape is a `BiaslibError`; images with a NaN are left out and counted.
    """
    table = _checked(values)
    defined = ~np.isnan(table).any(axis=0)
    table = table[:, defined]
    n, left_out = (table.shape[0], table.shape[1]), int((~defined).sum())
    if min(n) < 2:
        return _Components(np.nan, np.nan, np.nan, n, left_out)
    rest = float((_residuals(table) ** 2).sum() / ((n[0] - 1) * (n[1] - 1)))
    of_models = (n[1] * table.mean(axis=1).var(ddof=1) - rest) / n[1]
    of_images = (n[0] * table.mean(axis=0).var(ddof=1) - rest) / n[0]
    return _Components(max(float(of_models), 0.0), max(float(of_images), 0.0), rest, n, left_out)


def crossed_interval(
    values: np.ndarray,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = _RESAMPLES,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    strata: tuple[int, ...] | None = None,
) -> Interval:
    """Bootstrap interval of a mean over M models that were all measured on the same N images.

    Each resample draws models and, independently, images, and takes the mean over the drawn pairs (the "pigeonhole"
    bootstrap, Owen 2007): an image that is hard for one model tends to be hard for all, which `statistics.interval`
    with clusters, made for images nested in models, would not know. Deviations are widened for few models as there.

    Values are (M, N), of which NaN counts as undefined and is left out; the other options and errors are as there.
    `strata` are how many models of each kind follow each other in `values`, such as (3, 3) for two architectures: each
    resample then holds as many models of each kind as there are, and the widening is that of the smallest kind. The
    Interval is over M N values; low and high are NaN with fewer than two models of a kind or fewer than two images,
    everything is NaN without values. Strata that do not sum to M are a `BiaslibError`.
    """
    check_confidence(confidence)
    table = _checked(values)
    kinds = strata or (len(table),)
    if sum(kinds) != len(table):
        raise BiaslibError(f"strata name {sum(kinds)} models, but values have {len(table)}.")
    defined = ~np.isnan(table)
    n, undefined = int(defined.sum()), int((~defined).sum())
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0, confidence, undefined)
    known = np.where(defined, table, 0.0)
    estimate = float(known.sum() / n)
    if min(*kinds, table.shape[1]) < 2:
        return Interval(estimate, np.nan, np.nan, n, confidence, undefined)
    *of_kinds, images = _times((*kinds, table.shape[1]), resamples, seed)
    models = np.concatenate(of_kinds, axis=1)
    weights = ((models @ defined) * images).sum(1)
    means = ((models @ known) * images).sum(1)[weights > 0] / weights[weights > 0]
    return Interval(estimate, *widened(means, estimate, min(kinds), confidence, bounds), n, confidence, undefined)


def crossed_welch(a: np.ndarray, b: np.ndarray) -> Comparison:
    r"""Test of mean(a) - mean(b) for two kinds of models on the same images, both taken as samples; two-sided.

    $$t = \frac{\bar a - \bar b}{\sqrt{V}}, \qquad V = \frac{s_a^2}{M_a} + \frac{s_b^2}{M_b} + \frac{s_d^2}{N} -
      \Big(\frac1{M_a} + \frac1{M_b}\Big) \frac{s_e^2}{N}$$

    with the variances s_a, s_b of the models' means, s_d of the images' differences, and s_e of what is left within a
    kind, which the first three count twice. It is Clark's (1973) quasi F-ratio for two conditions, with Welch's unequal
    variances of the models and Satterthwaite's degrees of freedom. Where the part of the images would be negative it is
    left out, and the test is Welch's over models.

    `a` is (M_a, N), models by images, and `b` (M_b, N), other models on the same images; other shapes are a
    `BiaslibError`. With missing values (NaN), which may differ between models, the variance is an approximation. The
    Comparison has a 95 % interval and n = (M_a, M_b) models that have values. The effect size is the difference in
    standard deviations of single values, pooled over a and b (as Westfall, Kenny and Judd 2014). Everything but the
    difference is NaN with fewer than two models of a kind, fewer than two images that both kinds have, or no variance.
    """
    kinds = [table[~np.isnan(table).all(axis=1)] for table in (_checked(a), _checked(b))]
    if kinds[0].shape[1] != kinds[1].shape[1]:
        raise refused("other images", a=kinds[0].shape[1], b=kinds[1].shape[1])
    n = (len(kinds[0]), len(kinds[1]))
    means = [np.nanmean(kind, axis=1) for kind in kinds]
    difference = float(means[0].mean() - means[1].mean()) if min(n) > 0 else np.nan
    shared = ~np.isnan(kinds[0]).all(axis=0) & ~np.isnan(kinds[1]).all(axis=0)
    if min(*n, shared.sum()) < 2:
        return Comparison(difference, np.nan, np.nan, np.nan, np.nan, np.nan, n)
    parts = [(mean.var(ddof=1) / len(mean), len(mean) - 1) for mean in means]
    differences = np.subtract(*(np.nanmean(kind[:, shared], axis=0) for kind in kinds))
    left, freedom = _left(kinds)
    of_images = (differences.var(ddof=1) / shared.sum(), int(shared.sum()) - 1)
    twice = ((1 / n[0] + 1 / n[1]) * left / shared.sum(), freedom)
    net = max(of_images[0] - twice[0], 0.0)
    variance = sum(part for part, _ in parts) + net
    if not variance > 1e-24 * max(1.0, difference**2):
        return Comparison(difference, np.nan, np.nan, np.nan, np.nan, np.nan, n)
    parts += [of_images, twice] if net > 0 else []
    df = variance**2 / sum(part**2 / df for part, df in parts)
    t = difference / np.sqrt(variance)
    half = scipy.stats.t.ppf((1 + 0.95) / 2, df) * np.sqrt(variance)
    single = [kind[~np.isnan(kind)] for kind in kinds]
    pooled = np.sqrt(sum((len(v) - 1) * v.var(ddof=1) for v in single) / (sum(map(len, single)) - 2))
    p = 2 * scipy.stats.t.sf(abs(t), df)
    return Comparison(difference, difference - half, difference + half, difference / pooled, float(t), float(p), n)


def crossed_ratio(top: np.ndarray, bottom: np.ndarray, *, seed: int = 0) -> Interval:
    """Bootstrap interval (95 %) of mean(top) / mean(bottom) for the same models, measured on two sets of images.

    Each resample draws models, the same above and below, and images of either set, so that the uncertainty of the lower
    mean counts too. Deviations are widened for few models, as in `crossed_interval`. `top` is (M, N) and `bottom` (M,
    K); other shapes and missing values are a `BiaslibError`. The Interval is over M N values, and NaN where that of
    mean(bottom) holds 0: a share of nothing is undefined.
    """
    tables = [_checked(values) for values in (top, bottom)]
    if len(tables[0]) != len(tables[1]):
        raise BiaslibError(f"top has {len(tables[0])} models and bottom {len(tables[1])}: give the same models.")
    if any(np.isnan(table).any() for table in tables):
        raise BiaslibError("A ratio of means needs all its values: leave out models or images with a NaN.")
    below = crossed_interval(tables[1], seed=seed)
    if not (below.low > 0 or below.high < 0):
        return Interval(np.nan, np.nan, np.nan, 0)
    models, *images = _times((len(tables[0]), tables[0].shape[1], tables[1].shape[1]), _RESAMPLES, seed)
    means = [((models @ table) * t).sum(axis=1) / table.size for table, t in zip(tables, images, strict=True)]
    estimate = float(tables[0].mean() / tables[1].mean())
    with np.errstate(divide="ignore"):
        drawn = means[0] / means[1]
    return Interval(estimate, *widened(drawn, estimate, len(tables[0]), 0.95, (-np.inf, np.inf)), tables[0].size)


@functools.lru_cache(maxsize=2)  # a page asks for many intervals over the same models and images
def _times(sizes: tuple[int, ...], resamples: int, seed: int) -> tuple[np.ndarray, ...]:
    """How many times each resample holds each model, or image, of sets of these sizes: (resamples, size) for each."""
    rng = np.random.default_rng(seed)
    drawn = tuple(rng.multinomial(size, [1 / size] * size, resamples).astype(float) for size in sizes)
    for times in drawn:
        times.flags.writeable = False
    return drawn


def _checked(values: np.ndarray) -> np.ndarray:
    table = np.asarray(values, dtype=float)
    if table.ndim != 2:
        raise BiaslibError(f"values must be (models, images), not of shape {table.shape}.")
    return table


def _residuals(table: np.ndarray) -> np.ndarray:
    """What a model's mean and an image's mean leave unsaid."""
    of_models, of_images = np.nanmean(table, axis=1, keepdims=True), np.nanmean(table, axis=0, keepdims=True)
    return table - of_models - of_images + np.nanmean(table)


def _left(kinds: list[np.ndarray]) -> tuple[float, int]:
    """The variance that is left within a kind, pooled, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for kind in kinds:
        some = kind[:, ~np.isnan(kind).all(axis=0)]
        squares += float(np.nansum(_residuals(some) ** 2))
        freedom += max(int((~np.isnan(some)).sum()) - some.shape[0] - some.shape[1] + 1, 0)
    return (squares / freedom, freedom) if freedom else (0.0, 1)
