"""Classifiers of many attributes, on small generated faces and on drawn rectangles in CelebA's layout."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import matthews_corrcoef

from biaslib import recipes
from biaslib.chapters.attention import EvaluationFaces
from biaslib.chapters.attribute_models import Experiment, known_attributes, trained
from biaslib.datasets.celeba import ATTRIBUTES
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint
from biaslib.worlds.faces import STRENGTH, Faces
from tests import layouts

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = Experiment(images=300, size=16, epochs=1)


@pytest.fixture(scope="module")
def celeba(tmp_path_factory):
    """60 pictures, 20 a split, as wide as the 40 attributes' table."""
    root = tmp_path_factory.mktemp("celeba")
    rng = np.random.default_rng(0)
    layouts.celeba(root, pd.DataFrame({name: rng.random(60) < 0.5 for name in ATTRIBUTES}))
    for row in range(60):
        layouts.picture(
            root / "celeba" / "img_align_celeba" / f"{row + 1:06d}.jpg", size=(89, 109), colour=(0, 90, row)
        )
    return root


def test_training_faces_are_the_worlds():
    faces = QUICK.recipe.data.samples()
    table = Faces().factors(300, strength=STRENGTH, seed=0)
    np.testing.assert_array_equal(faces.images, Faces().render(table, size=16).images)
    assert not faces.masks
    plain = replace(QUICK, confounder=False).data.samples()
    assert (plain.images != faces.images).any()


def test_only_faces_with_a_value_are_left():
    table = replace(QUICK, only=("Eyeglasses", True)).recipe.table()
    assert 0 < len(table) < 300
    assert table["Eyeglasses"].all()


def test_a_correlation_is_reached_at_the_size_asked_for():
    asked = replace(QUICK, images=2000, correlation=("Wavy_Hair", 0.1), kept=800)
    table = Faces().factors(2000, strength=STRENGTH, seed=0)
    left = asked.recipe.table()
    assert len(left) == 800
    assert matthews_corrcoef(left["Wavy_Hair"], left["Clan"]) == pytest.approx(0.1, abs=1e-3)
    assert matthews_corrcoef(table["Wavy_Hair"], table["Clan"]) > 0.3


def test_an_attribute_can_be_tied_to_another_one_in_place_of_the_group():
    asked = replace(QUICK, images=2000, correlation=("Smiling", 0.6), tied_to="Eyeglasses", kept=800)
    labels = asked.recipe.table()
    assert len(labels) == 800
    assert matthews_corrcoef(labels["Smiling"], labels["Eyeglasses"]) == pytest.approx(0.6, abs=1e-3)
    with pytest.raises(BiaslibError, match="has no attribute Spectacles"):
        replace(asked, tied_to="Spectacles")


def test_faces_of_much_detail_are_drawn_for_training_and_for_evaluation():
    asked = replace(QUICK, detail=1.0)
    plain, clear = QUICK.data.samples(), asked.data.samples()
    assert plain.labels.equals(clear.labels)
    assert (plain.images != clear.images).any()
    assert (EvaluationFaces(images=5, detail=1.0).factors()["detail"] == 1).all()


def test_a_model_tells_the_asked_for_attributes_and_is_trained_once(monkeypatch):
    two = replace(QUICK, attributes=("Clan", "Bangs"))
    first, other = trained([two, replace(two, seed=1)])
    assert first(torch.zeros(1, 3, 16, 16)).shape == (1, 2)
    monkeypatch.setattr(recipes.training, "fit_with_criterion", lambda *_, **__: pytest.fail("trained again"))
    (again,) = trained([two])
    np.testing.assert_array_equal(again.fc.weight.detach(), first.fc.weight.detach())
    assert not torch.equal(first.fc.weight, other.fc.weight)


@pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
def test_photographs_are_part_of_what_a_model_is_kept_by(celeba, tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(celeba))
    photos = replace(QUICK, source="celeba", images=15)
    assert len(photos.data.samples()) == 15
    assert photos.group == "Male"
    assert photos.outputs == ATTRIBUTES
    key = fingerprint.of_value(photos)
    path = celeba / "celeba" / "img_align_celeba" / "000001.jpg"
    before = path.read_bytes()
    layouts.picture(path, size=(89, 109), colour=(200, 0, 0))
    other = fingerprint.of_value(photos)
    path.write_bytes(before)
    assert key != other
    (model,) = trained([photos])
    assert model.fc.out_features == 40


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "people"}, "source must be generated or celeba, not 'people'"),
        ({"attributes": ("Clan", "Male")}, "generated has no attribute Male: it has Clan"),
        ({"only": ("Beard", True)}, "generated has no attribute Beard"),
        ({"correlation": ("Beard", 0.1)}, "generated has no attribute Beard"),
    ],
)
def test_settings_that_cannot_be(changed, message):
    with pytest.raises(BiaslibError, match=message):
        replace(QUICK, **changed)


def test_an_empty_choice_is_refused():
    one = replace(QUICK, images=1)
    value = bool(Faces().factors(1, strength=STRENGTH, seed=0)["Bangs"][0])
    with pytest.raises(BiaslibError, match="No image is left to train on among 1: take more images"):
        replace(one, only=("Bangs", not value)).recipe.table()


def test_the_sources_know_their_group():
    assert "Clan" in known_attributes("generated")
    assert "Male" not in known_attributes("generated")
    assert len(known_attributes("celeba")) == 40


def test_weights_are_part_of_what_a_model_is_kept_by(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    started = replace(QUICK, weights="start.safetensors")
    nothing = fingerprint.of_value(started)
    (tmp_path / "start.safetensors").write_bytes(b"weights")
    assert fingerprint.of_value(started) != nothing
    asked = []
    monkeypatch.setattr(
        recipes.training, "fit_with_criterion", lambda _, __, config, **___: asked.append(config) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        recipes.train.compute(started.recipe)
    assert asked[0].weights == str(tmp_path / "start.safetensors")
