import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from biaslib.errors import BiaslibError
from biaslib.resampling import imbalance, oversample


@st.composite
def labelled(draw):
    n_groups = draw(st.integers(2, 3))
    width = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n = draw(st.integers(300, 700))
    groups = np.concatenate([np.arange(n_groups), rng.choice(n_groups, n, p=rng.dirichlet(12 * np.ones(n_groups)))])
    attributes = rng.random((len(groups), width)) < rng.uniform(0.25, 0.65, (n_groups, width))[groups]
    # one row of each group with each attribute alone, so that a balance exists
    alone = np.tile(np.eye(width, dtype=bool), (n_groups, 1))
    return np.concatenate([attributes, alone]), np.concatenate([groups, np.repeat(np.arange(n_groups), width)])


@settings(max_examples=40, deadline=None)
@given(labelled(), st.sampled_from([0.04, 0.1]))
def test_it_reaches_the_balance_it_states(labels, eps):
    attributes, groups = labels
    rows = oversample(attributes, groups, eps=eps, largest=500)
    assert rows[: len(groups)].tolist() == list(range(len(groups)))
    n_groups = groups.max() + 1
    for has in (*attributes.T, np.ones(len(groups), bool)):  # counted anew, without the module's own helpers
        drawn = [row for row in rows if has[row]]
        for group in range(n_groups):
            share = sum(groups[row] == group for row in drawn) / len(drawn)
            assert abs(share - 1 / n_groups) <= eps + 1e-12


@pytest.mark.parametrize("n_groups", [2, 3])
def test_usual_label_tables_are_balanced_without_growing_out_of_hand(n_groups):
    rng = np.random.default_rng(0)
    groups = rng.choice(n_groups, 3000, p=[0.7, 0.2, 0.1][:n_groups] if n_groups == 3 else [0.7, 0.3])
    attributes = rng.random((3000, 8)) < rng.uniform(0.1, 0.5, (n_groups, 8))[groups]
    rows = oversample(attributes, groups, eps=0.05)
    assert imbalance(attributes[rows], groups[rows]).max() <= 0.05
    assert len(rows) < 10 * len(groups)


def test_by_hand():
    attributes = np.array([[1], [1], [1], [0], [1], [0]])
    groups = np.array([0, 0, 0, 0, 1, 1])
    np.testing.assert_allclose(imbalance(attributes, groups), [0.25])
    rows = oversample(attributes, groups, eps=0.01)
    added = rows[6:]
    assert imbalance(attributes[rows], groups[rows]).tolist() == [0.0]
    assert np.bincount(groups[rows]).tolist() == [len(rows) // 2] * 2
    assert len(added) >= 2


def test_balanced_labels_stay_as_they_are():
    attributes = np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    assert oversample(attributes, np.array([0, 0, 1, 1])).tolist() == [0, 1, 2, 3]


def test_pairs_are_left_skewed():
    attributes = np.array([[1, 1], [0, 0], [1, 0], [0, 1]] * 2)
    rows = oversample(np.repeat(attributes, [9, 9, 1, 1, 1, 1, 9, 9], axis=0), np.repeat([0, 1], 20))
    assert len(rows) == 40


def test_the_seed_decides():
    rng = np.random.default_rng(1)
    groups = (rng.random(200) < 0.2).astype(int)
    attributes = rng.random((200, 3)) < 0.4
    assert oversample(attributes, groups, seed=3).tolist() == oversample(attributes, groups, seed=3).tolist()
    assert oversample(attributes, groups, seed=3).tolist() != oversample(attributes, groups, seed=4).tolist()


def test_what_cannot_be_balanced_is_said():
    with pytest.raises(BiaslibError, match=r"attribute 1 cannot be balanced .* group 0 has no image with it"):
        oversample(np.array([[1, 0], [1, 1]]), np.array([0, 1]))
    # in group 0 the attributes only come together, in group 1 never: evening one unevens the other
    attributes = np.array([[1, 1, 0]] * 5 + [[0, 0, 1]] + [[1, 0, 1]] * 5 + [[0, 1, 1]] * 1)
    with pytest.raises(BiaslibError, match=r"no balance within eps = 0.001 after .* attribute \d is still"):
        oversample(attributes, np.repeat([0, 1], 6), eps=0.001, rounds=2)


@pytest.mark.parametrize(
    ("attributes", "groups", "options", "sentence"),
    [
        ([[0.5], [1]], [0, 1], {}, "attributes must be"),
        ([1, 0], [0, 1], {}, r"attributes must be \(N, A\)"),
        ([[1], [0]], [0, 1, 1], {}, "groups must be 2 whole numbers"),
        ([[1], [0]], [0.0, 1.0], {}, "groups must be 2 whole numbers"),
        ([[1], [0]], [-1, 1], {}, "groups must be 2 whole numbers"),
        ([[1], [0]], [0, 0], {}, "one group only"),
        ([[1], [1]], [0, 1], {"eps": 0}, "eps is the allowed distance"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(attributes, groups, options, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        oversample(np.array(attributes), np.array(groups), **options)


def test_an_attribute_that_nobody_has_is_undefined():
    assert np.isnan(imbalance(np.array([[0], [0]]), np.array([0, 1]))).all()
