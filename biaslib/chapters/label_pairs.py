"""Pairs of attributes in labels that are balanced one by one: how uneven they stay, beside what chance would leave."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LogisticRegression

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels
from biaslib.mitigation import resampling
from biaslib.statistics import holm
from biaslib.statistics.intervals import percentile_ends

_UNEVEN = 0.1  # a pair's share of group 1 is further than this from one half


class _Balanced(NamedTuple):
    """What rows that are drawn again leave."""

    largest: float  # distance of a single attribute from one half
    pairs: np.ndarray  # (P,) shares of group 1 among the images with both attributes
    sign_change: np.ndarray  # (P,) bool: before, both attributes lie on one side of one half and the pair on the other


def compute(
    labels: Labels, *, eps: float = 0.025, at_least: int = 40, draws: int = 200, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """How uneven pairs of attributes are when `resampling.oversample` has made every single one even.

    The pairs are those that `at_least` images have. Every source is drawn again `draws` times; of the labels
    themselves only the duplicates are. Shares are of group 1 of two, in [0, 1]; others, or no pair: a `BiaslibError`.

    * `counts`: source ("labels", or "singles alone": groups drawn from single attributes by a model without pairs),
      what ("largest single", "uneven pairs": further than 0.1 from one half, "sign changes": before balancing both
      attributes lie on one side of one half and the pair on the other), value (mean over draws), low and high (95 % of
      the draws);
    * `pairs`: first, second, images, share, expected (mean of "singles alone") and p of the difference of the two
      (normal approximation, Holm-corrected over all pairs).
    """
    if set(np.unique(labels.groups)) != {0, 1}:
        raise BiaslibError("pairs are measured between two groups, 0 and 1: leave the others out.")
    first, second = np.triu_indices(labels.attributes.shape[1], 1)
    images = (labels.attributes[:, first] & labels.attributes[:, second]).sum(axis=0)
    first, second, images = (part[images >= at_least] for part in (first, second, images))
    if not len(images):
        raise BiaslibError(f"no pair of attributes has {at_least} images: ask for fewer.")
    rng = np.random.default_rng(seed)
    model = LogisticRegression(C=1e6, max_iter=2000).fit(labels.attributes, labels.groups)
    probability = model.predict_proba(labels.attributes)[:, 1]
    chance = [(rng.random(len(labels)) < probability).astype(int) for _ in range(draws)]
    every = {
        source: [_balanced(labels.attributes, groups, first, second, eps, draw) for draw, groups in enumerate(drawn)]
        for source, drawn in {"labels": [labels.groups] * draws, "singles alone": chance}.items()
    }
    counts = [{"source": source, **row} for source, balanced in every.items() for row in _counted(balanced)]
    share = np.mean([each.pairs for each in every["labels"]], axis=0)
    expected = np.array([each.pairs for each in every["singles alone"]])
    z = (share - expected.mean(axis=0)) / expected.std(axis=0, ddof=1)
    pairs = pd.DataFrame(
        {
            "first": [labels.names[i] for i in first],
            "second": [labels.names[i] for i in second],
            "images": images,
            "share": share,
            "expected": expected.mean(axis=0),
            "p": holm(2 * stats.norm.sf(np.abs(z))),
        }
    )
    return {"counts": pd.DataFrame(counts), "pairs": pairs}


def _balanced(
    attributes: np.ndarray, groups: np.ndarray, first: np.ndarray, second: np.ndarray, eps: float, seed: int
) -> _Balanced:
    rows = resampling.oversample(attributes, groups, eps=eps, seed=seed)
    before, after = _shares(attributes, groups), _shares(attributes[rows], groups[rows])
    largest, singles = float(np.abs(after.diagonal() - 0.5).max()), before.diagonal()
    sides = np.sign(np.array([singles[first], singles[second], before[first, second]]) - 0.5)
    return _Balanced(largest, after[first, second], (sides[0] == sides[1]) & (sides[0] * sides[2] < 0))


def _shares(attributes: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(A, A) share of group 1 among the images with both attributes; on the diagonal with one."""
    having = attributes.astype(np.float32)
    with np.errstate(invalid="ignore"):  # a pair that no image has
        return np.asarray((having * groups[:, None]).T @ having / (having.T @ having), float)


def _counted(every: list[_Balanced]) -> list[dict[str, Any]]:
    drawn: dict[str, list[float]] = {
        "largest single": [each.largest for each in every],
        "uneven pairs": [(np.abs(each.pairs - 0.5) > _UNEVEN).sum() for each in every],
        "sign changes": [each.sign_change.sum() for each in every],
    }
    return [
        {"what": what, "value": float(np.mean(values)), "low": low, "high": high}
        for what, values in drawn.items()
        for low, high in [percentile_ends(np.array(values))]
    ]
