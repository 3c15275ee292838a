"""Joint classifiers of attributes and hair colour on CelebA's faces, trained through the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from biaslib import training
from biaslib.datasets.celeba import HAIR, HAIR_ATTRIBUTES, hair_colour
from biaslib.metrics import Labels, calibrated_thresholds
from biaslib.recipes import CelebA, Recipe, Setup, load, train
from biaslib.samples import Samples
from biaslib.store import stored
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint

_WIDTH: Final = len(HAIR_ATTRIBUTES)


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
    """
    train.many([setup.recipe for setup in setups])
    outcomes = []
    for arrays in _hair_answers.many(setups):
        validation, logits = arrays["validation"], arrays["test_logits"]
        thresholds = calibrated_thresholds(validation[:, :_WIDTH], arrays["validation_logits"][:, :_WIDTH])
        predicted = Labels(logits[:, :_WIDTH] > thresholds, logits[:, _WIDTH:].argmax(axis=1), HAIR_ATTRIBUTES)
        shown, test = (Labels(arrays[k][:, :_WIDTH], arrays[k][:, _WIDTH], HAIR_ATTRIBUTES) for k in ("train", "test"))
        outcomes.append(HairOutcome(shown, test, predicted, logits, len(validation)))
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
