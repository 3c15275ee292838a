"""What an audit computes from labels, answers and maps: every number with its interval and its n."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.audit.predictions import Predictions, progress
from biaslib.metrics import Labels, attention_iou, bias_amplification, group_accuracy, permutation_baseline
from biaslib.metrics.groups import matthews_correlation, matthews_from_counts
from biaslib.statistics import Interval, images_needed, interval, minimum_detectable_gap, sign_flip, welch
from biaslib.statistics.intervals import percentile_ends
from biaslib.statistics.proportions import compare_shares, share_interval

GAP = 0.05  # that the report says how many images are needed for
POWER = 0.8
SMALL = 30  # images in a cell below which it is flagged
_KINDS = {
    "group_to_attribute": "group → target",  # the group's influence on the answer about the target
    "attribute_to_group": "target → group",
    "undirected": "both predicted",
}
_BOOTSTRAP = 200  # draws for the interval of an amplification
_SHARE, _DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)

Tables = dict[str, pd.DataFrame]


def directions(answered: LabelledImages, group: Binary) -> list[str]:
    """The kinds of amplification that can be measured: two of the three need predictions of the group."""
    return list(_KINDS) if group.name in answered.predicted else ["group_to_attribute"]


def measure(
    answered: LabelledImages, predictions: Predictions | None, *, roles: Mapping[str, str], seed: int
) -> Tables:
    """The tables of everything that needs neither permutations nor the number of tests; of maps where there are any."""
    tables = {
        "overall": _overall(answered),
        "counts": _counts(answered),
        "correlations": _correlations(answered, seed),
        "accuracies": _accuracies(answered),
        "gaps": _gaps(answered),
    }
    if predictions is None or predictions.maps is None:
        return tables
    if groups := answered.groups[: predictions.maps.shape[1] - 1]:
        tables["attention"] = _attention(predictions.maps, groups, seed)
    if predictions.mass:
        tables["regions"] = _regions(predictions, roles, seed)
        tables["regions_by_cell"] = _regions_by_cell(predictions, answered, seed)
    return tables


def _overall(answered: LabelledImages) -> pd.DataFrame:
    """With Wilson's intervals."""
    truth, answers_yes = (frame[answered.target.name].to_numpy(bool) for frame in (answered.labels, answered.predicted))
    values = {
        "accuracy": answered.correct,
        "sensitivity": answered.correct[truth],
        "specificity": answered.correct[~truth],
        "share said yes": answers_yes,
        "share labelled yes": truth,
    }
    rows = [(name, share_interval(int(value.sum()), len(value))) for name, value in values.items()]
    return pd.DataFrame(rows, columns=["measure", "value"])


def _counts(answered: LabelledImages) -> pd.DataFrame:
    """How many images each cell of target x group has."""
    rows = []
    for group in answered.groups:
        of = answered.cells(group)
        for cell in (f"{mine}, {theirs}" for mine in answered.target.words[::-1] for theirs in group.words[::-1]):
            n = int((of == cell).sum())
            rows.append((group.name, cell, n, n / len(of), n < SMALL))
    return pd.DataFrame(rows, columns=["group", "cell", "n", "share", "small"])


def _correlations(answered: LabelledImages, seed: int) -> pd.DataFrame:
    """Matthews correlation of each group, always as labelled, with the target: labelled, predicted and in training."""
    rows = []
    for group in answered.groups:
        columns = [answered.target.name, group.name]
        answers = answered.predicted[[answered.target.name]].assign(**{group.name: answered.labels[group.name]})
        of_train = np.nan if answered.train is None else _correlation(answered.train[columns], seed)
        of_labels = _correlation(answered.labels[columns], seed)
        rows.append((group.name, of_labels, _correlation(answers, seed), of_train))
    return pd.DataFrame(rows, columns=["group", "in the labels", "of the answers", "in the training labels"])


def _accuracies(answered: LabelledImages) -> pd.DataFrame:
    """Accuracy of each cell that has images, with Wilson's interval."""
    rows = []
    for group in answered.groups:
        for row in group_accuracy(answered.correct, answered.cells(group)).to_dict("records"):
            accuracy = Interval(float(row["accuracy"]), float(row["low"]), float(row["high"]), int(row["n"]))
            rows.append((group.name, row["group"], accuracy))
    return pd.DataFrame(rows, columns=["group", "cell", "accuracy"])


def _gaps(answered: LabelledImages) -> pd.DataFrame:
    """The accuracy inside a group less that outside it, among images with one value of the target; NaN without any."""
    rows = []
    for group, among, sides in answered.sides():
        compared = compare_shares(*sides)
        gap = Interval(compared.difference, compared.low, compared.high, sum(compared.n))
        right = [float(side.mean()) if len(side) else np.nan for side in sides]
        rows.append((group, among, *compared.n, *right, gap, compared.p))
    columns = ["group", "among", "n_in", "n_out", "right_in", "right_out", "gap", "p"]
    return pd.DataFrame(rows, columns=columns)


def against(answered: LabelledImages, other: LabelledImages, seed: int) -> pd.DataFrame:
    """Each gap beside another model's on the same images, and the first less the second (change), image by image.

    Its interval is Welch's. Its p flips the signs of what only one of the two answers rightly: McNemar's test where
    that is all on one side, and conservative where one model is better on both.
    """
    changes, p = [], []
    for (*_, sides), (*_, others) in zip(answered.sides(), other.sides(), strict=True):
        inside, outside = (np.subtract(*pair, dtype=float) for pair in zip(sides, others, strict=True))
        change = welch(inside, outside)
        changes.append(Interval(change.difference, change.low, change.high, sum(change.n)))
        shares = np.concatenate([inside / max(1, len(inside)), -outside / max(1, len(outside))])
        flipped = sign_flip(shares[shares != 0] if shares.any() else shares, seed=seed).p
        p.append(flipped if min(change.n) else np.nan)
    table = _gaps(answered)[["group", "among", "n_in", "n_out", "gap"]]
    return table.assign(gap_other=_gaps(other)["gap"], change=changes, p=p)


def detectable_gaps(answered: LabelledImages, *, alpha: float) -> pd.DataFrame:
    """The smallest gaps below the better group's accuracy that are seen with `POWER`, and the images `GAP` needs."""
    rows = []
    for group, among, sides in answered.sides():
        n = sum(map(len, sides))
        smallest = needed = np.nan
        if min(map(len, sides)) > 0:
            better, worse = sorted(sides, key=np.mean, reverse=True)
            accuracy = float(better.mean())
            smallest = minimum_detectable_gap(accuracy, len(better), len(worse), power=POWER, alpha=alpha)
            needed = images_needed(accuracy, GAP, share=len(worse) / n, power=POWER, alpha=alpha)
        rows.append((group, among, n, smallest, needed))
    return pd.DataFrame(rows, columns=["group", "among", "images", "smallest", "needed"])


def _attention(maps: np.ndarray, groups: Sequence[Binary], seed: int) -> pd.DataFrame:
    """Attention-IoU of the target's map with each group's, and with that of another image."""
    rows = []
    other = np.random.default_rng(seed).permutation(len(maps))
    for number, group in enumerate(groups, start=1):
        score = attention_iou(maps[:, 0], maps[:, number])
        shuffled = attention_iou(maps[:, 0], maps[other, number])
        own, another = (interval(values, seed=seed, bounds=_SHARE) for values in (score, shuffled))
        rows.append((group.name, own, another, own.undefined))
    return pd.DataFrame(rows, columns=["group", "score", "another image", "empty"])


def average_maps(maps: np.ndarray, answered: LabelledImages, group: Binary) -> dict[str, np.ndarray]:
    """Cell of target and group -> (h, w) mean share of the map (N, h, w) that lies at each place.

    A map without any mass has no shares and is left out, and so is a cell in which no map has any.
    """
    totals = maps.sum((1, 2))
    of = answered.cells(group)
    rows = {cell: (of == cell) & (totals > 0) for cell in dict.fromkeys(sorted(of))}
    return {str(cell): (maps[at] / totals[at, None, None]).mean(axis=0) for cell, at in rows.items() if at.any()}


def _regions(predictions: Predictions, roles: Mapping[str, str], seed: int) -> pd.DataFrame:
    """How much of the target's map lies in each region, beside the region's share of the image, and their difference.

    A neutral region is described and not tested, and its p is NaN.
    """
    rows = []
    for region, mass in predictions.mass.items():
        there, role = np.isfinite(mass), roles.get(region, "neutral")
        area, score = (np.where(there, of[region], np.nan) for of in (predictions.area, predictions.score))
        covered, held, alike = (interval(values, seed=seed, bounds=_SHARE) for values in (area, mass, score))
        excess = interval(mass - area, seed=seed, bounds=_DIFFERENCE)
        p = np.nan if role == "neutral" else sign_flip(mass - area, seed=seed).p
        rows.append((region, role, int(there.sum()), covered, held, excess, alike, p))
    return pd.DataFrame(rows, columns=["region", "role", "n", "area", "mass", "excess", "score", "p"])


def _regions_by_cell(predictions: Predictions, answered: LabelledImages, seed: int) -> pd.DataFrame:
    """As `_regions`, cell by cell of target x group."""
    rows = []
    for region, mass in predictions.mass.items():
        for group in answered.groups:
            of = answered.cells(group)
            for cell in dict.fromkeys(sorted(of)):
                inside = (of == cell) & np.isfinite(mass)
                if inside.any():
                    own = interval(mass[inside], seed=seed, bounds=_SHARE)
                    excess = interval((mass - predictions.area[region])[inside], seed=seed, bounds=_DIFFERENCE)
                    rows.append((region, group.name, cell, int(inside.sum()), own, excess))
    return pd.DataFrame(rows, columns=["region", "group", "cell", "n", "mass", "excess"])


def _correlation(labels: pd.DataFrame, seed: int) -> Interval:
    """Matthews correlation of two columns with its bootstrap interval over images, one over the four counts."""
    a, b = labels.to_numpy(bool).T
    n = len(a)
    value = float(matthews_correlation(a, b))
    if np.isnan(value):
        return Interval(np.nan, np.nan, np.nan, n)
    shares = np.array([(a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum()]) / n
    both, only_a, only_b, _ = np.random.default_rng(seed).multinomial(n, shares, 2000).T
    drawn = matthews_from_counts(both=both, a=both + only_a, b=both + only_b, n=n)
    return Interval(value, *percentile_ends(drawn), n)


def amplification(answered: LabelledImages, *, permutations: int, seed: int) -> pd.DataFrame:
    """That of each group in each direction, beside the answers permuted among images of equal labels.

    How often the model says it, and it is labelled so, in the group and outside it; the mean absolute change (size),
    with its bootstrap interval over images, and its mean over the permutations; p, the share of permutations, the
    answers counted as one of them, at least as far from the permutations' mean; and the signed change, above 0 for
    amplification, NaN where chance may tie target and group: there is nothing to amplify.
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
    tie = _correlation((answered.labels if answered.train is None else answered.train)[columns], seed)
    kinds = directions(answered, group)
    rng = np.random.default_rng(seed)
    changes = _changes(trained, test, answers, kinds)
    chance = np.empty((permutations, len(kinds)))
    with progress(permutations, f"permuting answers, {group.name}", "permutation", leave=False) as bar:
        for row in chance:
            errors = permutation_baseline(test, answers, rng=rng)
            row[:] = _changes(trained, test, errors, kinds, sizes=[True])[:, 0]
            bar.update(1)
    drawn = _bootstrap(trained, test, answers, kinds, draws=min(permutations, _BOOTSTRAP), rng=rng)
    # on both sides: errors that lean on the other label may change an association less than those that do not
    far = np.abs(chance - chance.mean(axis=0)) >= np.abs(changes[:, 0] - chance.mean(axis=0)) - 1e-12
    p = np.where(np.isfinite(changes[:, 0]), (1 + far.sum(axis=0)) / (1 + permutations), np.nan)
    for at, kind in enumerate(kinds):
        size, signed = (
            Interval(changes[at, which], *percentile_ends(drawn[:, at, which]), len(test)) for which in (0, 1)
        )
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
