"""Whether metrics put models into the same order: between metrics, between families, and about single models."""

import itertools
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from biaslib.dial.catalogue import BY_NAME, EXACT, METRICS
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval

Cells = tuple[np.ndarray, ...]  # rows and columns
Kind = Literal["all models", "same strength", "given the effect"]
KINDS: Final[tuple[Kind, ...]] = ("all models", "same strength", "given the effect")
TRUTH: Final = "truth"  # the family of the exact sensitivity, which is the true effect
EACH, ITSELF, ANOTHER = "each family", "itself", "another"  # all pairs of metrics within a family, and between two


@dataclass(frozen=True)
class Orders:
    """What every metric says of each two models of one world.

    Attributes:
        names: of M metrics, the true effect first.
        signs: (M, P) for P pairs of models 1 where the metric fears the first more, -1 the second, 0 for a tie.
        known: (M, P) whether the metric has both models.
        pairs: (P, 2) which models.
        strengths: (models,) at which each was trained.
    """

    names: tuple[str, ...]
    signs: np.ndarray
    known: np.ndarray
    pairs: np.ndarray
    strengths: np.ndarray


def orders(table: pd.DataFrame) -> list[Orders]:
    """The pairs of models of each world and architecture, in the table's order.

    Args:
        table: of `verdicts.numbers`.

    Raises:
        BiaslibError: for a table without the true effect.
    """
    there = set(table["metric"])
    if EXACT.name not in there:
        raise BiaslibError(f"The table lacks {EXACT.name!r}, the true effect that metrics are compared with.")
    names = (EXACT.name, *(metric.name for metric in METRICS if metric.name in there - {EXACT.name}))
    return [_orders(part, names) for _, part in table.groupby(["world", "architecture"], sort=False)]


def tau(one: Orders, *, weights: np.ndarray | None = None, same_strength: bool = False) -> np.ndarray:
    r"""Kendall's tau-b between each two metrics of one world.

    $$\tau_{ij} = \frac{\sum_p w_p s_{ip} s_{jp}}{\sqrt{\sum_p w_p s_{ip}^2 \; \sum_p w_p s_{jp}^2}}$$

    over the pairs of models p that both metrics have, with signs s (Kendall 1945).

    Args:
        one: the pairs.
        weights: (models,) how often each model counts, such as a bootstrap's draw; a pair counts by the product.
        same_strength: compares only models of the same strength with each other: what is left of the agreement where
            the bias of the data is the same, and only its images and the initial weights differ.

    Returns:
        (M, M) in [-1, 1]; NaN where a metric is missing or gives all models the same value.
    """
    counts = np.ones(len(one.pairs)) if weights is None else weights[one.pairs].prod(axis=1).astype(float)
    if same_strength:
        counts = counts * (one.strengths[one.pairs[:, 0]] == one.strengths[one.pairs[:, 1]])
    signed = one.signs * counts
    own = (signed * one.signs) @ one.known.T  # [i, j]: pairs that i does not tie, of those that j has
    room = own * own.T
    found = np.full(room.shape, np.nan)
    np.divide(signed @ one.signs.T, np.sqrt(room), out=found, where=room > 0)
    return found


def partial(taus: np.ndarray) -> np.ndarray:
    r"""Agreement beyond what both owe to the first of the metrics: Kendall's partial tau (Kendall 1942).

    $$\tau_{ij \cdot 0} = \frac{\tau_{ij} - \tau_{i0} \tau_{j0}}{\sqrt{(1 - \tau_{i0}^2)(1 - \tau_{j0}^2)}}$$

    Args:
        taus: (M, M); the first is held.

    Returns:
        (M, M) in [-1, 1]; NaN in the first row and column, and for a metric that orders the models as the first does.
    """
    held = taus[0]
    room = np.where(1 - held**2 > 1e-9, 1 - held**2, np.nan)
    found = np.asarray((taus - np.outer(held, held)) / np.sqrt(np.outer(room, room)))
    found[0], found[:, 0] = np.nan, np.nan
    return found


def agreement(table: pd.DataFrame, *, kind: Kind = "all models") -> pd.DataFrame:
    """Kendall's tau between each two metrics: the mean over worlds of that within each.

    Args:
        table: of `verdicts.numbers`.
        kind: over all models of a world; only between models of the same strength; or over all models, given the true
            effect (`partial`).

    Returns:
        (metrics, metrics), named, the true effect first; NaN where no world has both.

    Raises:
        BiaslibError: for another kind, or as `orders`.
    """
    if kind not in KINDS:
        raise BiaslibError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    found = orders(table)
    return pd.DataFrame(_mean(found, kind, None), index=found[0].names, columns=found[0].names)


def between_families(
    table: pd.DataFrame, *, kind: Kind = "all models", resamples: int = 300, confidence: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """The median of tau over the pairs of metrics of each two families, and within each.

    Intervals are those of a bootstrap over models, drawn within each world and strength. They are about other models
    of the same worlds; with two or three models a strength they are rough.

    Args:
        table: of `verdicts.numbers`.
        kind: see `agreement`.
        resamples: of the bootstrap.
        confidence: of the intervals.
        seed: of the bootstrap.

    Returns:
        A row each: `first`, `second` (families, "truth" the true effect), `pairs` (of metrics that tau is defined for)
        and `tau` (Interval, n = models); then one for all pairs "each family", "itself" and one for all "each family",
        "another", the truth left out. What is defined for no pair of metrics is left out.

    Raises:
        BiaslibError: as `agreement`.
    """
    if kind not in KINDS:
        raise BiaslibError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    found = orders(table)
    family = np.array([TRUTH, *(BY_NAME[name].family for name in found[0].names[1:])])
    places, taus = _places(family), _mean(found, kind, None)
    rng = np.random.default_rng(seed)
    drawn = np.array(
        [_medians(_mean(found, kind, [_draw(one, rng) for one in found]), places) for _ in range(resamples)]
    )
    tail, n = (1 - confidence) / 2, sum(len(one.strengths) for one in found)
    rows = []
    for key, cells, estimate, column in zip(places, places.values(), _medians(taus, places), drawn.T, strict=True):
        some = column[np.isfinite(column)]
        low, high = np.quantile(some, [tail, 1 - tail]) if len(some) else (np.nan, np.nan)
        if np.isfinite(estimate):
            of_pairs = Interval(estimate, float(low), float(high), n, confidence)
            rows.append((*key, int(np.isfinite(taus[cells]).sum()), of_pairs))
    return pd.DataFrame(rows, columns=["first", "second", "pairs", "tau"])


def standings(table: pd.DataFrame) -> pd.DataFrame:
    """The table with `standing`: where each metric puts the model among all of its world, 0 calmest, 1 most feared."""
    ranks = table.groupby(["world", "architecture", "metric"], sort=False)["feared"]
    return table.assign(standing=(ranks.rank() - 1) / (ranks.transform("size") - 1).clip(lower=1))


def disagreement(table: pd.DataFrame) -> pd.DataFrame:
    """How far metrics differ about each model; the true effect is no party.

    Args:
        table: of `verdicts.numbers`.

    Returns:
        A row a model, the most disputed first: `world`, `architecture`, `strength`, `seed`, `model`, `effect`,
        `standing` (of the true effect), `low`, `high` (quartiles of the metrics' standings), `spread` (the quartiles'
        distance) and `metrics` (how many there are).
    """
    rows = []
    for model, part in standings(table).groupby("model", sort=False):
        own = part["metric"] == EXACT.name
        said, first = part.loc[~own, "standing"], part.iloc[0]
        low, high = said.quantile([0.25, 0.75])
        rows.append(
            {
                **{key: first[key] for key in ("world", "architecture", "strength", "seed")},
                "model": model,
                "effect": first["effect"],
                "standing": float(part.loc[own, "standing"].mean()),
                "low": low,
                "high": high,
                "spread": high - low,
                "metrics": len(said),
            }
        )
    return pd.DataFrame(rows).sort_values("spread", ascending=False, kind="stable", ignore_index=True)


def _orders(part: pd.DataFrame, names: tuple[str, ...]) -> Orders:
    wide = part.pivot_table(index="model", columns="metric", values="feared").reindex(columns=list(names))
    strengths = part.groupby("model")["strength"].first().reindex(wide.index).to_numpy()
    values = wide.to_numpy().T
    pairs = np.array(list(itertools.combinations(range(len(wide)), 2)), dtype=int).reshape(-1, 2)
    apart = values[:, pairs[:, 0]] - values[:, pairs[:, 1]]
    return Orders(names, np.sign(np.nan_to_num(apart)), np.isfinite(apart).astype(float), pairs, strengths)


def _mean(found: list[Orders], kind: Kind, weights: list[np.ndarray] | None) -> np.ndarray:
    """The mean over worlds, (M, M); NaN where no world has both metrics."""
    drawn: list[np.ndarray | None] = [None] * len(found) if weights is None else [*weights]
    layers = [tau(one, weights=w, same_strength=kind == "same strength") for one, w in zip(found, drawn, strict=True)]
    stacked = np.array([partial(layer) if kind == "given the effect" else layer for layer in layers])
    n = np.isfinite(stacked).sum(axis=0)
    return np.where(n > 0, np.nansum(stacked, axis=0) / np.maximum(n, 1), np.nan)


def _draw(one: Orders, rng: np.random.Generator) -> np.ndarray:
    """(models,) how often each is drawn, with replacement among those of its strength."""
    weights = np.zeros(len(one.strengths), dtype=int)
    for strength in np.unique(one.strengths):
        same = np.flatnonzero(one.strengths == strength)
        weights[same] = rng.multinomial(len(same), np.full(len(same), 1 / len(same)))
    return weights


def _places(family: np.ndarray) -> dict[tuple[str, str], Cells]:
    """Rows and columns of the pairs of metrics of each two families, each pair once and no metric with itself."""
    once = np.triu(np.ones((len(family), len(family)), bool), 1)
    kin, party = family[:, None] == family, family != TRUTH
    places = {
        (first, second): np.nonzero(once & (family[:, None] == first) & (family == second))
        for first, second in itertools.combinations_with_replacement(dict.fromkeys(family.tolist()), 2)
    }
    parties = once & party[:, None] & party
    places |= {(EACH, ITSELF): np.nonzero(parties & kin), (EACH, ANOTHER): np.nonzero(parties & ~kin)}
    return places


def _medians(taus: np.ndarray, places: dict[tuple[str, str], Cells]) -> list[float]:
    found = [taus[cells] for cells in places.values()]
    some = [values[np.isfinite(values)] for values in found]
    return [float(np.median(values)) if len(values) else float("nan") for values in some]
