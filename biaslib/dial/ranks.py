"""Whether metrics put models into the same order: between metrics, between families, and about single models."""

import itertools
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import pandas as pd

from biaslib.dial.catalogue import EXACT, METRICS
from biaslib.errors import BiaslibError, check_known
from biaslib.statistics import Interval
from biaslib.statistics.intervals import percentile_ends

_Cells = tuple[np.ndarray, ...]  # rows and columns
_Kind = Literal["all models", "same strength", "given the effect"]
KINDS: Final = get_args(_Kind)
TRUTH: Final = "truth"  # the family of the exact sensitivity, which is the true effect
_TAIL: Final = (1 - 0.95) / 2  # outside the interval on either side
_EACH, _ITSELF, _ANOTHER = "each family", "itself", "another"  # all pairs of metrics within a family, and between two


@dataclass(frozen=True)
class _PairSigns:
    """Which of each two models of one world every metric finds more biased."""

    names: tuple[str, ...]  # of M metrics, the true effect first
    signs: np.ndarray  # (M, P) for P pairs: 1 where the first model has the higher risk score, -1 the second, 0 a tie
    known: np.ndarray  # (M, P) whether the metric has both models
    pairs: np.ndarray  # (P, 2) which models; only those of the same strength, where these alone are compared
    strengths: np.ndarray  # (models,) at which each was trained


def rank_agreement(table: pd.DataFrame, *, kind: _Kind = "all models") -> pd.DataFrame:
    """Kendall's tau between each two metrics, in a table of `verdicts.numbers`: the mean over worlds.

    `kind`: over all models of a world; only between models of the same strength; or over all models, given the true
    effect (Kendall's partial tau). (metrics, metrics), named, the true effect first; NaN where no world has both.
    """
    worlds = _worlds_of(table, kind)
    return pd.DataFrame(_mean_tau(worlds, kind), index=worlds[0].names, columns=worlds[0].names)


def between_families(
    table: pd.DataFrame, *, kind: _Kind = "all models", resamples: int = 300, seed: int = 0
) -> pd.DataFrame:
    """The median of tau over the pairs of metrics of each two families, and within each; `table`, `kind` as above.

    95 % intervals are those of a bootstrap over models, drawn within each world and strength. They are about other
    models of the same worlds; with two or three models a strength they are rough.

    A row each: `first`, `second` (families, "truth" the true effect), `pairs` (of metrics that tau is defined for) and
    `tau` (Interval, n = models); then one for all pairs "each family", "itself" and one for all "each family",
    "another", the truth left out. What is defined for no pair of metrics is left out.
    """
    worlds = _worlds_of(table, kind)
    family = np.array([TRUTH, *(METRICS[name].family for name in worlds[0].names[1:])])
    cells, taus = _cells_of_families(family), _mean_tau(worlds, kind)
    rng = np.random.default_rng(seed)
    drawn = np.array(
        [_medians(_mean_tau(worlds, kind, [_draw(world, rng) for world in worlds]), cells) for _ in range(resamples)]
    )
    n = sum(len(world.strengths) for world in worlds)
    rows = []
    for key, estimate, medians in zip(cells, _medians(taus, cells), drawn.T, strict=True):
        if np.isfinite(estimate):
            pairs = int(np.isfinite(taus[cells[key]]).sum())
            rows.append((*key, pairs, Interval(estimate, *percentile_ends(medians, _TAIL), n)))
    return pd.DataFrame(rows, columns=["first", "second", "pairs", "tau"])


def _pair_signs(part: pd.DataFrame, names: tuple[str, ...], kind: _Kind) -> _PairSigns:
    wide = part.pivot_table(index="model", columns="metric", values="risk_score").reindex(columns=list(names))
    strengths = part.groupby("model")["strength"].first().reindex(wide.index).to_numpy()
    first, second = np.triu_indices(len(wide), 1)
    if kind == "same strength":  # only the images of their data and the initial weights differ
        alike = strengths[first] == strengths[second]
        first, second = first[alike], second[alike]
    apart = np.round(wide.to_numpy()[first].T - wide.to_numpy()[second].T, 9)  # equal but for rounding is equal
    pairs = np.stack([first, second], axis=1)
    return _PairSigns(names, np.sign(np.nan_to_num(apart)), np.isfinite(apart).astype(float), pairs, strengths)


def _worlds_of(table: pd.DataFrame, kind: _Kind = "all models") -> list[_PairSigns]:
    """The pairs of models of each world and architecture, in the order of the table (of `verdicts.numbers`)."""
    check_known("kind", kind, KINDS)
    measured = set(table["metric"])
    if EXACT.name not in measured:
        raise BiaslibError(f"The table lacks {EXACT.name!r}, the true effect that metrics are compared with.")
    known = {EXACT.name: EXACT, **METRICS}
    names = (*(name for name in known if name in measured), *sorted(measured - known.keys()))  # last those of others
    return [_pair_signs(part, names, kind) for _, part in table.groupby(["world", "architecture"], sort=False)]


def _tau(world: _PairSigns, weights: np.ndarray | None = None) -> np.ndarray:
    r"""(M, M) Kendall's tau-b in [-1, 1] between each two metrics of one world.

    $\tau_{ij} = \sum_p w_p s_{ip} s_{jp} / \sqrt{\sum_p w_p s_{ip}^2 \; \sum_p w_p s_{jp}^2}$ over pairs of models p
    that both metrics have, with signs s (Kendall 1945); NaN where a metric is missing or gives all models one value. A
    pair's weight is the product of its models' `weights` (models,), such as a bootstrap's draw.
    """
    counts = np.ones(len(world.pairs)) if weights is None else weights[world.pairs].prod(axis=1).astype(float)
    signed = world.signs * counts
    untied = (signed * world.signs) @ world.known.T  # [i, j]: pairs that i does not tie, of those that j has
    room = untied * untied.T
    taus = np.full(room.shape, np.nan)
    np.divide(signed @ world.signs.T, np.sqrt(room), out=taus, where=room > 0)
    return taus


def _partial_tau(taus: np.ndarray) -> np.ndarray:
    r"""Agreement beyond what both owe to the first of the metrics: Kendall's partial tau (Kendall 1942).

    $\tau_{ij \cdot 0} = (\tau_{ij} - \tau_{i0} \tau_{j0}) / \sqrt{(1 - \tau_{i0}^2)(1 - \tau_{j0}^2)}$, (M, M) in
    [-1, 1], the first metric held fixed; NaN for it, and for one that orders the models as it does.
    """
    fixed = taus[0]
    room = np.where(1 - fixed**2 > 1e-9, 1 - fixed**2, np.nan)
    partial = np.asarray((taus - np.outer(fixed, fixed)) / np.sqrt(np.outer(room, room)))
    partial[0], partial[:, 0] = np.nan, np.nan
    return partial


def _mean_tau(worlds: list[_PairSigns], kind: _Kind, weights: list[np.ndarray] | None = None) -> np.ndarray:
    """The mean over worlds, (M, M); NaN where no world has both metrics."""
    drawn: list[np.ndarray | None] = [None] * len(worlds) if weights is None else [*weights]
    taus = [_tau(world, models) for world, models in zip(worlds, drawn, strict=True)]
    stacked = np.array([_partial_tau(layer) if kind == "given the effect" else layer for layer in taus])
    n = np.isfinite(stacked).sum(axis=0)
    return np.where(n > 0, np.nansum(stacked, axis=0) / np.maximum(n, 1), np.nan)


def _draw(world: _PairSigns, rng: np.random.Generator) -> np.ndarray:
    """(models,) how often each is drawn, with replacement among those of its strength."""
    weights = np.zeros(len(world.strengths), dtype=int)
    for strength in np.unique(world.strengths):
        same = np.flatnonzero(world.strengths == strength)
        weights[same] = rng.multinomial(len(same), np.full(len(same), 1 / len(same)))
    return weights


def _cells_of_families(family: np.ndarray) -> dict[tuple[str, str], _Cells]:
    """Rows and columns of the pairs of metrics of each two families, each pair once and no metric with itself."""
    once = np.triu(np.ones((len(family), len(family)), bool), 1)
    same, metric = family[:, None] == family, family != TRUTH
    cells = {
        (first, second): np.nonzero(once & (family[:, None] == first) & (family == second))
        for first, second in itertools.combinations_with_replacement(dict.fromkeys(family.tolist()), 2)
    }
    both = once & metric[:, None] & metric
    return cells | {(_EACH, _ITSELF): np.nonzero(both & same), (_EACH, _ANOTHER): np.nonzero(both & ~same)}


def _medians(taus: np.ndarray, cells: dict[tuple[str, str], _Cells]) -> list[float]:
    defined = [values[np.isfinite(values)] for values in (taus[places] for places in cells.values())]
    return [float(np.median(values)) if len(values) else float("nan") for values in defined]
