"""Discovery without a suspect: slices of images in which the model errs, found on one half and counted on the other."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats
import torch

from biaslib import store
from biaslib.audit.findings import ALPHA
from biaslib.audit.inputs import LabelledImages
from biaslib.audit.measurements import wrong_answers
from biaslib.audit.model import ModelUnderAudit
from biaslib.audit.predictions import progress
from biaslib.audit.tables import Table, read
from biaslib.errors import BiaslibError
from biaslib.figures import p_value
from biaslib.statistics import holm

_PIECE = 256  # images whose features are kept together
_PARTS = 8  # principal components of the features that a mixture sees
_IMAGES_A_COMPONENT, _MOST_COMPONENTS = 40, 10
_WIDTH = 0.1  # the least variance of a component, so that it is no single answer right or wrong
_NEIGHBOURS, _MOST_MAPS = 10, 3000  # of each map, and images whose maps are clustered: neighbours take their square
_MISTAKES = 10  # that either half must have among the images of one answer
_SMALLEST = 10  # images of a slice, and of those outside it, on the half on which it is found
_SLICES = 3  # of one answer that are tested
_ALIKE = 0.5  # share of the images of two slices that both have, above which they are one
_VALUES = 12  # of a column that are compared each by itself


def embed(
    model: ModelUnderAudit, folder: Path, files: Sequence[str], *, digests: Sequence[str], batch: int
) -> np.ndarray:
    """(N, D) what the model's last linear layer reads of each image; a BiaslibError where it has none to be read.

    It is kept in the store piece by piece, as answers are, under the hashes of the images.
    """
    if model.outputs.last_linear() is None:
        raise BiaslibError("the model has no linear layer that can be read, as one in a file of its own has none")
    pieces = []
    with progress(len(files), "reading features", "image") as bar:
        for start in range(0, len(files), _PIECE):
            rows = slice(start, start + _PIECE)
            compute = partial(_features, model, [folder / name for name in files[rows]], batch)
            pieces.append(store.get_or_compute("audit-features", [model.key, digests[rows]], compute, code=_features))
            bar.update(len(digests[rows]))
    return np.concatenate(pieces)


def _features(model: ModelUnderAudit, paths: list[Path], batch: int) -> np.ndarray:
    steps, read_off = model.preprocessing, []
    for start in range(0, len(paths), batch):
        pixels = steps.normalised(np.stack([steps.picture(path) for path in paths[start : start + batch]]))
        read_off.append(model.outputs.last_features(torch.from_numpy(pixels)).numpy())
    return np.concatenate(read_off)


def first_half(answered: LabelledImages, seed: int) -> np.ndarray:
    """(N,) bool: half of the images, or of the clusters with all their images, by chance."""
    units = np.arange(len(answered.files)) if answered.clusters is None else answered.clusters
    order = np.random.default_rng(seed).permutation(units.max() + 1)
    return order[units] < len(order) / 2


def columns_of(labels: Table, answered: LabelledImages) -> dict[str, np.ndarray]:
    """What the table says of the images, (N,) bool by words: all its columns but the target and many texts."""
    table, shares = read(labels), {}
    names = next(name for name in table if {*answered.files} <= {*table[name].astype(str)})
    table = table.set_index(table[names].astype(str)).loc[[*answered.files]].drop(columns=[names, answered.target.name])
    for name in table:
        texts, numbers = table[name].astype(str), pd.to_numeric(table[name], errors="coerce")
        values = sorted(set(texts))
        if set(values) == {"0", "1"}:
            shares[str(name)] = (texts == "1").to_numpy()
        elif 1 < len(values) <= _VALUES:
            shares |= {f"{name} {value}": (texts == value).to_numpy() for value in values}
        elif len(values) > 1 and numbers.notna().all():
            shares[f"{name} above {numbers.median():g}"] = (numbers > numbers.median()).to_numpy()
    return shares


def slices(
    answered: LabelledImages, spaces: Mapping[str, np.ndarray], columns: Mapping[str, np.ndarray], seed: int
) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """A row a slice that was tested, and for each the (N,) bool which images of the second half are in it.

    `spaces` are the model's features, (N, D), and its maps, (N, h, w), by their names in `_WAYS`. Slices are looked for
    on the first half, among the images of one answer, and promising ones are tested on the second: the share of wrong
    answers inside (`wrong_in`), in the other images of that answer (`wrong_out`), and their difference (`apart`).
    Which slice an image of the second half belongs to depends on what the model sees, never on its label. `p` is that
    of `compare_shares`, corrected by Holm over these slices alone. `hint` names the columns, (N,) bool, that are most
    unlike inside and outside. No row where neither answer has `_MISTAKES` on both halves.
    """
    said, wrong = answered.predicted[answered.target.name].to_numpy(bool), ~answered.correct
    first, rows, members = first_half(answered, seed), [], []
    for answer in (True, False):
        finding, testing = (said == answer) & first, (said == answer) & ~first
        if min(wrong[finding].sum(), wrong[testing].sum()) < _MISTAKES:
            continue
        found = {way: _WAYS[way](space, answered, finding, seed) for way, space in spaces.items()}
        for way, inside in _promising(found, wrong, finding):
            sides = [inside & testing, ~inside & testing]
            if min(side.sum() for side in sides):
                counted = wrong_answers(answered, sides)
                rows.append((answered.target.words[answer], way, *counted, _hint(columns, sides)))
                members.append(sides[0])
    heads = ["answer", "found by", "wrong_in", "wrong_out", "apart", "p", "hint"]
    table = pd.DataFrame(rows, columns=heads)
    table.insert(0, "slice", np.arange(1, len(table) + 1))
    return table.assign(**{"p corrected": holm(table["p"]) if len(table) else []}), members


def stands_out(row: Mapping[str, Any]) -> bool:
    """Whether the model errs more in a slice than chance explains, by its row of the table."""
    return bool(row["p corrected"] <= ALPHA and row["apart"].estimate > 0)


def told(table: pd.DataFrame) -> Iterator[str]:
    """A sentence for each slice that stands out, or that of those tested none does."""
    rows = [row for row in table.to_dict("records") if stands_out(row)]
    if len(table) and not rows:
        yield f"In none of {len(table)} slices that were tested does the model err more than chance explains."
    for row in rows:
        inside, outside, p = row["wrong_in"], row["wrong_out"], p_value(row["p corrected"])
        yield (
            f"Slice {row['slice']}, called {row['answer']}: {inside.estimate:.1%} of {inside.n:,} answers are wrong, "
            f"and {outside.estimate:.1%} of the other {outside.n:,} (corrected p: {p}). Most unlike: {row['hint']}."
        )


def untested(table: pd.DataFrame, answers: tuple[str, str]) -> Iterator[str]:
    """Of which answer no slice was tested, and why."""
    for answer in answers:
        if answer not in set(table["answer"]):
            yield (
                f"Slices of images that the model calls {answer}: a half has fewer than {_MISTAKES} mistakes among "
                "them, or mistakes are in no slice more frequent, or the model has neither features nor maps to read."
            )


def _mixture(features: np.ndarray, answered: LabelledImages, finding: np.ndarray, seed: int) -> np.ndarray:
    """(N, K) bool of the components of a Gaussian mixture, after Domino (Eyuboglu et al. 2022); a slice each.

    Components are fitted to principal components of the features, uncorrelated with the score, beside whether the
    answer is wrong and the score; an image belongs by the features alone to as many as it is among the nearest of.
    """
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    parts = min(_PARTS, features.shape[1], int(finding.sum()) - 1)
    whole = PCA(parts, whiten=True, random_state=seed).fit(features[finding]).transform(features)
    score = answered.scores - answered.scores[finding].mean()
    score = score / max(score[finding].std(), 1e-12)
    whole -= score[:, None] * (score[finding] @ whole[finding] / finding.sum())  # errors gather where it is unsure
    known = np.column_stack([whole, ~answered.correct, score])[finding]
    count = int(np.clip(len(known) // _IMAGES_A_COMPONENT, 2, _MOST_COMPONENTS))
    mixture = GaussianMixture(count, covariance_type="diag", reg_covar=_WIDTH, random_state=seed).fit(known)
    means, deviations = mixture.means_[:, :parts], np.sqrt(mixture.covariances_[:, :parts])
    near = scipy.stats.norm.logpdf(whole[:, None], means, deviations).sum(axis=2) + np.log(mixture.weights_)
    share = scipy.special.softmax(near, axis=1)
    ends = [np.quantile(of, 1 - weight) for of, weight in zip(share[finding].T, mixture.weights_, strict=True)]
    return share >= ends


def _clusters(maps: np.ndarray, answered: LabelledImages, finding: np.ndarray, seed: int) -> np.ndarray:
    """(N, K) bool of the clusters of maps, after SpRAy (Lapuschkin et al. 2019); others go with the nearest maps."""
    from sklearn.cluster import SpectralClustering
    from sklearn.neighbors import KNeighborsClassifier

    flat = maps.reshape(len(maps), -1)
    shares = flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-12)
    chosen = np.flatnonzero(finding)[:_MOST_MAPS]
    count = int(np.clip(len(chosen) // _IMAGES_A_COMPONENT, 2, _MOST_COMPONENTS))
    near = min(_NEIGHBOURS, len(chosen) - 1)
    spectral = SpectralClustering(count, affinity="nearest_neighbors", n_neighbors=near, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Graph is not fully connected", category=UserWarning)
        labels = spectral.fit_predict(shares[chosen])
    known = KNeighborsClassifier(near).fit(shares[chosen], labels)
    return known.predict(shares)[:, None] == np.arange(count)


_WAYS = {"features": _mixture, "maps": _clusters}


def _promising(
    found: Mapping[str, np.ndarray], wrong: np.ndarray, finding: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """The slices with most errors beyond the average of the half on which they were found, no two of them alike."""
    whole, n = wrong[finding].mean(), int(finding.sum())
    candidates = []
    for way, members in found.items():
        for inside in members.T:
            size = int(inside[finding].sum())
            if _SMALLEST <= size <= n - _SMALLEST:
                spread = np.sqrt(whole * (1 - whole) * (1 / size - 1 / n))
                candidates.append(((wrong[finding & inside].mean() - whole) / spread, way, inside))
    taken: list[np.ndarray] = []
    for excess, way, inside in sorted(candidates, key=lambda each: -each[0]):
        here = inside & finding
        alike = any((here & other).sum() > _ALIKE * (here | other).sum() for other in taken)
        if excess > 0 and not alike and len(taken) < _SLICES:
            taken.append(here)
            yield way, inside


def _hint(columns: Mapping[str, np.ndarray], sides: list[np.ndarray]) -> str:
    shares = {name: [has[side].mean() for side in sides] for name, has in columns.items()}
    most = sorted(shares, key=lambda name: -abs(shares[name][0] - shares[name][1]))[:2]
    return "; ".join(f"{name} {shares[name][0]:.0%} (others {shares[name][1]:.0%})" for name in most)
