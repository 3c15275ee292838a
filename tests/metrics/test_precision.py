from itertools import combinations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.metrics import average_precision_score

from biaslib.errors import BiaslibError
from biaslib.metrics import (
    Labels,
    bias_amplification,
    calibrated_thresholds,
    mean_average_precision,
    set_average_precision,
)

TRUTH = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], bool)


def _random(seed: int, n: int = 200, width: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n // 4, width)).repeat(4, axis=0)  # four images each are tied
    return rng.random((n, width)) < 1 / (1 + np.exp(1 - logits)), logits


def test_single_attributes_by_hand() -> None:
    scores = np.array([[0.1, 0.9, 0.5], [0.9, 0.8, 0.5], [0.5, 0.2, 0.5], [0.2, 0.1, 0.5]])
    found = mean_average_precision(TRUTH, scores)
    # first: positives are ranked 1, 3, 4; second: 1, 3, 4; third has none
    expected = (1 + 2 / 3 + 3 / 4) / 3
    np.testing.assert_allclose(found.values, [expected, expected, np.nan])
    assert found.mean == pytest.approx(expected)
    assert (found.n, len(found.values)) == (2, 3)


def test_a_set_by_hand() -> None:
    logits = np.array([[0.0, 0, -9], [1, 1, -9], [9, -9, -9], [2, -0.5, -9]])
    found = set_average_precision(TRUTH, TRUTH, logits, min_size=2, max_size=2, sets="all")
    assert found.members.tolist() == [[True, True, False]]
    # products .25, .53, ~0 and .33: the two images with both come second and third
    assert found.values.tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2])


@pytest.mark.parametrize("seed", range(3))
def test_every_set_agrees_with_scikit_learn_with_ties(seed: int) -> None:
    train, _ = _random(seed + 10)
    truth, logits = _random(seed)
    found = set_average_precision(train, truth, logits, sets="all")
    probability = 1 / (1 + np.exp(-logits))
    expected = {}
    for size in range(1, 6):
        for inside in combinations(range(5), size):
            has_all = truth[:, inside].all(axis=1)
            if has_all.any() and train[:, inside].all(axis=1).any():
                expected[inside] = average_precision_score(has_all, probability[:, inside].prod(axis=1))
    assert len(expected) > 20
    values = {tuple(np.flatnonzero(m).tolist()): value for m, value in zip(found.members, found.values, strict=True)}
    assert values == pytest.approx(expected)


def test_sets_of_one_attribute_are_the_usual_map() -> None:
    truth, logits = _random(0)
    sets = set_average_precision(truth, truth, logits, max_size=1, sets="all")
    assert sets.values.tolist() == pytest.approx(mean_average_precision(truth, logits).values.tolist())
    in_torch = set_average_precision(*(torch.from_numpy(x) for x in (truth, truth, logits)), max_size=1, sets="all")
    assert in_torch.mean == sets.mean


@pytest.mark.parametrize(("sets", "sizes"), [("observed", (1, None)), ("observed", (2, 3)), ("all", (2, None))])
def test_the_sets_are_those_of_the_amplification(sets: str, sizes: tuple) -> None:
    (train, _), (truth, logits) = _random(5, 60, 7), _random(6, 40, 7)
    groups = np.arange(60) % 2
    labels = Labels(train, groups), Labels(truth, groups[:40]), Labels(truth, groups[:40])
    options = {"min_size": sizes[0], "max_size": sizes[1], "sets": sets}
    precision = set_average_precision(train, truth, logits, **options)
    assert precision.n == bias_amplification(*labels, **options).n_sets > 0
    assert precision.n == len(precision.values)


def test_the_order_of_attributes_changes_nothing() -> None:
    truth, logits = _random(1, 400)
    found = set_average_precision(truth, truth, logits, sets="all")
    turned = set_average_precision(truth[:, ::-1], truth[:, ::-1], logits[:, ::-1], sets="all")
    assert turned.mean == pytest.approx(found.mean)


def test_sets_seen_on_one_side_only_have_no_value() -> None:
    train, test = np.array([[1, 1], [1, 0]]), np.array([[1, 0], [0, 1]])
    found = set_average_precision(train, test, np.zeros((2, 2)))
    assert found.members.tolist() == [[True, False]]
    assert np.isnan(set_average_precision(train, test, np.zeros((2, 2)), min_size=2).mean)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": TRUTH[:, :2]}, r"train has the shape \(4, 2\) but the test images have 3"),
        ({"logits": np.full((4, 3), np.nan)}, "12 of 12 scores are NaN"),
        ({"min_size": 0}, "not from 0 to None"),
        ({"min_size": 3, "max_size": 2}, "not from 3 to 2"),
        ({"sets": "some"}, "sets must be one of observed, all, not 'some'"),
        ({"train": TRUTH + 1}, "attributes must hold 0 and 1"),
    ],
)
def test_wrong_input_gets_one_sentence(change: dict, message: str) -> None:
    given = {"train": TRUTH, "labels": TRUTH, "logits": np.zeros((4, 3))} | change
    with pytest.raises(BiaslibError, match=message):
        set_average_precision(**given)


def test_too_many_sets_are_refused_before_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biaslib.metrics.precision._MOST_PAIRS", 7)
    with pytest.raises(BiaslibError, match="3 sets on 4 images are too many"):
        set_average_precision(TRUTH, TRUTH, np.zeros((4, 3)))


def test_by_hand() -> None:
    labels = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]])
    scores = np.array([[0.1, 0.2, 0.4], [0.9, 0.8, 0.3], [0.3, 0.5, 0.2], [0.2, 0.1, 0.1]])
    thresholds = calibrated_thresholds(labels, scores)
    assert thresholds.tolist() == [0.2, 0.8, -np.inf]  # two images above; none, without positives; all
    assert (scores > thresholds).sum(axis=0).tolist() == [2, 0, 4]


@pytest.mark.parametrize(
    ("scores", "positives", "predicted"),
    [
        ([3, 2, 2, 2, 1], 2, 1),  # 1 or 4 are possible
        ([3, 2, 2, 2, 1], 3, 4),
        ([3, 2, 2, 1, 1], 2, 1),  # 1 and 3 are equally near
        ([2, 2, 2, 2, 2], 2, 0),
        ([2, 2, 2, 2, 2], 3, 5),
        ([np.inf, np.inf, 1, -np.inf, -np.inf], 4, 3),
        ([np.inf, np.inf, 1, -np.inf, -np.inf], 2, 2),
    ],
)
def test_ties_give_the_nearest_number_that_is_possible(scores: list, positives: int, predicted: int) -> None:
    column = np.array(scores, float)[:, None]
    labels = (np.arange(5) < positives)[:, None]
    assert (column > calibrated_thresholds(labels, column)).sum() == predicted


@given(st.data(), st.integers(1, 30))
def test_no_threshold_comes_nearer(data: st.DataObject, n: int) -> None:
    scores = data.draw(hnp.arrays(float, (n, 2), elements=st.integers(0, 9)))
    labels = data.draw(hnp.arrays(bool, (n, 2)))
    thresholds = calibrated_thresholds(labels, scores)
    for threshold, column, truth in zip(thresholds, scores.T, labels.T, strict=True):
        reached = abs((column > threshold).sum() - truth.sum())
        assert all(abs((column > other).sum() - truth.sum()) >= reached for other in range(-1, 10))


def test_only_the_order_of_the_scores_matters_and_torch_stays_torch() -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.random((50, 3)) < 0.3, rng.normal(size=(50, 3))
    predicted = scores > calibrated_thresholds(labels, scores)
    assert predicted.sum(axis=0).tolist() == labels.sum(axis=0).tolist()
    assert np.array_equal(np.exp(scores) > calibrated_thresholds(labels, np.exp(scores)), predicted)
    in_torch = calibrated_thresholds(torch.from_numpy(labels), torch.from_numpy(scores))
    assert isinstance(in_torch, torch.Tensor)
    assert in_torch.tolist() == calibrated_thresholds(labels, scores).tolist()


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        (np.zeros((2, 1)), np.array([[0.0], [np.nan]]), "1 of 2 scores are NaN"),
        (np.full((2, 1), 2), np.zeros((2, 1)), "labels must hold 0 and 1 only"),
        (np.zeros((2, 1)), np.zeros((3, 1)), r"not \(2, 1\) and \(3, 1\)"),
        (np.zeros(2), np.zeros(2), r"must both be \(N, A\)"),
        (np.zeros((0, 1)), np.zeros((0, 1)), "with N, A >= 1"),
    ],
)
def test_thresholds_of_wrong_input_get_one_sentence(labels: np.ndarray, scores: np.ndarray, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        calibrated_thresholds(labels, scores)
