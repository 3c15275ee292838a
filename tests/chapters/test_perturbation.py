"""What models with a planted bias answer when images change."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from biaslib import metrics, recipes, training
from biaslib.attribution import METHODS
from biaslib.chapters.perturbation import (
    _ORDERS,
    CUE,
    OBJECT,
    RANDOM,
    Destruction,
    _exchanged,
    cue_logits,
    curves,
    exchanges,
)
from biaslib.chapters.planted_models import USE_CASES, EvaluationImages, PlantedSetup
from biaslib.errors import BiaslibError
from biaslib.metrics import causal_effect
from biaslib.recipes import Drawn

TINY = PlantedSetup(images=64, size=32, epochs=1)
FEW = EvaluationImages(images=20)
SHORT = Destruction(images=8, steps=6, region=4)

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_curves_are_those_of_the_metric_for_correct_answers_alone(use_case):
    setting, case = replace(TINY, use_case=use_case), USE_CASES[use_case]
    (found,) = curves([setting], FEW, SHORT)
    samples, model = FEW.samples(setting), recipes.load(setting.recipe)
    truth = samples.labels[case.world.target].to_numpy(int)
    rows = [*np.flatnonzero(truth == case.favoured)[:8], *np.flatnonzero(truth != case.favoured)[:8]]
    np.testing.assert_array_equal(found.favoured, truth[rows] == case.favoured)
    logits = training.predict(model, samples.images[rows])
    correct = logits.argmax(axis=1) == truth[rows]
    assert set(found.orders) == set(_ORDERS) == {*METHODS, RANDOM, OBJECT, CUE}
    for order, values in found.orders.items():
        there = correct & found.favoured if order == CUE else correct
        assert values.shape == (len(rows), 7)
        np.testing.assert_array_equal(np.isnan(values).any(axis=1), ~there, err_msg=order)
        own = softmax(logits, axis=1)[np.arange(len(rows)), truth[rows]]
        np.testing.assert_allclose(values[there, 0], own[there], atol=1e-5)
    right = np.flatnonzero(correct)
    assert 0 < len(right) < len(rows)
    expected = metrics.perturbation_curves(
        lambda images: softmax(training.predict(model, images), axis=1), samples.images[rows][right],
        np.asarray(samples.masks[case.world.regions[0]])[rows][right], truth[rows][right],
        steps=6, region=4, value_range=(0, 255),
    )  # fmt: skip
    np.testing.assert_allclose(found.orders[OBJECT][right], expected, atol=1e-5)


def test_every_choice_changes_the_curves():
    (plain,) = curves([TINY], FEW, SHORT)
    for change in ({"noise": (0, 0)}, {"seed": 1}, {"region": 5}):
        (other,) = curves([TINY], FEW, replace(SHORT, **change))
        assert not np.allclose(plain.orders[RANDOM], other.orders[RANDOM], equal_nan=True), change
    with pytest.raises(BiaslibError, match="images must be at least 1"):
        Destruction(images=0)


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_an_exchange_changes_one_part_and_nothing_else(use_case):
    setting, world = replace(TINY, use_case=use_case), USE_CASES[use_case].world
    for strength in (1.0, None):
        images = _exchanged(setting, replace(FEW, strength=strength))
        labels = {name: samples.labels for name, samples in images.items()}
        np.testing.assert_array_equal(
            images["original"].images, replace(FEW, strength=strength).samples(setting).images
        )
        target, cue = world.target, world.cue
        assert (labels["other_object"][target] != labels["original"][target]).all()
        np.testing.assert_array_equal(labels["other_object"][cue], labels["original"][cue])
        assert (labels["other_cue"][cue] != labels["original"][cue]).all()
        np.testing.assert_array_equal(labels["other_cue"][target], labels["original"][target])


def test_falls_are_differences_of_the_true_classs_probability():
    (found,) = exchanges([TINY], FEW, SHORT)
    model, images = recipes.load(TINY.recipe), _exchanged(TINY, FEW)
    rows, truth = np.arange(20), images["original"].labels["cat"].to_numpy(int)
    chance = {
        name: softmax(training.predict(model, samples.images), axis=1)[rows, truth] for name, samples in images.items()
    }
    right = training.predict(model, images["original"].images).argmax(axis=1) == truth
    assert 0 < right.sum() < 20
    np.testing.assert_array_equal(found.favoured, truth == 1)
    for part, name in (("object", "other_object"), ("cue", "other_cue")):
        np.testing.assert_allclose(getattr(found, part)[right], (chance["original"] - chance[name])[right], atol=1e-6)
        assert np.isnan(getattr(found, part)[~right]).all()
    assert found.noise.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.everything[right], (chance["original"] - found.noise[truth])[right], atol=1e-6)


def test_everything_is_the_destructions_noise():
    model = recipes.load(TINY.recipe)
    (black,) = exchanges([TINY], FEW, replace(SHORT, noise=(0, 0)))
    expected = softmax(training.predict(model, np.zeros((1, 32, 32, 3), np.uint8)), axis=1)[0]
    np.testing.assert_allclose(black.noise, expected, atol=1e-6)


@pytest.mark.parametrize("steps", [3, 6])
def test_what_is_left_without_the_cue_is_read_where_its_last_tile_is_destroyed(steps):
    (found,) = curves([replace(TINY, seed=3)], FEW, replace(SHORT, steps=steps))
    samples = FEW.samples(TINY)
    cat = samples.labels["cat"].to_numpy(bool)
    rows = [*np.flatnonzero(cat)[:8], *np.flatnonzero(~cat)[:8]]
    masks = np.asarray(samples.masks["ball"])[rows] & samples.labels["ball"].to_numpy(bool)[rows, None, None]
    touched = masks.reshape(len(rows), 8, 4, 8, 4).any((2, 4)).sum((1, 2))
    values = found.orders[CUE]
    expected = [line[0] - line[n] if n <= steps else np.nan for line, n in zip(values, touched, strict=True)]
    assert np.isfinite(expected).any() or steps < touched.max()
    np.testing.assert_allclose(found.without_cue, expected)


def test_of_photos_the_cue_alone_is_exchanged(monkeypatch):
    world = USE_CASES["pets"].world
    monkeypatch.setitem(recipes._PHOTOS, "pets", (lambda split: world, (), ()))
    monkeypatch.setattr(Drawn, "fingerprint", lambda _: "")
    monkeypatch.setattr(type(world), "__len__", lambda _: 12, raising=False)
    recipes._photos.cache_clear()
    setting = replace(TINY, source="photos")
    images = _exchanged(setting, FEW)
    assert set(images) == {"original", "other_cue"}
    cue = {name: samples.labels["ball"].to_numpy(bool) for name, samples in images.items()}
    np.testing.assert_array_equal(cue["original"], ~cue["other_cue"])
    assert len(images["original"]) == 12
    (found,) = exchanges([setting], FEW, SHORT)
    assert np.isnan(found.object).all()
    assert np.isfinite(found.cue).any()
    assert np.isfinite(found.everything).any()
    recipes._photos.cache_clear()


def test_images_that_score_cam_does_not_explain_have_no_curve_for_it():
    (found,), (every,) = (curves([TINY], replace(FEW, score_cam=part), SHORT) for part in (5, None))
    explained = np.isfinite(found.orders["Score-CAM"]).all(axis=1)
    assert 0 < explained.sum() < np.isfinite(every.orders["Score-CAM"]).all(axis=1).sum()
    np.testing.assert_array_equal(found.orders["Score-CAM"][explained], every.orders["Score-CAM"][explained])
    np.testing.assert_array_equal(found.orders["Grad-CAM"], every.orders["Grad-CAM"])


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_answers_with_and_without_the_cue_are_the_causal_effect_and_every_test_set(use_case):
    case, setting = USE_CASES[use_case], replace(TINY, use_case=use_case)
    (found,) = cue_logits([setting], images=24, seed=77)
    model = recipes.load(setting.recipe)
    factors = case.world.factors(24, strength=0.5, seed=77)
    effect = causal_effect(
        lambda images: softmax(training.predict(model, images), axis=1)[:, case.favoured],
        case.world, factors, cue=case.world.cue, size=32,
    )  # fmt: skip
    np.testing.assert_allclose(found.effect, effect, atol=1e-6)
    for strength in (None, 0.5, 1.0):
        test = setting.data("test", 24, strength=strength, seed=77).samples()
        expected = training.predict(model, test.images).argmax(axis=1) == test.labels[case.world.target].to_numpy(int)
        np.testing.assert_array_equal(found.correct(strength), expected)
