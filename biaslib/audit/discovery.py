"""Slices of images in which the model errs, and repairs: found on one half of the images and counted on the other.

Discovery has no suspect. Repairs leave the model's features as they are.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats
import torch

from biaslib.audit.findings import ALPHA
from biaslib.audit.inputs import LabelledImages, name_column
from biaslib.audit.measurements import Tables, against, measure, wrong_answers
from biaslib.audit.model import ModelUnderAudit
from biaslib.audit.predictions import progress
from biaslib.audit.tables import Table, read
from biaslib.figures import p_value
from biaslib.statistics import holm
from biaslib.store.files import beside

_SAY = beside(__file__)
_PARTS = 8  # principal components of the features that a mixture sees
_IMAGES_A_COMPONENT, _MOST_COMPONENTS = 40, 10  # of a mixture, and of the clusters of maps
_WIDTH = 0.1  # the least variance of a component, so that whether an answer is wrong does not decide alone
_NEIGHBOURS, _MOST_MAPS = 10, 3000  # of each map, and maps that are clustered, which takes their square
_FEWEST = 10  # mistakes on either half with one answer; images inside a slice, and outside it, where it is found
_SLICES, _ALIKE = 3, 0.5  # tested of one answer, and the share of images in common above which two are one
_VALUES, _UNLIKE = 12, 0.1  # of a column that are compared each by itself, and shares that differ enough for a hint
_GAPS = {"gap_other": "gap_before", "gap": "gap_after"}  # by `measurements.against`, of what is and was answered
_GRID = 51  # thresholds of each side of a group that are tried
_FEWEST_IN_A_CELL = 10  # images that each cell of target and group must have in either half
_DRAWS = 10  # balanced sets of images, whose last layers are averaged
_WEIGHT = 0.1  # of the training error beside the size of a last layer's weights


class Looked(NamedTuple):
    """What discovery or repairs add to an audit."""

    tables: Tables
    sentences: Sequence[str] = ()
    unmeasured: Sequence[str] = ()
    slices: Mapping[tuple[str, str], np.ndarray] = {}  # name and answer of what stands out -> (N,) bool its images


def embed(model: ModelUnderAudit | None, folder: Path | None, files: Sequence[str], batch: int) -> np.ndarray:
    """(N, D) what the model's last linear layer reads of images that can be read; D is 0 where none is known."""
    if model is None or folder is None:
        return np.empty((len(files), 0))
    steps, features = model.preprocessing, []
    with progress(len(files), "reading features", "image") as bar:
        for start in range(0, len(files), batch):
            pictures = np.stack([steps.picture(folder / name) for name in files[start : start + batch]])
            features.append(model.outputs.last_features(torch.from_numpy(steps.normalised(pictures))))
            bar.update(len(pictures))
    return torch.cat(features).numpy()


def first_half(answered: LabelledImages, seed: int) -> np.ndarray:
    """(N,) bool: half of the images, or of the clusters with all their images, by chance."""
    units = np.arange(len(answered.files)) if answered.clusters is None else answered.clusters
    order = np.random.default_rng(seed).permutation(units.max() + 1)
    return order[units] < len(order) / 2


def columns_of(labels: Table, answered: LabelledImages, file_column: str | None) -> pd.DataFrame:
    """N rows of bool: what the table says of the images, in all its columns but the target and those of many texts."""
    table = read(labels)
    names = name_column(table, file_column)
    table = table.set_index(table[names].astype(str)).loc[[*answered.files]].drop(columns=[names, answered.target.name])
    texts, numbers = table.astype(str), table.apply(pd.to_numeric, errors="coerce")
    kinds, middle = texts.nunique(), numbers.median()
    numbers = numbers.loc[:, (kinds > _VALUES) & numbers.notna().all()]
    above = (numbers > middle[numbers.columns]).rename(columns=lambda name: f"{name} above {middle[name]:g}")
    two, more = (texts.loc[:, of] for of in (kinds == 2, (kinds > 2) & (kinds <= _VALUES)))
    words = [pd.get_dummies(of, prefix_sep=" ", drop_first=of is two) for of in (two, more) if of.size]
    return pd.concat([*words, above], axis=1).reset_index(drop=True)


def discover(answered: LabelledImages, spaces: Mapping[str, np.ndarray], columns: pd.DataFrame, seed: int) -> Looked:
    """Slices of the images with one answer, found on the first half and tested on the second; the table has a row each.

    `spaces` are the model's features, (N, D), and its maps, (N, h, w), by their names in `_WAYS`. Of the second half
    the table has the share of wrong answers inside (`wrong_in`), in the other images of that answer (`wrong_out`), and
    their difference (`apart`). To which slice an image there belongs depends on what the model sees, never on its
    label. `p` is that of `compare_shares`, corrected by Holm over these slices alone. `hint` names the columns, N rows
    of bool, that are most unlike inside and outside. An answer with few mistakes (`_FEWEST`) has no slice.
    """
    said, wrong = answered.predicted[answered.target.name].to_numpy(bool), ~answered.correct
    first, rows, members = first_half(answered, seed), [], []
    say, spaces = _SAY["slices"], {way: space for way, space in spaces.items() if space.size}
    few = [] if spaces else [say["no_space"]]
    for answer in (True, False):
        finding, testing = (said == answer) & first, (said == answer) & ~first
        words = answered.target.words[answer]
        if min(wrong[finding].sum(), wrong[testing].sum()) < _FEWEST:
            few.append(say["no_mistakes"].format(words=words, fewest=_FEWEST))
            continue
        found = {way: _WAYS[way](space, answered, finding, seed) for way, space in spaces.items()}
        for way, inside in _promising(found, wrong, finding):
            sides = [inside & testing, ~inside & testing]
            if min(side.sum() for side in sides):
                rows.append((words, way, *wrong_answers(answered, sides), _hint(columns, sides)))
                members.append(sides[0])
    table = pd.DataFrame(rows, columns=["answer", "found by", "wrong_in", "wrong_out", "apart", "p", "hint"])
    table.insert(0, "slice", range(1, len(table) + 1))
    table["p corrected"] = holm(table["p"].astype(float))
    sentences, slices = [], {}
    for row, inside in zip(table.to_dict("records"), members, strict=True):
        if row["p corrected"] <= ALPHA and row["apart"].estimate > 0:
            name, called = f"slice {row['slice']}", f"slice {row['slice']}, called {row['answer']}"
            more = {"title": f"S{called[1:]}", "probability": p_value(row["p corrected"])}
            sentences.append(say["found"].format_map(row | more))
            slices[name, called] = inside
    tested = int(table["p"].notna().sum())
    if tested < len(table):
        few.append(say["too_few"].format(untested=len(table) - tested))
    if tested and not sentences:
        sentences = [say["none"].format(tested=tested)]
    return Looked({"slices": table}, sentences, few, slices)


def _mixture(features: np.ndarray, answered: LabelledImages, finding: np.ndarray, seed: int) -> np.ndarray:
    """(N, K) bool of the components of a Gaussian mixture, after Domino (Eyuboglu et al. 2022).

    Components are fitted to principal components of the features beside whether the answer is wrong, and the score. An
    image belongs by the features alone to those that are as likely for it as for their share of the first half.
    """
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    assert answered.scores is not None  # there are features, so a model answered
    parts = min(_PARTS, features.shape[1], int(finding.sum()) - 1)
    seen = PCA(parts, whiten=True, random_state=seed).fit(features[finding]).transform(features)
    score = scipy.stats.zmap(answered.scores, answered.scores[finding])
    seen -= score[:, None] * (score[finding] @ seen[finding] / finding.sum())  # any model errs where it is unsure
    known = np.column_stack([seen, ~answered.correct, score])[finding]
    count = int(np.clip(len(known) // _IMAGES_A_COMPONENT, 2, _MOST_COMPONENTS))
    mixture = GaussianMixture(count, covariance_type="diag", reg_covar=_WIDTH, random_state=seed).fit(known)
    means, deviations = mixture.means_[:, :parts], np.sqrt(mixture.covariances_[:, :parts])
    near = scipy.stats.norm.logpdf(seen[:, None], means, deviations).sum(axis=2) + np.log(mixture.weights_)
    share = scipy.special.softmax(near, axis=1)
    limits = [np.quantile(of, 1 - weight) for of, weight in zip(share[finding].T, mixture.weights_, strict=True)]
    return share >= limits


def _clusters(maps: np.ndarray, answered: LabelledImages, finding: np.ndarray, seed: int) -> np.ndarray:
    """(N, K) bool of spectral clusters of maps, after SpRAy (Lapuschkin et al. 2019); others go with the nearest."""
    from sklearn.cluster import SpectralClustering
    from sklearn.neighbors import KNeighborsClassifier

    flat = maps.reshape(len(maps), -1)
    shares, chosen = flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-12), np.flatnonzero(finding)[:_MOST_MAPS]
    count = int(np.clip(len(chosen) // _IMAGES_A_COMPONENT, 2, _MOST_COMPONENTS))
    spectral = SpectralClustering(count, affinity="nearest_neighbors", n_neighbors=_NEIGHBOURS, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Graph is not fully connected", category=UserWarning)
        clusters = spectral.fit_predict(shares[chosen])
    nearest = KNeighborsClassifier(_NEIGHBOURS).fit(shares[chosen], clusters).predict(shares)
    return nearest[:, None] == np.arange(count)


_WAYS = {"features": _mixture, "maps": _clusters}


def _promising(
    found: Mapping[str, np.ndarray], wrong: np.ndarray, finding: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """The slices with most errors beyond the average of the half on which they were found, no two of them alike."""
    average, n = wrong[finding].mean(), int(finding.sum())
    excesses: list[tuple[float, str, np.ndarray]] = []
    taken: list[np.ndarray] = []
    for way, members in found.items():
        for inside in members.T:
            size = int(inside[finding].sum())
            if _FEWEST <= size <= n - _FEWEST:
                excesses.append(((wrong[finding & inside].mean() - average) / np.sqrt(1 / size - 1 / n), way, inside))
    for excess, way, inside in sorted(excesses, key=lambda each: -each[0]):
        alike = any((inside & other)[finding].sum() > _ALIKE * (inside | other)[finding].sum() for other in taken)
        if excess > 0 and not alike and len(taken) < _SLICES:
            taken.append(inside)
            yield way, inside


def _hint(columns: pd.DataFrame, sides: list[np.ndarray]) -> str:
    inside, outside = (columns[side].mean() for side in sides)
    apart = (inside - outside).abs().sort_values(ascending=False)
    words = [f"{name}: {inside[name]:.0%} (others {outside[name]:.0%})" for name in apart[apart >= _UNLIKE].index[:2]]
    return "; ".join(words) or f"no column by {100 * _UNLIKE:.0f} points"


def repairs(answered: LabelledImages, features: np.ndarray, *, now: float, margin: float, seed: int) -> Looked:
    """What repairs do to gaps and cells, as tables and a sentence for each repair of each group.

    Each group is repaired by itself, by `_thresholds` where there are scores, above `now` a yes so far, and by
    `_last_layer` where there are features (N, D). What is measured is the half of the images that chose nothing: in
    `repair` each gap before and after, and its change as `measurements.against` has it, in `repair_costs` the right
    answers of all images and of each cell, and how many are newly wrong and newly right.
    """
    target, chosen = answered.target.name, first_half(answered, seed)
    gaps, costs, sentences, say = [], [], [], _SAY["repairs"]
    columns = ["group", "repair", "among", "n_in", "n_out", *_GAPS.values(), "change"]
    lacking = [] if features.size else [say["no_features"]]
    for group in answered.groups:
        truth, member = (answered.labels[name].to_numpy(bool) for name in (target, group.name))
        fewest = min(np.bincount(2 * truth[half] + member[half], minlength=4).min() for half in (chosen, ~chosen))
        if fewest < _FEWEST_IN_A_CELL:
            lacking.append(say["few"].format(group=group.name, fewest=fewest, wanted=_FEWEST_IN_A_CELL))
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
            sentences.append(say["told"].format(**done))
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
