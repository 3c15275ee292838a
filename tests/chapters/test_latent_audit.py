"""Audits along directions of a tiny generator, and the arithmetic of what they amount to."""

import dataclasses

import numpy as np
import pytest
import scipy.stats
from scipy.special import expit

from biaslib import training
from biaslib.chapters import attribute_models, face_generators, latent_audit
from biaslib.chapters.attribute_models import Experiment
from biaslib.chapters.latent import BALANCED_ON, CodeRequest, audit_directions
from biaslib.chapters.latent_audit import (
    STEP,
    STEPS,
    DirectionAudit,
    direction_audits,
    generated_verdicts,
    pixels_apart,
    target_classifiers,
    verdicts,
)
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes, traversal
from biaslib.gan.training import EncoderConfig, GanConfig

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")

TINY = face_generators.GeneratorSetup(
    images=64,
    gan=GanConfig(
        widths=(4, 4, 4), latent=32, growth=((0.0, 0.3), (0.2, 0.2), (0.1, 0.2)), images=64, batch=16, chunks=2
    ),
    encoder=EncoderConfig(widths=(4, 4), images=64, batch=32),
)
MODELS = tuple(Experiment(attributes=("Smiling",), size=16, images=64, epochs=1, detail=1.0, seed=n) for n in (0, 1))
AUDIT = DirectionAudit(
    generator=TINY, target_classifiers=MODELS, attributes=("Eyeglasses", "Wavy_Hair"), fitted=800, codes=10, random=3,
)  # fmt: skip


def test_both_ways_ask_the_same_of_each_of_the_books_generators():
    models = tuple(dataclasses.replace(model, size=32) for model in MODELS)
    audits = latent_audit.both_ways(target_classifiers=models, attributes=("Eyeglasses",), codes=10)
    alike = [(audit.generator, audit.codes) for audit in audits[latent_audit.PAPERS]]
    assert alike == [(audit.generator, audit.codes) for audit in audits[latent_audit.PROJECTED]]
    assert alike == [("faces-0", 10), ("faces-1", 10)]
    assert [audits[way][0].orthogonal for way in (latent_audit.PAPERS, latent_audit.PROJECTED)] == [False, True]


@pytest.fixture
def found():
    return direction_audits([AUDIT])[0]


def test_an_audit_asks_every_model_about_every_face_along_every_direction(found):
    assert found.before.shape == (2, 10)
    assert found.along.shape == (2, 2, 6, 10)
    assert found.random.shape == (2, 3, 6, 10)
    generator = face_generators.load(TINY).generator
    models = attribute_models.trained(list(MODELS))
    codes = latent_codes(10, 32, seed=2_000_000)

    def asked(images):
        return np.stack([expit(training.predict(model, images)[:, 0]) for model in models])

    np.testing.assert_allclose(found.before, asked(draw(generator, codes)), atol=1e-3)
    moved = traversal(generator, codes, found.vectors[1], STEPS)
    wanted = np.stack([asked(images) for images in moved], axis=1)
    np.testing.assert_allclose(found.along[:, 1], wanted, atol=0.02)  # a pixel may be rounded the other way
    np.testing.assert_allclose(found.change(slice(1, 2))[0, 1], found.along[1, 1, 5] - found.along[1, 1, 0], atol=1e-6)
    assert found.change(slice(None), control="random").shape == (2, 3, 10)


def test_orthogonal_directions_differ_from_those_as_fitted(found):
    (plain,) = direction_audits([dataclasses.replace(AUDIT, orthogonal=False)])
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1)
    np.testing.assert_allclose(found.vectors[0] @ plain.vectors[1], 0, atol=1e-6)
    assert abs(plain.vectors[0] @ plain.vectors[1]) > 1e-3
    np.testing.assert_allclose(np.linalg.norm(found.controls, axis=1), 1)
    np.testing.assert_allclose(found.controls @ plain.vectors.T, 0, atol=1e-6)  # the control is freed alike
    assert np.abs(plain.controls @ plain.vectors.T).min() > 1e-4


def test_audit_directions_are_those_of_the_audit(found):
    same = audit_directions(CodeRequest(TINY, count=800), AUDIT.attributes)
    np.testing.assert_allclose(same.vectors, found.vectors, atol=1e-6)
    np.testing.assert_allclose(found.controls @ same.named.T, 0, atol=1e-6)
    assert len(same.named) >= len(AUDIT.attributes) + len(BALANCED_ON)
    assert list(same.fitted) == list(AUDIT.attributes)


def test_what_cannot_be_audited_is_refused(found):
    with pytest.raises(BiaslibError, match=r"step must be one of .*, not 4"):
        found.change(slice(None), step=4.0)
    with pytest.raises(BiaslibError, match="one output, not 24"):
        dataclasses.replace(AUDIT, target_classifiers=(Experiment(size=16, images=64, epochs=1, detail=1.0),))


def test_target_classifiers_differ_by_the_tie_alone():
    tied, clean = (target_classifiers("Eyeglasses", mcc, 2, images=600, kept=300) for mcc in (0.6, 0.0))
    for one, other in zip(tied, clean, strict=True):
        assert dataclasses.replace(one, correlation=None) == dataclasses.replace(other, correlation=None)
        labels = one.recipe.table()
        assert len(labels) == len(other.recipe.table()) == 300
        assert np.corrcoef(labels["Smiling"], labels["Eyeglasses"])[0, 1] == pytest.approx(0.6, abs=0.01)


def test_a_matched_control_changes_pictures_as_much_as_the_attributes(found):
    generator, codes = face_generators.load(TINY).generator, latent_codes(10, 32, seed=2_000_000)
    low, high = traversal(generator, codes, found.vectors[0], (-STEP, STEP))
    assert found.pixels["along"][0] == pytest.approx(np.abs(high.astype(float) - low).mean())
    assert found.pixels["along"][0] == pytest.approx(pixels_apart(high, low))
    np.testing.assert_allclose(found.pixels["matched"], found.pixels["along"].mean(), rtol=0.2)
    assert found.matched.shape == found.random.shape
    assert not np.array_equal(found.matched, found.random)


def test_one_rule_corrects_over_attributes_and_asks_for_the_margin():
    change, error = np.array([[0.4, 0.06, 0.04], [np.nan, -0.4, 0.0]]), np.array([[0.1], [0.1]])
    said = verdicts(change, error, 24, margin=0.05)
    np.testing.assert_allclose(said.half, scipy.stats.t.isf(0.025 / 3, 24) * 0.1)
    assert said.accused.tolist() == [[True, False, False], [False, True, False]]
    assert verdicts(change, error / 100, 24, margin=0.05).accused.tolist() == [
        [True, True, False],
        [False, True, False],
    ]
    assert not verdicts(change, error, 24, margin=0.5).accused.any()


def test_where_nothing_differs_five_in_a_hundred_classifiers_are_accused():
    rng = np.random.default_rng(0)
    chance = np.sqrt(np.square(rng.normal(size=(4000, 12))).mean(axis=1, keepdims=True))
    accused = verdicts(rng.normal(size=(4000, 6)), chance, 12, margin=0.0).accused
    assert 0.03 < accused.any(axis=1).mean() < 0.06


def test_effects_are_judged_by_their_errors_over_faces():
    effects = np.random.default_rng(0).normal(0.1, 0.2, (3, 2, 50))
    error = effects.std(axis=2, ddof=1) / 50**0.5
    said = verdicts(effects.mean(axis=2), error, 49, margin=0.05)
    np.testing.assert_allclose(said.half, scipy.stats.t.isf(0.025 / 2, 49) * error)
    np.testing.assert_array_equal(said.accused, (effects.mean(2) >= 0.05) & (effects.mean(2) > said.half))


def test_generated_faces_are_judged_by_each_classifiers_own_random_directions(found):
    other = dataclasses.replace(found, along=found.along / 2, matched=2 * found.matched)
    said = generated_verdicts([found, other], slice(None), margin=0.0)
    change = 0.75 * found.change(slice(None)).mean(axis=2)
    np.testing.assert_allclose(said.change, change, atol=1e-6)
    random = found.change(slice(None), control="matched").mean(axis=2)
    # of each generator the mean square, of the mean of two a quarter of their sum
    error = np.sqrt((np.square(random).mean(axis=1) + np.square(2 * random).mean(axis=1)) / 2 / 2)
    np.testing.assert_allclose(said.half[:, 0], scipy.stats.t.isf(0.025 / 2, 6) * error, rtol=1e-5)
    with pytest.raises(BiaslibError, match="no control: give random >= 1"):
        generated_verdicts([dataclasses.replace(found, matched=found.matched[:, :0])], slice(None), margin=0.0)


TIES = {
    "ties": ["Eyeglasses", "Wearing_Hat"],
    "correlations": [0.9, 0.5],
    "models": [3, 2],
    "clean_models": 2,
    "attributes": ["Eyeglasses", "Wearing_Hat", "Bangs"],
    "images": 300,
    "kept": 150,
    "epochs": 1,
    "seed": 4000,
}


def test_a_line_up_has_a_kind_for_each_tie_and_one_for_none():
    audited = latent_audit.line_up(**TIES)
    glasses, hat = "tied to eyeglasses (0.9)", "tied to hat (0.5)"
    assert list(audited.classifiers) == [latent_audit.CLEAN, glasses, hat]
    assert audited.tied_to == {glasses: "Eyeglasses", hat: "Wearing_Hat"}
    assert audited.rows == {latent_audit.CLEAN: slice(0, 2), glasses: slice(2, 5), hat: slice(5, 7)}
    assert len(audited.everyone) == 7
    assert [model.correlation[1] for model in audited.everyone] == [0, 0, 0.9, 0.9, 0.9, 0.5, 0.5]
    assert [model.seed for model in audited.everyone] == [4000, 4001, 4000, 4001, 4002, 4000, 4001]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": [3]}, "give as many of each"),
        ({"models": [3, 1]}, "give clean_models >= 2"),
        ({"attributes": ["Bangs", "Eyeglasses"]}, "Wearing_Hat, to which smiles are tied"),
    ],
)
def test_a_line_up_that_cannot_be_compared_is_refused(change, message):
    with pytest.raises(BiaslibError, match=message):
        latent_audit.line_up(**TIES | change)
