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
from biaslib.statistics.proportions import share_interval

_UNEVEN = 0.1  # a pair's share of group 1 is further than this from one half


class _Balanced(NamedTuple):
    """Shares of group 1 before and after the rows are drawn again."""

    rows: int
    largest: float  # distance of a single attribute from one half, after
    singles: np.ndarray  # (A,) before
    before: np.ndarray  # (P,) of the images with both
    after: np.ndarray  # (P,)
    sign_change: np.ndarray  # (P,) bool


def compute(
    labels: Labels, *, eps: float = 0.025, at_least: int = 40, draws: int = 200, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """How uneven pairs of attributes are, before and after `resampling.oversample` has made every single one even.

    The pairs are those that `at_least` images have. Every source is drawn again `draws` times; of the labels
    themselves only the duplicates are. Shares are of group 1 of two groups, in [0, 1]. Other groups, or no such pair,
    are a `BiaslibError`.

    * `counts`: source ("labels", "singles alone" or "groups permuted"), what ("rows", "largest single", "uneven pairs":
      further than 0.1 from one half after balancing, "sign changes": before it both attributes lie on one side of one
      half and the pair on the other), value (mean over draws), low and high (95 % of the draws);
    * `pairs`: first, second, images, first_share, second_share, then before and after with their ends (Wilson's, and a
      bootstrap over images, which are balanced each time), sign_change, expected (mean of "singles alone" after
      balancing) and p of the difference from it (normal approximation, Holm-corrected over all pairs).
    """
    if set(np.unique(labels.groups)) != {0, 1}:
        raise BiaslibError("pairs are measured between two groups, 0 and 1: leave the others out.")
    first, second = np.triu_indices(labels.attributes.shape[1], 1)
    images = (labels.attributes[:, first] & labels.attributes[:, second]).sum(axis=0)
    first, second, images = (part[images >= at_least] for part in (first, second, images))
    if not len(images):
        raise BiaslibError(f"no pair of attributes has {at_least} images: ask for fewer.")
    rng, n = np.random.default_rng(seed), len(labels)
    model = LogisticRegression(C=1e6, max_iter=2000).fit(labels.attributes, labels.groups)
    probability = model.predict_proba(labels.attributes)[:, 1]
    # the labels as they are; groups drawn from single attributes alone, by a model without pairs; groups permuted
    redrawn = {
        "labels": lambda: labels.groups,
        "singles alone": lambda: (rng.random(n) < probability).astype(int),
        "groups permuted": lambda: rng.permutation(labels.groups),
    }
    every = {
        source: [_balanced(labels.attributes, groups(), first, second, eps, number) for number in range(draws)]
        for source, groups in redrawn.items()
    }
    counts = [{"source": source, **row} for source, balanced in every.items() for row in _counted(balanced)]
    samples = (rng.integers(0, n, n) for _ in range(draws))
    again = [_balanced(labels.attributes[i], labels.groups[i], first, second, eps, k) for k, i in enumerate(samples)]
    low, high = np.nanquantile([each.after for each in again], (0.025, 0.975), axis=0)
    own = every["labels"][0]
    after = np.mean([each.after for each in every["labels"]], axis=0)
    expected = np.array([each.after for each in every["singles alone"]])
    z = (after - expected.mean(axis=0)) / expected.std(axis=0, ddof=1)
    wilson = [share_interval(round(share * k), int(k)) for share, k in zip(own.before, images, strict=True)]
    pairs = pd.DataFrame(
        {
            "first": [labels.names[i] for i in first],
            "second": [labels.names[i] for i in second],
            "images": images,
            "first_share": own.singles[first],
            "second_share": own.singles[second],
            "before": own.before,
            "before_low": [span.low for span in wilson],
            "before_high": [span.high for span in wilson],
            "after": after,
            "after_low": low,
            "after_high": high,
            "sign_change": own.sign_change,
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
    changes = (sides[0] == sides[1]) & (sides[0] * sides[2] < 0)
    return _Balanced(len(rows), largest, singles, before[first, second], after[first, second], changes)


def _shares(attributes: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(A, A) share of group 1 among the images with both attributes; on the diagonal with one."""
    having = attributes.astype(np.float32)
    with np.errstate(invalid="ignore"):  # a pair that no image has
        return np.asarray((having * groups[:, None]).T @ having / (having.T @ having), float)


def _counted(every: list[_Balanced]) -> list[dict[str, Any]]:
    drawn: dict[str, list[float]] = {
        "rows": [each.rows for each in every],
        "largest single": [each.largest for each in every],
        "uneven pairs": [(np.abs(each.after - 0.5) > _UNEVEN).sum() for each in every],
        "sign changes": [each.sign_change.sum() for each in every],
    }
    ends = {what: percentile_ends(np.array(values)) for what, values in drawn.items()}
    return [
        {"what": what, "value": float(np.mean(values)), "low": ends[what][0], "high": ends[what][1]}
        for what, values in drawn.items()
    ]
