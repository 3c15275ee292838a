"""How far a model's answers change the association of target and group, beside what unrelated errors give."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tqdm import tqdm

from biaslib.audit.inputs import Binary
from biaslib.audit.measurements import Answered, correlation, percentiles
from biaslib.metrics import Labels, bias_amplification, permutation_baseline
from biaslib.statistics import Interval

KINDS = {
    "group_to_attribute": "group → target",  # the group's influence on the answer about the target
    "attribute_to_group": "target → group",
    "undirected": "both predicted",
}
_BOOTSTRAP = 200  # draws for the interval of an amplification


@dataclass(frozen=True)
class Amplification:
    """One direction of one group.

    Attributes:
        group: name.
        direction: one of the values of `KINDS`.
        said_in: how often the model says it, in the group; `said_out`, of the others.
        labelled_in: how often it is labelled so; `labelled_out`, of the others.
        size: mean absolute change, with its bootstrap interval over images.
        unrelated_errors: mean size over the permutations.
        p: share of permutations, the answers counted as one of them, at least as far from the permutations' mean.
        signed: above 0 for amplification; NaN where the training labels, or those that stand in, do not tie target and
            group by more than chance: then there is no tie to strengthen.
    """

    group: str
    direction: str
    said_in: float
    labelled_in: float
    said_out: float
    labelled_out: float
    size: Interval
    unrelated_errors: float
    p: float
    signed: Interval | float


def directions(answered: Answered, group: Binary) -> list[str]:
    """The kinds of amplification that can be measured: two of the three need predictions of the group."""
    return list(KINDS) if group.name in answered.predicted else ["group_to_attribute"]


def permutations_needed(tests: int, alpha: float) -> int:
    """How many permutations make the smallest p there is, times so many tests, at most alpha."""
    return math.ceil(tests / alpha)


def amplification(answered: Answered, *, permutations: int, seed: int) -> list[Amplification]:
    """The amplification of each group in each direction.

    Unrelated errors: the model's own answers, permuted among the images of equal labels
    (`metrics.permutation_baseline`).
    """
    return [row for group in answered.groups for row in _amplification(answered, group, permutations, seed)]


def _amplification(answered: Answered, group: Binary, permutations: int, seed: int) -> Iterator[Amplification]:
    columns = [answered.target.name, group.name]
    predicted = answered.predicted
    if group.name not in predicted:
        predicted = predicted.assign(**{group.name: answered.labels[group.name]})
    test, said = _labels(answered.labels[columns]), _labels(predicted[columns])
    trained = test if answered.train is None else _labels(answered.train[columns])
    tie = correlation((answered.labels if answered.train is None else answered.train)[columns], seed=seed)
    kinds = directions(answered, group)
    rng = np.random.default_rng(seed)
    changes = _changes(trained, test, said, kinds)
    hidden = not sys.stderr.isatty()
    bar = tqdm(range(permutations), desc=f"permuting answers, {group.name}", leave=False, disable=hidden)
    permuted = (permutation_baseline(test, said, rng=rng) for _ in bar)
    chance = np.array([_changes(trained, test, errors, kinds, signed=False) for errors in permuted])[..., 0]
    drawn = _bootstrap(trained, test, said, kinds, draws=min(permutations, _BOOTSTRAP), rng=rng)
    # on both sides: errors that lean on the other label may change an association less than those that do not
    far = np.abs(chance - chance.mean(axis=0)) >= np.abs(changes[:, 0] - chance.mean(axis=0)) - 1e-12
    p = np.where(np.isfinite(changes[:, 0]), (1 + far.sum(axis=0)) / (1 + permutations), np.nan)
    for at, kind in enumerate(kinds):
        size, signed = (percentiles(changes[at, which], drawn[:, at, which], len(test)) for which in (0, 1))
        rates = bias_amplification(trained, test, said, kind=kind, n_groups=2).table(None)  # type: ignore[arg-type]
        rates = rates.set_index("group")
        yield Amplification(
            group=group.name,
            direction=KINDS[kind],
            said_in=_rate(rates, "predicted", 1),
            labelled_in=_rate(rates, "reference", 1),
            said_out=_rate(rates, "predicted", 0),
            labelled_out=_rate(rates, "reference", 0),
            size=size,
            unrelated_errors=chance[:, at].mean(),
            p=p[at],
            signed=signed if tie.low > 0 or tie.high < 0 else np.nan,
        )


def _rate(rates: pd.DataFrame, column: str, group: int) -> float:
    return float(rates[column].get(group, np.nan))


def _changes(trained: Labels, test: Labels, said: Labels, kinds: Sequence[str], *, signed: bool = True) -> np.ndarray:
    """(kinds, 2) mean change: of sizes, and signed where asked for."""
    ways = (True, False) if signed else (True,)
    return np.array(
        [
            [bias_amplification(trained, test, said, kind=kind, absolute=way, n_groups=2).mean for way in ways]  # type: ignore[arg-type]
            for kind in kinds
        ]
    )


def _bootstrap(
    trained: Labels, test: Labels, said: Labels, kinds: Sequence[str], *, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """(k, kinds, 2) changes of images drawn anew; draws that lack a group or the target are left out.

    Where the labels stand in for those of the training, they are drawn with the images.
    """
    changes = []
    for _ in range(draws):
        index = rng.integers(len(test), size=len(test))
        again, answers = (Labels(side.attributes[index], side.groups[index], side.names) for side in (test, said))
        if again.attributes.any() and len(np.unique(again.groups)) == 2:
            changes.append(_changes(again if trained is test else trained, again, answers, kinds))
    return np.array(changes).reshape(-1, len(kinds), 2)


def _labels(columns: pd.DataFrame) -> Labels:
    return Labels(columns.iloc[:, [0]].to_numpy(), columns.iloc[:, 1].to_numpy(int), (str(columns.columns[0]),))
