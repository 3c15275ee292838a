import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from biaslib.errors import BiaslibError
from biaslib.metrics import calibrated_thresholds


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
        (np.full((2, 1), 2), np.zeros((2, 1)), "labels must be 0 or 1"),
        (np.zeros((2, 1)), np.zeros((3, 1)), r"not \(2, 1\) and \(3, 1\)"),
        (np.zeros(2), np.zeros(2), r"must both be \(N, A\)"),
        (np.zeros((0, 1)), np.zeros((0, 1)), "with N, A >= 1"),
    ],
)
def test_wrong_input_gets_one_sentence(labels: np.ndarray, scores: np.ndarray, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        calibrated_thresholds(labels, scores)
