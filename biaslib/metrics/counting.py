"""How many images of each group have all attributes of a set, for all sets at once (Zhao et al. 2023, appendix H).

Three ways to the same counts. *Table*: a histogram over all 2^A label sets and one sum over supersets, for A up to 24.
*Levels*: sets grow by one attribute at a time, and only those go on that occur in both train and test, for sets that
are few among very many. *Observed*: only given sets, by one matrix product.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from biaslib.errors import refused
from biaslib.metrics.labels import Labels

# counts of three sides and three groups are then 0.6 GB
_LARGEST_TABLE = 24
# pairs of an image and a set in it: about a minute and 4 GB
_MOST_PAIRS = 1 << 29
# this many numbers of a matrix product at once
_BLOCK = 1 << 24


@dataclass(frozen=True)
class SetCounts:
    """Counts of n sets of attributes: how often each co-occurs with each group."""

    train: np.ndarray  # (G, n) int32
    test: np.ndarray
    predicted: np.ndarray
    members: Callable[[np.ndarray], np.ndarray]  # from numbers of sets (k,) to which attributes they hold, (k, A) bool

    @property
    def n_sets(self) -> int:
        """How many sets there are."""
        return self.train.shape[1]


@dataclass(frozen=True)
class _Rows:
    """The distinct label sets of some images, the empty one left out, and how many images of each group have them."""

    attributes: np.ndarray  # (U, A) bool
    weights: np.ndarray  # (U, G)

    @classmethod
    def of(cls, labels: Labels, n_groups: int) -> "_Rows":
        packed = np.packbits(np.ascontiguousarray(labels.attributes), axis=1)
        _, first, row = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
        weights = np.bincount(row * n_groups + labels.groups, minlength=len(first) * n_groups)
        attributes = labels.attributes[first]
        some = attributes.any(axis=1)
        return cls(attributes[some], weights.reshape(-1, n_groups)[some])

    @property
    def codes(self) -> np.ndarray:
        """Each row as a number, attribute a being worth 2^a."""
        return self.attributes @ (1 << np.arange(self.attributes.shape[1]))


def count_sets(
    train: Labels, test: Labels, predicted: Labels, *, n_groups: int, min_size: int, max_size: int, observed: bool
) -> SetCounts:
    """Counts of all sets of `min_size` to `max_size` attributes that occur in train and in test, whatever the group."""
    sides = [_Rows.of(labels, n_groups) for labels in (train, test, predicted)]
    width = train.attributes.shape[1]
    work = _most_pairs(sides, max_size)
    if width <= _LARGEST_TABLE and 1 << width <= max(1 << 16, work):
        return _count_by_table(sides, min_size, max_size, observed)
    if observed:
        return _count_observed(sides, min_size, max_size)
    if work > _MOST_PAIRS:
        most = max(int(side.attributes.sum(axis=1).max(initial=0)) for side in sides[:2])
        raise refused("too many sets to count", width=width, most=most, work=work, limit=_MOST_PAIRS)
    return _count_by_levels(sides, min_size, max_size)


def _most_pairs(sides: list[_Rows], max_size: int) -> int:
    """At most how many pairs of a distinct row and a set in it there are, over the three sides."""
    sizes = [np.bincount(side.attributes.sum(axis=1), minlength=1) for side in sides]
    largest = max(map(len, sizes))
    inside = [sum(math.comb(size, k) for k in range(1, min(size, max_size) + 1)) for size in range(largest)]
    totals = [sum(int(n) * inside[size] for size, n in enumerate(side)) for side in sizes]
    shared = min(totals[:2])  # a set occurs in train and in test
    return sum(int(n) * min(inside[size], shared) for side in sizes for size, n in enumerate(side))


def _superset_sums(table: np.ndarray) -> None:
    """Replaces each entry of (2^A,) by the sum over all numbers that contain its bits, in A passes, in place."""
    low = min(len(table), 1 << 15)  # what fits in a core's cache is summed there
    for block in table.reshape(-1, low):
        _sum_bits(block, 1)
    if len(table) > low:
        _sum_bits(table, low)


def _sum_bits(table: np.ndarray, bit: int) -> None:
    while bit < len(table):
        halves = table.reshape(-1, 2, bit)
        halves[:, 0] += halves[:, 1]
        bit *= 2


def _count_by_table(sides: list[_Rows], min_size: int, max_size: int, observed: bool) -> SetCounts:
    width, n_groups = sides[0].attributes.shape[1], sides[0].weights.shape[1]
    tables = np.zeros((len(sides), n_groups, 1 << width), np.int32)
    for side, table in zip(sides, tables, strict=True):
        table[:, side.codes] = side.weights.T
        for of_group in table:
            _superset_sums(of_group)
    size = np.bitwise_count(np.arange(1 << width, dtype=np.int32))
    chosen = (size >= min_size) & (size <= max_size)
    if observed:
        chosen &= np.bincount(sides[0].codes, minlength=1 << width) > 0
    for table in tables[:2]:
        chosen &= (table > 0).any(axis=0)
    codes = np.flatnonzero(chosen).astype(np.int32)
    train, test, predicted = tables.take(codes, axis=2)
    return SetCounts(train, test, predicted, partial(_bits_of, codes, width))


def _bits_of(codes: np.ndarray, width: int, chosen: np.ndarray) -> np.ndarray:
    return (codes[chosen, None] >> np.arange(width) & 1).astype(bool)


def _count_observed(sides: list[_Rows], min_size: int, max_size: int) -> SetCounts:
    size = sides[0].attributes.sum(axis=1)
    sets = sides[0].attributes[(size >= min_size) & (size <= max_size)]
    train, test, predicted = (_contained(sets, side) for side in sides)
    seen = test.any(axis=0)
    return SetCounts(train[:, seen], test[:, seen], predicted[:, seen], partial(np.ndarray.__getitem__, sets[seen]))


def _contained(sets: np.ndarray, side: _Rows) -> np.ndarray:
    """(G, n) how many images of each group contain each of the sets (n, A)."""
    counts = np.zeros((side.weights.shape[1], len(sets)), np.int32)
    rows, weights = side.attributes.T.astype(np.float32), side.weights.astype(np.float64)
    step = max(1, _BLOCK // max(1, len(side.attributes)))
    for start in range(0, len(sets), step):
        piece = sets[start : start + step].astype(np.float32)
        inside = piece @ rows == piece.sum(axis=1, keepdims=True)
        counts[:, start : start + step] = (inside @ weights).T
    return counts


def _count_by_levels(sides: list[_Rows], min_size: int, max_size: int) -> SetCounts:
    """Every row of every side has each of its sets once: a pair of the row and the set.

    A pair is three numbers: its row, the place of the set's last attribute in `items`, and the set's slot, which is its
    number, and before it is known which sets go on, its place among all that could.
    """
    width, n_groups = sides[0].attributes.shape[1], sides[0].weights.shape[1]
    bounds = np.cumsum([0, *(len(side.attributes) for side in sides)])
    weights = np.concatenate([side.weights for side in sides]).T.astype(np.float64)
    attributes = np.concatenate([side.attributes for side in sides])
    items, sizes = np.nonzero(attributes)[1].astype(np.int32), attributes.sum(axis=1)
    end = np.cumsum(sizes).astype(np.int32)  # the attributes of row i are items[end[i] - sizes[i] : end[i]], increasing
    row, slot = np.arange(len(end), dtype=np.int32), np.zeros(len(end), np.int32)
    place = (end - sizes - 1).astype(np.int32)  # the empty set, in every row
    # of each set the number of the one that it extends (-1: none), and the attribute that it adds
    parents, lasts = [np.empty(0, np.int32)], [np.array([-1], np.int32)]
    counted = [np.empty((3, n_groups, 0), np.int32)]
    before, first = -1, 0
    for size in range(1, max_size + 1):
        room = width - 1 - lasts[-1].astype(np.int64)  # attributes that may come after the last one
        base = np.cumsum(room) - room - lasts[-1] - 1  # `base[set] + attribute` is the slot of both together
        if room.sum() < 2**31:
            base = base.astype(np.int32)
        # every set with each attribute of its row that comes after its last
        left = end[row] - 1 - place
        ends = np.cumsum(left)
        shift = np.repeat((place + 1 - (ends - left)).astype(np.int32), left)
        row, slot = np.repeat(row, left), np.repeat(base[slot], left)
        place = np.arange(len(row), dtype=np.int32) + shift
        slot += items[place]
        going_on = np.ones(int(room.sum()), bool)
        for part in _parts(row, bounds)[:2]:  # those go on that occur in train and in test
            seen = np.zeros_like(going_on)
            seen[slot[part]] = True
            going_on &= seen
        n_sets = int(going_on.sum())
        if n_sets == 0:
            break
        number = np.cumsum(going_on, dtype=np.int32) - 1
        chosen = np.flatnonzero(going_on[slot])
        row, place, slot = row[chosen], place[chosen], number[slot[chosen]]
        if size >= min_size:
            counts = [
                [np.bincount(slot[part], of_group[row[part]], n_sets) for of_group in weights]
                for part in _parts(row, bounds)
            ]
            counted.append(np.array(counts, np.int32))
        else:
            first += n_sets
        parent = np.repeat(np.arange(len(lasts[-1]), dtype=np.int32), room)[going_on]
        lasts.append((np.flatnonzero(going_on) - base[parent]).astype(np.int32))
        parents.append(parent + np.int32(before))
        before += len(room)
        chosen = np.flatnonzero(place < end[row] - 1)  # those whose row has attributes after the set's last
        row, place, slot = row[chosen], place[chosen], slot[chosen]
    parent, last = np.concatenate(parents), np.concatenate(lasts[1:] or parents[:1])
    train, test, predicted = np.concatenate(counted, axis=2)
    return SetCounts(train, test, predicted, partial(_attributes_of, parent, last, first, width))


def _parts(row: np.ndarray, bounds: np.ndarray) -> list[slice]:
    """Where the pairs of each side are, of the increasing rows of all pairs."""
    return [slice(*ends) for ends in pairwise(np.searchsorted(row, bounds))]


def _attributes_of(parent: np.ndarray, last: np.ndarray, first: int, width: int, chosen: np.ndarray) -> np.ndarray:
    members = np.zeros((len(chosen), width), bool)
    index, at = np.arange(len(chosen)), np.asarray(chosen) + first
    while len(at):
        members[index, last[at]] = True
        at = parent[at]
        index, at = index[at >= 0], at[at >= 0]
    return members
