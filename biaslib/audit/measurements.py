"""What an audit computes from labels, answers and maps: every number with its interval and its n."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.audit.inputs import SMALL, Binary, LabelledImages
from biaslib.audit.predictions import Predictions
from biaslib.metrics import attention_iou
from biaslib.metrics.groups import disparities, group_rates, matthews_correlation, matthews_from_counts, rate_images
from biaslib.statistics import Interval, images_needed, interval, minimum_detectable_gap, proportions, sign_flip
from biaslib.statistics.intervals import percentile_ends

POWER = 0.8
FEW = 3  # clusters on a side of a gap below which its test finds too much at small levels, as simulations showed
_SHARE, _DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)

Tables = dict[str, pd.DataFrame]


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
        **described(answered),
    }
    if predictions is None or predictions.maps is None:
        return tables
    if groups := answered.groups[: predictions.maps.shape[1] - 1]:
        tables["attention"] = _attention(predictions.maps, groups, answered.clusters, seed)
    if predictions.mass:
        tables["regions"] = _regions(predictions, answered, roles, seed)
        tables["regions_by_cell"] = _regions_by_cell(predictions, answered, seed)
    return tables


def described(answered: LabelledImages) -> Tables:
    """Rates by group and, where there are scores, their areas and calibration: what is described and not tested."""
    return {**_rates(answered), **({} if answered.scores is None else _scores(answered, answered.scores))}


def _overall(answered: LabelledImages) -> pd.DataFrame:
    """With Wilson's intervals."""
    truth, answers_yes = (frame[answered.target.name].to_numpy(bool) for frame in (answered.labels, answered.predicted))
    shares = {
        "accuracy": (answered.correct, truth | True),
        "sensitivity": (answered.correct, truth),
        "specificity": (answered.correct, ~truth),
        "share said yes": (answers_yes, truth | True),
        "share labelled yes": (truth, truth | True),
    }
    rows = [(name, _share(answered, *share)) for name, share in shares.items()]
    return pd.DataFrame(rows, columns=["measure", "value"])


def _independent(
    answered: LabelledImages, values: np.ndarray, *sides: np.ndarray, confidence: float = 0.95
) -> list[np.ndarray]:
    """The values (N,) bool of the images of each side; of as few as are worth as much where they come in clusters."""
    of_sides = [values[side] for side in sides]
    if answered.clusters is None:
        return of_sides
    return proportions.as_independent(of_sides, [answered.clusters[side] for side in sides], confidence=confidence)


def _share(answered: LabelledImages, values: np.ndarray, among: np.ndarray) -> Interval:
    """The share of True of the images among (N,) bool, with Wilson's interval."""
    (counted,) = _independent(answered, values, among)
    found = proportions.share_interval(int(counted.sum()), len(counted))
    return Interval(_mean(values[among]), found.low, found.high, int(among.sum()))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


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
        of_train = np.nan if answered.train is None else correlation(answered.train[columns], None, seed)
        of_labels = correlation(answered.labels[columns], answered.clusters, seed)
        rows.append((group.name, of_labels, correlation(answers, answered.clusters, seed), of_train))
    return pd.DataFrame(rows, columns=["group", "in the labels", "of the answers", "in the training labels"])


def _accuracies(answered: LabelledImages) -> pd.DataFrame:
    """Accuracy of each cell that has images, with Wilson's interval."""
    rows = []
    for group in answered.groups:
        of = answered.cells(group)
        rows += [(group.name, cell, _share(answered, answered.correct, of == cell)) for cell in sorted(set(of))]
    return pd.DataFrame(rows, columns=["group", "cell", "accuracy"])


def _rates(answered: LabelledImages) -> Tables:
    """Rates of each group and of the others, the first less the second; disparities; and combinations."""
    truth, said = (frame[answered.target.name].to_numpy(bool) for frame in (answered.labels, answered.predicted))
    rates, apart, counted = [], [], rate_images(truth, said)

    def shares(of: str, inside: np.ndarray) -> dict[str, Any]:
        own = {rate: _share(answered, hits, among & inside) for rate, (among, hits) in counted.items()}
        return {"of": of, "n": int(inside.sum()), **own}

    for group in answered.groups:
        member = answered.labels[group.name].to_numpy(bool)
        sides = zip(group.words[::-1], (member, ~member), strict=True)
        rates += [{"group": group.name, **shares(of, inside)} for of, inside in sides]
        less = {rate: _compared(answered, hits, [of & member, of & ~member])[1] for rate, (of, hits) in counted.items()}
        rates.append({"group": group.name, "of": "the difference", "n": len(truth), **less})
        found = disparities(group_rates(truth, said, member))
        apart += [(group.name, *row) for row in found.itertuples()]
    heads = ["group", "disparity", "difference", "ratio"]
    tables = {"rates": pd.DataFrame(rates), "disparities": pd.DataFrame(apart, columns=heads)}
    if answered.combinations is not None:
        cells = {str(name): answered.combinations == name for name in np.unique(answered.combinations)}
        worth = np.array([len(_independent(answered, answered.correct, inside)[0]) for inside in cells.values()])
        images, right = (np.array([count(answered.correct[at]) for at in cells.values()]) for count in (len, np.sum))
        drawn = proportions.shrunk_shares(right * worth / images, worth, _mean(answered.correct)).T.tolist()
        table = pd.DataFrame(shares(of, inside) for of, inside in cells.items())
        shrunk = [Interval(share, low, high, n) for (share, low, high), n in zip(drawn, table["n"], strict=True)]
        tables["intersections"] = table.assign(shrunk=pd.Series(shrunk, dtype=object))
    return tables


def _scores(answered: LabelledImages, scores: np.ndarray) -> Tables:
    """Area under the ROC curve; for scores in [0, 1] calibration (Naeini et al. 2015) in ten bins equal in count."""
    from sklearn.metrics import roc_auc_score  # here and not above, as it takes a second

    truth, probable = answered.labels[answered.target.name].to_numpy(bool), scores.min() >= 0 and scores.max() <= 1
    areas, bins = [], []
    for group, side in ((group, side) for group in answered.groups for side in (True, False)):
        of, inside = group.words[side], answered.labels[group.name].to_numpy(bool) == side
        yes, score, error = truth[inside], scores[inside], np.nan
        area = roc_auc_score(yes, score) if 0 < yes.sum() < len(yes) else np.nan
        own = proportions.area_interval(area, int(yes.sum()), len(yes))
        if answered.clusters is not None:  # it takes images to be independent
            own = Interval(area, np.nan, np.nan, len(yes))
        if probable:
            tenths = np.searchsorted(np.percentile(score, 100 * np.linspace(0, 1, 11))[1:-1], scores)
            in_bins = [inside & (tenths == tenth) for tenth in np.unique(tenths[inside])]
            means, shares = [scores[at].mean() for at in in_bins], [_share(answered, truth, at) for at in in_bins]
            apart = [abs(mean - share.estimate) for mean, share in zip(means, shares, strict=True)]
            error = np.average(apart, weights=[share.n for share in shares])
            bins += [(group.name, of, mean, share.n, share) for mean, share in zip(means, shares, strict=True)]
        areas.append((group.name, of, len(yes), own, error))
    heads = ["group", "of", "n", "AUC", "calibration error"], ["group", "of", "score", "n", "share labelled yes"]
    return {"scores": pd.DataFrame(areas, columns=heads[0]), "calibration": pd.DataFrame(bins, columns=heads[1])}


def _gaps(answered: LabelledImages) -> pd.DataFrame:
    """The accuracy inside a group less that outside it, among images with one value of the target; NaN without any."""
    rows = []
    for group, among, sides in answered.image_sides():
        right, gap, p, _ = _compared(answered, answered.correct, sides)
        rows.append((group, among, *(int(side.sum()) for side in sides), *right, gap, p))
    return pd.DataFrame(rows, columns=["group", "among", "n_in", "n_out", "right_in", "right_out", "gap", "p"])


def _compared(
    answered: LabelledImages, values: np.ndarray, sides: Sequence[np.ndarray], *, confidence: float = 0.95
) -> tuple[list[float], Interval, float, list[np.ndarray]]:
    """The share of True on each side, the first less the second, its p, and the values that are independent.

    Where images come in clusters p is by Student's distribution: of so few values as are independent it would be right
    at 0.05 alone, and several times too small at those of corrected tests. NaN where a side has fewer than `FEW`.
    """
    counted = _independent(answered, values, *sides, confidence=confidence)
    shares = [_mean(values[side]) for side in sides]
    apart = proportions.compare_shares(*counted, confidence=confidence)
    gap = Interval(shares[0] - shares[1], apart.low, apart.high, int(np.sum(sides)), confidence)
    if answered.clusters is None:
        return shares, gap, apart.p, counted
    clusters = [len(np.unique(answered.clusters[side])) for side in (*sides, np.any(sides, axis=0))]
    free, ends = clusters[-1] - 2, (1 + confidence) / 2
    narrowed = scipy.stats.norm.ppf(ends) / scipy.stats.t.ppf(ends, free)  # by `as_independent`
    p = 2 * scipy.stats.t.sf(scipy.stats.norm.isf(apart.p / 2) / narrowed, free)
    return shares, gap, float(p) if min(clusters) >= FEW else np.nan, counted


def wrong_answers(answered: LabelledImages, sides: Sequence[np.ndarray]) -> tuple[Interval, Interval, Interval, float]:
    """The share of wrong answers among the images of each of two sides, the first less the second, and its p."""
    wrong = ~answered.correct
    _, apart, p, _ = _compared(answered, wrong, sides)
    inside, outside = (_share(answered, wrong, side) for side in sides)
    return inside, outside, apart, p


def against(answered: LabelledImages, other: LabelledImages, seed: int) -> pd.DataFrame:
    """Each gap beside another model's on the same images, and the first less the second (change), image by image.

    The interval and p of a change are those of `compare_changes`, and NaN where images come in clusters.
    """
    changes, p, gains = [], [], answered.correct.astype(int) - other.correct
    for *_, sides in answered.image_sides():
        change = proportions.compare_changes(*(gains[side] for side in sides), seed=seed)
        low, high, of_change = (change.low, change.high, change.p) if answered.clusters is None else [np.nan] * 3
        changes.append(Interval(change.difference, low, high, sum(change.n)))
        p.append(of_change)
    table = _gaps(answered)[["group", "among", "n_in", "n_out", "gap"]]
    return table.assign(gap_other=_gaps(other)["gap"], change=pd.Series(changes, dtype=object), p=p)


def retrained(answered: LabelledImages, again: Sequence[LabelledImages], seed: int) -> pd.DataFrame:
    """Each gap beside those of the same model trained again, on the same images.

    The lowest and the highest of theirs; in how many of them it is at least as far from 0 on the same side (as_far);
    and the mean of all trainings, this one among them, with its bootstrap interval over them. NaN without images.
    """
    table = _gaps(answered)[["group", "among", "gap"]]
    own, *others = (_gaps(each)["gap"].map(lambda gap: gap.estimate).to_numpy(float) for each in (answered, *again))
    theirs = np.array(others)
    as_far = np.where(np.isnan(own), np.nan, (theirs * np.sign(own) >= np.abs(own)).sum(axis=0))
    means = [interval([gap, *of], seed=seed, bounds=(-1, 1)) for gap, of in zip(own, theirs.T, strict=True)]
    ends = {"lowest": theirs.min(axis=0), "highest": theirs.max(axis=0)}
    return table.assign(**ends, as_far=as_far, trainings=len(theirs), mean=pd.Series(means, dtype=object))


def detectable_gaps(answered: LabelledImages, *, alpha: float, margin: float) -> pd.DataFrame:
    """Each gap with its interval of confidence 1 - alpha, what that says of the margin, and what could have been seen.

    The outcome is *shown* where the interval lies beyond the margin on one side, *excluded* where it lies inside. The
    smallest gap below the better group's accuracy is seen with `POWER`, as one of the margin is with the images needed.
    """
    rows = []
    for group, among, sides in answered.image_sides():
        _, gap, p, counted = _compared(answered, answered.correct, sides, confidence=1 - alpha)
        beyond, inside = max(gap.low, -gap.high) > margin, max(-gap.low, gap.high) < margin
        outcome = "cannot be told" if np.isnan(p) else "shown" if beyond else "excluded" if inside else "cannot be told"
        smallest = needed = np.nan
        if min(map(len, counted)) > 0:
            better, worse = sorted(counted, key=np.mean, reverse=True)
            accuracy, worth = float(better.mean()), len(better) + len(worse)
            smallest = minimum_detectable_gap(accuracy, len(better), len(worse), power=POWER, alpha=alpha)
            needed = images_needed(accuracy, margin, share=len(worse) / worth, power=POWER, alpha=alpha) * gap.n / worth
        rows.append((group, among, gap, outcome, gap.n, smallest, needed))
    return pd.DataFrame(rows, columns=["group", "among", "gap", "outcome", "images", "smallest", "needed"])


def _attention(maps: np.ndarray, groups: Sequence[Binary], clusters: np.ndarray | None, seed: int) -> pd.DataFrame:
    """Attention-IoU of the target's map with each group's, and with that of another image."""
    rows, other = [], np.random.default_rng(seed).permutation(len(maps))
    for number, group in enumerate(groups, start=1):
        score = attention_iou(maps[:, 0], maps[:, number])
        shuffled = attention_iou(maps[:, 0], maps[other, number])
        own, another = (interval(of, clusters=clusters, seed=seed, bounds=_SHARE) for of in (score, shuffled))
        rows.append((group.name, own, another, own.undefined))
    return pd.DataFrame(rows, columns=["group", "score", "another image", "empty"])


def average_maps(maps: np.ndarray, answered: LabelledImages, group: Binary) -> dict[str, np.ndarray]:
    """Cell of target and group -> (h, w) mean share of the map (N, h, w) that lies at each place.

    A map without any mass has no shares and is left out, and so is a cell in which no map has any.
    """
    totals, of = maps.sum((1, 2)), answered.cells(group)
    rows = {cell: (of == cell) & (totals > 0) for cell in dict.fromkeys(sorted(of))}
    return {str(cell): (maps[at] / totals[at, None, None]).mean(axis=0) for cell, at in rows.items() if at.any()}


def _regions(predictions: Predictions, answered: LabelledImages, roles: Mapping[str, str], seed: int) -> pd.DataFrame:
    """How much of the target's map lies in each region, beside the region's share of the image, and their difference.

    A neutral region is described and not tested, and its p is NaN. Each cluster counts once, by its images' mean.
    """
    rows, mean = [], partial(interval, clusters=answered.clusters, seed=seed)
    for region, mass in predictions.mass.items():
        there, role = np.isfinite(mass), roles.get(region, "neutral")
        area, score = (np.where(there, of[region], np.nan) for of in (predictions.area, predictions.score))
        covered, held, alike = (mean(values, bounds=_SHARE) for values in (area, mass, score))
        excess = mean(mass - area, bounds=_DIFFERENCE)
        units = mass - area if answered.clusters is None else pd.Series(mass - area).groupby(answered.clusters).mean()
        p = np.nan if role == "neutral" else sign_flip(units, seed=seed).p
        rows.append((region, role, int(there.sum()), covered, held, excess, alike, p))
    return pd.DataFrame(rows, columns=["region", "role", "n", "area", "mass", "excess", "score", "p"])


def _regions_by_cell(predictions: Predictions, answered: LabelledImages, seed: int) -> pd.DataFrame:
    """As `_regions`, cell by cell of target x group."""
    rows, mean = [], partial(interval, clusters=answered.clusters, seed=seed)
    for region, mass in predictions.mass.items():
        for group in answered.groups:
            of = answered.cells(group)
            for cell in dict.fromkeys(sorted(of)):
                inside = (of == cell) & np.isfinite(mass)
                if inside.any():
                    held = np.where(inside, mass, np.nan)
                    own, excess = mean(held, bounds=_SHARE), mean(held - predictions.area[region], bounds=_DIFFERENCE)
                    rows.append((region, group.name, cell, int(inside.sum()), own, excess))
    return pd.DataFrame(rows, columns=["region", "group", "cell", "n", "mass", "excess"])


def correlation(labels: pd.DataFrame, clusters: np.ndarray | None, seed: int) -> Interval:
    """Matthews correlation of two columns with its bootstrap interval over images, one over the four counts."""
    a, b = labels.to_numpy(bool).T
    n = len(a)
    value = float(matthews_correlation(a, b))
    if np.isnan(value):
        return Interval(np.nan, np.nan, np.nan, n)
    shares = np.array([(a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum()]) / n
    worth = n if clusters is None else len(proportions.as_independent([a == b], [clusters])[0])
    both, only_a, only_b, _ = np.random.default_rng(seed).multinomial(worth, shares, 2000).T
    drawn = matthews_from_counts(both=both, a=both + only_a, b=both + only_b, n=worth)
    return Interval(value, *percentile_ends(drawn), n)
