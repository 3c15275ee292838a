import numpy as np
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from biaslib.errors import BiaslibError
from biaslib.statistics.power import share_p_values
from biaslib.statistics.proportions import compare_shares


def bools(hits: int, n: int) -> np.ndarray:
    return np.arange(n) < hits


@pytest.mark.parametrize(("a", "b"), [((56, 70), (48, 80)), ((9, 10), (3, 10)), ((10, 10), (0, 20)), ((0, 10), (0, 7))])
def test_the_interval_is_newcombes(a, b):
    found = compare_shares(bools(*a), bools(*b))
    low, high = confint_proportions_2indep(*a, *b, method="newcomb")
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.difference == pytest.approx(a[0] / a[1] - b[0] / b[1])
    assert found.p == share_p_values(a[0], a[1], b[0], b[1])
    assert found.n == (a[1], b[1])


def test_by_hand():
    # Newcombe 1998, table II, example (a): 56/70 - 48/80, method 10
    found = compare_shares(bools(56, 70), bools(48, 80))
    assert (round(found.difference, 4), round(found.low, 4), round(found.high, 4)) == (0.2, 0.0524, 0.3339)


def test_always_right_against_never_right_is_a_difference_and_the_sign_turns_with_the_sides():
    found = compare_shares(bools(20, 20), bools(0, 20))
    assert found.p < 1e-8
    assert found.effect_size == pytest.approx(np.pi)
    turned = compare_shares(bools(0, 20), bools(20, 20))
    assert (turned.difference, turned.low, turned.high) == (-found.difference, -found.high, -found.low)


def test_no_images_is_undefined_and_other_values_are_refused():
    assert np.isnan(compare_shares(bools(0, 0), bools(1, 2)).difference)
    with pytest.raises(BiaslibError, match="must be bool"):
        compare_shares(np.array([0.5]), bools(1, 2))
    with pytest.raises(BiaslibError, match="confidence"):
        compare_shares(bools(1, 2), bools(1, 2), confidence=95)
