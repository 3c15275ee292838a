"""A generator and its critic trained against each other while both grow (Karras et al. 2018), and then its encoder."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F
from tqdm import trange

from biaslib import models
from biaslib.errors import BiaslibError, check_known, refused
from biaslib.gan.networks import Critic, Encoder, GeneratorNetwork, pixel_norm
from biaslib.training.config import autocast
from biaslib.training.loop import Resumable, resumed

_CHECKPOINTS: Final = 20  # in a whole training of an encoder
_Answers = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class GanConfig:
    """How a generator is grown; the defaults are those of the paper's recipe in a size that two cores can train.

    The loss is "wgan-gp" (Gulrajani et al. 2017, with Karras et al.'s drift term) or "r1" (softplus and R1, Mescheder
    et al. 2018). The weight of the gradient penalty is 10 for WGAN-GP and 0.5 for R1 with gamma 1. Both Adam optimisers
    have betas 0 and 0.99 and begin anew at every level. The generator with averaged weights is the result.
    """

    latent: int = 128  #: length of a code
    widths: tuple[int, ...] = (128, 96, 64, 32)  #: channels at 4, 8, 16, ... pixels
    #: for each level the shares of the images shown while it is faded in and after that; they sum to 1
    growth: tuple[tuple[float, float], ...] = ((0.0, 0.08), (0.08, 0.08), (0.12, 0.14), (0.15, 0.35))
    images: int = 240_000  #: how many real images are shown in all, each as often as it comes up
    batch: int = 16  #: images a step
    loss: str = "wgan-gp"  #: or "r1"
    penalty: float = 10.0  #: the weight of the gradient penalty
    penalty_every: int = 1  #: steps from one penalty to the next, which weighs as many times as much
    drift: float = 1e-3  #: keeps the critic's answers to real images near 0; WGAN-GP only
    learning_rate: float = 1e-3  #: of both optimisers
    decay: float = 0.0  #: the last share of training over which the learning rate falls to 0
    average: float = 0.995  #: of the weights, what is left of the old mean a step
    mirror: bool = False  #: whether half of the real images, drawn by lot, are shown mirrored
    chunks: int = 40  #: checkpoints, and rows of the log
    precision: str = "auto"  #: float32, bfloat16, or auto
    seed: int = 0  #: of the initial weights, the order, the codes and the mixtures

    def __post_init__(self) -> None:
        check_known("loss", self.loss, ("wgan-gp", "r1"))
        if len(self.growth) != len(self.widths):
            raise refused("levels that differ", growth=len(self.growth), widths=len(self.widths))
        total = sum(map(sum, self.growth))
        if not math.isclose(total, 1.0, abs_tol=1e-6) or min(map(min, self.growth)) < 0:
            raise BiaslibError(f"The shares of growth must be at least 0 and sum to 1, not to {total:g}.")
        if self.batch < 2 or self.images < self.batch * self.chunks or self.chunks < 1:
            raise refused("too few images to grow with", config=self)

    @property
    def size(self) -> int:
        """Height and width of the finished images."""
        return int(4 * 2 ** (len(self.widths) - 1))

    def stage(self, shown: int) -> tuple[int, float]:
        """The level in training after so many images, and how far it is faded in, in [0, 1]."""
        start = 0
        for level, shares in enumerate(self.growth):
            fading, stable = (round(share * self.images) for share in shares)
            if shown < start + fading:
                return level, (shown - start) / fading
            start += fading + stable
            if shown < start:
                return level, 1.0
        return len(self.growth) - 1, 1.0


def grow(images: np.ndarray, config: GanConfig, *, checkpoint: Path) -> tuple[GeneratorNetwork, list[dict[str, float]]]:
    """Trains a generator of images (N, size, size, 3) uint8, as large as the configuration's last level.

    `checkpoint` is a file that the training is kept in after every chunk, from which a killed one goes on and ends with
    the same weights; the caller removes it. The generator, with averaged weights, comes back in evaluation mode, on the
    device that it was trained on; and a row a chunk: the `images` shown, `level`, `alpha`, the mean losses of `critic`
    and `generator`. Images of another size or type, or fewer than a batch, are a `BiaslibError`.
    """
    _check_images(images, config)
    with torch.random.fork_rng():
        run = resumed(lambda: _Run.start(config), checkpoint)
        for _ in _bar(run.chunk, config.chunks, f"growing to {config.size} px, seed {config.seed}", unit="chunk"):
            run.train_chunk(images)
            run.save(checkpoint)
    return run.averaged.eval(), run.log


def _gradient_penalty(critic: _Answers, real: torch.Tensor, fake: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    r"""How far the critic's slope is from 1 between real and generated images (Gulrajani et al. 2017, eq. 3).

    $$\mathbb{E}\big[(\lVert \nabla_{\hat x} D(\hat x) \rVert_2 - 1)^2\big],
      \qquad \hat x = \epsilon x + (1 - \epsilon) \tilde x$$

    Shares (N,) in [0, 1] are those of the real image in each mixture.
    """
    mixed = torch.lerp(fake, real, shares.reshape(-1, *[1] * (real.ndim - 1))).detach().requires_grad_(True)
    return (_slopes(critic, mixed).norm(dim=1) - 1).square().mean()


def _r1_penalty(critic: _Answers, real: torch.Tensor) -> torch.Tensor:
    """The mean squared slope of the critic at real images (Mescheder et al. 2018, eq. 9, without its factor)."""
    return _slopes(critic, real.detach().requires_grad_(True)).square().sum(dim=1).mean()


def as_pixels(images: torch.Tensor) -> np.ndarray:
    """Generated images (N, 3, h, w), about in [-1, 1], to uint8 pixels (N, h, w, 3)."""
    scaled = ((images.detach().float().cpu().movedim(1, 3) + 1) * 127.5).round().clamp(0, 255)
    return scaled.to(torch.uint8).numpy()


@dataclass
class _Run(Resumable):
    config: GanConfig
    generator: GeneratorNetwork
    averaged: GeneratorNetwork
    critic: Critic
    of_critic: torch.optim.Optimizer
    of_generator: torch.optim.Optimizer
    chunk: int = 0
    step: int = 0
    log: list[dict[str, float]] = field(default_factory=list)
    with_state = ("generator", "averaged", "critic", "of_critic", "of_generator")
    progress = ("chunk", "step", "log")

    @classmethod
    def start(cls, config: GanConfig) -> "_Run":
        device = models.device()
        torch.manual_seed(config.seed)
        generator = GeneratorNetwork(latent=config.latent, widths=config.widths).to(device)
        critic = Critic(widths=config.widths).to(device)
        for network in (generator, critic):
            network.to(memory_format=torch.channels_last)
        options: dict[str, Any] = {"lr": config.learning_rate, "betas": (0.0, 0.99), "fused": True}
        of_critic = torch.optim.Adam(critic.parameters(), **options)
        of_generator = torch.optim.Adam(generator.parameters(), **options)
        return cls(device, config, generator, copy.deepcopy(generator), critic, of_critic, of_generator)

    def train_chunk(self, images: np.ndarray) -> None:
        config = self.config
        # one seed a chunk, so that a resumed run draws what an unbroken one would have drawn
        seed = int(np.random.SeedSequence([config.seed, self.chunk]).generate_state(1)[0])
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        last = config.images * (self.chunk + 1) // config.chunks
        losses = []
        while self.step * config.batch < last:
            level, alpha = config.stage(self.step * config.batch)
            new = self.step > 0 and level != config.stage((self.step - 1) * config.batch)[0]
            left = 1 - self.step * config.batch / config.images
            rate = config.learning_rate * (min(1.0, left / config.decay) if config.decay else 1.0)
            for optimiser in (self.of_critic, self.of_generator):
                if new:  # as in the paper's recipe: what was learnt of gradients at the old size is forgotten
                    optimiser.state.clear()
                for group in optimiser.param_groups:
                    group["lr"] = rate
            rows = np.sort(rng.choice(len(images), config.batch, replace=False))
            shown = images[rows]
            if config.mirror:
                turned = rng.random(config.batch) < 0.5
                shown = np.where(turned[:, None, None, None], shown[:, :, ::-1], shown)
            losses.append(self._step(self._real(shown, level, alpha), level, alpha))
        self.chunk += 1
        critic, generator = np.mean(losses, axis=0)
        row = {"images": last, "level": level, "alpha": alpha, "critic": critic, "generator": generator}
        self.log.append({name: float(value) for name, value in row.items()})

    def _real(self, pixels: np.ndarray, level: int, alpha: float) -> torch.Tensor:
        """Real images as the level sees them: those of the level below, enlarged, fade out with its own."""
        images = torch.from_numpy(pixels).to(self.device).movedim(3, 1).float() / 127.5 - 1
        images = F.avg_pool2d(images, self.config.size // (4 * 2**level))
        if alpha < 1:
            images = torch.lerp(F.interpolate(F.avg_pool2d(images, 2), scale_factor=2, mode="nearest"), images, alpha)
        return images.contiguous(memory_format=torch.channels_last)

    def _step(self, real: torch.Tensor, level: int, alpha: float) -> tuple[float, float]:
        config = self.config

        def judged(images: torch.Tensor) -> torch.Tensor:
            with autocast(self.critic, config.precision, self.device):
                return self.critic(images, level=level, alpha=alpha).float()

        def drawn() -> torch.Tensor:
            codes = torch.randn(config.batch, config.latent, device=self.device)
            with autocast(self.generator, config.precision, self.device):
                return self.generator(codes, level=level, alpha=alpha).float()

        with torch.no_grad():
            fake = drawn()
        # apart, because the critic compares the images of a batch
        critic_loss = _critic_loss(judged(real), judged(fake), config)
        total = critic_loss
        if self.step % config.penalty_every == 0:
            total = total + config.penalty * config.penalty_every * self._penalty(judged, real, fake)
        self.of_critic.zero_grad(set_to_none=True)
        total.backward()
        self.of_critic.step()

        self.critic.requires_grad_(False)
        answer = judged(drawn())
        loss = -answer.mean() if config.loss == "wgan-gp" else F.softplus(-answer).mean()
        self.of_generator.zero_grad(set_to_none=True)
        loss.backward()
        self.of_generator.step()
        self.critic.requires_grad_(True)
        with torch.no_grad():
            for mean, now in zip(self.averaged.parameters(), self.generator.parameters(), strict=True):
                mean.lerp_(now, 1 - config.average)
        self.step += 1
        return float(critic_loss.detach()), float(loss.detach())

    def _penalty(self, judged: _Answers, real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        if self.config.loss == "r1":
            return _r1_penalty(judged, real)
        return _gradient_penalty(judged, real, fake, torch.rand(len(real), device=self.device))


def _critic_loss(real: torch.Tensor, fake: torch.Tensor, config: GanConfig) -> torch.Tensor:
    if config.loss == "wgan-gp":
        return fake.mean() - real.mean() + config.drift * real.square().mean()
    return F.softplus(fake).mean() + F.softplus(-real).mean()


def _slopes(critic: _Answers, images: torch.Tensor) -> torch.Tensor:
    """(N, pixels) gradients that can themselves be differentiated."""
    (slopes,) = torch.autograd.grad(critic(images).sum(), images, create_graph=True)
    return slopes.flatten(1)


def _bar(done: int, total: int, doing: str, unit: str = "it") -> Any:
    return trange(done, total, initial=done, total=total, desc=doing, disable=None, unit=unit)


def _check_images(images: Any, config: GanConfig) -> None:
    wanted = (config.size, config.size, 3)
    if getattr(images, "dtype", None) != np.uint8 or images.shape[1:] != wanted:
        found = f"{getattr(images, 'dtype', type(images).__name__)} {getattr(images, 'shape', '')}"
        raise BiaslibError(f"images must be uint8 (N, {config.size}, {config.size}, 3) for these widths, not {found}.")
    if len(images) < config.batch:
        raise BiaslibError(f"There are {len(images)} images and a batch of {config.batch}: give more images.")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """How an encoder is trained, on images that the generator draws on the way."""

    widths: tuple[int, ...] = (48, 96, 128)  #: channels after each halving of the image, down to 4 pixels
    images: int = 60_000  #: how many are drawn in all
    batch: int = 64  #: images a step
    learning_rate: float = 2e-3  #: its peak, of Adam with one cycle
    seed: int = 0  #: of the initial weights and the codes


def train_encoder(generator: GeneratorNetwork, config: EncoderConfig, *, checkpoint: Path) -> Encoder:
    """Trains an encoder on pairs of codes and the images drawn from them, by the distance between normalised codes.

    The generator, in evaluation mode, normalises its codes, so their lengths cannot be seen in an image. `checkpoint`
    is a file that the training is kept in, from which a killed one goes on and ends with the same weights; the caller
    removes it. The encoder comes back in evaluation mode, on the device that it was trained on.
    """
    steps = max(1, config.images // config.batch)
    every = math.ceil(steps / _CHECKPOINTS)
    with torch.random.fork_rng():
        run = resumed(lambda: _EncoderRun.start(generator, config, steps), checkpoint)
        for _ in _bar(run.step, steps, "training the encoder"):
            run.train_step(generator, config.batch)
            if run.step % every == 0 or run.step == steps:
                run.save(checkpoint)
    return run.encoder.eval()


@dataclass
class _EncoderRun(Resumable):
    encoder: Encoder
    optimiser: torch.optim.Optimizer
    rate: torch.optim.lr_scheduler.LRScheduler
    step: int = 0
    with_state = ("encoder", "optimiser", "rate")
    progress = ("step",)

    @classmethod
    def start(cls, generator: GeneratorNetwork, config: EncoderConfig, steps: int) -> "_EncoderRun":
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
