"""Amplification in what was released for COCO and imSitu: six captioners, and ratios before and after RBA."""

from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.chapters import page
from biaslib.datasets import coco_imsitu
from biaslib.metrics import group_accuracy
from biaslib.metrics.amplification import Kind, bias_amplification
from biaslib.metrics.labels import Labels
from biaslib.statistics import Interval, holm, interval
from biaslib.statistics.intervals import percentile_ends

_PLAIN: Final = "baseline_ft"
_MARGIN: Final = 0.05  # of RBA's constraints

# which sets of objects, and whether changes keep their signs
_MEASURES: dict[str, dict[str, Any]] = {
    "single, signed": {"max_size": 1, "absolute": False},
    "single": {"max_size": 1},
    "up to two": {"max_size": 2},
    "all": {},
}


def tables(*, folds: int, seed: int) -> dict[str, pd.DataFrame]:
    """Every table by name; `folds` are those of the captioners' jackknife, `seed` is also of the bootstraps."""
    ratios = _ratios()
    return {
        "wording": _wording(seed),
        "captioners": _captioners(folds, seed),
        "ratios": ratios,
        "constraints": _constraints(ratios, seed),
    }


def _wording(seed: int) -> pd.DataFrame:
    """For each captioner and labelled gender (0 man, 1 woman) how often captions name one, and how often the other one.

    `other` is a share of those that name one; `mentioned` the mean share of annotated objects that captions mention.
    Intervals are Wilson's, of the last one from a bootstrap over images.
    """
    truth, captioned = _labels_and_words()
    names, group = _objects(truth), truth["group"].to_numpy()
    there = truth[names].to_numpy()
    some = there.any(axis=1)
    rows = []
    for captioner, words in captioned.items():
        named = (words["group"] >= 0).to_numpy()
        shares = group_accuracy(named, group)
        others = group_accuracy((words["group"] != truth["group"]).to_numpy()[named], group[named])
        share = (there & words[names].to_numpy())[some].sum(axis=1) / there[some].sum(axis=1)
        mentioned = interval(share, seed=seed, resamples=500, bounds=(0, 1))
        for a, b in zip(shares.to_dict("records"), others.to_dict("records"), strict=True):
            any_gender, other = (Interval(each["accuracy"], each["low"], each["high"], each["n"]) for each in (a, b))
            rows.append((captioner, a["group"], a["n"], any_gender, b["n"], other, mentioned))
    columns = ["captioner", "group", "n", "named", "n_named", "other", "mentioned"]
    return page.ends(pd.DataFrame(rows, columns=columns))


def _captioners(folds: int, seed: int) -> pd.DataFrame:
    """Amplification of the captioners, on the images of which all six name exactly one gender, and `less` than plain's.

    The labels of these images stand for the training labels too, which were not released: a captioner that says what
    is annotated then has 0 of every kind. Intervals speak of new images for these captioners (delete-a-group jackknife
    with so many folds, Student's t; the sets are those of all images in every fold); p is Holm-corrected over all rows
    but the plain captioner's.
    """
    truth, captioned = _labels_and_words()
    common = np.all([words["group"] >= 0 for words in captioned.values()], axis=0)
    names = _objects(truth[common])
    labels = _labels(truth[common], names)
    fold = np.random.default_rng(seed).permutation(len(labels)) % folds
    # of each kind and measure: the whole value and those with a part left out, of the captioner that comes first
    plain: dict[tuple[str, str], np.ndarray] = {}
    rows = []
    for captioner, words in captioned.items():
        predicted = _labels(words[common], names)
        for kind in get_args(Kind):
            for measure, options in _MEASURES.items():
                whole = bias_amplification(labels, labels, predicted, kind=kind, **options)
                parts = [(labels.take(fold != k), predicted.take(fold != k)) for k in range(folds)]
                left_out = [bias_amplification(part, part, words, kind=kind, **options) for part, words in parts]
                # a set that the part lacks has no change there, and stays in the divisor
                values = np.array([each.mean * each.n_sets / whole.n_sets for each in (whole, *left_out)])
                gain = plain.setdefault((kind, measure), values) - values
                own, _ = _jackknife(values[0], values[1:], len(labels))
                less, p = _jackknife(gain[0], gain[1:], len(labels))
                if captioner == _PLAIN:
                    less, p = Interval(np.nan, np.nan, np.nan, 0), np.nan
                rows.append((captioner, kind, measure, own, own.n, whole.n_sets, whole.n_never_predicted, less, p))
    columns = ["captioner", "kind", "measure", "value", "n", "n_sets", "n_never_predicted", "less", "p"]
    table = page.ends(pd.DataFrame(rows, columns=columns))
    return table.rename(columns={"value_low": "low", "value_high": "high"}).assign(p=holm(table["p"]))


def _jackknife(value: float, left_out: np.ndarray, n: int) -> tuple[Interval, float]:
    """95 % interval of a statistic from its values with one of K parts left out each, and p of its being 0.

    The variance is (K-1)/K times the sum of squared deviations of the K values, the interval Student's with K-1
    degrees of freedom (Shao and Tu 1995, section 2.3).
    """
    k = len(left_out)
    error = np.sqrt((k - 1) / k * np.sum((left_out - left_out.mean()) ** 2))
    reach = error * scipy.stats.t.ppf(0.975, k - 1)
    p = 2 * float(scipy.stats.t.sf(abs(value) / error, k - 1)) if error > 0 else np.nan
    return Interval(value, value - reach, value + reach, n), p


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
    ("labels": predictions without an error): means over items, `within` (share inside RBA's margin), `cut` (share by
    which RBA lowers `signed`) and p of a paired t test before against after (Holm-corrected over the corpora).
    """
    rows = []
    for corpus, part in table.groupby("corpus"):
        lean = np.where(part["training"] > 0.5, 1, -1)
        change = {name: lean * (part[name] - part["training"]).to_numpy() for name in ("right", "before", "after")}
        for name, values in change.items():
            signed, absolute = interval(values, seed=seed), interval(np.abs(values), seed=seed)
            inside = np.abs(values[~np.isnan(values)]) <= _MARGIN + 1e-9
            row = {"corpus": corpus, "source": "labels" if name == "right" else name, "n": signed.n, "signed": signed}
            rows.append(row | {"absolute": absolute, "within": inside.mean()} | _cut(change, name, seed))
    changes = page.ends(pd.DataFrame(rows))
    return changes.assign(p=holm(changes["p"]))


def _cut(change: dict[str, np.ndarray], name: str, seed: int) -> dict[str, float]:
    if name != "after":
        return dict.fromkeys(("cut", "cut_low", "cut_high", "p"), np.nan)
    before, after = change["before"], change["after"]
    draws = np.random.default_rng(seed).integers(len(before), size=(2000, len(before)))
    low, high = percentile_ends(1 - after[draws].mean(axis=1) / before[draws].mean(axis=1))
    p = float(scipy.stats.ttest_rel(before, after).pvalue)
    return {"cut": float(1 - after.mean() / before.mean()), "cut_low": low, "cut_high": high, "p": p}


def _labels_and_words() -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    truth = pd.concat([coco_imsitu.coco_labels("val"), coco_imsitu.coco_labels("test")])
    return truth, {name: coco_imsitu.coco_captioned(name, truth.index) for name in coco_imsitu.CAPTIONERS}


def _objects(truth: pd.DataFrame) -> list[str]:
    """The paper's objects, as far as they occur."""
    return [name for name in coco_imsitu.PAPER_OBJECTS if name in truth.columns and truth[name].any()]


def _labels(table: pd.DataFrame, names: list[str]) -> Labels:
    return Labels(np.ascontiguousarray(table[names].to_numpy()), table["group"].to_numpy(), tuple(names))
