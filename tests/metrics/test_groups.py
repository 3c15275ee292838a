from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score

from biaslib.errors import BiaslibError
from biaslib.metrics import group_accuracy, normalized_average_precision, worst_group_accuracy

CORRECT = np.array([True, True, False, True, False, False])
GROUPS = np.array(["b", "b", "b", "b", "a", "a"])


def test_group_accuracy_by_hand() -> None:
    table = group_accuracy(CORRECT, GROUPS)
    assert list(table.columns) == ["group", "n", "accuracy", "low", "high"]
    assert table[["group", "n", "accuracy"]].to_numpy().tolist() == [["a", 2, 0.0], ["b", 4, 0.75]]


def test_intervals_are_wilsons() -> None:
    row = group_accuracy(CORRECT, GROUPS).iloc[1]
    p, n, z = 0.75, 4, 1.959963984540054
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    assert (row.low, row.high) == pytest.approx((centre - half, centre + half))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=50), st.randoms())
def test_group_accuracy_against_scikit_learn_in_any_order(pairs: list[tuple[bool, int]], random: Any) -> None:
    random.shuffle(pairs)
    correct, groups = (np.array(column) for column in zip(*pairs, strict=True))
    table = group_accuracy(correct, groups)
    assert table.n.sum() == len(pairs)
    for row in table.itertuples():
        inside = groups == row.group
        assert row.accuracy == pytest.approx(accuracy_score(np.ones(inside.sum()), correct[inside]))
        assert 0 <= row.low <= row.accuracy <= row.high <= 1


@pytest.mark.parametrize(
    "groups",
    [
        pd.Series(list("bbbbaa"), index=[5, 4, 3, 2, 1, 0]),
        ["b", "b", "b", "b", "a", "a"],
        [(1, 0)] * 4 + [(0, 1)] * 2,
        torch.tensor([1, 1, 1, 1, 0, 0]),
        np.array([True] * 4 + [False] * 2),
    ],
)
def test_labels_of_any_kind(groups: Any) -> None:
    assert group_accuracy(CORRECT, groups).n.tolist() == [2, 4]
    assert group_accuracy(torch.from_numpy(CORRECT), groups).accuracy.tolist() == [0, 0.75]


def test_worst_group_by_hand() -> None:
    assert worst_group_accuracy(CORRECT, GROUPS) == 0
    assert worst_group_accuracy(CORRECT, GROUPS, min_share=0.5) == 0.75
    # exactly the share is kept
    assert worst_group_accuracy(CORRECT, GROUPS, min_share=2 / 6) == 0


def test_models_first_then_groups() -> None:
    # two models that fail different groups: their mean fails neither that much
    correct = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], bool)
    groups = [0, 0, 1, 1]
    assert worst_group_accuracy(correct, groups).tolist() == [0, 0]
    assert worst_group_accuracy(correct.mean(0), groups) == 0.5


def test_worst_group_is_the_minimum_of_the_table() -> None:
    rng = np.random.default_rng(0)
    correct, groups = rng.random((3, 2, 200)) < 0.7, rng.integers(0, 5, 200)
    worst = worst_group_accuracy(correct, groups)
    assert worst.shape == (3, 2)
    for index in np.ndindex(3, 2):
        assert worst[index] == pytest.approx(group_accuracy(correct[index], groups).accuracy.min())


def test_undefined_worst_group_is_nan() -> None:
    assert np.isnan(worst_group_accuracy(CORRECT, GROUPS, min_share=0.9))
    assert np.isnan(worst_group_accuracy(np.stack([CORRECT] * 2), GROUPS, min_share=0.9)).tolist() == [True, True]
    assert np.isnan(worst_group_accuracy(np.array([np.nan, 1.0]), [0, 1]))


def test_worst_group_in_torch() -> None:
    worst = worst_group_accuracy(torch.from_numpy(np.stack([CORRECT, ~CORRECT])), GROUPS)
    assert isinstance(worst, torch.Tensor)
    assert worst.tolist() == [0, 0.25]
    assert worst_group_accuracy(torch.from_numpy(CORRECT), GROUPS, min_share=0.5).tolist() == 0.75


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: group_accuracy(np.array([], bool), []), "There are no images to group"),
        (lambda: group_accuracy(CORRECT, GROUPS[:5]), "6 images but 5 group labels"),
        (lambda: group_accuracy(CORRECT, [1, 1, None, 1, 1, np.nan]), "2 of 6 group labels are missing"),
        (lambda: group_accuracy(CORRECT.astype(float), GROUPS), r"must be bool \(N,\), not float64"),
        (lambda: worst_group_accuracy(CORRECT, GROUPS[:5]), "6 images but 5 group labels"),
        (lambda: worst_group_accuracy(CORRECT * 2.0, GROUPS), "between 0 and 1"),
        (lambda: worst_group_accuracy(np.arange(6), GROUPS), "must be bool, or float shares"),
        (lambda: worst_group_accuracy(np.zeros((2, 0), bool), []), "There are no images to group"),
    ],
)
def test_wrong_groups_get_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        call()


def test_average_precision_by_hand() -> None:
    labels, scores = np.array([1, 0, 1]), np.array([0.9, 0.8, 0.7])
    # recall 1/2 at precision 1, then recall 1 at N / (N + 1)
    assert normalized_average_precision(labels, scores, 2) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert normalized_average_precision(labels, scores, 9) == pytest.approx(0.5 + 0.5 * 0.9)
    # a tie is one step: both labels at once
    assert normalized_average_precision(labels, np.array([0.9, 0.7, 0.7]), 2) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert normalized_average_precision(labels, np.ones(3), 2) == pytest.approx(2 / 3)
    # hard predictions are scores too
    assert normalized_average_precision(labels, np.array([2, 1, 1], np.uint8), 2) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert normalized_average_precision(labels, labels == 1, 2) == 1


ranked = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=30).filter(
    lambda pairs: 0 < sum(label for label, _ in pairs) < len(pairs)
)


@given(ranked, st.randoms())
def test_average_precision_against_scikit_learn(pairs: list[tuple[bool, int]], random: Any) -> None:
    labels, scores = (np.array(column) for column in zip(*pairs, strict=True))
    expected = pytest.approx(average_precision_score(labels, scores))
    assert normalized_average_precision(labels, scores, labels.sum()) == expected
    random.shuffle(pairs)
    labels, scores = (np.array(column) for column in zip(*pairs, strict=True))
    # neither the order of the images nor the scale of the scores matters
    assert normalized_average_precision(labels, np.exp(scores / 3), labels.sum()) == expected


def test_a_rare_attribute_compares_with_a_common_one() -> None:
    # the same ranking quality, ten times the negatives: AP falls, AP_N with N scaled alike does not
    labels, scores = np.array([1, 0, 1, 0, 0]), np.array([5, 4, 3, 2, 1.0])
    negatives = labels == 0
    many_labels = np.concatenate([labels, *[labels[negatives]] * 9])
    many_scores = np.concatenate([scores, *[scores[negatives]] * 9])
    rare = normalized_average_precision(many_labels, many_scores, 20)
    assert rare == pytest.approx(normalized_average_precision(labels, scores, 2))
    assert rare > average_precision_score(many_labels, many_scores)


def test_average_precision_broadcasts_and_keeps_the_kind() -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.random((4, 50)) < 0.3, rng.random((3, 4, 50))
    n_positive = np.array([1.0, 2.0, 3.0, 4.0])
    values = normalized_average_precision(labels, scores, n_positive)
    assert values.shape == (3, 4)
    assert values[1, 2] == normalized_average_precision(labels[2], scores[1, 2], 3)
    in_torch = normalized_average_precision(torch.from_numpy(labels), torch.from_numpy(scores), n_positive)
    assert isinstance(in_torch, torch.Tensor)
    assert in_torch.tolist() == values.tolist()


def test_undefined_average_precision_is_nan() -> None:
    labels = np.array([[0, 0], [1, 1], [0, 1]])
    values = normalized_average_precision(labels, np.array([0.1, 0.2]), 1)
    assert np.isnan(values).tolist() == [True, True, False]
    assert np.isnan(normalized_average_precision(labels[2], np.array([np.nan, 0.2]), 1))


@pytest.mark.parametrize(
    ("labels", "scores", "n_positive", "message"),
    [
        (np.array([0, 2]), np.zeros(2), 1, "labels must hold 0 and 1 only"),
        (np.array([0, 1]), np.zeros(3), 1, r"with n >= 1, not \(2,\) and \(3,\)"),
        (np.array([], int), np.array([]), 1, "with n >= 1"),
        (np.array([0, 1]), np.zeros(2), 0, "n_positive must be above 0, not 0"),
        (np.zeros((2, 3)), np.zeros((4, 3)), 1, "do not broadcast"),
    ],
)
def test_wrong_rankings_get_one_sentence(
    labels: np.ndarray, scores: np.ndarray, n_positive: float, message: str
) -> None:
    with pytest.raises(BiaslibError, match=message):
        normalized_average_precision(labels, scores, n_positive)


def test_equal_infinite_scores_are_ties() -> None:
    truth, scores = np.array([1, 0, 1, 0]), np.array([0.5, -np.inf, -np.inf, -np.inf])
    expected = average_precision_score(truth, np.where(np.isinf(scores), -1e9, scores))
    assert normalized_average_precision(truth, scores, n_positive=2) == pytest.approx(expected)
