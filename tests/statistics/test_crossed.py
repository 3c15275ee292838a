import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from biaslib.errors import BiaslibError
from biaslib.statistics import interval, welch
from biaslib.statistics.crossed import components, crossed_interval, crossed_ratio, crossed_welch


def drawn(n_models, n_images, *, of_models=1.0, of_images=1.0, rest=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0, of_models, (n_models, 1))
        + rng.normal(0, of_images, (1, n_images))
        + rng.normal(0, rest, (n_models, n_images))
    )


def test_components_by_hand():
    # additive: nothing is left; the models' means are 1 and 3, the images' 1, 2 and 3
    found = components(np.array([[0.0, 1, 2], [2, 3, 4]]))
    assert (found.models, found.images, found.rest) == (2.0, 1.0, 0.0)
    assert found.n == (2, 3)


def test_components_are_those_of_an_analysis_of_variance():
    values = drawn(4, 30, of_models=1.5, of_images=2.0)
    long = pd.DataFrame(values).melt(ignore_index=False).reset_index()
    table = anova_lm(ols("value ~ C(index) + C(variable)", long).fit())
    mean_square = table["mean_sq"]
    found = components(values)
    assert found.rest == pytest.approx(mean_square["Residual"])
    assert found.models == pytest.approx((mean_square["C(index)"] - mean_square["Residual"]) / 30)
    assert found.images == pytest.approx((mean_square["C(variable)"] - mean_square["Residual"]) / 4)


def test_components_do_not_depend_on_order_or_level_and_leave_out_what_is_missing():
    values = drawn(4, 30)
    found, moved = components(values), components(values[::-1, ::-1] + 7)
    np.testing.assert_allclose((found.models, found.images, found.rest), (moved.models, moved.images, moved.rest))
    holed = np.column_stack([values, np.full(4, np.nan)])
    holed[0, :2] = np.nan
    without = components(values[:, 2:])
    assert (components(holed).models, components(holed).rest) == (without.models, without.rest)
    assert components(holed).left_out == 3
    assert np.isnan(components(values[:1]).models)


@pytest.mark.parametrize("count", [2, 5])
def test_the_crossed_test_is_clarks_quasi_f(count):
    a, b = drawn(count, 20, seed=1) + np.linspace(0, 2, 20), drawn(count, 20, seed=2)
    long = pd.concat(
        [pd.DataFrame(v).melt(ignore_index=False).reset_index().assign(kind=k) for k, v in enumerate((a, b))]
    )
    mean_square = anova_lm(ols("value ~ C(kind) * C(variable) + C(kind):C(index)", long).fit())["mean_sq"]
    quasi = mean_square["C(kind)"] / (
        mean_square["C(kind):C(index)"] + mean_square["C(kind):C(variable)"] - mean_square["Residual"]
    )
    found = crossed_welch(a, b)
    assert found.statistic**2 == pytest.approx(quasi)
    assert found.difference == pytest.approx(a.mean() - b.mean())
    assert found.low < found.difference < found.high
    mirrored = crossed_welch(b, a)
    assert (mirrored.difference, mirrored.p) == pytest.approx((-found.difference, found.p))


def test_where_images_do_not_matter_it_is_welch_over_models():
    rng = np.random.default_rng(3)
    of_models = rng.normal(size=(2, 4, 1))
    a, b = of_models + np.arange(6.0)  # the same images, and no noise
    found, expected = crossed_welch(a, b), welch(of_models[0, :, 0], of_models[1, :, 0])
    assert (found.statistic, found.p, found.low) == pytest.approx((expected.statistic, expected.p, expected.low))
    assert found.n == (4, 4)


def test_it_keeps_its_level_where_a_test_over_images_does_not():
    rng = np.random.default_rng(4)
    alarms = {"crossed": 0, "one model each, over images": 0}
    for _ in range(400):
        images = rng.normal(size=(1, 40))
        a, b = (images + rng.normal(0, 0.5, (3, 1)) + rng.normal(0, 1, (3, 40)) for _ in "ab")
        alarms["crossed"] += crossed_welch(a, b).p < 0.05
        alarms["one model each, over images"] += welch(a[0], b[0]).p < 0.05
    assert alarms["crossed"] <= 32  # 20 expected; 32 is beyond the 99.5 % quantile
    assert alarms["one model each, over images"] > 80


def test_missing_values_are_left_out():
    a, b = drawn(3, 50, seed=5) + 1, drawn(3, 50, seed=6)
    full = crossed_welch(a, b)
    a[0, :5] = np.nan
    holed = crossed_welch(np.vstack([a, np.full(50, np.nan)]), b)
    assert holed.n == (3, 3)
    assert holed.difference == pytest.approx(full.difference, abs=0.2)
    assert holed.p == pytest.approx(full.p, abs=0.15)


def test_too_little_is_undefined_and_wrong_shapes_are_said():
    a = drawn(3, 10)
    assert np.isnan(crossed_welch(a, a[:1]).p)
    assert crossed_welch(a, a[:1] - 1).difference == pytest.approx(a.mean() - a[0].mean() + 1)
    assert np.isnan(crossed_welch(np.ones((3, 5)), np.ones((3, 5))).p)
    assert np.isnan(crossed_welch(np.full((2, 5), np.nan), a[:, :5]).difference)
    with pytest.raises(BiaslibError, match="a has 10 images and b 9"):
        crossed_welch(a, a[:, 1:])
    with pytest.raises(BiaslibError, match="values must be"):
        components(np.ones(3))


def test_a_ratio_by_hand_and_its_scale():
    top, bottom = drawn(6, 40, of_models=0.2) + 4, drawn(6, 60, of_models=0.2, seed=1) + 8
    found = crossed_ratio(top, bottom)
    assert found.estimate == pytest.approx(top.mean() / bottom.mean())
    assert found.low < found.estimate < found.high
    assert found.n == 240
    other = crossed_ratio(10 * top, 5 * bottom)
    np.testing.assert_allclose((other.low, other.high), (2 * found.low, 2 * found.high))
    # nothing varies: nothing is unsure
    flat = crossed_ratio(np.full((3, 4), 1.0), np.full((3, 5), 2.0))
    assert (flat.estimate, flat.low, flat.high) == (0.5, 0.5, 0.5)


def test_a_known_bottom_leaves_the_interval_of_the_top():
    top = drawn(8, 50) + 5
    found, plain = crossed_ratio(top, np.full((8, 3), 2.0)), crossed_interval(top)
    np.testing.assert_allclose((2 * found.low, 2 * found.high), (plain.low, plain.high), rtol=0.02)


def test_models_that_move_both_alike_leave_the_ratio_sure():
    # each model has half of its own effect: that models differ says nothing about the share
    size = np.linspace(1, 3, 10)[:, None]
    alike = crossed_ratio(0.5 * size + np.zeros((10, 4)), size + np.zeros((10, 4)))
    np.testing.assert_allclose((alike.low, alike.high), (0.5, 0.5))


@pytest.mark.slow
def test_the_ratio_is_covered_about_as_often_as_it_says():
    hits = 0
    for seed in range(200):
        top, bottom = drawn(8, 30, of_models=0.3, seed=2 * seed) + 2, drawn(8, 30, of_models=0.3, seed=2 * seed + 1) + 4
        one = crossed_ratio(top, bottom, seed=seed)
        hits += one.low < 0.5 < one.high
    assert 180 <= hits <= 199


def test_a_share_of_nothing_is_undefined():
    found = crossed_ratio(drawn(5, 20) + 3, drawn(5, 20, seed=1))
    assert np.isnan([found.estimate, found.low, found.high]).all()
    assert found.n == 0
    with pytest.raises(BiaslibError, match="same models"):
        crossed_ratio(np.ones((3, 4)), np.ones((2, 4)))
    with pytest.raises(BiaslibError, match="all its values"):
        crossed_ratio(np.full((3, 4), np.nan), np.ones((3, 4)))


def shared_images(rng, models=10, images=100):
    return (
        0.02 * rng.normal(size=(models, 1)) + 0.2 * rng.normal(size=images) + 0.05 * rng.normal(size=(models, images))
    )


def test_interval_over_models_that_share_their_images_covers_the_truth():
    covered = 0
    for seed in range(100):
        found = crossed_interval(shared_images(np.random.default_rng(seed)), seed=seed, resamples=200)
        covered += found.low <= 0 <= found.high
    assert covered / 100 >= 0.88


def test_interval_that_takes_shared_images_for_nested_ones_would_not_cover():
    covered = 0
    for seed in range(100):
        values = shared_images(np.random.default_rng(seed))
        found = interval(values.ravel(), clusters=np.repeat(np.arange(10), 100), seed=seed, resamples=200)
        covered += found.low <= 0 <= found.high
    assert covered / 100 < 0.85


def test_crossed_interval_counts_undefined_values_and_keeps_bounds():
    values = np.array([[0.0, np.nan, 0.2], [0.0, 0.0, 0.1]])
    found = crossed_interval(values, bounds=(0, 1))
    assert found.estimate == pytest.approx(0.06)
    assert (found.low, found.n, found.undefined) == (0, 5, 1)
    assert np.isnan(crossed_interval(np.full((2, 2), np.nan)).estimate)
    assert np.isnan(crossed_interval(np.ones((1, 5))).low)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: crossed_interval([1, 2]), "values must be .models, images."),
        (lambda: crossed_interval(np.ones((2, 2)), confidence=95), "confidence must lie between 0 and 1, not 95"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call()


def test_models_of_two_kinds_are_drawn_within_their_kind():
    # two kinds that differ by 10 and in nothing else: which kind a model is, is no chance
    values = np.repeat([[0.0], [10.0]], 3, axis=0) + np.zeros((6, 5))
    pooled, within = crossed_interval(values), crossed_interval(values, strata=(3, 3))
    assert pooled.high - pooled.low > 5
    assert (within.estimate, within.low, within.high) == (5, 5, 5)
    # one kind is what it was, and with chance inside the kinds the interval is not empty
    noisy = drawn(6, 20)
    assert crossed_interval(noisy, strata=(6,)) == crossed_interval(noisy)
    some = crossed_interval(noisy, strata=(3, 3))
    assert some.low < some.estimate < some.high
    assert np.isnan(crossed_interval(noisy, strata=(5, 1)).low)
    with pytest.raises(BiaslibError, match="strata name 5 models, but values have 6"):
        crossed_interval(noisy, strata=(3, 2))
