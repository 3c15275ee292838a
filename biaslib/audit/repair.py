"""Two repairs that leave the model's features as they are: chosen on one half of the images, measured on the other."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from biaslib.audit.discovery import first_half
from biaslib.audit.inputs import LabelledImages
from biaslib.audit.measurements import Tables, against, measure

_GAPS = {"gap_other": "gap_before", "gap": "gap_after"}  # `measurements.against` has the model that is compared first
_GRID = 51  # thresholds of each side of a group that are tried
_IMAGES = 10  # that each cell of target and group must have on the half that chooses
_DRAWS = 10  # balanced sets of images, whose last layers are averaged
_WEIGHT = 0.1  # of the training error beside the size of a last layer's weights


def repairs(
    answered: LabelledImages, features: np.ndarray | None, *, now: float, margin: float, seed: int
) -> tuple[Tables, list[str], list[str]]:
    """Tables of what repairs do to gaps and cells, a sentence for each repair of each group, and what is lacking.

    Each group is repaired by itself, by `_thresholds` where there are scores, above `now` a yes so far, and by
    `_last_layer` where there are features (N, D). What is measured is the half of the images that chose nothing:
    `repair` has each gap before and after, and its change as `measurements.against` has it, `repair_costs` the right
    answers of all images and of each cell, and how many are newly wrong and newly right.
    """
    target, chosen = answered.target.name, first_half(answered, seed)
    gaps, costs, sentences, lacking = [], [], [], []
    for group in answered.groups:
        truth, member = (answered.labels[name].to_numpy(bool) for name in (target, group.name))
        repaired: dict[str, np.ndarray] = {}
        fewest = np.bincount(2 * truth[chosen] + member[chosen], minlength=4).min()
        if fewest < _IMAGES:
            lacking.append(
                f"Repairs for {group.name}: the half of the images that chooses them has {fewest} of a cell of target "
                f"and group, and {_IMAGES} are needed."
            )
            continue
        if answered.scores is not None:
            limits = _thresholds(truth[chosen], member[chosen], answered.scores[chosen], now=now, margin=margin)
            repaired["thresholds"] = answered.scores > np.where(member, *limits)
        if features is not None:
            repaired["last layer"] = _last_layer(features, truth, member, chosen, seed=seed)
        before = _only(replace(answered, groups=(group,), scores=None), ~chosen)
        for how, answers in repaired.items():
            after = replace(before, predicted=before.predicted.assign(**{target: answers[~chosen]}))
            apart, cells = against(after, before, seed).rename(columns=_GAPS), _cells(before, after, seed)
            gaps.append(apart[["group", "among", "n_in", "n_out", *_GAPS.values(), "change"]].assign(repair=how))
            costs.append(cells.assign(repair=how))
            sentences.append(f"{how.capitalize()} for {group.name}: {_told(apart, cells)}")
    tables = {"repair": pd.concat(gaps), "repair_costs": pd.concat(costs)} if gaps else {}
    return {name: table.reset_index(drop=True) for name, table in tables.items()}, sentences, lacking


def _only(answered: LabelledImages, rows: np.ndarray) -> LabelledImages:
    labels, predicted = (of[rows].reset_index(drop=True) for of in (answered.labels, answered.predicted))
    clusters = None if answered.clusters is None else answered.clusters[rows]
    files = tuple(np.array(answered.files)[rows].tolist())
    return replace(answered, files=files, labels=labels, predicted=predicted, clusters=clusters)


def _thresholds(
    truth: np.ndarray, member: np.ndarray, scores: np.ndarray, *, now: float, margin: float
) -> tuple[float, float]:
    """The thresholds, in the group and outside it, with the most right answers of those with about equalized odds.

    True and false positive rates may be so far apart as the margin; thresholds are quantiles of a side's scores.
    """
    sides = []
    for side in (member, ~member):
        limits = np.unique([*np.quantile(scores[side], np.linspace(0, 1, _GRID)), now])
        says, yes = scores[side, None] > limits, truth[side]
        sides.append((limits, says[yes].mean(axis=0), says[~yes].mean(axis=0), (says == yes[:, None]).sum(axis=0)))
    (inside, true_in, false_in, right_in), (outside, true_out, false_out, right_out) = sides
    apart = np.maximum(abs(true_in[:, None] - true_out), abs(false_in[:, None] - false_out))
    right = np.where(apart <= max(margin, apart.min()), right_in[:, None] + right_out, -1)
    at, other = np.unravel_index(right.argmax(), right.shape)
    return float(inside[at]), float(outside[other])


def _last_layer(
    features: np.ndarray, truth: np.ndarray, member: np.ndarray, chosen: np.ndarray, *, seed: int
) -> np.ndarray:
    """(N,) bool answers of a last layer trained on as many images of each cell, after DFR (Kirichenko et al. 2023).

    Logistic regression on the features of the chosen images, each less its mean and by its deviation; the mean of so
    many, each on other images of the larger cells.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng, score = np.random.default_rng(seed), np.zeros(len(truth))
    cells = [np.flatnonzero(chosen & (truth == yes) & (member == inside)) for yes in (0, 1) for inside in (0, 1)]
    for _ in range(_DRAWS):
        rows = np.concatenate([rng.choice(cell, min(map(len, cells)), replace=False) for cell in cells])
        layer = make_pipeline(StandardScaler(), LogisticRegression(C=_WEIGHT, max_iter=1000))
        score += layer.fit(features[rows], truth[rows]).decision_function(features)
    return score > 0


def _cells(before: LabelledImages, after: LabelledImages, seed: int) -> pd.DataFrame:
    """Right answers of all images and of each cell, before and after, and how many are newly wrong and newly right."""
    of, (group,), rows = before.cells(before.groups[0]), before.groups, []
    rights = []
    for answered in (before, after):
        tables = measure(answered, None, roles={}, seed=seed)
        rights.append(
            {"all images": tables["overall"]["value"][0], **tables["accuracies"].set_index("cell")["accuracy"]}
        )
    for cell, then in rights[0].items():
        inside = (of == cell) | (cell == "all images")
        lost, won = (
            (inside & here.correct & ~there.correct).sum() for here, there in ((before, after), (after, before))
        )
        rows.append((group.name, cell, then.n, then.estimate, rights[1][cell], int(lost), int(won)))
    return pd.DataFrame(
        rows, columns=["group", "cell", "n", "right_before", "right_after", "newly_wrong", "newly_right"]
    )


def _told(apart: pd.DataFrame, cells: pd.DataFrame) -> str:
    """What became of the largest gap and of all answers, and who loses most."""
    largest = [apart[name].map(lambda gap: abs(gap.estimate)).max() for name in _GAPS.values()]
    right = [cells["right_before"][0], cells["right_after"][0].estimate]
    words = (
        f"the largest gap goes from {100 * largest[0]:.1f} to {100 * largest[1]:.1f} points, and right answers from "
        f"{right[0]:.1%} to {right[1]:.1%}. "
    )
    lost = cells["right_before"] - cells["right_after"].map(lambda right: right.estimate)
    worst = cells.iloc[1:].loc[lost[1:].idxmax()]
    if lost[1:].max() <= 0:
        return f"{words}No cell of target and group loses."
    return (
        f"{words}{worst['cell']} loses most: {worst['right_before']:.1%} were right and {worst['right_after'].estimate:.1%} "
        f"are, with {worst['newly_wrong']:,} of {worst['n']:,} answers newly wrong."
    )
