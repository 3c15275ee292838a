"""Models with a planted bias, what their maps lie on, and how like each other the maps are."""

from dataclasses import replace

import numpy as np
import pytest

from biaslib import attribution, metrics, models, recipes, training
from biaslib.attribution import METHODS
from biaslib.chapters import planted_models
from biaslib.chapters.perturbation import cue_logits
from biaslib.chapters.planted_models import (
    LIBRARY,
    TOOLBOX,
    USE_CASES,
    EvaluationImages,
    PlantedSetup,
    likeness,
    maps,
    mass_and_rank,
    planned,
    pooled,
    regions,
)
from biaslib.chapters.relevance import scores
from biaslib.errors import BiaslibError
from biaslib.recipes import Drawn
from biaslib.store import fingerprint
from tests.of_pages import functions

TINY = PlantedSetup(images=64, size=32, epochs=1)
FEW = EvaluationImages(images=10)

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")


def pictures(use_case, images, *, strength, seed):
    return replace(TINY, use_case=use_case).data("train", images, strength=strength, seed=seed).with_masks()


def test_one_setting_one_model_and_each_field_that_makes_another():
    again, other = recipes.load_many([TINY.recipe, replace(TINY, seed=1).recipe])
    image = pictures("pets", 4, strength=0.0, seed=5).images
    np.testing.assert_array_equal(training.predict(recipes.load(TINY.recipe), image), training.predict(again, image))
    assert (training.predict(again, image) != training.predict(other, image)).any()
    assert not again.training


def test_the_grid_runs_over_strengths_and_seeds():
    settings = planted_models.grid(TINY, strengths=(0.0, 1.0), count=2)
    assert [(one.strength, one.seed) for one in settings] == [(0.0, 0), (0.0, 1), (1.0, 0), (1.0, 1)]
    (later,) = planted_models.grid(replace(TINY, seed=7), strengths=(None,), count=1)
    assert later == replace(TINY, strength=None, seed=7)


def test_every_architecture_has_its_own_start():
    options = {"references": ["paper"], "models": 2, "source": "photos"}
    architectures = ["small", "small_mobilenet"]
    found = planted_models.biased_and_unbiased(
        ["pets", "fruits"], [8, 9], [1, 2], architectures=architectures, weights=["", "w"], frozen=[0, 3], **options
    )
    assert len(set(found)) == 16
    assert {(one.architecture, one.weights, one.frozen) for one in found} == {
        ("small", None, 0),
        ("small_mobilenet", "w", 3),
    }
    assert {(one.use_case, one.strength, one.images) for one in found} == {
        ("pets", 1.0, 8),
        ("pets", None, 8),
        ("fruits", 1.0, 9),
        ("fruits", 0.0, 9),
    }
    both = {**options, "references": ["paper", "random"]}
    more = planted_models.biased_and_unbiased(["pets", "fruits"], [8, 9], [1, 2], architectures=architectures, **both)
    assert [one.strength for one in more[:6]] == [1.0, 1.0, None, None, 0.0, 0.0]
    assert len(set(more)) == len(more) == 20  # of fruits both references are the same
    with pytest.raises(BiaslibError, match="a reference is random or paper"):
        planted_models.biased_and_unbiased(["pets"], [8], [1], architectures=[], references=["none"], models=2)
    with pytest.raises(BiaslibError, match="every one of architectures has its weights"):
        planted_models.biased_and_unbiased(["pets"], [8], [1], architectures=architectures, frozen=[1], **options)


def test_score_cam_can_explain_fewer_images():
    (found,) = maps([TINY], replace(FEW, score_cam=2))
    (every,) = maps([TINY], FEW)
    assert np.isfinite(found["Score-CAM"][:2]).all()
    assert np.isnan(found["Score-CAM"][2:]).all()
    np.testing.assert_array_equal(found["Grad-CAM"], every["Grad-CAM"])
    table = scores([TINY], replace(FEW, score_cam=2), None)
    part = table[table["method"] == "Score-CAM"]
    assert part["rma"].notna().equals(part["image"] < 2)


def test_an_epoch_can_be_chosen_by_images_of_its_own(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        recipes.training, "fit_with_criterion",
        lambda samples, targets, config, *, objective, validation: seen.update(config=config, validation=validation)
        or (models.build("small", 2), models.build("small", 2)),
    )  # fmt: skip
    recipes.train.compute(replace(TINY, validation=8).recipe)
    assert seen["config"].keep == "best"
    chosen_by, targets = seen["validation"]
    assert len(chosen_by) == len(targets) == 8
    training_images = pictures("pets", 64, strength=1.0, seed=0).images
    assert not any((chosen_by.images == image).all((1, 2, 3)).any() for image in training_images)
    recipes.train.compute(TINY.recipe)
    assert (seen["config"].keep, seen["validation"]) == ("last", None)


def test_photos_are_drawn_by_the_world_of_their_split(monkeypatch):
    asked = []
    monkeypatch.setitem(recipes._PHOTOS, "pets", (lambda split: asked.append(split) or USE_CASES["pets"].world, (), ()))
    monkeypatch.setattr(Drawn, "fingerprint", lambda _: "")
    recipes._photos.cache_clear()
    setting = replace(TINY, source="photos")
    recipes.load(setting.recipe)
    cue_logits([setting], images=8)
    assert asked == ["train", "test"]


def test_other_photos_or_weights_are_another_model(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    seen = []
    for folder in ("oxford-iiit-pet/images", "weights"):
        (tmp_path / folder).mkdir(parents=True)
    for content in (b"", b"a", b"ab"):
        (tmp_path / "oxford-iiit-pet/images/one.jpg").write_bytes(content)
        seen.append(fingerprint.of_value(replace(TINY, source="photos")))
    (tmp_path / "weights/w.pt").write_bytes(b"w")
    seen.append(fingerprint.of_value(replace(TINY, source="photos", weights="weights/w.pt")))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_images_have_the_cue_where_their_strength_puts_it(use_case):
    case = USE_CASES[use_case]
    drawn = {strength: pictures(use_case, 40, strength=strength, seed=3).labels for strength in (None, 0.0, 1.0)}
    favoured = drawn[1.0][case.world.target].to_numpy(int) == case.favoured
    np.testing.assert_array_equal(drawn[1.0][case.world.cue], favoured)
    assert not drawn[None][case.world.cue].any()
    assert drawn[0.0][case.world.cue].mean() == pytest.approx(0.5, abs=0.05)
    for table in drawn.values():
        np.testing.assert_array_equal(table[case.world.target], drawn[None][case.world.target])


def test_what_cannot_be_is_said():
    with pytest.raises(BiaslibError, match="use_case must be pets or fruits, not 'birds'"):
        PlantedSetup(use_case="birds")
    with pytest.raises(BiaslibError, match="source must be generated or photos"):
        PlantedSetup(source="drawings")
    with pytest.raises(BiaslibError, match="seed must be below 10,000"):
        PlantedSetup(seed=10_000)


def test_likeness_is_attention_iou_on_a_common_grid():
    rng, same = np.random.default_rng(2), np.zeros((3, 5))
    coarse, other = rng.random((2, 5, 8, 8)).astype(np.float32)
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2)
    found = likeness([fine, coarse, other], same)
    expected = metrics.attention_iou(coarse, other).mean()
    np.testing.assert_allclose(found[0], [1, 1, expected], atol=1e-6)
    np.testing.assert_allclose(found, found.T)
    assert np.isnan(likeness([np.zeros_like(coarse), other], same[:2])[0]).all()


def test_only_maps_of_the_same_answer_are_compared():
    maps, theirs = np.random.default_rng(3).random((2, 4, 8, 8)).astype(np.float32)
    answers = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]])
    found = likeness([maps, theirs, theirs], answers)
    np.testing.assert_allclose(found[0, 1], metrics.attention_iou(maps, theirs)[[0, 2]].mean(), rtol=1e-5)
    assert np.isnan(found[0, 2])


@pytest.fixture(scope="module")
def likeness_p_values():
    """The page's own."""
    return functions("attribution_verdict")["likeness_p_values"]


def test_an_odd_model_is_ranked_in_a_pool_with_the_reference_models(likeness_p_values):
    pairs = np.full((6, 6), 0.8)
    pairs[1, 2] = pairs[2, 1] = 0.81
    pairs[4] = pairs[:, 4] = 0.5
    # by hand: in its pool the model is 0.5 like the four others, and these are 0.725 or more
    np.testing.assert_allclose(likeness_p_values(pairs, 4), [1 / 5, 3 / 5])
    np.testing.assert_allclose(likeness_p_values(pairs + np.diag([9, 9, np.nan, 9, 1, 1]), 4), [1 / 5, 3 / 5])
    assert np.isnan(likeness_p_values(np.full((5, 5), np.nan), 4)).all()


def test_an_unbiased_model_is_as_often_the_odd_one_as_any_other(likeness_p_values):
    rng, found = np.random.default_rng(4), []
    for _ in range(3000):  # likeness falls with the distance of what the models look at
        looks = rng.standard_cauchy(10)
        found.append(likeness_p_values(1 / (1 + abs(looks[:, None] - looks)), 9)[0])
    assert np.mean(np.array(found) <= 0.1) == pytest.approx(0.1, abs=0.015)


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
    (found,) = planned([TINY], FEW, 4)[1].results()
    assert set(found) == {*LIBRARY, *(f"plain: {name}" for name in METHODS | LIBRARY), "plain truth", "plain answers"}
    model, samples = recipes.load(TINY.recipe), FEW.samples(TINY)
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
    model, samples = recipes.load(TINY.recipe), FEW.samples(TINY)
    np.testing.assert_array_equal(found["explained"], found["logits"].argmax(axis=1))
    np.testing.assert_array_equal(found["truth"], samples.labels["cat"].to_numpy(int))
    pixels, targets = models.to_tensor(samples.images), found["explained"][:, None]
    expected = attribution.integrated_gradients(model, pixels, targets, steps=64)[:, 0].numpy()
    np.testing.assert_allclose(found["Integrated gradients"], expected, rtol=1e-5)
    toolbox = attribution.epsilon_lrp(model, pixels, targets, eps=10.0, rule="toolbox", scaled=True)[:, 0].numpy()
    np.testing.assert_allclose(found[TOOLBOX], toolbox, rtol=1e-5)
    assert set(planted_models.WITH_TOOLBOX) == {*METHODS, TOOLBOX}


def test_objects_are_boxed_as_asked_and_small_ones_extended_by_half():
    samples = pictures("pets", 30, strength=1.0, seed=1)
    plain, boxed = regions("pets", samples, boxes=False), regions("pets", samples)
    cats = np.flatnonzero(samples.labels["cat"])
    np.testing.assert_array_equal(boxed["Cat"][0], cats)
    np.testing.assert_array_equal(boxed["Ball"][0], cats)
    np.testing.assert_array_equal(plain["Cat"][1], samples.masks["animal"][cats])
    balls = np.asarray(samples.masks["ball"])[cats]
    assert (plain["Ball"][1] | ~balls).all()
    np.testing.assert_allclose(plain["Ball"][1].sum((1, 2)), 1.5 * balls.sum((1, 2)), atol=0.5)
    for mask, box in zip(plain["Cat"][1], boxed["Cat"][1], strict=True):
        down, across = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert box[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        assert box.sum() == (np.ptp(down) + 1) * (np.ptp(across) + 1)
    fruits = pictures("fruits", 10, strength=1.0, seed=1)
    apples = np.asarray(fruits.masks["fruit"])[fruits.labels["fruit"] == 0]
    outlined = regions("fruits", fruits)["Apple"][1]
    assert (outlined | ~apples).all()
    np.testing.assert_allclose(outlined.sum((1, 2)), 1.5 * apples.sum((1, 2)), atol=0.5)
