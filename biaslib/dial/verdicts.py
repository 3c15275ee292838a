"""What each metric of the dial is worth: response, power, false positives, rank agreement with the true causal effect.

In these tables `risk_score` is a metric's value, turned so that it is larger where a biased model is expected.
"""

import functools
from collections.abc import Sequence
from dataclasses import astuple
from typing import Final

import numpy as np
import pandas as pd

from biaslib.dial.catalogue import EXACT, METRICS
from biaslib.dial.measuring import Measured, measured
from biaslib.dial.trials import PLACES, Trial
from biaslib.errors import BiaslibError
from biaslib.statistics import holm, interval, kendall
from biaslib.statistics.detection import detection_power, detection_threshold, p_value
from biaslib.statistics.proportions import share_interval
from biaslib.store import stored

_SIZES: Final = (100, 300, 1000, 5000)  # of test sets
_ENSEMBLES: Final = (1, 3, 5, 10)  # models that are audited together
_LEVEL: Final = 0.05
POWER: Final = 0.8
AUDIT_IMAGES: Final = 1000  # of the audit that metrics are chosen for
# the tables of an audit: what is measured in them, and the metric of the dial that it is
_AUDIT_MEASURES: Final = {
    "gaps": ("gap in accuracy", "Accuracy gap"),
    "correlations": ("correlation of answers and group", "Correlation of answers and cue"),
    "amplification": ("amplification, group → target", "Amplification, group → attribute"),
    "attention": ("attention of target and group", "Heatmap score"),
    "regions": ("share of the map on a region", "RMA of the cue, Grad-CAM"),
}
_PLACE: Final = ["world", "architecture"]
_MODEL: Final = [*_PLACE, "strength", "seed", "model", "effect"]
_AUDIT: Final = [*_PLACE, "metric", "images", "models"]
# of both tables that a record holds: the keys of a row, what becomes columns, of what values, with how many decimals
_OF_NUMBERS: Final = (_MODEL, "metric", "value", 4)
_OF_POWERS: Final = (_AUDIT, "strength", "power", 3)
_FEWER: Final = 20  # how many times fewer draws a slow metric gets


def numbers(models: Sequence[Measured]) -> pd.DataFrame:
    """Every metric of every model on all test images, beside the true effect: a row a model and metric that it has.

    Columns `world`, `architecture`, `strength`, `seed`, `model` (its place in `models`), `effect` (mean true causal
    effect of the cue), `metric`, `value`, `family` and `risk_score`.
    """
    rows = []
    for place, model in enumerate(models):
        images = np.arange(len(model.truth))
        trial = model.trial
        key = (*_place(trial), trial.strength, trial.seed, place, float(model.effect.mean()))
        rows += [(*key, metric.name, float(metric.value([model], images)[0])) for metric in METRICS.values()]
    table = pd.DataFrame(rows, columns=[*_MODEL, "metric", "value"])
    return _with_risk_scores(table[np.isfinite(table["value"])])


def as_record(table: pd.DataFrame) -> pd.DataFrame:
    """A table of `numbers` to 4 decimals, a column a metric, or of `powers` to 3, a column a strength: for a record."""
    index, columns, values, decimals = _OF_NUMBERS if "value" in table else _OF_POWERS
    wide = table.pivot_table(index=index, columns=columns, values=values, sort=False)
    return wide.round(decimals).reset_index().rename_axis(columns=None)


def from_record(wide: pd.DataFrame) -> pd.DataFrame:
    """The table that `as_record` was given, but for the numbers of draws."""
    index, columns, values, _ = _OF_NUMBERS if "effect" in wide else _OF_POWERS
    table = wide.melt(id_vars=index, var_name=columns, value_name=values).dropna(subset=values)
    return _with_risk_scores(table) if columns == "metric" else table.astype({columns: float}).reset_index(drop=True)


def on_usual_architecture(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of any of these tables that are about each world's usual architecture."""
    usual = {world: place.architecture for world, place in PLACES.items()}
    return table[table["architecture"] == table["world"].map(usual)]


def responses(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Mean of every metric at every strength, an Interval over models: world, architecture, metric, strength, value."""
    keys = [*_PLACE, "metric", "strength"]
    rows = [(*key, interval(part["value"], seed=seed)) for key, part in table.groupby(keys, sort=False)]
    return pd.DataFrame(rows, columns=[*keys, "value"])


def powers(trials: Sequence[Trial], *, draws: int = 200, seed: int = 0) -> pd.DataFrame:
    """How often each metric reports biased models, by their number (`_ENSEMBLES`) and that of test images (`_SIZES`).

    Test images are drawn again from those that there are, with replacement and the same for all models, as an auditor
    would have drawn others; on each draw `detection_power` is computed from the models' means and spreads, with all
    unbiased models as reference. Metrics that are slow to compute get fewer draws.

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
    keys = [
        (tuple(group), metric.name, _SIZES, max(draws // _FEWER, 2) if metric.slow else draws, seed)
        for group in groups.values()
        for metric in METRICS.values()
    ]
    rows: list[tuple[object, ...]] = []
    for (models, name, *_), values in zip(keys, _redraw.many(keys), strict=True):
        if np.isnan(values).all():
            continue
        risk = METRICS[name].sign * values  # (sizes, draws, trials)
        strengths = np.array([trial.strength for trial in models])
        reference = risk[..., strengths == 0]
        for strength in sorted(set(strengths) - {0.0}):
            biased = risk[..., strengths == strength]
            for count in _ENSEMBLES:
                power = detection_power(
                    shift=biased.mean(axis=-1) - reference.mean(axis=-1), n_reference=reference.shape[-1],
                    models=count, spread=biased.std(axis=-1, ddof=1), reference_spread=reference.std(axis=-1, ddof=1),
                    confidence=1 - _LEVEL,
                )  # fmt: skip
                for size, drawn in zip(_SIZES, power, strict=True):
                    defined = drawn[~np.isnan(drawn)]
                    mean = float(defined.mean()) if len(defined) else float("nan")
                    rows.append((*_place(models[0]), name, strength, size, count, mean, len(defined)))
    return pd.DataFrame(rows, columns=[*_PLACE, "metric", "strength", "images", "models", "power", "draws"])


@stored("dial-redrawn")
def _redraw(trials: tuple[Trial, ...], name: str, sizes: tuple[int, ...], draws: int, seed: int) -> np.ndarray:
    """(sizes, draws, trials) of one metric on redrawn test images; NaN where it is undefined."""
    models, rng = _measured_once(trials), np.random.default_rng(seed)
    total = len(models[0].truth)
    return np.array(
        [[METRICS[name].value(models, rng.integers(total, size=size)) for _ in range(draws)] for size in sizes]
    )


def family_powers(table: pd.DataFrame) -> pd.Series:
    """The mean power of each family of metrics in a table of `powers`, for one number of images and of models.

    Over the metrics that every world has: a family that is measured in an easy world only would lead otherwise.
    """
    everywhere = table.groupby("metric")["world"].transform("nunique") == table["world"].nunique()
    families = table["metric"].map(lambda name: METRICS[name].family).rename("family")
    return table[everywhere].groupby(families[everywhere])["power"].mean()


def detection_thresholds(table: pd.DataFrame) -> pd.DataFrame:
    """From which strength on the power is at least `POWER`; NaN where it is not even at the greatest."""
    rows = [
        (*key, detection_threshold(list(part["strength"]), list(part["power"]), share=POWER))
        for key, part in table.groupby(_AUDIT, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*_AUDIT, "strength"])


def false_positive_counts(table: pd.DataFrame) -> pd.DataFrame:
    """How often, in a table of `numbers`, each metric reports an unbiased model with all the others as its reference.

    A row a world, architecture and metric: `audits` (unbiased models), `false_positives` (single tests at `_LEVEL`) and
    `corrected` (Holm's correction over all metrics of the audit, the exact sensitivity left out); and for each place a
    row with metric "any", in which an audit counts where at least one metric reports.
    """
    rows: list[tuple[object, ...]] = []
    reference = table[(table["strength"] == 0) & (table["metric"] != EXACT.name)]
    for place, part in reference.groupby(_PLACE, sort=False):
        scores = part.pivot_table(index="model", columns="metric", values="risk_score")[list(part["metric"].unique())]
        p = np.array([_p_against_others(column.to_numpy()) for _, column in scores.items()])  # (metrics, models)
        adjusted = np.array([holm(audit) for audit in p.T]).T
        for name, single, corrected in zip(scores.columns, p < _LEVEL, adjusted < _LEVEL, strict=True):
            rows.append((*place, name, len(scores), int(single.sum()), int(corrected.sum())))
        any_metric = [int(flags.any(axis=0).sum()) for flags in (p < _LEVEL, adjusted < _LEVEL)]
        rows.append((*place, "any", len(scores), *any_metric))
    return pd.DataFrame(rows, columns=[*_PLACE, "metric", "audits", "false_positives", "corrected"])


def false_positive_rates(counts: pd.DataFrame) -> pd.DataFrame:
    """The `false_positive_counts` of all places together, as Intervals (Wilson): metric, false_positives and corrected.

    The audits of one place share their reference models, so that the intervals are somewhat too narrow.
    """
    kinds = ["false_positives", "corrected"]
    sums = counts.groupby("metric", sort=False)[["audits", *kinds]].sum()
    rows = [
        (name, *(share_interval(int(row[kind]), int(row["audits"])) for kind in kinds)) for name, row in sums.iterrows()
    ]
    return pd.DataFrame(rows, columns=["metric", *kinds])


def truthfulness(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Kendall's tau of each metric's risk score with the true effect over models: `across` and by world."""
    worlds = list(table["world"].unique())
    rows = []
    for name, part in table.groupby("metric", sort=False):
        within = [part[part["world"] == world] for world in worlds]
        rows.append((name, *(kendall(some["risk_score"], some["effect"], seed=seed) for some in (part, *within))))
    return pd.DataFrame(rows, columns=["metric", "across", *worlds])


def against_reference(table: pd.DataFrame) -> pd.DataFrame:
    """For each model how far every metric is from the unbiased models of its place, in their standard deviations.

    Unbiased models are compared with all the others. Columns of `numbers` and `distance` (in standard deviations of the
    reference models, above 0 where the risk score is larger than theirs) and `p` (`detection.p_value`, a single test).
    """
    parts = []
    for _, part in table.groupby([*_PLACE, "metric"], sort=False):
        unbiased = part[part["strength"] == 0]
        references = [unbiased.loc[unbiased["model"] != model, "risk_score"].to_numpy() for model in part["model"]]
        compared = list(zip(part["risk_score"].to_numpy(), references, strict=True))
        p = [p_value([score], reference, side="above") for score, reference in compared]
        parts.append(part.assign(distance=[_distance(*pair) for pair in compared], p=p))
    return pd.concat(parts).sort_index()


def reliability_table(recorded_numbers: pd.DataFrame, recorded_powers: pd.DataFrame) -> pd.DataFrame:
    """The table that travels with `biaslib.audit` (`reliability.csv`), from both tables of the dial's record.

    A row a measure: `table` (of an audit), `measure` and `images` (`AUDIT_IMAGES`); `accused`, `low`, `high` and `n`:
    the share of unbiased models that it reports alone, by the rule of `statistics.detection`; and a column a world with
    the strength from which on so many images show the bias in 80 % of audits, in words.
    """
    counts = false_positive_counts(on_usual_architecture(from_record(recorded_numbers)))
    rates = false_positive_rates(counts).set_index("metric")["false_positives"]
    thresholds = detection_thresholds(on_usual_architecture(from_record(recorded_powers)))
    audits = thresholds[(thresholds["images"] == AUDIT_IMAGES) & (thresholds["models"] == 1)]
    smallest = audits.set_index(["metric", "world"])["strength"]

    def words(strength: float | None) -> str:
        if strength is None:
            return "not measured"
        return "at no strength" if np.isnan(strength) else f"from {strength:g} on"

    rows = [
        (name, measure, AUDIT_IMAGES, *astuple(rates[metric])[:4], *(words(smallest.get((metric, w))) for w in PLACES))
        for name, (measure, metric) in _AUDIT_MEASURES.items()
        if metric in rates
    ]
    return pd.DataFrame(rows, columns=["table", "measure", "images", "accused", "low", "high", "n", *PLACES])


def _with_risk_scores(table: pd.DataFrame) -> pd.DataFrame:
    metrics = table["metric"].map(METRICS)
    families, signs = metrics.map(lambda metric: metric.family), metrics.map(lambda metric: metric.sign)
    return table.assign(family=families, risk_score=signs * table["value"]).reset_index(drop=True)


def _place(trial: Trial) -> tuple[str, str]:
    return trial.world, trial.architecture or trial.place.architecture


@functools.lru_cache(maxsize=1)
def _measured_once(trials: tuple[Trial, ...]) -> list[Measured]:
    """The models of one place, which its metrics share."""
    return measured(trials)


def _p_against_others(scores: np.ndarray) -> np.ndarray:
    return np.array([p_value([score], np.delete(scores, place), side="above") for place, score in enumerate(scores)])


def _distance(score: float, reference: np.ndarray) -> float:
    spread = reference.std(ddof=1) if len(reference) > 1 else np.nan
    return float((score - reference.mean()) / spread) if spread > 0 else float("nan")
