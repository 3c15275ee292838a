"""Amplification: whether the answers tie target and group more closely than the labels do, beside chance."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.measurements import correlation
from biaslib.audit.predictions import progress
from biaslib.metrics.amplification import Kind, Rule
from biaslib.metrics.labels import permuted_within
from biaslib.statistics import Interval
from biaslib.statistics.intervals import percentile_ends

_KINDS: dict[Kind, str] = {
    "group_to_attribute": "group → target",  # the group's influence on the answer about the target
    "attribute_to_group": "target → group",
    "undirected": "both predicted",
}
_BOOTSTRAP = 200  # draws for the interval of an amplification


def directions(answered: LabelledImages, group: Binary) -> list[Kind]:
    """The kinds of amplification that can be measured: two of the three need predictions of the group."""
    return list(_KINDS) if group.name in answered.predicted else ["group_to_attribute"]


def amplification(answered: LabelledImages, *, permutations: int, seed: int) -> pd.DataFrame:
    """That of each group in each direction, beside the answers permuted among images of equal labels.

    How often the model says it, and it is labelled so, in the group and outside it. The shift is the first's change
    less the second's, so that mistakes of all groups alike are none; where both shares are of one whole, it is the
    first's. It has a bootstrap interval over images, and its mean over the permutations. p is the share of
    permutations, the answers counted as one of them, at least as far from that mean. Signed is the mean of the two
    changes, above 0 for amplification, NaN where chance may tie target and group: nothing to amplify. With clusters
    nothing is permuted or drawn, as neither would say what chance does, and what comes of it is NaN.
    """
    permutations = permutations if answered.clusters is None else 0
    images, rng = _Images.of(answered, answered.labels, answered.predicted), np.random.default_rng(seed)
    train = None if answered.train is None else _Images.of(answered, answered.train, answered.train).counts()
    # one permutation, and one draw, serves all groups
    permuted, n = [], len(images.truth)
    with progress(permutations, "permuting answers", "permutation", leave=False) as bar:
        for _ in range(permutations):
            permuted.append(images.permuted(rng).counts())
            bar.update(1)
    drawn = [images.take(rng.integers(n, size=n)).counts() for _ in range(min(permutations, _BOOTSTRAP))]
    shape = (-1, len(answered.groups), 5, 2)
    chance, of_draws = (_measured(np.reshape(counts, shape), train)[1] for counts in (permuted, drawn))
    rates, changes = _measured(images.counts(), train)
    known, clusters = (answered.labels, answered.clusters) if answered.train is None else (answered.train, None)
    rows = []
    for at, group in enumerate(answered.groups):
        tie = correlation(known[[answered.target.name, group.name]], clusters, seed)
        for kind, name in enumerate(directions(answered, group)):
            shift, signed = (
                Interval(float(changes[at, kind, part]), *percentile_ends(of_draws[:, at, kind, part]), n)
                for part in (0, 1)
            )
            by_chance, rate = chance[:, at, kind, 0], rates[at, kind, ::-1, ::-1].T.ravel()
            middle = by_chance.mean() if permutations else np.nan
            # on both sides of what as many errors do to labels that are tied: they bring the groups closer together
            far = np.abs(by_chance - middle) >= np.abs(shift.estimate - middle) - 1e-12
            p = (1 + far.sum()) / (1 + permutations) if permutations else np.nan
            shown = signed if tie.low > 0 or tie.high < 0 else np.nan
            rows.append((group.name, _KINDS[name], *rate.tolist(), shift, middle, p, shown))
    columns = ["group", "direction", "said_in", "labelled_in", "said_out", "labelled_out"]
    return pd.DataFrame(rows, columns=[*columns, "shift", "unrelated errors", "p", "signed"])


@dataclass(frozen=True)
class _Images:
    """N images: whether each is labelled, and answered, yes; and for each group whether it is in it."""

    truth: np.ndarray  # (N,) bool
    said: np.ndarray  # (N,) bool
    groups: list[tuple[np.ndarray, np.ndarray]]  # (N,) bool as labelled and as answered, one array where not asked

    @classmethod
    def of(cls, answered: LabelledImages, labels: pd.DataFrame, predicted: pd.DataFrame) -> "_Images":
        truth, said = (frame[answered.target.name].to_numpy(bool) for frame in (labels, predicted))
        members = {group.name: labels[group.name].to_numpy(bool) for group in answered.groups}
        asked = {name: predicted[name].to_numpy(bool) for name in members if name in predicted}
        return cls(truth, said, [(member, asked.get(name, member)) for name, member in members.items()])

    def permuted(self, rng: np.random.Generator) -> "_Images":
        """With the answers of `permutation_baseline`, by the same random numbers."""
        keys = rng.random((2, len(self.said)))
        groups = [(own, own if of is own else of[permuted_within(own, keys[1])]) for own, of in self.groups]
        return replace(self, said=self.said[permuted_within(self.truth, keys[0])], groups=groups)

    def take(self, index: np.ndarray) -> "_Images":
        return _Images(self.truth[index], self.said[index], [(own[index], of[index]) for own, of in self.groups])

    def counts(self) -> np.ndarray:
        """(groups, 5, 2) outside each group and in it: all, labelled yes, answered yes; the last two by its answers."""
        every, counts = np.ones_like(self.truth), []
        for own, answer in self.groups:
            pairs = ((every, own), (self.truth, own), (self.said, own), (self.truth, answer), (self.said, answer))
            counts.append([(np.count_nonzero(of & ~inside), np.count_nonzero(of & inside)) for of, inside in pairs])
        return np.array(counts)


def _measured(counts: np.ndarray, train: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Of counts (..., 5, 2), as `bias_amplification` has them for one attribute, beside training's or their own.

    (..., kinds, 2, 2) the rates before and after, outside each group and in it; (..., kinds, 2) the change in the group
    beside that outside it, and the mean signed change; NaN without images that are labelled yes, or on either side.
    """
    both = np.array(np.broadcast_arrays(counts if train is None else train, counts))
    (trained, tested), rates, means = np.moveaxis(both, (-2, -1), (1, 2)), [], []  # (5, 2, ...)
    for column, kind in enumerate(_KINDS, start=2):
        rule = Rule(kind, "test", "1/G", np.stack([trained[0], tested[0]]))
        sides = trained[1], tested[1], tested[column]
        rates.append(rule.rates(*sides))
        outside, inside = np.nan_to_num(np.subtract(*rates[-1][::-1]))
        change, positive = rule.changes(*sides)
        signed = np.nan_to_num(np.where(positive | (kind == "undirected"), change, -change))
        apart = inside - outside if kind == "group_to_attribute" else inside
        means.append((apart, signed.sum(axis=0) if kind == "undirected" else signed.mean(axis=0)))
    there = (tested[0].min(axis=0) > 0) & (tested[1].max(axis=0) > 0)
    changes = np.where(there[..., None, None], np.moveaxis(np.array(means), (0, 1), (-2, -1)), np.nan)
    return np.moveaxis(np.array(rates), (0, 1, 2), (-3, -2, -1)), changes
