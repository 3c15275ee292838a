"""Tables of what models of many attributes do."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, matthews_corrcoef

from biaslib.chapters.attribute_maps import Attended
from biaslib.chapters.attribute_models import Experiment
from biaslib.chapters.attribute_scores import per_attribute
from biaslib.errors import BiaslibError
from biaslib.metrics import attention_iou

NAMES = ("Bangs", "Clan", "Eyeglasses")


def made(logits: np.ndarray, labels: pd.DataFrame, maps: np.ndarray | None = None) -> Attended:
    """What a model says of N faces: logits (N, 3), maps (N, 3, h, w)."""
    maps = np.ones((len(logits), 3, 2, 2), np.float32) if maps is None else maps
    return Attended(Experiment(attributes=NAMES), NAMES, labels, logits, maps)


def random_faces(models: int, n: int = 60) -> tuple[list[Attended], pd.DataFrame]:
    rng = np.random.default_rng(0)
    labels = pd.DataFrame(rng.random((n, 3)) < (0.2, 0.5, 0.4), columns=list(NAMES))
    logits = [rng.normal(size=(n, 3)) + labels.to_numpy() for _ in range(models)]
    return [made(one, labels, rng.random((n, 3, 4, 4)).astype(np.float32)) for one in logits], labels


def test_a_case_by_hand():
    labels = pd.DataFrame({"Bangs": [1, 1, 0, 0], "Clan": [1, 0, 1, 0], "Eyeglasses": [1, 0, 0, 0]}).astype(bool)
    #                     Bangs right but for the last one; Clan always right; Eyeglasses on everybody
    logits = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, 1], [1, -1, 1]], float)
    maps = np.zeros((4, 3, 1, 2), np.float32)
    maps[:, 1, 0] = [1, 1]  # Clan everywhere
    maps[:, 0, 0] = [1, 0]  # Bangs on one side: 4 * .5 / (1 + .5 + 2 * .5) = .8
    table = per_attribute([made(logits, labels, maps)])
    assert list(table.index) == list(NAMES)
    bangs = table.loc["Bangs"]
    assert bangs["score"].estimate == pytest.approx(0.8)
    assert bangs["mcc"].estimate == pytest.approx(-1 / np.sqrt(3))
    assert bangs["absolute_mcc"].estimate == pytest.approx(1 / np.sqrt(3))
    assert bangs["worst_group_accuracy"].estimate == 0
    assert bangs["balanced_accuracy"].estimate == 0.75
    assert (bangs["models"], bangs["maps"], bangs["constant"]) == (1, 4, 0)
    glasses = table.loc["Eyeglasses"]
    assert (glasses["maps"], glasses["constant"]) == (0, 1)
    for column in ("score", "mcc", "absolute_mcc"):
        assert np.isnan(glasses[column].estimate)
        assert np.isnan(table.loc["Clan", column].estimate)
    assert table.loc["Clan", "worst_group_accuracy"].estimate == 1


def test_agrees_with_scikit_learn_and_with_the_metrics():
    found, labels = random_faces(4)
    table = per_attribute(found)
    for at, name in ((0, "Bangs"), (2, "Eyeglasses")):
        row, truth = table.loc[name], labels[name]
        said = [one.logits[:, at] for one in found]
        mccs = [matthews_corrcoef(one.logits[:, 1] > 0, one.logits[:, at] > 0) for one in found]
        assert row["mcc"].estimate == pytest.approx(np.mean(mccs))
        assert row["absolute_mcc"].estimate == pytest.approx(abs(np.mean(mccs)))
        balanced = np.mean([balanced_accuracy_score(truth, one > 0) for one in said])
        assert row["balanced_accuracy"].estimate == pytest.approx(balanced)
        scores = [attention_iou(one.maps[:, at], one.maps[:, 1]) for one in found]
        assert row["score"].estimate == pytest.approx(np.mean(scores))
        assert row["score"].n == row["maps"] == 4 * 60
        assert row["score"].low < row["score"].estimate < row["score"].high
        groups = 2 * truth + labels["Clan"]
        worst = [min(((one > 0) == truth)[groups == g].mean() for g in range(4)) for one in said]
        assert row["worst_group_accuracy"].estimate == pytest.approx(np.mean(worst))
    # equally many positives: AP_N is the usual one
    alike = [made(one.logits, labels.assign(Bangs=labels["Clan"], Eyeglasses=labels["Clan"])) for one in found]
    usual = np.mean([average_precision_score(labels["Clan"], one.logits[:, 0]) for one in found])
    assert per_attribute(alike).loc["Bangs", "average_precision"].estimate == pytest.approx(usual)


def test_the_order_of_models_and_the_size_of_maps_do_not_matter():
    found, labels = random_faces(3)
    larger = [made(one.logits, labels, 7 * one.maps) for one in reversed(found)]
    for column in ("score", "mcc", "worst_group_accuracy", "average_precision"):
        before, after = ([value.estimate for value in per_attribute(models)[column]] for models in (found, larger))
        np.testing.assert_allclose(before, after, rtol=1e-6)


def test_empty_maps_are_counted_and_faces_without_labels_have_no_accuracy():
    found, labels = random_faces(2)
    found[0].maps[:5, 2] = 0
    unlabelled = [made(one.logits, pd.DataFrame(index=range(60)), one.maps) for one in found]
    row = per_attribute(unlabelled).loc["Eyeglasses"]
    assert (row["maps"], row["score"].n, row["score"].undefined) == (115, 115, 5)
    assert np.isfinite(row["mcc"].estimate)
    for column in ("worst_group_accuracy", "average_precision", "balanced_accuracy"):
        assert np.isnan(row[column].estimate)
    nobody = [made(one.logits, labels.assign(Bangs=False), one.maps) for one in found]
    assert np.isnan(per_attribute(nobody).loc["Bangs", "average_precision"].estimate)


def test_models_that_cannot_be_compared_are_refused():
    (one, _), labels = random_faces(2)
    with pytest.raises(BiaslibError, match="no model"):
        per_attribute([])
    fewer = Attended(one.experiment, NAMES[:2], labels, one.logits[:, :2], one.maps[:, :2])
    with pytest.raises(BiaslibError, match="different attributes"):
        per_attribute([one, fewer])
    with pytest.raises(BiaslibError, match="different faces"):
        per_attribute([one, made(one.logits, ~labels, one.maps)])
