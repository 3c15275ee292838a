"""Training sets balanced by drawing rows again or leaving them out; `Subset` and `Resampled` say it in a `Recipe`."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, check_number, refused
from biaslib.metrics.labels import Labels
from biaslib.mitigation.subsampling import subsample_to_mcc

_ROUNDS = 100  # of balancing, through all attributes
_LARGEST = 50  # how many times the rows may become as many by that


def oversample(attributes: np.ndarray, groups: np.ndarray, *, eps: float = 0.025, seed: int = 0) -> np.ndarray:
    r"""(n,) indices of rows among which groups share every attribute evenly: all rows, then duplicates.

    Greedy, as Zhao, Andrews and Xiang (2023, section 5) describe it: images are duplicated until the groups are of one
    size; then, attribute by attribute, images that have it are duplicated in every group that lacks them, until
    $|P(g \mid a) - 1/|G|| \le \epsilon$ for every group g; and all again, as one attribute's duplicates have others
    too, until the groups and all attributes hold at once. Sets of two and more attributes are not looked at.

    Attributes are (N, A) bool, or 0 and 1, groups (N,) whole numbers 0, 1, ...; `eps` > 0 is also the allowed distance
    of a group's share of all images. A `BiaslibError` is raised for arrays that do not fit together; an attribute that
    some group never has; or where the balance is not reached within 100 rounds and 50 N rows.
    """
    attributes, groups = _checked(attributes, groups)
    if not eps > 0:
        raise BiaslibError(f"eps is the allowed distance from an even share and must be above 0, not {eps!r}.")
    n_groups = int(groups.max()) + 1
    for attribute, has in enumerate(attributes.T):
        counts = np.bincount(groups[has], minlength=n_groups)
        if not counts.all():
            raise refused("attribute that one group lacks", attribute=attribute, group=int(counts.argmin()))
    rng = np.random.default_rng(seed)
    rows = np.arange(len(groups))
    columns = np.column_stack([np.ones(len(groups), bool), attributes])  # the first is everyone's: groups of one size
    for _ in range(_ROUNDS):
        for has in columns.T:
            rows = _evened(rows, has, groups, eps, rng)
            if len(rows) > _LARGEST * len(groups):
                break
        away = np.abs(group_shares(columns[rows], groups[rows], n_groups) - 1 / n_groups).max(axis=1)
        if away.max() <= eps:
            return rows
        if len(rows) > _LARGEST * len(groups):
            break
    worst = int(away[1:].argmax())
    raise refused(
        "no balance by drawing again", eps=eps, n=len(rows), of=len(groups), worst=worst, away=away[1 + worst]
    )


def group_shares(attributes: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """(A, G) share of each group among the images with the attribute; NaN where there are none."""
    counts = np.asarray(attributes, float).T @ np.eye(n_groups)[groups]
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=1, keepdims=True)


def data_repair(attributes: np.ndarray, groups: np.ndarray, *, size: int, seed: int = 0) -> np.ndarray:
    """(size,) increasing indices of rows among which attributes and groups co-occur most evenly.

    Data repair of Agarwal et al. (2022) as Zhao, Andrews and Xiang (2023, appendix F) use it: subsampling that
    minimises the coefficient of variation of the number of images per attribute and group. From all rows on, the row is
    left out without which that is smallest, until `size` rows, 1 to N, are left; `seed` decides between equally good
    ones. A smaller size gives a subset of a larger one. Rows without any attribute count nowhere, and go last.

    Attributes and groups are those of `oversample`. A `BiaslibError` is raised for arrays that do not fit together, an
    attribute that nobody has, or a size that is not 1 to N.
    """
    attributes, groups = _checked(attributes, groups)
    check_number("size, the number of rows to keep,", size, 1, len(groups), whole=True)
    if not (has := attributes.any(axis=0)).all():
        raise BiaslibError(f"attribute {has.argmin()} has no image at all: leave the attribute out.")
    rng = np.random.default_rng(seed)
    # rows of the same labels are as good as each other: kinds of rows, group by group, in a random order
    groups = rng.permutation(groups.max() + 1)[groups]
    mixed = rng.permutation(len(groups))
    kinds, kind = np.unique(np.column_stack([groups, attributes])[mixed], axis=0, return_inverse=True)
    place = np.lexsort([rng.permutation(len(kinds)), kinds[:, 0]])
    kinds, kind = kinds[place], np.argsort(place)[kind.ravel()]
    left_out = _leave_out(kinds[:, 1:].astype(np.float64), kinds[:, 0], np.bincount(kind), len(groups) - size)
    rank = pd.Series(kind).groupby(kind).cumcount().to_numpy()  # of a row among those of its kind
    return np.sort(mixed[rank >= left_out[kind]])


@dataclass(frozen=True, kw_only=True)
class Subset:
    """The rows with one value of an attribute, with a chosen correlation of two attributes, or both."""

    only: tuple[str, bool] | None = None  #: an attribute and its value, if any
    correlation: tuple[str, str, float] | None = None  #: two attributes and their MCC, if any
    kept: int | None = None  #: how many rows are left where a correlation is asked for, else as many as can be
    seed: int = 0  #: of the choice

    def chosen(self, table: pd.DataFrame) -> np.ndarray:
        """Positions, increasing; raises where no row is left, and as `subsample_to_mcc` does."""
        rows = np.arange(len(table))
        if self.only:
            name, value = self.only
            rows = rows[table[name].to_numpy(bool) == value]
        if self.correlation:
            first, second = (table[name].to_numpy(bool)[rows] for name in self.correlation[:2])
            rows = rows[subsample_to_mcc(first, second, [self.correlation[2]], size=self.kept, seed=self.seed)[0]]
        if len(rows) == 0:
            raise BiaslibError(f"No image is left to train on among {len(table)}: take more images.")
        return rows


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """Rows drawn again or left out, so that attributes and group come together as if by chance."""

    attributes: tuple[str, ...]  #: columns of 0 and 1
    group: str  #: the column of the group
    eps: float | None = None  #: how balanced oversampling makes each attribute; None for data repair in its place
    kept: float = 0.5  #: share of the rows that data repair keeps
    seed: int = 0  #: of the choice

    def chosen(self, table: pd.DataFrame) -> np.ndarray:
        """Positions, with repetitions where oversampled."""
        attributes, groups = table[list(self.attributes)].to_numpy(bool), table[self.group].to_numpy()
        if self.eps is not None:
            return oversample(attributes, groups, eps=self.eps, seed=self.seed)
        return data_repair(attributes, groups, size=round(self.kept * len(table)), seed=self.seed)


def _leave_out(kinds: np.ndarray, groups: np.ndarray, available: np.ndarray, n: int) -> np.ndarray:
    """(U,) how many rows of each kind go, n together; kinds (U, A) are sorted by group.

    With S and Q the sums of the K counts and of their squares, the coefficient's square is KQ / S^2 - 1. One row less
    of a kind with k attributes makes S smaller by k, and Q by 2 (sum of the counts it is in) - k.
    """
    bounds = np.searchsorted(groups, np.arange(groups.max() + 2))
    of_group = [slice(*pair) for pair in pairwise(bounds)]
    counts = np.stack([available[rows] @ kinds[rows] for rows in of_group])
    k = kinds.sum(axis=1)
    inside = np.concatenate([kinds[rows] @ counts[group] for group, rows in enumerate(of_group)])
    total, squares = counts.sum(), (counts**2).sum()
    left = available.copy()
    for _ in range(n):
        cost = np.full(len(kinds), np.inf)
        # the last row with an attribute stays: without it there would be nothing to balance
        np.divide(squares - 2 * inside + k, (total - k) ** 2, out=cost, where=(left > 0) & (k < total))
        chosen = int(cost.argmin())
        left[chosen] -= 1
        total, squares = total - k[chosen], squares - 2 * inside[chosen] + k[chosen]
        rows = of_group[groups[chosen]]
        inside[rows] -= kinds[rows] @ kinds[chosen]
    return available - left


def _evened(rows: np.ndarray, has: np.ndarray, groups: np.ndarray, eps: float, rng: np.random.Generator) -> np.ndarray:
    """The rows, and just as many duplicates of those that have it as bring all groups' shares well within eps."""
    counts = np.bincount(groups[rows[has[rows]]], minlength=groups.max() + 1)
    even, others = 1 / len(counts), len(counts) - 1
    if np.abs(counts / counts.sum() - even).max() <= eps:
        return rows
    # to half of eps: at its very edge, attributes push each other out again for ever
    near = min(eps, even) / 2
    # beside the largest group's M, counts of at least this share of M keep the smallest and the largest that near
    level = max(others * (even - near) / (1 - even + near), (1 - even - near) / (others * (even + near)))
    wanted = np.maximum(counts, int(np.ceil(level * counts.max())))
    added = [rng.choice(np.flatnonzero(has & (groups == group)), n) for group, n in enumerate(wanted - counts)]
    return np.concatenate([rows, *added])


def _checked(attributes: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels = Labels(attributes, groups)
    if len(np.unique(labels.groups)) < 2:
        raise BiaslibError("there is one group only: nothing can be balanced.")
    return labels.attributes, labels.groups
