"""Joint classifiers of corners and group, trained and asked on the world of digits, through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from biaslib import datasets, training
from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, causal_effect
from biaslib.store import parallel
from biaslib.training import TrainingConfig
from biaslib.worlds.digits import CORNERS, Digits, Scans, Split, scans_of

OUTPUTS = (*CORNERS, "group")
SOURCES = ("scikit-learn", "mnist")
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One model and the data it is trained and tested on.

    Attributes:
        source: of the handwritten originals: "scikit-learn" or "mnist".
        assignment: of the ten classes to two groups.
        strength: skew of the left corners' pair, in [0, 1]; ignored where corners lean.
        shares: where not empty, how much each corner leans to group 1.
        blur: of the digits, in pixels of 28.
        worn: share of images with a grey corner.
        corner: side of a corner, in pixels of 28.
        images: for training.
        test_images: to be predicted.
        seed: of the images, the initial weights and the order.
        epochs: passes over the training images.
        batch: images a step.
        learning_rate: of SGD with momentum 0.9; it falls along a cosine.
    """

    source: str = "scikit-learn"
    assignment: int = 0
    strength: float = 0.0
    shares: tuple[float, ...] = ()
    blur: float = 0.0
    worn: float = 0.0
    corner: int = 3
    images: int = 2400
    test_images: int = 1200
    seed: int = 0
    epochs: int = 8
    batch: int = 64
    learning_rate: float = 0.02

    def table(self, split: Split) -> pd.DataFrame:
        """The rows of training or test; test images have the same skew and other scans."""
        n, seed = (self.images, self.seed) if split == "train" else (self.test_images, self.seed + 10_000)
        world = self.world()
        if self.shares:
            return world.skewed(n, shares=self.shares, seed=seed, split=split, blur=self.blur, worn=self.worn)
        return world.factors(n, strength=self.strength, seed=seed, split=split, blur=self.blur, worn=self.worn)

    def world(self) -> Digits:
        """The world of this source and assignment."""
        return Digits(self.assignment, corner=self.corner, scans=_scans(self.source))

    def config(self) -> TrainingConfig:
        """LeNet-5, one binary loss for the corners and the group alike, SGD with momentum 0.9 as in the paper."""
        return TrainingConfig(
            architecture="lenet5", outputs=len(OUTPUTS), loss="binary", balanced=False, optimiser="sgd", momentum=0.9,
            learning_rate=self.learning_rate, schedule="cosine", epochs=self.epochs, batch=self.batch, augmentation=(),
            precision="float32", seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a model was shown and what it says.

    Attributes:
        train: labels of the training images.
        test: labels of the test images.
        predicted: for the test images: a corner is white, or a group is 1, where its logit is above 0.
        logits: (N, 4) of the corners and the group.
        effect: (N,) how far the probability of group 1 rises when the bottom left corner is changed so that the left
            corners match instead of not, all else the same; in [-1, 1].
    """

    train: Labels
    test: Labels
    predicted: Labels
    logits: np.ndarray
    effect: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """(4,) share of right predictions, of the corners and the group."""
        corners = (self.predicted.attributes == self.test.attributes).mean(axis=0)
        return np.append(corners, (self.predicted.groups == self.test.groups).mean())


def outcomes(experiments: Sequence[Experiment], *, scheduler: str | None = None) -> list[Outcome]:
    """Trains what the store lacks, side by side where cores or a cluster allow, and returns all in order.

    Raises:
        BiaslibError: for an unknown source, or MNIST's files missing or damaged.
    """
    for source in {experiment.source for experiment in experiments}:
        _scans(source)  # what is missing is said here, and not by a worker
    found = parallel.stored("digits", experiments, run, scheduler=scheduler)
    return [_outcome(arrays) for arrays in found]


def run(experiment: Experiment) -> Arrays:
    """Labels of training and test, (N, 4) bool, logits and `effect`; on one thread, so that cores change nothing."""
    found: Arrays = parallel.single_threaded(_run, experiment)
    return found


def _run(experiment: Experiment) -> Arrays:
    world, table = experiment.world(), experiment.table("test")
    train, test = world.render(experiment.table("train")), world.render(table)
    model = training.fit(train, train.labels[list(OUTPUTS)], experiment.config())
    white = causal_effect(
        lambda images: expit(training.predict(model, images)[:, -1]), world, table, cue="bottom_left", size=28
    )
    return {
        "train": train.labels[list(OUTPUTS)].to_numpy(bool),
        "test": test.labels[list(OUTPUTS)].to_numpy(bool),
        "logits": training.predict(model, test.images),
        "effect": np.where(table["top_left"] == 1, white, -white),
    }


def _outcome(arrays: Arrays) -> Outcome:
    train, test, predicted = (_labels(columns) for columns in (arrays["train"], arrays["test"], arrays["logits"] > 0))
    return Outcome(train, test, predicted, arrays["logits"], arrays["effect"])


def _labels(columns: np.ndarray) -> Labels:
    return Labels(columns[:, :-1], columns[:, -1].astype(int), names=CORNERS)


@functools.cache
def _scans(source: str) -> Scans | None:
    if source not in SOURCES:
        raise BiaslibError(f"digits come from {' or '.join(SOURCES)}, not from {source!r}.")
    if source == "scikit-learn":
        return None
    return scans_of(datasets.load("mnist", "train", size=28), datasets.load("mnist", "test", size=28))
