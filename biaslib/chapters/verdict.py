"""Audits of models with a planted bias by ranks of their maps: which models are reported, along the true effect."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from biaslib.figures import plots, theme
from biaslib.statistics import Interval, interval

_LEVEL, _Z = 0.05, 1.96
_EDGES: Final = (0.1, 0.3, 0.5, 0.7)  # of the true effect


def level(references: int) -> float:
    """Up to which p a model is reported: 5 %, or the smallest p that so few reference models allow."""
    return max(_LEVEL, 1 / (references + 1))


def audits(values: Mapping[str, Any]) -> pd.DataFrame:
    """A row an audit, of one model by one method and metric: `reported` is 1 or 0.

    Of the values that the page records: `references`, how many reference models there are; `models`, a row for each
    audited one with its use case (`case`), `strength` and true `effect`; and `p`, for each use case a row for each of
    its models and a column "method | metric".
    """
    tables = []
    for case, p in values["p"].items():
        models = values["models"][values["models"]["case"] == case].reset_index(drop=True)
        reported = (p <= level(values["references"]) + 1e-3).astype(float)  # p are rounded
        long = reported.assign(model=models.index).melt("model", var_name="pair", value_name="reported")
        long[["method", "metric"]] = long["pair"].str.split(" | ", regex=False, expand=True)
        tables.append(long.merge(models, left_on="model", right_index=True))
    found = pd.concat(tables, ignore_index=True)
    return found.assign(biased=found["strength"] > 0)


def per_model(part: pd.DataFrame) -> pd.Series:
    """Of each model the share of these audits that report it."""
    return part.groupby(["case", "model"])["reported"].mean()


def share(part: pd.DataFrame) -> Interval:
    """The mean of that, with Wilson's interval of as many draws as there are models: audits of one model are alike."""
    each = per_model(part)
    n, p = len(each), each.mean()
    if n == 0:
        return Interval(np.nan, np.nan, np.nan, 0)
    half = _Z * np.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    low, high = ((p + _Z**2 / (2 * n) + sign * half) / (1 + _Z**2 / n) for sign in (-1, 1))
    return Interval(float(p), float(low), float(high), n)


def less(a: pd.DataFrame, b: pd.DataFrame) -> Interval:
    """The mean share of one kind of audits less that of another kind, over the models that both are of."""
    return interval((per_model(a) - per_model(b)).dropna(), bounds=(-1, 1))


def best_and_worst(part: pd.DataFrame) -> tuple[str, str]:
    """The pairs of method and metric that report the most and the fewest of these models, answers left out."""
    order = part.query("method != 'no map'").groupby("pair")["reported"].mean().sort_values(kind="stable")
    return order.index[-1], order.index[0]


def by_effect(part: pd.DataFrame) -> list[pd.DataFrame]:
    """These audits by the true effect: of unbiased models, then of biased ones up to .1, .3, .5, .7, and above."""
    return [step for _, step in part.groupby(np.where(part["biased"], np.digitize(part["effect"], _EDGES), -1))]


def squares(axes: Axes, part: pd.DataFrame, methods: Sequence[str], name: Callable[[str], str]) -> None:
    """Methods by metrics; in each cell a square for each step `by_effect`, as full as the share that is reported."""
    metrics, width = list(part["metric"].unique()), len(_EDGES) + 3
    at, hues, spans, words = [], [], [], []
    for (method, metric), audits_of in part.groupby(["method", "metric"], sort=False):
        for place, step in enumerate(by_effect(audits_of)):
            at.append((metrics.index(metric) * width + place, methods.index(method)))
            hues.append("blue" if step["biased"].any() else "orange")
            spans.append(share(step))
            words.append(f"{method}, {name(metric)}, effect {step['effect'].mean():.2f}: {spans[-1]}")
    plots.squares(axes, at, [theme.GRID] * len(at), [0.55] * len(at), height=0.86)
    plots.squares(axes, at, hues, [span.estimate for span in spans], words, height=0.86)
    axes.set(xlim=(-1, width * len(metrics)), ylim=(len(methods) - 0.4, -1.6), xticks=[])
    axes.set_yticks(range(len(methods)), [method.replace("Integrated", "Int.") for method in methods])
    for place, metric in enumerate(metrics):
        axes.text(width * place + 2.5, -0.6, name(metric).replace(" ", "\n", 1), ha="center", fontsize=8)
    axes.spines[:].set_visible(False)
    axes.grid(False)
