from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from biaslib.errors import BiaslibError
from biaslib.metrics import aopc, perturbation_curves


def pictures(n: int, size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), np.uint8)


def relevances(n: int, size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((n, size, size)) ** 3


def brightness(images: np.ndarray) -> np.ndarray:
    """Two scores: how bright the upper left quarter is, and the lower right one."""
    height, width = images.shape[1] // 2, images.shape[2] // 2
    parts = (images[:, :height, :width], images[:, height:, width:])
    return np.stack([part.mean((1, 2, 3)) / 255 for part in parts], 1)


class Recorder:
    """Scores nothing and keeps everything."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.seen.extend(images)
        return brightness(images)


def test_by_hand() -> None:
    image = np.full((1, 4, 4, 3), 255, np.uint8)
    relevance = np.array([[[9, 0, 0, 0], [0, 0, 0, 0], [0, 0, 7, 7], [0, 0, 0, 0]]])
    # the lower right quarter (14) goes black first, then the upper left (9)
    curves = perturbation_curves(brightness, image, relevance, [0], steps=2, region=2, value_range=(0, 0))
    assert curves.tolist() == [[1, 1, 0]]
    assert aopc(curves).tolist() == pytest.approx([1 / 3])
    curves = perturbation_curves(brightness, image, relevance, [1], steps=2, region=2, value_range=(0, 0))
    assert curves.tolist() == [[1, 0, 0]]
    assert aopc(curves).tolist() == pytest.approx([2 / 3])


def test_equals_a_plain_loop() -> None:
    images, relevance, region, steps = pictures(3, 10), relevances(3, 10), 4, 7  # edge tiles of 2 pixels
    targets = np.array([1, 0, 1])
    found = aopc(
        perturbation_curves(brightness, images, relevance, targets, steps=steps, region=region, value_range=(0, 0))
    )
    for image, map_, target, ours in zip(images.copy(), relevance, targets, found, strict=True):
        tiles = [np.s_[y : y + region, x : x + region] for y in range(0, 10, region) for x in range(0, 10, region)]
        tiles.sort(key=lambda tile, map_=map_: -map_[tile].sum())
        scores = [brightness(image[None])[0, target]]
        for tile in tiles[:steps]:
            image[tile] = 0
            scores.append(brightness(image[None])[0, target])
        assert ours == pytest.approx(sum(scores[0] - score for score in scores) / (1 + steps), rel=1e-12)


def test_equals_quantus(quantus: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 22 * 22, 5)).eval()
    images, relevance = pictures(6, 24) / np.float32(255), relevances(6, 24)
    targets = np.arange(6) % 5

    def predict(pixels: np.ndarray) -> torch.Tensor:
        with torch.no_grad():
            return model(torch.from_numpy(pixels).movedim(3, 1)).softmax(1)

    options = {"perturb_baseline": 0.5, "normalise": False, "disable_warnings": True}
    metric = quantus.RegionPerturbation(patch_size=4, order="morf", regions_evaluation=20, **options)
    channels_first = np.ascontiguousarray(np.moveaxis(images, 3, 1))
    falls = metric(model, channels_first, targets, a_batch=relevance[:, None].astype(np.float32), channel_first=True)
    options = {"steps": 20, "region": 4, "value_range": (0.5, 0.5)}
    curves = perturbation_curves(predict, images, relevance, targets, **options)
    np.testing.assert_allclose(curves[:, :1] - curves[:, 1:], falls, atol=1e-6)
    np.testing.assert_allclose(aopc(curves), np.sum(falls, 1) / 21, atol=1e-6)


@pytest.mark.parametrize("kind", ["uint8", "float"])
def test_regions_fall_to_noise_one_after_the_other(kind: str) -> None:
    images = pictures(4, 15) if kind == "uint8" else pictures(4, 15).astype(np.float32) / 510 + 0.25
    relevance, recorder = relevances(4, 15), Recorder()
    before = images.copy()
    perturbation_curves(recorder, images, relevance, 0, steps=9, region=5)
    np.testing.assert_array_equal(images, before)
    shown = np.array(recorder.seen).reshape(4, 10, 15, 15, 3)
    assert shown.dtype == images.dtype
    assert shown.min() >= images.min()
    assert shown.max() <= images.max()
    for image, map_, stages in zip(images, relevance, shown, strict=True):
        np.testing.assert_array_equal(stages[0], image)
        fallen = []
        for one, next_ in pairwise(stages):
            rows, columns = np.nonzero((one != next_).any(-1))
            assert len(set(rows // 5)) == len(set(columns // 5)) == 1
            fallen.append((rows[0] // 5, columns[0] // 5))
        sums = map_.reshape(3, 5, 3, 5).sum((1, 3))
        assert [sums[place] for place in fallen] == sorted(sums.ravel(), reverse=True)
    noise = shown[:, -1]  # every region has fallen
    assert (noise != images).mean() > 0.95
    low, high = float(images.min()), float(images.max())
    assert noise.mean() == pytest.approx((low + high) / 2, rel=0.05)
    assert noise.std() == pytest.approx((high - low) / 12**0.5, rel=0.05)


def test_equal_relevance_leaves_the_order_to_lots() -> None:
    images, first = pictures(1, 8), []
    for seed in range(60):
        recorder = Recorder()
        perturbation_curves(recorder, images, np.zeros((1, 8, 8)), [0], steps=1, region=4, seed=seed)
        rows, columns = np.nonzero((recorder.seen[0] != recorder.seen[1]).any(-1))
        first.append((rows[0] // 4, columns[0] // 4))
    assert all(first.count((row, column)) >= 5 for row in range(2) for column in range(2))


def test_random_order_has_the_same_noise() -> None:
    images = pictures(2, 12)
    options: dict[str, Any] = {"steps": 16, "region": 3, "seed": 3}
    random, ordered = Recorder(), Recorder()
    perturbation_curves(random, images, None, [0, 1], **options)
    perturbation_curves(ordered, images, relevances(2, 12), [0, 1], **options)
    np.testing.assert_array_equal(random.seen[16], ordered.seen[16])
    assert (random.seen[1] != ordered.seen[1]).any()


def test_a_good_order_beats_a_random_one_and_a_bad_one_does_not() -> None:
    images = np.full((8, 16, 16, 3), 255, np.uint8)
    relevance = np.zeros((8, 16, 16))
    relevance[:, :8, :8] = 1
    options: dict[str, Any] = {"steps": 16, "region": 4, "repeats": 4}
    good, random, bad = (
        aopc(perturbation_curves(brightness, images, order, 0, **options)).mean()
        for order in (relevance, None, -relevance)
    )
    assert good > random + 0.1 > bad + 0.2


def test_the_curve_is_a_mean_over_the_repeats() -> None:
    images, relevance = pictures(3, 12), relevances(3, 12)
    options: dict[str, Any] = {"steps": 5, "region": 4}
    recorder = Recorder()
    curves = perturbation_curves(recorder, images, relevance, [0, 1, 0], repeats=3, **options)
    scores = brightness(np.array(recorder.seen)).reshape(3, 1 + 3 * 5, 2)
    for row, target, curve in zip(scores, (0, 1, 0), curves, strict=True):
        assert curve[0] == row[0, target]
        np.testing.assert_allclose(curve[1:], row[1:, target].reshape(3, 5).mean(0), rtol=1e-12)
    single = perturbation_curves(brightness, images, relevance, [0, 1, 0], **options)
    np.testing.assert_allclose(single[:, 1:], scores[[0, 1, 2], 1:6, [0, 1, 0]], rtol=1e-12)


@given(scale=st.sampled_from([2.0**power for power in range(-20, 20)]), batch=st.integers(1, 30), n=st.integers(1, 3))
def test_neither_scale_nor_batch_nor_company_matters(scale: float, batch: int, n: int) -> None:
    images, relevance = pictures(3, 6), relevances(3, 6)
    options: dict[str, Any] = {"steps": 4, "region": 3, "repeats": 2}
    expected = perturbation_curves(brightness, images, relevance, 1, **options)
    found = perturbation_curves(brightness, images[:n], relevance[:n] * scale, [1] * n, batch=batch, **options)
    np.testing.assert_allclose(found, expected[:n], rtol=1e-12)


def test_at_most_a_batch_of_images_is_shown_at_once() -> None:
    sizes = []

    def predict(images: np.ndarray) -> np.ndarray:
        sizes.append(len(images))
        return brightness(images)

    perturbation_curves(predict, pictures(3, 8), None, 0, steps=4, region=4, batch=7)
    assert sizes == [7, 7, 1]


def test_undefined_is_nan() -> None:
    relevance = relevances(3, 8)
    relevance[0, 0, 0] = np.nan
    relevance[1, 0, 0] = np.inf
    curves = perturbation_curves(brightness, pictures(3, 8), relevance, 0, steps=4, region=4)
    assert np.isnan(curves).all(1).tolist() == [True, True, False]
    assert np.isnan(aopc(curves)).tolist() == [True, True, False]


def test_torch_in_torch_out() -> None:
    images, relevance = pictures(2, 8), relevances(2, 8)

    def predict(shown: torch.Tensor) -> torch.Tensor:
        assert isinstance(shown, torch.Tensor)
        return torch.from_numpy(brightness(shown.numpy())).requires_grad_()

    curves = perturbation_curves(
        predict, torch.from_numpy(images), torch.from_numpy(relevance), torch.tensor([0, 1]), steps=3, region=4
    )
    assert isinstance(curves, torch.Tensor)
    assert isinstance(aopc(curves), torch.Tensor)
    expected = perturbation_curves(brightness, images, relevance, [0, 1], steps=3, region=4)
    np.testing.assert_allclose(curves, expected, rtol=1e-6)


def test_aopc_of_any_curves() -> None:
    curves = np.random.default_rng(0).random((2, 3, 6))
    assert aopc(curves).shape == (2, 3)
    np.testing.assert_allclose(aopc(curves), curves[..., 0] - curves.mean(-1), rtol=1e-12)
    assert aopc(np.ones(5)) == 0
    for wrong in (np.ones(1), np.ones((3, 1)), np.float64(1.0), np.array(["a", "b"])):
        with pytest.raises(BiaslibError, match="at least one step"):
            aopc(wrong)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros((2, 3, 8, 8), np.uint8)}, r"must be uint8 or float \(N, H, W, 3\)"),
        ({"images": np.zeros((0, 8, 8, 3), np.uint8)}, "N >= 1"),
        ({"images": np.zeros((2, 8, 8, 3), np.int64)}, "not int64"),
        ({"relevance": np.ones((2, 4, 4))}, r"shape \(2, 8, 8\), .* not float64 of shape \(2, 4, 4\); upsample_maps"),
        ({"relevance": np.ones((3, 8, 8))}, r"of shape \(3, 8, 8\)"),
        ({"targets": [0, 1, 1]}, "one for each of the 2 images"),
        ({"targets": [0.0, 1.0]}, "whole numbers"),
        ({"targets": [0, 2]}, "There is no target 2: predict gives 2 scores"),
        ({"targets": [0, -1]}, "There is no target -1"),
        ({"region": 9}, r"region, .* must be a whole number in \[1, 8\], not 9"),
        ({"region": 0}, "not 0"),
        ({"steps": 5}, "has 4 regions of 4 x 4, so steps must be between 1 and 4, not 5: take fewer steps"),
        ({"steps": 0}, "between 1 and 4, not 0"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1, not 0"),
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"value_range": (0, 256)}, r"between 0 and 255, not \(0, 256\)"),
        ({"value_range": (9, 3)}, r"not \(9, 3\)"),
        ({"predict": lambda images: np.ones(len(images))}, r"scores of shape \(10, T\) for 10 images, not \(10,\)"),
        ({"predict": lambda images: np.ones((1, 2))}, r"not \(1, 2\)"),
    ],
)
def test_wrong_input_gets_one_sentence(changes: dict[str, Any], message: str) -> None:
    arguments = {
        "predict": brightness,
        "images": pictures(2, 8),
        "relevance": relevances(2, 8),
        "targets": [0, 1],
        "region": 4,
        "steps": 4,
    }
    with pytest.raises(BiaslibError, match=message):
        perturbation_curves(**{**arguments, **changes})
