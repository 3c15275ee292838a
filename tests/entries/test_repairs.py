"""The repairs in data/repairs: identities, and the audit's own last layer, which was written apart from them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from biaslib import training
from biaslib.audit import discovery
from biaslib.dial.repairing import Trained
from biaslib.store.files import module_of

REPAIRS = Path(__file__).parents[2] / "data" / "repairs"
LAYER, TRAINING, NOTHING = (module_of(REPAIRS / f"{name}.py") for name in ("last_layer", "training_on", "nothing"))


def case_of(outputs=2, n=80, agree=0.8, seed=0, labels=80):
    """A linear network of pictures of 4 x 4, with a cue that agrees with whether the target is the last class."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    target = rng.integers(outputs, size=n)
    cue = np.where(rng.random(n) < agree, target == outputs - 1, target != outputs - 1)
    pictures = rng.integers(60, 160, (n, 4, 4, 3))
    pictures[:, 0] += 8 * target[:, None, None]
    pictures[:, 3] += 60 * cue[:, None, None]
    network = nn.Sequential(nn.Flatten(), nn.Linear(48, outputs)).eval()
    network.pretrained_cfg = {"classifier": "1"}
    rows = rng.permutation(n)[:labels]
    return Trained(network, pictures.astype(np.uint8), target, rows, cue[rows], seed)


def logits(network, case):
    return training.predict(network, case.pictures)


def worst(network, case):
    """The largest mean loss of a group among the labelled images."""
    losses = nn.functional.cross_entropy(
        torch.as_tensor(logits(network, case)[case.rows]), torch.as_tensor(case.target[case.rows]), reduction="none"
    ).numpy()
    groups = LAYER.groups(case)
    return max(losses[groups == each].mean() for each in np.unique(groups))


def test_nothing_gives_the_network_back():
    case = case_of()
    assert NOTHING.nothing(case) is case.network


def test_dfr_answers_as_the_audits_last_layer_does():
    case = case_of()
    order = np.argsort(case.rows)
    case = Trained(case.network, case.pictures, case.target, case.rows[order], case.cue[order], case.seed)
    features = LAYER.last_features(case)
    known = np.ones(len(features), bool)
    theirs = discovery._last_layer(features, case.target.astype(bool), case.cue, known, seed=case.seed)
    after = logits(LAYER.deep_feature_reweighting(case), case)
    np.testing.assert_array_equal(after[:, 1] > after[:, 0], theirs)
    assert 0 < theirs.mean() < 1


@pytest.mark.parametrize("outputs", [2, 3])
def test_dfr_of_balanced_images_is_one_logistic_regression_of_scikit_learn(outputs):
    case = case_of(outputs, n=120, labels=120)
    features, target = LAYER.last_features(case), case.target[case.rows]
    # as many of each group: no draw leaves one out
    groups = LAYER.groups(case)
    rows = np.concatenate([np.flatnonzero(groups == each)[:5] for each in np.unique(groups)])
    weight, bias = LAYER.balanced_regression(features[rows], target[rows], groups[rows], seed=0)
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=LAYER.C, max_iter=1000))
    shares = theirs.fit(features[rows], target[rows]).predict_proba(features)
    ours = torch.softmax(torch.as_tensor(features @ weight.T + bias), dim=1).numpy()
    np.testing.assert_allclose(ours, shares, atol=1e-3)


def test_where_a_group_has_no_labelled_image_dfr_leaves_the_network():
    for case in (case_of(agree=1.0), case_of(labels=2), case_of(labels=0)):
        before = logits(case.network, case)
        np.testing.assert_array_equal(logits(LAYER.deep_feature_reweighting(case), case), before)


def test_groupdro_lowers_the_loss_of_the_worst_group_and_leaves_a_network_without_labels():
    case = case_of(n=200, labels=200)
    before = worst(case.network, case)
    assert worst(LAYER.group_robust(case), case) < 0.8 * before
    nothing = case_of(labels=1)
    then = logits(nothing.network, nothing)
    np.testing.assert_array_equal(logits(LAYER.group_robust(nothing), nothing), then)


def test_groupdro_makes_the_worst_group_better_than_a_plain_layer_of_the_same_penalty():
    case = case_of(n=200, labels=200, agree=0.9)
    features, target = LAYER.last_features(case), case.target[case.rows]
    plain = make_pipeline(StandardScaler(), LogisticRegression(C=LAYER.C, max_iter=1000)).fit(features, target)
    losses, groups = -np.log(plain.predict_proba(features)[np.arange(len(target)), target]), LAYER.groups(case)
    of_plain = max(losses[groups == each].mean() for each in np.unique(groups))
    assert worst(LAYER.group_robust(case), case) < of_plain


def test_jtt_takes_errors_twenty_times_as_often_and_is_more_training_without_one(monkeypatch):
    case = case_of()
    wrong = logits(case.network, case).argmax(axis=1) != case.target
    assert 0 < wrong.mean() < 1
    given = []
    with monkeypatch.context() as patched:
        patched.setattr(TRAINING, "trained_on", lambda case, weights: given.append(weights))
        TRAINING.just_train_twice(case)
    np.testing.assert_array_equal(given[0], np.where(wrong, 20, 1))

    def trained(repair):
        new = case_of()
        new.target[:] = logits(new.network, new).argmax(axis=1)  # no error
        torch.manual_seed(0)
        return logits(repair(new), new)

    np.testing.assert_array_equal(trained(TRAINING.just_train_twice), trained(TRAINING.more))


def test_more_training_moves_the_network_and_gives_it_back_in_evaluation_mode():
    case = case_of()
    before = logits(case.network, case)
    after = TRAINING.more(case)
    assert not after.training
    assert np.abs(logits(after, case) - before).max() > 1e-3
