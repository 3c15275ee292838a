from dataclasses import replace

import numpy as np
import pytest

from biaslib.chapters import digit_models
from biaslib.chapters.digit_models import DigitSetup, outcomes
from biaslib.errors import BiaslibError
from biaslib.store import parallel
from biaslib.worlds.digits import CORNERS

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = DigitSetup(strength=0.6, images=96, test_images=40, epochs=1)


def test_labels_are_those_of_the_experiments_tables_and_predictions_follow_the_logits():
    first, _, again = outcomes([QUICK, replace(QUICK, assignment=1), QUICK])
    table = QUICK.data("test").table()
    np.testing.assert_array_equal(first.test.attributes, table[list(CORNERS)].astype(bool))
    np.testing.assert_array_equal(first.test.groups, table["group"].astype(int))
    assert len(first.train) == 96
    logits = digit_models.answers(QUICK)["logits"]
    np.testing.assert_array_equal(first.predicted.attributes, logits[:, :3] > 0)
    np.testing.assert_array_equal(first.predicted.groups, logits[:, 3] > 0)
    np.testing.assert_array_equal(first.effect, again.effect)
    assert (logits != digit_models.answers(replace(QUICK, assignment=1))["logits"]).any()
    said = np.column_stack([first.predicted.attributes, first.predicted.groups])
    truth = np.column_stack([first.test.attributes, first.test.groups])
    np.testing.assert_allclose(first.accuracy, (said == truth).mean(axis=0))


def test_the_effect_of_a_match_is_the_change_between_two_drawings(monkeypatch):
    drawn = []

    def predict(model, images):  # a model whose group depends on the left corners alone
        drawn.append(images)
        match = (images[:, 0, 0, 0] > 200) == (images[:, -1, 0, 0] > 200)
        return np.where(match, 2.0, -2.0)[:, None] * np.ones(4)

    monkeypatch.setattr(digit_models.training, "predict", predict)
    effect = digit_models.answers.compute(QUICK)["effect"]
    np.testing.assert_allclose(effect, np.tanh(1.0))  # sigmoid(2) - sigmoid(-2)
    assert all((images == drawn[0])[:, 8:20, 8:20].all() for images in drawn)


def test_a_second_call_trains_nothing(monkeypatch):
    before = outcomes([QUICK])

    def refuse(*arguments, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(parallel, "workers", refuse)
    np.testing.assert_array_equal(outcomes([QUICK])[0].effect, before[0].effect)
    with pytest.raises(AssertionError, match="trained again"):
        outcomes([replace(QUICK, seed=1)])


def test_training_and_test_differ_and_leaning_corners_lean():
    assert not set(QUICK.data("train").table()["scan"]) & set(QUICK.data("test").table()["scan"])
    leaning = replace(QUICK, shares=(0.5, 0.5, 1.0)).data("train").table()
    assert leaning["group"][leaning["top_right"] == 1].all()


def test_an_unknown_source_and_missing_files_are_said_before_any_training(tmp_path, monkeypatch):
    with pytest.raises(BiaslibError, match="digits come from scikit-learn or mnist, not from 'emnist'"):
        outcomes([replace(QUICK, source="emnist")])
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    digit_models._scans.cache_clear()
    with pytest.raises(BiaslibError, match=r"train-images-idx3-ubyte.gz is missing: .*data fetch mnist"):
        outcomes([replace(QUICK, source="mnist")])
