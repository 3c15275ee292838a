from dataclasses import replace

import numpy as np
import pytest

from biaslib import attribution, metrics, models, training
from biaslib.attribution import METHODS
from biaslib.chapters import planted_models
from biaslib.chapters.planted_maps import Evaluation
from biaslib.chapters.planted_models import Setting
from biaslib.chapters.planted_verdict import (
    LIBRARY,
    likeness,
    likeness_alarms,
    looks,
    mass_and_rank,
    pooled,
    twin_likeness,
)
from biaslib.errors import BiaslibError
from biaslib.statistics.detection import false_positives, prediction_limit

TINY = Setting(images=64, size=32, epochs=1)
FEW = Evaluation(images=8)

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_likeness_is_attention_iou_on_a_common_grid():
    rng = np.random.default_rng(2)
    coarse = rng.random((5, 8, 8)).astype(np.float32)
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2)
    np.testing.assert_allclose(likeness(fine, coarse), 1, atol=1e-6)
    other = rng.random((5, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(likeness(fine, other), metrics.attention_iou(coarse, other), atol=1e-6)
    assert np.isnan(likeness(np.zeros_like(coarse), other)).all()


def test_only_maps_of_the_same_answer_are_compared():
    rng = np.random.default_rng(3)
    maps, theirs = rng.random((2, 4, 8, 8)).astype(np.float32)
    answers = np.array([0, 1, 1, 0])
    found = twin_likeness(maps, answers, [theirs, theirs, theirs], [answers, np.array([0, 0, 1, 1]), 1 - answers])
    each = likeness(maps, theirs)
    np.testing.assert_allclose(found[:2], [each.mean(), each[[0, 2]].mean()])
    assert np.isnan(found[2])


def test_an_odd_twin_does_not_lower_its_own_limit():
    pairs = np.full((4, 4), 0.8)
    pairs[1, 2] = pairs[2, 1] = 0.81
    pairs[0, 1:] = pairs[1:, 0] = [0.7, 0.72, 0.5]
    # by hand: the other three among themselves are 0.805, 0.805 and 0.8, the odd one is 0.64 like them
    assert prediction_limit([0.805, 0.805, 0.8], side="below") > 0.64
    assert likeness_alarms(pairs)[0]
    # left in, its likeness spreads the others' values so far that nothing is odd
    apart = np.where(np.eye(4, dtype=bool), np.nan, pairs)
    assert not false_positives(np.nanmean(apart, axis=1), side="below").any()
    np.testing.assert_array_equal(likeness_alarms(pairs + np.diag([9, 9, np.nan, 9])), likeness_alarms(pairs))
    np.testing.assert_array_equal(likeness_alarms(pairs[::-1, ::-1]), likeness_alarms(pairs)[::-1])
    assert not likeness_alarms(np.full((4, 4), np.nan)).any()


def test_two_twins_that_are_left_have_no_spread():
    with pytest.raises(BiaslibError, match="false alarms of likeness need at least 4 twins, not 3"):
        likeness_alarms(np.ones((3, 3)))


def test_pooling_takes_any_size():
    stack = np.arange(2 * 48 * 48, dtype=np.float32).reshape(2, 48, 48)
    np.testing.assert_allclose(pooled(stack, 16), stack.reshape(2, 16, 3, 16, 3).mean((2, 4)), rtol=1e-6)
    assert pooled(stack, 32).shape == (2, 32, 32)


def test_mass_and_rank_are_means_over_right_answers():
    maps = np.zeros((3, 4, 4), np.float32)
    maps[0, 0, 0] = maps[1, 3, 3] = 1
    masks = np.zeros((2, 4, 4), bool)
    masks[:, 0, 0] = True
    rows = np.array([0, 1])
    assert mass_and_rank(maps, rows, masks, np.array([True, True, True])) == (0.5, 0.5)
    assert mass_and_rank(maps, rows, masks, np.array([True, False, True])) == (1.0, 1.0)
    assert np.isnan(mass_and_rank(maps, rows, masks, np.zeros(3, bool))).all()
    # a map of nothing has no mass anywhere and is left out
    assert mass_and_rank(maps[[0, 2, 2]], rows, masks, np.ones(3, bool)) == (1.0, 1.0)


def test_looks_are_the_methods_maps_with_and_without_the_cue():
    (found,) = looks([TINY], FEW, plain=4)
    assert set(found) == {*LIBRARY, *(f"plain: {name}" for name in METHODS | LIBRARY), "plain truth", "plain answers"}
    model, samples = planted_models.known(TINY), FEW.samples(TINY)
    answers = training.predict(model, samples.images).argmax(axis=1)
    expected = attribution.library_cam("LayerCAM")(model, models.to_tensor(samples.images), answers[:, None])
    np.testing.assert_allclose(found["LayerCAM"], expected[:, 0].numpy(), rtol=1e-5)
    plain = replace(FEW, images=4, strength=None, seed=FEW.seed + 1).samples(TINY)
    assert not plain.labels["ball"].any()
    np.testing.assert_array_equal(found["plain truth"], plain.labels["cat"].to_numpy(int))
    said = training.predict(model, plain.images).argmax(axis=1)
    np.testing.assert_array_equal(found["plain answers"], said)
    by_hand = attribution.grad_cam(model, models.to_tensor(plain.images), said[:, None])[:, 0].numpy()
    np.testing.assert_allclose(found["plain: Grad-CAM"], by_hand, rtol=1e-5)
