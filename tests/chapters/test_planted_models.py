from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from biaslib import models, recipes, training
from biaslib.chapters import planted_models
from biaslib.chapters.perturbation import cue_logits
from biaslib.chapters.planted_models import USE_CASES, Setting
from biaslib.errors import BiaslibError
from biaslib.recipes import Drawn
from biaslib.store import fingerprint, parallel

TINY = Setting(images=64, size=32, epochs=1)


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
    np.testing.assert_array_equal(training.predict(recipes.load(TINY.recipe), image), training.predict(again, image))
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


def test_what_cannot_be_is_said():
    with pytest.raises(BiaslibError, match="use_case must be pets or fruits, not 'birds'"):
        Setting(use_case="birds")
    with pytest.raises(BiaslibError, match="source must be generated or photos"):
        Setting(source="drawings")
    with pytest.raises(BiaslibError, match="seed must be below 10,000"):
        Setting(seed=10_000)
