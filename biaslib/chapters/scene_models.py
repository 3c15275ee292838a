"""Joint classifiers of objects and maker in the world of scenes, with and without mitigation, through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from biaslib import models, store, training
from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, calibrated_thresholds
from biaslib.mitigation import (
    Adversarial,
    Constrained,
    DomainIndependent,
    corpus_constraints,
    domain_scores,
    resampling,
)
from biaslib.mitigation.adversarial import AdversarialLoss
from biaslib.samples import Samples
from biaslib.store import parallel
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint, Objective
from biaslib.worlds.scenes import OBJECTS, Scenes

Training = Literal["original", "oversampling", "data_repair", "adversarial", "domain_independent"]
Split = Literal["train", "validation", "test"]
Arrays = dict[str, np.ndarray]

WIDTH = len(OBJECTS)
ARCHITECTURE = "small"
STATE = "state/"  # begins the names of the weights among the arrays


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One model and the data it is trained and tested on.

    Attributes:
        training: as it is ("original"), with training images drawn again or left out, or with another objective.
        groups: number of makers, 2 or 3.
        strength: the dial of the cue and of all other leanings, in [0, 1].
        images: for training, before any resampling.
        validation_images: for the thresholds.
        test_images: to be predicted.
        size: of the pictures, in pixels.
        seed: of the data, the initial weights and the order.
        epochs: passes over as many images as `images`; resampled sets get as many steps as the original one.
        batch: images a step.
        learning_rate: its peak.
        eps: how balanced oversampling makes every single object.
        kept: share of the training images that data repair keeps.
        adversary_weight: of the reversed gradient.
    """

    training: Training = "original"
    groups: int = 2
    strength: float = 0.5
    images: int = 3000
    validation_images: int = 1000
    test_images: int = 2000
    size: int = 64
    seed: int = 0
    epochs: int = 10
    batch: int = 64
    learning_rate: float = 4e-3
    eps: float = 0.025
    kept: float = 0.5
    adversary_weight: float = 0.2

    def __post_init__(self) -> None:
        if self.training not in get_args(Training):
            raise BiaslibError(f"training must be one of {', '.join(get_args(Training))}, not {self.training!r}.")

    def world(self) -> Scenes:
        """The scenes with that many makers."""
        return Scenes(self.groups)

    def table(self, split: Split) -> pd.DataFrame:
        """The rows of a split, before any resampling."""
        n = {"train": self.images, "validation": self.validation_images, "test": self.test_images}[split]
        offset = {"train": 0, "validation": 10_000, "test": 20_000}[split]
        return self.world().factors(n, strength=self.strength, seed=self.seed + offset)

    def pictures(self, split: Split) -> Samples:
        """The pictures of these rows, without masks."""
        # one table for all trainings: they differ in what they make of it
        return _pictures(replace(self, training="original", epochs=1), split)

    def rows(self) -> np.ndarray:
        """The training rows that are used, some more than once."""
        table = self.table("train")
        objects, makers = table[list(OBJECTS)].to_numpy(bool), table["maker"].to_numpy()
        match self.training:
            case "oversampling":
                return resampling.oversample(objects, makers, eps=self.eps, seed=self.seed)
            case "data_repair":
                return resampling.data_repair(objects, makers, size=round(self.kept * len(table)), seed=self.seed)
            case _:
                return np.arange(len(table))

    def objective(self) -> Objective:
        """Objects and maker at once, or what the mitigation method trains for."""
        match self.training:
            case "adversarial":
                return Adversarial(attributes=WIDTH, groups=self.groups, weight=self.adversary_weight)
            case "domain_independent":
                return DomainIndependent(attributes=WIDTH, groups=self.groups)
            case _:
                return Joint(attributes=WIDTH, groups=self.groups)

    def config(self, n: int) -> TrainingConfig:
        """The small network, for about as many steps whatever the number n of training rows."""
        epochs = max(1, round(self.epochs * self.images / n))
        return TrainingConfig(
            architecture=ARCHITECTURE, outputs=self.objective().outputs, epochs=epochs, batch=self.batch,
            learning_rate=self.learning_rate, augmentation=(), seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a model was shown and what it says.

    Attributes:
        experiment: how it was made.
        original: labels of the training images before any resampling.
        train: labels of the training rows it was given.
        validation: labels of the validation images.
        test: labels of the test images.
        validation_logits: of the model, as its objective orders them.
        test_logits: likewise.
        probe: accuracy, on test images, of a fresh linear classifier of the maker on the model's averaged last map.
        adversary: accuracy of the adversary that the model was trained against, on the same; NaN where there was none.
    """

    experiment: Experiment
    original: Labels
    train: Labels
    validation: Labels
    test: Labels
    validation_logits: np.ndarray
    test_logits: np.ndarray
    probe: float
    adversary: float


def outcomes(experiments: Sequence[Experiment], *, scheduler: str | None = None) -> list[Outcome]:
    """Trains what the store lacks, side by side where cores or a cluster allow, and returns all in order."""
    found = parallel.stored("scenes", experiments, run, scheduler=scheduler)
    return [_outcome(experiment, arrays) for experiment, arrays in zip(experiments, found, strict=True)]


def run(experiment: Experiment) -> Arrays:
    """Labels (N, 16), the maker last, of each split, logits, accuracies of the maker, and weights; on one thread."""
    arrays: Arrays = parallel.single_threaded(_run, experiment)
    return arrays


def known(experiment: Experiment) -> nn.Module:
    """The model of one experiment, for use inside a worker; trained here where the store lacks it."""
    arrays = store.get_or_compute("scenes", experiment, functools.partial(_run, experiment), code=run)
    model = models.build(ARCHITECTURE, experiment.objective().outputs)
    model.load_state_dict(
        {name.removeprefix(STATE): torch.from_numpy(array) for name, array in arrays.items() if name.startswith(STATE)}
    )
    return model.eval()


def object_scores(outcome: Outcome, *, rule: str = "conditional") -> tuple[np.ndarray, np.ndarray]:
    """Scores (N, 15) of the objects in validation and test; the rule is for domain-independent models only."""
    if outcome.experiment.training != "domain_independent":
        return outcome.validation_logits[:, :WIDTH], outcome.test_logits[:, :WIDTH]
    n_groups = outcome.experiment.groups
    validation, test = (
        domain_scores(logits, rule, n_groups=n_groups, groups=labels.groups)
        for logits, labels in (
            (outcome.validation_logits, outcome.validation),
            (outcome.test_logits, outcome.test),
        )
    )
    return validation, test


def predicted(outcome: Outcome, *, groups: np.ndarray | None = None, rule: str = "conditional") -> Labels:
    """What the model says of the test images: objects at calibrated thresholds, and the likeliest maker.

    Args:
        outcome: of the model.
        groups: predicted makers from elsewhere; needed where the model does not predict them (adversarial and
            domain-independent training).
        rule: by which a domain-independent model's blocks become one answer.

    Raises:
        BiaslibError: where the model does not predict makers and none are given.
    """
    validation, test = object_scores(outcome, rule=rule)
    thresholds = calibrated_thresholds(outcome.validation.attributes, validation)
    if groups is None:
        groups = maker_scores(outcome).argmax(axis=1)
    return Labels(test > thresholds, groups, OBJECTS)


def maker_scores(outcome: Outcome) -> np.ndarray:
    """(N, G) log-probabilities of the makers of the test images.

    Raises:
        BiaslibError: where the model does not predict makers.
    """
    if not isinstance(outcome.experiment.objective(), Joint):
        raise BiaslibError(
            f"{outcome.experiment.training} training does not predict the maker: give predicted makers from elsewhere."
        )
    scores: np.ndarray = log_softmax(outcome.test_logits[:, WIDTH:].astype(float), axis=1)
    return scores


def constrained(outcome: Outcome, *, margin: float = 0.05) -> Constrained:
    """RBA on the model's own predictions for the test images, with the ratios of its training rows."""
    validation, test = object_scores(outcome)
    thresholds = calibrated_thresholds(outcome.validation.attributes, validation)
    if not np.isfinite(thresholds).all():
        name = OBJECTS[int(np.argmin(thresholds))]
        raise BiaslibError(f"every validation picture has {name}, so it has no threshold: take more validation images.")
    return corpus_constraints(test - thresholds, maker_scores(outcome), outcome.train, margin=margin)


def at_sizes(
    outcomes: Sequence[Outcome], sizes: Sequence[float], *, scheduler: str | None = None
) -> list[list[Labels]]:
    """Predictions for the same test pictures with all robots of one size, everything else pixel for pixel the same.

    Args:
        outcomes: of M models that predict makers.
        sizes: S heights of the robot, shares of the picture's side.
        scheduler: see `parallel.workers`.

    Returns:
        For each model, S predictions; thresholds are those of the pictures as they are.
    """
    keys = [(outcome.experiment, float(size)) for outcome in outcomes for size in sizes]
    logits = iter(parallel.stored("scenes-resized", keys, run_resized, scheduler=scheduler))
    return [[predicted(replace(outcome, test_logits=next(logits))) for _ in sizes] for outcome in outcomes]


def run_resized(key: tuple[Experiment, float]) -> np.ndarray:
    """Logits for the test pictures of the experiment with all robots of that size; trains its model where it lacks."""
    logits: np.ndarray = parallel.single_threaded(_resized, *key)
    return logits


def _resized(experiment: Experiment, robot_size: float) -> np.ndarray:
    table = experiment.table("test").assign(robot_size=robot_size)
    model = known(experiment)
    return training.predict(model, experiment.world().render(table, size=experiment.size, regions=()).images)


def _run(experiment: Experiment) -> Arrays:
    train, validation, test = samples = [experiment.pictures(split) for split in get_args(Split)]
    rows = experiment.rows()
    targets = _labels(train.labels)[rows]
    model, criterion = training.fit_with_criterion(
        train.take(rows), targets, experiment.config(len(rows)), objective=experiment.objective()
    )
    adversary = {}
    if isinstance(criterion, AdversarialLoss):
        adversary["adversary"] = np.array(_adversary_accuracy(criterion, model, test))
    return {
        **{split: _labels(of_split.labels) for split, of_split in zip(get_args(Split), samples, strict=True)},
        "rows": rows,
        "validation_logits": training.predict(model, validation.images),
        "test_logits": training.predict(model, test.images),
        "probe": np.array(_probe(model, train, test)),
        **adversary,
        **{f"{STATE}{name}": value.numpy() for name, value in model.state_dict().items()},
    }


@functools.lru_cache(maxsize=18)  # the splits of six data sets, which a worker comes back to with the next training
def _pictures(experiment: Experiment, split: Split) -> Samples:
    return experiment.world().render(experiment.table(split), size=experiment.size, regions=())


def _labels(table: pd.DataFrame) -> np.ndarray:
    return table[[*OBJECTS, "maker"]].to_numpy(np.int8)


def _probe(model: nn.Module, train: Samples, test: Samples) -> float:
    """How well the maker can still be read from the averaged last map."""
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(_features(model, train.images), train.labels["maker"])
    return float(probe.score(_features(model, test.images), test.labels["maker"]))


@torch.inference_mode()
def _adversary_accuracy(criterion: AdversarialLoss, model: nn.Module, test: Samples) -> float:
    guesses = criterion.adversary(torch.from_numpy(_features(model, test.images))).argmax(1).numpy()
    return float((guesses == test.labels["maker"]).mean())


@torch.inference_mode()
def _features(model: Any, images: np.ndarray, *, batch: int = 128) -> np.ndarray:
    starts = range(0, len(images), batch)
    maps = [model.forward_features(models.to_tensor(images[i : i + batch], model=model)) for i in starts]
    return torch.cat([each.mean((2, 3)) for each in maps]).numpy()


def _outcome(experiment: Experiment, arrays: Arrays) -> Outcome:
    def labels(rows: np.ndarray) -> Labels:
        return Labels(rows[:, :WIDTH], rows[:, WIDTH], OBJECTS)

    return Outcome(
        experiment=experiment,
        original=labels(arrays["train"]),
        train=labels(arrays["train"][arrays["rows"]]),
        validation=labels(arrays["validation"]),
        test=labels(arrays["test"]),
        validation_logits=arrays["validation_logits"],
        test_logits=arrays["test_logits"],
        probe=float(arrays["probe"]),
        adversary=float(arrays.get("adversary", np.nan)),
    )
