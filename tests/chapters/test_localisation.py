"""Maps of models with a planted bias, what they lie on, and how like each other they are."""

from dataclasses import replace

import numpy as np
import pytest

from biaslib import attribution, metrics, models, training
from biaslib.chapters import localisation, planted_models
from biaslib.chapters.localisation import (
    LIBRARY,
    METHODS,
    TOOLBOX,
    EvaluationImages,
    Outline,
    further_maps,
    likeness,
    likeness_false_positives,
    maps,
    mass_and_rank,
    pooled,
    reference_likeness,
    regions,
)
from biaslib.chapters.planted_models import USE_CASES, Setting
from biaslib.errors import BiaslibError
from biaslib.statistics.detection import false_alarms, limit

TINY = Setting(images=64, size=32, epochs=1)
FEW = EvaluationImages(images=10)

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
    found = reference_likeness(maps, answers, [theirs, theirs, theirs], [answers, np.array([0, 0, 1, 1]), 1 - answers])
    each = likeness(maps, theirs)
    np.testing.assert_allclose(found[:2], [each.mean(), each[[0, 2]].mean()])
    assert np.isnan(found[2])


def test_an_odd_twin_does_not_lower_its_own_limit():
    pairs = np.full((4, 4), 0.8)
    pairs[1, 2] = pairs[2, 1] = 0.81
    pairs[0, 1:] = pairs[1:, 0] = [0.7, 0.72, 0.5]
    # by hand: the other three among themselves are 0.805, 0.805 and 0.8, the odd one is 0.64 like them
    assert limit([0.805, 0.805, 0.8], side="below") > 0.64
    assert likeness_false_positives(pairs)[0]
    # left in, its likeness spreads the others' values so far that nothing is odd
    apart = np.where(np.eye(4, dtype=bool), np.nan, pairs)
    assert not false_alarms(np.nanmean(apart, axis=1), side="below").any()
    np.testing.assert_array_equal(
        likeness_false_positives(pairs + np.diag([9, 9, np.nan, 9])), likeness_false_positives(pairs)
    )
    np.testing.assert_array_equal(likeness_false_positives(pairs[::-1, ::-1]), likeness_false_positives(pairs)[::-1])
    assert not likeness_false_positives(np.full((4, 4), np.nan)).any()


def test_two_twins_that_are_left_have_no_spread():
    with pytest.raises(BiaslibError, match="false alarms of likeness need at least 4 twins, not 3"):
        likeness_false_positives(np.ones((3, 3)))


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


def test_further_maps_are_the_methods_maps_with_and_without_the_cue():
    (found,) = further_maps([TINY], FEW, plain=4)
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


def test_maps_are_those_of_the_methods_for_the_explained_class():
    (found,) = maps([TINY], FEW)
    model, samples = planted_models.known(TINY), FEW.samples(TINY)
    np.testing.assert_array_equal(found["explained"], found["logits"].argmax(axis=1))
    np.testing.assert_array_equal(found["truth"], samples.labels["cat"].to_numpy(int))
    pixels, targets = models.to_tensor(samples.images), found["explained"][:, None]
    expected = attribution.integrated_gradients(model, pixels, targets, steps=64)[:, 0].numpy()
    np.testing.assert_allclose(found["Integrated gradients"], expected, rtol=1e-5)
    toolbox = attribution.epsilon_lrp(model, pixels, targets, eps=10.0, rule="toolbox", scaled=True)[:, 0].numpy()
    np.testing.assert_allclose(found[TOOLBOX], toolbox, rtol=1e-5)
    assert set(localisation._WITH_TOOLBOX) == {*METHODS, TOOLBOX}
    (true,) = maps([TINY], replace(FEW, explained="true"))
    np.testing.assert_array_equal(true["explained"], true["truth"])


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_a_map_that_is_the_object_scores_one_and_a_flat_one_the_objects_area(use_case, monkeypatch):
    case, outline = USE_CASES[use_case], Outline(boxes=False, extension=0.0)
    samples = FEW.samples(replace(TINY, use_case=use_case))
    truth = samples.labels[case.world.target].to_numpy(int)
    region = next(region for region, number in case.objects.values() if number == case.favoured)
    made = {name: np.ones((10, 4, 4), np.float32) for name in localisation._WITH_TOOLBOX}
    made["Integrated gradients"] = np.asarray(samples.masks[region]).astype(np.float32)
    made["Score-CAM"] = np.zeros((10, 4, 4), np.float32)
    found = {**made, "logits": np.eye(len(case.classes))[truth], "truth": truth, "explained": truth}
    monkeypatch.setattr(localisation.parallel, "stored", lambda *_: [found])
    table = localisation._scores((replace(TINY, use_case=use_case), FEW, outline)).set_index("method")
    exact = table.loc["Integrated gradients"]
    on_it = exact[exact["object"].map({name: case.objects[name][0] == region for name in case.objects})]
    np.testing.assert_allclose(on_it[["rma", "rra"]], 1)
    flat = table.loc["Grad-CAM"]
    np.testing.assert_allclose(flat["rma"], flat["area"], rtol=1e-5)
    np.testing.assert_allclose(flat["rra"], flat["area"], rtol=1e-5)
    assert table.loc["Score-CAM", ["rma", "rra"]].isna().all(axis=None)
    assert table["correct"].all()
    assert set(table["object"]) == set(case.objects)


def test_objects_are_boxed_and_extended_as_asked():
    samples = planted_models.pictures("pets", 30, strength=1.0, size=32, seed=1)
    plain = regions("pets", samples, Outline(boxes=False, extension=0.0))
    boxed = regions("pets", samples, Outline())
    cats = np.flatnonzero(samples.labels["cat"])
    np.testing.assert_array_equal(boxed["Cat"][0], cats)
    np.testing.assert_array_equal(boxed["Ball"][0], cats)
    np.testing.assert_array_equal(plain["Ball"][1], samples.masks["ball"][cats])
    for mask, box in zip(plain["Cat"][1], boxed["Cat"][1], strict=True):
        down, across = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert box[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        assert box.sum() == (np.ptp(down) + 1) * (np.ptp(across) + 1)
    unextended = regions("pets", samples, Outline(extension=0.0))
    np.testing.assert_allclose(boxed["Ball"][1].sum((1, 2)), 1.5 * unextended["Ball"][1].sum((1, 2)), atol=0.5)
    np.testing.assert_array_equal(boxed["Cat"][1], unextended["Cat"][1])
    fruits = planted_models.pictures("fruits", 10, strength=1.0, size=32, seed=1)
    outlined = regions("fruits", fruits, Outline(extension=0.0))
    np.testing.assert_array_equal(outlined["Apple"][1], fruits.masks["fruit"][fruits.labels["fruit"] == 0])


def test_coarse_maps_are_enlarged_bilinearly_or_as_cells():
    coarse = np.array([[[0.0, 1.0], [0.0, 1.0]]], np.float32)
    np.testing.assert_array_equal(localisation._enlarged(coarse, (4, 4), cells=True)[0, 0], [0, 0, 1, 1])
    np.testing.assert_allclose(localisation._enlarged(coarse, (4, 4), cells=False)[0, 0], [0, 0.25, 0.75, 1])


def test_the_predicted_or_the_true_class_is_explained():
    with pytest.raises(BiaslibError, match="explained must be predicted or true"):
        EvaluationImages(explained="both")
