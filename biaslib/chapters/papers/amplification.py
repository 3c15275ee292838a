"""Amplification in real labels and predictions, by the metrics of Zhao, Andrews and Xiang (2023).

The models are the 20 released ResNet-50s of CelebAMask-HQ (Serianni et al. 2025) and joint classifiers that are trained
here; what was released for COCO and imSitu is in `papers.scenes`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats

from biaslib import training
from biaslib.chapters import page
from biaslib.chapters.papers import scenes
from biaslib.datasets import published, registry
from biaslib.metrics import calibrated_thresholds, mean_average_precision
from biaslib.metrics.amplification import Kind, bias_amplification
from biaslib.metrics.labels import Labels
from biaslib.recipes import CelebA, Recipe, Setup, load, train
from biaslib.samples import Samples
from biaslib.statistics import holm, interval
from biaslib.store import Calls, parallel, stored
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint

_Grouping = Literal["hair", "Male"]

_HAIR = ("Black_Hair", "Blond_Hair", "Brown_Hair")

# Zhao, Andrews and Xiang 2023, appendix C.3: at least 500 times with each of the three hair colours
_HAIR_ATTRIBUTES = (
    "Arched_Eyebrows", "Bags_Under_Eyes", "Bangs", "Big_Nose", "Eyeglasses", "Heavy_Makeup", "High_Cheekbones", "Male",
    "Mouth_Slightly_Open", "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline",
    "Rosy_Cheeks", "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Lipstick", "Wearing_Necklace",
    "Young",
)  # fmt: skip
_WIDTH = len(_HAIR_ATTRIBUTES)
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
class _HairSetup(Setup):
    """A joint model of 23 attributes and hair colour, of the faces for which one of three hair colours is annotated."""

    size: int = 64  # of the faces, in pixels
    epochs: int = 20
    batch: int = 64
    architecture: str = "small"
    weights: str | None = None  # "imagenet", or a file or folder, from the folder of all data sets on
    optimiser: str = "adamw"
    learning_rate: float = 4e-3
    seed: int = 0

    @property
    def recipe(self) -> Recipe:
        """As the notebooks' small models are trained; mirrored at random, as in the paper."""
        objective = Joint(attributes=_WIDTH, groups=len(_HAIR))
        config = TrainingConfig(
            architecture=self.architecture, outputs=objective.outputs, weights=self.weights, epochs=self.epochs,
            batch=self.batch, optimiser=self.optimiser, learning_rate=self.learning_rate, precision="float32",
            seed=self.seed,
        )  # fmt: skip
        targets = (*_HAIR_ATTRIBUTES, "hair")
        return Recipe(data=_HairFaces(size=self.size), targets=targets, training=config, objective=objective)

    def fingerprint(self) -> str:
        """As that of every set-up, with the faces that the model is asked about."""
        asked = (CelebA(size=self.size, split=split).fingerprint() for split in ("val", "test"))
        return super().fingerprint() + "".join(asked)


class _HairFaces(CelebA):
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


@dataclass(frozen=True)
class _HairOutcome:
    """What a joint model was shown and what it says; the groups are hair colours."""

    train: Labels
    test: Labels
    predicted: Labels  # of the test images
    logits: np.ndarray  # (N, 26) of the test images, of the 23 attributes and the three groups
    n_validation: int  # images, by which the attributes' thresholds are chosen


def missing() -> list[str]:
    """What `compute` needs and does not find, relative to the folder of all datasets; empty where all is there."""
    return registry.missing(
        "attention-iou/results",
        "attention-iou/test_idx_sorted.npy",
        "celeba/list_attr_celeba.txt",
        "CelebAMask-HQ/CelebA-HQ-to-CelebA-mapping.txt",
        "coco-imsitu/captions_6models_val2014",
    )


def missing_faces() -> list[str]:
    """What `compute_trained` needs and does not find, as `missing` says it."""
    return registry.missing("celeba/list_attr_celeba.txt", "celeba/list_eval_partition.txt", "celeba/img_align_celeba")


def compute(*, models: int = 20, folds: int = 10, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Every table about what was released; of the 20 ResNet-50s the first `models`, `folds` as of `scenes.tables`.

    * `faces`: one row for each grouping of the ResNet-50s' images ("hair" or "Male"), kind, sets and sign: value (mean
      over models), low, high, models, perfect (the value of predictions without an error), p (t test of the models'
      values against `perfect`, Holm-corrected over this table), n_sets and n_never_predicted (means over models);
    * `faces_single`: the undirected change of each single attribute and each group it goes with in training: grouping,
      attribute, group, train_bias, predicted, d, low, high, p (against 0, Holm-corrected within the grouping);
    * `faces_images`: grouping, train, test (images with one group annotated) and kept (of them those with one group
      predicted, mean over models);
    * `wording`, `captioners`, `ratios` and `constraints`: see `papers.scenes`.
    """
    tables = _faces(models, seed) | scenes.tables(folds=folds, seed=seed)
    return {name: table.round(_DIGITS) for name, table in tables.items()}


def planned(*, models: int = 6, epochs: int = 20, seed: int = 0, **training: Any) -> Calls:
    """What `compute_trained` asks of the store, beside the models."""
    return _hair_answers.calls([_HairSetup(epochs=epochs, seed=seed + model, **training) for model in range(models)])


def compute_trained(*, models: int = 6, epochs: int = 20, seed: int = 0, **training: Any) -> dict[str, pd.DataFrame]:
    """Every table about joint classifiers of CelebA's faces, which are trained where the store lacks them.

    The models differ in their seed; `seed` is that of the first one; `training` is what else `_HairSetup` takes.

    * `joint`: one row for each kind, sets and sign as in `faces` of `compute`, p Holm-corrected over it;
    * `joint_quality`: what ("mAP"), value, low, high, models: the mAP over the attributes and the three hair colours,
      which the released code averages together, in [0, 1];
    * `joint_images`: split, images.
    """
    outcomes = _hair_outcomes(planned(models=models, epochs=epochs, seed=seed, **training))
    train, test = outcomes[0].train, outcomes[0].test
    predictions = (test, *(outcome.predicted for outcome in outcomes))
    perfect, *rows = _side_by_side(_measured, [(train, test, predicted) for predicted in predictions])
    joint = _over_models(rows, perfect, seed)
    counts = {"train": len(train), "validation": outcomes[0].n_validation, "test": len(test)}
    tables = {
        "joint": joint.assign(p=holm(joint["p"])),
        "joint_quality": _quality(outcomes, seed),
        "joint_images": pd.DataFrame(counts.items(), columns=["split", "images"]),
    }
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
    train: pd.DataFrame, test: pd.DataFrame, predicted: pd.DataFrame, grouping: _Grouping
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """What one model amplifies where labels and predictions have one group: `_measured`, single attributes, images."""
    keep = (_group_of(test, grouping) >= 0) & (_group_of(predicted, grouping) >= 0)
    rows = (_group_of(train, grouping) >= 0, keep, keep)
    three = [_labels(table, grouping, each) for table, each in zip((train, test, predicted), rows, strict=True)]
    cells = bias_amplification(*three, kind="undirected", max_size=1).table(None)
    cells = cells[cells["positive"]].assign(attribute=lambda t: [names[0] for names in t["attributes"]])
    return _measured(*three), cells[["attribute", "group", "train_bias", "predicted", "d"]], int(keep.sum())


def _faces(models: int, seed: int) -> dict[str, pd.DataFrame]:
    """Amplification of the released ResNet-50s for both groupings, with intervals over models; see `compute`."""
    train, test = published.annotated_labels("training"), published.annotated_labels()
    predictions = [pd.DataFrame(answers, columns=test.columns) for answers in published.predictions("resnet")[:models]]
    values, single, images = [], [], []
    for grouping in get_args(_Grouping):
        jobs = [(train, test, model, grouping) for model in (test, *predictions)]
        (perfect, _, n_test), *measured = _side_by_side(_of_one_model, jobs)
        rows, cells, n_kept = zip(*measured, strict=True)
        values.append(_over_models(rows, perfect, seed).assign(grouping=grouping))
        by_cell = pd.concat(cells).groupby(["attribute", "group"])
        changes: list[Any] = [interval(part, seed=seed) for _, part in by_cell["d"]]
        table = page.unpacked(by_cell[["train_bias", "predicted"]].mean().assign(d=changes), "d").drop(columns="n")
        table["p"] = holm([float(scipy.stats.ttest_1samp(part, 0.0).pvalue) for _, part in by_cell["d"]])
        single.append(table.reset_index().assign(grouping=grouping))
        n_train = int((_group_of(train, grouping) >= 0).sum())
        images.append({"grouping": grouping, "train": n_train, "test": n_test, "kept": float(np.mean(n_kept))})
    table = pd.concat(values, ignore_index=True)
    table["p"] = holm(table["p"])
    return {"faces": table, "faces_single": pd.concat(single, ignore_index=True), "faces_images": pd.DataFrame(images)}


def _side_by_side(function: Callable[..., Any], jobs: Sequence[tuple]) -> list[Any]:
    with parallel.workers() as (executor, _):
        return [future.result() for future in [executor.submit(function, *job) for job in jobs]]


def _over_models(rows: Sequence[pd.DataFrame], perfect: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The rows of `_measured` of several models as `compute` says of `faces`; p is not corrected."""
    table = perfect[["kind", "sets", "sign", "value"]].rename(columns={"value": "perfect"})
    values = np.stack([model["value"].to_numpy() for model in rows])  # (models, measures)
    spans: list[Any] = [interval(column, seed=seed) for column in values.T]
    table = page.unpacked(table.assign(value=spans)).drop(columns="n").assign(models=len(rows))
    for name in ("n_sets", "n_never_predicted"):
        table[name] = np.mean([model[name] for model in rows], axis=0)
    with warnings.catch_warnings():
        # scipy warns where models agree to the last digits, or there is one: p is then 0 or NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        table["p"] = scipy.stats.ttest_1samp(values - table["perfect"].to_numpy(), 0.0).pvalue
    return table


def _quality(outcomes: Sequence[_HairOutcome], seed: int) -> pd.DataFrame:
    test, means = outcomes[0].test, []
    truth = np.column_stack([test.attributes, np.eye(len(_HAIR))[test.groups]])
    for logits in (model.logits for model in outcomes):
        scores = np.column_stack([logits[:, :_WIDTH], scipy.special.softmax(logits[:, _WIDTH:], axis=1)])
        means.append(mean_average_precision(truth, scores).mean)
    value = interval(means, seed=seed, bounds=(0, 1))
    return page.unpacked([{"what": "mAP", "value": value}]).rename(columns={"n": "models"})


def _hair_outcomes(asked: Calls) -> list[_HairOutcome]:
    """What the models predict, in this order: attributes at validation thresholds, and the likeliest group."""
    train.many([setup.recipe for setup in asked.keys])
    outcomes = []
    for arrays in asked.results():
        validation, logits = arrays["validation"], arrays["test_logits"]
        thresholds = calibrated_thresholds(validation[:, :_WIDTH], arrays["validation_logits"][:, :_WIDTH])
        predicted = Labels(logits[:, :_WIDTH] > thresholds, logits[:, _WIDTH:].argmax(axis=1), _HAIR_ATTRIBUTES)
        shown, test = (Labels(arrays[k][:, :_WIDTH], arrays[k][:, _WIDTH], _HAIR_ATTRIBUTES) for k in ("train", "test"))
        outcomes.append(_HairOutcome(shown, test, predicted, logits, len(validation)))
    return outcomes


@stored("faces", passes=lambda _: (39_829, 1))  # of validation and test, less those of other hair colours
def _hair_answers(setup: _HairSetup) -> dict[str, np.ndarray]:
    """Labels (N, 24), the group last, of `train`, `validation` and `test`, and logits (N, 26) of the latter two."""
    model, arrays = load(setup.recipe), {}
    for name, split in (("train", "train"), ("validation", "val"), ("test", "test")):
        faces = _HairFaces(size=setup.size, split=split)
        arrays[name] = faces.table().to_numpy(np.int8)
        if name != "train":
            arrays[f"{name}_logits"] = training.predict(model, faces.samples().images)
    return arrays
