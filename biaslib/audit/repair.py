"""Two repairs that leave the model's features as they are: chosen on one half of the images, measured on the other."""

from dataclasses import replace

import numpy as np
import pandas as pd

from biaslib.audit.discovery import Looked, first_half
from biaslib.audit.inputs import LabelledImages
from biaslib.audit.measurements import against, measure
from biaslib.store.files import beside

_SAY = beside(__file__)
_GAPS = {"gap_other": "gap_before", "gap": "gap_after"}  # by `measurements.against`, of what is and was answered
_GRID = 51  # thresholds of each side of a group that are tried
_FEWEST = 10  # images that each cell of target and group must have in either half
_DRAWS = 10  # balanced sets of images, whose last layers are averaged
_WEIGHT = 0.1  # of the training error beside the size of a last layer's weights


def repairs(answered: LabelledImages, features: np.ndarray, *, now: float, margin: float, seed: int) -> Looked:
    """What repairs do to gaps and cells, as tables and a sentence for each repair of each group.

    Each group is repaired by itself, by `_thresholds` where there are scores, above `now` a yes so far, and by
    `_last_layer` where there are features (N, D). What is measured is the half of the images that chose nothing: in
    `repair` each gap before and after, and its change as `measurements.against` has it, in `repair_costs` the right
    answers of all images and of each cell, and how many are newly wrong and newly right.
    """
    target, chosen = answered.target.name, first_half(answered, seed)
    gaps, costs, sentences, lacking = [], [], [], []
    columns = ["group", "repair", "among", "n_in", "n_out", *_GAPS.values(), "change"]
    if not features.size:
        lacking.append(_SAY["no_features"])
    for group in answered.groups:
        truth, member = (answered.labels[name].to_numpy(bool) for name in (target, group.name))
        fewest = min(np.bincount(2 * truth[half] + member[half], minlength=4).min() for half in (chosen, ~chosen))
        if fewest < _FEWEST:
            lacking.append(_SAY["few"].format(group=group.name, fewest=fewest, wanted=_FEWEST))
            continue
        repaired = {}
        if answered.scores is not None:
            limits = _thresholds(truth[chosen], member[chosen], answered.scores[chosen], now=now, margin=margin)
            repaired["thresholds"] = answered.scores > np.where(member, *limits)
        if features.size:
            repaired["last layer"] = _last_layer(features, truth, member, chosen, seed=seed)
        before = replace(answered.only(~chosen), groups=(group,), scores=None)
        for how, answers in repaired.items():
            after = replace(before, predicted=before.predicted.assign(**{target: answers[~chosen]}))
            apart, cells = against(after, before, seed).rename(columns=_GAPS), _cells(before, after, seed)
            gaps.append(apart.assign(repair=how)[columns])
            costs.append(cells.assign(group=group.name, repair=how)[["group", "repair", *cells]])
            # what became of the largest gap and of all answers, and in which cell the largest share is newly wrong
            largest = [100 * np.nanmax([abs(gap.estimate) for gap in apart[name]]) for name in _GAPS.values()]
            whole, *rows = cells.to_dict("records")
            worst = max(rows, key=lambda row: row["newly_wrong"] / row["n"])
            done = {"repair": how.capitalize(), "group": group.name, "gaps": largest, "whole": whole, "worst": worst}
            sentences.append(_SAY["told"].format(**done))
    tables = {"repair": pd.concat(gaps), "repair_costs": pd.concat(costs)} if gaps else {}
    return Looked({name: table.reset_index(drop=True) for name, table in tables.items()}, sentences, lacking)


def _thresholds(
    truth: np.ndarray, member: np.ndarray, scores: np.ndarray, *, now: float, margin: float
) -> tuple[float, float]:
    """The thresholds, in the group and outside it, with the most right answers of those with about equalized odds.

    True and false positive rates may be as far apart as the margin; thresholds are quantiles of a side's scores.
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

    It is the mean of logistic regressions on the features, each on other images of the larger cells. Its regularisation
    is fixed; DFR tunes it.
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
    of, gains = before.cells(before.groups[0]), after.correct.astype(int) - before.correct
    tables = [measure(each, None, roles={}, seed=seed) for each in (before, after)]
    rights = [[table["overall"]["value"][0], *table["accuracies"]["accuracy"]] for table in tables]
    rows = []
    for cell, then, now in zip(["all images", *tables[0]["accuracies"]["cell"]], *rights, strict=True):
        changed = gains[(of == cell) | (cell == "all images")]
        rows.append((cell, then.n, then.estimate, now, int((changed < 0).sum()), int((changed > 0).sum())))
    return pd.DataFrame(rows, columns=["cell", "n", "right_before", "right_after", "newly_wrong", "newly_right"])
