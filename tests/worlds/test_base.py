import numpy as np
import pandas as pd
import pytest

from biaslib.errors import BiaslibError
from biaslib.worlds.base import CHOICE, SEED, SHARE, Factor, balanced_bool, check_draw, draw_agreement, validated


@pytest.mark.parametrize(("strength", "expected"), [(0.0, 10), (0.2, 12), (0.9, 19), (1.0, 20)])
def test_agreement_is_exact_in_every_class(strength, expected):
    target = np.repeat([False, True, True], 20)[:40]
    agrees = draw_agreement(target, strength, np.random.default_rng(1))
    assert [agrees[target == value].sum() for value in (False, True)] == [expected, expected]


def test_a_stronger_bias_only_adds_rows_that_agree():
    target = balanced_bool(101, np.random.default_rng(0))
    before = np.zeros(101, bool)
    for strength in np.linspace(0, 1, 21):
        now = draw_agreement(target, strength, np.random.default_rng(3))
        assert not (before & ~now).any()
        before = now
    assert before.all()


def test_halves_are_halves_in_random_order():
    assert balanced_bool(101, np.random.default_rng(0)).sum() == 50
    assert balanced_bool(1, np.random.default_rng(0)).tolist() == [False]
    assert (balanced_bool(100, np.random.default_rng(0)) != balanced_bool(100, np.random.default_rng(1))).any()


@pytest.mark.parametrize("factor", [SHARE, CHOICE, SEED, Factor(-1, 1), Factor(0, 1, drawn=(0.4, 0.6))])
def test_drawn_values_fill_their_range_and_no_more(factor):
    values = factor.draw(4000, np.random.default_rng(0)).astype(float)
    low, high = factor.drawn or (factor.low, factor.high)
    width = high - low
    assert low <= values.min() <= low + 0.01 * width
    assert high - 0.01 * width <= values.max() <= high + 1e-6
    assert values.mean() == pytest.approx((low + high) / 2, abs=0.03 * width)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0, 0.5, 1), "n, the number of rows, must be a whole number of at least 1, not 0"),
        ((2.5, 0.5, 1), "n, the number of rows, must be a whole number"),
        ((5, 1.2, 1), r"strength .* must be a number in \[0, 1\], not 1.2"),
        ((5, -0.1, 1), "strength .* must be a number in"),
        ((5, float("nan"), 1), "strength .* must be a number in"),
        ((5, "high", 1), "strength .* must be a number in .* not 'high'"),
        ((5, 0.5, -1), "seed must be a whole number of at least 0, not -1"),
    ],
)
def test_numbers_no_world_can_draw_from_are_refused(arguments, sentence):
    n, strength, seed = arguments
    with pytest.raises(BiaslibError, match=sentence):
        check_draw(n, strength, seed)


KNOWN = {"a": SHARE, "b": CHOICE}


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"c": [1]}, "lacks the factors a, b: start from"),
        ({"a": [0.5]}, "lacks the factor b: start from"),
        ({"a": [0.5, 1.5], "b": [0, 1]}, r"factor 'a' must be a number in \[0, 1\], but row 1 has .*1.5"),
        ({"a": [np.nan], "b": [0]}, "factor 'a' must be a number in .* row 0 has .*nan"),
        ({"a": [0.5], "b": [0.5]}, r"factor 'b' must be a whole number in \[0, 1\], but row 0"),
        ({"a": ["much"], "b": [0]}, "factor 'a' must hold numbers, not object"),
    ],
)
def test_a_wrong_table_is_refused_with_the_factor_named(table, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        validated(pd.DataFrame(table), KNOWN)


def test_a_right_table_is_read_whatever_number_types_it_holds():
    columns = validated(pd.DataFrame({"b": [True, False], "a": [0, 1], "note": ["x", "y"]}), KNOWN)
    assert {name: values.tolist() for name, values in columns.items()} == {"a": [0.0, 1.0], "b": [1, 0]}
