"""How fast this machine trains, asks and draws, in images a second of one process: what a plan's times come from.

Each is measured in about a second, on the device that networks compute on, in all worker processes at the same time.
"""

import functools
import math
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, Final
from unittest import mock

import numpy as np
import pandas as pd
import torch

from biaslib import models, training
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.gan import training as growing_of_generators
from biaslib.gan.counterfactuals import draw, latent_codes
from biaslib.gan.encoder import train_encoder
from biaslib.gan.networks import Generator
from biaslib.samples import Samples
from biaslib.store import parallel
from biaslib.training import TrainingConfig

_LONG_ENOUGH: Final = 0.4  # seconds, beyond what the smallest call takes
_MOST: Final = 4096  # images


@functools.cache
def of_start() -> float:
    """Seconds, not a rate, until the worker processes are there and have imported what they need."""
    start = perf_counter()
    _everywhere(_ready)
    return perf_counter() - start


def of_training(config: TrainingConfig, size: int) -> float:
    """Images that a training shows its network; what it starts from and is trained for makes no difference."""
    plain = replace(config, weights=None, epochs=1, schedule="constant", learning_rate=1e-3, seed=0)
    return _everywhere(_training, plain, size)


def of_asking(architecture: str, hidden: int | None, size: int) -> float:
    """Images that a network answers."""
    return _everywhere(_asking, architecture, hidden, size)


def of_drawing(data: Any) -> float:
    """Images that a world draws for the data of a recipe, whatever their number, seed and strength."""
    return _everywhere(_drawing, replace(data, images=2, seed=0, strength=0.5))


def of_generating(latent: int, widths: tuple[int, ...]) -> float:
    """Images that a generator draws."""
    return _everywhere(_generating, latent, widths)


def of_growing(setup: GeneratorSetup) -> float:
    """Seconds, not a rate, of training a generator, level by level, and its encoder."""
    return _everywhere(_growing, replace(setup, images=2, gan=replace(setup.gan, seed=0)))


@functools.cache
def _everywhere(measure: Callable[..., float], *arguments: Any) -> float:
    """The mean over all worker processes, at the same time: they share the machine's memory, and perhaps a card."""
    with parallel.workers() as (executor, at_once):
        jobs = [executor.submit(measure, *arguments) for _ in range(at_once)]
        return sum(job.result() for job in jobs) / at_once


def _ready() -> float:
    models.build("small_mobilenet", 2)
    return 0.0


def _training(config: TrainingConfig, size: int) -> float:
    config = replace(config, loss="binary", balanced=False, keep="last")

    def trained(n: int) -> None:
        answers = np.arange(n)[:, None] % 2 == np.arange(config.outputs) % 2
        training.fit(Samples(_blank(n, size), pd.DataFrame(index=range(n))), answers, config)

    return _measured(trained)


def _asking(architecture: str, hidden: int | None, size: int) -> float:
    network = models.placed(models.build(architecture, 2, hidden=hidden))
    return _measured(lambda n: training.predict(network, _blank(n, size)))


def _drawing(data: Any) -> float:
    return _measured(lambda n: replace(data, images=n).samples())


def _generating(latent: int, widths: tuple[int, ...]) -> float:
    generator = models.placed(Generator(latent=latent, widths=widths))
    return _measured(lambda n: draw(generator, latent_codes(n, latent)))


def _growing(setup: GeneratorSetup) -> float:
    images, levels = _blank(max(64, setup.gan.batch), setup.gan.size), len(setup.gan.widths)
    seconds = 0.0
    for level, shares in enumerate(setup.gan.growth):
        here = replace(setup.gan, growth=tuple((0.0, float(at == level)) for at in range(levels)), chunks=1)

        def grown(n: int, config: Any = here) -> None:
            steps = max(n, setup.gan.penalty_every)
            growing_of_generators.grow(images, replace(config, images=config.batch * steps))

        seconds += sum(shares) * setup.gan.images / (_measured(grown) * setup.gan.batch)
    generator = models.placed(Generator(latent=setup.gan.latent, widths=setup.gan.widths))
    batch = setup.encoder.batch
    steps = _measured(lambda n: train_encoder(generator, replace(setup.encoder, images=n * batch)))
    return seconds + setup.encoder.images / (steps * batch)


@functools.cache
def of_network(architecture: str, hidden: int | None, outputs: int, size: int) -> tuple[int, int, int]:
    """How many weights a network has, how many numbers its layers make of an image, and its last map's channels."""
    network: Any = models.build(architecture, outputs, hidden=hidden).eval()
    made = []
    layers = [layer for layer in network.modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(lambda *parts: made.append(math.prod(parts[2].shape))) for layer in layers]
    with torch.inference_mode():
        channels = network.forward_features(torch.zeros(1, 3, size, size)).shape[1]
    for hook in hooks:
        hook.remove()
    return sum(weights.numel() for weights in network.parameters()), sum(made), channels


def _measured(work: Callable[[int], Any]) -> float:
    """Units of work a second, by the difference between a short call and a longer one: not the start of a call."""
    with (
        tempfile.TemporaryDirectory() as store,
        mock.patch.dict(os.environ, {"BIASLIB_STORE": store}),  # a training leaves a checkpoint while it runs
        warnings.catch_warnings(action="ignore"),
    ):
        parallel.on_threads(1, work, 2)  # the first call imports and compiles
        least, n, seconds = _seconds(work, 2), 2, 0.0
        while seconds < _LONG_ENOUGH and n < _MOST:
            n *= 4
            seconds = _seconds(work, n) - least
    return (n - 2) / max(seconds, 1e-3)


def _seconds(work: Callable[[int], Any], n: int) -> float:
    start = perf_counter()
    parallel.on_threads(1, work, n)
    return perf_counter() - start


def _blank(n: int, size: int) -> np.ndarray:
    return np.zeros((n, size, size, 3), np.uint8)
