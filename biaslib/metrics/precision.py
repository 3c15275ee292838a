"""How well images are ranked by their scores, for attributes and sets of them (mAP, mAP*), and where to cut a score."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from biaslib.errors import BiaslibError, check_known, refused
from biaslib.metrics._arrays import Array, checked_binary, like, to_numpy
from biaslib.metrics.counting import count_sets
from biaslib.metrics.labels import Labels

# pairs of an image and a set, each sorted once: about ten minutes
_MOST_PAIRS = 5_000_000_000
# this many scores of sets at once
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class MeanPrecision:
    """Average precisions of sets of attributes and their mean."""

    values: np.ndarray  # (n,) in [0, 1]; NaN where no image has the attributes
    members: np.ndarray  # (n, A) bool, which attributes each set holds; for single attributes the identity

    @property
    def mean(self) -> float:
        """Over the values that are defined, in [0, 1]; NaN where none is."""
        return float(np.nanmean(self.values)) if self.n else np.nan

    @property
    def n(self) -> int:
        """How many values are defined; those of attributes that no image has are not."""
        return int(np.isfinite(self.values).sum())


def mean_average_precision(labels: Array, scores: Array) -> MeanPrecision:
    """mAP: the mean over attributes of the average precision (scikit-learn's, tied scores being one step).

    Labels are (N, A) bool, or 0 and 1, scores (N, A), larger for more likely. An attribute that no image has is NaN. A
    `BiaslibError` is raised for labels other than 0 and 1, shapes that differ, no images, or a score that is NaN.

    Example:
        >>> mean_average_precision(np.array([[1, 0], [0, 0]]), np.array([[0.3, 0.1], [0.6, 0.2]]))
        MeanPrecision(values=array([0.5, nan]), members=array([[ True, False],
               [False,  True]]))
    """
    from sklearn.metrics import average_precision_score  # here and not above, as it takes a second

    truth, score = _checked(labels, scores)
    columns = zip(truth.T, score.T, strict=True)
    values = [average_precision_score(has, ranked) if has.any() else np.nan for has, ranked in columns]
    return MeanPrecision(np.array(values), np.eye(truth.shape[1], dtype=bool))


def set_average_precision(
    train: Array,
    labels: Array,
    logits: Array,
    *,
    min_size: int = 1,
    max_size: int | None = None,
    sets: Literal["observed", "all"] = "observed",
) -> MeanPrecision:
    r"""mAP*: the mean over sets m of attributes of the average precision of "the image has all of m".

    Zhao, Andrews and Xiang (2023, section 5.3) report "a modified version of mAP that takes into account the different
    combinations of attributes in the ground-truth training set"; its formula is lost. Here an image is ranked by
    $\prod_{a \in m} \sigma(z_a)$, the probability of all of m where the attributes are independent given the image, and
    an image is positive where it has all of m, whatever else it has: what co-occurrence means in the paper.

    `train` (M, A) bool, or 0 and 1, are the labels of training, `labels` (N, A) those of the test images, and `logits`
    (N, A) are predicted for them, before the sigmoid. Sets have `min_size` >= 1 to `max_size` attributes (None: all A).
    They are "observed", the whole label sets of training images, or "all", every combination that training images have;
    either way those that some test image has too, as in `bias_amplification`. No value of a set is NaN; without any set
    the mean is. Errors are those of `mean_average_precision`; sizes out of order and more sets than can be ranked, too.
    """
    truth, score = _checked(labels, logits)
    seen = to_numpy(train)
    if seen.ndim != 2 or seen.shape[1] != truth.shape[1]:
        raise refused("training labels of other attributes", shape=seen.shape, width=truth.shape[1])
    largest = truth.shape[1] if max_size is None else min(max_size, truth.shape[1])
    if not 1 <= min_size <= largest:
        raise refused("sizes of sets out of range", width=truth.shape[1], least=min_size, most=max_size)
    check_known("sets", sets, ("observed", "all"))
    sides = [Labels(side, np.zeros(len(side), int)) for side in (seen, truth, truth)]
    counts = count_sets(*sides, n_groups=1, min_size=min_size, max_size=largest, observed=sets == "observed")
    members = counts.members(np.arange(counts.n_sets))
    if len(members) * len(truth) > _MOST_PAIRS:
        raise refused("too many sets to rank", sets=len(members), images=len(truth))
    log_probability = -np.logaddexp(0, -score)
    step = max(1, _BLOCK // len(truth))
    pieces = (members[start : start + step] for start in range(0, len(members), step))
    values = [value for piece in pieces for value in _average_precisions(piece, truth, log_probability)]
    return MeanPrecision(np.array(values), members)


def calibrated_thresholds(labels: Array, scores: Array) -> Array:
    """Per attribute the threshold that gives as many predicted positives as there are labelled ones.

    An image is predicted to have the attribute where `score > threshold`. Take the thresholds on validation data and
    use them on test data: amplification then is not that of a model which merely says yes too rarely. This is the
    rule of the code released with Zhao, Andrews and Xiang (2023), whose evaluation script takes the thresholds on the
    test labels themselves: it stores them under the name of validation labels.

    The threshold is one of the scores. Where tied scores make the labelled number impossible it gives the nearest
    number that is possible, and of two equally near the smaller. Without positives it is the largest score, so that
    nothing is predicted; without negatives it is -inf, so that everything is. Arguments and errors are as for
    `mean_average_precision`; the thresholds are (A,) float64.

    Example:
        >>> calibrated_thresholds(np.array([[1], [0], [0]]), np.array([[0.4], [0.3], [0.1]])).tolist()
        [0.3]
    """
    truth, score = _checked(labels, scores)
    return like(np.array([_threshold(*column) for column in zip(truth.T, score.T, strict=True)]), scores)


def _average_precisions(members: np.ndarray, truth: np.ndarray, log_probability: np.ndarray) -> list[float]:
    has_all = (truth.astype(np.float32) @ members.T.astype(np.float32) == members.sum(axis=1)).T
    scores = [log_probability[:, inside].sum(axis=1) for inside in members]
    return [_average_precision(of_set[has], of_set) for has, of_set in zip(has_all, scores, strict=True)]


def _average_precision(positive: np.ndarray, scores: np.ndarray) -> float:
    """The mean over positives of the precision among all images that score at least as high."""
    positive, ordered = np.sort(positive), np.sort(scores)
    at_least = len(ordered) - np.searchsorted(ordered, positive)
    return float(np.mean((len(positive) - np.searchsorted(positive, positive)) / at_least))


def _checked(labels: Array, scores: Array) -> tuple[np.ndarray, np.ndarray]:
    """Labels (N, A) as bool and scores (N, A) as float64."""
    truth, score = checked_binary("labels", labels, "threshold them first"), to_numpy(scores).astype(np.float64)
    if truth.ndim != 2 or truth.shape != score.shape or truth.size == 0:
        raise refused("labels and scores that differ", labels=truth.shape, scores=score.shape)
    if count := int(np.isnan(score).sum()):
        raise BiaslibError(f"{count} of {score.size} scores are NaN, which have no rank: drop those images.")
    return truth, score


def _threshold(truth: np.ndarray, scores: np.ndarray) -> float:
    ordered = np.sort(scores)
    candidates = np.append(ordered[::-1], -np.inf)
    predicted = len(ordered) - np.searchsorted(ordered, candidates, side="right")
    return float(candidates[np.abs(predicted - truth.sum()).argmin()])  # the first: the one that predicts fewest
