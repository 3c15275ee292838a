"""What an audit computes from labels, answers and maps: every number with its interval and its n."""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from tqdm import tqdm

from biaslib.audit.tables import Binary
from biaslib.metrics import Labels, attention_iou, bias_amplification, group_accuracy, permutation_baseline
from biaslib.metrics.correlation import matthews_correlation, matthews_from_counts
from biaslib.statistics import Interval, images_needed, interval, minimum_detectable_gap, sign_flip
from biaslib.statistics.proportions import compare_shares, share_interval

GAP = 0.05  # that the report says how many images are needed for
POWER = 0.8
BOOTSTRAP = 200  # draws for the interval of an amplification
SMALL = 30  # images in a cell below which it is flagged
RATES = ("said_in", "labelled_in", "said_out", "labelled_out")
KINDS = {
    "group_to_attribute": "group → target",  # the group's influence on the answer about the target
    "attribute_to_group": "target → group",
    "undirected": "both predicted",
}


def cells(labels: pd.DataFrame, target: Binary, group: Binary) -> np.ndarray:
    """(N,) words for the value of target and group of each image."""
    words = np.array([f"{mine}, {theirs}" for mine in target.words for theirs in group.words])
    return words[2 * labels[target.name].to_numpy(int) + labels[group.name].to_numpy(int)]


def overall(correct: np.ndarray, labels: pd.DataFrame, predicted: pd.DataFrame, target: Binary) -> pd.DataFrame:
    """How good the answers are over all images: columns measure and value (Interval, Wilson's).

    Accuracy; sensitivity, the share of right answers among images with the target; specificity, that among images
    without it; the share of images that the model says yes to; and the share that is labelled yes.
    """
    truth, said = (frame[target.name].to_numpy(bool) for frame in (labels, predicted))
    values = {
        "accuracy": correct,
        "sensitivity": correct[truth],
        "specificity": correct[~truth],
        "share said yes": said,
        "share labelled yes": truth,
    }
    rows = [(name, share_interval(int(value.sum()), len(value))) for name, value in values.items()]
    return pd.DataFrame(rows, columns=["measure", "value"])


def counts(labels: pd.DataFrame, target: Binary, groups: Sequence[Binary]) -> pd.DataFrame:
    """How many images each cell of target x group has: columns group, cell, n, share, small."""
    rows = []
    for group in groups:
        of = cells(labels, target, group)
        for mine in reversed(target.words):
            for theirs in reversed(group.words):
                n = int((of == f"{mine}, {theirs}").sum())
                rows.append((group.name, f"{mine}, {theirs}", n, n / len(labels), n < SMALL))
    return pd.DataFrame(rows, columns=["group", "cell", "n", "share", "small"])


def correlations(
    labels: pd.DataFrame,
    predicted: pd.DataFrame,
    train: pd.DataFrame | None,
    target: Binary,
    groups: Sequence[Binary],
    *,
    seed: int,
) -> pd.DataFrame:
    """Matthews correlation of each group with the target: as labelled, as predicted, and in the training labels.

    The second one takes the group as labelled: how far the model's answer follows it.
    """
    rows = []
    for group in groups:
        member = labels[group.name].to_numpy()
        rows.append(
            {
                "group": group.name,
                "in the labels": _correlation(labels[target.name].to_numpy(), member, seed=seed),
                "of the answers": _correlation(predicted[target.name].to_numpy(), member, seed=seed),
                "in the training labels": _correlation(
                    train[target.name].to_numpy(), train[group.name].to_numpy(), seed=seed
                )
                if train is not None
                else np.nan,
            }
        )
    return pd.DataFrame(rows)


def accuracies(correct: np.ndarray, labels: pd.DataFrame, target: Binary, groups: Sequence[Binary]) -> pd.DataFrame:
    """Accuracy of each cell with Wilson's interval: columns group, cell, accuracy; only cells with images."""
    rows = []
    for group in groups:
        for row in group_accuracy(correct, cells(labels, target, group)).to_dict("records"):
            accuracy = Interval(float(row["accuracy"]), float(row["low"]), float(row["high"]), int(row["n"]))
            rows.append((group.name, row["group"], accuracy))
    return pd.DataFrame(rows, columns=["group", "cell", "accuracy"])


def gaps(correct: np.ndarray, labels: pd.DataFrame, target: Binary, groups: Sequence[Binary]) -> pd.DataFrame:
    """The accuracy of the images in a group less that of the others, among images with and without the target.

    Columns: group, among, n_in, n_out, right_in, right_out (accuracies), gap (Interval), p. NaN where a side has no
    images.
    """
    rows = []
    truth = labels[target.name].to_numpy()
    for group in groups:
        member = labels[group.name].to_numpy()
        for value in (True, False):
            sides = [correct[(truth == value) & inside] for inside in (member, ~member)]
            found = compare_shares(*sides)
            gap = Interval(found.difference, found.low, found.high, sum(found.n))
            right = [float(side.mean()) if len(side) else np.nan for side in sides]
            rows.append((group.name, target.words[value], *found.n, *right, gap, found.p))
    return pd.DataFrame(rows, columns=["group", "among", "n_in", "n_out", "right_in", "right_out", "gap", "p"])


def what_could_be_seen(
    correct: np.ndarray, labels: pd.DataFrame, target: Binary, groups: Sequence[Binary], *, alpha: float
) -> pd.DataFrame:
    """For each gap: the smallest one that these images show with 80 % power, and how many images 5 points would need.

    A gap is measured downwards from the accuracy of the better group.

    Columns: group, among, images, smallest, needed.
    """
    rows = []
    truth = labels[target.name].to_numpy()
    for group in groups:
        member = labels[group.name].to_numpy()
        for value in (True, False):
            sides = [correct[(truth == value) & inside] for inside in (member, ~member)]
            sizes = [len(side) for side in sides]
            row = [group.name, target.words[value], sum(sizes), np.nan, np.nan]
            if min(sizes) > 0:
                better, worse = sorted(sides, key=np.mean, reverse=True)
                accuracy = float(better.mean())
                share = len(worse) / sum(sizes)
                row[3] = minimum_detectable_gap(accuracy, len(better), len(worse), power=POWER, alpha=alpha)
                row[4] = images_needed(accuracy, GAP, share=share, power=POWER, alpha=alpha)
            rows.append(row)
    return pd.DataFrame(rows, columns=["group", "among", "images", "smallest", "needed"])


def amplification(
    labels: pd.DataFrame,
    predicted: pd.DataFrame,
    train: pd.DataFrame | None,
    target: Binary,
    groups: Sequence[Binary],
    *,
    draws: int,
    seed: int,
) -> pd.DataFrame:
    """How far the answers change the association of target and group, each way, beside what unrelated errors give.

    Unrelated errors: the model's own answers, dealt anew among the images of equal labels
    (`metrics.permutation_baseline`). p is the share of deals, the answers counted as one of them, whose size is at
    least as far from the deals' mean.

    Columns: group, direction, size (Interval, bootstrap over images), unrelated errors (mean size over the deals), p,
    and signed (Interval; above 0 for amplification), which is NaN where the training labels, or those that stand in,
    do not tie target and group by more than chance: then there is no tie to strengthen. Directions that need
    predictions of the group are left out where there are none.
    """
    rows = []
    for group in groups:
        told = group.name in predicted
        test = _labels(labels, target, group)
        said = _labels(predicted if told else predicted.assign(**{group.name: labels[group.name]}), target, group)
        trained = None if train is None else _labels(train, target, group)
        tie = _correlation(*(labels if train is None else train)[[target.name, group.name]].to_numpy(bool).T, seed=seed)
        kinds = directions(predicted, group)
        rng = np.random.default_rng(seed)
        changes = _changes(test, said, trained, kinds)
        bar = tqdm(range(draws), desc=f"dealing answers, {group.name}", leave=False, disable=not sys.stderr.isatty())
        deals = (permutation_baseline(test, said, rng=rng) for _ in bar)
        dealt = np.array([_changes(test, one, trained, kinds, signed=False) for one in deals])[..., 0]
        drawn = _drawn(test, said, trained, kinds, draws=min(draws, BOOTSTRAP), rng=rng)
        # on both sides: errors that lean on the other label may change an association less than those that do not
        far = np.abs(dealt - dealt.mean(axis=0)) >= np.abs(changes[:, 0] - dealt.mean(axis=0)) - 1e-12
        p = np.where(np.isfinite(changes[:, 0]), (1 + far.sum(axis=0)) / (1 + draws), np.nan)
        for at, kind in enumerate(kinds):
            size, signed = (_interval(changes[at, which], drawn[:, at, which], len(labels)) for which in (0, 1))
            tied = tie.low > 0 or tie.high < 0
            rates = _rates(test, said, trained, kind)
            chance = dealt[:, at].mean()
            rows.append((group.name, KINDS[kind], *rates, size, chance, p[at], signed if tied else np.nan))
    columns = ["group", "direction", *RATES, "size", "unrelated errors", "p", "signed"]
    return pd.DataFrame(rows, columns=columns)


def directions(predicted: pd.DataFrame, group: Binary) -> list[str]:
    """The kinds of amplification that these predictions allow: two of the three need those of the group."""
    return list(KINDS) if group.name in predicted else ["group_to_attribute"]


def deals_needed(tests: int, alpha: float) -> int:
    """How often answers must be dealt so that the smallest p there is, times so many tests, is at most alpha."""
    return int(np.ceil(tests / alpha))


def attention(maps: np.ndarray, groups: Sequence[Binary], *, seed: int) -> pd.DataFrame:
    """Attention-IoU of the target's map with each group's, beside that with the group's map of another image.

    Columns: group, score, another image (Intervals), empty (maps without any mass).
    """
    rows = []
    other = np.random.default_rng(seed).permutation(len(maps))
    for number, group in enumerate(groups, start=1):
        score = attention_iou(maps[:, 0], maps[:, number])
        shuffled = attention_iou(maps[:, 0], maps[other, number])
        found = [interval(values, seed=seed, bounds=(0.0, 1.0)) for values in (score, shuffled)]
        rows.append((group.name, *found, found[0].undefined))
    return pd.DataFrame(rows, columns=["group", "score", "another image", "empty"])


def average_maps(maps: np.ndarray, labels: pd.DataFrame, target: Binary, group: Binary) -> dict[str, np.ndarray]:
    """Cell of target and group -> (h, w) mean share of the map (N, h, w) that lies at each place.

    A map without any mass has no shares and is left out, and so is a cell in which no map has any.
    """
    totals = maps.sum((1, 2))
    of = cells(labels, target, group)
    rows = {cell: (of == cell) & (totals > 0) for cell in dict.fromkeys(sorted(of))}
    return {str(cell): (maps[at] / totals[at, None, None]).mean(axis=0) for cell, at in rows.items() if at.any()}


def regions(
    mass: Mapping[str, np.ndarray],
    score: Mapping[str, np.ndarray],
    area: Mapping[str, np.ndarray],
    *,
    roles: Mapping[str, str],
    seed: int,
) -> pd.DataFrame:
    """How much of the target's map lies in each region, beside the region's share of the image.

    Columns: region, role, n (images that have it), area, mass, excess (mass less area) and score (Intervals), p
    (`statistics.sign_flip` of the excess). A region without a role in `roles` is "neutral": it is described and not
    tested, so that its p is NaN.
    """
    rows = []
    for region in mass:
        there = np.isfinite(mass[region])
        excess = np.where(there, mass[region] - area[region], np.nan)
        measured = [
            interval(np.where(there, values, np.nan), seed=seed, bounds=bounds)
            for values, bounds in (
                (area[region], (0.0, 1.0)),
                (mass[region], (0.0, 1.0)),
                (excess, (-1.0, 1.0)),
                (score[region], (0.0, 1.0)),
            )
        ]
        role = roles.get(region, "neutral")
        p = np.nan if role == "neutral" else sign_flip(excess, seed=seed).p
        rows.append((region, role, int(there.sum()), *measured, p))
    return pd.DataFrame(rows, columns=["region", "role", "n", "area", "mass", "excess", "score", "p"])


def regions_by_cell(
    mass: Mapping[str, np.ndarray],
    area: Mapping[str, np.ndarray],
    labels: pd.DataFrame,
    target: Binary,
    groups: Sequence[Binary],
    *,
    seed: int,
) -> pd.DataFrame:
    """As `regions`, cell by cell of target x group: columns region, group, cell, n, mass, excess."""
    rows = []
    for region in mass:
        for group in groups:
            of = cells(labels, target, group)
            for cell in dict.fromkeys(sorted(of)):
                inside = (of == cell) & np.isfinite(mass[region])
                if inside.any():
                    own = mass[region][inside]
                    held = [
                        interval(v, seed=seed, bounds=b)
                        for v, b in ((own, (0.0, 1.0)), (own - area[region][inside], (-1.0, 1.0)))
                    ]
                    rows.append((region, group.name, cell, int(inside.sum()), *held))
    return pd.DataFrame(rows, columns=["region", "group", "cell", "n", "mass", "excess"])


def _correlation(a: np.ndarray, b: np.ndarray, *, seed: int, resamples: int = 2000) -> Interval:
    """Matthews correlation with its bootstrap interval over images, which is one over the four counts."""
    n = len(a)
    value = float(matthews_correlation(a, b))
    if np.isnan(value):
        return Interval(np.nan, np.nan, np.nan, n)
    shares = np.array([(a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum()]) / n
    both, only_a, only_b, _ = np.random.default_rng(seed).multinomial(n, shares, resamples).T
    drawn = matthews_from_counts(both=both, a=both + only_a, b=both + only_b, n=n)
    return _interval(value, drawn, n)


def _interval(value: float, drawn: np.ndarray, n: int) -> Interval:
    """The percentile interval of bootstrap draws."""
    low, high = np.nanquantile(drawn, [0.025, 0.975]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return Interval(value, float(low), float(high), n)


def _changes(
    test: Labels, said: Labels, trained: Labels | None, kinds: Sequence[str], *, signed: bool = True
) -> np.ndarray:
    """(kinds, 2) mean change: of sizes, and signed where asked for."""
    sides = (test if trained is None else trained, test, said)
    return np.array(
        [
            [
                bias_amplification(*sides, kind=kind, absolute=absolute, n_groups=2).mean  # type: ignore[arg-type]
                for absolute in ((True, False) if signed else (True,))
            ]
            for kind in kinds
        ]
    )


def _rates(test: Labels, said: Labels, trained: Labels | None, kind: str) -> list[float]:
    """Said and labelled, of the group and of the others."""
    sides = (test if trained is None else trained, test, said)
    cells = bias_amplification(*sides, kind=kind, n_groups=2).table(None)  # type: ignore[arg-type]
    cells = cells.set_index("group").reindex([1, 0])
    return [float(value) for value in cells[["predicted", "reference"]].to_numpy().ravel()]


def _drawn(
    test: Labels,
    said: Labels,
    trained: Labels | None,
    kinds: Sequence[str],
    *,
    draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """(k, kinds, 2) changes of images drawn anew; draws that lack a group or the target are left out."""
    found = []
    for _ in range(draws):
        index = rng.integers(len(test), size=len(test))
        again = _rows(test, index)
        if again.attributes.any() and len(np.unique(again.groups)) == 2:
            found.append(_changes(again, _rows(said, index), trained, kinds))
    return np.array(found).reshape(-1, len(kinds), 2)


def _labels(labels: pd.DataFrame, target: Binary, group: Binary) -> Labels:
    return Labels(labels[[target.name]].to_numpy(), labels[group.name].to_numpy(int), (target.name,))


def _rows(labels: Labels, index: np.ndarray) -> Labels:
    return Labels(labels.attributes[index], labels.groups[index], labels.names)
