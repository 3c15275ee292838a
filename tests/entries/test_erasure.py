"""The probe and the erasure of the cue: concept-erasure's, where it is exact; what is encoded, and what is used."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import logit, softmax

from biaslib import models, training
from biaslib.store.files import module_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # of torch.jit.script, when it is imported
    from concept_erasure import LeaceFitter

erasure = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "erasure.py")
CUE = np.arange(200) % 2 == 0


@pytest.fixture
def features():
    """Correlated ones of 200 images, of which the cue moves one, and one is dead."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    mixed[:, 0] += 1.5 * CUE
    return np.column_stack([mixed, np.zeros(200)])


def theirs(features, **options):
    fitter = LeaceFitter(features.shape[1], 1, dtype=torch.float64, **options)
    fitter.update(torch.tensor(features), torch.tensor(CUE, dtype=torch.float64))
    return fitter.eraser(torch.tensor(features)).numpy()


def left(features):
    """The largest covariance of a feature with the cue."""
    return np.abs(erasure.reader(features, CUE)[1]).max()


@pytest.fixture
def case():
    """A random network, and pictures of noise of which those with the cue are redder."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 190, (80, 32, 32, 3), dtype=np.uint8)
    cue, truth = np.arange(80) % 4 < 2, np.arange(80) % 2 == 0
    pictures[cue, ..., 0] += 60
    network = models.build("small", 2).eval()
    return SimpleNamespace(network=network, pictures=pictures, cue=cue, truth=truth, score=None, score_of=score_of)


def score_of(logits):
    return softmax(logits, axis=1)[:, 1]


def reading(case, weight):
    """The case of the network whose second output reads the last features with this weight."""
    with torch.no_grad():
        case.network.fc.bias.zero_()
        case.network.fc.weight.copy_(torch.tensor(np.stack([0 * weight, weight])))
    case.score = score_of(training.predict(case.network, case.pictures))
    return case


def test_it_is_the_packages_erasure_without_shrinkage(features):
    assert left(features) > 0.3
    np.testing.assert_allclose(erasure.erased(features, CUE), theirs(features, shrinkage=False), atol=1e-10)
    assert left(erasure.erased(features, CUE)) < 1e-12


def test_the_packages_shrinkage_erases_too_and_changes_more(features):
    ours, public = erasure.erased(features, CUE), theirs(features)
    assert left(public) < 1e-12
    assert ((ours - features) ** 2).sum() < 0.99 * ((public - features) ** 2).sum()


def test_the_package_leaves_a_weak_cue():
    features, z = np.random.default_rng(5).normal(size=(200, 3)), CUE - CUE.mean()
    features -= np.outer(z, z @ features) / (z @ z)  # no covariance
    np.testing.assert_array_equal(erasure.erased(features, CUE), features)
    features[:, 0] += 0.015 * z
    assert left(theirs(features, shrinkage=False)) == pytest.approx(left(features)) == pytest.approx(0.015 / 4)
    assert left(erasure.erased(features, CUE)) < 1e-12


def test_the_last_layer_reads_the_features_that_are_kept(case):
    features, layer = erasure.last_features(case.network, case.pictures)
    logits = training.predict(case.network, case.pictures)
    np.testing.assert_allclose(layer(torch.tensor(features).float()).detach(), logits, atol=1e-5)
    assert not layer._forward_pre_hooks


def test_what_is_encoded_is_read_whether_it_is_used_or_not(case):
    features, _ = erasure.last_features(case.network, case.pictures)
    best, with_cue = erasure.reader(features, case.cue, ridge=0.01)
    used = reading(case, best / (best @ with_cue))
    assert erasure.probe(used) == 1.0
    assert erasure.change(used).mean() > 0.2
    other = np.random.default_rng(2).normal(size=len(best))
    unused = reading(case, other - with_cue * (other @ with_cue) / (with_cue @ with_cue))
    assert erasure.probe(unused) == 1.0
    np.testing.assert_allclose(erasure.change(unused), 0, atol=1e-5)
    against = reading(case, -best / (best @ with_cue))
    assert erasure.change(against).mean() < -0.2


def test_on_logits_the_change_is_half_of_the_answers_own_gap(case):
    reading(case, np.random.default_rng(3).normal(size=128))
    features, layer = erasure.last_features(case.network, case.pictures)
    after = case.score_of(erasure.logits_of(layer, erasure.erased(features, case.cue)))
    np.testing.assert_allclose(erasure.change(case), np.where(case.cue, 1, -1) * (case.score - after), atol=1e-5)
    before, after = (logit(each.astype(float)) for each in (case.score, after))
    gap = before[case.cue].mean() - before[~case.cue].mean()
    assert abs(gap) > 0.01
    assert np.mean(np.where(case.cue, 1, -1) * (before - after)) == pytest.approx(gap / 2, rel=1e-3)


def test_a_cue_that_is_not_encoded_is_read_by_chance(case):
    case.cue = np.random.default_rng(4).permutation(case.cue)
    assert 0.2 < erasure.probe(case) < 0.8


def test_undefined_without_both_kinds_of_images(case):
    reading(case, np.ones(128))
    case.cue = np.ones(80, bool)
    assert np.isnan(erasure.probe(case))
    assert np.isnan(erasure.change(case)).all()
    case.cue = np.arange(80) == 3  # one half has none
    assert np.isnan(erasure.probe(case))
