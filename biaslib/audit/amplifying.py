"""Amplification: whether the answers tie target and group more closely than the labels do, beside chance."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.measurements import correlation
from biaslib.audit.predictions import progress
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
    amplification, NaN where chance may tie target and group: nothing to amplify. With clusters nothing is permuted or
    drawn, as neither would say what chance does, and what comes of it is NaN.
    """
    permutations = permutations if answered.clusters is None else 0
    images, rng = _Images.of(answered, answered.labels, answered.predicted), np.random.default_rng(seed)
    train = None if answered.train is None else _Images.of(answered, answered.train, answered.train).counts()
    # one permutation, and one draw, serves all groups
    chance = np.full((max(permutations, 1), len(answered.groups), len(_KINDS)), np.nan)
    with progress(permutations, "permuting answers", "permutation", leave=False) as bar:
        for row in chance[:permutations]:
            row[:] = _changes(images.permuted(rng).counts(), train)[..., 0]
            bar.update(1)
    n, draws = len(images.truth), min(permutations, _BOOTSTRAP)
    drawn = [_changes(images.take(rng.integers(n, size=n)).counts(), train) for _ in range(draws)]
    of_draws = np.array(drawn).reshape(-1, *chance.shape[1:], 2)
    rates, changes = _rates(images.counts(), train), _changes(images.counts(), train)
    known, clusters = (answered.labels, answered.clusters) if answered.train is None else (answered.train, None)
    rows = []
    for at, group in enumerate(answered.groups):
        tie = correlation(known[[answered.target.name, group.name]], clusters, seed)
        for kind, name in enumerate(directions(answered, group)):
            own, draws_of_it = changes[at, kind].tolist(), of_draws[:, at, kind].T
            size, signed = (Interval(each, *percentile_ends(of), n) for each, of in zip(own, draws_of_it, strict=True))
            by_chance, rate = chance[:, at, kind], rates[kind, ::-1, at, ::-1].T.ravel()
            # on both sides: errors that lean on the other label may change an association less than those that do not
            far = np.abs(by_chance - by_chance.mean()) >= np.abs(size.estimate - by_chance.mean()) - 1e-12
            p = (1 + far.sum()) / (1 + permutations) if permutations else np.nan
            shown = signed if tie.low > 0 or tie.high < 0 else np.nan
            rows.append((group.name, _KINDS[name], *rate.tolist(), size, by_chance.mean(), p, shown))
    columns = ["group", "direction", "said_in", "labelled_in", "said_out", "labelled_out"]
    return pd.DataFrame(rows, columns=[*columns, "size", "unrelated errors", "p", "signed"])


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
        said, keys = _permuted(self.said, self.truth, rng.random(len(self.said))), rng.random(len(self.said))
        groups = [(own, own if of is own else _permuted(of, own, keys)) for own, of in self.groups]
        return replace(self, said=said, groups=groups)

    def take(self, index: np.ndarray) -> "_Images":
        """The images at (n,) places."""
        return _Images(self.truth[index], self.said[index], [(own[index], of[index]) for own, of in self.groups])

    def counts(self) -> np.ndarray:
        """(groups, 5, 2) outside each group and in it: all, labelled yes, answered yes; the last two by its answers."""
        every, counts = np.ones_like(self.truth), []
        for own, answer in self.groups:
            pairs = ((every, own), (self.truth, own), (self.said, own), (self.truth, answer), (self.said, answer))
            counts.append([(np.count_nonzero(of & ~inside), np.count_nonzero(of & inside)) for of, inside in pairs])
        return np.array(counts)


def _permuted(values: np.ndarray, strata: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Values (N,) that change places among those of one stratum (N,) bool, in the order of random keys (N,)."""
    permuted = np.empty_like(values)
    for rows in (np.flatnonzero(~strata), np.flatnonzero(strata)):
        permuted[rows] = values[rows[np.argsort(keys[rows])]]
    return permuted


def _rates(counts: np.ndarray, train: np.ndarray | None) -> np.ndarray:
    """(kinds, 2, groups, 2) rates before and after, of counts (groups, 5, 2), which may stand in for training's."""
    images, labelled, said = counts.swapaxes(0, 1)[:3]
    with np.errstate(invalid="ignore"):  # 0 / 0
        shares, of_train = (of / of.sum(axis=2, keepdims=True) for of in (counts, counts if train is None else train))
        of_target = labelled / images, said / images
    return np.array([of_target, (shares[:, 1], shares[:, 3]), (of_train[:, 1], shares[:, 4])])


def _changes(counts: np.ndarray, train: np.ndarray | None) -> np.ndarray:
    """(groups, kinds, 2) mean absolute and mean signed change (`bias_amplification`); NaN where none is a yes."""
    images, yes = (counts if train is None else train).swapaxes(0, 1)[:2]
    before, after = _rates(counts, train).swapaxes(0, 1)
    change = np.nan_to_num(after - before)
    change[2] = 2 * np.where(yes > yes[:, ::-1], change[2], 0.0)  # a sum, where the others are means
    sign = np.where(yes * images[:, ::-1] > images * yes[:, ::-1], 1, -1)
    means = np.array([abs(change).mean(axis=2), (change * [sign, sign, abs(sign)]).mean(axis=2)])
    there = (counts[:, 0].min(axis=1) > 0) & (counts[:, 1].max(axis=1) > 0)
    return np.where(there[:, None, None], means.T, np.nan)
