import numpy as np
import pytest

from biaslib import metrics, recipes, training, worlds
from biaslib.chapters import bird_models
from biaslib.errors import BiaslibError
from biaslib.worlds.photos import PetsOnScenes
from tests import layouts

TINY = {"images": 64, "size": 32, "epochs": 1}

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_the_share_of_birds_in_their_usual_place_is_the_bias():
    assert bird_models.recipe(0.8, **TINY).data.strength == 0.6
    table = bird_models.recipe(1.0, **TINY).table()
    assert (table["waterbird"] == table["background"]).all()
    numbered = bird_models.recipe(0.5, 3, seed=2, **TINY)
    assert numbered.data.seed == numbered.training.seed == 2003


def test_a_model_is_measured_by_the_instruments():
    recipe = bird_models.recipe(0.5, **TINY)
    found = bird_models.measured([recipe, bird_models.recipe(0.5, 1, **TINY)], test_images=24)
    model, data = recipes.load(recipe), bird_models.balanced(24, 32)
    factors, test = data.table(), data.with_masks()
    logits = training.predict(model, test.images)
    said = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    np.testing.assert_allclose(found["probability"][0], said, rtol=1e-6)
    np.testing.assert_array_equal(found["bird"][0], metrics.mask_score(found["maps"][0], test.masks["bird"]))
    assert found["effect"].shape == (2, 24)
    water, land = (worlds.get("birds").render(factors.assign(background=place), size=32).images for place in (1, 0))
    difference = bird_models.probability(model, water) - bird_models.probability(model, land)
    np.testing.assert_allclose(found["effect"][0], difference, atol=1e-6)
    right = (said > 0.5) == test.labels["waterbird"]
    by_group = right.groupby([test.labels["waterbird"], test.labels["background"]]).mean()
    assert found["worst"][0] == pytest.approx(by_group.min())
    assert found["own"].shape == (2,)


def test_cut_outs_of_photographs_are_measured_in_the_same_way(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    layouts.pets(tmp_path, per_breed=20)
    layouts.scenes(tmp_path, each=12)
    recipe = bird_models.recipe(1.0, source="pets", **TINY)
    assert (recipe.data.photos, recipe.targets) == ("train", "cat")
    found = bird_models.measured([recipe], test_images=24)
    model, world = recipes.load(recipe), PetsOnScenes("test")
    factors = world.factors(24, strength=0.0, seed=10_000)
    sea, forest = (world.render(factors.assign(background=place), size=32) for place in (1, 0))
    difference = bird_models.probability(model, sea.images) - bird_models.probability(model, forest.images)
    np.testing.assert_allclose(found["effect"][0], difference, atol=1e-6)
    np.testing.assert_array_equal(found["bird"][0], metrics.mask_score(found["maps"][0], sea.masks["animal"]))
    own = bird_models.recipe(1.0, source="pets", **TINY).data
    assert own.table()["cat"].tolist() == own.table()["background"].tolist()


def test_an_unknown_source_is_one_sentence():
    with pytest.raises(BiaslibError, match="source must be one of generated, photos, pets, not 'drawn'"):
        bird_models.recipe(0.5, source="drawn", **TINY)
