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
    assert (data.world, data.strength, data.seed) == (PLACES[world].photos or world, 0.5, 3)
    small = Trial(world=world, strength=0.5, images=80, epochs=1, size=32).recipe
    assert (small.data.images, small.data.size, small.training.epochs) == (80, PLACES[world].size or 32, 1)


def test_models_are_those_that_the_other_chapters_train():
    for trial, setup in (
        (Trial(world="pets", strength=1.0, seed=2), planted_models.PlantedSetup(use_case="pets", seed=2)),
        (
            Trial(world="fruits", strength=0.9, seed=1),
            planted_models.PlantedSetup(use_case="fruits", strength=0.9, seed=1, images=1500, epochs=4),
        ),
        (Trial(world="scenes", strength=0.5, seed=1), scene_models.SceneSetup(seed=1)),
        (Trial(world="faces", strength=0.3), attribute_models.Experiment(strength=0.3)),
    ):
        assert trial.recipe == setup.recipe
        assert fingerprint.of_value(trial.recipe) == fingerprint.of_value(setup.recipe)
    birds = recipes.Drawn(world="birds", images=3000, strength=0.2, seed=4)
    assert Trial(world="birds", strength=0.2, seed=4).recipe == recipes.target_of_world(birds, TrainingConfig(seed=4))


DRAWN = [world for world, place in PLACES.items() if not place.photos]


@pytest.mark.parametrize("world", DRAWN)
def test_in_training_rows_cue_and_target_agree_as_the_strength_says(world):
    trial = Trial(world=world, strength=0.6, images=400)
    table, by = trial.data.table(), trial.drawn_by
    assert len(table) == 400
    assert (trial.truth(table) == trial.cue(table)).mean() == pytest.approx(0.8, abs=0.01)
    assert {*trial.place.regions, *trial.place.cue_regions} <= set(by.regions)


@pytest.mark.parametrize("world", DRAWN)
def test_an_edit_changes_the_cue_alone(world):
    trial = Trial(world=world, strength=0.0, test_images=40, explained=10)
    table = trial.tested(0.0, 5).table()
    for there in (0, 1):
        edited = trial.edited(table, there)
        assert (trial.cue(edited) == bool(there)).all()
        assert (trial.truth(edited) == trial.truth(table)).all()
        assert edited.drop(columns=trial.drawn_by.cue).equals(table.drop(columns=trial.drawn_by.cue))
        assert (edited.dtypes == table.dtypes).all()


def test_digits_are_tested_on_scans_that_no_model_was_trained_on():
    trial = Trial(world="digits", strength=1.0, images=400, test_images=100, explained=10)
    assert not {*trial.data.table()["scan"]} & {*trial.tested(0.0, 1).table()["scan"]}
    assert (trial.tested(0.0, 1).table()["blur"] == trial.data.table()["blur"].iloc[0]).all()


def test_a_grid_has_reference_models_at_zero_and_models_elsewhere():
    trials = grid(["birds", "faces"], strengths=[1.0, 0.5], models=2, references=3, seed=7)
    found = [(one.world, one.strength, one.seed) for one in trials]
    assert found[:5] == [("birds", 0.0, 7), ("birds", 0.0, 8), ("birds", 0.0, 9), ("birds", 0.5, 7), ("birds", 0.5, 8)]
    assert len(found) == len(set(trials)) == 14


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"world": "moons"}, "must be one of birds, pets, fruits, digits, faces, scenes, pet photos, not"),
        ({"strength": 1.5}, r"strength must be a number in \[0, 1\], not 1.5"),
        ({"world": "scenes", "architecture": "resnet18"}, "Scenes have models of one architecture, small"),
        ({"explained": 300}, "explained must divide the 1000 test images"),
    ],
)
def test_wrong_arguments(arguments, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        Trial(**{"world": "birds", "strength": 0.5, **arguments})


def test_each_world_has_its_own_number_of_training_images():
    trials = grid(["birds", "faces"], strengths=[], models=2, references=1, images=[100, 200], epochs=[1, 2])
    assert [(trial.world, trial.images, trial.epochs) for trial in trials] == [("birds", 100, 1), ("faces", 200, 2)]
    with pytest.raises(BiaslibError, match="1 and 2 numbers are not 2"):
        grid(["birds", "faces"], strengths=[], models=2, references=1, images=[100], epochs=[1, 2])
