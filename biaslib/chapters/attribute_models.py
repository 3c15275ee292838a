"""Classifiers of many attributes of faces at once, and jointly of attributes and hair colour, through the store."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from torch import nn

from biaslib import datasets, models, training
from biaslib.datasets.celeba import ATTRIBUTES, HAIR, HAIR_ATTRIBUTES, hair_colour
from biaslib.errors import BiaslibError
from biaslib.metrics import Labels, calibrated_thresholds
from biaslib.mitigation.rows import Subset
from biaslib.recipes import CelebA, Drawn, Recipe, Setup, load, load_many, train
from biaslib.samples import Samples
from biaslib.store import stored
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint
from biaslib.worlds.faces import STRENGTH, Faces

# where the faces come from, and the protected attribute there
GROUPS: Final = {"generated": "Clan", "celeba": "Male"}
_WIDTH: Final = len(HAIR_ATTRIBUTES)


@dataclass(frozen=True, kw_only=True)
class Experiment(Setup):
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

    @property
    def recipe(self) -> Recipe:
        """Binary cross-entropy that weighs rare attributes up, as in the paper; mirrored at random."""
        config = TrainingConfig(
            architecture=self.architecture, outputs=len(self.outputs), weights=self.weights, frozen=self.frozen,
            loss="binary", epochs=self.epochs, batch=self.batch, optimiser=self.optimiser,
            learning_rate=self.learning_rate, seed=self.seed,
        )  # fmt: skip
        rows = None
        if self.only or self.correlation:
            correlation = self.correlation and (self.correlation[0], self.tied_to or self.group, self.correlation[1])
            rows = Subset(only=self.only, correlation=correlation, kept=self.kept, seed=self.seed)
        return Recipe(data=self.data, targets=self.outputs, training=config, rows=rows)

    @property
    def data(self) -> Drawn | CelebA:
        """The faces, before any are left out."""
        if self.source == "celeba":
            return CelebA(size=self.size, images=self.images)
        # what is as usual is not named, so that the dial's models are these
        options = (("confounder", False),) * (not self.confounder) + (("detail", self.detail),) * bool(self.detail)
        return Drawn(
            world="faces", images=self.images, strength=self.strength, seed=self.seed, size=self.size, options=options
        )


def known_attributes(source: str) -> tuple[str, ...]:
    """All attributes of a source of faces, the protected one among them."""
    return Faces.attributes if source == "generated" else ATTRIBUTES


def celeba(split: str, *, size: int) -> Samples:
    """The faces of a split, for a worker: what `datasets.load` warns of was said before it was started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", datasets.DatasetWarning)
        return datasets.load("celeba", split, size=size)


def trained(experiments: Sequence[Experiment]) -> list[nn.Module]:
    """The models, in this order, trained side by side where the store lacks them.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged.

    Warns:
        DatasetWarning: what is known to be wrong with CelebA, where its faces are used.
    """
    return load_many([experiment.recipe for experiment in experiments])


@dataclass(frozen=True, kw_only=True)
class HairSetup(Setup):
    """A joint model of 23 attributes and hair colour, of the faces for which one of three hair colours is annotated."""

    size: int = 64  # of the faces, in pixels
    epochs: int = 20
    batch: int = 64
    seed: int = 0

    @property
    def recipe(self) -> Recipe:
        """As the notebooks' small models are trained; mirrored at random, as in the paper."""
        objective = Joint(attributes=_WIDTH, groups=len(HAIR))
        config = TrainingConfig(
            architecture="small", outputs=objective.outputs, epochs=self.epochs, batch=self.batch, learning_rate=4e-3,
            precision="float32", seed=self.seed,
        )  # fmt: skip
        targets = (*HAIR_ATTRIBUTES, "hair")
        return Recipe(data=_HairFaces(size=self.size), targets=targets, training=config, objective=objective)

    def fingerprint(self) -> str:
        """As that of every set-up, with the faces that the model is asked about."""
        asked = (CelebA(size=self.size, split=split).fingerprint() for split in ("val", "test"))
        return super().fingerprint() + "".join(asked)


class _HairFaces(CelebA):
    """Faces for which exactly one of three hair colours is annotated, with the attributes and the hair colour."""

    def table(self) -> pd.DataFrame:
        labels = self._labels()
        return labels[labels["hair"] >= 0].reset_index(drop=True)

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        labels = self._labels()
        places = np.flatnonzero(labels["hair"] >= 0)
        places = places if rows is None else places[rows]
        faces = super().samples(places)
        return Samples(faces.images, labels.iloc[places].reset_index(drop=True), faces.masks)

    def _labels(self) -> pd.DataFrame:
        """Of all faces; the hair colour is -1 for those that are left out."""
        table = super().table()
        return table.assign(hair=hair_colour(table))[[*HAIR_ATTRIBUTES, "hair"]]


@dataclass(frozen=True)
class HairOutcome:
    """What a joint model was shown and what it says; the groups are hair colours."""

    train: Labels
    test: Labels
    predicted: Labels  # of the test images
    logits: np.ndarray  # (N, 26) of the test images, of the 23 attributes and the three groups
    n_validation: int  # images, by which the attributes' thresholds are chosen


def hair_outcomes(setups: Sequence[HairSetup]) -> list[HairOutcome]:
    """What the models predict, in this order; trained side by side where the store lacks them.

    An attribute is predicted above the logit at which as many validation images are predicted to have it as are
    labelled; of the groups the likeliest.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged.

    Warns:
        DatasetWarning: as `datasets.load` does.
    """
    train.many([setup.recipe for setup in setups])
    outcomes = []
    for arrays in _hair_answers.many(setups):
        labels = {part: arrays[part] for part in ("train", "validation", "test")}
        thresholds = calibrated_thresholds(labels["validation"][:, :_WIDTH], arrays["validation_logits"][:, :_WIDTH])
        logits = arrays["test_logits"]
        predicted = Labels(logits[:, :_WIDTH] > thresholds, logits[:, _WIDTH:].argmax(axis=1), HAIR_ATTRIBUTES)
        shown, test = (
            Labels(labels[part][:, :_WIDTH], labels[part][:, _WIDTH], HAIR_ATTRIBUTES) for part in ("train", "test")
        )
        outcomes.append(HairOutcome(shown, test, predicted, logits, len(labels["validation"])))
    return outcomes


@stored("faces")
def _hair_answers(setup: HairSetup) -> dict[str, np.ndarray]:
    """Labels (N, 24), the group last, of `train`, `validation` and `test`, and logits (N, 26) of the latter two."""
    model, arrays = load(setup.recipe), {}
    for name, split in (("train", "train"), ("validation", "val"), ("test", "test")):
        faces = _HairFaces(size=setup.size, split=split)
        arrays[name] = faces.table().to_numpy(np.int8)
        if name != "train":
            arrays[f"{name}_logits"] = training.predict(model, faces.samples().images)
    return arrays
