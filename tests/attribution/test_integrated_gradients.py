from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from torch import nn

from biaslib import models
from biaslib.attribution import completeness_gap, integrated_gradients
from biaslib.errors import BiaslibError
from tests.attribution.subjects import assert_close, lively, state, trained_halfway

BLACK = models.to_tensor(np.zeros((1, 64, 64, 3), np.uint8))


class Polynomial(nn.Module):
    """The product of the image's first two colours, summed; and its first colour squared, summed."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.stack([(images[:, 0] * images[:, 1]).sum((1, 2)), images[:, 0].square().sum((1, 2))], 1)


def smooth_images(n: int, size: int = 64) -> torch.Tensor:
    """Pictures of a few soft patches, as uint8 pixels would be after normalisation."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(n, 3, 4, 4, generator=generator)
    pixels = nn.functional.interpolate(coarse, (size, size), mode="bicubic").clamp(0, 1)
    return models.to_tensor((pixels * 255).byte().permute(0, 2, 3, 1).numpy())


def test_by_hand() -> None:
    image, base = torch.tensor([3.0, 5.0, 7.0]), torch.tensor([1.0, 2.0, 4.0])
    images, baseline = image[None, :, None, None].expand(1, 3, 1, 2), base[:, None, None].expand(3, 1, 2)
    # the mean of a linear gradient is the one halfway: (3.5, 2) and (4, 0), times the differences 2 and 3
    shares = integrated_gradients(Polynomial(), images, [0, 1], baseline=baseline, signed=True, steps=5)
    torch.testing.assert_close(shares[0, :, :, 0, 1], torch.tensor([[7.0, 6.0, 0.0], [8.0, 0.0, 0.0]]))
    maps = integrated_gradients(Polynomial(), images, [0, 1], baseline=baseline, steps=5)
    torch.testing.assert_close(maps[0, :, 0], torch.tensor([[85.0, 85.0], [64.0, 64.0]]))
    assert maps.dtype == shares.dtype == torch.float32
    gap = completeness_gap(Polynomial(), images, [0, 1], shares, baseline=baseline)
    assert gap.abs().max() < 1e-6
    # half of every share leaves half unexplained
    half = completeness_gap(Polynomial(), images, [0, 1], shares / 2, baseline=baseline)
    torch.testing.assert_close(half, torch.full((1, 2), 0.5))


def test_nothing_to_share_has_no_gap() -> None:
    images = torch.ones(1, 3, 2, 2)
    shares = integrated_gradients(Polynomial(), images, [0], baseline=images[0], signed=True)
    assert shares.abs().max() == 0
    assert completeness_gap(Polynomial(), images, [0], shares, baseline=images).isnan().all()


@pytest.mark.parametrize("architecture", ["small", "test_efficientnet"])
def test_equals_captum(architecture: str) -> None:
    model = lively(architecture).double()
    images = smooth_images(2).double()
    captum = IntegratedGradients(model)
    expected = [
        captum.attribute(images, BLACK.double(), target, n_steps=16, method="riemann_trapezoid") for target in (1, 3)
    ]
    shares = integrated_gradients(model, images.float(), [1, 3], steps=16, signed=True, batch=5)
    # captum's weights add up to 15/16: it divides 15 intervals by their 16 ends
    assert_close(shares, torch.stack(expected, 1).float() * 16 / 15, 1e-5)


@pytest.mark.parametrize(
    ("architecture", "steps"),
    # a fresh MobileNet is jagged: with 64 steps its sum is off by several percent
    [("small", 64), pytest.param("efficientnet_b0", 64, marks=pytest.mark.slow), ("small_mobilenet", 256)],
)
def test_the_shares_add_up(architecture: str, steps: int) -> None:
    torch.manual_seed(0)
    model = models.build(architecture, 2)
    images = smooth_images(1)
    shares = integrated_gradients(model, images, [0, 1], signed=True, steps=steps)
    gap = completeness_gap(model, images, [0, 1], shares)
    assert gap.shape == (1, 2)
    assert gap.max() <= 0.01


class Cube(nn.Module):
    """The first colour to the third power, summed."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images[:, 0] ** 3).sum((1, 2))[:, None]


@pytest.mark.parametrize(("steps", "share"), [(2, 3 / 2), (3, 9 / 8), (5, 33 / 32)])
def test_the_gap_is_the_error_of_the_trapezoid_rule(steps: int, share: float) -> None:
    images, black = torch.ones(1, 3, 2, 2), torch.zeros(3, 2, 2)
    # the slope is 3 alpha^2, so n points give 1 + 1 / (2 (n - 1)^2) of a true share of 1
    shares = integrated_gradients(Cube(), images, [0], steps=steps, baseline=black, signed=True)
    torch.testing.assert_close(shares[0, 0, 0], torch.full((2, 2), share))
    gap = completeness_gap(Cube(), images, [0], shares, baseline=black)
    torch.testing.assert_close(gap, torch.tensor([[share - 1]]))


@pytest.mark.parametrize(("weights", "logits"), [(torch.bfloat16, torch.float32), (torch.float32, torch.float64)])
def test_logits_may_be_wider_than_weights(weights: torch.dtype, logits: torch.dtype) -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small = models.build("small", 2).to(weights)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.small(images).to(logits)

    maps = integrated_gradients(Wide().eval(), smooth_images(1), [0, 1], steps=20)
    assert maps.dtype == torch.float32
    assert maps.isfinite().all()


def test_a_linear_model_has_gradient_times_difference() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 2))
    images = smooth_images(1)
    expected = model[1].weight.view(1, 2, 3, 64, 64) * (images - BLACK)[:, None]
    shares = integrated_gradients(model, images, [0, 1], steps=2, signed=True)
    assert_close(shares, expected.detach(), 1e-5)


def test_pixels_that_are_black_have_no_share() -> None:
    model = lively("small")
    pixels = np.full((1, 64, 64, 3), 200, np.uint8)
    pixels[:, :32] = 0
    maps = integrated_gradients(model, pixels, [0], steps=4)
    assert maps[:, :, :32].abs().max() == 0
    assert maps[:, :, 32:].max() > 0


def test_batches_targets_and_baselines() -> None:
    model = lively("small")
    images = smooth_images(3)
    every = integrated_gradients(model, images, range(4), steps=8, batch=100)
    assert every.shape == (3, 4, 64, 64)
    assert_close(integrated_gradients(model, images, range(4), steps=8, batch=3), every)
    # the last batch of points is not full
    all_at_once = integrated_gradients(model, images, range(4), steps=40, batch=100)
    assert_close(integrated_gradients(model, images, range(4), steps=40, batch=7), all_at_once)
    # what else is asked for changes nothing
    assert_close(integrated_gradients(model, images, [2], steps=40), all_at_once[:, 2:3])
    each = np.array([[0, 3], [2, 2], [1, 0]])
    expected = every[torch.arange(3)[:, None], torch.from_numpy(each)]
    assert_close(integrated_gradients(model, images, each, steps=8), expected)
    assert_close(integrated_gradients(model, images, range(4), steps=8, baseline=BLACK[0]), every)
    assert_close(integrated_gradients(model, images, range(4), steps=8, baseline=BLACK.expand_as(images)), every)
    squared = integrated_gradients(model, images, range(4), steps=8, signed=True).square().sum(2)
    assert_close(squared, every)


def test_works_without_gradients_around_it() -> None:
    model = lively("small")
    images = smooth_images(1)
    expected = integrated_gradients(model, images, [0], steps=4)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            maps = integrated_gradients(model, images * 1.0, [0], steps=4)
        assert torch.equal(maps, expected)
        assert not maps.requires_grad


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_as_it_was(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained_halfway()
    before = state(model)
    if fails:
        monkeypatch.setattr("torch.autograd.grad", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            integrated_gradients(model, smooth_images(1), [0, 1], steps=2)
    else:
        integrated_gradients(model, smooth_images(1), [0, 1], steps=2)
    torch.testing.assert_close(state(model), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("images", "targets", "options", "message"),
    [
        (BLACK, [0, 5], {}, "There is no target 5: the model has 2 outputs"),
        (BLACK, [0.5], {}, "targets must be whole numbers"),
        (BLACK[:0], [0], {}, "There are no images"),
        (BLACK[0], [0], {}, "images must be uint8"),
        (BLACK, [0], {"batch": 0}, "batch must be at least 1, not 0"),
        (BLACK, [0], {"steps": 1}, "steps, .* must be a whole number of at least 2, not 1"),
        (BLACK, [0], {"baseline": np.zeros((3, 8, 8))}, r"baseline must be normalised floats of shape \(3, 64, 64\)"),
        (BLACK, [0], {"baseline": np.zeros((3, 64, 64), int)}, "not torch.int64 of shape .* leave it out for black"),
    ],
)
def test_wrong_input_gets_one_sentence(
    images: torch.Tensor, targets: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BiaslibError, match=message):
        integrated_gradients(models.build("small", 2), images, targets, **options)


def test_pooled_maps_have_no_completeness_gap() -> None:
    with pytest.raises(BiaslibError, match=r"shares must be .* call integrated_gradients with signed=True"):
        completeness_gap(models.build("small", 2), BLACK, [0], torch.zeros(1, 1, 64, 64))
