import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from biaslib.errors import BiaslibError
from biaslib.metrics.groups import matthews_correlation, matthews_from_counts


def test_by_hand():
    # n11 = 2, n10 = 1, n01 = 1, n00 = 2: (2 * 2 - 1 * 1) / 9
    assert matthews_correlation([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]) == pytest.approx(1 / 3)


def test_equals_scikit_learn_for_every_model_and_attribute():
    rng = np.random.default_rng(0)
    group = rng.random((5, 1, 300)) < 0.4
    values = (rng.random((5, 7, 300)) < 0.3) | (group & (rng.random((5, 7, 300)) < 0.5))
    ours = matthews_correlation(values, group)
    assert ours.shape == (5, 7)
    for model in range(5):
        for attribute in range(7):
            theirs = matthews_corrcoef(values[model, attribute], group[model, 0])
            assert ours[model, attribute] == pytest.approx(theirs, abs=1e-12)


def test_signs_and_symmetry():
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 200)) < 0.5
    assert matthews_correlation(a, a) == pytest.approx(1)
    assert matthews_correlation(a, ~a) == pytest.approx(-1)
    assert matthews_correlation(a, b) == pytest.approx(matthews_correlation(b, a))
    assert matthews_correlation(~a, b) == pytest.approx(-matthews_correlation(a, b))


def test_constant_attribute_is_undefined_and_not_zero():
    assert np.isnan(matthews_correlation([1, 1, 1], [0, 1, 1]))
    assert np.isnan(matthews_correlation(np.zeros((2, 4)), [0, 1, 0, 1])).all()


def test_weighted_counts_equal_repeated_rows():
    a, b = np.array([1, 0, 1, 0, 1]), np.array([1, 1, 0, 0, 1])
    weights = np.array([3, 1, 2, 4, 0])
    repeated = matthews_correlation(np.repeat(a, weights), np.repeat(b, weights))
    counted = matthews_from_counts(
        both=(weights * a * b).sum(), a=(weights * a).sum(), b=(weights * b).sum(), n=weights.sum()
    )
    assert counted == pytest.approx(repeated)


def test_wrong_input_is_named():
    with pytest.raises(BiaslibError, match="a has 3 values and b 2"):
        matthews_correlation([0, 1, 1], [0, 1])
    with pytest.raises(BiaslibError, match="b must hold 0 and 1 only"):
        matthews_correlation([0, 1], [0.2, 0.7])
