"""Audits of models with a planted bias by ranks of their maps: which models are reported, along the true effect."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslib.statistics import Interval, interval

_LEVEL, _Z = 0.05, 1.96


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
        models = values["models"].query("case == @case").reset_index(drop=True)
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
