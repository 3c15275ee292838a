"""Slices on the board: planted errors are found without a label of the cue, errors by chance hardly, and none is 0."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from biaslib import models
from biaslib.store.files import module_of

slices = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "slices.py")
N, SIZE = 600, 8
TRUTH = np.arange(N) % 2 == 0


def planted(seed=0, inside=0.6, outside=0.05):
    """A quarter of all pictures lies apart, and there more answers are wrong."""
    rng = np.random.default_rng(seed)
    member = rng.random(N) < 0.25
    wrong = rng.random(N) < np.where(member, inside, outside)
    features = rng.normal(size=(N, 12))
    features[member, :2] += 6
    maps = rng.random((N, SIZE, SIZE), np.float32) * 0.1
    maps[np.arange(N), np.where(member, 1, 6)] += 1
    return features, maps, TRUTH ^ wrong, rng.normal(size=N)


@pytest.mark.parametrize("way", ["features", "maps"])
def test_a_planted_slice_stands_out_and_errors_by_chance_do_not(way):
    numbers = []
    for inside, outside in ((0.6, 0.05), (0.2, 0.2)):
        features, maps, answer, score = planted(inside=inside, outside=outside)
        numbers.append(slices.largest({way: features if way == "features" else maps}, TRUTH, answer, score))
    assert numbers[0] == pytest.approx(0.55, abs=0.15)
    assert numbers[1] < 0.25


def test_a_network_that_never_errs_has_no_slice():
    features, _, _, score = planted()
    assert slices.largest({"features": features}, TRUTH, TRUTH, score) == 0.0


def test_maps_that_are_undefined_are_left_out():
    _, maps, answer, score = planted()
    case = SimpleNamespace(map=maps.copy(), truth=TRUTH, answer=answer, score=score)
    case.map[:60] = np.nan
    part = slices.largest({"maps": maps[60:]}, TRUTH[60:], answer[60:], score[60:])
    assert slices.by_maps(case) == part > 0.2
    case.map[:] = np.nan
    assert np.isnan(slices.by_maps(case))


def test_features_are_what_the_last_layer_reads():
    torch.manual_seed(0)
    network = models.build("small", 2).eval()
    pictures = np.random.default_rng(0).integers(0, 256, (70, 32, 32, 3), dtype=np.uint8)
    features = torch.from_numpy(slices.last_features(network, pictures))
    with torch.no_grad():
        again = network.get_submodule(network.pretrained_cfg["classifier"])(features)
        logits = network(models.to_tensor(pictures, model=network))
    torch.testing.assert_close(again, logits, atol=1e-4, rtol=1e-4)
    # errors where the picture is bright, so that they gather
    many = np.random.default_rng(1).integers(0, 128, (N, 32, 32, 3), dtype=np.uint8)
    bright = np.arange(N) % 4 < 1
    many[bright] += 120
    _, _, answer, score = planted()
    answer = TRUTH ^ (bright & (np.random.default_rng(2).random(N) < 0.7)) ^ (np.arange(N) % 20 == 3)
    case = SimpleNamespace(network=network, pictures=many, truth=TRUTH, answer=answer, score=score)
    number = slices.by_features(case)
    assert number == slices.largest({"features": slices.last_features(network, many)}, TRUTH, answer, score)
    assert number > 0.3
