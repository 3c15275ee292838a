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
from typing import Any

import numpy as np
import pandas as pd
import torch

from biaslib import models, training
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.gan.training import GanConfig, grow
from biaslib.recipes import Loaded
from biaslib.samples import Samples
from biaslib.store import parallel
from biaslib.training import TrainingConfig

_LONG_ENOUGH, _MOST = 0.4, 4096  # seconds beyond what the smallest call takes; images


def of_training(config: TrainingConfig, size: int) -> float:
    """Images that a training shows its network; what it starts from and is trained for makes no difference."""
    plain = replace(config, weights=None, epochs=1, schedule="constant", learning_rate=1e-3, seed=0)
    return _everywhere(_training, replace(plain, loss="binary", balanced=False, keep="last"), size)


def of_asking(architecture: str, hidden: int | None, size: int) -> float:
    """Images that a network answers."""
    return _everywhere(_asking, architecture, hidden, size)


def of_drawing(data: Any) -> float:
    """Images that a world draws for the data of a recipe; of photographs as many as you like."""
    if isinstance(data, Loaded) or getattr(data, "photos", None):
        return math.inf
    plain = {"source": "scikit-learn"} if hasattr(data, "source") else {}  # MNIST may be missing
    return _everywhere(_drawing, replace(data, images=2, seed=0, strength=0.5, **plain))


def of_growing(setup: GeneratorSetup) -> float:
    """Images that the training of a generator shows it, over all its levels."""
    return _everywhere(_growing, replace(setup.gan, seed=0, images=16 * setup.gan.batch, chunks=1))


@functools.cache
def _everywhere(measure: Callable[..., float], *arguments: Any) -> float:
    """The mean over all worker processes, at the same time: they share the machine's memory, and perhaps a card."""
    with parallel.workers() as (executor, at_once):
        jobs = [executor.submit(measure, *arguments) for _ in range(at_once)]
        return sum(job.result() for job in jobs) / at_once


def _training(config: TrainingConfig, size: int) -> float:
    def trained(n: int) -> None:
        answers = np.arange(n)[:, None] % 2 == np.arange(config.outputs) % 2
        training.fit(Samples(_blank(n, size), pd.DataFrame(index=range(n))), answers, config)

    return _measured(trained)


def _asking(architecture: str, hidden: int | None, size: int) -> float:
    network = models.placed(models.build(architecture, 2, hidden=hidden))
    return _measured(lambda n: training.predict(network, _blank(n, size)))


def _drawing(data: Any) -> float:
    return _measured(lambda n: replace(data, images=n).samples())


def _growing(config: GanConfig) -> float:
    images, shown = _blank(max(64, config.batch), config.size), 16 * config.batch  # a share of them at every level
    return shown * _measured(lambda n: grow(images, replace(config, images=n * shown)))


@functools.cache
def of_network(architecture: str, hidden: int | None, outputs: int, size: int) -> tuple[int, int, int]:
    """How many weights a network has, how many numbers its layers make of an image, and its last map's channels."""
    network: Any = models.build(architecture, outputs, hidden=hidden).eval()
    made = []
    for layer in (layer for layer in network.modules() if not list(layer.children())):
        layer.register_forward_hook(lambda *parts: made.append(math.prod(parts[2].shape)))
    with torch.inference_mode():
        channels = network.forward_features(torch.zeros(1, 3, size, size)).shape[1]
    return sum(weights.numel() for weights in network.parameters()), sum(made), channels


def _measured(work: Callable[[int], Any]) -> float:
    """Units of work a second, by the difference between a short call and a longer one: not the start of a call."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as store, warnings.catch_warnings(action="ignore"):
        os.environ["BIASLIB_STORE"] = store  # a training leaves a checkpoint while it runs
        try:
            parallel.on_threads(1, work, 2)  # the first call imports and compiles
            least, n, seconds = _seconds(work, 2), 2, 0.0
            while seconds < _LONG_ENOUGH and n < _MOST:
                n *= 4
                seconds = _seconds(work, n) - least
        finally:
            os.environ.clear()
            os.environ.update(before)
    return (n - 2) / max(seconds, 1e-3)


def _seconds(work: Callable[[int], Any], n: int) -> float:
    start = perf_counter()
    parallel.on_threads(1, work, n)
    return perf_counter() - start


def _blank(n: int, size: int) -> np.ndarray:
    return np.zeros((n, size, size, 3), np.uint8)
