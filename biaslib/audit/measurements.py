"""What an audit computes from labels, answers and maps: every number with its interval and its n."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from biaslib.audit.inputs import Binary
from biaslib.audit.predictions import Predictions
from biaslib.metrics import attention_iou, group_accuracy
from biaslib.metrics.correlation import matthews_correlation, matthews_from_counts
from biaslib.statistics import Interval, images_needed, interval, minimum_detectable_gap, sign_flip
from biaslib.statistics.intervals import percentile_ends
from biaslib.statistics.proportions import compare_shares, share_interval

GAP = 0.05  # that the report says how many images are needed for
POWER = 0.8
SMALL = 30  # images in a cell below which it is flagged
_SHARE = (0.0, 1.0)


@dataclass(frozen=True)
class Answered:
    """N labelled images and what was answered about them.

    Attributes:
        labels: N rows of bool: the target and the groups.
        predicted: N rows of bool: the target, and the groups that are predicted.
        train: labels of the training images; None where not given.
        target: of the labels.
        groups: of the labels.
    """

    labels: pd.DataFrame
    predicted: pd.DataFrame
    train: pd.DataFrame | None
    target: Binary
    groups: tuple[Binary, ...]

    @cached_property
    def correct(self) -> np.ndarray:
        """(N,) bool: whether the answer about the target is right."""
        return self.predicted[self.target.name].to_numpy() == self.labels[self.target.name].to_numpy()

    def cells(self, group: Binary) -> np.ndarray:
        """(N,) words for the value of target and group of each image."""
        words = np.array([f"{mine}, {theirs}" for mine in self.target.words for theirs in group.words])
        return words[2 * self.labels[self.target.name].to_numpy(int) + self.labels[group.name].to_numpy(int)]

    def sides(self) -> Iterator[tuple[str, str, list[np.ndarray]]]:
        """Group, value of the target in words, and whether the answers are right inside and outside the group."""
        truth = self.labels[self.target.name].to_numpy()
        for group in self.groups:
            member = self.labels[group.name].to_numpy()
            for value in (True, False):
                sides = [self.correct[(truth == value) & inside] for inside in (member, ~member)]
                yield group.name, self.target.words[value], sides


@dataclass(frozen=True)
class Gap:
    """The accuracy inside a group less that outside it, among images with one value of the target; NaN without any."""

    group: str
    among: str
    n_in: int
    n_out: int
    right_in: float
    right_out: float
    gap: Interval
    p: float


@dataclass(frozen=True)
class DetectableGap:
    """The smallest gap that these images show with `POWER`, and how many images a gap of `GAP` would need."""

    group: str
    among: str
    images: int
    smallest: float
    needed: float


@dataclass(frozen=True)
class SharedAttention:
    """Attention-IoU of the target's map with a group's, and with the group's map of another image; `empty` maps."""

    group: str
    score: Interval
    another_image: Interval
    empty: int


@dataclass(frozen=True)
class Region:
    """How much of the target's map lies in a region, beside the region's share of the image, and their difference."""

    region: str
    role: str
    n: int
    area: Interval
    mass: Interval
    excess: Interval
    score: Interval
    p: float


@dataclass(frozen=True)
class Measurements:
    """What was measured of one model, amplification aside; empty where there are no maps, or no masks."""

    overall: dict[str, Interval]
    counts: pd.DataFrame
    correlations: pd.DataFrame
    accuracies: pd.DataFrame
    gaps: list[Gap]
    attention: list[SharedAttention]
    regions: list[Region]
    regions_by_cell: pd.DataFrame


def measure(
    answered: Answered, predictions: Predictions | None, *, roles: Mapping[str, str], seed: int
) -> Measurements:
    """Everything that needs neither permutations nor the number of tests."""
    maps = None if predictions is None else predictions.maps
    with_maps = predictions if maps is not None else None
    return Measurements(
        overall=overall(answered),
        counts=counts(answered),
        correlations=correlations(answered, seed=seed),
        accuracies=accuracies(answered),
        gaps=gaps(answered),
        attention=[] if maps is None or maps.shape[1] == 1 else attention(maps, answered.groups, seed=seed),
        regions=[] if with_maps is None else regions(with_maps, roles=roles, seed=seed),
        regions_by_cell=pd.DataFrame() if with_maps is None else regions_by_cell(with_maps, answered, seed=seed),
    )


def overall(answered: Answered) -> dict[str, Interval]:
    """Accuracy, sensitivity, specificity, and the shares said and labelled yes, with Wilson's intervals."""
    truth, said_yes = (frame[answered.target.name].to_numpy(bool) for frame in (answered.labels, answered.predicted))
    values = {
        "accuracy": answered.correct,
        "sensitivity": answered.correct[truth],
        "specificity": answered.correct[~truth],
        "share said yes": said_yes,
        "share labelled yes": truth,
    }
    return {name: share_interval(int(value.sum()), len(value)) for name, value in values.items()}


def counts(answered: Answered) -> pd.DataFrame:
    """How many images each cell of target x group has: columns group, cell, n, share, small."""
    rows = []
    for group in answered.groups:
        of = answered.cells(group)
        for cell in (f"{mine}, {theirs}" for mine in answered.target.words[::-1] for theirs in group.words[::-1]):
            n = int((of == cell).sum())
            rows.append((group.name, cell, n, n / len(of), n < SMALL))
    return pd.DataFrame(rows, columns=["group", "cell", "n", "share", "small"])


def correlations(answered: Answered, *, seed: int) -> pd.DataFrame:
    """Matthews correlation of each group with the target: as labelled, as predicted, and in the training labels.

    The second one takes the group as labelled: how far the model's answer follows it.
    """
    rows = []
    for group in answered.groups:
        columns = [answered.target.name, group.name]
        said = answered.predicted[[answered.target.name]].assign(**{group.name: answered.labels[group.name]})
        of_train = np.nan if answered.train is None else correlation(answered.train[columns], seed=seed)
        rows.append(
            (group.name, correlation(answered.labels[columns], seed=seed), correlation(said, seed=seed), of_train)
        )
    return pd.DataFrame(rows, columns=["group", "in the labels", "of the answers", "in the training labels"])


def accuracies(answered: Answered) -> pd.DataFrame:
    """Accuracy of each cell with Wilson's interval: columns group, cell, accuracy; only cells with images."""
    rows = []
    for group in answered.groups:
        for row in group_accuracy(answered.correct, answered.cells(group)).to_dict("records"):
            accuracy = Interval(float(row["accuracy"]), float(row["low"]), float(row["high"]), int(row["n"]))
            rows.append((group.name, row["group"], accuracy))
    return pd.DataFrame(rows, columns=["group", "cell", "accuracy"])


def gaps(answered: Answered) -> list[Gap]:
    """The gap of each group, among images with and without the target."""
    rows = []
    for group, among, sides in answered.sides():
        compared = compare_shares(*sides)
        gap = Interval(compared.difference, compared.low, compared.high, sum(compared.n))
        right_in, right_out = (float(side.mean()) if len(side) else np.nan for side in sides)
        rows.append(Gap(group, among, *compared.n, right_in, right_out, gap, compared.p))
    return rows


def detectable_gaps(answered: Answered, *, alpha: float) -> list[DetectableGap]:
    """What could have been seen of each gap, measured downwards from the accuracy of the better group."""
    rows = []
    for group, among, sides in answered.sides():
        n = sum(map(len, sides))
        smallest = needed = np.nan
        if min(map(len, sides)) > 0:
            better, worse = sorted(sides, key=np.mean, reverse=True)
            accuracy = float(better.mean())
            smallest = minimum_detectable_gap(accuracy, len(better), len(worse), power=POWER, alpha=alpha)
            needed = images_needed(accuracy, GAP, share=len(worse) / n, power=POWER, alpha=alpha)
        rows.append(DetectableGap(group, among, n, smallest, needed))
    return rows


def attention(maps: np.ndarray, groups: Sequence[Binary], *, seed: int) -> list[SharedAttention]:
    """How far target and group share their attention; maps (N, 1 + groups, h, w)."""
    rows = []
    other = np.random.default_rng(seed).permutation(len(maps))
    for number, group in enumerate(groups, start=1):
        score = attention_iou(maps[:, 0], maps[:, number])
        shuffled = attention_iou(maps[:, 0], maps[other, number])
        own, another = (interval(values, seed=seed, bounds=_SHARE) for values in (score, shuffled))
        rows.append(SharedAttention(group.name, own, another, own.undefined))
    return rows


def average_maps(maps: np.ndarray, answered: Answered, group: Binary) -> dict[str, np.ndarray]:
    """Cell of target and group -> (h, w) mean share of the map (N, h, w) that lies at each place.

    A map without any mass has no shares and is left out, and so is a cell in which no map has any.
    """
    totals = maps.sum((1, 2))
    of = answered.cells(group)
    rows = {cell: (of == cell) & (totals > 0) for cell in dict.fromkeys(sorted(of))}
    return {str(cell): (maps[at] / totals[at, None, None]).mean(axis=0) for cell, at in rows.items() if at.any()}


def regions(predictions: Predictions, *, roles: Mapping[str, str], seed: int) -> list[Region]:
    """How much of the target's map lies in each region; a neutral one is described and not tested, and its p is NaN."""
    rows = []
    for region, mass in predictions.mass.items():
        there = np.isfinite(mass)
        excess = np.where(there, mass - predictions.area[region], np.nan)
        area, score = (np.where(there, of[region], np.nan) for of in (predictions.area, predictions.score))
        shares = [interval(values, seed=seed, bounds=_SHARE) for values in (area, mass, score)]
        role = roles.get(region, "neutral")
        rows.append(
            Region(
                region=region,
                role=role,
                n=int(there.sum()),
                area=shares[0],
                mass=shares[1],
                excess=interval(excess, seed=seed, bounds=(-1.0, 1.0)),
                score=shares[2],
                p=np.nan if role == "neutral" else sign_flip(excess, seed=seed).p,
            )
        )
    return rows


def regions_by_cell(predictions: Predictions, answered: Answered, *, seed: int) -> pd.DataFrame:
    """As `regions`, cell by cell of target x group: columns region, group, cell, n, mass, excess."""
    rows = []
    for region, mass in predictions.mass.items():
        for group in answered.groups:
            of = answered.cells(group)
            for cell in dict.fromkeys(sorted(of)):
                inside = (of == cell) & np.isfinite(mass)
                if inside.any():
                    own = interval(mass[inside], seed=seed, bounds=_SHARE)
                    excess = interval((mass - predictions.area[region])[inside], seed=seed, bounds=(-1.0, 1.0))
                    rows.append((region, group.name, cell, int(inside.sum()), own, excess))
    return pd.DataFrame(rows, columns=["region", "group", "cell", "n", "mass", "excess"])


def correlation(labels: pd.DataFrame, *, seed: int, resamples: int = 2000) -> Interval:
    """Matthews correlation of two columns with its bootstrap interval over images, one over the four counts."""
    a, b = labels.to_numpy(bool).T
    n = len(a)
    value = float(matthews_correlation(a, b))
    if np.isnan(value):
        return Interval(np.nan, np.nan, np.nan, n)
    shares = np.array([(a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum()]) / n
    both, only_a, only_b, _ = np.random.default_rng(seed).multinomial(n, shares, resamples).T
    drawn = matthews_from_counts(both=both, a=both + only_a, b=both + only_b, n=n)
    return percentiles(value, drawn, n)


def percentiles(value: float, drawn: np.ndarray, n: int) -> Interval:
    """The percentile interval of bootstrap draws."""
    return Interval(value, *percentile_ends(drawn), n)
