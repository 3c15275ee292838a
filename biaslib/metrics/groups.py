"""How well a model does for each group, the usual rates by fairlearn's names, how far answers go with a group."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaln
from scipy.stats import binomtest

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import AnyArray, Array, broadcast_shape, checked_binary, is_tensor, like, to_numpy

GroupLabels = AnyArray | pd.Series | Sequence[object]

_PARITIES = {  # the rates that a disparity compares
    "demographic_parity": ["selection_rate"], "equal_opportunity": ["true_positive_rate"], "accuracy": ["accuracy"],
    "equalized_odds": ["true_positive_rate", "false_positive_rate"], "predictive_parity": ["precision"],
}  # fmt: skip


def group_accuracy(correct: AnyArray, groups: GroupLabels) -> pd.DataFrame:
    """Accuracy of each group, with its count and Wilson's 95 % interval (Wilson 1927).

    `correct` is (N,) bool, and `groups` are (N,) labels of any sortable kind; others, no images, and a missing label
    are a `BiaslibError`. The interval is about the images of one model, that between models is `statistics.interval`'s.
    The table has one row a group, sorted by label: `group`, `n`, and in [0, 1] `accuracy`, `low`, `high`.

    Example:
        >>> group_accuracy(np.array([True, False, True]), ["a", "a", "b"])[["group", "n", "accuracy"]]
          group  n  accuracy
        0     a  2       0.5
        1     b  1       1.0
    """
    right = to_numpy(correct)
    if right.dtype != np.bool_ or right.ndim != 1:
        raise BiaslibError(f"correct must be bool (N,), not {right.dtype} of shape {right.shape}.")
    codes, labels = group_codes(groups, len(right))
    rows = []
    for code, label in enumerate(labels):
        hits, n = int(right[codes == code].sum()), int((codes == code).sum())
        bounds = binomtest(hits, n).proportion_ci(0.95, method="wilson")
        rows.append((label, n, hits / n, bounds.low, bounds.high))
    return pd.DataFrame(rows, columns=["group", "n", "accuracy", "low", "high"])


def worst_group_accuracy(correct: Array, groups: GroupLabels, *, min_share: float = 0.01) -> Array:
    """The lowest accuracy of any group that is large enough to tell (Serianni et al. 2025, Fig. 2).

    `correct` is (..., N) bool, or float shares in [0, 1] (means over models), and `groups` (N,) labels, in the paper
    target x protected attribute; errors are those of `group_accuracy`. Groups with a share of the N images below
    `min_share` are left out. The accuracy is (...) float64 in [0, 1]; NaN where every group is left out, or another one
    holds a NaN. For several models give `correct` averaged over them: the paper takes the mean over models first and
    the minimum over groups then. (M, N) instead gives each model's own worst group, whose mean is lower.

    Example:
        >>> float(worst_group_accuracy(np.array([True, False, True]), ["a", "a", "b"]))
        0.5
    """
    right = to_numpy(correct)
    if right.ndim < 1 or right.dtype.kind not in "bf" or ((right < 0) | (right > 1)).any():
        raise BiaslibError("correct must be bool, or float shares between 0 and 1, of shape (..., N).")
    codes, labels = group_codes(groups, right.shape[-1])
    large = [inside for code in range(len(labels)) if (inside := codes == code).mean() >= min_share]
    if not large:
        return like(np.full(right.shape[:-1], np.nan)[()], correct)
    return like(np.min([right[..., inside].mean(-1, dtype=np.float64) for inside in large], axis=0), correct)


def group_rates(labels: AnyArray, answers: AnyArray, groups: GroupLabels) -> pd.DataFrame:
    """Selection, true positive, false positive and false negative rate, precision and accuracy of each group.

    `labels` and `answers` are (N,) bool or 0 and 1, `groups` as for `group_accuracy`; others are a `BiaslibError`. The
    table has a row a group and rate: `group`, `rate` (fairlearn's name; precision is the positive predictive value),
    `n`, the images that it is a share of (those labelled yes for a true positive rate, those answered yes for
    precision), and in [0, 1] `value` with Wilson's 95 % interval, `low` and `high`; NaN where n is 0 (fairlearn: 0).

    Example:
        >>> rates = group_rates(np.array([1, 1, 0, 1]), np.array([1, 0, 0, 1]), ["a", "a", "b", "b"])
        >>> rates[rates["rate"] == "true_positive_rate"][["group", "n", "value"]].to_numpy().tolist()
        [['a', 2, 0.5], ['b', 1, 1.0]]
    """
    given = {"labels": labels, "answers": answers}
    truth, said = (checked_binary(name, of, "threshold scores first") for name, of in given.items())
    if truth.ndim != 1 or truth.shape != said.shape:
        raise BiaslibError(f"labels and answers must both be (N,), not {truth.shape} and {said.shape}.")
    codes, names = group_codes(groups, len(truth))
    counted = rate_images(truth, said)
    rows = np.concatenate([codes[of] * len(counted) + at for at, (of, _) in enumerate(counted.values())])
    shares = group_accuracy(np.concatenate([hits[of] for of, hits in counted.values()]), rows).set_index("group")
    shares = shares.reindex(range(len(names) * len(counted))).fillna({"n": 0}).astype({"n": int})
    which = {"group": [name for name in names for _ in counted], "rate": [*counted] * len(names)}
    return pd.concat([pd.DataFrame(which), shares.rename(columns={"accuracy": "value"})], axis=1)


def rate_images(truth: np.ndarray, said: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rate -> (N,) bool which images it is a share of, and which of them count; of labels and answers, (N,) bool."""
    every = np.ones_like(truth)
    return {
        "selection_rate": (every, said), "true_positive_rate": (truth, said), "false_positive_rate": (~truth, said),
        "false_negative_rate": (truth, ~said), "precision": (said, truth), "accuracy": (every, truth == said),
    }  # fmt: skip


def disparities(rates: pd.DataFrame) -> pd.DataFrame:
    """How far the groups of `group_rates` are apart: `difference`, largest less smallest, `ratio`, smallest by largest.

    By fairlearn's names: demographic_parity_ratio is `.loc["demographic_parity", "ratio"]`, which the four-fifths rule
    compares with 0.8: AIF360's disparate impact (or 1 over it, where the privileged group is selected less). Equalized
    odds take the worse of true and false positive rates. All in [0, 1]; NaN where a group does not have the rate, and
    ratios where all rates are 0. A `BiaslibError` is raised for fewer than two groups.
    """
    values = {str(rate): part["value"].to_numpy() for rate, part in rates.groupby("rate")}
    if min(map(len, values.values())) < 2:
        raise BiaslibError("There is one group only and nothing to compare it with: give at least two.")
    with np.errstate(invalid="ignore"):  # 0 / 0 where nobody has it
        apart = {rate: (np.ptp(of), -of.min() / of.max()) for rate, of in values.items()}
    worst = [np.max([apart[rate] for rate in of], axis=0) * (1, -1) for of in _PARITIES.values()]
    return pd.DataFrame(worst, index=pd.Index(_PARITIES, name="disparity"), columns=["difference", "ratio"])


def normalized_average_precision(labels: Array, scores: Array, n_positive: float | np.ndarray) -> Array:
    r"""Average precision as if there were `n_positive` positives, so that rare and common attributes compare.

    Hoiem et al. 2012's $AP_N = \sum_k (R_k - R_{k-1}) P_k$ over the distinct scores from the highest down, with recall
    R, false positives FP and $P_k = R_k N / (R_k N + FP_k)$. With N the number of positives that there are it is the
    usual average precision (scikit-learn's, ties included: equal scores are one step). A `BiaslibError` is raised for
    labels other than 0 and 1, shapes that do not fit, no images, or N <= 0.

    Labels are (..., n) bool or 0/1, scores (..., n), larger for more likely; leading dimensions broadcast. For N the
    paper takes the mean number of positives of the evaluated attributes; it may be an array that broadcasts with them.
    The result is (...) float64 in [0, 1]; NaN where all labels are of one class (nothing is ranked) or a score is NaN.

    Example:
        >>> float(normalized_average_precision(np.array([0, 1]), np.array([0.9, 0.2]), n_positive=3))
        0.75
    """
    truth = checked_binary("labels", labels, "average precision is for one attribute at a time")
    score = to_numpy(scores)
    if min(truth.ndim, score.ndim) < 1 or truth.shape[-1] != score.shape[-1] or truth.shape[-1] == 0:
        raise BiaslibError(f"labels and scores must both be (..., n) with n >= 1, not {truth.shape} and {score.shape}.")
    if np.any(np.asarray(n_positive) <= 0):
        raise BiaslibError(f"n_positive must be above 0, not {n_positive}.")
    both = broadcast_shape("labels and scores", truth.shape[:-1], score.shape[:-1])
    broadcast_shape("both and n_positive", both, np.shape(n_positive))
    return like(_average_precision(truth, score.astype(np.float64), n_positive), labels)


def matthews_correlation(a: Any, b: Any) -> np.ndarray:
    """Matthews correlation coefficient (phi) of two sets of binary values, for many sets at once.

    MCC = (n n11 - n1. n.1) / sqrt(n1. (n - n1.) n.1 (n - n.1)), in [-1, 1] (Matthews 1975; Chicco and Jurman 2020).
    Both are (..., N) of 0 and 1 or bool, broadcast against each other; others are a `BiaslibError`. The result is (...)
    float64; NaN where one of them has one value only (scikit-learn gives 0 there).
    """
    first, second = (checked_binary(name, side, "threshold scores first") for name, side in (("a", a), ("b", b)))
    if first.shape[-1] != second.shape[-1]:
        raise BiaslibError(f"a has {first.shape[-1]} values and b {second.shape[-1]}: give the same number of each.")
    return matthews_from_counts(
        both=(first & second).sum(axis=-1), a=first.sum(axis=-1), b=second.sum(axis=-1), n=first.shape[-1]
    )


def matthews_from_counts(*, both: Any, a: Any, b: Any, n: Any) -> np.ndarray:
    """Matthews correlation of n, of which a, b and both have either attribute and both; broadcast; NaN if constant."""
    both, a, b, n = (np.asarray(count, dtype=np.float64) for count in (both, a, b, n))
    spread = a * (n - a) * b * (n - b)
    covariance = n * both - a * b
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, covariance / np.sqrt(spread), np.nan)


class PredictabilityAmplification(NamedTuple):
    """How much better a model's answers can be guessed than labels with as many errors."""

    value: float  #: (model - labels) / (model + labels); 0 where nothing is amplified
    model: float  #: share of the model's answers that the best attacker guesses, in [0.5, 1]
    labels: float  #: the same of the labels after as many random errors as the model makes, in expectation


def predictability_amplification(given: Array, labels: Array, predicted: Array) -> PredictabilityAmplification:
    r"""How much better `given` foretells a model's answers than it foretells labels that are wrong as often.

    DPA (Tokas, Nair and Kerner 2025): an attacker sees `given` (the groups, say) and guesses `predicted`. For discrete
    values the best attacker is their table: in each group it says the more frequent answer, and is right in the share
    $\lambda_M$. The labels are made as wrong as the model: as many of them, chosen at random, are turned. $\lambda_D$
    is the share in which the best attacker guesses those, in expectation over the choice, which is summed exactly. The
    value is $(\lambda_M - \lambda_D) / (\lambda_M + \lambda_D)$ (equation 4), in (-1/3, 1/3); $\lambda_M - \lambda_D$
    alone is leakage amplification (Wang et al. 2019 attack the other way round).

    `given` (N,) are any whole numbers, one a group; `labels` and `predicted` (N,) are bool, or 0 and 1; others are a
    `BiaslibError`. Swap the roles, with the group as the label and as the answer, for the direction from attribute to
    group. It has no noise of a training; it is of these images, and of few images the best attacker is better.

    Example:
        >>> group, label = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 0, 1, 0, 0])
        >>> amplified = predictability_amplification(group, label, group == 0)
        >>> amplified.model, round(amplified.labels, 3), round(amplified.value, 3)
        (1.0, 0.756, 0.139)
    """
    groups, remedy = to_numpy(given), "measure one attribute at a time"
    truth, answers = checked_binary("labels", labels, remedy), checked_binary("predicted", predicted, remedy)
    if groups.ndim != 1 or not len(groups) or not groups.shape == truth.shape == answers.shape:
        shapes = ", ".join(str(values.shape) for values in (groups, truth, answers))
        raise BiaslibError(f"given, labels and predicted must be (N,) of one length of at least 1, not {shapes}.")
    _, group = np.unique(groups, return_inverse=True)
    sizes = np.bincount(group)
    ones, said = (np.bincount(group[values], minlength=len(sizes)) for values in (truth, answers))
    wrong = int((truth != answers).sum())
    model = float(np.maximum(said, sizes - said).sum() / len(group))
    turned = [_best_guess(int(n), int(size - n), wrong, len(group)) for n, size in zip(ones, sizes, strict=True)]
    expected = float(sum(turned) / len(group))
    return PredictabilityAmplification((model - expected) / (model + expected), model, expected)


def _one_average_precision(truth: np.ndarray, scores: np.ndarray, n_positive: float) -> float:
    if truth.all() or not truth.any() or np.isnan(scores).any():
        return np.nan
    order = np.argsort(-scores)
    ranked = scores[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)  # the last of each run of equal scores
    true = np.cumsum(truth[order])[ends]
    false = ends + 1 - true
    weighted = true / true[-1] * n_positive
    return float(np.sum(np.diff(true, prepend=0) / true[-1] * weighted / (weighted + false)))


_average_precision = np.vectorize(_one_average_precision, otypes=[np.float64], signature="(n),(n),()->()")


def group_codes(groups: GroupLabels, n: int) -> tuple[np.ndarray, pd.Index]:
    """The group of each image as 0, 1, ... and the sorted labels."""
    column = pd.Series(to_numpy(groups) if is_tensor(groups) else groups).reset_index(drop=True)
    if n == 0:
        raise BiaslibError("There are no images to group: give at least one.")
    if len(column) != n:
        raise BiaslibError(f"{n} images but {len(column)} group labels: give one label for every image.")
    if column.isna().any():
        raise BiaslibError(f"{int(column.isna().sum())} of {n} group labels are missing: drop those images first.")
    codes, labels = pd.factorize(column, sort=True)
    return codes, pd.Index(labels)


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
