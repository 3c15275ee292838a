"""Amplification (Zhao, Andrews and Xiang 2023) in real labels and in predictions that others released."""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.chapters import page
from biaslib.chapters.scene_models import HAIR_ATTRIBUTES, hair_colour
from biaslib.datasets import coco_imsitu, published, registry
from biaslib.metrics import group_accuracy
from biaslib.metrics.amplification import Kind, bias_amplification
from biaslib.metrics.labels import Labels, permutation_baseline
from biaslib.statistics import Interval, interval
from biaslib.statistics.intervals import percentile_ends
from biaslib.store import parallel
from biaslib.store.files import beside

_Grouping = Literal["hair", "Male"]

_DIGITS = 7  # of the numbers in the tables, so that a fresh run and its record are the same

_MEASURES: Final = beside(__file__)
_MARGIN: Final = 0.05  # of RBA's constraints


def missing() -> list[str]:
    """What `compute` needs and does not find, relative to the folder of all datasets; empty where all is there."""
    return registry.missing(*_MEASURES["needs"])


def compute(*, models: int = 20, folds: int = 10, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Every table about what was released: of so many ResNet-50s, and with so many folds of the captioners' jackknife.

    * `faces`: one row for each grouping of the ResNet-50s' images ("hair" or "Male"), kind, sets and sign: value (mean
      over models), low, high, models; perfect and baseline, the means of the values that predictions without an error
      and permuted predictions have on each model's own images; beyond, with its ends (value less baseline, model by
      model); n_sets and n_never_predicted (means over models);
    * `faces_images`: grouping, train, test (images with one group annotated) and kept (of them those with one group
      predicted, mean over models);
    * `wording`, `captioners` and `constraints`: see the functions of these names.
    """
    tables = {
        **_faces(models, seed),
        "wording": _wording(seed),
        "captioners": _captioners(folds, seed),
        "constraints": _constraints(_ratios(), seed),
    }
    return {name: table.round(_DIGITS) for name, table in tables.items()}


def _group_of(table: pd.DataFrame, grouping: _Grouping) -> np.ndarray:
    """(N,) 0, 1, 2 for black, blond, brown hair, -1 where it is not exactly one; or 0, 1 for not and for `Male`."""
    return table["Male"].to_numpy().astype(np.int64) if grouping == "Male" else hair_colour(table)


def _labels(table: pd.DataFrame, grouping: _Grouping, keep: np.ndarray) -> Labels:
    """The images to keep, as labels: the paper's 23 attributes, or the 22 besides `Male` where that is the group."""
    names = [name for name in HAIR_ATTRIBUTES if name != grouping]
    attributes = np.ascontiguousarray(table.loc[keep, names].to_numpy())
    return Labels(attributes, _group_of(table, grouping)[keep], tuple(names))


def _measured(train: Labels, test: Labels, predicted: Labels) -> pd.DataFrame:
    """Every kind in every way of the TOML file: kind, sets, sign, value, n_sets, n_never_predicted."""
    rows = []
    for kind in get_args(Kind):
        for sets, sign, options in _MEASURES["faces"]:
            value = bias_amplification(train, test, predicted, kind=kind, **options)
            rows.append((kind, sets, sign, value.mean, value.n_sets, value.n_never_predicted))
    return pd.DataFrame(rows, columns=["kind", "sets", "sign", "value", "n_sets", "n_never_predicted"])


def _of_one_model(
    train: pd.DataFrame, test: pd.DataFrame, predicted: pd.DataFrame, grouping: _Grouping, seed: list[int]
) -> tuple[pd.DataFrame, int]:
    """`_measured` of one model where labels and answers have one group, beside no errors and a permutation; and n."""
    keep = (_group_of(test, grouping) >= 0) & (_group_of(predicted, grouping) >= 0)
    rows = (_group_of(train, grouping) >= 0, keep, keep)
    shown, true, said = (
        _labels(table, grouping, each) for table, each in zip((train, test, predicted), rows, strict=True)
    )
    permuted = permutation_baseline(true, said, rng=np.random.default_rng(seed), together=False)
    perfect, baseline = (_measured(shown, true, each)["value"] for each in (true, permuted))
    return _measured(shown, true, said).assign(perfect=perfect, baseline=baseline), int(keep.sum())


def _faces(models: int, seed: int) -> dict[str, pd.DataFrame]:
    """Amplification of the released ResNet-50s for both groupings, with intervals over models; see `compute`."""
    train, test = published.annotated_labels("training"), published.annotated_labels()
    predictions = [pd.DataFrame(answers, columns=test.columns) for answers in published.predictions("resnet")[:models]]
    values, images = [], []
    for grouping in get_args(_Grouping):
        jobs = [(train, test, model, grouping, [seed, number]) for number, model in enumerate(predictions)]
        with parallel.workers() as (executor, _):
            futures = [executor.submit(_of_one_model, *job) for job in jobs]
            rows, n_kept = zip(*(future.result() for future in futures), strict=True)
        values.append(_over_models(rows, seed).assign(grouping=grouping))
        n_train, n_test = (int((_group_of(each, grouping) >= 0).sum()) for each in (train, test))
        images.append({"grouping": grouping, "train": n_train, "test": n_test, "kept": float(np.mean(n_kept))})
    return {"faces": pd.concat(values, ignore_index=True), "faces_images": pd.DataFrame(images)}


def _over_models(rows: Sequence[pd.DataFrame], seed: int) -> pd.DataFrame:
    """The values of several models as `compute` says of `faces`."""
    table = rows[0][["kind", "sets", "sign"]].assign(models=len(rows))
    of = {name: np.stack([model[name].to_numpy(float) for model in rows]) for name in rows[0].columns[3:]}
    for name in ("perfect", "baseline", "n_sets", "n_never_predicted"):
        table[name] = of[name].mean(axis=0)
    for name, values in (("value", of["value"]), ("beyond", of["value"] - of["baseline"])):
        spans: list[Any] = [interval(column, seed=seed) for column in values.T]
        table[name] = spans
    return page.ends(table).rename(columns={"value_low": "low", "value_high": "high"})


def _wording(seed: int) -> pd.DataFrame:
    """For each captioner and labelled gender (0 man, 1 woman) how often captions that name one name the other one.

    Beside this share, `other`, stands the mean share of annotated objects that captions mention. Intervals are
    Wilson's, of the last one from a bootstrap over images.
    """
    truth, captioned = _labels_and_words()
    names, group = _objects(truth), truth["group"].to_numpy()
    there = truth[names].to_numpy()
    some = there.any(axis=1)
    rows = []
    for captioner, words in captioned.items():
        named = (words["group"] >= 0).to_numpy()
        others = group_accuracy((words["group"] != truth["group"]).to_numpy()[named], group[named])
        share = (there & words[names].to_numpy())[some].sum(axis=1) / there[some].sum(axis=1)
        mentioned = interval(share, seed=seed, resamples=500, bounds=(0, 1))
        for each in others.to_dict("records"):
            other = Interval(each["accuracy"], each["low"], each["high"], each["n"])
            rows.append((captioner, each["group"], other.n, other, mentioned))
    return page.ends(pd.DataFrame(rows, columns=["captioner", "group", "n_named", "other", "mentioned"]))


def _captioners(folds: int, seed: int) -> pd.DataFrame:
    """Amplification of the captioners, on the images of which all six name exactly one gender.

    The labels of these images stand for the training labels too, which were not released: a captioner that says what
    is annotated then has 0 of every kind. Intervals speak of new images for these captioners (delete-a-group jackknife
    with so many folds, Student's t; the sets are those of all images in every fold).
    """
    truth, captioned = _labels_and_words()
    common = np.all([words["group"] >= 0 for words in captioned.values()], axis=0)
    names = _objects(truth[common])
    labels = _object_labels(truth[common], names)
    fold = np.random.default_rng(seed).permutation(len(labels)) % folds
    rows = []
    for captioner, words in captioned.items():
        predicted = _object_labels(words[common], names)
        for kind in get_args(Kind):
            for measure, options in _MEASURES["captions"].items():
                whole = bias_amplification(labels, labels, predicted, kind=kind, **options)
                parts = [(labels.take(fold != k), predicted.take(fold != k)) for k in range(folds)]
                left_out = [bias_amplification(part, part, words, kind=kind, **options) for part, words in parts]
                # a set that the part lacks has no change there, and stays in the divisor
                values = np.array([each.mean * each.n_sets / whole.n_sets for each in left_out])
                own = _jackknife(whole.mean, values, len(labels))
                rows.append((captioner, kind, measure, own, own.n, whole.n_sets, whole.n_never_predicted))
    columns = ["captioner", "kind", "measure", "value", "n", "n_sets", "n_never_predicted"]
    table = page.ends(pd.DataFrame(rows, columns=columns))
    return table.rename(columns={"value_low": "low", "value_high": "high"})


def _jackknife(value: float, left_out: np.ndarray, n: int) -> Interval:
    """95 % interval from values without one of K parts each: Student's, K - 1 degrees (Shao and Tu 1995, sec. 2.3)."""
    k = len(left_out)
    error = np.sqrt((k - 1) / k * np.sum((left_out - left_out.mean()) ** 2))
    reach = error * scipy.stats.t.ppf(0.975, k - 1)
    return Interval(value, value - reach, value + reach, n)


def _ratios() -> pd.DataFrame:
    """Men's share for each verb and object, as released and, `right`, as counted in the development images' labels."""
    images, verbs = coco_imsitu.coco_labels("val"), coco_imsitu.imsitu_verb_by_gender("val").set_index("verb")
    names = [name for name in coco_imsitu.coco_objects() if images[name].any()]
    counted: dict[Literal["COCO", "imSitu"], pd.Series] = {
        "COCO": pd.Series({name: 1 - images.loc[images[name], "group"].mean() for name in names}),
        "imSitu": verbs["man"] / (verbs["man"] + verbs["woman"]),
    }
    tables = []
    for corpus, right in counted.items():
        table = coco_imsitu.gender_ratios(corpus).rename(columns={"object": "item", "verb": "item"})
        tables.append(table.assign(corpus=corpus, right=table["item"].map(right)))
    return pd.concat(tables, ignore_index=True)[["corpus", "item", "training", "before", "after", "right"]]


def _constraints(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Single-attribute amplification (Zhao et al. 2017) before and after RBA, from the rows of `_ratios`.

    An item's change is that of the share of the gender it goes with in training. One row for each corpus and source
    ("labels": predictions without an error): means over items, `within` (share inside RBA's margin) and `cut` (share by
    which RBA lowers `signed`).
    """
    rows = []
    for corpus, part in table.groupby("corpus"):
        lean = np.where(part["training"] > 0.5, 1, -1)
        change = {name: lean * (part[name] - part["training"]).to_numpy() for name in ("right", "before", "after")}
        for name, values in change.items():
            signed, absolute = interval(values, seed=seed), interval(np.abs(values), seed=seed)
            inside = np.abs(values[~np.isnan(values)]) <= _MARGIN + 1e-9
            row = {"corpus": corpus, "source": "labels" if name == "right" else name, "n": signed.n, "signed": signed}
            row |= {"absolute": absolute, "within": inside.mean()}
            rows.append(row | _cut(change, seed) if name == "after" else row)
    return page.ends(pd.DataFrame(rows))


def _cut(change: dict[str, np.ndarray], seed: int) -> dict[str, float]:
    before, after = change["before"], change["after"]
    draws = np.random.default_rng(seed).integers(len(before), size=(2000, len(before)))
    low, high = percentile_ends(1 - after[draws].mean(axis=1) / before[draws].mean(axis=1))
    return {"cut": float(1 - after.mean() / before.mean()), "cut_low": low, "cut_high": high}


def _labels_and_words() -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    truth = pd.concat([coco_imsitu.coco_labels("val"), coco_imsitu.coco_labels("test")])
    return truth, {name: coco_imsitu.coco_captioned(name, truth.index) for name in coco_imsitu.CAPTIONERS}


def _objects(truth: pd.DataFrame) -> list[str]:
    """The paper's objects, as far as they occur."""
    return [name for name in coco_imsitu.PAPER_OBJECTS if name in truth.columns and truth[name].any()]


def _object_labels(table: pd.DataFrame, names: list[str]) -> Labels:
    return Labels(np.ascontiguousarray(table[names].to_numpy()), table["group"].to_numpy(), tuple(names))
