"""An encoder: from an image back to the latent code that a generator would draw it from (Denton et al. 2019, 4.1)."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from tqdm import trange

from biaslib import models
from biaslib.errors import refused
from biaslib.gan.networks import GeneratorNetwork, pixel_norm
from biaslib.training.loop import Resumable, resumed

_CHECKPOINTS: Final = 20  # in a whole training


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How an encoder is trained, on images that the generator draws on the way."""

    widths: tuple[int, ...] = (48, 96, 128)  #: channels after each halving of the image, down to 4 pixels
    images: int = 60_000  #: how many are drawn in all
    batch: int = 64  #: images a step
    learning_rate: float = 2e-3  #: its peak, of Adam with one cycle
    seed: int = 0  #: of the initial weights and the codes


class Encoder(nn.Module):
    """Images to codes of unit root mean square, the only ones that a generator of pixel-normed codes can tell apart.

    A code has `latent` numbers, an image `size` pixels a side, which the `widths` bring to 4, else a `BiaslibError`.
    """

    def __init__(self, *, latent: int, size: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        if size != 4 * 2 ** len(widths):
            raise refused("widths for another size", widths=len(widths), read=4 * 2 ** len(widths), size=size)
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths), widths, strict=False):
            convolution = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(width), nn.LeakyReLU(0.2)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(widths[-1] * 16, 256), nn.LeakyReLU(0.2), nn.Linear(256, latent)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, size, size), about in [-1, 1] -> (N, latent)."""
        return pixel_norm(self.head(self.features(images)))


def train_encoder(generator: GeneratorNetwork, config: EncoderConfig, *, checkpoint: Path) -> Encoder:
    """Trains an encoder on pairs of codes and the images drawn from them, by the distance between normalised codes.

    The generator, in evaluation mode, normalises its codes, so their lengths cannot be seen in an image. `checkpoint`
    is a file that the training is kept in, from which a killed one goes on and ends with the same weights; the caller
    removes it. The encoder comes back in evaluation mode, on the device that it was trained on.
    """
    steps = max(1, config.images // config.batch)
    every = math.ceil(steps / _CHECKPOINTS)
    with torch.random.fork_rng():
        run = resumed(lambda: _Run.start(generator, config, steps), checkpoint)
        for _ in trange(
            run.step, steps, initial=run.step, total=steps, desc="training the encoder",
            disable=not sys.stderr.isatty(),
        ):  # fmt: skip
            run.train_step(generator, config.batch)
            if run.step % every == 0 or run.step == steps:
                run.save(checkpoint)
    return run.encoder.eval()


@dataclass
class _Run(Resumable):
    encoder: Encoder
    optimiser: torch.optim.Optimizer
    rate: torch.optim.lr_scheduler.LRScheduler
    step: int = 0
    with_state = ("encoder", "optimiser", "rate")
    progress = ("step",)

    @classmethod
    def start(cls, generator: GeneratorNetwork, config: EncoderConfig, steps: int) -> "_Run":
        device, size = models.device(), 4 * 2 ** (len(generator.widths) - 1)
        torch.manual_seed(config.seed)
        encoder = Encoder(latent=generator.latent, size=size, widths=config.widths).to(device)
        optimiser = torch.optim.Adam(encoder.parameters(), lr=config.learning_rate)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, total_steps=steps + 1)
        return cls(device, encoder, optimiser, rate)

    def train_step(self, generator: GeneratorNetwork, batch: int) -> None:
        codes = torch.randn(batch, generator.latent)
        with torch.no_grad():
            images = generator(codes.to(next(generator.parameters()).device)).to(self.device)
        loss = (self.encoder(images) - pixel_norm(codes).to(self.device)).norm(dim=1).mean()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        self.rate.step()
        self.step += 1


@torch.inference_mode()
def encoded(encoder: Encoder, pixels: np.ndarray) -> np.ndarray:
    """Codes (N, latent) float32 of uint8 images (N, size, size, 3)."""
    place = next(encoder.parameters()).device
    # more images at once than 64 leave a CPU's cache
    parts = (torch.from_numpy(np.ascontiguousarray(pixels[i : i + 64])) for i in range(0, len(pixels), 64))
    return torch.cat([encoder(part.to(place).movedim(3, 1).float() / 127.5 - 1) for part in parts]).cpu().numpy()


@torch.inference_mode()
def latent_correlation(encoder: Encoder, generator: GeneratorNetwork) -> np.ndarray:
    """(latent,) correlations, over 1,000 new images, of each number of the code with what the encoder makes of it."""
    codes = torch.randn(1000, generator.latent, generator=torch.Generator().manual_seed(0))
    place = next(generator.parameters()).device
    found = torch.cat([encoder(generator(part.to(place))) for part in codes.split(256)]).cpu()
    wanted = pixel_norm(codes)
    found, wanted = (part - part.mean(0) for part in (found, wanted))
    return ((found * wanted).sum(0) / (found.norm(dim=0) * wanted.norm(dim=0))).numpy()
