import itertools

import numpy as np
import pytest

from biaslib.errors import BiaslibError
from biaslib.metrics import Labels
from biaslib.mitigation import corpus_constraints
from biaslib.mitigation.objectives import _decided, _shifts


def amplifying(n=3000, width=8, n_groups=2, seed=0):
    """Training labels that lean, and scores that lean three times as much."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0.2, 0.5, (n_groups, width))
    groups = rng.integers(n_groups, size=n)
    train = Labels(rng.random((n, width)) < shares[groups], groups)
    test_groups = rng.integers(n_groups, size=n)
    lean = shares[test_groups] - shares.mean(axis=0)
    present = rng.random((n, width)) < shares[test_groups]
    scores = 2.0 * (2 * present - 1) + 12 * lean + rng.normal(size=(n, width))
    by_group = 2.0 * np.eye(n_groups)[test_groups] + rng.normal(size=(n, n_groups))
    return scores, by_group, train


def shares(attributes, groups, n_groups):
    """Counted one by one, without the module's own helpers."""
    return np.array(
        [
            [sum((groups == g) & column) / column.sum() for g in range(n_groups)]
            for column in np.asarray(attributes, bool).T
        ]
    )


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("margin", [0.05, 0.02])
def test_every_ratio_is_brought_inside_its_margin(n_groups, margin):
    scores, by_group, train = amplifying(n_groups=n_groups)
    wanted = shares(train.attributes, train.groups, n_groups)
    before = shares(scores > 0, by_group.argmax(axis=1), n_groups)
    assert (np.abs(before - wanted) > margin).any(axis=1).sum() >= 2
    found = corpus_constraints(scores, by_group, train, margin=margin)
    np.testing.assert_allclose(found.reached, shares(found.attributes, found.groups, n_groups))
    assert np.abs(found.reached - wanted).max() <= margin + 1e-12
    assert found.met.all()
    changed = (found.attributes != (scores > 0)).mean()
    assert 0 < changed < 0.2


def test_ratios_that_hold_already_change_nothing():
    scores, by_group, train = amplifying()
    found = corpus_constraints(scores, by_group, train, margin=0.9)
    assert found.rounds == 1
    np.testing.assert_array_equal(found.attributes, scores > 0)
    np.testing.assert_array_equal(found.groups, by_group.argmax(axis=1))


def test_each_image_is_decided_as_well_as_trying_everything_would():
    rng = np.random.default_rng(3)
    scores, by_group = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    wanted = np.array([[0.5, 0.5], [0.7, 0.3], [0.2, 0.8]])
    multipliers, margin = rng.uniform(0, 1, (2, 3, 2)), 0.1
    attributes, groups = _decided(scores, by_group, _shifts(multipliers, wanted, margin))

    def lagrangian(i, x, g):
        value = by_group[i, g] + sum(scores[i, a] for a in range(3) if x[a])
        for a, k in itertools.product(range(3), range(2)):
            if x[a]:
                value -= multipliers[0, a, k] * ((k == g) - (wanted[a, k] + margin))
                value -= multipliers[1, a, k] * ((wanted[a, k] - margin) - (k == g))
        return value

    for i in range(20):
        every = itertools.product(itertools.product((False, True), repeat=3), range(2))
        x, g = max(every, key=lambda answer: lagrangian(i, *answer))
        assert (tuple(attributes[i]), groups[i]) == (x, g)


def test_what_cannot_be_met_is_said():
    train = Labels(np.ones((4, 1), bool), np.array([0, 0, 1, 1]))
    found = corpus_constraints(np.array([[300.0]]), np.array([[900.0, 0.0]]), train)
    assert found.met.tolist() == [False]  # one image is of one group: no ratio near a half
    assert found.reached.tolist() == [[1.0, 0.0]]


def test_an_attribute_that_is_never_predicted_breaks_nothing():
    train = Labels(np.ones((4, 1), bool), np.array([0, 0, 1, 1]))
    found = corpus_constraints(np.array([[-3.0], [-3.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), train)
    assert np.isnan(found.reached).all()
    assert found.met.tolist() == [True]


def test_an_attribute_that_is_never_predicted_stays_so_while_others_are_corrected():
    scores, by_group, train = amplifying()
    never = np.column_stack([scores, np.full(len(scores), -0.1)])
    labels = Labels(np.column_stack([train.attributes, train.attributes[:, 0]]), train.groups)
    found = corpus_constraints(never, by_group, labels)
    assert found.rounds > 1
    assert found.met.all()
    assert not found.attributes[:, -1].any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"margin": 0}, "margin must be above 0"),
        ({"attribute_scores": np.zeros((3, 2))}, "for the same images, not .3, 2. and .4, 2."),
        ({"attribute_scores": np.full((4, 2), np.inf)}, "scores must be finite"),
        ({"attribute_scores": np.zeros((4, 3))}, "3 scored attributes but 2 in the training labels"),
        ({"train": Labels([[1, 1], [1, 0]], [0, 2])}, "have group 2, but only groups 0 to 1"),
        ({"train": Labels([[1, 0], [1, 0]], [0, 1])}, "no training image has attribute 1"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    arguments = {
        "attribute_scores": np.zeros((4, 2)),
        "group_scores": np.zeros((4, 2)),
        "train": Labels([[1, 1], [1, 0]], [0, 1]),
    } | change
    with pytest.raises(BiaslibError, match=sentence):
        corpus_constraints(**arguments)
