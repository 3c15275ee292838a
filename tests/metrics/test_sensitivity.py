import numpy as np
import pandas as pd
import pytest
import torch

from biaslib.errors import BiaslibError
from biaslib.metrics import (
    absolute_score_change,
    causal_effect,
    classification_sensitivity,
    flip_rates,
    score_sensitivity,
)
from biaslib.samples import Samples
from biaslib.worlds.base import World


class Squares(World):
    """A square whose brightness is the shape, on a ground whose brightness is the cue."""

    name = "squares"
    target = "shape"
    cue = "ground"
    attributes = ("shape", "ground")
    regions = ()

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        shape = rng.integers(0, 2, n)
        ground = np.where(rng.random(n) < (1 + strength) / 2, shape, 1 - shape)
        return pd.DataFrame({"shape": shape, "ground": ground, "noise": rng.integers(0, 50, n)})

    def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
        images = np.zeros((len(factors), size, size, 3), np.uint8)
        images += (100 * factors.ground + factors.noise).to_numpy(np.uint8)[:, None, None, None]
        images[:, : size // 2, : size // 2] = (200 * factors["shape"]).to_numpy(np.uint8)[:, None, None, None]
        return Samples(images, factors[["shape", "ground"]])


WORLD = Squares()


def corner(images: np.ndarray) -> np.ndarray:
    """A model that looks at one pixel of the ground."""
    return images[:, -1, -1, 0] / 10.0


def square(images: np.ndarray) -> np.ndarray:
    """A model that looks at the shape alone."""
    return images[:, 0, 0, 0] / 10.0


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_by_hand(strength: float) -> None:
    factors = WORLD.factors(30, strength=strength, seed=0)
    # whatever the correlation in the data: the ground is worth 100 / 10, the shape what it is drawn with
    assert causal_effect(corner, WORLD, factors, cue="ground") == pytest.approx(np.full(30, 10.0))
    assert causal_effect(square, WORLD, factors, cue="ground") == pytest.approx(np.zeros(30))
    assert causal_effect(square, WORLD, factors, cue="shape", size=8) == pytest.approx(np.full(30, 20.0))


def test_equals_a_regression_on_both_worlds() -> None:
    # an interaction: the effect differs from image to image
    def predict(images: np.ndarray) -> np.ndarray:
        return (corner(images) * (1 + square(images))).astype(np.float64)

    factors = WORLD.factors(40, strength=0.3, seed=1)
    effect = causal_effect(predict, WORLD, factors, cue="ground")
    assert effect == pytest.approx(10 * (1 + 20 * factors["shape"].to_numpy()))
    both = pd.concat([factors.assign(ground=1), factors.assign(ground=0)], ignore_index=True)
    slope = np.polyfit(both.ground, predict(WORLD.render(both).images), 1)[0]
    assert effect.mean() == pytest.approx(slope)


def test_the_value_the_cue_has_does_not_matter() -> None:
    factors = WORLD.factors(20, strength=0.0, seed=2)
    before = factors.copy()
    effect = causal_effect(corner, WORLD, factors, cue="ground")
    np.testing.assert_array_equal(causal_effect(corner, WORLD, factors.assign(ground=0), cue="ground"), effect)
    pd.testing.assert_frame_equal(factors, before)


def test_scores_that_are_known_already_are_not_drawn_again() -> None:
    drawn = []

    class Watch(Squares):
        def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
            drawn.append(factors)
            return super().render(factors, size=size)

    def predict(images: np.ndarray) -> np.ndarray:
        return np.stack([corner(images) * (1 + square(images)), corner(images)])

    factors = WORLD.factors(20, strength=0.5, seed=4)
    known = predict(WORLD.render(factors).images)
    found = causal_effect(predict, Watch(), factors, cue="ground", as_drawn=known)
    np.testing.assert_allclose(found, causal_effect(predict, WORLD, factors, cue="ground"))
    (only,) = drawn
    assert (only["ground"] == 1 - factors["ground"]).all()
    assert only["ground"].dtype == factors["ground"].dtype
    with pytest.raises(BiaslibError, match=r"as_drawn must have the scores' shape \(2, 20\), not \(20,\)"):
        causal_effect(predict, WORLD, factors, cue="ground", as_drawn=known[0])


def test_the_column_keeps_its_type() -> None:
    seen = []

    class Watch(Squares):
        def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
            seen.append((factors.ground.dtype, factors.ground.unique().tolist()))
            return super().render(factors, size=size)

    factors = WORLD.factors(5, strength=0.0, seed=0)
    causal_effect(corner, Watch(), factors.astype({"ground": bool}), cue="ground")
    assert seen == [(np.dtype(bool), [True]), (np.dtype(bool), [False])]


def test_scores_keep_their_kind() -> None:
    factors = WORLD.factors(4, strength=0.0, seed=0)
    effect = causal_effect(lambda images: torch.from_numpy(corner(images)), WORLD, factors, cue="ground")
    assert isinstance(effect, torch.Tensor)
    assert effect.tolist() == [10.0] * 4


def test_several_models_share_the_drawn_images() -> None:
    factors = WORLD.factors(4, strength=0.0, seed=0)
    both = causal_effect(lambda images: np.stack([corner(images), 0 * corner(images)]), WORLD, factors, cue="ground")
    assert both.tolist() == [[10.0] * 4, [0.0] * 4]


def test_wrong_input_gets_one_sentence() -> None:
    factors = WORLD.factors(4, strength=0.0, seed=0)
    with pytest.raises(BiaslibError, match="There is no factor 'sky': take one of shape, ground, noise"):
        causal_effect(corner, WORLD, factors, cue="sky")
    with pytest.raises(BiaslibError, match="'noise' is not binary"):
        causal_effect(corner, WORLD, factors, cue="noise")
    with pytest.raises(BiaslibError, match="no rows to draw"):
        causal_effect(corner, WORLD, factors[:0], cue="ground")
    with pytest.raises(BiaslibError, match=r"one score an image, \(\.\.\., 4\), not \(4, 64\)"):
        causal_effect(lambda images: images[:, :, 0, 0], WORLD, factors, cue="ground")


def test_sensitivities_by_hand() -> None:
    before, after = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.6, 0.5, 0.4, 0.9])
    assert score_sensitivity(before, after) == pytest.approx(0.1)
    assert classification_sensitivity(before, after) == pytest.approx(0.25)
    assert flip_rates(before, after) == pytest.approx((1.0, 0.5))
    assert classification_sensitivity(before, after, threshold=0.3) == pytest.approx(0.25)


def test_classification_sensitivity_is_what_the_flips_leave() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.random((2, 5, 200))
    negative = (before < 0.5).mean(axis=1)
    up, down = flip_rates(before, after)
    np.testing.assert_allclose(classification_sensitivity(before, after), negative * up - (1 - negative) * down)


def test_an_absolute_change_does_not_cancel() -> None:
    before, after = np.array([0.2, 0.4, 0.6, np.nan]), np.array([0.6, 0.4, 0.2, 0.9])
    assert absolute_score_change(before, after) == pytest.approx(0.8 / 3)
    assert score_sensitivity(before, after) == pytest.approx(0)
    rng = np.random.default_rng(2)
    scores = rng.random((2, 4, 300))
    assert (absolute_score_change(*scores) >= np.abs(score_sensitivity(*scores))).all()
    np.testing.assert_allclose(absolute_score_change(*scores), absolute_score_change(*scores[::-1]))
    assert np.isnan(absolute_score_change(np.zeros(0), np.zeros(0)))


def test_no_change_and_a_change_back() -> None:
    scores = np.random.default_rng(1).random((2, 50))
    for measure in (score_sensitivity, classification_sensitivity):
        assert measure(scores[0], scores[0]) == 0
        assert measure(scores[0], scores[1]) == pytest.approx(-measure(scores[1], scores[0]))
    assert flip_rates(scores[0], scores[0]) == (0, 0)


def test_directions_broadcast_and_torch_stays_torch() -> None:
    before, after = np.array([0.1, 0.9]), np.array([[0.1, 0.9], [0.9, 0.1]])
    np.testing.assert_allclose(score_sensitivity(before, after), [0, 0], atol=1e-12)
    up, down = flip_rates(torch.from_numpy(before), torch.from_numpy(after))
    assert isinstance(up, torch.Tensor)
    np.testing.assert_allclose(up, [0, 1])
    np.testing.assert_allclose(down, [0, 1])


def test_what_is_not_there_is_undefined() -> None:
    up, down = flip_rates(np.array([0.1, 0.2]), np.array([0.9, 0.2]))
    assert up == 0.5
    assert np.isnan(down)
    assert score_sensitivity(np.array([0.1, np.nan]), np.array([0.2, 0.9])) == pytest.approx(0.1)
    assert np.isnan(score_sensitivity(np.array([np.nan]), np.array([0.5])))
    assert np.isnan(score_sensitivity(np.zeros(0), np.zeros(0)))
    with pytest.raises(BiaslibError, match=r"scores of the same images, \(..., N\), not \(2,\) and \(3,\)"):
        score_sensitivity(np.zeros(2), np.zeros(3))
    with pytest.raises(BiaslibError, match=r"\(2,\) and \(4,\), do not broadcast"):
        flip_rates(np.zeros((2, 3)), np.zeros((4, 3)))
