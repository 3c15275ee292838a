from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import binary_dilation

from biaslib.errors import BiaslibError
from biaslib.metrics import dilate_to_area, relevance_mass_accuracy, relevance_rank_accuracy, upsample_maps

SCORES = (relevance_mass_accuracy, relevance_rank_accuracy)
few_values = arrays(np.float64, (2, 3), elements=st.sampled_from([0.0, 1.0, 2.0])).filter(np.any)
regions_2x3 = arrays(np.bool_, (2, 3)).filter(np.any)


def box(height: int, width: int, top: int, left: int, size: int) -> np.ndarray:
    mask = np.zeros((height, width), bool)
    mask[top : top + size, left : left + size] = True
    return mask


def test_by_hand() -> None:
    relevance = np.array([[4.0, 3.0], [2.0, 1.0]])
    mask = np.array([[True, False], [True, False]])
    assert relevance_mass_accuracy(relevance, mask) == 0.6
    assert relevance_rank_accuracy(relevance, mask) == 0.5  # of 4 and 3, one is inside
    # two certain of four, and half of the eight tied zeros' two places: two of them are inside
    rectified = np.array([[5.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    mask = np.array([[True, True, True, True, False, False, False, False, False, False]])
    assert relevance_rank_accuracy(rectified, mask) == (2 + 2 * 2 / 8) / 4


@pytest.mark.parametrize("size", [(2, 3), (16, 16), (32, 24)])
def test_equal_quantus_on_maps_without_ties(size: tuple[int, int], quantus: Any) -> None:
    rng = np.random.default_rng(0)
    maps = rng.permuted(np.arange(1.0, 1 + 20 * size[0] * size[1])).reshape(20, *size)
    masks = rng.random(maps.shape) < rng.random((20, 1, 1))
    masks[:, 0, 0] = True
    for ours, peer in zip(SCORES, (quantus.RelevanceMassAccuracy, quantus.RelevanceRankAccuracy), strict=True):
        metric = peer(abs=False, normalise=False, disable_warnings=True)
        arguments = {"a_batch": maps[:, None], "s_batch": masks[:, None], "channel_first": True}
        expected = metric(torch.nn.Identity(), x_batch=np.zeros((20, 1, *size)), y_batch=np.zeros(20), **arguments)
        np.testing.assert_allclose(ours(maps, masks), expected, rtol=1e-12)


@given(relevance=few_values, mask=regions_2x3)
def test_ties_count_as_the_mean_over_all_ways_to_break_them(relevance: np.ndarray, mask: np.ndarray) -> None:
    values, region = relevance.ravel(), mask.ravel()
    size = region.sum()
    hits = [
        region[sorted(order, key=lambda pixel: -values[pixel])[:size]].sum() / size for order in permutations(range(6))
    ]
    assert relevance_rank_accuracy(relevance, mask) == pytest.approx(np.mean(hits), rel=1e-12)


@given(mask=regions_2x3, value=st.floats(1e-300, 1e300))
def test_a_constant_map_scores_the_regions_share_of_the_image(mask: np.ndarray, value: float) -> None:
    for score in SCORES:
        assert score(np.full((2, 3), value), mask) == pytest.approx(mask.mean(), rel=1e-12)


@given(
    relevance=arrays(np.float64, (2, 3), elements=st.floats(0, 1e6, allow_subnormal=False)).filter(np.any),
    mask=regions_2x3,
    scale=st.sampled_from([2.0**power for power in range(-40, 40)]),  # exact, so that no tie is made or lost
    order=st.permutations(range(6)),
)
def test_neither_scale_nor_place_matters(
    relevance: np.ndarray, mask: np.ndarray, scale: float, order: list[int]
) -> None:
    for score in SCORES:
        expected = float(score(relevance, mask))
        assert 0 <= expected <= 1
        assert float(score(relevance * scale, mask)) == pytest.approx(expected, rel=1e-12)
        moved = (array.ravel()[order].reshape(3, 2) for array in (relevance, mask))
        assert float(score(*moved)) == pytest.approx(expected, rel=1e-12)


@given(relevance=few_values, mask=regions_2x3)
def test_region_and_rest_share_the_mass(relevance: np.ndarray, mask: np.ndarray) -> None:
    inside = relevance_mass_accuracy(relevance, mask)
    assert relevance_mass_accuracy(relevance, np.ones_like(mask)) == 1
    if not mask.all():
        assert inside + relevance_mass_accuracy(relevance, ~mask) == pytest.approx(1)
        assert relevance_mass_accuracy(relevance * mask, mask) == 1 or not (relevance * mask).any()


def test_undefined_is_nan() -> None:
    relevance = np.random.default_rng(0).random((5, 4, 4))
    mask = np.broadcast_to(box(4, 4, 1, 1, 2), relevance.shape).copy()
    relevance[0] = 0
    mask[1] = False
    relevance[2, 0, 0] = np.nan
    relevance[3, 0, 0] = np.inf
    for score in SCORES:
        assert np.isnan(score(relevance, mask)).tolist() == [True, True, True, True, False]
        assert np.isnan(score(np.zeros((2, 2)), np.ones((2, 2), bool)))


@pytest.mark.parametrize("score", SCORES)
def test_leading_dimensions_broadcast(score: Any) -> None:
    rng = np.random.default_rng(1)
    maps, masks = rng.random((4, 3, 5, 6)), rng.random((4, 2, 5, 6)) < 0.4
    every = score(maps[:, :, None], masks[:, None])
    assert every.shape == (4, 3, 2)
    for n, t, r in np.ndindex(every.shape):
        assert every[n, t, r] == score(maps[n, t], masks[n, r])
    assert score(maps, masks[0, 0]).shape == (4, 3)


@pytest.mark.parametrize("score", SCORES)
def test_kinds_and_types_agree(score: Any) -> None:
    rng = np.random.default_rng(2)
    whole = rng.integers(0, 256, (6, 8, 8)).astype(np.uint8)
    mask = rng.random((6, 8, 8)) < 0.3
    expected = score(whole.astype(float), mask)
    for dtype in (np.uint8, np.int64, np.float16, np.float32):
        found = score(whole.astype(dtype), mask)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    tensor = torch.from_numpy(whole).bfloat16().requires_grad_()
    found = score(tensor, torch.from_numpy(mask))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert score(whole > 128, mask).tolist() == score((whole > 128) * 1.0, mask).tolist()
    np.testing.assert_allclose(score(np.asfortranarray(whole), mask), expected, rtol=1e-12)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e308])
def test_extreme_values_are_shares_like_others(value: float) -> None:
    for score in SCORES:
        assert score(np.full((4, 4), value), box(4, 4, 0, 0, 2)) == 0.25


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("relevance", "mask", "message"),
    [
        (-np.ones((2, 2)), np.ones((2, 2), bool), "holds negative values: square signed maps"),
        (
            np.ones((7, 7)),
            np.ones((224, 224), bool),
            "maps are 7 x 7 and the masks 224 x 224: enlarge .* upsample_maps",
        ),
        (np.ones((2, 2)), np.ones((2, 2)), "masks must be bool .* not float64 .* threshold"),
        (np.ones((2, 3, 3)), np.ones((4, 3, 3), bool), r"of the masks, \(2,\) and \(4,\), do not broadcast"),
        (np.ones((0, 3, 3)), np.ones((3, 3), bool), r"at least one pixel, not float64 of shape \(0, 3, 3\)"),
        (np.ones(3), np.ones(3, bool), r"maps must be .* of shape \(3,\)"),
        (np.array([["a"]]), np.ones((1, 1), bool), "maps must be numbers"),
    ],
)
def test_wrong_input_gets_one_sentence(score: Any, relevance: np.ndarray, mask: np.ndarray, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        score(relevance, mask)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_region_grows_by_the_share_of_its_area(share: float) -> None:
    rows, columns = np.indices((40, 50))
    for centre, radius in (((20, 20), 4), ((8, 40), 6), ((0, 0), 9)):  # the last is cut off by the border
        disc = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 <= radius**2
        grown = dilate_to_area(disc, share=share)
        assert (grown >= disc).all()
        assert grown.sum() == round((1 + share) * disc.sum())
        # isotropic: a little wider disc, to within a pixel
        away = np.hypot(rows - centre[0], columns - centre[1])
        assert away[grown].max() - away[~grown].min() < 1.5


def test_a_region_grows_on_all_sides_alike() -> None:
    square = box(21, 21, 8, 8, 5)
    ring = dilate_to_area(square, share=20 / 25)
    np.testing.assert_array_equal(ring, binary_dilation(square))
    grown = dilate_to_area(square, share=12 / 25)  # twelve of the twenty nearest, those in the middle of the sides
    np.testing.assert_array_equal(grown, np.rot90(grown))
    np.testing.assert_array_equal(dilate_to_area(square[None, None])[0, 0], dilate_to_area(square))


def test_regions_that_cannot_grow() -> None:
    assert not dilate_to_area(np.zeros((2, 4, 4), bool)).any()
    assert dilate_to_area(np.ones((4, 4), bool)).all()
    assert dilate_to_area(box(4, 4, 0, 0, 3), share=5.0).all()
    tensor = torch.ones(1, 3, 3, dtype=torch.bool)
    assert isinstance(dilate_to_area(tensor), torch.Tensor)
    for mask, share, message in ((np.ones((2, 2)), 0.5, "must be bool"), (np.ones((2, 2), bool), -0.1, "not -0.1")):
        with pytest.raises(BiaslibError, match=message):
            dilate_to_area(mask, share=share)


def test_maps_are_enlarged_between_the_centres_of_their_cells() -> None:
    row = np.array([[0.0, 4.0]])
    np.testing.assert_array_equal(upsample_maps(row, 2, 4), [[0, 1, 3, 4]] * 2)
    flat = np.full((3, 2, 7, 7), 0.3, np.float32)
    np.testing.assert_allclose(upsample_maps(flat, 224, 100), np.full((3, 2, 224, 100), 0.3), rtol=1e-6)
    assert upsample_maps(torch.rand(2, 7, 7), 14, 14).shape == (2, 14, 14)
    assert upsample_maps(np.ones((2, 2)), 4, 4).dtype == np.float64
    assert upsample_maps(np.eye(2, dtype=np.float16), 2, 2).tolist() == np.eye(2).tolist()


def test_maps_are_enlarged_as_opencv_enlarges_them() -> None:
    import cv2  # comes with the grad-cam library

    cam = np.random.default_rng(0).random((7, 7), np.float32)
    np.testing.assert_allclose(upsample_maps(cam, 224, 224), cv2.resize(cam, (224, 224)), atol=1e-6)


def test_maps_are_not_made_smaller() -> None:
    with pytest.raises(BiaslibError, match="9 x 9 cannot be enlarged to 8 x 9"):
        upsample_maps(np.ones((9, 9)), 8, 9)
