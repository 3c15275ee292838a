"""Amplification of the 20 released ResNet-50s of CelebAMask-HQ (Serianni et al. 2025), by paper B's metrics."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.datasets import celeba, published
from biaslib.datasets.celeba import HAIR_ATTRIBUTES as ATTRIBUTES
from biaslib.metrics.amplification import Amplification, Labels, bias_amplification
from biaslib.metrics.amplification.scores import Kind
from biaslib.statistics import holm, interval
from biaslib.store import parallel

Grouping = Literal["hair", "Male"]

KINDS: tuple[Kind, ...] = get_args(Kind)
# what is reported of each: which sets, whether changes keep their signs, and how to ask for it. "observed" are the sets
# of the released code, whole label sets of training faces: only they compare with its values
MEASURES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("single", "signed", {"max_size": 1, "absolute": False}),
    ("single", "absolute", {"max_size": 1}),
    ("all", "absolute", {}),
    ("observed", "absolute", {"sets": "observed"}),
    ("observed 2+", "signed", {"sets": "observed", "min_size": 2, "absolute": False}),
)


def group_of(table: pd.DataFrame, grouping: Grouping) -> np.ndarray:
    """The group of each image: 0, 1, 2 for black, blond, brown hair, or 0, 1 for not and for annotated `Male`.

    Returns:
        (N,) int; -1 where not exactly one of the three hair colours is given.
    """
    if grouping == "Male":
        return table["Male"].to_numpy().astype(np.int64)
    return celeba.hair_colour(table)


def labels(table: pd.DataFrame, grouping: Grouping, keep: np.ndarray) -> Labels:
    """The images to keep, as labels: the paper's 23 attributes, or the 22 besides `Male` where that is the group."""
    names = [name for name in ATTRIBUTES if name != grouping]
    attributes = np.ascontiguousarray(table.loc[keep, names].to_numpy())
    return Labels(attributes, group_of(table, grouping)[keep], tuple(names))


def measure(train: Labels, test: Labels, predicted: Labels) -> Iterator[dict[str, object]]:
    """Every kind in every way of `MEASURES`: kind, sets, sign, value, n_sets, n_never_predicted."""
    for kind in KINDS:
        for sets, sign, options in MEASURES:
            yield _row(kind, sets, sign, bias_amplification(train, test, predicted, kind=kind, **options))


def of_one_model(
    train: pd.DataFrame, test: pd.DataFrame, predicted: pd.DataFrame, grouping: Grouping
) -> tuple[pd.DataFrame, pd.DataFrame, int]:
    """What one model amplifies, on the test images for which labels and predictions give exactly one group.

    Returns:
        the rows of `measure`, the undirected changes of single attributes (attribute, group, train_bias, predicted,
        d), and the number of images.
    """
    keep = (group_of(test, grouping) >= 0) & (group_of(predicted, grouping) >= 0)
    three = (
        labels(train, grouping, group_of(train, grouping) >= 0),
        labels(test, grouping, keep),
        labels(predicted, grouping, keep),
    )
    cells = bias_amplification(*three, kind="undirected", max_size=1).table(None)
    cells = cells[cells["positive"]].assign(attribute=lambda t: [names[0] for names in t["attributes"]])
    return (
        pd.DataFrame(measure(*three)),
        cells[["attribute", "group", "train_bias", "predicted", "d"]],
        int(keep.sum()),
    )


def amplification(root: Path | None = None, *, models: int = 20, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Amplification of the released ResNet-50s for both groupings, with intervals over models.

    Args:
        root: folder of all datasets.
        models: how many of the 20.
        seed: of the bootstrap.

    Returns:
        * `faces`: one row for each grouping, kind, sets and sign: value (mean over models), low, high, models, perfect
          (the value of predictions without an error), p (t test of the models' values against `perfect`,
          Holm-corrected over this table), n_sets and n_never_predicted (means over models);
        * `faces_single`: the undirected change of each single attribute and each group it goes with in training:
          grouping, attribute, group, train_bias, predicted, d, low, high, p (against 0, Holm-corrected within the
          grouping);
        * `faces_images`: grouping, train, test (images with one group annotated) and kept (of them those with one
          group predicted, mean over models).

    Raises:
        BiaslibError: for a missing or a damaged file.
    """
    train, test = published.training_labels(root), published.annotated_labels(root)
    said = published.predictions("resnet", root)[:models]
    predictions = [pd.DataFrame(model, columns=test.columns) for model in said]
    values, single, images = [], [], []
    for grouping in get_args(Grouping):
        with parallel.workers() as (executor, _):
            jobs = [executor.submit(of_one_model, train, test, model, grouping) for model in [test, *predictions]]
            (perfect, _, n_test), *found = [job.result() for job in jobs]
        rows, cells, kept = zip(*found, strict=True)
        values.append(over_models(rows, perfect, seed).assign(grouping=grouping))
        single.append(_single_over_models(cells, seed).assign(grouping=grouping))
        n_train = int((group_of(train, grouping) >= 0).sum())
        images.append({"grouping": grouping, "train": n_train, "test": n_test, "kept": float(np.mean(kept))})
    table = pd.concat(values, ignore_index=True)
    table["p"] = holm(table["p"])
    return {
        "faces": table,
        "faces_single": pd.concat(single, ignore_index=True),
        "faces_images": pd.DataFrame(images),
    }


def over_models(rows: Sequence[pd.DataFrame], perfect: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The rows of `measure` of several models as one table, with intervals over models, beside a faultless prediction.

    Returns:
        kind, sets, sign, value (mean over models), low, high, models, perfect, p (t test of the models' values against
        `perfect`, not corrected), n_sets and n_never_predicted (means over models).
    """
    table = perfect[["kind", "sets", "sign", "value"]].rename(columns={"value": "perfect"})
    values = np.stack([model["value"].to_numpy() for model in rows])  # (models, measures)
    spans = [interval(column, seed=seed) for column in values.T]
    table["value"], table["low"], table["high"] = np.array([(s.estimate, s.low, s.high) for s in spans]).T
    table["models"] = len(rows)
    for name in ("n_sets", "n_never_predicted"):
        table[name] = np.mean([model[name] for model in rows], axis=0)
    with warnings.catch_warnings():
        # scipy warns where models agree to the last digits, or there is one: p is then 0 or NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        table["p"] = scipy.stats.ttest_1samp(values - table["perfect"].to_numpy(), 0.0).pvalue
    return table


def _row(kind: str, sets: str, sign: str, found: Amplification) -> dict[str, object]:
    return {
        "kind": kind,
        "sets": sets,
        "sign": sign,
        "value": found.mean,
        "n_sets": found.n_sets,
        "n_never_predicted": found.n_never_predicted,
    }


def _single_over_models(cells: tuple[pd.DataFrame, ...], seed: int) -> pd.DataFrame:
    by_cell = pd.concat(cells).groupby(["attribute", "group"])
    table = by_cell[["train_bias", "predicted"]].mean()
    spans = [interval(part, seed=seed) for _, part in by_cell["d"]]
    table["d"], table["low"], table["high"] = np.array([(s.estimate, s.low, s.high) for s in spans]).T
    table["p"] = holm([float(scipy.stats.ttest_1samp(part, 0.0).pvalue) for _, part in by_cell["d"]])
    return table.reset_index()
