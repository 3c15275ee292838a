import numpy as np
import pytest
import torch
from torch import nn

from biaslib.chapters import several_cues
from biaslib.recipes import Drawn, Recipe
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint
from biaslib.worlds.scenes import ASSOCIATIONS, OBJECTS, Scenes


class Answers(nn.Module):
    """Stands for a network: its answer is a function of the edited rows, not of pixels."""


@pytest.fixture
def edited(monkeypatch):
    """Every prediction answers the row itself: the logit of maker 1 is what `rule` says of the objects."""

    def install(rule):
        monkeypatch.setattr(Scenes, "render", lambda self, table, **_: type("Seen", (), {"images": table}))
        monkeypatch.setattr(
            several_cues.training, "predict", lambda _, table: np.stack([0 * (x := rule(table)), x], axis=1)
        )

    return install


def table():
    return Drawn(world="scenes", images=8, strength=0.0, seed=1).table()


def test_a_model_of_an_exclusive_or_has_the_effect_of_the_pair_and_none_of_its_objects(edited):
    edited(lambda rows: np.where(rows["scissors"] == rows["pencil"], 50.0, -50.0))
    effect = {objects: several_cues._effect(Answers(), table(), objects) for objects in (
        ("scissors", "pencil"), ("scissors",), ("pencil",), ("mug",), ("apple", "spoon", "camera"),
    )}  # fmt: skip
    assert effect["scissors", "pencil"] == pytest.approx(1.0)
    assert effect["mug",] == effect["apple", "spoon", "camera"] == pytest.approx(0.0)


def test_the_effect_of_one_object_is_the_difference_with_and_without_it(edited):
    edited(lambda rows: np.where(rows["mug"] == 1, 1.0, -1.0))
    with_and_without = 1 / (1 + np.exp(-1)) - 1 / (1 + np.exp(1))
    assert several_cues._effect(Answers(), table(), ("mug",)) == pytest.approx(with_and_without)


def test_the_effect_of_a_triple_has_the_sign_of_its_product(edited):
    edited(lambda rows: 50.0 * np.where((rows[["apple", "spoon", "camera"]] == 0).sum(axis=1) % 2 == 0, -1, 1))
    assert several_cues._effect(Answers(), table(), ("apple", "spoon", "camera")) == pytest.approx(-1.0)


def test_last_layers_learn_a_pair_from_features_that_know_its_objects():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(400, 4)).astype(np.float32)
    maker = ((seen[:, 0] > 0) == (seen[:, 1] > 0)).astype(int)
    layers = several_cues._last_layers(seen, maker, 0)
    with torch.inference_mode():
        answer = layers(torch.from_numpy(seen)).argmax(dim=1).numpy()
    assert (answer == maker).mean() > 0.9


@pytest.fixture(scope="module")
def found():
    joint = Joint(attributes=len(OBJECTS), groups=2)
    recipe = Recipe(
        data=Drawn(world="scenes", images=48, strength=0.0, seed=5, size=32), targets=(*OBJECTS, "maker"),
        training=TrainingConfig(outputs=joint.outputs, epochs=1), objective=joint,
    )  # fmt: skip
    told = Drawn(world="scenes", images=60, strength=1.0, seed=6, size=64)
    test = Drawn(world="scenes", images=80, strength=0.0, seed=7, size=64)
    return several_cues.searched.compute((recipe, told, test, 0)), test.table()


def test_a_search_gives_an_effect_of_each_set_and_slices_of_one_answer_each(in_this_process, found):
    result, rows = found
    assert result["probability"].shape == (len(rows),)
    assert result["effects"].shape == (sum(each.dial is not None for each in ASSOCIATIONS),)
    for way in ("features", "maps"):
        for inside in result[way]:
            assert inside.any()
            assert len(set(result["probability"][inside] > 0.5)) == 1
