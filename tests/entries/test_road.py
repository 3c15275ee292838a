"""ROAD beside grad-cam's and quantus' own, and what of it is undefined."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pytorch_grad_cam.metrics.perturbation_confidence import PerturbationConfidenceMetric, RemoveMostRelevantFirst
from pytorch_grad_cam.metrics.road import NoisyLinearImputer
from scipy.ndimage import gaussian_filter
from scipy.special import expit, softmax
from torch import nn

from biaslib import metrics, models
from biaslib.store.files import module_of
from tests.entries.cases import case_of

ROAD = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "removal.py")
SIZE = 24
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__ must accept")  # grad-cam hands tensors to numpy


def masks():
    """One pixel, a corner, a blot, dust, and all but one pixel."""
    rng = np.random.default_rng(0)
    given = np.zeros((5, SIZE, SIZE - 3), bool)
    given[0, 5, 7] = given[1, :6, :9] = True
    given[2] = gaussian_filter(rng.normal(size=given.shape[1:]), 3) > 0
    given[3], given[4] = rng.random(given.shape[1:]) < 0.4, True
    given[4, 11, 3] = False
    return given


@pytest.mark.filterwarnings("ignore")  # of quantus' own import
def test_a_filled_picture_equals_those_of_grad_cam_and_quantus():
    from quantus import noisy_linear_imputation

    pixels = np.random.default_rng(2).normal(size=(3, SIZE, SIZE - 3)).astype(np.float32)
    for mask in masks():
        ours = ROAD.filled(pixels, mask)
        theirs = NoisyLinearImputer(noise=0)(torch.from_numpy(pixels), torch.from_numpy(1 - np.float32(mask)))
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-6)
        np.testing.assert_allclose(ours, noisy_linear_imputation(pixels, np.flatnonzero(mask), noise=0), atol=1e-6)
        np.testing.assert_array_equal(ours[:, ~mask], pixels[:, ~mask])


def test_a_removed_pixel_is_the_weighted_mean_of_its_neighbours():
    pixels, mask = np.random.default_rng(3).normal(size=(1, SIZE, SIZE - 3)), masks()[2]
    filled = np.pad(ROAD.filled(pixels, mask)[0], 1)
    there = np.pad(np.ones(mask.shape), 1)
    for y, x in np.argwhere(mask):
        weights = ROAD.WEIGHTS * there[y : y + 3, x : x + 3]
        assert filled[y + 1, x + 1] == pytest.approx((weights * filled[y : y + 3, x : x + 3]).sum() / weights.sum())


@pytest.mark.parametrize(
    ("outputs", "probability"),
    [
        (2, lambda logits: softmax(logits, axis=1)[:, 1]),
        (5, lambda logits: softmax(logits, axis=1)[:, 0]),
        (7, lambda logits: softmax(logits[:, -2:], axis=1)[:, 1]),
        (4, lambda logits: expit(logits[:, 2])),
    ],
)
def test_equals_grad_cams_drop_of_the_answer_whatever_the_outputs_mean(outputs, probability, monkeypatch):
    monkeypatch.setattr(ROAD, "NOISE", 0.0)
    case = case_of(outputs, probability, SIZE)

    def target(yes):
        def certainty(output):
            value = probability(output[None].numpy())[0]
            return torch.tensor(value if yes else 1 - value)

        return certainty

    pixels, maps = models.to_tensor(case.pictures), metrics.upsample_maps(case.map, SIZE, SIZE)
    case.map = maps = maps + 1e-4 * np.random.default_rng(3).random(maps.shape, np.float32)  # no ties
    drops = [
        PerturbationConfidenceMetric(RemoveMostRelevantFirst(100 - 100 * share, NoisyLinearImputer(0)))(
            pixels, maps, [target(yes) for yes in case.answer], case.network
        )
        for share in ROAD.SHARES
    ]
    np.testing.assert_allclose(ROAD.road(case), -np.mean(drops, axis=0), atol=1e-5)
    assert np.abs(drops).max() > 0.01


@pytest.mark.filterwarnings("ignore:Matrix is exactly singular")
def test_a_map_that_is_mostly_zero_leaves_grad_cam_without_a_pixel_and_us_with_those_that_the_share_leaves():
    pixels = np.random.default_rng(4).normal(size=(3, SIZE, SIZE)).astype(np.float32)
    relevance = np.zeros((SIZE, SIZE), np.float32)
    relevance[3:8, 4:9] = 1 + np.arange(25).reshape(5, 5)
    theirs = RemoveMostRelevantFirst(70, NoisyLinearImputer(0))(torch.from_numpy(pixels), torch.from_numpy(relevance))
    assert theirs.isnan().all() or not theirs.any()  # by rounding: no number, or grey
    mask = ROAD.ranked(relevance[None]) < round(0.3 * SIZE**2)
    assert mask.sum() == round(0.3 * SIZE**2)
    assert mask[0, 3:8, 4:9].all()
    assert np.isfinite(ROAD.without(pixels[None], mask)).all()


def test_the_noise_is_the_same_each_time_and_grad_cams_is_not():
    pixels, mask = np.random.default_rng(5).normal(size=(1, 3, SIZE, SIZE - 3)), masks()[2:3]
    first, again = (ROAD.without(pixels, mask) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first - ROAD.filled(pixels[0], mask[0]))[:, :, mask[0]].std() == pytest.approx(ROAD.NOISE, rel=0.1)
    given = torch.from_numpy(np.float32(pixels[0])), torch.from_numpy(1 - np.float32(mask[0]))
    theirs = [NoisyLinearImputer()(*given) for _ in range(2)]
    assert not torch.equal(*theirs)


@pytest.mark.filterwarnings("ignore")  # of quantus' own import
def test_quantus_stops_at_a_colour_picture_with_one_value_a_pixel():
    from quantus import ROAD as THEIRS

    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 2)).eval()
    pixels = np.random.default_rng(6).normal(size=(2, 3, SIZE, SIZE)).astype(np.float32)
    maps = np.random.default_rng(7).random((2, 1, SIZE, SIZE), np.float32)
    with pytest.raises(IndexError, match="out of bounds"):
        THEIRS(noise=0, percentages=[50], disable_warnings=True)(network, pixels, np.zeros(2, int), a_batch=maps)


def test_a_map_without_relevance_is_undefined_and_so_are_images_after_the_first(monkeypatch):
    monkeypatch.setattr(ROAD, "IMAGES", 4)
    case = case_of(2, lambda logits: softmax(logits, axis=1)[:, 1], SIZE)
    case.map[1], case.map[2] = 0, np.nan
    np.testing.assert_array_equal(np.isnan(ROAD.road(case)), [False, True, True, False, True, True])
    case.map[:] = 0
    assert np.isnan(ROAD.road(case)).all()
