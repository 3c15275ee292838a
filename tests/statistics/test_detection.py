import math

import numpy as np
import pytest
import scipy.stats

from biaslib.errors import BiaslibError
from biaslib.statistics import holm
from biaslib.statistics.detection import (
    detection_power,
    detection_threshold,
    largest_distances,
    p_value,
    rank_p_value,
    rank_p_values,
    winkler,
)


def upper_limit(reference, confidence=0.95, models=1):
    """What the mean of further unbiased models would stay below, with this confidence."""
    m, t = len(reference), scipy.stats.t.ppf(confidence, len(reference) - 1)
    return np.mean(reference) + t * np.std(reference, ddof=1) * math.sqrt(1 / models + 1 / m)


def test_p_by_hand():
    # three reference models 1, 2, 3: mean 2, standard deviation 1, t(2) at 95 % is 2.92
    limit = 2 + 2.919986 * math.sqrt(4 / 3)
    assert p_value([limit], [1, 2, 3], side="above") == pytest.approx(0.05, abs=1e-6)
    assert p_value([4 - limit], [1, np.nan, 2, 3], side="below") == pytest.approx(0.05, abs=1e-6)


def test_ranks_by_hand():
    reference = [0.1, 0.2, 0.3, 0.4]
    found = rank_p_values([0.5, 0.4, 0.15, 0.0, np.nan], reference, side="above")
    np.testing.assert_allclose(found, [1 / 5, 2 / 5, 4 / 5, 1, np.nan])  # a tie counts as being as extreme
    np.testing.assert_allclose(rank_p_values([0.0, 0.1, 0.5], reference, side="below"), [1 / 5, 2 / 5, 1])
    np.testing.assert_allclose(rank_p_values([0.5], [np.nan, *reference], side="above"), [1 / 5])
    assert np.isnan(rank_p_values([0.5], [np.nan], side="above")).all()


def test_a_change_of_unit_changes_no_rank():
    rng = np.random.default_rng(1)
    reference, values = rng.normal(size=4), 3 * rng.normal(size=50)
    np.testing.assert_array_equal(
        rank_p_values(values, reference, side="above"), rank_p_values(-7 * values + 2, -7 * reference + 2, side="below")
    )


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "exponential"])
def test_an_exchangeable_model_has_a_small_p_as_seldom_as_it_says(draw):
    pools = getattr(np.random.default_rng(0), draw)(size=(20_000, 20))
    found = np.array([rank_p_values(pool[:1], pool[1:], side="above")[0] for pool in pools])
    for level in (0.05, 0.2):
        assert np.mean(found <= level + 1e-9) == pytest.approx(level, abs=0.006)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([0, 1, 1], 0.5), ([1, 1, 1], 0.0), ([0, 0, 1], 1.0), ([1, 0.5, 1], 1.0), ([1, 1, 0.5], None)],
)
def test_the_detection_threshold_is_the_strength_above_which_nothing_is_missed(shares, expected):
    found = detection_threshold([0.0, 0.5, 1.0], shares)
    assert np.isnan(found) if expected is None else found == expected
    assert found == detection_threshold([1.0, 0.0, 0.5], [shares[2], shares[0], shares[1]]) or expected is None


def test_p_is_the_confidence_at_which_the_limit_meets_the_values():
    reference, values = [1.0, 2.0, 4.0, 4.5], [5.0, 6.5]
    for side in ("above", "below"):
        p = p_value(values, reference, side=side)
        confidence = max(p, 1 - p)
        assert upper_limit(reference, confidence, models=2) == pytest.approx(5.75)
    assert p_value(values, reference, side="above") + p_value(values, reference, side="below") == pytest.approx(1)


def test_p_without_values_or_spread():
    assert np.isnan(p_value([np.nan], [1, 2, 3], side="above"))
    assert np.isnan(p_value([1.0], [2.0], side="above"))
    assert p_value([0.4], [0.3, 0.3], side="above") == 0
    assert p_value([0.3], [0.3, 0.3], side="above") == 1
    assert p_value([0.4], [0.3, 0.3], side="below") == 1


@pytest.mark.slow
def test_p_values_of_unbiased_models_are_uniform_and_holm_keeps_the_family_at_its_level():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(3000, 6, 7))  # audits x metrics x (one model and six reference models)
    p = np.array([[p_value(one[:1], one[1:], side="above") for one in audit] for audit in draws])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p < level) == pytest.approx(level, abs=0.012)
    families = np.mean([(holm(audit) < 0.05).any() for audit in p])
    assert families == pytest.approx(0.05, abs=0.013)


@pytest.mark.parametrize(
    ("shift", "spread", "models"), [(0.0, 1.0, 1), (1.5, 1.0, 1), (2.0, 3.0, 3), (-1.0, 1.0, 5), (1.0, 0.0, 10)]
)
def test_power_is_what_a_simulation_finds(shift, spread, models):
    rng = np.random.default_rng(3)
    reference = rng.normal(size=(20_000, 5))
    audited = (shift + spread * rng.normal(size=(20_000, models))).mean(axis=1)
    factor = upper_limit([0.0, 1.0, 2.0, 3.0, 4.0], models=models) - 2.0
    bounds = reference.mean(axis=1) + factor / np.std(range(5), ddof=1) * reference.std(axis=1, ddof=1)
    found = np.mean(audited > bounds)
    assert detection_power(shift=shift, spread=spread, n_reference=5, models=models) == pytest.approx(found, abs=0.012)


def test_power_at_its_ends():
    assert detection_power(shift=0.0, n_reference=4) == pytest.approx(0.05)
    assert detection_power(shift=[0.0, 0.1, -0.1], spread=0.0, reference_spread=0.0, n_reference=4).tolist() == [
        0,
        1,
        0,
    ]
    assert np.isnan(detection_power(shift=np.nan, n_reference=4))
    assert detection_power(shift=1e9, n_reference=4) == 1
    assert detection_power(shift=-1e9, n_reference=4) == 0
    many = detection_power(shift=np.linspace(0, 8, 30), n_reference=6)
    assert (np.diff(many) > 0).all()


def test_the_detection_threshold_of_a_share():
    assert detection_threshold([0.2, 0.6, 1.0], [0.3, 0.8, 0.9], share=0.8) == 0.6
    assert np.isnan(detection_threshold([0.2, 0.6, 1.0], [0.9, 0.9, 0.7], share=0.8))
    assert np.isnan(detection_threshold([0.2, 1.0], [0.9, np.nan], share=0.8))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rank_p_values([1], [1, 2], side="up"), "side must be one of above, below, not 'up'"),
        (lambda: p_value([1], [1, 2], side="up"), "side must be one of above, below, not 'up'"),
        (
            lambda: detection_power(shift=1.0, n_reference=1),
            "unbiased reference models, must be a number of at least 2, not 1",
        ),
        (lambda: detection_power(shift=1.0, n_reference=3, spread=-1.0), "a spread is a standard deviation"),
    ],
)
def test_wrong_arguments(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call()


def test_the_farthest_metric_by_hand():
    pool = np.array([[9.0, 0.0], [1.0, 5.0], [2.0, np.nan], [3.0, 1.0]])
    found = largest_distances(pool)
    assert found[0] == pytest.approx((9 - 2) / 1)
    assert found[1] == pytest.approx((5 - 0.5) / np.std([0, 1], ddof=1))
    assert largest_distances([[1.0], [1.0], [1.0]]).tolist() == [0, 0, 0]
    assert largest_distances([[2.0], [1.0], [1.0]])[0] == np.inf
    assert largest_distances([[np.nan], [1.0], [1.0]])[0] == -np.inf


def test_a_rank_is_exact_however_metrics_are_distributed():
    rng = np.random.default_rng(1)

    def unbiased():
        common = rng.exponential(size=(20, 1)) ** 3
        pool = np.concatenate([common + rng.normal(size=(20, 3)), rng.standard_cauchy((20, 2))], axis=1)
        return rank_p_value(pool[0], pool[1:])

    p = np.array([unbiased() for _ in range(600)])
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.02)
    assert p.min() == pytest.approx(1 / 20)
    far = rank_p_value([0.0, 50.0], rng.normal(size=(19, 2)))
    assert far == pytest.approx(1 / 20)


def test_the_score_of_an_interval_is_its_width_and_what_it_missed():
    assert winkler(0.1, 0.3, 0.2) == pytest.approx(0.2)
    assert winkler(0.1, 0.3, 0.4) == pytest.approx(0.2 + 40 * 0.1)
    assert winkler([0.0, -1.0], [0.0, 1.0], -0.5).tolist() == pytest.approx([20.0, 2.0])


def test_reference_models_that_are_alike_but_for_rounding_are_alike():
    reference = np.full(29, 0.1) + np.array([0, 1e-17] * 14 + [0])
    assert p_value([0.1], reference, side="above") == 1
    assert p_value([0.2], reference, side="above") == 0
