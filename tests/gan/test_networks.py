"""The growing networks: their layers by the identities that define them."""

import pytest
import torch
from torch.nn import functional as F

from biaslib.errors import BiaslibError
from biaslib.gan.networks import (
    Critic,
    GeneratorNetwork,
    _EqualizedConv,
    _EqualizedLinear,
    _with_minibatch_deviation,
    pixel_norm,
)

WIDTHS = (16, 12, 8)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def test_equalised_layers_keep_unit_variance():
    assert _EqualizedLinear(300, 400)(torch.randn(500, 300)).var().item() == pytest.approx(1, rel=0.05)
    inside = _EqualizedConv(64, 64)(torch.randn(8, 64, 16, 16))[..., 1:-1, 1:-1]  # the border sees zeros
    assert inside.var().item() == pytest.approx(1, rel=0.05)
    louder = _EqualizedLinear(300, 400, gain=2)(torch.randn(500, 300))
    assert louder.var().item() == pytest.approx(4, rel=0.05)


def test_an_equalised_layer_is_an_ordinary_one_with_scaled_weights():
    layer = _EqualizedConv(5, 7)
    images = torch.randn(2, 5, 6, 6)
    ordinary = F.conv2d(images, layer.weight / (5 * 9) ** 0.5, layer.bias, padding=1)
    torch.testing.assert_close(layer(images), ordinary)


def test_pixel_norm_has_unit_root_mean_square():
    norms = pixel_norm(3 * torch.randn(4, 32, 5, 5)).square().mean(dim=1).sqrt()
    torch.testing.assert_close(norms, torch.ones(4, 5, 5))


def test_the_deviation_channel_is_zero_for_identical_images_and_by_hand_otherwise():
    same = torch.randn(1, 3, 4, 4).expand(4, 3, 4, 4)
    assert _with_minibatch_deviation(same)[:, 3].abs().max() < 1e-6
    apart = torch.tensor([0.0, 2.0, 0.0, 2.0]).reshape(4, 1, 1, 1).expand(4, 3, 4, 4)
    torch.testing.assert_close(_with_minibatch_deviation(apart)[:, 3], torch.full((4, 4, 4), 1.0), atol=2e-4, rtol=0)
    torch.testing.assert_close(_with_minibatch_deviation(apart)[:, :3], apart)


def test_the_deviation_of_a_group_is_its_own():
    images = torch.zeros(8, 2, 4, 4)
    images[[1, 3]] = 6.0  # of the group 1, 3, 5, 7
    channel = _with_minibatch_deviation(images)[:, 2, 0, 0]
    torch.testing.assert_close(channel[1::2], torch.full((4,), 3.0), atol=1e-3, rtol=0)
    assert channel[::2].abs().max() < 1e-6


@pytest.mark.parametrize("level", [0, 1, 2])
def test_sizes_double_at_every_level(level):
    generator, critic = GeneratorNetwork(latent=10, widths=WIDTHS), Critic(widths=WIDTHS)
    images = generator(torch.randn(3, 10), level=level)
    assert images.shape == (3, 3, 4 * 2**level, 4 * 2**level)
    assert critic(images, level=level).shape == (3,)


def test_fading_in_begins_with_the_smaller_network_and_ends_with_the_larger_one():
    generator, critic = GeneratorNetwork(latent=10, widths=WIDTHS), Critic(widths=WIDTHS)
    codes, images = torch.randn(4, 10), torch.randn(4, 3, 16, 16)
    smaller = F.interpolate(generator(codes, level=1), scale_factor=2, mode="nearest")
    assert torch.equal(generator(codes, level=2, alpha=0.0), smaller)
    assert torch.equal(generator(codes, level=2, alpha=1.0), generator(codes, level=2))
    assert torch.equal(critic(images, level=2, alpha=0.0), critic(F.avg_pool2d(images, 2), level=1))
    assert torch.equal(critic(images, level=2, alpha=1.0), critic(images, level=2))
    almost = generator(codes, level=2, alpha=1 - 1e-6)  # the mixture itself ends there, not only the short cut
    torch.testing.assert_close(almost, generator(codes, level=2), atol=1e-4, rtol=1e-4)


def test_only_the_direction_of_a_code_counts():
    generator, codes = GeneratorNetwork(latent=10, widths=WIDTHS), torch.randn(2, 10)
    torch.testing.assert_close(generator(codes), generator(3 * codes), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_named():
    generator, critic = GeneratorNetwork(latent=10, widths=WIDTHS), Critic(widths=WIDTHS)
    with pytest.raises(BiaslibError, match=r"Latent codes must be \(N, 10\) for this generator, not \(2, 12\)"):
        generator(torch.zeros(2, 12))
    with pytest.raises(BiaslibError, match=r"level must be a whole number in \[0, 2\], not 3"):
        generator(torch.zeros(2, 10), level=3)
    with pytest.raises(BiaslibError, match=r"At level 1 images are \(N, 3, 8, 8\), not \(2, 3, 16, 16\)"):
        critic(torch.zeros(2, 3, 16, 16), level=1)


def test_a_doubled_convolution_is_one_of_repeated_pixels():
    layer = _EqualizedConv(3, 5, doubled=True)
    features = torch.randn(2, 3, 4, 6)
    repeated = features.repeat_interleave(2, 2).repeat_interleave(2, 3)
    expected = F.conv2d(repeated, layer.weight * layer.scale, layer.bias, padding=1)
    torch.testing.assert_close(layer(features), expected)
