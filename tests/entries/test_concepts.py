"""TCAV of the cue: captum's scores for the same vector, and what is random there."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.concept import TCAV, Concept
from captum.concept._utils.classifier import Classifier, DefaultClassifier
from sklearn.linear_model import Ridge
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from biaslib import models, training
from biaslib.store.files import module_of

concepts = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "concepts.py")


def made(architecture, outputs=2):
    """A random network, and pictures of noise of which those with the cue are redder."""
    torch.manual_seed(0)
    pictures = np.random.default_rng(0).integers(0, 190, (40, 28, 28, 3), dtype=np.uint8)
    cue, truth = np.arange(40) % 4 < 2, np.arange(40) % 2 == 0
    pictures[cue, ..., 0] += 60
    network = models.build(architecture, outputs).eval()
    return scored(SimpleNamespace(network=network, pictures=pictures, cue=cue, truth=truth))


def scored(case):
    case.score = torch.tensor(training.predict(case.network, case.pictures)).softmax(1)[:, 1].numpy()
    return case


class LogOdds(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images):
        logits = self.network(images)
        return logits[:, 1:] - logits[:, :1]


class Given(Classifier):
    """A vector that is not fitted."""

    def __init__(self, vector):
        self.vector = vector

    def train_and_eval(self, dataloader, **options):
        return None

    def weights(self):
        return torch.stack([-self.vector, self.vector])

    def classes(self):
        return [0, 1]


def by_captum(case, vector, folder):
    pixels = models.to_tensor(case.pictures, model=case.network)
    kinds = [
        Concept(number, name, DataLoader(pixels[case.cue == bool(number)], batch_size=40))
        for number, name in enumerate(("without", "with"))
    ]
    asked = TCAV(LogOdds(case.network), "network.features", classifier=Given(vector), save_path=str(folder))
    scores = asked.interpret(pixels[case.truth], [kinds], target=0)["0-1"]["network.features"]
    return float(scores["sign_count"][1]), float(scores["magnitude"][1])


@pytest.mark.parametrize("architecture", ["lenet5", "small"])
def test_the_share_and_the_mean_derivative_are_captums_with_the_same_vector(tmp_path, architecture):
    case = made(architecture)
    maps = concepts.last_maps(case.network, case.pictures)
    along = concepts.cav(maps.flatten(1), case.cue)
    share, magnitude = by_captum(case, along, tmp_path)
    slopes, deviation = concepts.sensitivities(case)
    assert np.nanmean(concepts.share(case)) == pytest.approx(share)
    assert np.nanmean(slopes) == pytest.approx(magnitude, rel=1e-4)
    np.testing.assert_allclose(concepts.size(case), slopes * deviation)
    assert (share in (0, 1)) == (architecture == "small")  # behind average pooling and a linear layer
    np.testing.assert_array_equal(np.isnan(slopes), ~case.truth)
    # captum's magnitude is not the ratio of its docstring, which has no unit
    assert by_captum(case, 3 * along, tmp_path / "again") == pytest.approx((share, 3 * magnitude), rel=1e-4)


def test_the_vector_is_the_normal_of_a_ridge_regression():
    maps, cue = torch.tensor(np.random.default_rng(1).normal(size=(30, 50))), np.arange(30) % 3 == 0
    centred = maps - maps.mean(dim=0)
    ridge = float((centred**2).sum()) / 30
    weight = Ridge(alpha=ridge).fit(maps.numpy(), cue).coef_
    np.testing.assert_allclose(concepts.cav(maps, cue), weight / np.linalg.norm(weight), atol=1e-10)


@pytest.mark.filterwarnings("ignore:Using default classifier", "ignore:Creating a tensor from a list")
def test_captums_own_vector_is_another_each_time_and_ours_is_not():
    maps, cue = torch.randn(40, 20, generator=torch.Generator().manual_seed(0)), np.arange(40) % 2 == 0
    found, before = [], random.getstate()
    for seed in range(2):
        random.seed(seed)  # that of its split of the pictures
        classifier = DefaultClassifier()
        classifier.train_and_eval(DataLoader(TensorDataset(maps, torch.tensor(cue).long()), batch_size=40))
        found.append(classifier.weights()[1].flatten())
    random.setstate(before)
    assert torch.nn.functional.cosine_similarity(*found, dim=0) < 0.95
    assert torch.equal(concepts.cav(maps, cue), concepts.cav(maps, cue))


@pytest.mark.parametrize(("sign", "share"), [(1, 1.0), (-1, 0.0)])
def test_the_side_is_that_to_which_the_cue_moves_the_answer(sign, share):
    case = made("small")
    maps = concepts.last_maps(case.network, case.pictures)
    along = concepts.cav(maps.flatten(1), case.cue).view_as(maps[0]).mean((1, 2))
    with torch.no_grad():
        case.network.fc.weight.copy_(torch.stack([-sign * along, sign * along]))
    scored(case)
    assert np.nanmean(concepts.share(case)) == share
    assert np.sign(np.nanmean(concepts.size(case))) == sign


def test_the_size_does_not_depend_on_the_maps_unit():
    case = made("small")
    before = np.nanmean(concepts.size(case))
    case.network.features.append(nn.Upsample(scale_factor=2))  # as many times each number, less each one counts
    assert np.nanmean(concepts.size(case)) == pytest.approx(before, rel=1e-4)
    with torch.no_grad():
        case.network.fc.weight.mul_(2)
    assert np.nanmean(concepts.size(scored(case))) == pytest.approx(2 * before, rel=1e-4)


def test_the_output_is_found_by_the_score_of_a_sigmoid_or_a_softmax():
    case = made("small", outputs=5)
    maps, along = concepts.last_maps(case.network, case.pictures), torch.ones(128 * 16)
    logits = torch.tensor(training.predict(case.network, case.pictures))
    by_sigmoid = concepts.derivatives(case.network, maps, logits[:, 3].sigmoid().numpy(), along)
    np.testing.assert_allclose(by_sigmoid, float(case.network.fc.weight[3].sum().detach()), rtol=1e-4)
    by_softmax = concepts.derivatives(case.network, maps, logits.softmax(1)[:, 3].numpy(), along)
    assert by_softmax.std() > 1e-6  # five outputs: no longer the same for all pictures


def test_undefined_without_both_kinds_a_target_or_the_output():
    for wrong in ({"cue": np.ones(40, bool)}, {"truth": np.zeros(40, bool)}, {"score": np.full(40, -1.0)}):
        case = made("small")
        vars(case).update(wrong)
        assert np.isnan(concepts.size(case)).all()
        assert np.isnan(concepts.share(case)).all()
