"""Classifiers with a planted bias: cats beside a ball, apples on apple trees, drawn or in photos; through the store."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import nn

from biaslib import models
from biaslib.errors import BiaslibError
from biaslib.recipes import Drawn, Recipe, Setup, load_many, target_of_world
from biaslib.samples import Samples
from biaslib.training import TrainingConfig
from biaslib.worlds.base import World
from biaslib.worlds.fruits import APPLE, NAMES, Fruits
from biaslib.worlds.pets import Pets

SOURCES: Final = ("generated", "photos")
TEST_SEED: Final = 10_000  # of test images, above every seed of training images


@dataclass(frozen=True)
class UseCase:
    """A target, and a cue that one class of it is made to be seen with (Schaaf et al. 2021, section 3.1).

    Attributes:
        world: that draws it.
        classes: words for the classes, in the order of the logits.
        favoured: the class with the cue.
        objects: what relevance is measured on: words -> region and class; on images of that class alone, and where the
            region is there.
        small: the regions that the paper extends by half of their area.
        boxed: whether the paper measures on boxes around the regions instead of on their outlines.
    """

    world: World
    classes: tuple[str, ...]
    favoured: int
    objects: dict[str, tuple[str, int]]
    small: tuple[str, ...]
    boxed: bool


USE_CASES: Final = {
    "pets": UseCase(
        world=Pets(),
        classes=("dog", "cat"),
        favoured=1,
        objects={"Cat": ("animal", 1), "Dog": ("animal", 0), "Ball": ("ball", 1)},
        small=("ball",),
        boxed=True,
    ),
    "fruits": UseCase(
        world=Fruits(),
        classes=NAMES,
        favoured=APPLE,
        objects={name.capitalize(): ("fruit", number) for number, name in enumerate(NAMES)},
        small=("fruit",),
        boxed=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Setting(Setup):
    """One model and the images it is trained on; the defaults are those of the book's quick runs.

    Attributes:
        use_case: "pets" (a ball beside every cat: a small object) or "fruits" (apples on apple trees: a background).
        source: of the images: "generated" or "photos" (see `planting.photos`).
        architecture: a name that `models.build` knows.
        weights: None, "imagenet", or a file or folder, from the folder of all data sets on.
        frozen: how many of the first convolutions keep the weights they start with.
        strength: of the bias, in [0, 1]: at 1 as in the paper's biased images, at 0 the cue lies beside half of every
            class. None: no image has the cue, as in the paper's unbiased cats and dogs.
        seed: of the images, the initial weights and the order.
        images: for training.
        size: of the images, in pixels.
        epochs: passes over the training images.
        batch: images a step.
        optimiser: a name that `TrainingConfig` knows.
        learning_rate: its peak.
        momentum: of sgd and rmsprop.
        schedule: of the learning rate.
        validation: how many images the epoch is chosen by, of the same strength; 0 keeps the last epoch.
        patience: stop after so many epochs without a better validation loss; None never stops.
    """

    use_case: str = "pets"
    source: str = "generated"
    architecture: str = "small_mobilenet"
    weights: str | None = None
    frozen: int = 0
    strength: float | None = 1.0
    seed: int = 0
    images: int = 3000
    size: int = 64
    epochs: int = 6
    batch: int = 32
    optimiser: str = "adamw"
    learning_rate: float = 1e-2
    momentum: float = 0.0
    schedule: str = "one_cycle"
    validation: int = 0
    patience: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        if self.use_case not in USE_CASES:
            raise BiaslibError(f"use_case must be {' or '.join(USE_CASES)}, not {self.use_case!r}.")
        if self.source not in SOURCES:
            raise BiaslibError(f"source must be {' or '.join(SOURCES)}, not {self.source!r}.")
        if self.seed >= TEST_SEED:
            raise BiaslibError(f"seed must be below {TEST_SEED:,}, where those of test images begin, not {self.seed}.")

    @property
    def recipe(self) -> Recipe:
        """Cross-entropy; mirrored at random; in float32, which is the faster one for these small networks on a CPU."""
        config = TrainingConfig(
            architecture=self.architecture, outputs=len(USE_CASES[self.use_case].classes), weights=self.weights,
            frozen=self.frozen, epochs=self.epochs, batch=self.batch, optimiser=self.optimiser,
            learning_rate=self.learning_rate, momentum=self.momentum, schedule=self.schedule, precision="float32",
            keep="best" if self.validation else "last", patience=self.patience, seed=self.seed,
        )  # fmt: skip
        chosen_by = None
        if self.validation:
            # generated validation images share no seed with training or test images
            chosen_by = self.data("val", self.validation, strength=self.strength, seed=TEST_SEED - 1 - self.seed)
        data = self.data("train", self.images, strength=self.strength, seed=self.seed)
        return replace(target_of_world(data, config), validation=chosen_by)

    def data(self, split: str, images: int, *, strength: float | None, seed: int) -> Drawn:
        """Images of a split ("train", "val" or "test") at a strength, as large as the model's."""
        return data_of(
            self.use_case, images, strength=strength, size=self.size, seed=seed, source=self.source, split=split
        )

    def samples(self, split: str, images: int, *, strength: float | None, seed: int) -> Samples:
        """These images, with their masks."""
        return self.data(split, images, strength=strength, seed=seed).with_masks()

    def world(self, split: str) -> World:
        """What the images of a split are drawn by."""
        return world_of(self.use_case, self.source, split)


def grid(
    setting: Setting, *, architectures: Sequence[str], strengths: Sequence[float | None], count: int
) -> list[Setting]:
    """The setting for every architecture and strength with its own and the next count - 1 seeds, in this order."""
    return [
        replace(setting, architecture=architecture, strength=strength, seed=setting.seed + number)
        for architecture in architectures
        for strength in strengths
        for number in range(count)
    ]


def trained(settings: Sequence[Setting]) -> list[nn.Module]:
    """The models of the settings, in their order, trained side by side where the store lacks them."""
    return load_many([setting.recipe for setting in settings])


def data_of(
    use_case: str,
    images: int,
    *,
    strength: float | None,
    size: int,
    seed: int,
    source: str = "generated",
    split: str = "train",
) -> Drawn:
    """Images of a use case at a strength, as `Setting` says it.

    Generated images are told apart by their seeds alone, photos by their split first.
    """
    photos = None if source == "generated" else split
    return Drawn(world=use_case, images=images, strength=strength, size=size, seed=seed, photos=photos)


def pictures(use_case: str, images: int, **drawn: Any) -> Samples:
    """The images that `data_of` describes, with their masks."""
    return data_of(use_case, images, **drawn).with_masks()


def world_of(use_case: str, source: str, split: str) -> World:
    """What draws the images of a use case: the generated world, or the photos of a split."""
    return data_of(use_case, 1, strength=0.0, size=64, seed=0, source=source, split=split).get_world()
