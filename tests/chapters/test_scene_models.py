import numpy as np
import pytest

from biaslib import recipes, training
from biaslib.chapters import scene_models
from biaslib.chapters.scene_models import SceneSetup
from biaslib.errors import BiaslibError
from biaslib.metrics import bias_amplification
from biaslib.mitigation.resampling import group_shares
from biaslib.worlds.scenes import OBJECTS, Scenes

WIDTH = len(OBJECTS)
TINY = {"images": 240, "validation_images": 120, "test_images": 160, "size": 32, "epochs": 1, "eps": 0.1}


def outcome(n_groups=2, seed=0, **changes):
    """Labels and logits without a training."""
    setup = SceneSetup(groups=n_groups, **TINY, **changes)
    rng = np.random.default_rng(seed)
    labels = {
        s: setup.data(s).table()[[*OBJECTS, Scenes.target]].to_numpy(np.int8) for s in ("train", "validation", "test")
    }
    outputs = setup.objective().outputs
    arrays = {
        **labels,
        "rows": np.arange(TINY["images"]),
        "validation_logits": rng.normal(size=(120, outputs)),
        "test_logits": rng.normal(size=(160, outputs)),
        "probe": np.array(0.5),
        "adversary": np.array(np.nan),
    }
    return scene_models._outcome(setup, arrays)


@pytest.mark.parametrize("n_groups", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_training_is_run_and_read_back(n_groups):
    kinds = ["original", "oversampling", "data_repair", "adversarial", "domain_independent"]
    setups = [SceneSetup(training=kind, groups=n_groups, strength=0.3, **TINY) for kind in kinds]
    found = dict(zip(kinds, map(lambda e: scene_models._outcome(e, scene_models._answers(e)), setups), strict=True))
    original = found["original"]
    for kind, one in found.items():
        assert one.test_logits.shape == (160, one.setup.objective().outputs)
        np.testing.assert_array_equal(one.test.attributes, original.test.attributes)
        np.testing.assert_array_equal(one.original.groups, original.original.groups)
        assert 0 < one.probe < 1
        said = one.predicted(groups=original.predicted().groups)
        assert np.isfinite(bias_amplification(one.train, one.test, said, max_size=2).mean), kind
    train = found["oversampling"].train
    assert abs(group_shares(train.attributes, train.groups, n_groups) - 1 / n_groups).max() <= 0.1
    repaired = found["data_repair"].train
    assert len(repaired) == 120
    before, after = (group_shares(of.attributes, of.groups, n_groups) for of in (original.train, repaired))
    assert abs(after - 1 / n_groups).max() < abs(before - 1 / n_groups).max()


def test_one_setup_one_result():
    setup = SceneSetup(**TINY)
    one, other = scene_models._answers.compute(setup), scene_models._answers.compute(setup)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.usefixtures("in_this_process")
def test_robots_of_another_size_are_seen_by_the_same_model():
    (one,) = scene_models.outcomes([SceneSetup(**TINY)])
    ((small, large),) = scene_models.at_sizes([one], [0.12, 0.5])
    assert not np.array_equal(small.groups, large.groups) or not np.array_equal(small.attributes, large.attributes)
    test = one.setup.data("test")
    pictures = test.get_world().render(test.table().assign(robot_size=0.5), size=32, regions=()).images
    expected = training.predict(recipes.load(one.setup.recipe), pictures)
    np.testing.assert_array_equal(large.groups, expected[:, WIDTH:].argmax(axis=1))


def test_thresholds_come_from_validation_and_makers_are_the_likeliest():
    one = outcome()
    said = one.predicted()
    np.testing.assert_array_equal(said.groups, one.test_logits[:, WIDTH:].argmax(axis=1))
    for column in range(WIDTH):
        ranked = np.sort(one.validation_logits[:, column])[::-1]
        threshold = ranked[one.validation.attributes[:, column].sum()]
        np.testing.assert_array_equal(said.attributes[:, column], one.test_logits[:, column] > threshold)
    np.testing.assert_allclose(np.exp(one.group_scores()).sum(axis=1), 1)


def test_constraints_start_from_the_plain_predictions():
    one = outcome(n_groups=3)
    loose = one.constrained(margin=1.0)
    plain = one.predicted()
    np.testing.assert_array_equal(loose.attributes, plain.attributes)
    np.testing.assert_array_equal(loose.groups, plain.groups)


def test_resampled_sets_get_about_as_many_steps():
    assert SceneSetup(images=200, epochs=6).recipe.training.epochs == 6
    assert SceneSetup(training="oversampling", images=200, epochs=1, eps=0.2).recipe.training.epochs == 1
    repaired = SceneSetup(training="data_repair", images=200, epochs=6).recipe
    assert (len(repaired.table()), repaired.training.epochs) == (100, 12)


def test_what_a_model_does_not_predict_is_said():
    one = outcome(training="adversarial")
    with pytest.raises(BiaslibError, match="adversarial training does not predict the group"):
        one.predicted()
