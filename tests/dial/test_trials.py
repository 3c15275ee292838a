import pytest

from biaslib import recipes
from biaslib.chapters import attribute_models, planted_models, scene_models
from biaslib.dial.trials import PLACES, Trial, grid
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint
from biaslib.training import TrainingConfig


@pytest.mark.parametrize("world", list(PLACES))
def test_a_trial_says_how_its_model_is_trained(world):
    data = Trial(world=world, strength=0.5, seed=3).recipe.data
    assert (data.world, data.strength, data.seed) == (world, 0.5, 3)
    small = Trial(world=world, strength=0.5, images=80, epochs=1, size=32).recipe
    assert (small.data.images, small.data.size, small.training.epochs) == (80, 32, 1)


def test_models_are_those_that_the_other_chapters_train():
    for trial, setup in (
        (Trial(world="pets", strength=1.0, seed=2), planted_models.PlantedSetup(use_case="pets", seed=2)),
        (Trial(world="scenes", strength=0.5, seed=1), scene_models.SceneSetup(seed=1)),
        (Trial(world="faces", strength=0.3), attribute_models.Experiment(strength=0.3)),
    ):
        assert trial.recipe == setup.recipe
        assert fingerprint.of_value(trial.recipe) == fingerprint.of_value(setup.recipe)
    birds = recipes.Drawn(world="birds", images=3000, strength=0.2, seed=4)
    assert Trial(world="birds", strength=0.2, seed=4).recipe == recipes.target_of_world(birds, TrainingConfig(seed=4))


@pytest.mark.parametrize("world", list(PLACES))
def test_training_rows_have_the_strength_as_correlation_of_target_and_cue(world):
    trial = Trial(world=world, strength=0.6, images=400)
    table, by = trial.data.table(), trial.drawn_by
    agree = table[by.target].to_numpy(bool) == table[by.cue].to_numpy(bool)
    assert len(table) == 400
    assert agree.mean() == pytest.approx(0.8, abs=0.01)
    assert {*trial.place.regions, *trial.place.cue_regions} <= set(by.regions)


def test_a_grid_has_twins_at_zero_and_models_elsewhere():
    trials = grid(["birds", "faces"], strengths=[1.0, 0.5], models=2, twins=3, seed=7)
    found = [(one.world, one.strength, one.seed) for one in trials]
    assert found[:5] == [("birds", 0.0, 7), ("birds", 0.0, 8), ("birds", 0.0, 9), ("birds", 0.5, 7), ("birds", 0.5, 8)]
    assert len(found) == len(set(trials)) == 14


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"world": "digits"}, "The dial has the worlds birds, pets, faces, scenes, not 'digits'"),
        ({"strength": 1.5}, r"strength must lie in \[0, 1\], not 1.5"),
        ({"world": "scenes", "architecture": "resnet18"}, "Scenes have models of one architecture, small"),
        ({"explained": 300}, "explained must divide the 1000 test images"),
    ],
)
def test_wrong_arguments(arguments, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        Trial(**{"world": "birds", "strength": 0.5, **arguments})


def test_each_world_has_its_own_number_of_training_images():
    trials = grid(["birds", "faces"], strengths=[], models=2, twins=1, images=[100, 200], epochs=[1, 2])
    assert [(trial.world, trial.images, trial.epochs) for trial in trials] == [("birds", 100, 1), ("faces", 200, 2)]
    with pytest.raises(BiaslibError, match="1 and 2 numbers are not 2"):
        grid(["birds", "faces"], strengths=[], models=2, twins=1, images=[100], epochs=[1, 2])
