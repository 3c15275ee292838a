"""Amplification in real labels and predictions, by the metrics of Zhao, Andrews and Xiang (2023).

The models are the 20 released ResNet-50s of CelebAMask-HQ (Serianni et al. 2025) and joint classifiers that are trained
here; what was released for COCO and imSitu is in `papers.scenes`.
"""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.chapters import page
from biaslib.chapters.papers import scenes
from biaslib.chapters.scene_models import JointSetup
from biaslib.datasets import coco_imsitu, published, registry
from biaslib.metrics.amplification import Kind, bias_amplification
from biaslib.metrics.labels import Labels, permutation_baseline
from biaslib.recipes import Loaded
from biaslib.samples import Samples
from biaslib.statistics import holm, interval
from biaslib.store import parallel

_Grouping = Literal["hair", "Male"]

_HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair")

# Zhao, Andrews and Xiang 2023, appendix C.3: at least 500 times with each of the three hair colours
_HAIR_ATTRIBUTES = (
    "Arched_Eyebrows", "Bags_Under_Eyes", "Bangs", "Big_Nose", "Eyeglasses", "Heavy_Makeup", "High_Cheekbones", "Male",
    "Mouth_Slightly_Open", "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline",
    "Rosy_Cheeks", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Lipstick", "Wearing_Necklace",
    "Young",
)  # fmt: skip
_DIGITS = 7  # of the numbers in the tables, so that a fresh run and its record are the same

# what is reported of each: which sets, whether changes keep their signs, and how to ask for it. "observed" are the sets
# of the released code, whole label sets of training faces: only they compare with its values
_MEASURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("single", "signed", {"max_size": 1, "absolute": False}),
    ("single", "absolute", {"max_size": 1}),
    ("all", "absolute", {}),
    ("observed", "absolute", {"sets": "observed"}),
    ("observed 2+", "signed", {"sets": "observed", "min_size": 2, "absolute": False}),
)


@dataclass(frozen=True, kw_only=True)
class HairSetup(JointSetup):
    """A joint model of 23 attributes and hair colour, of the faces for which one of three hair colours is annotated."""

    attributes = _HAIR_ATTRIBUTES
    group = "hair"
    further: ClassVar[dict[str, Any]] = {"precision": "float32"}  # mirrored at random, as in the paper

    groups: int = len(_HAIR)

    def data(self, split: str) -> Loaded:
        """The faces of a split with one hair colour."""
        return _HairFaces(name="celeba", size=self.size, split={"validation": "val"}.get(split, split))

    @property
    def shown(self) -> int:
        """Those of all splits, of any hair colour."""
        return 202_599


@dataclass(frozen=True, kw_only=True)
class PeopleSetup(JointSetup):
    """A joint model of what photographs show and the gender that words about them name, where a user has them.

    COCO's 51 objects, with the gender of its captions; or imSitu's verbs, and whether the place is indoors, with the
    gender by which an agent is worded.
    """

    group = "group"

    source: str = "coco"  # or "imsitu"

    @functools.cached_property
    def attributes(self) -> tuple[str, ...]:
        """The objects; or the verbs, read from imSitu's files, and `indoors`."""
        if self.source == "coco":  # known before a photograph is decoded
            return coco_imsitu.PAPER_OBJECTS
        return tuple(self.data("train").table().columns.drop(self.group))

    def data(self, split: str) -> Loaded:
        """The photographs of a split for which words name one gender."""
        return Loaded(name=self.source, size=self.size, split={"validation": "val"}.get(split, split))

    @property
    def shown(self) -> int:
        """About a third of all photographs."""
        return 40_000


class _HairFaces(Loaded):
    """Faces for which exactly one of three hair colours is annotated, with the attributes and the hair colour."""

    def table(self) -> pd.DataFrame:
        return self._labels().reset_index(drop=True)

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        labels = self._labels() if rows is None else self._labels().iloc[rows]
        faces = super().samples(labels.index.to_numpy())
        return Samples(faces.images, labels.reset_index(drop=True), faces.masks)

    def _labels(self) -> pd.DataFrame:
        """Indexed by the place among all faces."""
        table = super().table()
        return table.assign(hair=_hair_colour(table))[[*_HAIR_ATTRIBUTES, "hair"]].query("hair >= 0")


def missing() -> list[str]:
    """What `compute` needs and does not find, relative to the folder of all datasets; empty where all is there."""
    return registry.missing(
        "attention-iou/results",
        "attention-iou/test_idx_sorted.npy",
        "celeba/list_attr_celeba.txt",
        "CelebAMask-HQ/CelebA-HQ-to-CelebA-mapping.txt",
        "coco-imsitu/captions_6models_val2014",
    )


def compute(*, models: int = 20, folds: int = 10, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Every table about what was released; of the 20 ResNet-50s the first `models`, `folds` as of `scenes.tables`.

    * `faces`: one row for each grouping of the ResNet-50s' images ("hair" or "Male"), kind, sets and sign: value (mean
      over models), low, high, models; perfect and baseline, the means of the values that predictions without an error
      and permuted predictions have on each model's own images; beyond, with its ends, and p (value less baseline, model
      by model: t test, Holm-corrected over this table); n_sets and n_never_predicted (means over models);
    * `faces_single`: the undirected change of each single attribute and each group it goes with in training: grouping,
      attribute, group, train_bias, predicted, d, low, high, p (against 0, Holm-corrected within the grouping);
    * `faces_images`: grouping, train, test (images with one group annotated) and kept (of them those with one group
      predicted, mean over models);
    * `wording`, `captioners`, `ratios` and `constraints`: see `papers.scenes`.
    """
    tables = _faces(models, seed) | scenes.tables(folds=folds, seed=seed)
    return {name: table.round(_DIGITS) for name, table in tables.items()}


def _hair_colour(table: pd.DataFrame) -> np.ndarray:
    """Paper B's groups by the columns `_HAIR`, (N,) int: black 0, blond 1, brown 2; -1 for none or several of them."""
    hair = table[list(_HAIR)].to_numpy()
    return np.where(hair.sum(axis=1) == 1, hair.argmax(axis=1), -1)


def _group_of(table: pd.DataFrame, grouping: _Grouping) -> np.ndarray:
    """(N,) 0, 1, 2 for black, blond, brown hair, -1 where it is not exactly one; or 0, 1 for not and for `Male`."""
    if grouping == "Male":
        return table["Male"].to_numpy().astype(np.int64)
    return _hair_colour(table)


def _labels(table: pd.DataFrame, grouping: _Grouping, keep: np.ndarray) -> Labels:
    """The images to keep, as labels: the paper's 23 attributes, or the 22 besides `Male` where that is the group."""
    names = [name for name in _HAIR_ATTRIBUTES if name != grouping]
    attributes = np.ascontiguousarray(table.loc[keep, names].to_numpy())
    return Labels(attributes, _group_of(table, grouping)[keep], tuple(names))


def _measured(train: Labels, test: Labels, predicted: Labels) -> pd.DataFrame:
    """Every kind in every way of `_MEASURES`: kind, sets, sign, value, n_sets, n_never_predicted."""
    rows = []
    for kind in get_args(Kind):
        for sets, sign, options in _MEASURES:
            value = bias_amplification(train, test, predicted, kind=kind, **options)
            rows.append((kind, sets, sign, value.mean, value.n_sets, value.n_never_predicted))
    return pd.DataFrame(rows, columns=["kind", "sets", "sign", "value", "n_sets", "n_never_predicted"])


def _of_one_model(
    train: pd.DataFrame, test: pd.DataFrame, predicted: pd.DataFrame, grouping: _Grouping, seed: list[int]
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """What one model amplifies where labels and predictions have one group: `_measured`, single attributes, images.

    Beside its values stand, on the same images, those of predictions without an error, and of one permutation.
    """
    keep = (_group_of(test, grouping) >= 0) & (_group_of(predicted, grouping) >= 0)
    rows = (_group_of(train, grouping) >= 0, keep, keep)
    shown, true, said = (
        _labels(table, grouping, each) for table, each in zip((train, test, predicted), rows, strict=True)
    )
    cells = bias_amplification(shown, true, said, kind="undirected", max_size=1).table(None)
    cells = cells[cells["positive"]].assign(attribute=lambda t: [names[0] for names in t["attributes"]])
    permuted = permutation_baseline(true, said, rng=np.random.default_rng(seed), together=False)
    perfect, baseline = (_measured(shown, true, each)["value"] for each in (true, permuted))
    values = _measured(shown, true, said).assign(perfect=perfect, baseline=baseline)
    return values, cells[["attribute", "group", "train_bias", "predicted", "d"]], int(keep.sum())


def _faces(models: int, seed: int) -> dict[str, pd.DataFrame]:
    """Amplification of the released ResNet-50s for both groupings, with intervals over models; see `compute`."""
    train, test = published.annotated_labels("training"), published.annotated_labels()
    predictions = [pd.DataFrame(answers, columns=test.columns) for answers in published.predictions("resnet")[:models]]
    values, single, images = [], [], []
    for grouping in get_args(_Grouping):
        jobs = [(train, test, model, grouping, [seed, number]) for number, model in enumerate(predictions)]
        with parallel.workers() as (executor, _):
            futures = [executor.submit(_of_one_model, *job) for job in jobs]
            rows, cells, n_kept = zip(*(future.result() for future in futures), strict=True)
        values.append(_over_models(rows, seed).assign(grouping=grouping))
        by_cell = pd.concat(cells).groupby(["attribute", "group"])
        changes: list[Any] = [interval(part, seed=seed) for _, part in by_cell["d"]]
        table = page.unpacked(by_cell[["train_bias", "predicted"]].mean().assign(d=changes), "d").drop(columns="n")
        table["p"] = holm([float(scipy.stats.ttest_1samp(part, 0.0).pvalue) for _, part in by_cell["d"]])
        single.append(table.reset_index().assign(grouping=grouping))
        n_train, n_test = (int((_group_of(each, grouping) >= 0).sum()) for each in (train, test))
        images.append({"grouping": grouping, "train": n_train, "test": n_test, "kept": float(np.mean(n_kept))})
    table = pd.concat(values, ignore_index=True)
    table["p"] = holm(table["p"])
    return {"faces": table, "faces_single": pd.concat(single, ignore_index=True), "faces_images": pd.DataFrame(images)}


def _over_models(rows: Sequence[pd.DataFrame], seed: int) -> pd.DataFrame:
    """The values of several models as `compute` says of `faces`; p is not corrected."""
    table = rows[0][["kind", "sets", "sign"]].assign(models=len(rows))
    of = {name: np.stack([model[name].to_numpy(float) for model in rows]) for name in rows[0].columns[3:]}
    for name in ("perfect", "baseline", "n_sets", "n_never_predicted"):
        table[name] = of[name].mean(axis=0)
    beyond = of["value"] - of["baseline"]
    for name, values in (("value", of["value"]), ("beyond", beyond)):
        spans: list[Any] = [interval(column, seed=seed) for column in values.T]
        table[name] = spans
    table = page.ends(table).rename(columns={"value_low": "low", "value_high": "high"})
    with warnings.catch_warnings():
        # scipy warns where models agree to the last digits, or there is one: p is then 0 or NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        table["p"] = scipy.stats.ttest_1samp(beyond, 0.0).pvalue
    return table
