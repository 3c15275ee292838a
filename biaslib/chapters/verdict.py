"""Which models audits report, by ranks of maps along the true effect."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from biaslib.chapters import page
from biaslib.figures import plots, theme
from biaslib.statistics import Interval, interval
from biaslib.statistics.proportions import share_interval

_LEVEL, _ROUNDED = 0.05, 1e-3  # a record's p are rounded


def is_reported(p: Any, references: int) -> Any:
    """Whether a p reports a model: it is at most 5 %, or the smallest p that so few reference models allow."""
    return p <= max(_LEVEL, 1 / (references + 1)) + _ROUNDED


def audits(values: Mapping[str, Any]) -> pd.DataFrame:
    """A row an audit, of one model by one method and metric: `reported` is 1 or 0.

    Of the values that the page records: `references`, how many reference models there are; `models`, a row for each
    audited one with its use case (`case`), `strength` and true `effect`; and `p`, for each use case a row for each of
    its models and a column "method | metric".
    """
    tables = []
    for case, p in values["p"].items():
        models = values["models"][values["models"]["case"] == case].reset_index(drop=True)
        reported = is_reported(p, values["references"]).astype(float)
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
    return share_interval(float(each.sum()), len(each))


def less(a: pd.DataFrame, b: pd.DataFrame) -> Interval:
    """The mean share of one kind of audits less that of another kind, over the models that both are of."""
    return interval((per_model(a) - per_model(b)).dropna(), bounds=(-1, 1))


def best_and_worst(part: pd.DataFrame) -> tuple[str, str]:
    """The pairs of method and metric that report the most and the fewest of these models, answers left out."""
    order = part.query("method != 'no map'").groupby("pair")["reported"].mean().sort_values(kind="stable")
    return order.index[-1], order.index[0]


def by_effect(part: pd.DataFrame, size: int) -> list[pd.DataFrame]:
    """These audits of one use case by the true effect: of unbiased models, then of biased ones, about `size` a step."""
    order = part[part["biased"]].groupby("model")["effect"].first().rank(method="first") - 1
    steps = max(1, round(len(order) / size))
    place = part["model"].map(order * steps // max(1, len(order))).fillna(-1)
    return [step for _, step in part.groupby(place)]


def curve(axes: Axes, part: pd.DataFrame, size: int, *, colour: str, words: str) -> None:
    """The share that is reported along the true effect, where unbiased models stand at 0, with `words` as its title.

    Thick with its interval: of all methods together; thin: of each method; dotted: of unbiased models, by the rule.
    """
    steps = by_effect(part, size)
    across = [step["effect"].mean() if step["biased"].any() else 0.0 for step in steps]
    axes.axhline(_LEVEL, color=theme.MUTED, linewidth=0.8, linestyle=":")
    for _, own in part.groupby("method", sort=False):
        shares = [step.loc[step.index.isin(own.index), "reported"].mean() for step in steps]
        axes.plot(across, shares, color=theme.colour_of(colour), linewidth=0.7, alpha=0.5)
    rows = [{"true effect": at, "value": share(step)} for at, step in zip(across, steps, strict=True)]
    page.lines(rows, x="true effect", y_label=words, n="n", colours={None: colour}, ax=axes)
    axes.set(xlim=(-0.04, 1.04), ylim=(-0.05, 1.05), yticks=(0, 0.5, 1))
    axes.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))


def squares(axes: Axes, part: pd.DataFrame, methods: Sequence[str], size: int, name: Callable[[str], str]) -> None:
    """Methods by metrics; in each cell a square for each step `by_effect`, as full as the share that is reported."""
    metrics, width = list(part["metric"].unique()), len(by_effect(part, size)) + 1
    at, hues, spans, words = [], [], [], []
    for (method, metric), audits_of in part.groupby(["method", "metric"], sort=False):
        for place, step in enumerate(by_effect(audits_of, size)):
            at.append((metrics.index(metric) * width + place, methods.index(method)))
            hues.append("blue" if step["biased"].any() else "orange")
            spans.append(share(step))
            words.append(f"{method}, {name(str(metric))}, effect {step['effect'].mean():.2f}: {spans[-1]}")
    plots.squares(axes, at, [theme.GRID] * len(at), [0.55] * len(at), height=0.86)
    plots.squares(axes, at, hues, [span.estimate for span in spans], words, height=0.86)
    axes.set(xlim=(-1, width * len(metrics) - 1), ylim=(len(methods) - 0.4, -1.6), xticks=[])
    axes.set_yticks(range(len(methods)), [method.replace("Integrated", "Int.") for method in methods])
    for place, metric in enumerate(metrics):
        middle = width * place + (width - 2) / 2
        axes.text(middle, -0.6, name(metric).replace(" ", "\n", 1), ha="center", fontsize=8)
    axes.spines[:].set_visible(False)
    axes.grid(False)
