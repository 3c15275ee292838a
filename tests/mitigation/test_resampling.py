from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from biaslib.errors import BiaslibError
from biaslib.mitigation import resampling
from biaslib.mitigation.resampling import data_repair, group_shares, oversample


def imbalance(attributes, groups):
    """How far each attribute is from being shared evenly, (A,)."""
    n_groups = int(groups.max()) + 1
    return np.abs(group_shares(attributes, groups, n_groups) - 1 / n_groups).max(axis=1)


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
    with mock.patch.object(resampling, "_LARGEST", 500):
        rows = oversample(attributes, groups, eps=eps)
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
        oversample(attributes, np.repeat([0, 1], 6), eps=0.001)


@pytest.mark.parametrize(
    ("attributes", "groups", "options", "sentence"),
    [
        ([[0.5], [1]], [0, 1], {}, "attributes must hold 0 and 1 only"),
        ([1, 0], [0, 1], {}, r"attributes must be \(N, A\)"),
        ([[1], [0]], [0, 1, 1], {}, "2 images but 3 groups"),
        ([[1], [0]], [0.0, 1.0], {}, "groups must be whole numbers"),
        ([[1], [0]], [-1, 1], {}, "groups must be whole numbers"),
        ([[1], [0]], [0, 0], {}, "one group only"),
        ([[1], [1]], [0, 1], {"eps": 0}, "eps is the allowed distance"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(attributes, groups, options, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        oversample(np.array(attributes), np.array(groups), **options)


def test_an_attribute_that_nobody_has_is_undefined():
    assert np.isnan(imbalance(np.array([[0], [0]]), np.array([0, 1]))).all()


def skewed(n, width, n_groups, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(n_groups, n, p=rng.dirichlet(5 * np.ones(n_groups)))
    return rng.random((n, width)) < rng.uniform(0.05, 0.6, (n_groups, width))[groups], groups


def coefficient_of_variation(attributes: np.ndarray, groups: np.ndarray) -> float:
    """What data repair makes small: deviation over mean of the number of images per attribute and group."""
    having = attributes.astype(float).T @ np.eye(int(groups.max()) + 1)[groups]
    return float(having.std() / having.mean()) if having.any() else float("nan")


def test_coefficient_of_variation_by_hand():
    attributes = np.array([[1, 1], [1, 0], [1, 0], [1, 1]])
    groups = np.array([0, 0, 0, 1])
    # counts 3, 1 and 1, 1: mean 1.5, variance .75
    assert coefficient_of_variation(attributes, groups) == pytest.approx(np.sqrt(0.75) / 1.5)
    assert coefficient_of_variation(attributes[[0, 3]], groups[[0, 3]]) == 0
    assert np.isnan(coefficient_of_variation(attributes * 0, groups))


def test_repair_by_hand():
    attributes = np.array([[1, 1], [1, 0], [1, 0], [1, 1], [0, 0]])
    groups = np.array([0, 0, 0, 1, 1])
    # first the two rows that make attribute 0 too frequent in group 0 go, then the row that counts nowhere
    assert data_repair(attributes, groups, size=3).tolist() == [0, 3, 4]
    assert data_repair(attributes, groups, size=2).tolist() == [0, 3]
    assert data_repair(attributes, groups, size=5).tolist() == [0, 1, 2, 3, 4]
    assert {data_repair(attributes, groups, size=4, seed=seed).tolist()[1] for seed in range(9)} == {1, 2}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 3))
def test_every_step_is_the_best_one(seed, n_groups):
    attributes, groups = skewed(14, 3, n_groups, seed)
    if len(np.unique(groups)) < 2 or not attributes.any(axis=0).all():
        return
    n_groups = groups.max() + 1
    kept = np.arange(14)

    def spread(rows):  # independent of the module's arithmetic: counts of the rows themselves
        counts = np.array([[attributes[rows][groups[rows] == g].sum(axis=0)] for g in range(n_groups)])
        return counts.std() / counts.mean() if counts.any() else np.inf

    for size in range(13, 0, -1):
        rows = data_repair(attributes, groups, size=size, seed=3)
        assert set(rows) < set(kept)
        assert spread(rows) == pytest.approx(min(spread(np.delete(kept, i)) for i in range(size + 1)))
        kept = rows


@pytest.mark.parametrize("n_groups", [2, 3])
def test_repair_evens_out_monotonically_and_beats_chance(n_groups):
    attributes, groups = skewed(2000, 8, n_groups)
    path = [data_repair(attributes, groups, size=size) for size in range(2000, 400, -100)]
    spreads = [coefficient_of_variation(attributes[rows], groups[rows]) for rows in path]
    assert (np.diff(spreads) <= 0).all()  # level where rows without attributes go
    rng = np.random.default_rng(0)
    drawn = [rng.choice(2000, len(path[-1]), replace=False) for _ in range(20)]
    assert spreads[-1] < 0.5 * min(coefficient_of_variation(attributes[rows], groups[rows]) for rows in drawn)


def test_repair_knows_no_names_of_attributes_or_groups():
    attributes, groups = skewed(300, 4, 3)
    values = {
        round(coefficient_of_variation(one[rows], two[rows]), 9)
        for one, two in ((attributes, groups), (attributes[:, ::-1], groups), (attributes, (groups + 1) % 3))
        for rows in [data_repair(one, two, size=100)]
    }
    assert max(values) - min(values) < 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, r"must be a whole number in \[1, 4\], not 0"),
        ({"size": 5}, r"must be a whole number in \[1, 4\], not 5"),
        ({"attributes": np.array([[1, 0]] * 4)}, "attribute 1 has no image at all"),
        ({"groups": np.zeros(4, int)}, "one group only"),
        ({"groups": np.array([0, 1])}, "4 images but 2 groups"),
    ],
)
def test_what_cannot_be_repaired_gets_one_sentence(change, message):
    given = {"attributes": np.eye(2)[[0, 1, 0, 1]], "groups": np.array([0, 0, 1, 1]), "size": 2} | change
    with pytest.raises(BiaslibError, match=message):
        data_repair(**given)
