"""How many images of each group have all attributes of a set, for all sets at once (Zhao et al. 2023, appendix H).

Three ways to the same counts. *Table*: a histogram over all 2^A label sets and one sum over supersets, for A up to 24.
*Levels*: sets grow by one attribute at a time, and only those go on that occur in both train and test, for sets that
are few among very many. *Observed*: only given sets, by one matrix product.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from biaslib.errors import BiaslibError
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
        """The rows of these labels."""
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
    train: Labels,
    test: Labels,
    predicted: Labels,
    *,
    n_groups: int,
    min_size: int,
    max_size: int,
    observed: bool,
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
        raise BiaslibError(
            f"With {width} attributes, up to {most} of them on one image, all images together have up to {work:.1e} "
            f"sets, more than the {_MOST_PAIRS:.1e} that can be counted: give a smaller max_size, drop attributes, or "
            "take sets='observed'."
        )
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


@dataclass(frozen=True)
class _Pairs:
    """Where the sets of one size are: each pair is a row, the place of the set's last attribute in it, and the set.

    `slot` is the set's number, and before it is known which sets go on, its place among all that could.
    """

    row: np.ndarray
    place: np.ndarray
    slot: np.ndarray

    def keep(self, going_on: np.ndarray, number: np.ndarray) -> "_Pairs":
        """Those whose set goes on, under its new number."""
        index = np.flatnonzero(going_on[self.slot])
        return _Pairs(self.row[index], self.place[index], number[self.slot[index]])


@dataclass(frozen=True)
class _Lists:
    """_Rows as lists: the attributes of row i are `items[start[i] : start[i + 1]]`, increasing; weights are (G, U)."""

    items: np.ndarray
    start: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, rows: _Rows) -> "_Lists":
        """The rows of a table as lists."""
        sizes = rows.attributes.sum(axis=1)
        items = np.nonzero(rows.attributes)[1].astype(np.int32)
        return cls(items, np.append(0, np.cumsum(sizes)).astype(np.int32), rows.weights.T.astype(np.float64))

    def roots(self) -> _Pairs:
        """The empty set, in every row."""
        n = len(self.start) - 1
        return _Pairs(np.arange(n, dtype=np.int32), self.start[:-1] - 1, np.zeros(n, np.int32))

    def grown(self, pairs: _Pairs, base: np.ndarray) -> _Pairs:
        """Every set with each attribute of its row that comes after its last; `base[set] + attribute` is its slot."""
        left = self.start[pairs.row + 1] - 1 - pairs.place
        ends = np.cumsum(left)
        place = np.arange(ends[-1] if len(ends) else 0, dtype=np.int32)
        place += np.repeat((pairs.place + 1 - (ends - left)).astype(np.int32), left)
        slot = np.repeat(base[pairs.slot], left)
        slot += self.items[place]
        return _Pairs(np.repeat(pairs.row, left), place, slot)

    def unfinished(self, pairs: _Pairs) -> _Pairs:
        """Those whose row has attributes after the set's last."""
        index = np.flatnonzero(pairs.place < self.start[pairs.row + 1] - 1)
        return _Pairs(pairs.row[index], pairs.place[index], pairs.slot[index])

    def counts(self, pairs: _Pairs, n_sets: int) -> np.ndarray:
        """(G, n) how many images of each group have each set."""
        return np.array([np.bincount(pairs.slot, weights[pairs.row], n_sets) for weights in self.weights], np.int32)


def _count_by_levels(sides: list[_Rows], min_size: int, max_size: int) -> SetCounts:
    n_groups = sides[0].weights.shape[1]
    levels = list(_levels(sides, min_size, max_size))
    parent, last = (np.concatenate([np.empty(0, np.int32), *(level[i] for level in levels)]) for i in (0, 1))
    first = sum(level[0].size for level in levels if level[2] is None)
    counted = [level[2] for level in levels if level[2] is not None]
    counts = np.concatenate([np.empty((3, n_groups, 0), np.int32), *counted], axis=2)
    del levels, counted
    width = sides[0].attributes.shape[1]
    return SetCounts(counts[0], counts[1], counts[2], partial(_attributes_of, parent, last, first, width))


def _levels(
    sides: list[_Rows], min_size: int, max_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """For each size: the number of the set that each one extends (-1: none), its last attribute, counts (3, G, n)."""
    width, n_groups = sides[0].attributes.shape[1], sides[0].weights.shape[1]
    lists = [_Lists.of(side) for side in sides]
    of_sides = [side.roots() for side in lists]
    last, before = np.array([-1], np.int32), -1
    for size in range(1, max_size + 1):
        room = width - 1 - last.astype(np.int64)  # attributes that may come after the last one
        base = np.cumsum(room) - room - last - 1
        if room.sum() < 2**31:
            base = base.astype(np.int32)
        grown = [lists[i].grown(of_sides[i], base) for i in (0, 1)]
        going_on = np.ones(int(room.sum()), bool)
        for pairs in grown:
            seen = np.zeros_like(going_on)
            seen[pairs.slot] = True
            going_on &= seen
        number = np.cumsum(going_on, dtype=np.int32) - 1
        n_sets = int(going_on.sum())
        if n_sets == 0:
            return
        counts = np.empty((len(lists), n_groups, n_sets), np.int32) if size >= min_size else None
        for i, side in enumerate(lists):  # one side after the other, so that not all are in memory at once
            pairs = (grown.pop(0) if grown else side.grown(of_sides[i], base)).keep(going_on, number)
            if counts is not None:
                counts[i] = side.counts(pairs, n_sets)
            of_sides[i] = side.unfinished(pairs)
        parent = np.repeat(np.arange(len(last), dtype=np.int32), room)[going_on]
        last = (np.flatnonzero(going_on) - base[parent]).astype(np.int32)
        yield parent + np.int32(before), last, counts
        before += len(room)


def _attributes_of(parent: np.ndarray, last: np.ndarray, first: int, width: int, chosen: np.ndarray) -> np.ndarray:
    members = np.zeros((len(chosen), width), bool)
    index, at = np.arange(len(chosen)), np.asarray(chosen) + first
    while len(at):
        members[index, last[at]] = True
        at = parent[at]
        index, at = index[at >= 0], at[at >= 0]
    return members
