"""What each metric of the dial is worth: response, power, false positives, rank agreement with the true causal effect.

A statistic counts once, and only metrics that an audit may choose from (`Metric.audits`) are its family of tests. In
these tables `risk_score` is a metric's value, turned so that it is larger where a biased model is expected.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from biaslib.dial.catalogue import EXACT, METRICS, Metric
from biaslib.dial.measuring import Case, measured
from biaslib.dial.trials import PLACES, Trial
from biaslib.errors import BiaslibError
from biaslib.statistics import detection, holm
from biaslib.statistics.proportions import share_interval
from biaslib.store import stored

_SIZES: Final = (100, 300, 1000, 5000)  # of test sets
_ENSEMBLES: Final = (1, 3, 5, 10)  # models that are audited together
_LEVEL: Final = 0.05
POWER: Final = 0.8
AUDIT_IMAGES: Final = 1000  # of the audit that metrics are chosen for
_PLACE: Final = ["world", "architecture"]
_MODEL: Final = [*_PLACE, "strength", "seed", "effect"]
_AUDIT: Final = [*_PLACE, "metric", "images", "models"]
_FEWER: Final = 20  # how many times fewer draws amplification gets, which is slow
_measured_once: Final = functools.lru_cache(maxsize=1)(measured)  # the models of one place, which its metrics share


def numbers(cases: Sequence[Case], further: Sequence[Metric] = (), *, images: int | None = None) -> pd.DataFrame:
    """Every metric of every model, and `further` ones, beside the true effect: a row a model and metric that it has.

    On all test images, or on the first `images`; the effect is on all. Columns `world`, `architecture`, `strength`,
    `seed`, `model` (its place in `cases`), `effect` (mean, of the cue), `metric`, `value`, `family` and `risk_score`.
    """
    rows, metrics = [], [*METRICS.values(), *further]
    for place, case in enumerate(cases):
        drawn = np.arange(images or len(case.truth))
        key = (*_place(case.trial), case.trial.strength, case.trial.seed, float(case.effect.mean()), place)
        rows += [(*key, metric.name, metric.value(case, drawn)) for metric in metrics]
    table = pd.DataFrame(rows, columns=[*_MODEL, "model", "metric", "value"])
    return _with_risk_scores(table[np.isfinite(table["value"])], further)


def as_record(table: pd.DataFrame, *, decimals: int = 4) -> pd.DataFrame:
    """A table of `numbers`, a column a metric, or of `powers` to 3 decimals, a column a strength: for a record."""
    if "value" in table:
        wide = table.pivot_table(index=_MODEL, columns="metric", values="value", sort=False).round(decimals)
    else:
        wide = table.pivot_table(index=_AUDIT, columns="strength", values="power", sort=False).round(3)
    return wide.reset_index().rename_axis(columns=None)


def from_record(wide: pd.DataFrame, further: Sequence[Metric] = ()) -> pd.DataFrame:
    """What `as_record` was given, with families, without draws; models are numbered anew, unknown metrics left out."""
    names = [*METRICS, *(metric.name for metric in further)]
    if "effect" not in wide:
        table = wide.melt(id_vars=_AUDIT, var_name="strength", value_name="power").dropna(subset="power")
        table = table[table["metric"].isin(METRICS)].astype({"strength": float}).reset_index(drop=True)
        return table.assign(family=table["metric"].map(lambda name: METRICS[name].family))
    wide = wide.assign(model=np.arange(len(wide)))[[*_MODEL, "model", *wide.columns.intersection(names)]]
    return _with_risk_scores(wide.melt([*_MODEL, "model"], var_name="metric", value_name="value").dropna(), further)


def on_usual_architecture(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of any of these tables that are about each world's usual architecture."""
    return table[table["architecture"] == table["world"].map(lambda world: PLACES[world].training.architecture)]


def drawn(table: pd.DataFrame) -> pd.DataFrame:
    """Those of drawn worlds among these rows; photographs, of which there are fewer, are in no mean over worlds."""
    table = on_usual_architecture(table)
    return table[~table["world"].map(lambda world: bool(PLACES[world].photos))]


def powers(trials: Sequence[Trial], *, draws: int = 200, seed: int = 0) -> pd.DataFrame:
    """How often each metric reports biased models, by their number (`_ENSEMBLES`) and that of test images (`_SIZES`).

    Test images are drawn again from those that there are, with replacement and the same for all models, as an auditor
    would have drawn others; on each draw `detection_power` is computed from the models' means and spreads, with all
    unbiased models as reference. Amplification, which is slow to compute, gets fewer draws.

    A row each: world, architecture, metric, strength, images, models, power (mean over the draws on which it is
    defined) and draws (how many these are). Metrics that a world does not have are left out. A world without two models
    of strength 0, the reference, or two of each other strength is a `BiaslibError`.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(_place(trial), []).append(trial)
    for (world, _), group in groups.items():
        counts = pd.Series([trial.strength for trial in group]).value_counts()
        if counts.get(0.0, 0) < 2 or counts.min() < 2:
            raise BiaslibError(f"Power needs two models or more of strength 0 and of each other one in {world}.")
    fewer = {"amplification": max(draws // _FEWER, 2)}
    keys = [
        (tuple(group), metric.name, _SIZES, fewer.get(metric.family, draws), seed)
        for group in groups.values()
        for metric in METRICS.values()
    ]
    redrawn = [(key[0], METRICS[key[1]], values) for key, values in zip(keys, _redraw.many(keys), strict=True)]
    rows: list[tuple[object, ...]] = []
    for models, metric, values in redrawn:
        if np.isnan(values).all():
            continue
        risk = metric.sign * values  # (sizes, draws, trials)
        strengths = np.array([trial.strength for trial in models])
        reference = risk[..., strengths == 0]
        for strength in sorted(set(strengths) - {0.0}):
            for count in _ENSEMBLES:
                power = power_of(risk[..., strengths == strength], reference, count)
                for size, drawn in zip(_SIZES, power, strict=True):
                    defined = drawn[~np.isnan(drawn)]
                    mean = float(defined.mean()) if len(defined) else float("nan")
                    rows.append((*_place(models[0]), metric.name, strength, size, count, mean, len(defined)))
    return pd.DataFrame(rows, columns=[*_PLACE, "metric", "strength", "images", "models", "power", "draws"])


@stored("dial-redrawn")
def _redraw(trials: tuple[Trial, ...], name: str, sizes: tuple[int, ...], draws: int, seed: int) -> np.ndarray:
    """(sizes, draws, models) of one metric on redrawn test images; NaN where it is undefined."""
    cases, metric = _measured_once(trials), METRICS[name]
    rng, total = np.random.default_rng(seed), len(cases[0].truth)
    drawn = [[rng.integers(total, size=size) for _ in range(draws)] for size in sizes]
    return np.array([[[metric.value(case, rows) for case in cases] for rows in of_size] for of_size in drawn])


def power_of(biased: np.ndarray, reference: np.ndarray, models: int = 1) -> np.ndarray:
    """(...) by risk scores (..., k) of biased and (..., m) of reference models; equal but for rounding is equal."""
    shift = np.round(biased.mean(axis=-1) - reference.mean(axis=-1), 9)
    spreads = [np.round(scores.std(axis=-1, ddof=1), 9) for scores in (biased, reference)]
    power = detection.detection_power(
        shift=shift, n_reference=reference.shape[-1], models=models, spread=spreads[0], reference_spread=spreads[1],
        confidence=1 - _LEVEL,
    )  # fmt: skip
    return np.asarray(power)


def everywhere(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of metrics that every world of the table has, on which families are compared; null maps left out."""
    chosen = table[table["metric"].map(METRICS).map(lambda metric: metric.audits or metric is EXACT)]
    return chosen[chosen.groupby("metric")["world"].transform("nunique") == table["world"].nunique()]


def detection_thresholds(table: pd.DataFrame) -> pd.DataFrame:
    """From which strength on the power is at least `POWER`; NaN where it is not even at the greatest."""
    rows = [
        (*key, detection.detection_threshold(list(part["strength"]), list(part["power"]), share=POWER))
        for key, part in table.groupby(_AUDIT, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*_AUDIT, "strength"])


def false_positive_counts(table: pd.DataFrame) -> pd.DataFrame:
    """A row a metric and world: unbiased models (`audits`) and those it reports at `_LEVEL` (`false_positives`)."""
    flags = against_reference(table[table["strength"] == 0]).assign(flagged=lambda each: each["p"] < _LEVEL)
    counts = flags.groupby([*_PLACE, "metric"], sort=False)["flagged"].agg(audits="size", false_positives="sum")
    return counts.reset_index()


def false_positive_rates(counts: pd.DataFrame) -> pd.Series:
    """The `false_positive_counts` of all places together: an Interval (Wilson) of each metric.

    The audits of one place share their reference models, so that the intervals are somewhat too narrow.
    """
    sums = counts.groupby("metric", sort=False)[["audits", "false_positives"]].sum()
    return pd.Series({name: share_interval(int(hits), int(n)) for name, (n, hits) in sums.iterrows()}, dtype=object)


def audits(table: pd.DataFrame) -> pd.DataFrame:
    """Each model of a table of `numbers` in an audit that takes every metric there is; unbiased ones with all others.

    A row a model: `world`, `architecture`, `strength`, `seed`, `effect`, `model`, `metrics` (how many tests), `single`
    (the share of them that report it, each at `_LEVEL`), and whether the audit reports it: `any` (where at least one
    does), `holm` (at least one after Holm's correction) and `pooled` (by `detection.rank_p_value`, one exact test).
    """
    table = table[table["metric"].map(METRICS).map(lambda metric: metric.audits)]
    tests = against_reference(table).groupby([*_MODEL, "model"], sort=False)["p"]
    found = tests.agg(
        metrics="size", single=lambda p: (p < _LEVEL).mean(), any=lambda p: (p < _LEVEL).any(),
        holm=lambda p: (holm(p) < _LEVEL).any(),
    ).reset_index().astype({"any": bool, "holm": bool})  # fmt: skip
    ranks: dict[Any, float] = {}
    for _, part in table.groupby(_PLACE, sort=False):
        scores = part.pivot_table(index="model", columns="metric", values="risk_score")
        calm = scores.loc[sorted(set(part.loc[part["strength"] == 0, "model"]))]
        farthest = detection.largest_distances(calm)  # of them each is audited, and the pool is always the same
        ranks |= {model: (farthest >= own).mean() for model, own in zip(calm.index, farthest, strict=True)}
        ranks |= {model: detection.rank_p_value(own, calm) for model, own in scores.drop(index=calm.index).iterrows()}
    return found.assign(pooled=found["model"].map(ranks) <= _LEVEL)


def against_reference(table: pd.DataFrame) -> pd.DataFrame:
    """For each model how far every metric is from the unbiased models of its place, in their standard deviations.

    Unbiased models are compared with all the others. Columns of `numbers` and `distance` (in standard deviations of the
    reference models, above 0 where the risk score is larger than theirs) and `p` (`detection.p_value`, a single test).
    """
    parts = []
    for _, part in table.groupby([*_PLACE, "metric"], sort=False):
        unbiased, models = part.loc[part["strength"] == 0, ["risk_score", "model"]].to_numpy().T
        references = [unbiased[models != model] for model in part["model"]]
        compared = list(zip(part["risk_score"].to_numpy(), references, strict=True))
        p = [detection.p_value([score], reference, side="above") for score, reference in compared]
        parts.append(part.assign(distance=[_distance(*pair) for pair in compared], p=p))
    return pd.concat(parts).sort_index()


def _with_risk_scores(table: pd.DataFrame, further: Sequence[Metric] = ()) -> pd.DataFrame:
    metrics = table["metric"].map(METRICS | {metric.name: metric for metric in further})
    families, signs = metrics.map(lambda metric: metric.family), metrics.map(lambda metric: metric.sign)
    return table.assign(family=families, risk_score=signs * table["value"]).reset_index(drop=True)


def _place(trial: Trial) -> tuple[str, str]:
    return trial.world, trial.architecture or trial.place.training.architecture


def _distance(score: float, reference: np.ndarray) -> float:
    spread = reference.std(ddof=1) if len(reference) > 1 else np.nan
    return float((score - reference.mean()) / spread) if spread > 1e-9 else float("nan")
