"""Classifiers of many attributes of faces at once, trained through the store."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from torch import nn

from biaslib import datasets, models
from biaslib.datasets.celeba import ATTRIBUTES
from biaslib.errors import BiaslibError
from biaslib.mitigation.rows import Subset
from biaslib.recipes import CelebA, Drawn, Recipe, Setup, load_many
from biaslib.samples import Samples
from biaslib.training import TrainingConfig
from biaslib.worlds.faces import STRENGTH, Faces

# where the faces come from, and the protected attribute there
GROUPS: Final = {"generated": "Clan", "celeba": "Male"}


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
