"""Reducing bias amplification (RBA): predictions that keep the training set's ratios (Zhao et al. 2017, section 4)."""

from dataclasses import dataclass

import numpy as np

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels

_ROUNDS = 500  # at most


@dataclass(frozen=True)
class Constrained:
    """Predictions under constraints, and how far they were met."""

    attributes: np.ndarray  #: (N, A) bool, predicted
    groups: np.ndarray  #: (N,) predicted
    wanted: np.ndarray  #: (A, G) share of each group among the training images with the attribute
    reached: np.ndarray  #: (A, G) the same among the predictions; NaN for an attribute that is never predicted
    met: np.ndarray  #: (A,) bool, every share within the margin; what is never predicted breaks no constraint


def corpus_constraints(
    attribute_scores: np.ndarray, group_scores: np.ndarray, train: Labels, *, margin: float = 0.05
) -> Constrained:
    r"""Attributes and groups, predicted together so that each attribute keeps its training ratio of groups.

    `attribute_scores` (N, A) are log-odds above the decision threshold, `group_scores` (N, G) log-probabilities, up to
    a constant for each image. Each image takes the group g and the attributes x that maximise $s_g + \sum_a x_a s_a$,
    subject to $|P(\hat g \mid \hat a) - P(g \mid a)| \le$ margin (> 0) for all a and g over the whole set of
    predictions, the second term counted in the labels `train`. Lagrangian relaxation, after Zhao et al. 2017: every
    constraint has a multiplier that grows with its violation and then shifts the scores of the attribute beside the
    group; given the multipliers, each image is decided exactly, by itself. Without active constraints this is each
    attribute's and group's own decision. The relaxation need not meet every constraint: few predicted images leave few
    possible ratios. The round with the smallest sum of violations is returned, and `met` says which hold.

    A `BiaslibError` is raised for scores that do not fit each other or the labels, or are not finite; an attribute that
    no training image has; a margin that is not above 0.
    """
    scores, by_group = _checked(attribute_scores, group_scores, train)
    if not margin > 0:
        raise BiaslibError(f"margin must be above 0, not {margin!r}.")
    wanted = _ratios(train.attributes, train.groups, by_group.shape[1])
    # of the constraints "at most wanted + margin" and "at least wanted - margin"
    multipliers = np.zeros((2, *wanted.shape))
    best, smallest = None, np.inf
    for number in range(1, _ROUNDS + 1):
        attributes, groups = _decided(scores, by_group, _shifts(multipliers, wanted, margin))
        reached = _ratios(attributes, groups, by_group.shape[1])
        # an attribute that is never predicted breaks nothing, and must not be pushed either
        excess = np.nan_to_num(np.stack([reached - wanted, wanted - reached]) - margin, nan=-margin)
        violation = np.clip(excess, 0, None).sum()
        if violation < smallest:
            met = np.asarray((excess <= 0).all(axis=(0, 2)))
            best, smallest = Constrained(attributes, groups, wanted, reached, met), violation
        if violation == 0:
            break
        # smaller and smaller steps, towards just inside the margin: at its very edge they would swing for ever
        multipliers = np.clip(multipliers + 1.0 / np.sqrt(number) * (excess + 0.1 * margin), 0, None)
    assert best is not None  # there is a first round
    return best


def _shifts(multipliers: np.ndarray, wanted: np.ndarray, margin: float) -> np.ndarray:
    """(A, G) what the Lagrangian adds to the score of attribute a beside group g."""
    upper, lower = multipliers
    shared = (upper * (wanted + margin)).sum(axis=1) - (lower * (wanted - margin)).sum(axis=1)
    return lower - upper + shared[:, None]


def _decided(scores: np.ndarray, by_group: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each image's best group with its best attributes."""
    totals = np.stack(
        [by_group[:, g] + np.clip(scores + shifts[:, g], 0, None).sum(axis=1) for g in range(shifts.shape[1])], axis=1
    )
    groups = totals.argmax(axis=1)
    return scores + shifts.T[groups] > 0, groups


def _ratios(attributes: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """(A, G) share of each group among the images with the attribute; NaN where there are none."""
    counts = np.asarray(attributes, float).T @ np.eye(n_groups)[groups]
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=1, keepdims=True)


def _checked(attribute_scores: np.ndarray, group_scores: np.ndarray, train: Labels) -> tuple[np.ndarray, np.ndarray]:
    scores, by_group = np.asarray(attribute_scores, float), np.asarray(group_scores, float)
    if scores.ndim != 2 or by_group.ndim != 2 or len(scores) != len(by_group) or not len(scores):
        raise BiaslibError(
            f"scores must be (N, A) of attributes and (N, G) of groups for the same images, not {scores.shape} and "
            f"{by_group.shape}."
        )
    if not (np.isfinite(scores).all() and np.isfinite(by_group).all()):
        raise BiaslibError("scores must be finite: give log-odds, not probabilities' logarithms of 0.")
    scored, trained = scores.shape[1], train.attributes.shape[1]
    if scored != trained:
        raise BiaslibError(f"{scored} scored attributes but {trained} in the training labels.")
    if train.groups.max() >= by_group.shape[1]:
        raise BiaslibError(
            f"the training labels have group {int(train.groups.max())}, but only groups 0 to {by_group.shape[1] - 1} "
            "are scored."
        )
    never = np.flatnonzero(~train.attributes.any(axis=0))
    if len(never):
        raise BiaslibError(f"no training image has attribute {never[0]}, so it has no ratio to keep: leave it out.")
    return scores, by_group
