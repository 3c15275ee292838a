"""What each metric of the dial is worth: response, power, false alarms, rank agreement with the true causal effect."""

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from biaslib.dial.catalogue import BY_NAME, EXACT, METRICS, Metric
from biaslib.dial.measuring import Measured, measured
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from biaslib.statistics import holm, interval, kendall
from biaslib.statistics.detection import beyond, noticed_from, p_value, power
from biaslib.statistics.proportions import share_interval
from biaslib.store import parallel

SIZES: Final = (100, 300, 1000, 5000)  # of test sets
ENSEMBLES: Final = (1, 3, 5, 10)  # models that are audited together
LEVEL: Final = 0.05
POWER: Final = 0.8
AUDIT_IMAGES: Final = 1000  # of the audit that metrics are chosen for
_MODEL: Final = ["world", "architecture", "strength", "seed", "model", "effect"]
_AUDIT: Final = ["world", "architecture", "metric", "images", "models"]
_FEWER: Final = 20  # how many times fewer draws a slow metric gets
Key = tuple[tuple[Trial, ...], str, tuple[int, ...], int, int]


def numbers(found: Sequence[Measured]) -> pd.DataFrame:
    """Every metric of every model on all test images, beside the true effect.

    Returns:
        A row a model and metric that it has: `world`, `architecture`, `strength`, `seed`, `model` (its place in
        `found`), `metric`, `family`, `value`, `feared` (the value, larger where a biased model is expected) and
        `effect` (mean true causal effect of the cue).
    """
    rows = []
    for place, one in enumerate(found):
        everything = np.arange(len(one.truth))
        for metric in METRICS:
            value = float(metric.value([one], everything)[0])
            if np.isfinite(value):
                rows.append(
                    {
                        "world": one.trial.world,
                        "architecture": one.trial.architecture or one.trial.place.architecture,
                        "strength": one.trial.strength,
                        "seed": one.trial.seed,
                        "model": place,
                        "metric": metric.name,
                        "family": metric.family,
                        "value": value,
                        "feared": value if metric.side == "above" else -value,
                        "effect": float(one.effect.mean()),
                    }
                )
    return pd.DataFrame(rows)


def as_record(table: pd.DataFrame, *, digits: int = 4) -> pd.DataFrame:
    """The table of `numbers` with one row a model and one column a metric, rounded: what a record holds."""
    wide = table.pivot_table(index=_MODEL, columns="metric", values="value", sort=False)
    return wide.round(digits).reset_index().rename_axis(columns=None)


def from_record(wide: pd.DataFrame) -> pd.DataFrame:
    """The table of `numbers` again."""
    table = wide.melt(id_vars=_MODEL, var_name="metric", value_name="value").dropna(subset="value")
    sides = table["metric"].map(lambda name: 1.0 if BY_NAME[name].side == "above" else -1.0)
    return table.assign(
        family=table["metric"].map(lambda name: BY_NAME[name].family), feared=sides * table["value"]
    ).reset_index(drop=True)


def responses(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Mean of every metric at every strength, an Interval over models: world, architecture, metric, strength, value."""
    keys = ["world", "architecture", "metric", "strength"]
    rows = [(*key, interval(part["value"], seed=seed)) for key, part in table.groupby(keys, sort=False)]
    return pd.DataFrame(rows, columns=[*keys, "value"])


def powers(
    trials: Sequence[Trial],
    *,
    sizes: Sequence[int] = SIZES,
    ensembles: Sequence[int] = ENSEMBLES,
    draws: int = 200,
    seed: int = 0,
    scheduler: str | None = None,
) -> pd.DataFrame:
    """How often each metric reports biased models, by their number and that of test images.

    Test images are drawn again from those that there are, with replacement and the same for all models, as an auditor
    would have drawn others; on each draw `detection.power` is computed from the models' means and spreads, with all
    unbiased models as twins. Metrics that are slow to compute get fewer draws.

    Args:
        trials: of any worlds; those of strength 0 are the twins, of which each world needs two or more, and two or more
            of every other strength.
        sizes: of the test sets.
        ensembles: how many models are audited together.
        draws: of each test set.
        seed: of the draws.
        scheduler: see `parallel.workers`.

    Returns:
        A row each: world, architecture, metric, strength, images, models, power (mean over the draws on which it is
        defined) and draws (how many these are). Metrics that a world does not have are left out.

    Raises:
        BiaslibError: for a world without two twins, or one model of a strength.
    """
    groups = _by_place(trials)
    for (world, _), group in groups.items():
        counts = pd.Series([trial.strength for trial in group]).value_counts()
        if counts.get(0.0, 0) < 2 or counts.min() < 2:
            raise BiaslibError(f"Power needs two models or more of strength 0 and of each other one in {world}.")
    keys: list[Key] = [
        (tuple(group), metric.name, tuple(sizes), max(draws // _FEWER, 2) if metric.slow else draws, seed)
        for group in groups.values()
        for metric in METRICS
    ]
    redrawn = parallel.stored("dial-redrawn", keys, redraw, scheduler=scheduler)
    rows = []
    for (of_place, name, *_), values in zip(keys, redrawn, strict=True):
        rows += _powers(of_place, BY_NAME[name], values, sizes, ensembles)
    columns = ["world", "architecture", "metric", "strength", "images", "models", "power", "draws"]
    return pd.DataFrame(rows, columns=columns)


def redraw(key: Key) -> np.ndarray:
    """(sizes, draws, trials) of one metric on redrawn test images; NaN where it is undefined."""
    trials, name, sizes, draws, seed = key
    found, rng = _held(trials), np.random.default_rng(seed)
    total = len(found[0].truth)
    return np.array(
        [[BY_NAME[name].value(found, rng.integers(total, size=size)) for _ in range(draws)] for size in sizes]
    )


@functools.lru_cache(maxsize=1)
def _held(trials: tuple[Trial, ...]) -> list[Measured]:
    """The models of one place, which its metrics share."""
    return measured(trials)


def powers_as_record(table: pd.DataFrame, *, digits: int = 3) -> pd.DataFrame:
    """The table of `powers` with one column a strength, rounded: what a record holds."""
    wide = table.pivot_table(index=_AUDIT, columns="strength", values="power", sort=False)
    return wide.round(digits).reset_index().rename_axis(columns=None)


def powers_from_record(wide: pd.DataFrame) -> pd.DataFrame:
    """The table of `powers` again, without the numbers of draws."""
    table = wide.melt(id_vars=_AUDIT, var_name="strength", value_name="power").dropna(subset="power")
    return table.astype({"strength": float}).reset_index(drop=True)


def family_powers(table: pd.DataFrame) -> pd.Series:
    """The mean power of each family of metrics, over the metrics that every world of the table has.

    A family that is measured in an easy world only would lead otherwise.

    Args:
        table: of `powers`, of one number of images and of models.

    Returns:
        Family -> mean power in [0, 1]; a family without a metric that every world has is not there.
    """
    everywhere = table.groupby("metric")["world"].transform("nunique") == table["world"].nunique()
    families = table["metric"].map(lambda name: BY_NAME[name].family).rename("family")
    return table[everywhere].groupby(families[everywhere])["power"].mean()


def smallest_strengths(table: pd.DataFrame, *, share: float = POWER) -> pd.DataFrame:
    """From which strength on the power is at least `share`: world, architecture, metric, images, models, strength.

    NaN where it is not even at the greatest strength.
    """
    keys = ["world", "architecture", "metric", "images", "models"]
    rows = [
        (*key, noticed_from(list(part["strength"]), list(part["power"]), share=share))
        for key, part in table.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*keys, "strength"])


def alarms(table: pd.DataFrame, *, level: float = LEVEL) -> pd.DataFrame:
    """How often each metric accuses an unbiased model, when each is audited with all the others as its twins.

    Args:
        table: of `numbers`.
        level: of the tests.

    Returns:
        A row a world, architecture and metric: `audits` (unbiased models), `alarms` (single tests at the level) and
        `corrected` (Holm's correction over all metrics of the audit, the exact sensitivity left out); and for each
        place a row with metric "any", in which an audit counts where at least one metric accuses.
    """
    rows: list[tuple[object, ...]] = []
    calm = table[(table["strength"] == 0) & (table["metric"] != EXACT.name)]
    for (world, architecture), part in calm.groupby(["world", "architecture"], sort=False):
        values = part.pivot_table(index="model", columns="metric", values="feared")[list(part["metric"].unique())]
        p = np.array([_against_the_others(column.to_numpy()) for _, column in values.items()])  # (metrics, models)
        adjusted = np.array([holm(audit) for audit in p.T]).T
        for name, single, corrected in zip(values.columns, p < level, adjusted < level, strict=True):
            rows.append((world, architecture, name, len(values), int(single.sum()), int(corrected.sum())))
        any_of = [int(found.any(axis=0).sum()) for found in (p < level, adjusted < level)]
        rows.append((world, architecture, "any", len(values), *any_of))
    return pd.DataFrame(rows, columns=["world", "architecture", "metric", "audits", "alarms", "corrected"])


def alarm_rates(table: pd.DataFrame) -> pd.DataFrame:
    """The alarms of all places together: metric, alarms and corrected, both Intervals (Wilson).

    The audits of one place share their twins, so that the intervals are somewhat too narrow.
    """
    sums = table.groupby("metric", sort=False)[["audits", "alarms", "corrected"]].sum()
    rows = [
        (
            name,
            share_interval(int(row["alarms"]), int(row["audits"])),
            share_interval(int(row["corrected"]), int(row["audits"])),
        )
        for name, row in sums.iterrows()
    ]
    return pd.DataFrame(rows, columns=["metric", "alarms", "corrected"])


def truthfulness(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Kendall's tau of each metric, turned to the feared side, with the true causal effect, over models.

    Returns:
        A row a metric: `across`, over the models of all worlds together, and one column a world; Intervals, bootstrap
        over models. NaN where a world does not have the metric.
    """
    worlds = list(table["world"].unique())
    rows = []
    for name, part in table.groupby("metric", sort=False):
        within = [part[part["world"] == world] for world in worlds]
        taus = [kendall(one["feared"], one["effect"], seed=seed) for one in (part, *within)]
        rows.append((name, *taus))
    return pd.DataFrame(rows, columns=["metric", "across", *worlds])


def against_twins(table: pd.DataFrame) -> pd.DataFrame:
    """For each model how far every metric is from the unbiased models of its place, in their standard deviations.

    Unbiased models are compared with all the others. Columns of `numbers` and `far` (on the feared side, in standard
    deviations of the twins), `p` (`detection.p_value`) and `reported` (single test).
    """
    parts = []
    for _, part in table.groupby(["world", "architecture", "metric"], sort=False):
        calm = part[part["strength"] == 0]
        rows = part.copy()
        others = [calm.loc[calm["model"] != model, "feared"].to_numpy() for model in part["model"]]
        found = part["feared"].to_numpy()
        rows["far"] = [_distance(value, twins) for value, twins in zip(found, others, strict=True)]
        rows["p"] = [p_value([value], twins, side="above") for value, twins in zip(found, others, strict=True)]
        rows["reported"] = [bool(beyond([v], twins, side="above")[0]) for v, twins in zip(found, others, strict=True)]
        parts.append(rows)
    return pd.concat(parts).sort_index()


def _by_place(trials: Sequence[Trial]) -> dict[tuple[str, str], list[Trial]]:
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.world, trial.architecture or trial.place.architecture), []).append(trial)
    return groups


def _powers(
    trials: Sequence[Trial], metric: Metric, values: np.ndarray, sizes: Sequence[int], ensembles: Sequence[int]
) -> list[tuple[object, ...]]:
    """Rows of `powers` for one metric of one place, from values (sizes, draws, trials)."""
    if np.isnan(values).all():
        return []
    feared = values if metric.side == "above" else -values
    strengths = np.array([trial.strength for trial in trials])
    first = trials[0]
    rows: list[tuple[object, ...]] = []
    twins = feared[..., strengths == 0]
    for strength in sorted(set(strengths) - {0.0}):
        biased = feared[..., strengths == strength]
        shift = biased.mean(axis=-1) - twins.mean(axis=-1)  # (sizes, draws)
        spreads = [side.std(axis=-1, ddof=1) for side in (biased, twins)]
        for k in ensembles:
            found = power(
                shift=shift, twins=twins.shape[-1], models=k, spread=spreads[0], twin_spread=spreads[1],
                confidence=1 - LEVEL,
            )  # fmt: skip
            for size, of_draws in zip(sizes, found, strict=True):
                some = of_draws[~np.isnan(of_draws)]
                mean = float(some.mean()) if len(some) else float("nan")
                place = (first.world, first.architecture or first.place.architecture)
                rows.append((*place, metric.name, strength, size, k, mean, len(some)))
    return rows


def _against_the_others(feared: np.ndarray) -> np.ndarray:
    return np.array([p_value([value], np.delete(feared, at), side="above") for at, value in enumerate(feared)])


def _distance(value: float, twins: np.ndarray) -> float:
    spread = twins.std(ddof=1) if len(twins) > 1 else np.nan
    return float((value - twins.mean()) / spread) if spread > 0 else float("nan")
