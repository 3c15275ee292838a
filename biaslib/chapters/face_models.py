"""Joint classifiers of attributes and hair colour, trained and asked on CelebA's faces, through the store."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from biaslib import datasets, models, training
from biaslib.datasets.celeba import HAIR, HAIR_ATTRIBUTES, hair_colour
from biaslib.metrics import Labels, calibrated_thresholds
from biaslib.samples import Samples
from biaslib.store import fingerprint, parallel
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint

Arrays = dict[str, np.ndarray]

WIDTH = len(HAIR_ATTRIBUTES)
OBJECTIVE = Joint(attributes=WIDTH, groups=len(HAIR))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One model, trained on the faces for which exactly one of three hair colours is annotated.

    Attributes:
        images: for training, at most; None: all there are.
        size: of the faces, in pixels.
        architecture: a name that `models.build` knows.
        weights: None, "imagenet" or a local file.
        epochs: passes over the training images.
        batch: images a step.
        learning_rate: its peak.
        seed: of the initial weights and the order.
    """

    images: int | None = None
    size: int = 64
    architecture: str = "small"
    weights: str | None = None
    epochs: int = 20
    batch: int = 64
    learning_rate: float = 4e-3
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))

    def config(self) -> TrainingConfig:
        """As the notebooks' small models are trained; mirrored at random, as in the paper."""
        return TrainingConfig(
            architecture=self.architecture, weights=self.weights, outputs=OBJECTIVE.outputs, epochs=self.epochs,
            batch=self.batch, learning_rate=self.learning_rate, precision="float32", seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a model was shown and what it says.

    Attributes:
        train: labels of the training images: the paper's 23 attributes, and hair colour as the group.
        test: labels of the test images.
        predicted: for the test images: an attribute where its logit is above the threshold; the likeliest group.
        logits: (N, 26) of the 23 attributes and the three groups.
        thresholds: (23,) at which as many validation images are predicted to have an attribute as are labelled.
        n_validation: how many validation images there were.
    """

    train: Labels
    test: Labels
    predicted: Labels
    logits: np.ndarray
    thresholds: np.ndarray
    n_validation: int


def outcomes(experiments: Sequence[Experiment], *, scheduler: str | None = None) -> list[Outcome]:
    """Trains what the store lacks, side by side where cores or a cluster allow, and returns all in order.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged.

    Warns:
        DatasetWarning: as `datasets.load` does.
    """
    # what is missing is said here, and not by a worker; other pictures are another result
    seen = {size: _fingerprint(size) for size in {experiment.size for experiment in experiments}}
    keys = [(experiment, seen[experiment.size]) for experiment in experiments]
    found = parallel.stored("faces", keys, run_keyed, scheduler=scheduler)
    return [_outcome(arrays) for arrays in found]


def run_keyed(key: tuple[Experiment, str]) -> Arrays:
    """`run` of the experiment; the second part of the key names the pictures."""
    return run(key[0])


def run(experiment: Experiment) -> Arrays:
    """Labels (N, 24), the group last, of `train`, `validation` and `test`, and logits (N, 26) of the latter two."""
    found: Arrays = parallel.single_threaded(_run, experiment)
    return found


def faces(split: str, *, size: int, most: int | None = None) -> tuple[Samples, np.ndarray]:
    """The faces of a split with exactly one hair colour, and their labels (N, 24), hair colour last.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged.
    """
    samples = datasets.load("celeba", split, size=size)
    group = hair_colour(samples.labels)
    kept = np.flatnonzero(group >= 0)[:most]
    table = samples.labels[list(HAIR_ATTRIBUTES)].to_numpy()[kept]
    return samples.take(kept), np.column_stack([table, group[kept]]).astype(np.int8)


def _run(experiment: Experiment) -> Arrays:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.DatasetWarning)  # said once, by `outcomes`
        train, targets = faces("train", size=experiment.size, most=experiment.images)
        validation, test = (faces(split, size=experiment.size) for split in ("val", "test"))
    model = training.fit(train, targets, experiment.config(), objective=OBJECTIVE)
    return {
        "train": targets,
        "validation": validation[1],
        "test": test[1],
        "validation_logits": training.predict(model, validation[0].images),
        "test_logits": training.predict(model, test[0].images),
    }


def _fingerprint(size: int) -> str:
    loaded = [faces(split, size=size) for split in ("train", "val", "test")]
    return fingerprint.of_value([(samples.images, labels) for samples, labels in loaded])


def _outcome(arrays: Arrays) -> Outcome:
    thresholds = calibrated_thresholds(arrays["validation"][:, :WIDTH], arrays["validation_logits"][:, :WIDTH])
    logits = arrays["test_logits"]
    said = Labels(logits[:, :WIDTH] > thresholds, logits[:, WIDTH:].argmax(axis=1), HAIR_ATTRIBUTES)
    train, test = (
        Labels(part[:, :WIDTH], part[:, WIDTH], HAIR_ATTRIBUTES) for part in (arrays["train"], arrays["test"])
    )
    return Outcome(train, test, said, logits, thresholds, len(arrays["validation"]))
