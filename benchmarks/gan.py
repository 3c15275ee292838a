"""A training step of the generator at 64 pixels: ours, and a plain loop over the same networks, in turn."""

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.measure import in_turn
from benchmarks.report import Figure
from biaslib.gan import training
from biaslib.gan.networks import Critic, GeneratorNetwork
from biaslib.gan.training import GanConfig

WIDTHS = (128, 96, 64, 32, 16)
BATCH = 16


def run(steps: int = 4, rounds: int = 5) -> list[Figure]:
    images = np.random.default_rng(0).integers(0, 256, (64, 64, 64, 3), dtype=np.uint8)
    ours, plain = _ours(images, steps), _plain(images, steps)
    ours()
    plain()
    times = in_turn(ours, plain, rounds=rounds)
    return [
        Figure(f"A WGAN-GP step at 64 px, batch {BATCH}", times.of(0) / steps, "s"),
        Figure("  plain loop (float32, no channels-last, no fused optimiser)", times.of(1) / steps, "s"),
        Figure("  speed beside the plain loop", times.ratio(1, 0), "x"),
    ]


def _ours(images, steps):
    growth = tuple((0.0, float(level == len(WIDTHS) - 1)) for level in range(len(WIDTHS)))
    # as many chunks as will ever be asked for, of so many steps each
    config = GanConfig(widths=WIDTHS, growth=growth, images=BATCH * steps * 100, batch=BATCH, chunks=100)
    state = training._Run.start(config)
    return lambda: state.train_chunk(images)


def _plain(images, steps):
    generator, critic = GeneratorNetwork(widths=WIDTHS), Critic(widths=WIDTHS)
    average = GeneratorNetwork(widths=WIDTHS)
    of_generator, of_critic = (
        torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.0, 0.99), foreach=False)
        for network in (generator, critic)
    )
    rng = np.random.default_rng(0)

    def step():
        rows = rng.choice(len(images), BATCH, replace=False)
        real = F.avg_pool2d(torch.from_numpy(images[rows]).permute(0, 3, 1, 2).contiguous().float() / 127.5 - 1, 1)
        fake = generator(torch.randn(BATCH, generator.latent)).detach()
        answers = critic(real)
        loss = critic(fake).mean() - answers.mean() + 1e-3 * answers.square().mean()
        loss = loss + 10 * training._gradient_penalty(critic, real, fake, torch.rand(BATCH))
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(torch.randn(BATCH, generator.latent))).mean()).backward()
        of_generator.step()
        for mean, now in zip(average.parameters(), generator.parameters(), strict=True):
            mean.data.mul_(0.995).add_(now.data, alpha=0.005)

    def several():
        for _ in range(steps):
            step()

    return several
