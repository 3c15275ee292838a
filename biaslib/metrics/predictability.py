"""Predictability amplification (DPA; Tokas, Nair and Kerner 2025): do a model's answers show more than labels do?"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import Array, to_numpy


class PredictabilityAmplification(NamedTuple):
    """How much better a model's answers can be guessed than labels with as many errors."""

    value: float  #: (model - labels) / (model + labels), or the difference alone; 0 where nothing is amplified
    model: float  #: share of the model's answers that the best attacker guesses, in [0.5, 1]
    labels: float  #: the same of the labels after as many random errors as the model makes, in expectation


def predictability_amplification(
    given: Array, labels: Array, predicted: Array, *, normalised: bool = True
) -> PredictabilityAmplification:
    r"""How much better `given` foretells a model's answers than it foretells labels that are wrong as often.

    An attacker sees `given` (the groups, say) and guesses `predicted`. For discrete values the best attacker is their
    table: in each group it says the more frequent answer, and is right in the share $\lambda_M$. The labels are made as
    wrong as the model: as many of them, chosen at random, are turned. $\lambda_D$ is the share in which the best
    attacker guesses those, in expectation over the choice, which is summed exactly. The result is
    $(\lambda_M - \lambda_D) / (\lambda_M + \lambda_D)$ (DPA, equation 4), or $\lambda_M - \lambda_D$ where `normalised`
    is False (leakage amplification, as in the package bias-amplification; Wang et al. 2019 attack the other way round).

    `given` (N,) are any whole numbers, one a group; `labels` and `predicted` (N,) are bool, or 0 and 1. Swap the roles,
    with the group as the label and as the answer, for the direction from attribute to group. The value lies in
    (-1/3, 1/3), or (-0.5, 0.5) for the difference. No attacker is trained, so that the value has no noise of its own;
    it is of these images, and the best attacker of few images is better than that of many. A `BiaslibError` is raised
    for no images, other shapes, or answers other than 0 and 1.

    Example:
        >>> group, label = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 0, 1, 0, 0])
        >>> amplified = predictability_amplification(group, label, group == 0)
        >>> amplified.model, round(amplified.labels, 3), round(amplified.value, 3)
        (1.0, 0.756, 0.139)
    """
    groups, truth, answers = (to_numpy(values) for values in (given, labels, predicted))
    if groups.ndim != 1 or not len(groups) or not groups.shape == truth.shape == answers.shape:
        shapes = ", ".join(str(values.shape) for values in (groups, truth, answers))
        raise BiaslibError(f"given, labels and predicted must be (N,) of one length of at least 1, not {shapes}.")
    if not (np.isin(truth, (0, 1)).all() and np.isin(answers, (0, 1)).all()):
        raise BiaslibError("labels and predicted must be bool, or 0 and 1: measure one attribute at a time.")
    _, group = np.unique(groups, return_inverse=True)
    sizes = np.bincount(group)
    ones, said = (np.bincount(group[values == 1], minlength=len(sizes)) for values in (truth, answers))
    wrong = int((truth != answers).sum())
    model = float(np.maximum(said, sizes - said).sum() / len(group))
    turned = [_best_guess(int(n), int(size - n), wrong, len(group)) for n, size in zip(ones, sizes, strict=True)]
    expected = float(sum(turned) / len(group))
    value = (model - expected) / (model + expected if normalised else 1.0)
    return PredictabilityAmplification(value, model, expected)


def _best_guess(ones: int, zeros: int, wrong: int, n: int) -> float:
    """How many labels of a group its best guess gets, expected, when `wrong` of all n labels are turned at random."""
    lost, gained = _likely(ones, wrong, n)[:, None], _likely(zeros, wrong, n)
    elsewhere, rest = wrong - lost - gained, n - ones - zeros
    possible = (elsewhere >= 0) & (elsewhere <= rest)
    ways = _log_ways(ones, lost) + _log_ways(zeros, gained) + _log_ways(rest, np.clip(elsewhere, 0, rest))
    weight = np.where(possible, np.exp(ways - ways[possible].max()), 0.0)
    count = ones - lost + gained
    return float((weight * np.maximum(count, ones + zeros - count)).sum() / weight.sum())


def _likely(marked: int, drawn: int, n: int) -> np.ndarray:
    """How many marked ones there can be among those drawn, without what is less likely than rounding."""
    mean = drawn * marked / n
    reach = 10 * np.sqrt(mean * (1 - marked / n)) + 10  # ten standard deviations at least
    return np.arange(max(0, marked + drawn - n, int(mean - reach)), min(marked, drawn, int(mean + reach)) + 1)


def _log_ways(n: int, k: np.ndarray) -> np.ndarray:
    """The logarithm of the number of ways to choose k of n."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
