"""Attribute classifiers, unlabelled factors, labelled codes and directions of tiny generators."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from biaslib import training
from biaslib.chapters import latent
from biaslib.chapters.face_generators import load
from biaslib.chapters.latent import (
    _UNLABELLED_FACTORS,
    CodeRequest,
    NuisanceRegressor,
    attribute_classifiers,
    attribute_probabilities,
    audit_directions,
    labelled_codes,
)
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes
from biaslib.gan.directions import attribute_direction
from biaslib.gan.training import encoded
from biaslib.worlds.faces import STRENGTH, Faces
from tests.chapters.judges import Judge
from tests.chapters.test_latent_audit import TINY

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")


def test_attribute_classifiers_differ_by_their_seed_alone():
    first, second = attribute_classifiers(2, images=100, epochs=1)
    assert (first.seed, second.seed) == (6_000_000, 6_000_001)  # not those of models under audit
    assert first.detail == 1
    assert first.size == 32
    assert first.outputs == Faces.attributes
    (real,) = attribute_classifiers(1, source="celeba")
    assert real.detail == 0
    assert "Male" in real.outputs


def test_answers_are_the_mean_of_the_judges_probabilities(generator):
    images = draw(generator, latent_codes(5, 8))
    judges = [Judge(1.0), Judge(-2.0)]
    found = attribute_probabilities(judges, images)
    assert list(found.columns) == list(Faces.attributes)
    wanted = (expit(training.predict(judges[0], images)) + expit(training.predict(judges[1], images))) / 2
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_answers_refuse_no_judges_and_other_outputs(generator):
    images = draw(generator, latent_codes(2, 8))
    with pytest.raises(BiaslibError, match="no attribute classifiers"):
        attribute_probabilities([], images)
    with pytest.raises(BiaslibError, match="2 outputs, not the 24"):
        attribute_probabilities([Judge(outputs=2)], images)


def test_directions_are_balanced_on_smiles_and_the_clan():
    request = CodeRequest(TINY, count=800, seed=2)
    codes, labels = labelled_codes(request)
    found = audit_directions(request, ["Bangs", "Smiling"], orthogonal=False)
    assert list(found.fitted) == ["Bangs", "Smiling"]
    wanted = attribute_direction(codes, labels, "Bangs", balanced_on=("Smiling", "Clan"), seed=2)
    np.testing.assert_array_equal(found.vectors[0], wanted.vector)
    assert np.abs(attribute_direction(codes, labels, "Bangs", seed=2).vector - wanted.vector).max() > 1e-3
    with pytest.raises(BiaslibError, match="Male is not manipulated"):
        audit_directions(request, ["Male"])


def test_factors_are_read_from_faces_they_were_not_fitted_on():
    regressor = NuisanceRegressor(size=32, count=1500)
    assert list(regressor.r2.index) == list(_UNLABELLED_FACTORS)
    assert regressor.r2["skin"] > 0.95
    assert regressor.r2["backdrop"] > 0.95
    table = Faces().factors(200, strength=0.0, seed=9, detail=1.0)
    found = regressor(Faces().render(table, size=32, regions=()).images)
    assert list(found.columns) == regressor.factors
    # in standard deviations of a share that is spread evenly over [0, 1]
    np.testing.assert_allclose(found["skin"] / np.sqrt(12) + 0.5, table["skin"], atol=0.2)
    # an exact counterfactual: deeper skin, and by the regressor's word nothing else
    both = [regressor(Faces().render(table.assign(skin=np.float32(value)), size=32).images) for value in (0.3, 0.7)]
    change = (both[1] - both[0]).mean()
    assert change["skin"] == pytest.approx(0.4 * np.sqrt(12), rel=0.1)
    assert change.drop("skin").abs().max() < 0.15 * change["skin"]


def test_factors_that_noise_hides_are_left_out_and_regressors_refuse_other_sizes():
    regressor = NuisanceRegressor(size=8, count=300)
    assert len(regressor.factors) < len(_UNLABELLED_FACTORS)  # poses are less than a pixel here
    with pytest.raises(BiaslibError, match="read from 8 px"):
        regressor(np.zeros((1, 16, 16, 3), np.uint8))


def test_what_is_asked_about_is_parted_judged_and_drawn_with_every_generator():
    names = ["stands", "not parted", "parted by one", "not judged", "hardly drawn", "no plane"]
    accuracy = pd.DataFrame({"a": [0.9, 0.6, 0.9, 0.9, 0.9, 0.9], "b": [0.8, 0.6, 0.7, 0.8, 0.8, np.nan]}, index=names)
    judged = pd.Series([0.95, 0.95, 0.95, 0.9, 0.95, 0.95], index=names)
    rendered = pd.Series([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], index=names)
    drawn = pd.DataFrame({"a": [0.1, 0.3, 0.3, 0.3, 0.3, 0.3], "b": [0.4, 0.3, 0.3, 0.3, 0.09, 0.3]}, index=names)
    found = latent.testable_attributes(accuracy, judged, drawn, rendered)
    assert list(found[found].index) == ["stands"]
    # the order of generators says nothing, and one that stands alone stands
    pd.testing.assert_series_equal(
        found, latent.testable_attributes(accuracy[["b", "a"]], judged, drawn[["b", "a"]], rendered)
    )
    assert list(latent.testable_attributes(accuracy[["a"]], judged, drawn[["a"]], rendered)) == [
        True,
        False,
        True,
        False,
        True,
        True,
    ]
    assert not latent.testable_attributes(accuracy, judged, drawn, 0 * rendered).any()


def test_codes_come_from_the_store_with_unlabelled_factors_beside_the_labels(monkeypatch):
    generator, regressor = load(TINY), NuisanceRegressor(size=16)
    assert regressor.factors
    request = CodeRequest(TINY, count=40, seed=3)
    first = labelled_codes(request)
    monkeypatch.setattr(latent, "NuisanceRegressor", None)
    codes, labels = labelled_codes(request)
    np.testing.assert_array_equal(codes, first[0])
    pd.testing.assert_frame_equal(labels, first[1])
    assert list(labels) == [*Faces.attributes, *regressor.factors]
    table = Faces().factors(40, strength=STRENGTH, seed=7_000_003, detail=1.0)
    attributes = list(Faces.attributes)
    pd.testing.assert_frame_equal(labels[attributes], table[attributes].astype(bool))
    images = Faces().render(table, size=generator.size).images
    np.testing.assert_array_equal(codes, encoded(generator.encoder, images))
    np.testing.assert_array_equal(labels[regressor.factors], regressor(images) > 0)


def test_no_codes_are_refused():
    with pytest.raises(BiaslibError, match="count must be a whole number of at least 1, not 0"):
        CodeRequest(TINY, count=0)


def test_codes_of_another_training_of_a_generator_are_others():
    other = dataclasses.replace(TINY, gan=dataclasses.replace(TINY.gan, seed=1))
    asked = [CodeRequest(one, count=4) for one in (TINY, other)]
    assert asked[0].fingerprint() != asked[1].fingerprint()


class Stripes:
    """Somebody's own generator: the numbers of a code are the shades of the columns."""

    size = 32

    def sample(self, n, seed):
        return np.random.default_rng(seed).uniform(0, 200, size=(n, 32)).astype(np.float32)

    def draw(self, codes):
        return np.broadcast_to(codes[:, None, :, None], (len(codes), 32, 32, 3)).astype(np.uint8)

    def encode(self, images):
        return images[:, 0, :, 0].astype(np.float32)


own = Stripes()


@pytest.mark.slow
def test_codes_come_from_somebodys_own_generator_too():
    name = f"{__name__}:own"
    codes, labels = labelled_codes(CodeRequest(name, count=20, seed=3))
    assert codes.shape == (20, 32)
    assert len(labels) == 20
    requests = [CodeRequest(each, count=4) for each in (name, f"{__name__}:Stripes", TINY)]
    first, again, ours = (request.fingerprint() for request in requests)
    assert first == again != ours
