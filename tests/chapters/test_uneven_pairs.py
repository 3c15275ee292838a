"""What the page on balanced data sets counts in COCO's labels, on labels whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from biaslib.metrics import Labels
from biaslib.mitigation import resampling
from tests.of_pages import functions

NAMES = ("cup", "fork", "tie")


@pytest.fixture(scope="module")
def of_page():
    return functions("balanced", eps=0.025, redraws=20, seed=0)


def _drawn(pair: float, n: int = 4000) -> Labels:
    """Groups that a cup, a fork and a tie each make likelier, and cup and fork together by `pair` more, in log odds."""
    rng = np.random.default_rng(3)
    attributes = rng.random((n, 3)) < (0.3, 0.3, 0.2)
    cup, fork, tie = attributes.T
    odds = -1.0 + 0.8 * cup + 0.8 * fork - 0.5 * tie + pair * (cup & fork)
    return Labels(attributes, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int), NAMES)


def _of(labels: Labels, of_page: dict) -> tuple[dict[tuple[str, str], tuple[float, float]], pd.DataFrame]:
    tables = of_page["uneven_pairs"](labels)
    rows = tables["coco"].itertuples(index=False)
    return {(row.source, row.what): (row.value, row.high) for row in rows}, tables["coco_pairs"].set_index("second")


def test_shares_are_those_counted_by_hand(of_page):
    labels = _drawn(0.0)
    counts, pairs = _of(labels, of_page)
    cup, fork, _ = labels.attributes.T
    row = pairs[pairs["first"] == "cup"].loc["fork"]
    assert row["images"] == (cup & fork).sum()
    before = of_page["shares_of"](labels) + 0.5
    assert before[0, 1] == pytest.approx(labels.groups[cup & fork].mean())
    assert before[0, 0] == pytest.approx(labels.groups[cup].mean(), abs=1e-6)
    again = [resampling.oversample(labels.attributes, labels.groups, eps=0.025, seed=number) for number in range(20)]
    both = [labels.groups[rows][(cup & fork)[rows]].mean() for rows in again]
    assert row["share"] == pytest.approx(np.mean(both), abs=1e-5)
    assert counts["labels", "largest single"][1] <= 0.025


def test_singles_alone_make_a_pair_change_sides(of_page):
    """Each object leans to group 0, as most images do; both together lean to group 1 with no tie of the pair."""
    counts, pairs = _of(_drawn(0.0), of_page)
    assert 1 <= counts["labels", "sign changes"][0] <= counts["singles alone", "sign changes"][1]
    assert pairs["p"].min() > 0.05


def test_a_tie_of_a_pair_stays_after_balancing_and_is_seen(of_page):
    counts, pairs = _of(_drawn(-2.5), of_page)
    assert counts["labels", "uneven pairs"][0] >= 1 > counts["singles alone", "uneven pairs"][0]
    tied = pairs[pairs["first"] == "cup"].loc["fork"]
    assert tied["p"] < 0.001
    assert tied["share"] < tied["expected"] - 0.1
    assert pairs.drop("fork")["p"].min() > 0.05
