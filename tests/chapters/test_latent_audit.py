"""Audits along directions of a tiny generator, and the arithmetic of what they amount to."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.special import expit

from biaslib import training
from biaslib.chapters import attribute_models, face_generators, latent_audit
from biaslib.chapters.attribute_models import EvaluationFaces, Experiment
from biaslib.chapters.latent import BALANCED_ON, CodeRequest, audit_directions
from biaslib.chapters.latent_audit import (
    STEP,
    DirectionAudit,
    change_components,
    compare_with_random,
    direction_audits,
    minimum_detectable_change,
    slopes,
    target_classifiers,
)
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes, traversal
from biaslib.gan.encoder import EncoderConfig
from biaslib.gan.training import GanConfig
from biaslib.statistics import holm
from biaslib.worlds.faces import Faces

pytestmark = pytest.mark.usefixtures("in_this_process")

TINY = face_generators.GeneratorSetup(
    images=64,
    gan=GanConfig(
        widths=(4, 4, 4), latent=32, growth=((0.0, 0.3), (0.2, 0.2), (0.1, 0.2)), images=64, batch=16, chunks=2
    ),
    encoder=EncoderConfig(widths=(4, 4), images=64, batch=32),
)
JUDGE = Experiment(size=16, images=64, epochs=1, detail=1.0)
MODELS = tuple(Experiment(attributes=("Smiling",), size=16, images=64, epochs=1, detail=1.0, seed=n) for n in (0, 1))
AUDIT = DirectionAudit(
    generator=TINY, target_classifiers=MODELS, attribute_classifiers=(JUDGE,), attributes=("Eyeglasses", "Wavy_Hair"),
    fitted=800, codes=10, random=3, steps=(-STEP, 1.0, STEP),
)  # fmt: skip


@pytest.fixture
def found():
    return direction_audits([AUDIT])[0]


def test_an_audit_asks_every_model_about_every_face_along_every_direction(found):
    assert found.before.shape == (2, 10)
    assert found.along.shape == (2, 2, 3, 10)
    assert found.random.shape == (2, 3, 3, 10)
    generator = face_generators.load(TINY).generator
    models = attribute_models.trained(list(MODELS))
    codes = latent_codes(10, 32, seed=2_000_000)

    def asked(images):
        return np.stack([expit(training.predict(model, images)[:, 0]) for model in models])

    np.testing.assert_allclose(found.before, asked(draw(generator, codes)), atol=1e-3)
    moved = traversal(generator, codes, found.vectors[1], AUDIT.steps)
    wanted = np.stack([asked(images) for images in moved], axis=1)
    np.testing.assert_allclose(found.along[:, 1], wanted, atol=0.02)  # a pixel may be rounded the other way
    np.testing.assert_allclose(found.change(slice(1, 2))[0, 1], found.along[1, 1, 2] - found.along[1, 1, 0], atol=1e-6)
    assert found.change(slice(None), random=True).shape == (2, 3, 10)
    assert set(found.judged) >= set(Faces.attributes)
    assert found.judged["Clan"].shape == (2, 10)
    assert list(found.accuracy.index) == ["Eyeglasses", "Wavy_Hair"]


def test_orthogonal_directions_differ_from_those_as_fitted(found):
    (plain,) = direction_audits([dataclasses.replace(AUDIT, orthogonal=False)])
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1)
    np.testing.assert_allclose(found.vectors[0] @ plain.vectors[1], 0, atol=1e-6)
    assert abs(plain.vectors[0] @ plain.vectors[1]) > 1e-3
    np.testing.assert_allclose(np.linalg.norm(found.controls, axis=1), 1)
    np.testing.assert_allclose(found.controls @ plain.vectors.T, 0, atol=1e-6)  # the control is freed alike
    assert np.abs(plain.controls @ plain.vectors.T).min() > 1e-4


def test_audit_directions_are_those_of_the_audit(found):
    same = audit_directions(CodeRequest(TINY, [JUDGE], way="encoded", count=800), AUDIT.attributes)
    np.testing.assert_allclose(same.vectors, found.vectors, atol=1e-6)
    np.testing.assert_allclose(found.controls @ same.named.T, 0, atol=1e-6)
    assert len(same.named) >= len(AUDIT.attributes) + len(BALANCED_ON)
    assert list(same.fitted) == list(AUDIT.attributes)


def test_what_cannot_be_audited_is_refused(found):
    with pytest.raises(BiaslibError, match="2 was not walked"):
        found.change(slice(None), step=2.0)
    with pytest.raises(BiaslibError, match="way must be"):
        dataclasses.replace(AUDIT, way="drawn")
    with pytest.raises(BiaslibError, match="steps must hold -3 and 3"):
        dataclasses.replace(AUDIT, steps=(-1.0, 1.0))
    with pytest.raises(BiaslibError, match="one output, not 24"):
        dataclasses.replace(AUDIT, target_classifiers=(JUDGE,))


def test_target_classifiers_differ_by_the_tie_alone():
    tied, clean = (target_classifiers("Eyeglasses", mcc, 2, images=600, kept=300) for mcc in (0.6, 0.0))
    for one, other in zip(tied, clean, strict=True):
        assert dataclasses.replace(one, correlation=None) == dataclasses.replace(other, correlation=None)
        labels = one.recipe.table()
        assert len(labels) == len(other.recipe.table()) == 300
        assert np.corrcoef(labels["Smiling"], labels["Eyeglasses"])[0, 1] == pytest.approx(0.6, abs=0.01)


def test_a_slope_is_the_change_between_quartiles_in_standard_deviations():
    evaluation = EvaluationFaces(images=20, detail=1.0)
    found = slopes(MODELS, evaluation, ["skin"])
    table, models = evaluation.factors(), attribute_models.trained(list(MODELS))
    low, high = table["skin"].quantile([0.25, 0.75]).astype(np.float32)
    said = [
        expit(training.predict(models[1], Faces().render(table.assign(skin=value), size=16).images)).mean()
        for value in (low, high)
    ]
    assert list(found.columns) == ["skin"]
    assert found["skin"][1] == pytest.approx((said[1] - said[0]) / ((high - low) / table["skin"].std(ddof=0)), rel=1e-3)


def test_changes_are_compared_with_the_root_mean_square_of_random_ones():
    found = compare_with_random(np.array([[0.4, 0.0], [0.2, 0.1]]), np.array([[0.1, -0.1], [0.1, 0.1]]))
    # one generator's chance is .1, that of the mean of two is .1 / sqrt 2
    np.testing.assert_allclose(found["change"], [0.3, 0.05])
    np.testing.assert_allclose(found["chance"], 0.1 / 2**0.5)
    np.testing.assert_allclose(found["t"], [3 * 2**0.5, 0.5 * 2**0.5])
    np.testing.assert_allclose(found["p"], 2 * scipy.stats.t.sf(found["t"], 4))
    np.testing.assert_allclose(found["p_holm"], holm(found["p"]))


def test_a_change_of_the_smallest_visible_size_is_seen_four_times_in_five():
    rng = np.random.default_rng(1)
    seen, chance, size = 0, 0.1 / 2**0.5, 6
    true = minimum_detectable_change(chance, 40, size)
    for _ in range(600):
        changes = rng.normal(0, 0.1, (2, size))
        changes[:, 0] += true
        # Bonferroni, as the first of Holm's steps
        seen += compare_with_random(changes, rng.normal(0, 0.1, (2, 20)))["p"][0] < 0.05 / size
    assert 0.74 < seen / 600 < 0.86
    assert minimum_detectable_change(2 * chance, 40, size) == pytest.approx(2 * true)
    assert minimum_detectable_change(chance, 40, 1) < true


def test_where_nothing_differs_five_in_a_hundred_directions_are_taken_for_more():
    rng = np.random.default_rng(0)
    p = [compare_with_random(rng.normal(size=(2, 1)), rng.normal(size=(2, 12)))["p"][0] for _ in range(2000)]
    assert 0.035 < np.mean(np.array(p) < 0.05) < 0.065
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_the_verdict_does_not_depend_on_the_unit():
    rng = np.random.default_rng(1)
    changes, random = rng.normal(size=(2, 3)), rng.normal(size=(2, 12))
    pd.testing.assert_series_equal(
        compare_with_random(changes, random)["p"], compare_with_random(100 * changes, 100 * random)["p"]
    )


def test_no_chance_is_undefined_and_no_control_is_refused():
    assert compare_with_random(np.ones((1, 2)), np.zeros((1, 3)))["p"].isna().all()
    with pytest.raises(BiaslibError, match="same generators"):
        compare_with_random(np.ones((2, 2)), np.ones((1, 3)))
    with pytest.raises(BiaslibError, match="same generators"):
        compare_with_random(np.ones((1, 2)), np.ones((1, 0)))


def test_a_change_is_the_sum_of_its_parts():
    judged = pd.DataFrame(
        {"Eyeglasses": [0.5, 0.1], "Wearing_Hat": [0.2, 0.8], "Smiling": [0.1, 0.0], "skin": [1.0, 0.0]},
        index=["Eyeglasses", "Wearing_Hat"],
    )
    effects = {"Eyeglasses": 0.4, "Wearing_Hat": 0.05, "Smiling": 0.9, "skin": -0.02}
    found = change_components(judged, effects, pd.Series({"Wearing_Hat": 0.08, "Eyeglasses": 0.3}))
    first = found.loc["Eyeglasses"]
    np.testing.assert_allclose(first, [0.4, 0.2, 0.09, 0.01 - 0.02, 0.3 - 0.28, 0.3])
    np.testing.assert_allclose(found[["own", "target", "leaked", "rest"]].sum(axis=1), found["total"])
    np.testing.assert_allclose(found.loc["Wearing_Hat", ["own", "target", "leaked"]], [0.04, 0.0, 0.04])
    with pytest.raises(BiaslibError, match="No exact effect is given for skin"):
        change_components(judged, {name: 0.0 for name in ("Eyeglasses", "Wearing_Hat", "Smiling")}, found["total"])


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


def test_accused_is_what_is_beyond_chance_and_at_least_the_margin(found):
    everyone = slice(None)
    table = latent_audit.accusations([found], everyone, margin=0.0)
    means = [found.change(everyone, random=random).mean(axis=(0, 2))[None] for random in (False, True)]
    np.testing.assert_allclose(table["p_holm"], compare_with_random(*means)["p_holm"])
    assert list(table.index) == list(AUDIT.attributes)
    assert (table["accused"] == (table["p_holm"] < 0.05)).all()
    assert not latent_audit.accusations([found], everyone, margin=1.1)["accused"].any()


def test_changes_are_of_one_attribute_and_the_codes_of_all_generators(found):
    twice = latent_audit.changes([found, found], slice(None), "Wavy_Hair")
    np.testing.assert_array_equal(twice, np.tile(found.change(slice(None))[:, 1], 2))
