"""Training sets of one size whose attribute correlates as asked with the group, as near as can be to the original."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from biaslib.errors import BiaslibError, refused

# Shares of the attribute and of the group that are looked at together, and how often the best are looked at closer.
_GRID, _ROUNDS, _NEAR = 161, 4, 3
# Whole numbers are looked for so far around the exact table; then with a smaller total, so often.
_REACH, _SHRINK, _SIZES = (2, 6, 20), 0.99, 60
_TOLERANCE = 1e-3  # allowed distance from the target
_CELLS = (
    "with the attribute in group 1",
    "with the attribute in group 0",
    "without the attribute in group 1",
    "without the attribute in group 0",
)


def subsample_to_mcc(
    attribute: np.ndarray, group: np.ndarray, targets: Sequence[float], *, size: int | None = None, seed: int = 0
) -> list[np.ndarray]:
    r"""For each target the rows among which attribute and group have that correlation, all of one number.

    The subsampling of Serianni et al. (2025, appendix E): of all tables of the four subgroup sizes with the target MCC
    (Matthews' correlation coefficient), none larger than the original, the one at the smallest L2 distance to it; then
    once more with the total fixed to the smallest of these tables. The paper starts SciPy's trust-region optimiser from
    the neighbouring target's sizes. There may be several local optima, so here the two shares that MCC and total leave
    free are searched as a whole, and an optimiser (SLSQP) only polishes what that finds.

    Attribute and group are (N,) bool, or 0 and 1; `targets` lie in [-1, 1] and are met to within 0.001. Every set has
    `size` rows (None: as many as the smallest of the nearest tables has, or the next smaller number for which whole
    numbers come that near), as increasing indices; rows of a subgroup are taken in one random order of the seed, so
    that the sets of neighbouring targets share as many as can be. The paper's distance may leave a subgroup nearly
    empty; that of the authors' code, $\sum_i (g_i - g^0_i)^2 / g_i^2$, does not.

    A `BiaslibError` is raised for arrays that do not fit together, and a target out of reach, at all or at that size.
    """
    has, member = _checked(attribute, "attribute"), _checked(group, "group")
    if has.shape != member.shape:
        raise BiaslibError(f"attribute has {len(has)} rows and group {len(member)}: give one of each for every image.")
    cells = 2 * ~has + ~member
    available = np.bincount(cells, minlength=4)
    order = np.random.default_rng(seed).permutation(len(cells))
    of_cell = [order[cells[order] == cell] for cell in range(4)]
    tables = subgroup_sizes(available, targets, size=size)
    return [np.sort(np.concatenate([rows[:n] for rows, n in zip(of_cell, table, strict=True)])) for table in tables]


def subgroup_sizes(available: np.ndarray, targets: Sequence[float], *, size: int | None = None) -> np.ndarray:
    """The four subgroup sizes for each target, (T, 4) int, each row with the same total; size as `subsample_to_mcc`.

    `available` (4,) images have the attribute in group 1 and in group 0, and lack it in group 1 and in group 0. A
    target that cannot be reached, at all or with that total, is a `BiaslibError`.
    """
    available, wanted = np.asarray(available), [float(target) for target in targets]
    if not wanted or not all(-1 <= target <= 1 for target in wanted):
        raise BiaslibError(f"targets must be one or more correlations in [-1, 1], not {list(targets)!r}.")
    for target in wanted:
        for cell in {1: (0, 3), -1: (1, 2), 0: (0, 1, 2, 3)}[int(np.sign(target))]:
            if available[cell] == 0:
                raise BiaslibError(f"a correlation of {target:g} cannot be reached: there is no image {_CELLS[cell]}.")
    searches = [_Search(available.astype(float), target) for target in wanted]
    if size is None:
        # both sums are found numerically: the nearest may seem to be larger than the largest, by less than an image
        size = int(min(min(search.nearest().sum(), search.largest().sum()) for search in searches) + 0.01)
        sizes = list(dict.fromkeys(int(size * _SHRINK**step) for step in range(_SIZES)))
    else:
        sizes = [size]
    for search in searches:
        most = int(search.largest().sum() + 0.01)
        if not 2 <= size <= most:
            raise refused("correlation out of reach", mcc=search.mcc, size=size, groups=_listed(available), most=most)
    for total in sizes:
        tables = [search.whole(total) for search in searches]
        if all(len(table) for table in tables):
            return np.stack(tables)
    missed = wanted[[len(table) for table in tables].index(0)]
    raise refused("no correlation of that size", size=size, within=_TOLERANCE, missed=missed, groups=_listed(available))


@dataclass(frozen=True)
class _Search:
    """Tables (4,) of one MCC, none larger than the available one."""

    available: np.ndarray
    mcc: float

    def nearest(self, total: float | None = None) -> np.ndarray:
        """The table with that total, or of any, at the smallest distance."""
        tables = self._grid(total)
        if total is not None:  # few tables may fit: the largest one, made smaller, is known to
            largest = self.largest()
            tables = np.concatenate([tables, (largest * (total / largest.sum()))[:, None]], axis=1)
        losses = self._loss(tables)
        return self._polished(tables[:, losses.argmin()], self._loss, total)

    def largest(self) -> np.ndarray:
        tables = self._grid(None, largest=True)
        return self._polished(tables[:, tables.sum(axis=0).argmax()], lambda table: -table.sum(), None)

    def whole(self, total: int) -> np.ndarray:
        """The nearest whole numbers, (4,), first around the exact table, then any with the MCC; none: (0,)."""
        exact = np.round(self.nearest(total)).astype(int)[:, None]
        for reach in _REACH:
            if (table := self._nearest_whole(exact, min(reach, total), total)).size:
                return table
        return self._nearest_whole(np.unique(np.round(self._grid(total)).astype(int), axis=1), 1, total)

    def _nearest_whole(self, around: np.ndarray, reach: int, total: int) -> np.ndarray:
        steps = np.array(list(itertools.product(range(-reach, reach + 1), repeat=3))).T
        first = (around[:3, :, None] + steps[:, None]).reshape(3, -1)
        tables = np.concatenate([first, total - first.sum(axis=0, keepdims=True)])
        tables = tables[:, ((tables >= 0) & (tables <= self.available[:, None])).all(axis=0)]
        tables = tables[:, np.abs(_mcc(tables) - self.mcc) <= _TOLERANCE]
        return tables[:, self._loss(tables).argmin()] if tables.size else np.zeros(0, int)

    def _loss(self, tables: np.ndarray) -> np.ndarray:
        """Distances of tables (4, ...)."""
        apart = tables - self.available.reshape(4, *[1] * (tables.ndim - 1))
        return (apart**2).sum(axis=0)

    def _grid(self, total: float | None, *, largest: bool = False) -> np.ndarray:
        """Tables (4, k): over the shares of attribute and group, and on smaller windows around the best again."""
        low, high = np.zeros(2), np.ones(2)
        grids: list[np.ndarray] = [np.zeros((4, 0))]
        for _ in range(_ROUNDS):
            steps = [np.clip(np.linspace(*ends, _GRID), 1e-9, 1 - 1e-9) for ends in zip(low, high, strict=True)]
            where = np.stack(np.meshgrid(*steps, indexing="ij")).reshape(2, -1)
            shares = _table(where[0], where[1], self.mcc)
            fits = (shares >= -1e-12).all(axis=0)
            where, shares = where[:, fits], np.maximum(shares[:, fits], 1e-12)
            most = (self.available[:, None] / shares).min(axis=0)
            if largest:
                totals = most
            elif total is not None:
                where, shares = where[:, most >= total], shares[:, most >= total]
                totals = np.full(shares.shape[1], total)
            else:
                totals = np.minimum(most, self.available @ shares / (shares**2).sum(axis=0))
            tables = shares * totals
            if not tables.size:
                break
            grids.append(tables)
            best = (-totals if largest else self._loss(tables)).argmin()
            width = _NEAR * (high - low) / (_GRID - 1)
            low, high = np.maximum(where[:, best] - width, 0.0), np.minimum(where[:, best] + width, 1.0)
        return np.concatenate(grids, axis=1)

    def _polished(
        self, start: np.ndarray, loss: Callable[[np.ndarray], float | np.ndarray], total: float | None
    ) -> np.ndarray:
        """The table, or a better one that an optimiser finds from it."""
        scale = self.available.max()
        unit = max(abs(float(loss(start))), 1e-12)
        constraints = [{"type": "eq", "fun": lambda table: float(_mcc(np.maximum(table, 1e-12))) - self.mcc}]
        if total is not None:
            constraints.append({"type": "eq", "fun": lambda table: table.sum() - total / scale})
        result = minimize(
            lambda table: float(loss(table * scale)) / unit, start / scale, method="SLSQP", constraints=constraints,
            bounds=[(0, n / scale) for n in self.available], options={"maxiter": 200, "ftol": 1e-12},
        )  # fmt: skip
        table = np.clip(result.x * scale, 0, self.available)
        fits = abs(float(_mcc(np.maximum(table, 1e-12))) - self.mcc) < 1e-7
        fits &= total is None or abs(table.sum() - total) < 1e-3
        return table if fits and float(loss(table)) < float(loss(start)) else start


def _table(attribute: np.ndarray, group: np.ndarray, mcc: float) -> np.ndarray:
    """Shares of the four subgroups, (4, ...), from the shares of attribute and group; negative: there is no such."""
    covariance = mcc * np.sqrt(attribute * (1 - attribute) * group * (1 - group))
    with_it = np.stack([attribute * group + covariance, attribute * (1 - group) - covariance])
    without = np.stack([(1 - attribute) * group - covariance, (1 - attribute) * (1 - group) + covariance])
    return np.concatenate([with_it, without])


def _mcc(tables: np.ndarray) -> np.ndarray:
    """Of tables (4, ...); NaN where attribute or group does not vary."""
    a, b, c, d = tables.astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (a * d - b * c) / np.sqrt((a + b) * (c + d) * (a + c) * (b + d))


def _listed(available: np.ndarray) -> str:
    return ", ".join(f"{n:,} {cell}" for n, cell in zip(available, _CELLS, strict=True))


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or not len(values) or not np.isin(values, (0, 1)).all():
        raise BiaslibError(f"{name} must be (N,) of 0 and 1 with N >= 1, not {values.dtype} of shape {values.shape}.")
    return values.astype(bool)
