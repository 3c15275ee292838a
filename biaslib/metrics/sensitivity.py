"""What a change of the image does to the score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, refused
from biaslib.metrics._arrays import Array, broadcast_shape, like, to_numpy
from biaslib.worlds.base import World


def causal_effect(
    predict: Callable[[np.ndarray], Array],
    world: World,
    factors: pd.DataFrame,
    *,
    cue: str,
    size: int = 64,
    as_drawn: Array | None = None,
) -> Array:
    """The true effect of a cue on a model: every image drawn with it and without, all else the same, subtracted.

    An average over images is the average treatment effect; no estimate is involved, because a generated world draws
    both of the counterfactuals (Pearl's do(cue = 1) and do(cue = 0)).

    `predict` gives scores (N,), NumPy or torch, of uint8 images (N, size, size, 3); or (..., N), such as one row a
    model, which draws the images once for all. `factors` are N rows as the world's own `factors` makes them, `cue` is
    the binary column to set, often `world.cue`. Where predict's scores of the rows as they are, are known already, as
    for a second cue, give them as `as_drawn`: then only what the other value makes of each row is drawn. The effect has
    the shape of the scores: those with the cue less those without it, in their unit and of their kind. A `BiaslibError`
    is raised for an unknown or a non-binary cue, no rows, or scores or as_drawn of another shape.
    """
    if cue not in factors.columns:
        raise BiaslibError(f"There is no factor {cue!r}: take one of {', '.join(map(str, factors.columns))}.")
    if len(factors) == 0:
        raise BiaslibError("There are no rows to draw: give at least one.")
    if not factors[cue].isin((0, 1)).all():
        raise BiaslibError(f"The factor {cue!r} is not binary, so it has no one effect: take one that is 0 or 1.")
    there = factors[cue].to_numpy()
    if as_drawn is None:
        # in the column's own type, so that the world draws the same as from its own table
        both = (factors.assign(**{cue: np.full(len(factors), value).astype(there.dtype)}) for value in (1, 0))
        on, off = (_scores(predict, world, rows, size) for rows in both)
        return on - off
    other = _scores(predict, world, factors.assign(**{cue: (there == 0).astype(there.dtype)}), size)
    if np.shape(as_drawn) != np.shape(other):
        raise refused("scores as drawn of another shape", wanted=tuple(np.shape(other)), own=tuple(np.shape(as_drawn)))
    return (like(to_numpy(as_drawn), other) - other) * like(np.where(there == 1, 1, -1).astype(np.int8), other)


def _scores(predict: Callable[[np.ndarray], Array], world: World, factors: pd.DataFrame, size: int) -> Array:
    scores = predict(world.render(factors, size=size).images)
    if tuple(np.shape(scores))[-1:] != (len(factors),):
        raise refused("more than one score an image", n=len(factors), shape=tuple(np.shape(scores)))
    return scores


def score_sensitivity(before: Array, after: Array) -> Any:
    r"""How far a change of the images moves the scores on average (Denton et al. 2019, eq. 3).

    $$S(f \circ G, d) = \mathbb{E}_z\big[f(G(z + d)) - f(G(z))\big]$$

    `before` are (..., N) scores of images, NumPy or torch, and `after` (..., N) those of the same images changed;
    leading dimensions broadcast. The result is (...) in the unit of the scores, within [-1, 1] for probabilities; pairs
    with a NaN are left out, and it is NaN where no pair is left. Different numbers of images are a `BiaslibError`.

    Example:
        >>> float(score_sensitivity(np.array([0.25, 0.75]), np.array([0.5, 1.0])))
        0.25
    """
    first, second = _pairs(before, after)
    return like(_nanmean(second - first), before)


def absolute_score_change(before: Array, after: Array) -> Any:
    r"""How far a change of the images moves the scores on average, whichever way (Denton et al. 2019, footnote 1).

    $$\mathbb{E}_z\big[|f(G(z + d)) - f(G(z))|\big]$$

    Changes to either side cancel in `score_sensitivity`, not here. Arguments, NaN and errors are as there; the result
    is (...), at least 0 and at least the absolute value of that sensitivity.

    Example:
        >>> float(absolute_score_change(np.array([0.25, 0.75]), np.array([0.5, 0.5])))
        0.25
    """
    first, second = _pairs(before, after)
    return like(_nanmean(np.abs(second - first)), before)


def classification_sensitivity(before: Array, after: Array, *, threshold: float = 0.5) -> Any:
    r"""How much larger the share of positive answers is after a change of the images (Denton et al. 2019, eq. 6).

    $$S(y \circ G, d) = \mathbb{E}_z\big[y(G(z + d)) - y(G(z))\big], \qquad y = [f \ge threshold]$$

    Flips to either side cancel here; `flip_rates` tells them apart. Scores, NaN and errors are as for
    `score_sensitivity`, the result is (...) within [-1, 1]; `threshold` is the least score that is a positive answer.

    Example:
        >>> float(classification_sensitivity(np.array([0.25, 0.75]), np.array([0.5, 1.0])))
        0.5
    """
    first, second = (_answers(scores, threshold) for scores in _pairs(before, after))
    return like(_nanmean(second - first), before)


def flip_rates(before: Array, after: Array, *, threshold: float = 0.5) -> tuple[Any, Any]:
    r"""Of the negative answers the share that becomes positive, and of the positive ones that which becomes negative.

    $$S_{0 \to 1} = \Pr\big[y(G(z + d)) = 1 \mid y(G(z)) = 0\big], \qquad
      S_{1 \to 0} = \Pr\big[y(G(z + d)) = 0 \mid y(G(z)) = 1\big]$$

    (Denton et al. 2019, section 4.5, after eq. 6). Arguments are as for `classification_sensitivity`; zero_to_one (...)
    and one_to_zero (...) are each in [0, 1], NaN where there was no such answer before.

    Example:
        >>> rates = flip_rates(np.array([0.2, 0.4, 0.9]), np.array([0.3, 0.6, 0.8]))
        >>> [float(rate) for rate in rates]
        [0.5, 0.0]
    """
    first, second = (_answers(scores, threshold) for scores in _pairs(before, after))
    flipped = np.where(np.isnan(first) | np.isnan(second), np.nan, first != second)
    from_zero, from_one = (_nanmean(np.where(first == answer, flipped, np.nan)) for answer in (0.0, 1.0))
    return like(from_zero, before), like(from_one, before)


def _pairs(before: Array, after: Array) -> tuple[np.ndarray, np.ndarray]:
    first, second = to_numpy(before).astype(np.float64), to_numpy(after).astype(np.float64)
    if first.ndim < 1 or second.ndim < 1 or first.shape[-1] != second.shape[-1]:
        raise refused("scores of other images", before=first.shape, after=second.shape)
    broadcast_shape("the scores", first.shape[:-1], second.shape[:-1])
    first, second = np.broadcast_arrays(first, second)
    return first, second


def _answers(scores: np.ndarray, threshold: float) -> np.ndarray:
    """1 or 0, NaN where there is no score."""
    return np.where(np.isnan(scores), np.nan, scores >= threshold)


def _nanmean(values: np.ndarray) -> np.ndarray:
    """Over the last axis; NaN where nothing is defined, without a warning."""
    n = np.isfinite(values).sum(axis=-1)
    return np.where(n > 0, np.nansum(values, axis=-1) / np.maximum(n, 1), np.nan)
