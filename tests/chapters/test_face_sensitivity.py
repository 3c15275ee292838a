"""Audits along directions of a tiny generator."""

import dataclasses

import numpy as np
import pytest
from scipy.special import expit

from biaslib import training
from biaslib.chapters import attribute_models, face_generators
from biaslib.chapters.attribute_models import Experiment
from biaslib.chapters.face_codes import request
from biaslib.chapters.face_directions import BALANCED_ON
from biaslib.chapters.face_sensitivity import STEP, Walk, audited, bearings, walked
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes, traversal
from biaslib.gan.encoder import EncoderConfig
from biaslib.gan.training import GanConfig
from biaslib.worlds.faces import Faces

pytestmark = pytest.mark.usefixtures("in_this_process")

TINY = face_generators.Experiment(
    images=64,
    gan=GanConfig(
        widths=(4, 4, 4), latent=32, growth=((0.0, 0.3), (0.2, 0.2), (0.1, 0.2)), images=64, batch=16, chunks=2
    ),
    encoder=EncoderConfig(widths=(4, 4), images=64, batch=32),
)
JUDGE = Experiment(size=16, images=64, epochs=1, detail=1.0)
MODELS = tuple(Experiment(attributes=("Smiling",), size=16, images=64, epochs=1, detail=1.0, seed=n) for n in (0, 1))
WALK = Walk(
    generator=TINY, models=MODELS, judges=(JUDGE,), attributes=("Eyeglasses", "Wavy_Hair"), fitted=800, codes=10,
    random=3, steps=(-STEP, 1.0, STEP),
)  # fmt: skip


@pytest.fixture
def found():
    return walked([WALK])[0]


def test_a_walk_asks_every_model_about_every_face_along_every_direction(found):
    assert found.before.shape == (2, 10)
    assert found.along.shape == (2, 2, 3, 10)
    assert found.random.shape == (2, 3, 3, 10)
    generator = face_generators.trained([TINY])[0].generator
    models = attribute_models.trained(list(MODELS))
    codes = latent_codes(10, 32, seed=2_000_000)

    def asked(images):
        return np.stack([expit(training.predict(model, images)[:, 0]) for model in models])

    np.testing.assert_allclose(found.before, asked(draw(generator, codes)), atol=1e-3)
    moved = traversal(generator, codes, found.vectors[1], WALK.steps)
    wanted = np.stack([asked(images) for images in moved], axis=1)
    np.testing.assert_allclose(found.along[:, 1], wanted, atol=0.02)  # a pixel may be rounded the other way
    np.testing.assert_allclose(found.change(slice(1, 2))[0, 1], found.along[1, 1, 2] - found.along[1, 1, 0], atol=1e-6)
    assert found.change(slice(None), random=True).shape == (2, 3, 10)
    assert set(found.judged) >= set(Faces.attributes)
    assert found.judged["Clan"].shape == (2, 10)
    assert list(found.accuracy.index) == ["Eyeglasses", "Wavy_Hair"]


def test_orthogonal_directions_differ_from_those_as_fitted(found):
    (plain,) = walked([dataclasses.replace(WALK, orthogonal=False)])
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1)
    np.testing.assert_allclose(found.vectors[0] @ plain.vectors[1], 0, atol=1e-6)
    assert abs(plain.vectors[0] @ plain.vectors[1]) > 1e-3
    np.testing.assert_allclose(np.linalg.norm(found.controls, axis=1), 1)
    np.testing.assert_allclose(found.controls @ plain.vectors.T, 0, atol=1e-6)  # the control is freed alike
    assert np.abs(plain.controls @ plain.vectors.T).min() > 1e-4


def test_bearings_are_what_is_walked(found):
    same = bearings(request(TINY, [JUDGE], way="encoded", count=800), WALK.attributes)
    np.testing.assert_allclose(same.vectors, found.vectors, atol=1e-6)
    np.testing.assert_allclose(found.controls @ same.named.T, 0, atol=1e-6)
    assert len(same.named) >= len(WALK.attributes) + len(BALANCED_ON)
    assert list(same.fitted) == list(WALK.attributes)


def test_what_cannot_be_walked_is_refused(found):
    with pytest.raises(BiaslibError, match="2 was not walked"):
        found.change(slice(None), step=2.0)
    with pytest.raises(BiaslibError, match="way must be"):
        dataclasses.replace(WALK, way="drawn")
    with pytest.raises(BiaslibError, match="steps must hold -3 and 3"):
        dataclasses.replace(WALK, steps=(-1.0, 1.0))
    with pytest.raises(BiaslibError, match="one output, not 24"):
        dataclasses.replace(WALK, models=(JUDGE,))


def test_audited_classifiers_are_twins_but_for_the_tie():
    tied, clean = (audited("Eyeglasses", mcc, 2, images=600, kept=300) for mcc in (0.6, 0.0))
    for one, other in zip(tied, clean, strict=True):
        assert dataclasses.replace(one, correlation=None) == dataclasses.replace(other, correlation=None)
        labels = one.samples().labels
        assert len(labels) == len(other.samples()) == 300
        assert np.corrcoef(labels["Smiling"], labels["Eyeglasses"])[0, 1] == pytest.approx(0.6, abs=0.01)
