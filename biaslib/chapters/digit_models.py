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
from biaslib.recipes import Drawn, Recipe, Setup, load, train
from biaslib.store import fingerprint, stored
from biaslib.worlds.digits import CORNERS, Digits, Scans, Split, scans_of

_OUTPUTS = (*CORNERS, "group")


@dataclass(frozen=True, kw_only=True)
class _Corners(Drawn):
    """Images of the world of digits, perhaps of other originals, or with corners that lean."""

    source: str
    shares: tuple[float, ...]

    def get_world(self) -> Digits:
        return Digits(**dict(self.made_with), scans=_scans(self.source))

    def table(self) -> pd.DataFrame:
        if self.shares:
            return self.get_world().skewed(self.images, shares=self.shares, seed=self.seed, **dict(self.options))
        return super().table()

    def fingerprint(self) -> str:
        return fingerprint.of_value([super().fingerprint(), fingerprint.of_value(_scans(self.source))])


@dataclass(frozen=True, kw_only=True)
class DigitSetup(Setup):
    """One model and the data it is trained and tested on."""

    source: str = "scikit-learn"  # of the handwritten originals; or "mnist"
    assignment: int = 0  # of the ten classes to two groups
    strength: float = 0.0  # skew of the left corners' pair, in [0, 1]; ignored where corners lean
    shares: tuple[float, ...] = ()  # where not empty, how much each corner leans to group 1
    blur: float = 0.0  # of the digits, in pixels of 28
    corner: int = 3  # side of a corner, in pixels of 28
    images: int = 2400  # for training
    seed: int = 0  # of the images, the initial weights and the order
    architecture: str = "lenet5"
    test_images: int = 1200
    epochs: int = 8
    batch: int = 64
    learning_rate: float = 0.02  # of SGD with momentum 0.9; it falls along a cosine

    def data(self, split: Split) -> _Corners:
        """The images of training or test; test images have the same skew and other scans."""
        images, seed = (self.images, self.seed) if split == "train" else (self.test_images, self.seed + 10_000)
        return _Corners(
            world="digits", images=images, strength=self.strength, seed=seed, size=28, source=self.source,
            shares=self.shares, options=(("split", split), ("blur", self.blur)),
            made_with=(("assignment", self.assignment), ("corner", self.corner)),
        )  # fmt: skip

    @property
    def recipe(self) -> Recipe:
        """LeNet-5, one binary loss for the corners and the group alike, SGD with momentum 0.9 as in the paper."""
        config = self.config(
            outputs=len(_OUTPUTS), loss="binary", balanced=False, optimiser="sgd", momentum=0.9, schedule="cosine",
            augmentation=(), precision="float32",
        )  # fmt: skip
        return Recipe(data=self.data("train"), targets=_OUTPUTS, training=config)


@dataclass(frozen=True)
class _Outcome:
    """What a model was shown and what it says."""

    train: Labels
    test: Labels
    predicted: Labels  # for the test images: a corner is white, or a group is 1, where its logit is above 0
    # (N,) how far the probability of group 1 rises when the bottom left corner is changed so that the left corners
    # match instead of not, all else the same; in [-1, 1]
    effect: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """(4,) share of right predictions, of the corners and the group."""
        corners = (self.predicted.attributes == self.test.attributes).mean(axis=0)
        return np.append(corners, (self.predicted.groups == self.test.groups).mean())


def outcomes(setups: Sequence[DigitSetup]) -> list[_Outcome]:
    """Trains what the store lacks, side by side where cores or a cluster allow, and returns all in order."""
    train.many([setup.recipe for setup in setups])
    results = []
    for arrays in answers.many(setups):
        shown = (arrays["train"], arrays["test"], arrays["logits"] > 0)
        shown_train, test, predicted = (Labels(part[:, :-1], part[:, -1].astype(int), names=CORNERS) for part in shown)
        results.append(_Outcome(shown_train, test, predicted, arrays["effect"]))
    return results


@stored("digits", passes=lambda setup: (setup.images + 3 * setup.test_images, 1))
def answers(setup: DigitSetup) -> dict[str, np.ndarray]:
    """What `outcomes` asks of the store: labels of training and test, (N, 4) bool, logits and `effect`."""
    model, test = load(setup.recipe), setup.data("test")
    world, table, pictures = test.get_world(), test.table(), test.samples()
    white = causal_effect(
        lambda images: expit(training.predict(model, images)[:, -1]), world, table, cue="bottom_left", size=28
    )
    return {
        "train": setup.data("train").samples().labels[list(_OUTPUTS)].to_numpy(bool),
        "test": pictures.labels[list(_OUTPUTS)].to_numpy(bool),
        "logits": training.predict(model, pictures.images),
        "effect": np.where(table["top_left"] == 1, white, -white),
    }


@functools.cache
def _scans(source: str) -> Scans | None:
    if source == "scikit-learn":
        return None
    if source != "mnist":
        raise BiaslibError(f"digits come from scikit-learn or mnist, not from {source!r}.")
    return scans_of(datasets.load("mnist", "train", size=28), datasets.load("mnist", "test", size=28))
