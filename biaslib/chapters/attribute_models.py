"""Classifiers of many attributes of faces at once, trained through the store."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import torch
from torch import nn

from biaslib import datasets, models, store, training
from biaslib.datasets.celeba import ATTRIBUTES
from biaslib.errors import BiaslibError
from biaslib.mitigation.subsampling import subsample_to_mcc
from biaslib.samples import Samples
from biaslib.store import fingerprint, parallel
from biaslib.training import TrainingConfig
from biaslib.worlds.faces import STRENGTH, Faces

State = dict[str, torch.Tensor]

# where the faces come from, and the protected attribute there
GROUPS: Final = {"generated": "Clan", "celeba": "Male"}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One model and the faces it is trained on; the defaults are those of the book's quick runs.

    Attributes:
        source: "generated" (`worlds.faces`) or "celeba".
        attributes: that the model tells, one output each; (): all that the source has.
        images: for training, before any are left out; of CelebA's as many as there are, at most.
        size: of the faces, in pixels.
        strength: the generated world's dial; its default gives CelebA's correlations.
        confounder: whether eye shadow ties Blond_Hair to the clan in the generated world, see `worlds.faces`.
        detail: of the generated world; 1 draws smiles and frames for few pixels.
        only: an attribute and its value: trained on the faces that have it so; None: on all.
        correlation: an attribute and its MCC with the group, reached by `subsample_to_mcc`; None: as it comes.
        tied_to: another attribute, with which the correlation is in place of the group.
        kept: how many faces are left of the images where a correlation is asked for; None: as many as can be.
        architecture: a name that `models.build` knows.
        weights: None, "imagenet", or a file or folder, from the folder of all data sets on.
        frozen: how many of the first convolutions keep the weights they start with.
        epochs: passes over the training images.
        batch: images a step.
        optimiser: a name that `TrainingConfig` knows.
        learning_rate: its peak.
        seed: of the initial weights, the order and, in the generated world, the faces.
    """

    source: str = "generated"
    attributes: tuple[str, ...] = ()
    images: int = 6000
    size: int = 64
    strength: float = STRENGTH
    confounder: bool = True
    detail: float = 0.0
    only: tuple[str, bool] | None = None
    correlation: tuple[str, float] | None = None
    tied_to: str | None = None
    kept: int | None = None
    architecture: str = "small"
    weights: str | None = None
    frozen: int = 0
    epochs: int = 7
    batch: int = 64
    optimiser: str = "adamw"
    learning_rate: float = 4e-3
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        if self.source not in GROUPS:
            raise BiaslibError(f"source must be {' or '.join(GROUPS)}, not {self.source!r}.")
        if unknown := {name for name in self._named() if name not in known_attributes(self.source)}:
            raise BiaslibError(
                f"{self.source} has no attribute {', '.join(sorted(unknown))}: it has "
                f"{', '.join(known_attributes(self.source))}."
            )

    def _named(self) -> tuple[str, ...]:
        asked = (*(pair[0] for pair in (self.only, self.correlation) if pair), self.tied_to)
        return (*self.attributes, *(name for name in asked if name))

    @property
    def group(self) -> str:
        """The protected attribute."""
        return GROUPS[self.source]

    @property
    def outputs(self) -> tuple[str, ...]:
        """What each output of the model tells."""
        return self.attributes or known_attributes(self.source)

    def config(self) -> TrainingConfig:
        """Binary cross-entropy that weighs rare attributes up, as in the paper; mirrored at random."""
        weights = self.weights if self.weights in (None, "imagenet") else str(self.weights_path())
        return TrainingConfig(
            architecture=self.architecture, outputs=len(self.outputs), weights=weights, frozen=self.frozen,
            loss="binary", epochs=self.epochs, batch=self.batch, optimiser=self.optimiser,
            learning_rate=self.learning_rate, seed=self.seed,
        )  # fmt: skip

    def weights_path(self) -> Path:
        """Where the weights lie that it starts from; a path to nothing where they are not in a file."""
        return datasets.root() / (self.weights or "none")

    def samples(self) -> Samples:
        """The faces it is trained on.

        Raises:
            BiaslibError: where CelebA's files are missing, or too few faces are as asked for.
        """
        if self.source == "celeba":
            everyone = celeba("train", size=self.size)
            rows = self.chosen(everyone.labels[: self.images])
            # taking copies, and all of CelebA is more than a memory holds
            return everyone if len(rows) == len(everyone) else everyone.take(rows)
        table = Faces().factors(
            self.images, strength=self.strength, seed=self.seed, confounder=self.confounder, detail=self.detail
        )
        return Faces().render(table.iloc[self.chosen(table)], size=self.size, regions=())

    def chosen(self, labels: pd.DataFrame) -> np.ndarray:
        """Rows of the faces that are as asked for, increasing."""
        rows = np.arange(len(labels))
        if self.only:
            name, value = self.only
            rows = rows[labels[name].to_numpy(bool) == value]
        if self.correlation:
            name, mcc = self.correlation
            has, member = (labels[column].to_numpy(bool)[rows] for column in (name, self.tied_to or self.group))
            rows = rows[subsample_to_mcc(has, member, [mcc], size=self.kept, seed=self.seed)[0]]
        if len(rows) == 0:
            raise BiaslibError(f"No face is left to train on among {len(labels)}: take more images.")
        return rows


Key = tuple[Experiment, str]


def known_attributes(source: str) -> tuple[str, ...]:
    """All attributes of a source of faces, the protected one among them."""
    return Faces.attributes if source == "generated" else ATTRIBUTES


def celeba(split: str, *, size: int) -> Samples:
    """The faces of a split, for a worker: what `datasets.load` warns of was said before it was started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.DatasetWarning)
        return datasets.load("celeba", split, size=size)


def trained(experiments: Sequence[Experiment], *, scheduler: str | None = None) -> list[nn.Module]:
    """The models, in this order, trained side by side where the store lacks them.

    Returns:
        Models on the CPU, in evaluation mode.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged; as `models.build` and `TrainingConfig` do.

    Warns:
        DatasetWarning: what is known to be wrong with CelebA, where its faces are used.
    """
    states = parallel.stored("attribute-model", keyed(experiments), train, scheduler=scheduler)
    return [_model(experiment, state) for experiment, state in zip(experiments, states, strict=True)]


def keyed(experiments: Sequence[Experiment]) -> list[Key]:
    """Each experiment with a fingerprint of the pictures and weights it reads: others are another model.

    What is missing is said here, and not by a worker. Warns as `datasets.load` does.
    """
    seen = {size: _fingerprint(size) for size in {one.size for one in experiments if one.source == "celeba"}}
    return [
        (one, (seen[one.size] if one.source == "celeba" else "") + fingerprint.of_files(one.weights_path()))
        for one in experiments
    ]


def train(key: Key) -> State:
    """The weights of one model, trained on one thread, so that the number of cores does not change them."""
    return parallel.single_threaded(_train, key[0])


def known(key: Key) -> nn.Module:
    """The model of one experiment, for use inside a worker; trained here where the store lacks it."""
    state = store.get_or_compute("attribute-model", key, functools.partial(train, key), code=train)
    return _model(key[0], state)


def _train(experiment: Experiment) -> State:
    samples = experiment.samples()
    targets = samples.labels[list(experiment.outputs)]
    return dict(training.fit(samples, targets, experiment.config()).state_dict())


def _model(experiment: Experiment, state: State) -> nn.Module:
    model = models.build(experiment.architecture, len(experiment.outputs))
    model.load_state_dict(state)
    return model.eval()


def _fingerprint(size: int) -> str:
    samples = datasets.load("celeba", "train", size=size)
    return fingerprint.of_value((samples.images, samples.labels))
