import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_grad_cam import GradCAM
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from torch import nn

from biaslib import models
from biaslib.attribution import grad_cam
from biaslib.errors import BiaslibError


class Tiny(nn.Module):
    """Two channels of the image are the map; the head is given."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head
        self.batches: list[int] = []

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        self.batches.append(len(images))
        return images[:, :2] * 1.0

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        return self.head(features)


class ChannelsLast(Tiny):
    """As timm's Swin keeps its maps."""

    output_fmt = "NHWC"

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward_features(images).movedim(1, 3)

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward_head(features.movedim(3, 1))


class MeanAndPeak(nn.Module):
    """A head that does not see the map through its mean alone, and changes its input in place."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        features.relu_()
        mean, peak = features.mean((2, 3)), features.amax((2, 3))
        return torch.cat([mean * peak, peak.sin(), mean.cos()], 1)


class FixedSize(nn.Module):
    """A head that insists on the size of its map."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * 6 * 6, 6)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.linear(features.flatten(1)).sigmoid()


def linear_head(outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, outputs))


@functools.cache
def built(architecture: str, hidden: int | None = None) -> nn.Module:
    torch.manual_seed(0)
    return models.build(architecture, 4, hidden=hidden).eval()


def by_definition(model: nn.Module, images: torch.Tensor, targets: Any, absolute: bool) -> torch.Tensor:
    """One backward pass for each target, straight from the formula."""
    forward: Any = model
    features = forward.forward_features(images).detach().requires_grad_()
    logits = forward.forward_head(features * 1.0)
    maps = []
    for target in targets:
        score = logits[:, target].abs() if absolute else logits[:, target]
        (gradient,) = torch.autograd.grad(score.sum(), features, retain_graph=True)
        maps.append((gradient.mean((2, 3), keepdim=True) * features).sum(1).clamp(min=0))
    return torch.stack(maps, 1).detach()


def assert_close(maps: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> None:
    assert maps.shape == expected.shape
    assert expected.max() > 0
    assert (maps - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_by_hand() -> None:
    head = linear_head()
    with torch.no_grad():
        head[2].weight.copy_(torch.tensor([[1.0, -2.0], [3.0, 0.0]]))
        head[2].bias.zero_()
    images = torch.zeros(1, 3, 1, 2)
    images[0, 0] = torch.tensor([[4.0, 2.0]])
    images[0, 1] = torch.tensor([[1.0, 2.0]])
    # logits: 3 - 2 * 1.5 = 0 and 9; weights are the rows divided by h * w = 2
    maps = grad_cam(Tiny(head), images, [0, 1])
    assert maps.tolist() == [[[[1.0, 0.0]], [[6.0, 3.0]]]]
    assert maps.dtype == torch.float32
    # a logit of exactly 0 has no direction
    assert grad_cam(Tiny(head), images, [0], absolute=True).abs().max() == 0
    # a negative one turns its weights around: -9 for these images
    assert grad_cam(Tiny(head), -images, [1]).abs().max() == 0
    assert grad_cam(Tiny(head), -images, [1], absolute=True).tolist() == [[[[6.0, 3.0]]]]


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(
    ("architecture", "layer", "hidden"),
    [
        ("resnet18", "layer4", None),
        ("resnet50", "layer4", 2048),
        ("tf_efficientnetv2_s", "bn2", None),
        ("mobilenetv1_100", "blocks", None),
    ],
)
def test_equals_the_grad_cam_library(architecture: str, layer: str, hidden: int | None, absolute: bool) -> None:
    model = built(architecture, hidden)
    images = torch.randn(2, 3, 64, 64)
    raw = []
    with GradCAM(model, [model.get_submodule(layer)]) as library:
        for target in range(4):
            explain = (lambda logits, k=target: logits[k].abs()) if absolute else ClassifierOutputTarget(target)
            library(images, [explain, explain])
            activations = library.activations_and_grads.activations[0].numpy()
            gradients = library.activations_and_grads.gradients[0].numpy()
            raw.append(library.get_cam_image(images, model.get_submodule(layer), [], activations, gradients))
    expected = torch.from_numpy(np.stack(raw, axis=1)).clamp(min=0)
    assert_close(grad_cam(model, images, range(4), absolute=absolute), expected)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(
    "architecture",
    [
        "small",
        "mobilenetv3_small_050",  # layers between the pooling and the classifier
        "convnext_atto",  # a normalisation between them
    ],
)
def test_equals_the_definition_whatever_the_head(architecture: str, absolute: bool) -> None:
    model = built(architecture)
    images = torch.randn(3, 3, 64, 64)
    assert_close(
        grad_cam(model, images, range(4), absolute=absolute, batch=2),
        by_definition(model, images, range(4), absolute),
    )


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("head", [linear_head(6), MeanAndPeak(), FixedSize()])
def test_heads_that_pool_otherwise(head: nn.Module, absolute: bool) -> None:
    model = Tiny(head).double().eval()
    images = torch.rand(5, 3, 6, 6, dtype=torch.float64)
    assert_close(
        grad_cam(model, images.float(), range(6), absolute=absolute),
        by_definition(model, images.float().double(), range(6), absolute).float(),
        1e-6,
    )


def test_channels_may_come_last() -> None:
    images = torch.rand(2, 3, 4, 5)
    for head in (linear_head(3), MeanAndPeak()):
        assert_close(grad_cam(ChannelsLast(head), images, range(3)), grad_cam(Tiny(head), images, range(3)))


def test_batches_change_nothing_and_each_image_goes_through_once() -> None:
    model = Tiny(linear_head(5))
    images = torch.randn(7, 3, 4, 4)
    whole = grad_cam(model, images, range(5))
    assert model.batches == [7]
    torch.testing.assert_close(grad_cam(model, images, range(5), batch=3), whole)
    assert model.batches == [7, 3, 3, 1]


def test_more_targets_than_places_are_split() -> None:
    model = Tiny(linear_head(50)).eval()
    images = torch.randn(2, 3, 2, 3)
    assert_close(grad_cam(model, images, range(50)), by_definition(model, images, range(50), False))


def test_targets_of_each_image() -> None:
    model = models.build("small", 4)
    images = torch.randn(3, 3, 64, 64)
    every = grad_cam(model, images, range(4))
    each = np.array([[0, 3], [2, 2], [1, 0]])
    expected = every[torch.arange(3)[:, None], torch.from_numpy(each)]
    torch.testing.assert_close(grad_cam(model, images, each, batch=2), expected)
    torch.testing.assert_close(grad_cam(model, images, torch.from_numpy(each)), expected)


def test_scaling_the_logit_scales_the_map() -> None:
    model = models.build("small", 2)
    images = torch.randn(2, 3, 64, 64)
    before = grad_cam(model, images, [0, 1], absolute=True)
    with torch.no_grad():
        model.fc.weight *= 3.0
        model.fc.bias *= 3.0
    assert_close(grad_cam(model, images, [0, 1], absolute=True), 3 * before)


def test_arrays_and_pixels_are_taken_too() -> None:
    model = models.build("small", 2)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
    maps = grad_cam(model, models.to_tensor(pixels), [0])
    assert torch.equal(grad_cam(model, models.to_tensor(pixels).numpy(), [0]), maps)
    assert torch.equal(grad_cam(model, pixels, [0]), maps)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_works_inside_any_gradient_mode(mode: Callable[[], Any]) -> None:
    model = models.build("small", 2)
    images = torch.randn(2, 3, 64, 64)
    expected = grad_cam(model, images, [0, 1])
    with mode():
        maps = grad_cam(model, images * 1.0, [0, 1])
    assert torch.equal(maps, expected)
    assert not maps.requires_grad


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_as_it_was(fails: bool) -> None:
    model = models.build("resnet10t", 2, hidden=4).train()
    model.get_submodule("layer1").eval()
    model.get_parameter("conv1.0.weight").requires_grad_(False)
    model(torch.randn(2, 3, 64, 64)).sum().backward()

    def state() -> list[Any]:
        return [
            [module.training for module in model.modules()],
            [(value.requires_grad, None if value.grad is None else value.grad.clone()) for value in model.parameters()],
            [value.clone() for value in model.state_dict().values()],
            [len(module._forward_hooks) + len(module._backward_hooks) for module in model.modules()],
        ]

    before = state()
    images = torch.randn(2, 3, 64, 64)
    if fails:
        with pytest.raises(BiaslibError, match="no target 2"):
            grad_cam(model, images, [0, 2])
    else:
        grad_cam(model, images, [0, 1])
    torch.testing.assert_close(state(), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("images", "targets", "message"),
    [
        (torch.zeros(2, 3, 64, 64), [0, 5], "There is no target 5: the model has 2 outputs"),
        (torch.zeros(2, 3, 64, 64), [-1, 0], "There is no target -1: the model has 2 outputs"),
        (torch.zeros(2, 3, 64, 64), [0.5], "targets must be whole numbers"),
        (torch.zeros(2, 3, 64, 64), [True], "targets must be whole numbers"),
        (torch.zeros(2, 3, 64, 64), [], "targets must be"),
        (torch.zeros(2, 3, 64, 64), np.zeros((2, 0), int), r"with T >= 1, not \(2, 0\)"),
        (torch.zeros(2, 3, 64, 64), np.zeros((3, 1), int), r"\(2, T\) for each of the 2 images, .* not \(3, 1\)"),
        (torch.zeros(2, 3, 64, 64), 0, r"not \(\)"),
        (torch.zeros(0, 3, 64, 64), [0], "There are no images"),
        (torch.zeros(3, 64, 64), [0], "images must be uint8"),
        (torch.zeros(2, 64, 64, 3), [0], "images must be uint8"),
    ],
)
def test_wrong_input_gets_one_sentence(images: torch.Tensor, targets: Any, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        grad_cam(models.build("small", 2), images, targets)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(BiaslibError, match="batch must be at least 1, not 0"):
        grad_cam(models.build("small", 2), torch.zeros(2, 3, 64, 64), [0], batch=0)


def test_a_model_without_a_map_is_refused() -> None:
    images = torch.zeros(1, 3, 64, 64)
    with pytest.raises(BiaslibError, match="Linear cannot be split into a map and a head"):
        grad_cam(nn.Linear(2, 2), images, [0])
    with pytest.raises(BiaslibError, match=r"The model has no map .*needs a convolutional"):
        grad_cam(models.build("test_vit", 2), torch.zeros(1, 3, 160, 160), [0])
