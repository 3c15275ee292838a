"""Amplification: whether the answers tie target and group more closely than the labels do, beside chance."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.measurements import correlation
from biaslib.audit.predictions import progress
from biaslib.metrics import Labels, bias_amplification, permutation_baseline
from biaslib.statistics import Interval
from biaslib.statistics.intervals import percentile_ends

_KINDS = {
    "group_to_attribute": "group → target",  # the group's influence on the answer about the target
    "attribute_to_group": "target → group",
    "undirected": "both predicted",
}
_BOOTSTRAP = 200  # draws for the interval of an amplification


def directions(answered: LabelledImages, group: Binary) -> list[str]:
    """The kinds of amplification that can be measured: two of the three need predictions of the group."""
    return list(_KINDS) if group.name in answered.predicted else ["group_to_attribute"]


def amplification(answered: LabelledImages, *, permutations: int, seed: int) -> pd.DataFrame:
    """That of each group in each direction, beside the answers permuted among images of equal labels.

    How often the model says it, and it is labelled so, in the group and outside it; the mean absolute change (size),
    with its bootstrap interval over images, and its mean over the permutations; p, the share of permutations, the
    answers counted as one of them, at least as far from the permutations' mean; and the signed change, above 0 for
    amplification, NaN where chance may tie target and group: nothing to amplify. With clusters p and all ends are NaN.
    """
    rows = [row for group in answered.groups for row in _amplification(answered, group, permutations, seed)]
    rates = ["said_in", "labelled_in", "said_out", "labelled_out"]
    return pd.DataFrame(rows, columns=["group", "direction", *rates, "size", "unrelated errors", "p", "signed"])


def _amplification(answered: LabelledImages, group: Binary, permutations: int, seed: int) -> Iterator[tuple[Any, ...]]:
    columns = [answered.target.name, group.name]
    predicted = answered.predicted
    if group.name not in predicted:
        predicted = predicted.assign(**{group.name: answered.labels[group.name]})
    test, answers = _labels(answered.labels[columns]), _labels(predicted[columns])
    trained = test if answered.train is None else _labels(answered.train[columns])
    known, clusters = (answered.labels, answered.clusters) if answered.train is None else (answered.train, None)
    tie = correlation(known[columns], clusters, seed)
    kinds = directions(answered, group)
    rng = np.random.default_rng(seed)
    changes = _changes(trained, test, answers, kinds)
    chance = np.empty((permutations, len(kinds)))
    with progress(permutations, f"permuting answers, {group.name}", "permutation", leave=False) as bar:
        for row in chance:
            errors = permutation_baseline(test, answers, rng=rng)
            row[:] = _changes(trained, test, errors, kinds, sizes=[True])[:, 0]
            bar.update(1)
    independent = answered.clusters is None  # else neither permutations nor draws of images say what chance does
    draws = min(permutations, _BOOTSTRAP) if independent else 0
    drawn = _bootstrap(trained, test, answers, kinds, draws=draws, rng=rng)
    # on both sides: errors that lean on the other label may change an association less than those that do not
    far = np.abs(chance - chance.mean(axis=0)) >= np.abs(changes[:, 0] - chance.mean(axis=0)) - 1e-12
    p = np.where(independent & np.isfinite(changes[:, 0]), (1 + far.sum(axis=0)) / (1 + permutations), np.nan)
    for at, kind in enumerate(kinds):
        size, signed = (Interval(changes[at, part], *percentile_ends(drawn[:, at, part]), len(test)) for part in (0, 1))
        table = bias_amplification(trained, test, answers, kind=kind, n_groups=2).table(None)  # type: ignore[arg-type]
        rates = table.set_index("group").reindex([1, 0])[["predicted", "reference"]].to_numpy(float).ravel()
        tied = tie.low > 0 or tie.high < 0
        shown = signed if tied else np.nan
        yield group.name, _KINDS[kind], *rates.tolist(), size, chance[:, at].mean(), p[at], shown


def _changes(
    trained: Labels, test: Labels, answers: Labels, kinds: Sequence[Any], sizes: Sequence[bool] = (True, False)
) -> np.ndarray:
    """(kinds, sizes) mean change: of the absolute changes where `sizes` is True, else signed."""
    amplified = partial(bias_amplification, trained, test, answers, n_groups=2)
    return np.array([[amplified(kind=kind, absolute=absolute).mean for absolute in sizes] for kind in kinds])


def _bootstrap(
    trained: Labels, test: Labels, answers: Labels, kinds: Sequence[str], *, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """(k, kinds, 2) changes of images drawn anew, labels that stand in for the training's with them."""
    changes = []
    for _ in range(draws):
        index = rng.integers(len(test), size=len(test))
        again, redrawn = (side.take(index) for side in (test, answers))
        if again.attributes.any() and len(np.unique(again.groups)) == 2:
            changes.append(_changes(again if trained is test else trained, again, redrawn, kinds))
    return np.array(changes).reshape(-1, len(kinds), 2)


def _labels(columns: pd.DataFrame) -> Labels:
    return Labels(columns.iloc[:, [0]].to_numpy(), columns.iloc[:, 1].to_numpy(int), (str(columns.columns[0]),))
