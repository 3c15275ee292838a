"""The encoder, on a generator whose codes can be read off its images."""

import numpy as np
import pytest
import torch

from biaslib.errors import BiaslibError
from biaslib.gan.networks import Encoder, GeneratorNetwork, pixel_norm
from biaslib.gan.training import EncoderConfig, as_pixels, encoded, latent_correlation, train_encoder

QUICK = EncoderConfig(widths=(16,), images=4000, batch=50)


class Painter(GeneratorNetwork):
    """Two numbers of the code are the shades of the upper and the lower half."""

    def __init__(self):
        super().__init__(latent=2, widths=(4, 4))

    def forward(self, codes, *, level=None, alpha=1.0):
        shades = pixel_norm(codes) / 1.5
        rows = shades.repeat_interleave(4, dim=1)
        return rows[:, None, :, None].expand(-1, 3, 8, 8)


def test_what_can_be_seen_is_recovered(tmp_path):
    painter = Painter()
    encoder = train_encoder(painter, QUICK, checkpoint=tmp_path / "encoder.pt")
    assert latent_correlation(encoder, painter).min() > 0.95
    codes = pixel_norm(torch.randn(20, 2, generator=torch.Generator().manual_seed(1)))
    found = encoded(encoder, as_pixels(painter(codes)))
    np.testing.assert_allclose(found, codes, atol=0.35)
    np.testing.assert_allclose(np.square(found).mean(axis=1), 1, rtol=1e-4)


def test_what_cannot_be_seen_is_not(tmp_path):
    painter = Painter()
    painter.forward = lambda codes, **_: torch.zeros(len(codes), 3, 8, 8)
    config = EncoderConfig(widths=(16,), images=200, batch=50)
    encoder = train_encoder(painter, config, checkpoint=tmp_path / "encoder.pt")
    assert np.abs(np.nan_to_num(latent_correlation(encoder, painter))).max() < 0.2


def test_the_same_seed_gives_the_same_encoder_and_leaves_the_random_state_alone(tmp_path):
    painter, before = Painter(), torch.get_rng_state()
    config = EncoderConfig(widths=(8,), images=100, batch=50)
    first, again = (train_encoder(painter, config, checkpoint=tmp_path / name) for name in ("first.pt", "again.pt"))
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(BiaslibError, match="2 widths bring images of 16 px down to 4, not those of 32"):
        Encoder(latent=8, size=32, widths=(8, 8))
