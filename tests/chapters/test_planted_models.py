from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from biaslib import attribution, models, recipes, training
from biaslib.attribution import METHODS
from biaslib.chapters import planted_maps, planted_models, planted_scores
from biaslib.chapters.planted_maps import ALL_METHODS, TOOLBOX, Evaluation
from biaslib.chapters.planted_models import USE_CASES, Setting
from biaslib.chapters.planted_scores import Outline
from biaslib.errors import BiaslibError
from biaslib.metrics import causal_effect
from biaslib.recipes import Drawn
from biaslib.store import fingerprint, parallel

TINY = Setting(images=64, size=32, epochs=1)
FEW = Evaluation(images=10)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """A process of its own for each of a few tiny models would take longer than the models."""

    @contextmanager
    def here(scheduler=None):
        with ThreadPoolExecutor(1) as executor:
            yield executor, 1

    monkeypatch.setattr(parallel, "workers", here)


def test_one_setting_one_model_and_each_field_that_makes_another():
    again, other = planted_models.trained([TINY, replace(TINY, seed=1)])
    image = planted_models.pictures("pets", 4, strength=0.0, size=32, seed=5).images
    np.testing.assert_array_equal(training.predict(planted_models.known(TINY), image), training.predict(again, image))
    assert (training.predict(again, image) != training.predict(other, image)).any()
    assert not again.training


def test_the_grid_runs_over_architectures_strengths_and_seeds():
    settings = planted_models.grid(TINY, architectures=("small", "small_mobilenet"), strengths=(0.0, 1.0), count=2)
    found = [(one.architecture, one.strength, one.seed) for one in settings]
    assert found[:3] == [("small", 0.0, 0), ("small", 0.0, 1), ("small", 1.0, 0)]
    assert found[-1] == ("small_mobilenet", 1.0, 1)
    assert len(set(settings)) == 8
    (later,) = planted_models.grid(replace(TINY, seed=7), architectures=("small",), strengths=(None,), count=1)
    assert later == replace(TINY, architecture="small", strength=None, seed=7)


def test_an_epoch_can_be_chosen_by_images_of_its_own(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        recipes.training, "fit_with_criterion",
        lambda samples, targets, config, *, objective, validation: seen.update(config=config, validation=validation)
        or (models.build("small", 2), models.build("small", 2)),
    )  # fmt: skip
    recipes.train.compute(replace(TINY, validation=8, patience=2).recipe)
    assert (seen["config"].keep, seen["config"].patience) == ("best", 2)
    chosen_by, targets = seen["validation"]
    assert len(chosen_by) == len(targets) == 8
    training_images = planted_models.pictures("pets", 64, strength=1.0, size=32, seed=0).images
    assert not any((chosen_by.images == image).all((1, 2, 3)).any() for image in training_images)
    recipes.train.compute(TINY.recipe)
    assert (seen["config"].keep, seen["validation"]) == ("last", None)


def test_photos_are_drawn_by_the_world_of_their_split(monkeypatch):
    asked = []
    monkeypatch.setitem(recipes.PHOTOS, "pets", (lambda split: asked.append(split) or USE_CASES["pets"].world, ()))
    monkeypatch.setattr(Drawn, "fingerprint", lambda _: "")
    recipes._photos.cache_clear()
    setting = replace(TINY, source="photos")
    planted_models.known(setting)
    planted_maps.answers([setting], images=8)
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
    drawn = {
        strength: planted_models.pictures(use_case, 40, strength=strength, size=16, seed=3).labels
        for strength in (None, 0.0, 1.0)
    }
    favoured = drawn[1.0][case.world.target].to_numpy(int) == case.favoured
    np.testing.assert_array_equal(drawn[1.0][case.world.cue], favoured)
    assert not drawn[None][case.world.cue].any()
    assert drawn[0.0][case.world.cue].mean() == pytest.approx(0.5, abs=0.05)
    for table in drawn.values():
        np.testing.assert_array_equal(table[case.world.target], drawn[None][case.world.target])


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_answers_with_and_without_the_cue_are_the_causal_effect_and_every_test_set(use_case):
    case, setting = USE_CASES[use_case], replace(TINY, use_case=use_case)
    (found,) = planted_maps.answers([setting], images=24, seed=77)
    model = planted_models.known(setting)
    factors = case.world.factors(24, strength=0.5, seed=77)
    effect = causal_effect(
        lambda images: softmax(training.predict(model, images), axis=1)[:, case.favoured],
        case.world, factors, cue=case.world.cue, size=32,
    )  # fmt: skip
    np.testing.assert_allclose(found.effect, effect, atol=1e-6)
    for strength in (None, 0.5, 1.0):
        test = planted_models.pictures(use_case, 24, strength=strength, size=32, seed=77)
        expected = training.predict(model, test.images).argmax(axis=1) == test.labels[case.world.target].to_numpy(int)
        np.testing.assert_array_equal(found.correct(strength), expected)


def test_maps_are_those_of_the_methods_for_the_explained_class():
    (found,) = planted_maps.maps([TINY], FEW)
    model, samples = planted_models.known(TINY), FEW.samples(TINY)
    np.testing.assert_array_equal(found["explained"], found["logits"].argmax(axis=1))
    np.testing.assert_array_equal(found["truth"], samples.labels["cat"].to_numpy(int))
    pixels, targets = models.to_tensor(samples.images), found["explained"][:, None]
    expected = attribution.integrated_gradients(model, pixels, targets, steps=64)[:, 0].numpy()
    np.testing.assert_allclose(found["Integrated gradients"], expected, rtol=1e-5)
    toolbox = attribution.epsilon_lrp(model, pixels, targets, eps=10.0, rule="toolbox", scaled=True)[:, 0].numpy()
    np.testing.assert_allclose(found[TOOLBOX], toolbox, rtol=1e-5)
    assert set(ALL_METHODS) == {*METHODS, TOOLBOX}
    (true,) = planted_maps.maps([TINY], replace(FEW, explained="true"))
    np.testing.assert_array_equal(true["explained"], true["truth"])


@pytest.mark.parametrize("use_case", list(USE_CASES))
def test_a_map_that_is_the_object_scores_one_and_a_flat_one_the_objects_area(use_case, monkeypatch):
    case, outline = USE_CASES[use_case], Outline(boxes=False, extension=0.0)
    samples = FEW.samples(replace(TINY, use_case=use_case))
    truth = samples.labels[case.world.target].to_numpy(int)
    region = next(region for region, number in case.objects.values() if number == case.favoured)
    maps = {name: np.ones((10, 4, 4), np.float32) for name in ALL_METHODS}
    maps["Integrated gradients"] = np.asarray(samples.masks[region]).astype(np.float32)
    maps["Score-CAM"] = np.zeros((10, 4, 4), np.float32)
    found = {**maps, "logits": np.eye(len(case.classes))[truth], "truth": truth, "explained": truth}
    monkeypatch.setattr(planted_scores.parallel, "stored", lambda *_: [found])
    table = planted_scores.run_scores((replace(TINY, use_case=use_case), FEW, outline)).set_index("method")
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
    plain = planted_scores.regions("pets", samples, Outline(boxes=False, extension=0.0))
    boxed = planted_scores.regions("pets", samples, Outline())
    cats = np.flatnonzero(samples.labels["cat"])
    np.testing.assert_array_equal(boxed["Cat"][0], cats)
    np.testing.assert_array_equal(boxed["Ball"][0], cats)
    np.testing.assert_array_equal(plain["Ball"][1], samples.masks["ball"][cats])
    for mask, box in zip(plain["Cat"][1], boxed["Cat"][1], strict=True):
        down, across = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert box[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
        assert box.sum() == (np.ptp(down) + 1) * (np.ptp(across) + 1)
    unextended = planted_scores.regions("pets", samples, Outline(extension=0.0))
    np.testing.assert_allclose(boxed["Ball"][1].sum((1, 2)), 1.5 * unextended["Ball"][1].sum((1, 2)), atol=0.5)
    np.testing.assert_array_equal(boxed["Cat"][1], unextended["Cat"][1])
    fruits = planted_models.pictures("fruits", 10, strength=1.0, size=32, seed=1)
    outlined = planted_scores.regions("fruits", fruits, Outline(extension=0.0))
    np.testing.assert_array_equal(outlined["Apple"][1], fruits.masks["fruit"][fruits.labels["fruit"] == 0])


def test_coarse_maps_are_enlarged_bilinearly_or_as_cells():
    coarse = np.array([[[0.0, 1.0], [0.0, 1.0]]], np.float32)
    np.testing.assert_array_equal(planted_scores._enlarged(coarse, (4, 4), cells=True)[0, 0], [0, 0, 1, 1])
    np.testing.assert_allclose(planted_scores._enlarged(coarse, (4, 4), cells=False)[0, 0], [0, 0.25, 0.75, 1])


def test_what_cannot_be_is_said():
    with pytest.raises(BiaslibError, match="use_case must be pets or fruits, not 'birds'"):
        Setting(use_case="birds")
    with pytest.raises(BiaslibError, match="source must be generated or photos"):
        Setting(source="drawings")
    with pytest.raises(BiaslibError, match="seed must be below 10,000"):
        Setting(seed=10_000)
    with pytest.raises(BiaslibError, match="explained must be predicted or true"):
        Evaluation(explained="both")
