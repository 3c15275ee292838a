from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.special

from biaslib.chapters.papers import amplification
from biaslib.chapters.papers.amplification import _HAIR as HAIR
from biaslib.chapters.papers.amplification import _HAIR_ATTRIBUTES as HAIR_ATTRIBUTES
from biaslib.chapters.papers.amplification import _hair_outcomes, _HairFaces, _HairSetup
from biaslib.errors import BiaslibError
from biaslib.metrics import calibrated_thresholds, mean_average_precision
from biaslib.recipes import CelebA
from biaslib.store import parallel
from tests import layouts

pytestmark = [
    pytest.mark.usefixtures("in_this_process"),
    pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning"),
]

QUICK_HAIR = _HairSetup(epochs=1, size=16, batch=16)


def outcomes(setups):
    return _hair_outcomes(amplification._hair_answers.calls(setups))


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


def test_predictions_follow_thresholds_of_the_validation_faces_and_the_likeliest_group(hair):
    first, other = outcomes([QUICK_HAIR, replace(QUICK_HAIR, seed=1)])
    assert (len(first.train), first.n_validation, len(first.test)) == (28, 28, 28)
    np.testing.assert_array_equal(first.predicted.groups, first.logits[:, 23:].argmax(axis=1))
    np.testing.assert_array_equal(first.test.groups, _HairFaces(size=16, split="test").table()["hair"])
    assert (first.logits != other.logits).any()
    stored = amplification._hair_answers.compute(QUICK_HAIR)
    expected = calibrated_thresholds(stored["validation"][:, :23], stored["validation_logits"][:, :23])
    np.testing.assert_array_equal(first.predicted.attributes, first.logits[:, :23] > expected)


def test_what_can_be_seen_is_learnt(hair):
    (found,) = outcomes([replace(QUICK_HAIR, epochs=25, batch=8)])
    assert np.mean(found.predicted.groups == found.test.groups) > 0.9


def test_a_second_call_trains_nothing_and_other_pictures_are_another_result(hair, monkeypatch):
    before = outcomes([QUICK_HAIR])[0]

    def refuse(*arguments, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(parallel, "workers", refuse)
    np.testing.assert_array_equal(outcomes([QUICK_HAIR])[0].logits, before.logits)
    path = hair / "celeba" / "img_align_celeba" / "000010.jpg"
    picture = path.read_bytes()
    path.unlink()
    with pytest.raises(AssertionError, match="trained again"):
        outcomes([QUICK_HAIR])
    path.write_bytes(picture)


def test_missing_faces_are_said_before_any_training(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    assert len(amplification.missing_faces()) == 3
    with pytest.raises(BiaslibError, match=r"list_attr_celeba\.txt is missing: .*non-commercial"):
        outcomes([QUICK_HAIR])


def test_the_tables_of_amplification(hair, monkeypatch):
    monkeypatch.setattr(amplification, "_HairSetup", lambda **options: replace(QUICK_HAIR, **options))
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
    assert quality.index.tolist() == ["mAP"]
    assert quality["value"].between(0, 1).all()
    models = outcomes([QUICK_HAIR, replace(QUICK_HAIR, seed=1)])
    precision = [
        mean_average_precision(
            np.column_stack([model.test.attributes, np.eye(3)[model.test.groups]]),
            np.column_stack([model.logits[:, :23], scipy.special.softmax(model.logits[:, 23:], axis=1)]),
        ).mean
        for model in models
    ]  # over the hair colours too, as the released code has it
    assert quality.loc["mAP", "value"] == pytest.approx(np.mean(precision), abs=1e-6)
    assert tables["joint_images"]["images"].tolist() == [28, 28, 28]
