from typing import Any, get_args

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from torch import nn

from biaslib import models
from biaslib.attribution import completeness_gap, integrated_gradients
from biaslib.attribution.integrated_gradients import Rule, _closing
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
    shares = integrated_gradients(model, images.float(), [1, 3], steps=16, rule="trapezoid", signed=True, batch=5)
    # captum's weights add up to 15/16: it divides 15 intervals by their 16 ends
    assert_close(shares, torch.stack(expected, 1).float() * 16 / 15, 1e-5)


@pytest.mark.parametrize("architecture", ["small", "efficientnet_b0", "mobilenetv1_100", "small_mobilenet"])
def test_the_shares_add_up(architecture: str) -> None:
    torch.manual_seed(0)
    model = models.build(architecture, 2)
    images = smooth_images(1)
    shares = integrated_gradients(model, images, [0, 1], signed=True)
    gap = completeness_gap(model, images, [0, 1], shares)
    assert gap.shape == (1, 2)
    assert gap.max() <= 0.01


class Powers(nn.Module):
    """Of the first colour: its cube, summed; and a wave that is 0 with the same slope at 0 and at 1."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = images[:, 0]
        return torch.stack([first**3, torch.sin(2 * torch.pi * first)], -1).sum((1, 2))


def test_what_two_points_can_say() -> None:
    images, black = torch.ones(1, 3, 2, 2), torch.zeros(3, 2, 2)

    def share(rule: Any, target: int) -> torch.Tensor:
        found = integrated_gradients(Powers(), images, [target], steps=2, baseline=black, rule=rule, signed=True)
        return found[0, 0, 0]

    # the slope of the cube is 0 at one end and 3 at the other: half of each, or what adds up to 1
    torch.testing.assert_close(share("trapezoid", 0), torch.full((2, 2), 1.5))
    torch.testing.assert_close(share("adaptive", 0), torch.full((2, 2), 1.0))
    # both ends of the wave have the slope of 2 pi: no weights of the two make 0 of it
    torch.testing.assert_close(share("adaptive", 1), torch.full((2, 2), 2 * torch.pi))


def test_an_interval_that_has_given_all_leaves_the_rest_to_the_others() -> None:
    ways = torch.tensor([0.0, 0.1, 0.5, 1.0], dtype=torch.double)
    sums = torch.tensor([[0.0, 9.0, 8.0, 3.0]], dtype=torch.double)
    even = float(torch.trapezoid(sums, ways))
    for difference in (even - 0.5, even + 0.5, even + 1.3):
        weights = _closing(ways, sums, torch.tensor([difference], dtype=torch.double))
        assert float((weights * sums).sum()) == pytest.approx(difference)
        assert weights.min() >= 0
        assert float(weights.sum()) == pytest.approx(1)


class Balanced(nn.Module):
    """Answers whose shares change along the way while their sum does not, but for rounding."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        squares = images[:, 0].square() - images[:, 1].square() + 0.3 * images[:, 2]
        return squares.sum((1, 2))[:, None]


def test_rounding_moves_no_weight() -> None:
    one = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    images, black = torch.cat([one, one.flip(3), 1 - one], 1), torch.zeros(3, 8, 8)
    shares = integrated_gradients(Balanced(), images, [0], steps=17, baseline=black, signed=True)
    expected = torch.cat([one.square(), -one.flip(3).square(), 0.3 * (1 - one)], 1)
    assert_close(shares, expected[:, None], 1e-6)


@pytest.mark.parametrize(("weights", "logits"), [(torch.bfloat16, torch.float32), (torch.float32, torch.float64)])
def test_logits_may_be_wider_than_weights(weights: torch.dtype, logits: torch.dtype) -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small = models.build("small", 2).to(weights)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.small(images).to(logits)

    for rule in get_args(Rule):
        maps = integrated_gradients(Wide().eval(), smooth_images(1), [0, 1], steps=20, rule=rule)
        assert maps.dtype == torch.float32
        assert maps.isfinite().all()


class Step(nn.Module):
    """A steep step where the first colour is a quarter."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(40 * (images[:, :1].mean((2, 3)) - 0.25))


def test_no_weight_is_negative() -> None:
    ways = torch.tensor([0.0, 0.5, 1.0])
    slopes = 40 * torch.sigmoid(40 * (ways - 0.25)) * torch.sigmoid(-40 * (ways - 0.25))
    options: Any = {"steps": 3, "baseline": torch.zeros(3, 1, 1), "signed": True}
    shares = integrated_gradients(Step(), torch.ones(1, 3, 1, 1), [0], **options)
    # the three points miss the step, and no mean of their slopes is as large as the whole step of 1
    assert slopes.min() <= shares.sum() <= slopes.max() + 1e-6 < 1


def test_adaptive_points_bring_the_map_of_mobilenet_nearer_to_that_of_many() -> None:
    model = lively("mobilenetv1_075")
    images = smooth_images(4)

    def masses(steps: int, rule: Any) -> torch.Tensor:
        maps = integrated_gradients(model, images, [0], steps=steps, rule=rule)
        return maps / maps.sum((2, 3), keepdim=True)

    many = masses(513, "trapezoid")

    def distance(rule: Any) -> torch.Tensor:
        return (masses(64, rule) - many).abs().sum()

    assert distance("adaptive") < distance("trapezoid")


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
    for rule in get_args(Rule):
        all_at_once = integrated_gradients(model, images, range(4), steps=40, batch=100, rule=rule)
        assert_close(integrated_gradients(model, images, range(4), steps=40, batch=7, rule=rule), all_at_once)
        # what else is asked for changes nothing
        assert_close(integrated_gradients(model, images, [2], steps=40, rule=rule), all_at_once[:, 2:3])
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
        (BLACK, [0], {"rule": "simpson"}, "rule must be adaptive or trapezoid, not 'simpson'"),
        (BLACK, [0], {"steps": 1}, "steps must be at least 2 .* not 1"),
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
