import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, bias_amplification
from biaslib.mitigation import DomainIndependent, domain_scores
from biaslib.mitigation.objectives import _RULES

LOGITS = np.array([[1.0, -2.0, 3.0, 4.0], [0.0, 5.0, -1.0, 2.0]])  # two images, two groups of two attributes


def test_an_image_trains_the_block_of_its_own_group_only():
    objective = DomainIndependent(attributes=2, groups=2)
    targets = objective.checked(np.array([[1, 0, 1], [0, 1, 0]]))
    logits = torch.tensor(LOGITS, dtype=torch.float32, requires_grad=True)
    loss = objective.criterion(targets, torch.zeros(1, 4, 2, 2))(logits, targets, None)
    own = torch.tensor([[3.0, 4.0], [0.0, 5.0]])
    torch.testing.assert_close(loss, binary_cross_entropy_with_logits(own, targets[:, :2]))
    loss.backward()
    assert (logits.grad != 0).tolist() == [[False, False, True, True], [True, True, False, False]]


def test_the_four_rules_by_hand():
    def sigmoid(x):
        return 1 / (1 + np.exp(-np.array(x)))

    groups = np.array([1, 0])
    found = {rule: domain_scores(LOGITS, rule, n_groups=2, groups=groups) for rule in _RULES}
    np.testing.assert_allclose(found["conditional"], [[3, 4], [0, 5]])
    np.testing.assert_allclose(found["max"], [[3, 4], [0, 5]])
    np.testing.assert_allclose(found["sum_of_logits"], [[2, 1], [-0.5, 3.5]])
    expected = [[sigmoid([1, 3]).mean(), sigmoid([-2, 4]).mean()], [sigmoid([0, -1]).mean(), sigmoid([5, 2]).mean()]]
    np.testing.assert_allclose(found["sum_of_probabilities"], expected)


def test_huge_logits_do_not_overflow():
    assert domain_scores(np.array([[-1e4, 1e4]]), "sum_of_probabilities", n_groups=2).tolist() == [[0.5]]


def test_only_the_conditional_rule_looks_at_the_group():
    others = [rule for rule in _RULES if rule != "conditional"]
    for rule in others:
        told = domain_scores(LOGITS, rule, n_groups=2, groups=np.array([0, 0]))
        np.testing.assert_array_equal(told, domain_scores(LOGITS, rule, n_groups=2))


def test_a_told_group_leaves_no_path_from_attributes_to_group():
    rng = np.random.default_rng(0)
    groups, labels = np.arange(400) % 2, rng.random((400, 4)) < 0.4
    scores = domain_scores(rng.normal(size=(400, 8)), "conditional", n_groups=2, groups=groups)
    truth, predicted = Labels(labels, groups), Labels(scores > 0, groups)
    found = bias_amplification(truth, truth, predicted, kind="attribute_to_group")
    assert found.mean == 0
    assert bias_amplification(truth, truth, predicted, kind="group_to_attribute").mean > 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: domain_scores(LOGITS, "mean", n_groups=2), "rule must be one of conditional, max"),
        (lambda: domain_scores(LOGITS, "max", n_groups=3), "not 3 blocks of equal width"),
        (lambda: domain_scores(LOGITS, "conditional", n_groups=2), "told every image's group"),
        (
            lambda: domain_scores(LOGITS, "conditional", n_groups=2, groups=np.array([0, 2])),
            "2 whole numbers from 0 to 1",
        ),
        (lambda: domain_scores(LOGITS, "conditional", n_groups=2, groups=np.array([0])), "2 whole numbers from 0 to 1"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call()
