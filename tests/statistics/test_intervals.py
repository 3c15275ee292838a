from unittest import mock

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from biaslib.book import recorded
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval, holm, interval, intervals, kendall, sign_flip, welch


def test_interval_of_many_values_is_the_normal_one():
    values = np.random.default_rng(1).normal(size=2000)
    found = interval(values, seed=3)
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert found.estimate == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert found.n == 2000


def coverage(draw, trials=400):
    covered = 0
    for seed in range(trials):
        values, clusters = draw(np.random.default_rng(seed))
        found = interval(values, clusters=clusters, seed=seed, resamples=400)
        covered += found.low <= 0 <= found.high
    return covered / trials


def test_interval_over_few_models_covers_the_truth_as_often_as_it_says():
    def four_models(rng):
        models = np.repeat(np.arange(4), 30)
        return rng.normal(size=4)[models] + rng.normal(size=120), models

    # 400 trials put 0.95 into [0.917, 0.977] with probability .99
    assert 0.917 <= coverage(four_models) <= 0.985


def test_interval_that_ignores_models_would_not_cover():
    def four_models(rng):
        models = np.repeat(np.arange(4), 30)
        return rng.normal(size=4)[models] + rng.normal(size=120), None

    assert coverage(four_models) < 0.7


def test_interval_over_five_values_covers():
    assert 0.91 <= coverage(lambda rng: (rng.normal(size=5), None)) <= 0.99


def test_estimate_over_clusters_is_the_mean_of_their_means():
    found = interval([1, 1, 1, 3], clusters=["a", "a", "a", "b"])
    assert found.estimate == 2
    assert found.n == 4


def test_interval_stays_inside_the_bounds_of_the_quantity():
    accuracies = [0.0, 0.0, 0.05]
    assert interval(accuracies).low < 0
    assert interval(accuracies, bounds=(0, 1)).low == 0


def test_undefined_values_are_counted_and_left_out():
    found = interval([1.0, np.nan, 3.0])
    assert (found.estimate, found.n, found.undefined) == (2.0, 2, 1)


@pytest.mark.parametrize(("values", "estimate", "n"), [([], np.nan, 0), ([np.nan], np.nan, 0), ([2.0], 2.0, 1)])
def test_interval_without_spread_is_undefined(values, estimate, n):
    found = interval(values)
    assert found.estimate == pytest.approx(estimate, nan_ok=True)
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    assert found.n == n


def test_one_seed_one_interval():
    values = np.random.default_rng(0).normal(size=50)
    assert interval(values, seed=1) == interval(values, seed=1)
    assert interval(values, seed=1) != interval(values, seed=2)


def test_interval_reads_as_value_and_bounds():
    assert f"{Interval(0.834, 0.8, 0.87, 20)}" == "0.83 [0.80, 0.87]"
    assert f"{Interval(0.834, 0.8, 0.87, 20):.1f}" == "0.8 [0.8, 0.9]"
    assert f"{Interval(0.834, np.nan, np.nan, 4)}" == "0.83 (no interval)"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_kendall_counts_pairs(pairs):
    x, y = np.array(pairs, float).T
    products = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i in range(len(x)) for j in range(i)]
    untied = [sum(v[i] != v[j] for i in range(len(x)) for j in range(i)) for v in (x, y)]
    expected = sum(products) / np.sqrt(untied[0] * untied[1]) if min(untied) else np.nan
    assert kendall(x, y, resamples=2).estimate == pytest.approx(expected, nan_ok=True)


def test_kendall_interval_of_unrelated_variables_holds_zero():
    rng = np.random.default_rng(0)
    found = kendall(rng.normal(size=60), rng.normal(size=60))
    assert found.low < 0 < found.high


def test_kendall_of_fewer_than_six_units_has_no_interval():
    found = kendall(range(5), range(5))
    assert (found.estimate, found.n) == (pytest.approx(1), 5)
    assert np.isnan([found.low, found.high]).all()
    clustered = kendall(range(20), np.sin(range(20)), clusters=np.arange(20) % 5)
    assert np.isnan([clustered.low, clustered.high]).all()
    assert kendall(range(6), [0, 2, 1, 3, 5, 4]).low < 1


def test_kendall_of_a_perfect_order_has_no_interval():
    found = kendall(range(30), range(30))
    assert found.estimate == pytest.approx(1)
    assert np.isnan([found.low, found.high]).all()  # no resample differs, and [1, 1] would be a wrong number


def test_kendall_over_clusters_holds_its_estimate():
    # hidden_confounder's recorded models: wavy hair, tau .840, had the interval [.848, .894]
    record = recorded.get("hidden_confounder", "standard")
    rows = record["values"]["models"].query("curve == 'wavy hair'")
    found = kendall(rows["correlation"], rows["score"], clusters=rows["model"])
    assert found.low <= found.estimate <= found.high <= 1
    assert found.low < found.high


def test_welch_agrees_with_scipy_and_knows_the_effect_size():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 500), rng.normal(0, 1, 400)
    found, expected = welch(a, b), scipy.stats.ttest_ind(a, b, equal_var=False)
    assert (found.statistic, found.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.effect_size == pytest.approx(1, abs=0.15)
    assert found.low < found.difference < found.high
    assert found.n == (500, 400)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], [1.0, 2.0]), ([1.0, 1.0], [2.0, 2.0])])
def test_welch_without_spread_is_undefined(a, b):
    assert np.isnan(welch(a, b).p)


def test_welch_against_a_constant_side_is_defined():
    found = welch([0.2, 0.2, 0.2], [0.5, 0.6, 0.8])
    assert found.p == pytest.approx(scipy.stats.ttest_1samp([0.5, 0.6, 0.8], 0.2).pvalue)


def test_sign_flip_by_hand():
    found = sign_flip([1.0, 2.0, 4.0, -1.0])
    # of 16 flips, the sum 6 is reached by all plus (8), the smallest ones minus (6, 6), and their negatives
    assert found.p == 6 / 16
    assert (found.difference, found.statistic, found.n) == (1.5, 1.5, (4, 4))
    low, high = scipy.stats.ttest_1samp([1, 2, 4, -1], 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.effect_size == pytest.approx(1.5 / np.std([1, 2, 4, -1], ddof=1))


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=9))
def test_sign_flip_agrees_with_scipy_and_has_no_side(differences):
    data = np.round(differences, 3)
    expected = scipy.stats.permutation_test((data,), np.mean, permutation_type="samples").pvalue
    assert sign_flip(data).p == pytest.approx(expected)
    assert sign_flip(-data).p == sign_flip(data).p == sign_flip(data[::-1]).p == sign_flip(8 * data).p


@pytest.mark.parametrize("n", [3, 5, 6, 16])
def test_smallest_reachable_p(n):
    assert sign_flip(np.linspace(1, 2, n)).p == 2 / 2**n


def test_drawn_flips_come_near_all_flips(monkeypatch):
    data = np.random.default_rng(0).normal(0.4, 1, 14)
    exact = sign_flip(data)
    monkeypatch.setattr(intervals, "_EXACT_UP_TO", 0)
    drawn = sign_flip(data, seed=1)
    assert drawn.p == pytest.approx(exact.p, abs=4 * np.sqrt(exact.p / 10_000))
    assert drawn.p != exact.p
    monkeypatch.setattr(intervals, "_FLIPS", 99)
    assert sign_flip(np.ones(40)).p == 0.01


def test_sign_flip_keeps_its_level():
    rng = np.random.default_rng(0)
    assert np.mean([sign_flip(rng.standard_t(2, 8)).p <= 0.05 for _ in range(600)]) < 0.08


def test_sign_flip_without_spread_or_pairs():
    assert np.isnan(sign_flip([np.nan]).p)
    assert sign_flip([0.0, 0.0, np.nan]).p == 1
    assert sign_flip([0.0, 0.0, np.nan]).n == (2, 2)
    found = sign_flip([0.3, 0.3, 0.3])
    assert found.p == 0.25
    assert np.isnan([found.low, found.high, found.effect_size]).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_agrees_with_statsmodels(p):
    with mock.patch("gc.collect"):  # it collects garbage at every call: half a second amid a whole test run
        expected = multipletests(p, method="holm")[1]
    assert holm(p) == pytest.approx(expected)


def test_holm_leaves_untested_hypotheses_out():
    assert holm([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: interval([1, 2], clusters=[1]), "2 values but 1 clusters"),
        (lambda: interval([1, 2], clusters=["a", None]), "1 clusters are missing"),
        (lambda: interval([[1, 2]]), "values must be one-dimensional"),
        (lambda: interval([1, 2], confidence=95), "confidence must lie between 0 and 1, not 95"),
        (lambda: kendall([1, 2], [1]), "x has 2 values, y 1"),
        (lambda: sign_flip([[1, 2]]), "differences must be one-dimensional"),
        (lambda: holm([0.5, 1.5]), "p-values must lie in"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call()


@pytest.mark.parametrize("n", [7, 600])
def test_many_taus_at_once_are_those_of_scipy(n):
    rng = np.random.default_rng(n)
    a, b = rng.integers(5, size=n).astype(float), rng.normal(size=n).round(1)
    b[0] = np.inf
    times = rng.multinomial(n, [1 / n] * n, 4)
    found = intervals._weighted_tau_b(a, b, times.astype(float))
    expected = [scipy.stats.kendalltau(np.repeat(a, k), np.repeat(b, k)).statistic for k in times]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.isnan(intervals._weighted_tau_b(a * 0, b, times.astype(float))).all()
