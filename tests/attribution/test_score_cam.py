from typing import Any

import numpy as np
import pytest
import torch
from pytorch_grad_cam import ScoreCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from torch import nn

from biaslib import models
from biaslib.attribution import fold_batchnorm, score_cam
from biaslib.errors import BiaslibError
from tests.attribution.subjects import assert_close, lively, state, trained_halfway


class Squares(nn.Module):
    """The first two channels, every second pixel, are the map; the logits are its sum and minus its sum."""

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, :2, ::2, ::2]

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        total = features.sum((1, 2, 3))
        return torch.stack([total, -total], 1)


def by_library(model: nn.Module, layer: str, images: torch.Tensor, target: int) -> torch.Tensor:
    """The grad-cam library's map before it is scaled and resized."""
    module = model.get_submodule(layer)
    with ScoreCAM(model, [module]) as library, torch.no_grad():
        library.activations_and_grads(images)
        activations = library.activations_and_grads.activations[0].numpy()
        cam = library.get_cam_image(images, module, [ClassifierOutputTarget(target)] * len(images), activations, None)
    return torch.from_numpy(cam).clamp(min=0)


def test_by_hand() -> None:
    image = torch.zeros(1, 3, 3, 3)
    image[0, 0, ::2, ::2] = torch.tensor([[0.0, 2.0], [1.0, 4.0]])
    image[0, 1] = 3.0
    # channel 0 at the corners: masks 0, 1/2, 1/4, 1; the masked map holds 0, 1, 1/4, 4 and 3 x (0 + 1/2 + 1/4 + 1)
    # channel 1 is constant, its mask 0 (where corners are aligned to a half, nothing is rounded), its score 0
    score = 0 + 1 + 0.25 + 4 + 3 * 1.75
    weight = np.exp(score) / (np.exp(score) + 1)
    first = weight * np.array([[0, 2], [1, 4]]) + (1 - weight) * 3
    second = (1 - weight) * np.array([[0, 2], [1, 4]]) + weight * 3
    maps = score_cam(Squares(), image, [0, 1])
    np.testing.assert_allclose(maps, [[first, second]], rtol=1e-5)
    assert maps.dtype == torch.float32
    # a map that is negative everywhere speaks for nothing
    assert score_cam(Squares(), -image, [0, 1]).abs().max() == 0


@pytest.mark.parametrize(
    ("architecture", "layer", "size"),
    [
        ("small", "features", 64),
        ("test_efficientnet", "bn2", 96),
        pytest.param("resnet10t", "layer4", 64, marks=pytest.mark.slow),  # 512 passes, twice
        pytest.param("efficientnet_b0", "bn2", 40, marks=pytest.mark.slow),  # 1280 passes, twice
        pytest.param("mobilenetv1_100", "blocks", 40, marks=pytest.mark.slow),  # 1024 passes, twice
    ],
)
def test_equals_the_grad_cam_library(architecture: str, layer: str, size: int) -> None:
    model = lively(architecture)
    images = torch.randn(1, 3, size, size)
    maps = score_cam(model, images, [2])
    assert_close(maps[:, 0], by_library(model, layer, images, 2))
    # the weights are not all alike, else anything would do
    assert (maps[:, 0] / maps.mean() - model.forward_features(images).mean(1).relu()).abs().max() > 0.1


def test_channels_with_little_or_no_difference_as_in_the_library() -> None:
    model = lively("small")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():  # dead, and the same everywhere but for rounding
        model.features[-1][1].weight[:40] = 0
        model.features[-1][1].bias[:20] = -1
        model.features[-1][1].bias[20:30] = 1
        model.features[-1][0].weight[60:70] *= 1e-9
    maps = score_cam(model, images, range(4))
    for target in range(4):
        assert_close(maps[:, target], by_library(model, "features", images, target))


def test_the_folded_copy_is_the_same_function() -> None:
    for architecture, kept in (("test_efficientnet", 0), ("resnet10t", 0), ("small", 0), ("densenet121", 1)):
        model = lively(architecture)
        images = torch.randn(2, 3, 64, 64)
        before = state(model)
        copied = fold_batchnorm(model, images)
        torch.testing.assert_close(state(model), before, rtol=0, atol=0)
        assert copied is not model
        with torch.no_grad():
            assert_close(copied(images), model(images))
        # before an activation and a convolution, as in pre-activation networks, there is nothing to fold into
        left = sum(isinstance(module, nn.BatchNorm2d) for module in copied.modules())
        assert (left > 0) == bool(kept)


def test_a_layer_that_runs_twice_is_not_folded() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 3, 1)
            self.normalisation = nn.BatchNorm2d(3)

        def forward_features(self, images: torch.Tensor) -> torch.Tensor:
            return self.convolution(self.normalisation(self.convolution(images)))

        def forward_head(self, features: torch.Tensor) -> torch.Tensor:
            return features.mean((2, 3))

    model = Twice().eval()
    model.normalisation.running_mean += 1
    copied = fold_batchnorm(model, torch.randn(2, 3, 8, 8))
    assert isinstance(copied.normalisation, nn.BatchNorm2d)


def test_a_model_that_cannot_be_copied_is_used_itself() -> None:
    model = lively("small")
    images = torch.randn(1, 3, 32, 32)
    expected = score_cam(model, images, [0, 1])
    model.last_map = model(images)  # a tensor with a history has no copy
    assert fold_batchnorm(model, images) is model
    assert_close(score_cam(model, images, [0, 1]), expected)


def test_a_model_whose_copy_would_say_something_else_is_used_itself() -> None:
    class Peeking(nn.Module):
        """The map is a convolution's output before and after the normalisation."""

        def __init__(self) -> None:
            super().__init__()
            self.convolution = nn.Conv2d(3, 4, 3)
            self.normalisation = nn.BatchNorm2d(4)

        def forward_features(self, images: torch.Tensor) -> torch.Tensor:
            raw = self.convolution(images)
            return torch.cat([raw, self.normalisation(raw)], 1)

        def forward_head(self, features: torch.Tensor) -> torch.Tensor:
            return features.square().mean((2, 3))

    model = Peeking().eval()
    model.normalisation.running_mean += 1
    assert fold_batchnorm(model, torch.randn(2, 3, 8, 8)) is model


def test_batches_and_targets_change_nothing() -> None:
    model = lively("small")
    images = torch.randn(3, 3, 32, 32)
    every = score_cam(model, images, range(4), batch=128)
    assert every.shape == (3, 4, 4, 4)
    assert_close(score_cam(model, images, range(4), batch=2), every, 1e-5)
    each = np.array([[0, 3], [2, 2], [1, 0]])
    expected = every[torch.arange(3)[:, None], torch.from_numpy(each)]
    assert_close(score_cam(model, images, each, batch=50), expected, 1e-5)
    assert_close(score_cam(model, images[1:2], [3]), every[1:2, 3:], 1e-5)


def test_a_constant_added_to_a_logit_changes_nothing() -> None:
    model = lively("small")
    images = torch.randn(1, 3, 32, 32)
    before = score_cam(model, images, [0])
    with torch.no_grad():
        model.fc.bias += 7.0
    assert_close(score_cam(model, images, [0]), before, 1e-4)


def test_arrays_pixels_and_gradient_modes() -> None:
    model = lively("small")
    pixels = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), np.uint8)
    maps = score_cam(model, models.to_tensor(pixels), [0])
    assert torch.equal(score_cam(model, pixels, [0]), maps)
    with torch.inference_mode():
        assert torch.equal(score_cam(model, models.to_tensor(pixels).numpy(), [0]), maps)


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_as_it_was(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained_halfway()
    images = torch.randn(1, 3, 32, 32)
    before = state(model)
    if fails:
        monkeypatch.setattr("torch.nn.functional.interpolate", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            score_cam(model, images, [0, 1])
    else:
        score_cam(model, images, [0, 1])
    torch.testing.assert_close(state(model), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("images", "targets", "options", "message"),
    [
        (torch.zeros(2, 3, 64, 64), [0, 5], {}, "There is no target 5: the model has 2 outputs"),
        (torch.zeros(2, 3, 64, 64), [-1, 0], {}, "There is no target -1: the model has 2 outputs"),
        (torch.zeros(2, 3, 64, 64), [0.5], {}, "targets must be whole numbers"),
        (torch.zeros(2, 3, 64, 64), np.zeros((3, 1), int), {}, r"\(2, T\) for each of the 2 images, .* not \(3, 1\)"),
        (torch.zeros(0, 3, 64, 64), [0], {}, "There are no images"),
        (torch.zeros(3, 64, 64), [0], {}, "images must be uint8"),
        (torch.zeros(2, 3, 64, 64), [0], {"batch": 0}, "batch must be at least 1, not 0"),
    ],
)
def test_wrong_input_gets_one_sentence(
    images: torch.Tensor, targets: Any, options: dict[str, int], message: str
) -> None:
    with pytest.raises(BiaslibError, match=message):
        score_cam(models.build("small", 2), images, targets, **options)


def test_a_model_without_a_map_is_refused() -> None:
    with pytest.raises(BiaslibError, match="Linear cannot be split into a map and a head"):
        score_cam(nn.Linear(2, 2), torch.zeros(1, 3, 64, 64), [0])
