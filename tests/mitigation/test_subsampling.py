import time

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from scipy.optimize import minimize
from sklearn.metrics import matthews_corrcoef

from biaslib.errors import BiaslibError
from biaslib.mitigation.subsampling import _Search, subgroup_sizes, subsample_to_mcc


def labels(available):
    """Attribute and group of as many images, mixed."""
    kinds = np.repeat(np.arange(4), available)
    kinds = np.random.default_rng(0).permutation(kinds)
    return kinds < 2, kinds % 2 == 0


def mcc(table):
    a, b, c, d = (float(n) for n in table)
    return (a * d - b * c) / np.sqrt((a + b) * (c + d) * (a + c) * (b + d))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*[st.integers(150, 6000)] * 4),
    st.lists(st.floats(-0.8, 0.8), min_size=1, max_size=4),
)
@example((150, 6000, 6000, 150), [0.8, -0.8])
@example((5997, 151, 152, 5000), [-0.8, 0.0])
@example((2140, 222, 150, 150), [0.671875])
def test_every_target_is_reached_with_sets_of_one_size(available, targets):
    attribute, group = labels(available)
    sets = subsample_to_mcc(attribute, group, targets)
    assert len({len(rows) for rows in sets}) == 1
    for rows, target in zip(sets, targets, strict=True):
        assert len(np.unique(rows)) == len(rows)
        assert matthews_corrcoef(attribute[rows], group[rows]) == pytest.approx(target, abs=1e-3)
    assert np.concatenate(sets).max() < len(attribute)


def test_by_hand():
    # All four equal: the correlation is 0 already, and every row is kept.
    np.testing.assert_array_equal(subgroup_sizes(np.full(4, 50), [0.0]), [[50, 50, 50, 50]])
    # (100, 100, 100, 100) to MCC 0.6 at a total of 200: 80, 20, 20, 80 is the nearest by symmetry.
    np.testing.assert_array_equal(subgroup_sizes(np.full(4, 100), [0.6], size=200), [[80, 20, 20, 80]])
    # Without a total 100, 25, 25, 100 would do; but leaving one subgroup nearly out is nearer.
    (table,) = subgroup_sizes(np.full(4, 100), [0.6])
    assert mcc(table) == pytest.approx(0.6, abs=1e-3)
    assert np.linalg.norm(table - 100) < np.linalg.norm(np.array([0, 75, 75, 0])) - 0.5


@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_a_full_correlation_leaves_two_subgroups_out(target):
    (table,) = subgroup_sizes(np.array([300, 200, 250, 400]), [target])
    assert mcc(table) == target
    assert table.tolist() == ([300, 0, 0, 400] if target > 0 else [0, 200, 250, 0])


@pytest.mark.parametrize(
    "available", [(2100, 23800, 82000, 94400), (400, 3100, 8300, 9200), (1000, 1000, 1000, 1000), (900, 50, 300, 4000)]
)
@pytest.mark.parametrize("target", [-0.5, -0.1, 0.0, 0.3])
def test_no_optimiser_of_scipy_comes_nearer(available, target):
    """The paper's own way, from several starts."""
    available = np.array(available, float)
    exact = _Search(available, target).nearest()
    assert mcc(exact) == pytest.approx(target, abs=1e-6)
    rng = np.random.default_rng(0)
    found = []
    for start in (available * 0.9, *(available * rng.uniform(0.2, 0.9, 4) for _ in range(2))):
        result = minimize(
            lambda g: ((g - available) ** 2).sum() / available.sum() ** 2,
            start,
            method="SLSQP",
            bounds=[(1e-3, n) for n in available],
            constraints=[{"type": "eq", "fun": lambda g: mcc(g) - target}],
            options={"maxiter": 300, "ftol": 1e-14},
        )
        if abs(mcc(result.x) - target) < 1e-6:
            found.append(np.linalg.norm(result.x - available))
    assert found
    assert np.linalg.norm(exact - available) <= min(found) * (1 + 1e-4) + 1e-6


def test_a_fixed_total_is_kept_and_is_the_nearest_too():
    available = np.array([400, 3100, 8300, 9200])
    tables = subgroup_sizes(available, [-0.3, -0.1, 0.0], size=2000)
    assert tables.sum(axis=1).tolist() == [2000] * 3
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(4), 400_000) * 2000
    a, b, c, d = shares.T
    values = (a * d - b * c) / np.sqrt((a + b) * (c + d) * (a + c) * (b + d))
    for table, target in zip(tables, [-0.3, -0.1, 0.0], strict=True):
        like = shares[(np.abs(values - target) < 2e-3) & (shares <= available).all(axis=1)]
        assert len(like) > 100
        assert np.linalg.norm(table - available) <= np.linalg.norm(like - available, axis=1).min() + 3


def test_neighbouring_targets_share_rows_and_seeds_repeat():
    attribute, group = labels((400, 3100, 8300, 9200))
    one, near = subsample_to_mcc(attribute, group, [-0.2, -0.21], size=4000, seed=1)
    assert len(np.intersect1d(one, near)) > 3900
    again = subsample_to_mcc(attribute, group, [-0.2], size=4000, seed=1)[0]
    other = subsample_to_mcc(attribute, group, [-0.2], size=4000, seed=2)[0]
    np.testing.assert_array_equal(one, again)
    assert len(np.intersect1d(one, other)) < 3000
    assert (np.diff(one) > 0).all()


def test_what_the_largest_size_is():
    available = np.array([100, 1000, 1000, 1000])
    with pytest.raises(BiaslibError, match=r"0\.5 cannot be reached with 3,000 images") as caught:
        subgroup_sizes(available, [0.5], size=3000)
    most = int(str(caught.value).rsplit("at most ", 1)[1].rstrip(".").replace(",", ""))
    (table,) = subgroup_sizes(available, [0.5], size=most)
    assert table.sum() == most
    assert mcc(table) == pytest.approx(0.5, abs=1e-3)
    with pytest.raises(BiaslibError, match="100 with the attribute in group 1, 1,000 with the attribute in group 0"):
        subgroup_sizes(available, [0.5], size=most + 1)


@pytest.mark.parametrize(
    ("available", "target", "sentence"),
    [
        ((0, 50, 50, 50), 0.2, "0.2 cannot be reached: there is no image with the attribute in group 1"),
        ((50, 50, 0, 50), -0.2, "-0.2 cannot be reached: there is no image without the attribute in group 1"),
        ((50, 50, 50, 0), 0.0, "0 cannot be reached: there is no image without the attribute in group 0"),
        ((2, 2, 2, 2), 0.123, "no [67] images have a correlation within 0.001 of 0.123"),
    ],
)
def test_an_infeasible_target_is_named_with_its_reason(available, target, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        subgroup_sizes(np.array(available), [target])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"targets": [1.5]}, r"targets must be one or more correlations in \[-1, 1\], not \[1.5\]"),
        ({"targets": []}, "targets must be one or more correlations"),
        ({"size": 10**6}, "cannot be reached with 1,000,000 images"),
        ({"attribute": np.array([0, 2])}, r"attribute must be \(N,\) of 0 and 1"),
        ({"group": np.ones((2, 2))}, r"group must be \(N,\) of 0 and 1"),
        ({"group": np.array([0, 1, 1])}, "attribute has 400 rows and group 3"),
    ],
)
def test_wrong_arguments_are_refused(change, sentence):
    attribute, group = labels((100, 100, 100, 100))
    with pytest.raises(BiaslibError, match=sentence):
        subsample_to_mcc(**({"attribute": attribute, "group": group, "targets": [0.1]} | change))


def test_celeba_sized_tables_take_no_time():
    start = time.process_time()
    subgroup_sizes(np.array([1700, 28200, 82700, 90000]), np.linspace(-0.5, 0.1, 7))
    assert time.process_time() - start < 20
