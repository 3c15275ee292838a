from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from biaslib.errors import BiaslibError
from biaslib.metrics import attention_iou, mask_score, resize_masks

maps_3x4 = arrays(np.float64, (3, 4), elements=st.floats(0, 1e6, allow_subnormal=False)).filter(lambda m: m.sum() > 0)


def papers_form(a: np.ndarray, b: np.ndarray) -> float:
    """The formula as it is printed, in exact arithmetic."""
    first, second = ([Fraction(float(v)) for v in m.ravel()] for m in (a, b))
    first, second = ([v / sum(m) for v in m] for m in (first, second))
    shared = sum(x * y for x, y in zip(first, second, strict=True))
    return float(shared / sum(((x + y) / 2) ** 2 for x, y in zip(first, second, strict=True)))


def random_maps(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) ** 3


def test_by_hand() -> None:
    a = np.array([[1.0, 0.0], [0.0, 0.0]])
    b = np.array([[1.0, 1.0], [0.0, 0.0]])
    # 1/2 over (3/4)^2 + (1/4)^2
    assert attention_iou(a, b) == pytest.approx(0.8)
    assert attention_iou(a, np.array([[0.0, 0.0], [0.0, 3.0]])) == 0


@given(a=maps_3x4, b=maps_3x4)
def test_equals_the_papers_form(a: np.ndarray, b: np.ndarray) -> None:
    score = float(attention_iou(a, b))
    assert score == pytest.approx(papers_form(a, b), rel=1e-12, abs=1e-300)
    assert 0 <= score <= 1
    assert score == float(attention_iou(b, a))


@given(a=maps_3x4, b=maps_3x4, scale=st.floats(1e-6, 1e6), times=st.integers(1, 4))
def test_neither_scale_nor_size_matters(a: np.ndarray, b: np.ndarray, scale: float, times: int) -> None:
    expected = pytest.approx(float(attention_iou(a, b)), rel=1e-9, abs=1e-300)
    assert float(attention_iou(a * scale, b)) == expected
    larger = np.ones((times, times))
    assert float(attention_iou(np.kron(a, larger), np.kron(b, larger))) == expected
    assert float(attention_iou(np.pad(a, times), np.pad(b, times))) == expected


@pytest.mark.parametrize("shape", [(7, 7), (1, 1), (5, 7, 7), (2, 3, 224, 224), (3, 1, 4, 1)])
def test_identical_maps_score_exactly_one(shape: tuple[int, ...]) -> None:
    for seed in range(10):
        a = random_maps(*shape, seed=seed)
        for same in (a.copy(), np.asfortranarray(a), np.broadcast_to(a, (2, *shape))):
            assert (attention_iou(a, same) == 1).all()


def test_all_pairs_in_one_call() -> None:
    a = random_maps(4, 3, 5, 5)
    pairs = attention_iou(a[:, :, None], a[:, None, :])
    assert pairs.shape == (4, 3, 3)
    assert (np.einsum("naa->na", pairs) == 1).all()
    for n, i, j in np.ndindex(pairs.shape):
        assert pairs[n, i, j] == pytest.approx(papers_form(a[n, i], a[n, j]), rel=1e-12)


def test_undefined_is_nan() -> None:
    a = random_maps(4, 2, 2)
    b = random_maps(4, 2, 2, seed=1)
    a[0] = 0
    b[1] = 0
    a[2, 0, 0] = np.nan
    assert np.isnan(attention_iou(a, b)).tolist() == [True, True, True, False]
    a[3, 0, 0] = np.inf
    assert np.isnan(attention_iou(a, b)[3])
    assert np.isnan(attention_iou(np.zeros((2, 2)), np.zeros((2, 2))))


@pytest.mark.parametrize("value", [1e-310, 5e-324, 1e308])
def test_extreme_values_are_shares_like_others(value: float) -> None:
    assert attention_iou(np.full((3, 3), value), np.ones((3, 3))) == pytest.approx(1)


def test_numpy_and_torch_agree() -> None:
    a, b = random_maps(3, 4, 4), random_maps(3, 4, 4, seed=1)
    score = attention_iou(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(score, torch.Tensor)
    assert score.tolist() == attention_iou(a, b).tolist()
    half = torch.from_numpy(a).bfloat16().requires_grad_()
    assert attention_iou(half, half).tolist() == [1, 1, 1]
    assert isinstance(attention_iou(torch.ones(2, 2), torch.ones(2, 2)), torch.Tensor)


def test_the_arguments_stay_as_they_were() -> None:
    a = random_maps(3, 4, 4)
    before = a.copy()
    attention_iou(a, a)
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.ones((2, 3, 3)), -np.ones((2, 3, 3)), "second maps hold negative values"),
        (np.ones((3, 3)), np.ones((3, 4)), "different grids, 3 x 3 and 3 x 4"),
        (np.ones((1, 9)), np.ones((3, 3)), "different grids, 1 x 9 and 3 x 3"),
        (np.ones((2, 3, 3)), np.ones((4, 3, 3)), r"\(2,\) and \(4,\), do not broadcast"),
        (np.ones((0, 3, 3)), np.ones((0, 3, 3)), r"first maps must be numbers .* not float64 of shape \(0, 3, 3\)"),
        (np.ones((3, 0)), np.ones((3, 0)), "at least one pixel"),
        (np.ones(3), np.ones(3), r"of shape \(3,\)"),
        (np.array([["a"]]), np.ones((1, 1)), "must be numbers"),
    ],
)
def test_wrong_maps_get_one_sentence(a: np.ndarray, b: np.ndarray, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        attention_iou(a, b)


def test_mask_score_by_hand() -> None:
    maps = np.array([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 0.0]]])
    masks = np.zeros((3, 1, 2), bool)
    masks[0] = True
    masks[2] = True
    assert mask_score(maps, masks).tolist()[:1] == [pytest.approx(0.8)]
    assert np.isnan(mask_score(maps, masks)).tolist() == [False, True, True]
    # the released code's mean: an absent region counts as 0; an empty map stays undefined
    scores = mask_score(maps, masks, absent="zero")
    assert scores[1] == 0
    assert np.isnan(scores[2])


def test_a_map_that_is_the_region_scores_one() -> None:
    masks = random_maps(5, 28, 28) > 0.3
    maps = resize_masks(masks, (7, 7)) * 3.0
    assert mask_score(maps, masks) == pytest.approx(np.ones(5))


def test_masks_are_brought_to_the_grid_of_the_maps() -> None:
    maps = random_maps(2, 4, 4)
    masks = np.zeros((2, 8, 8), bool)
    masks[:, :4, 2:6] = True
    assert mask_score(maps, masks) == pytest.approx(attention_iou(maps, resize_masks(masks, (4, 4))))


def test_regions_of_many_targets_broadcast() -> None:
    maps, masks = random_maps(3, 5, 4, 4), random_maps(3, 8, 8) > 0.2
    scores = mask_score(maps, masks[:, None])
    assert scores.shape == (3, 5)
    assert scores[:, 2] == pytest.approx(mask_score(maps[:, 2], masks))


def test_mask_score_returns_the_kind_of_the_maps() -> None:
    maps, masks = random_maps(3, 4, 4), random_maps(3, 8, 8) > 0.2
    score = mask_score(torch.from_numpy(maps), masks, absent="zero")
    assert isinstance(score, torch.Tensor)
    assert score.tolist() == mask_score(maps, torch.from_numpy(masks)).tolist()


def test_resizing_by_hand() -> None:
    # weights of a triangle of half-width 2 at 0.5, 1.5 and 2.5 pixels from its centre: .75, .75 | .25; sum 1.75
    masks = np.array([[[True, False, False, False]]])
    assert resize_masks(masks, (1, 2)).ravel() == pytest.approx([3 / 7, 0])
    masks = np.array([[[False, False, True, False]]])
    assert resize_masks(masks, (1, 2)).ravel() == pytest.approx([1 / 7, 3 / 7])


def area_free_bilinear(mask: np.ndarray, size: int) -> np.ndarray:
    """An antialiased bilinear filter written out along one axis after the other."""
    result = mask.astype(float)
    for axis in (0, 1):
        scale = mask.shape[axis] / size
        centres = (np.arange(size)[:, None] + 0.5) * scale
        distance = np.abs(np.arange(mask.shape[axis]) + 0.5 - centres) / max(scale, 1)
        weights = np.clip(1 - distance, 0, None)
        weights /= weights.sum(1, keepdims=True)
        result = np.moveaxis(np.tensordot(weights, np.moveaxis(result, axis, 0), 1), 0, axis)
    return result


def test_resizing_equals_the_filter_written_out() -> None:
    masks = random_maps(300, 10, 10) > 0.2
    resized = resize_masks(masks, (4, 4))
    assert resized.dtype == np.float32
    for n in (0, 255, 256, 299):
        np.testing.assert_allclose(resized[n], area_free_bilinear(masks[n], 4), atol=1e-6)


def test_no_region_vanishes_and_all_stays_all() -> None:
    corner = np.zeros((1, 512, 512), bool)
    corner[0, 0, -1] = True
    assert resize_masks(corner, (7, 7)).max() > 0
    assert resize_masks(~np.zeros((2, 9, 9), bool), (4, 4)) == pytest.approx(np.ones((2, 4, 4)))
    kept = random_maps(2, 3, 5, 5) > 0.2
    resized = resize_masks(torch.from_numpy(kept), (5, 5))
    assert isinstance(resized, torch.Tensor)
    assert (resized.numpy() == kept).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mask_score(np.ones((2, 3, 3)), np.ones((2, 9, 9))), "masks must be bool .* not float64"),
        (lambda: mask_score(np.ones((2, 3, 3)), np.ones((0, 9, 9), bool)), "masks must be bool .* at least one pixel"),
        (lambda: mask_score(np.ones((2, 3, 3)), np.ones((3, 9, 9), bool)), "do not broadcast"),
        (lambda: mask_score(np.ones(3), np.ones((3, 9, 9), bool)), r"maps must be \(N, h, w\), not \(3,\)"),
        (lambda: mask_score(-np.ones((2, 3, 3)), np.ones((2, 9, 9), bool)), "first maps hold negative values"),
        (lambda: mask_score(np.ones((2, 3, 3)), np.ones((2, 9, 9), bool), absent="0"), "absent must be"),  # type: ignore[arg-type]
    ],
)
def test_wrong_masks_get_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        call()
