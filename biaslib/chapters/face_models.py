"""Joint classifiers of attributes and hair colour, trained and asked on CelebA's faces, through the store."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslib import models, training
from biaslib.datasets.celeba import HAIR, HAIR_ATTRIBUTES, hair_colour
from biaslib.metrics import Labels, calibrated_thresholds
from biaslib.recipes import CelebA, Recipe, Setup, load, train
from biaslib.samples import Samples
from biaslib.store import stored
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint

Arrays = dict[str, np.ndarray]

WIDTH = len(HAIR_ATTRIBUTES)
TARGETS = (*HAIR_ATTRIBUTES, "hair")
OBJECTIVE = Joint(attributes=WIDTH, groups=len(HAIR))


@dataclass(frozen=True, kw_only=True)
class HairSetup(Setup):
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

    @property
    def recipe(self) -> Recipe:
        """As the notebooks' small models are trained; mirrored at random, as in the paper."""
        config = TrainingConfig(
            architecture=self.architecture, weights=self.weights, outputs=OBJECTIVE.outputs, epochs=self.epochs,
            batch=self.batch, learning_rate=self.learning_rate, precision="float32", seed=self.seed,
        )  # fmt: skip
        return Recipe(data=self.data("train"), targets=TARGETS, training=config, objective=OBJECTIVE)

    def data(self, split: str) -> "HairFaces":
        """The faces of a split."""
        return HairFaces(size=self.size, images=self.images if split == "train" else None, split=split)

    def fingerprint(self) -> str:
        """As that of every set-up, with the faces that the model is asked about."""
        return super().fingerprint() + "".join(self.data(split).fingerprint() for split in ("val", "test"))


@dataclass(frozen=True, kw_only=True)
class HairFaces:
    """Faces of CelebA for which exactly one of three hair colours is annotated.

    Attributes:
        size: of the faces, in pixels.
        images: the first so many; None: all there are.
        split: "train", "val" or "test".
    """

    size: int
    images: int | None = None
    split: str = "train"

    def table(self) -> pd.DataFrame:
        """The paper's 23 attributes and the hair colour, of these faces."""
        table, places = self._chosen()
        return table.iloc[places].reset_index(drop=True)

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        """The faces with these labels.

        Raises:
            BiaslibError: where CelebA's files are missing or damaged.
        """
        table, places = self._chosen()
        places = places if rows is None else places[rows]
        taken = self._faces().samples(places)
        return Samples(taken.images, table.iloc[places].reset_index(drop=True), taken.masks)

    def fingerprint(self) -> str:
        """Of all faces of the split."""
        return self._faces().fingerprint()

    def _chosen(self) -> tuple[pd.DataFrame, np.ndarray]:
        """The targets of all faces of the split, and the places of those with one hair colour."""
        table = self._faces().table()
        group = hair_colour(table)
        return table.assign(hair=group)[list(TARGETS)], np.flatnonzero(group >= 0)[: self.images]

    def _faces(self) -> CelebA:
        return CelebA(size=self.size, split=self.split)


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


def outcomes(setups: Sequence[HairSetup]) -> list[Outcome]:
    """Trains what the store lacks, side by side where cores or a cluster allow, and returns all in order.

    Raises:
        BiaslibError: where CelebA's files are missing or damaged.

    Warns:
        DatasetWarning: as `datasets.load` does.
    """
    train.many([setup.recipe for setup in setups])
    return [_outcome(arrays) for arrays in answers.many(setups)]


@stored("faces")
def answers(setup: HairSetup) -> Arrays:
    """Labels (N, 24), the group last, of `train`, `validation` and `test`, and logits (N, 26) of the latter two."""
    train_set, validation, test = (setup.data(split) for split in ("train", "val", "test"))
    model = load(setup.recipe)
    return {
        **{
            name: faces.table().to_numpy(np.int8)
            for name, faces in (("train", train_set), ("validation", validation), ("test", test))
        },
        "validation_logits": training.predict(model, validation.samples().images),
        "test_logits": training.predict(model, test.samples().images),
    }


def _outcome(arrays: Arrays) -> Outcome:
    thresholds = calibrated_thresholds(arrays["validation"][:, :WIDTH], arrays["validation_logits"][:, :WIDTH])
    logits = arrays["test_logits"]
    said = Labels(logits[:, :WIDTH] > thresholds, logits[:, WIDTH:].argmax(axis=1), HAIR_ATTRIBUTES)
    train, test = (
        Labels(part[:, :WIDTH], part[:, WIDTH], HAIR_ATTRIBUTES) for part in (arrays["train"], arrays["test"])
    )
    return Outcome(train, test, said, logits, thresholds, len(arrays["validation"]))
