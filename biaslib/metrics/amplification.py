"""Multi-attribute bias amplification (Zhao, Andrews and Xiang 2023): does a model exaggerate what it was shown?"""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, check_known, refused
from biaslib.metrics.counting import SetCounts, count_sets
from biaslib.metrics.labels import Labels

Kind = Literal["undirected", "group_to_attribute", "attribute_to_group"]
_Sets = Literal["all", "observed"]
_Reference = Literal["test", "train"]
_Threshold = Literal["1/G", "1/(G-1)"]

# sets at once: their numbers stay in a core's cache
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Rule:
    """How the counts (G, n) of n sets become their changes d, and which cells training has as positively correlated."""

    kind: Kind
    reference: _Reference
    threshold: _Threshold
    group_sizes: np.ndarray  # (2, G, 1 or n) images of each group in train and in test

    def positive(self, train: np.ndarray) -> np.ndarray:
        """(G, n) whether set and group go together in training; in whole numbers, so that ties are ties."""
        train = train.astype(np.int64)
        if self.kind == "undirected":
            n_groups = len(train)
            return (n_groups if self.threshold == "1/G" else n_groups - 1) * train > train.sum(axis=0)
        images = self.group_sizes[0]
        return train * images.sum(axis=0) > images * train.sum(axis=0)

    def rates(self, train: np.ndarray, test: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(G, n) the rate that is compared with, and that of the predictions; NaN where there is none."""
        with np.errstate(invalid="ignore"):  # a set that is never predicted: 0 / 0
            if self.kind == "undirected":
                return train / train.sum(axis=0), predicted / predicted.sum(axis=0)
            before = test if self.reference == "test" else train
            if self.kind == "group_to_attribute":
                images = self.group_sizes[1 if self.reference == "test" else 0]
                return before / images, predicted / self.group_sizes[1]
            return before / before.sum(axis=0), predicted / predicted.sum(axis=0)

    def changes(self, train: np.ndarray, test: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(G, n) changes d, and which cells are positive."""
        positive = self.positive(train)
        before, after = self.rates(train, test, predicted)
        change = after - before
        return np.where(positive, change, 0.0) if self.kind == "undirected" else change, positive


@dataclass(frozen=True, eq=False)
class Amplification:
    """How much a model amplifies, over all cells (group, set of attributes). Unscaled: papers print 100 times these."""

    mean: float  #: mean change; NaN where there is no set
    variance: float  #: population variance of the changes d, signs as they are, over all cells; NaN likewise
    n_sets: int  #: number of sets, the size of M
    #: how many of them no test image is predicted to have. Their undirected change is undefined: left out of the sum,
    #: as in the released code, while the sets stay in the divisor. They stay in the variance with d = 0;
    #: the released code leaves them out of it
    n_never_predicted: int
    _counts: SetCounts = field(repr=False)
    _rule: Rule = field(repr=False)
    _names: tuple[object, ...] = field(repr=False)

    def table(self, top: int | None = 20) -> pd.DataFrame:
        """The cells that change most, `top` of them (None: all), by the size of d.

        Among equals those of more training images come first.

        Returns:
            One row a cell: `attributes` (a tuple of names, or of column numbers), `size` of the set, `group`,
            `positive` (whether they go together in training), `train_bias` (co-occur(m, g) over all groups' sum),
            `reference` and `predicted` (the two rates whose difference is d), `d` (0 where the undirected metric does
            not count the cell, NaN where the set is never predicted), and the counts of the cell in the training
            labels, the test labels and the predictions: `n_train`, `n_test`, `n_predicted`.
        """
        counts, rule = self._counts, self._rule
        change, positive = rule.changes(counts.train, counts.test, counts.predicted)
        n_groups = len(change)
        cells = _largest(np.abs(change).T.ravel(), counts.train.T.ravel(), top)
        sets, group = cells // n_groups, cells % n_groups
        train, test, predicted = (side[:, sets] for side in (counts.train, counts.test, counts.predicted))
        before, after = rule.rates(train, test, predicted)
        rows = np.arange(len(cells))
        members = counts.members(sets)
        names = self._names or range(members.shape[1])
        return pd.DataFrame(
            {
                "attributes": [tuple(names[i] for i in np.flatnonzero(member)) for member in members],
                "size": members.sum(axis=1),
                "group": group,
                "positive": positive[group, sets],
                "train_bias": train[group, rows] / train.sum(axis=0),
                "reference": before[group, rows],
                "predicted": after[group, rows],
                "d": change[group, sets],
                "n_train": train[group, rows],
                "n_test": test[group, rows],
                "n_predicted": predicted[group, rows],
            }
        )


def bias_amplification(
    train: Labels,
    test: Labels,
    predicted: Labels,
    *,
    kind: Kind = "undirected",
    min_size: int = 1,
    max_size: int | None = None,
    sets: _Sets = "all",
    absolute: bool = True,
    reference: _Reference = "test",
    n_groups: int | None = None,
    threshold: _Threshold = "1/G",
) -> Amplification:
    r"""Multi-attribute bias amplification (Zhao, Andrews and Xiang 2023, equations 1 to 3).

    An image *has* the set m if it has all its attributes; it may have others. M holds every set that at least one
    training image and at least one test image has, of whatever group: the paper asks for co-occur(m, g) >= 1 without
    saying for which g, and a set that one group alone has is the most biased of all. With
    $b(m, g) = \mathrm{cooccur}(m, g) / \sum_{g'} \mathrm{cooccur}(m, g')$ the changes d(g, m) and their means are

    * undirected: $d = 1[b_{train} > 1/|G|]\,(b_{pred} - b_{train})$ and $\frac{1}{|M|} \sum_{g, m} |d|$, the
      predictions being those of the attributes and of the group;
    * group to attribute: $d = P(\hat m \mid g) - P(m \mid g)$, and attribute to group:
      $d = P(\hat g \mid m) - P(g \mid m)$, what is given being true of the test images; both with
      $\frac{1}{|G||M|} \sum_{g, m} |d|$, or $y d - (1 - y) d$ in place of $|d|$ where `absolute` is False,
      $y = 1[P_{train}(g, m) > P_{train}(g)\,P_{train}(m)]$.

    `max_size=1, absolute=False` gives the single-attribute metrics of Zhao et al. 2017 (undirected) and of Wang and
    Russakovsky 2021 (directional). Relabelling groups or attributes changes nothing. Predictions equal to the labels of
    the reference give 0. Means lie in [0, 1], or [-1, 1] where signed; with three groups or more the undirected one may
    exceed 1. A `BiaslibError` is raised, before any long computation, for labels that do not fit together, a group or
    an attribute that never occurs in train or in test, unknown options, or more sets than can be counted.

    Args:
        train: labels of the training images.
        test: labels of the test images.
        predicted: what the model says of the test images, in their order.
        kind: which way: both predicted at once, the group's influence on the attributes, or theirs on the group.
        min_size: smallest set, >= 1.
        max_size: largest set; None for no limit.
        sets: "all" of M, or "observed": only whole label sets of some training image (the released code's M).
        absolute: sizes of changes, which cannot cancel; False: signed ("raw") ones, > 0 for amplification.
        reference: what a directional change starts from: the labels of "test" (Wang and Russakovsky 2021, and the
            released code), or of "train" (as the paper writes it). The undirected change always starts from train.
        n_groups: number of groups; one more than the largest number where not given.
        threshold: from where the undirected metric counts a group: "1/G", or "1/(G-1)" as in the last version of the
            released code, which no cell of two groups ever passes. The first version, behind its values of CelebA,
            divides by the number of group columns: 1/G where each group has a column.

    Example:
        >>> labels = Labels([[1, 0], [1, 1], [0, 1], [1, 1]], [0, 0, 1, 1])
        >>> predicted = Labels([[1, 0], [1, 1], [0, 1], [0, 1]], [0, 0, 1, 1])
        >>> bias_amplification(labels, labels, predicted, kind="group_to_attribute").mean
        0.16666666666666666
    """
    check_known("kind", kind, get_args(Kind))
    check_known("sets", sets, get_args(_Sets))
    check_known("reference", reference, get_args(_Reference))
    check_known("threshold", threshold, get_args(_Threshold))
    n_groups = _check_comparable(train, test, predicted, n_groups)
    width = train.attributes.shape[1]
    largest = width if max_size is None else min(max_size, width)
    if not 1 <= min_size <= largest:
        raise refused("no set of that size", least=min_size, most=largest, width=width)
    # what the kind takes as given is put back to the truth
    if kind == "group_to_attribute":
        predicted = Labels(predicted.attributes, test.groups)
    elif kind == "attribute_to_group":
        predicted = Labels(test.attributes, predicted.groups)
    counts = count_sets(
        train, test, predicted,
        n_groups=n_groups, min_size=min_size, max_size=largest, observed=sets == "observed",
    )  # fmt: skip
    sizes = np.stack([np.bincount(labels.groups, minlength=n_groups) for labels in (train, test)])[..., None]
    rule = Rule(kind, reference, threshold, sizes)
    mean, variance = _moments(counts, rule, absolute=absolute)
    never = int((~counts.predicted.any(axis=0)).sum())
    return Amplification(mean, variance, counts.n_sets, never, counts, rule, tuple(train.names))


def _check_comparable(train: Labels, test: Labels, predicted: Labels, n_groups: int | None) -> int:
    """The number of groups, where the three fit together and every group and attribute occurs in train and test."""
    if len(predicted) != len(test):
        raise BiaslibError(f"{len(predicted)} predictions for {len(test)} test images: predict every test image once.")
    widths = [labels.attributes.shape[1] for labels in (train, test, predicted)]
    if len(set(widths)) > 1:
        raise refused("other attributes", a=widths[0], b=widths[1], c=widths[2])
    if n_groups is None:
        n_groups = 1 + int(max(train.groups.max(), test.groups.max()))
    if n_groups < 2:
        raise BiaslibError("There is one group only: amplification compares two groups or more.")
    for what, labels in (("train", train), ("test", test), ("predicted", predicted)):
        if labels.groups.max() >= n_groups:
            raise refused("group beyond the last", what=what, group=labels.groups.max(), n=n_groups, last=n_groups - 1)
    for what, labels in (("train", train), ("test", test)):
        missing = np.setdiff1d(np.arange(n_groups), labels.groups)
        if len(missing):
            raise refused("group without an image", group=missing[0], n=n_groups, what=what)
        absent = np.flatnonzero(~labels.attributes.any(axis=0))
        if len(absent):
            name = repr(labels.names[absent[0]]) if labels.names else absent[0]
            raise refused("attribute that never occurs", name=name, what=what)
    return n_groups


def _moments(counts: SetCounts, rule: Rule, *, absolute: bool) -> tuple[float, float]:
    """Mean, and variance over all cells; a change that is undefined adds nothing, and its cell is counted."""
    total, cells, mean, spread = 0.0, 0, 0.0, 0.0
    n_groups = len(rule.group_sizes[0])
    for start in range(0, counts.n_sets, _CHUNK):
        some = slice(start, start + _CHUNK)
        change, positive = rule.changes(counts.train[:, some], counts.test[:, some], counts.predicted[:, some])
        change = np.nan_to_num(change)
        if absolute:
            total += np.abs(change).sum()
        elif rule.kind == "undirected":
            total += change.sum()
        else:
            total += np.where(positive, change, -change).sum()
        # Chan, Golub and LeVeque 1979: no cancellation, however small the changes are
        n, shift = change.size, change.mean() - mean
        spread += change.var() * n + shift**2 * cells * n / (cells + n)
        cells += n
        mean += shift * n / cells
    if cells == 0:
        return float("nan"), float("nan")
    divisor = counts.n_sets if rule.kind == "undirected" else counts.n_sets * n_groups
    return float(total / divisor), float(spread / cells)


def _largest(size: np.ndarray, weight: np.ndarray, top: int | None) -> np.ndarray:
    """Numbers of the `top` cells of largest size, undefined ones last; ties by weight, then by number."""
    size = np.nan_to_num(size, nan=-1.0)
    cells = np.arange(len(size))
    if top is not None and top < len(size):
        cells = np.flatnonzero(size >= np.partition(size, len(size) - top)[len(size) - top]) if top > 0 else cells[:0]
    order = np.lexsort((cells, -weight[cells].astype(np.int64), -size[cells]))
    return cells[order][:top]
