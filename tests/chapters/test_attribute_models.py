"""Classifiers of many attributes, on small generated faces and on drawn rectangles in CelebA's layout."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.special
import torch
from sklearn.metrics import matthews_corrcoef

from biaslib import recipes
from biaslib.chapters import attribute_models
from biaslib.chapters.attention import EvaluationFaces
from biaslib.chapters.attribute_models import (
    Experiment,
    HairSetup,
    _HairFaces,
    hair_outcomes,
    known_attributes,
    trained,
)
from biaslib.chapters.papers import amplification
from biaslib.datasets.celeba import ATTRIBUTES, HAIR, HAIR_ATTRIBUTES
from biaslib.errors import BiaslibError
from biaslib.metrics import calibrated_thresholds, mean_average_precision
from biaslib.recipes import CelebA
from biaslib.store import fingerprint, parallel
from biaslib.worlds.faces import STRENGTH, Faces
from tests import layouts

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = Experiment(images=300, size=16, epochs=1)
IGNORE_WARNING = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
QUICK_HAIR = HairSetup(epochs=1, size=16, batch=16)


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


@IGNORE_WARNING
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


@pytest.fixture(scope="module")
def hair_colours(tmp_path_factory):
    """90 pictures whose colour is the hair's; three of them have two hair colours, three have none."""
    root = tmp_path_factory.mktemp("faces")
    rng = np.random.default_rng(0)
    hair = rng.integers(3, size=90)
    table = pd.DataFrame({name: rng.random(90) < 0.4 for name in HAIR_ATTRIBUTES})
    for colour, name in enumerate(HAIR):
        table[name] = hair == colour
    table.loc[:2, list(HAIR)] = [True, True, False]
    table.loc[3:5, list(HAIR)] = False
    layouts.celeba(root, table)
    for row, colour in enumerate(hair):
        path = root / "celeba" / "img_align_celeba" / f"{row + 1:06d}.jpg"
        layouts.picture(path, size=(89, 109), colour=((20, 20, 20), (240, 230, 120), (120, 70, 30))[colour], inset=0)
    return root


@pytest.fixture
def hair(hair_colours, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(hair_colours))
    return hair_colours


@IGNORE_WARNING
def test_only_faces_with_one_hair_colour_are_used(hair):
    data = _HairFaces(size=16)
    samples, labels = data.samples(), data.table().to_numpy()
    assert len(samples) == len(labels) == 28  # of 30, as each split has one of the three with two and one with none
    assert labels.shape == (28, 24)
    everyone = CelebA(size=16).samples()
    one_colour = everyone.take(np.flatnonzero(everyone.labels[list(HAIR)].sum(axis=1) == 1))
    np.testing.assert_array_equal(samples.images, one_colour.images)
    np.testing.assert_array_equal(labels[:, -1], one_colour.labels[list(HAIR)].to_numpy().argmax(axis=1))
    np.testing.assert_array_equal(labels[:, :-1], one_colour.labels[list(HAIR_ATTRIBUTES)])
    pd.testing.assert_frame_equal(samples.labels, data.table())


@IGNORE_WARNING
def test_predictions_follow_thresholds_of_the_validation_faces_and_the_likeliest_group(hair):
    first, other = hair_outcomes([QUICK_HAIR, replace(QUICK_HAIR, seed=1)])
    assert (len(first.train), first.n_validation, len(first.test)) == (28, 28, 28)
    np.testing.assert_array_equal(first.predicted.groups, first.logits[:, 23:].argmax(axis=1))
    np.testing.assert_array_equal(first.test.groups, _HairFaces(size=16, split="test").table()["hair"])
    assert (first.logits != other.logits).any()
    stored = attribute_models._hair_answers.compute(QUICK_HAIR)
    expected = calibrated_thresholds(stored["validation"][:, :23], stored["validation_logits"][:, :23])
    np.testing.assert_array_equal(first.predicted.attributes, first.logits[:, :23] > expected)


@IGNORE_WARNING
def test_what_can_be_seen_is_learnt(hair):
    (found,) = hair_outcomes([replace(QUICK_HAIR, epochs=25, batch=8)])
    assert np.mean(found.predicted.groups == found.test.groups) > 0.9


@IGNORE_WARNING
def test_a_second_call_trains_nothing_and_other_pictures_are_another_result(hair, monkeypatch):
    before = hair_outcomes([QUICK_HAIR])[0]

    def refuse(*arguments, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(parallel, "workers", refuse)
    np.testing.assert_array_equal(hair_outcomes([QUICK_HAIR])[0].logits, before.logits)
    path = hair / "celeba" / "img_align_celeba" / "000010.jpg"
    picture = path.read_bytes()
    path.unlink()
    with pytest.raises(AssertionError, match="trained again"):
        hair_outcomes([QUICK_HAIR])
    path.write_bytes(picture)


@IGNORE_WARNING
def test_missing_faces_are_said_before_any_training(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    assert len(amplification.missing_faces()) == 3
    with pytest.raises(BiaslibError, match=r"list_attr_celeba\.txt is missing: .*non-commercial"):
        hair_outcomes([QUICK_HAIR])


@IGNORE_WARNING
def test_the_tables_of_amplification(hair, monkeypatch):
    monkeypatch.setattr(amplification, "HairSetup", lambda **options: replace(QUICK_HAIR, **options))
    tables = amplification.compute_trained(models=2, epochs=1)
    joint = tables["joint"].set_index(["kind", "sets", "sign"])
    assert len(joint) == 15
    assert (joint["models"] == 2).all()
    assert joint.loc[joint["n_sets"] == 0, "value"].isna().all()  # few drawn faces share a whole label set
    joint = joint[joint["n_sets"] > 0]
    assert len(joint) >= 9
    assert (joint.loc[["group_to_attribute", "attribute_to_group"], "perfect"] == 0).all()
    assert joint.loc[("undirected", "all", "absolute"), "perfect"] > 0
    assert (joint["low"] <= joint["value"]).all()
    quality = tables["joint_quality"].set_index("what")
    assert quality.index.tolist() == ["mAP", *HAIR]
    assert quality["value"].between(0, 1).all()
    found = hair_outcomes([QUICK_HAIR])[0]
    right = found.predicted.groups == found.test.groups
    by_colour = [right[found.test.groups == colour].mean() for colour in range(3)]
    other = hair_outcomes([replace(QUICK_HAIR, seed=1)])[0]
    right = other.predicted.groups == other.test.groups
    expected = [(a + right[found.test.groups == c].mean()) / 2 for c, a in enumerate(by_colour)]
    assert quality.loc[list(HAIR), "value"].tolist() == pytest.approx(expected)
    precision = [
        mean_average_precision(
            np.column_stack([model.test.attributes, np.eye(3)[model.test.groups]]),
            np.column_stack([model.logits[:, :23], scipy.special.softmax(model.logits[:, 23:], axis=1)]),
        ).mean
        for model in (found, other)
    ]  # over the hair colours too, as the released code has it
    assert quality.loc["mAP", "value"] == pytest.approx(np.mean(precision), abs=1e-6)
    assert tables["joint_images"]["images"].tolist() == [28, 28, 28]
