"""Where to cut a score, so that as many images are predicted to have an attribute as are labelled with it."""

import numpy as np

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import Array, like, to_numpy


def calibrated_thresholds(labels: Array, scores: Array) -> Array:
    """Per attribute the threshold that gives as many predicted positives as there are labelled ones.

    An image is predicted to have the attribute where `score > threshold`. Take the thresholds on validation data and
    use them on test data: amplification then is not that of a model which merely says yes too rarely. This is the
    rule of the code released with Zhao, Andrews and Xiang (2023), whose evaluation script takes the thresholds on the
    test labels themselves: it stores them under the name of validation labels.

    The threshold is one of the scores. Where tied scores make the labelled number impossible it gives the nearest
    number that is possible, and of two equally near the smaller. Without positives it is the largest score, so that
    nothing is predicted; without negatives it is -inf, so that everything is.

    Args:
        labels: (N, A) bool, or 0 and 1.
        scores: (N, A), larger for more likely: logits or probabilities.

    Returns:
        (A,) float64, in the units of the scores.

    Raises:
        BiaslibError: for labels other than 0 and 1, shapes that differ, no images, or a score that is NaN.

    Example:
        >>> calibrated_thresholds(np.array([[1], [0], [0]]), np.array([[0.4], [0.3], [0.1]])).tolist()
        [0.3]
    """
    truth, score = checked(labels, scores)
    return like(np.array([_threshold(*column) for column in zip(truth.T, score.T, strict=True)]), scores)


def checked(labels: Array, scores: Array) -> tuple[np.ndarray, np.ndarray]:
    """Labels (N, A) as bool and scores (N, A) as float64.

    Raises:
        BiaslibError: for labels other than 0 and 1, shapes that differ, no images, or a score that is NaN.
    """
    truth, score = to_numpy(labels), to_numpy(scores)
    if truth.ndim != 2 or truth.shape != score.shape or truth.size == 0:
        raise BiaslibError(
            f"labels and scores must both be (N, A) with N, A >= 1, one column an attribute, not {truth.shape} and "
            f"{score.shape}."
        )
    if not np.isin(truth, (0, 1)).all():
        raise BiaslibError("labels must be 0 or 1 (or bool).")
    score = score.astype(np.float64)
    if (missing := np.isnan(score)).any():
        raise BiaslibError(
            f"{int(missing.sum())} of {score.size} scores are NaN, which have no rank: drop those images."
        )
    return truth.astype(bool), score


def _threshold(truth: np.ndarray, scores: np.ndarray) -> float:
    ordered = np.sort(scores)
    candidates = np.append(ordered[::-1], -np.inf)
    predicted = len(ordered) - np.searchsorted(ordered, candidates, side="right")
    return float(candidates[np.abs(predicted - truth.sum()).argmin()])  # the first: the one that predicts fewest
