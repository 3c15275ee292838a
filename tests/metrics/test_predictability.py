from itertools import combinations, product

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from bias_amplification.attacker_models.ANN import simpleDenseModel
from bias_amplification.metrics.PredMetrics import DPA, Leakage
from hypothesis import given

from biaslib.errors import BiaslibError
from biaslib.metrics import predictability_amplification


@st.composite
def _answered(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    n = draw(st.integers(1, 10))
    columns = [draw(st.lists(st.integers(0, top), min_size=n, max_size=n)) for top in (2, 1, 1)]
    return tuple(map(np.array, columns))


def _best_attacker(groups: np.ndarray, answers: np.ndarray) -> float:
    """The most answers that any rule from groups to answers gets, by trying all rules."""
    return max((np.array(rule)[groups] == answers).mean() for rule in product((0, 1), repeat=3))


@given(_answered())
def test_it_is_what_the_best_of_all_attackers_gets_over_all_ways_to_be_wrong(answered):
    groups, labels, predicted = answered
    measured = predictability_amplification(groups, labels, predicted)
    wrong = int((labels != predicted).sum())
    turned = [np.isin(np.arange(len(labels)), rows) ^ labels for rows in combinations(range(len(labels)), wrong)]
    expected = np.mean([_best_attacker(groups, each) for each in turned])
    assert measured.model == pytest.approx(_best_attacker(groups, predicted))
    assert measured.labels == pytest.approx(expected, abs=1e-12)
    assert measured.value == pytest.approx((measured.model - expected) / (measured.model + expected), abs=1e-12)


def _drawn(seed: int, n: int = 2000) -> tuple[np.ndarray, ...]:
    """Groups, labels, and the answers of a model that is wrong more often where the label is unusual for its group."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, n)
    labels = rng.random(n) < np.array([0.3, 0.8])[groups]
    unusual = labels != groups.astype(bool)
    return groups, labels, labels ^ (rng.random(n) < np.where(unusual, 0.4, 0.05))


@pytest.mark.parametrize("normalised", [True, False])
def test_it_is_the_value_of_the_package_where_its_attacker_converges(normalised):
    torch.manual_seed(0)
    groups, labels, predicted = _drawn(0)
    columns = [torch.tensor(values[:, None], dtype=torch.float32) for values in (groups, labels, predicted)]
    attackers = [simpleDenseModel(1, 1, 1, numFirst=1, activations=["sigmoid"]) for _ in range(2)]
    options = {"learning_rate": 0.2, "loss_function": "bce", "epochs": 20, "batch_size": 500}
    metric = (
        DPA(*attackers, options, eval_metric="accuracy")
        if normalised
        else Leakage(attackers[0], options, eval_metric="accuracy")
    )
    asked = {"mode": "AtoT"} if normalised else {}
    tested = dict(zip(("feat_test", "data_test", "pred_test"), columns, strict=True))
    mean, sd = map(float, metric.computeBiasAmp(*columns, num_trials=8, **asked, **tested).split(" ± "))
    measured = predictability_amplification(groups, labels, predicted)
    value = measured.value if normalised else measured.model - measured.labels
    assert sd < 0.01  # its attacker is the table in every trial; what is left is its choice of labels to turn
    assert mean == pytest.approx(value, abs=4 * sd / np.sqrt(8) + 1e-4)
    assert value > 0.03


def test_answers_that_depend_on_the_group_alone_are_fully_foretold():
    groups, labels, _ = _drawn(1)
    assert predictability_amplification(groups, labels, groups == 0).model == 1.0


def test_nothing_is_amplified_without_errors_or_by_one_answer_with_equal_labels():
    groups, labels, _ = _drawn(2)
    assert predictability_amplification(groups, labels, labels).value == pytest.approx(0.0, abs=1e-12)
    constant = np.ones(100, bool)
    assert predictability_amplification(np.zeros(100, int), constant, constant).value == pytest.approx(0.0, abs=1e-12)


def test_names_of_groups_and_answers_do_not_matter():
    groups, labels, predicted = _drawn(3)
    measured = predictability_amplification(groups, labels, predicted)
    assert predictability_amplification(7 - 3 * groups, ~labels, ~predicted) == pytest.approx(measured)
    assert predictability_amplification(*map(torch.tensor, (groups, labels, predicted))) == pytest.approx(measured)


def test_many_images_agree_with_drawing_the_errors():
    groups, labels, predicted = _drawn(4, n=50_000)
    rng, wrong = np.random.default_rng(0), int((labels != predicted).sum())
    drawn = []
    for _ in range(20):
        turned = labels ^ np.isin(np.arange(len(labels)), rng.permutation(len(labels))[:wrong])
        drawn.append(sum(max((turned[groups == g] == answer).sum() for answer in (0, 1)) for g in (0, 1)) / len(labels))
    expected = predictability_amplification(groups, labels, predicted).labels
    assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn) / np.sqrt(20))


@pytest.mark.parametrize(
    ("given_", "labels", "predicted", "sentence"),
    [
        ([], [], [], "one length of at least 1"),
        ([0, 1], [0, 1], [0], "one length"),
        ([[0], [1]], [[0], [1]], [[0], [1]], "one length"),
        ([0, 1], [0, 2], [0, 1], "one attribute at a time"),
        ([0, 1], [0, 1], [0.2, 0.7], "one attribute at a time"),
        ([0, 1], [0, 1], [np.nan, 1], "one attribute at a time"),
    ],
)
def test_what_cannot_be_measured_is_refused(given_, labels, predicted, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        predictability_amplification(*map(np.array, (given_, labels, predicted)))
