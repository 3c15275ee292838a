"""Judges, directions and looks on tiny generators and few faces."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from biaslib import training
from biaslib.chapters.face_directions import UNLABELLED, answers, askable, classifiers, directions, leaked, looks
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes
from biaslib.worlds.faces import Faces
from tests.chapters.judges import Judge


def test_judges_differ_by_their_seed_alone():
    first, second = classifiers(2, 7, images=100, epochs=1)
    assert (first.seed, second.seed) == (6_000_007, 6_000_008)  # not those of models under audit
    assert first.detail == 1
    assert first.size == 32
    assert first.outputs == Faces.attributes
    (real,) = classifiers(1, source="celeba")
    assert real.detail == 0
    assert "Male" in real.outputs


def test_answers_are_the_mean_of_the_judges_probabilities(generator):
    images = draw(generator, latent_codes(5, 8))
    judges = [Judge(1.0), Judge(-2.0)]
    found = answers(judges, images)
    assert list(found.columns) == list(Faces.attributes)
    wanted = (expit(training.predict(judges[0], images)) + expit(training.predict(judges[1], images))) / 2
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_answers_refuse_no_judges_and_other_outputs(generator):
    images = draw(generator, latent_codes(2, 8))
    with pytest.raises(BiaslibError, match="no judges"):
        answers([], images)
    with pytest.raises(BiaslibError, match="2 outputs, not the 24"):
        answers([Judge(outputs=2)], images)


def test_directions_are_balanced_on_smiles_and_the_clan():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(3000, 6))
    labels = pd.DataFrame({"Bangs": codes[:, 0] > 0, "Smiling": codes[:, 1] > 0, "Clan": codes[:, 2] > 0})
    found = directions(codes, labels, ["Bangs", "Smiling"], each=400)
    assert list(found) == ["Bangs", "Smiling"]
    assert found["Bangs"].vector[0] > 0.9
    assert found["Smiling"].vector[1] > 0.9
    assert found["Bangs"].n == 400
    with pytest.raises(BiaslibError, match="Male is not manipulated"):
        directions(codes, labels.assign(Male=labels["Clan"]), ["Male"])


def test_looks_are_read_from_faces_they_were_not_fitted_on():
    reader = looks(size=32, count=1500)
    assert list(reader.r2.index) == list(UNLABELLED)
    assert reader.r2["skin"] > 0.95
    assert reader.r2["backdrop"] > 0.95
    table = Faces().factors(200, strength=0.0, seed=9, detail=1.0)
    found = reader(Faces().render(table, size=32, regions=()).images)
    assert list(found.columns) == reader.readable
    # in standard deviations of a share that is spread evenly over [0, 1]
    np.testing.assert_allclose(found["skin"] / np.sqrt(12) + 0.5, table["skin"], atol=0.2)
    # an exact counterfactual: deeper skin, and by the reader's word nothing else
    both = [reader(Faces().render(table.assign(skin=np.float32(value)), size=32).images) for value in (0.3, 0.7)]
    change = (both[1] - both[0]).mean()
    assert change["skin"] == pytest.approx(0.4 * np.sqrt(12), rel=0.1)
    assert change.drop("skin").abs().max() < 0.15 * change["skin"]


def test_looks_cannot_tell_what_noise_hides_and_refuse_other_sizes():
    reader = looks(size=8, count=300)
    assert len(reader.readable) < len(UNLABELLED)  # poses are less than a pixel here
    with pytest.raises(BiaslibError, match="read from 8 px"):
        reader(np.zeros((1, 16, 16, 3), np.uint8))


def test_leakage_by_hand():
    # two attributes, two codes: own changes .6 and .2, the other's .1 and -.3 on average
    changes = np.array([[[0.5, 0.7], [0.1, 0.1]], [[-0.2, -0.4], [0.1, 0.3]]])
    own, others, share = leaked(changes)
    assert own.estimate == pytest.approx(0.4)
    assert share.estimate == pytest.approx(0.5)
    assert others.estimate == pytest.approx(0.2)
    assert own.n == 2
    assert 0.3 <= own.low <= own.high <= 0.5


def test_opposite_changes_of_codes_do_not_leak_on_average():
    rng = np.random.default_rng(0)
    changes = 0.01 * rng.normal(size=(3, 3, 4000))
    changes[np.arange(3), np.arange(3)] += 0.5
    own, others, share = leaked(changes)
    assert own.low > 0.49
    # a step of half the length has the same share
    assert leaked(changes / 2)[2].estimate == pytest.approx(share.estimate)
    assert others.high < 0.001
    # the order of the attributes means nothing
    assert leaked(changes[::-1, ::-1])[1].estimate == pytest.approx(others.estimate)


def test_directions_that_do_not_move_their_own_attribute_have_no_share():
    changes = np.stack([[[0.0], [0.1]], [[0.1], [-0.1]]])
    own, others, share = leaked(changes)
    assert own.estimate < 0 < others.estimate
    assert np.isnan(share.estimate)


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 1, 5), (2, 2)])
def test_leakage_is_of_each_by_each(shape):
    with pytest.raises(BiaslibError, match="at least two attributes"):
        leaked(np.zeros(shape))


def test_what_is_asked_about_is_parted_judged_and_drawn_with_every_generator():
    names = ["stands", "not parted", "parted by one", "not judged", "hardly drawn", "no plane"]
    accuracy = pd.DataFrame({"a": [0.9, 0.6, 0.9, 0.9, 0.9, 0.9], "b": [0.8, 0.6, 0.7, 0.8, 0.8, np.nan]}, index=names)
    judged = pd.Series([0.95, 0.95, 0.95, 0.9, 0.95, 0.95], index=names)
    rendered = pd.Series([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], index=names)
    drawn = pd.DataFrame({"a": [0.1, 0.3, 0.3, 0.3, 0.3, 0.3], "b": [0.4, 0.3, 0.3, 0.3, 0.09, 0.3]}, index=names)
    found = askable(accuracy, judged, drawn, rendered)
    assert list(found[found].index) == ["stands"]
    # the order of generators says nothing, and one that stands alone stands
    pd.testing.assert_series_equal(found, askable(accuracy[["b", "a"]], judged, drawn[["b", "a"]], rendered))
    assert list(askable(accuracy[["a"]], judged, drawn[["a"]], rendered)) == [True, False, True, False, True, True]
    assert not askable(accuracy, judged, drawn, 0 * rendered).any()
