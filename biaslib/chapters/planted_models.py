"""Classifiers with a planted bias: cats beside a ball, apples on apple trees, drawn or in photos; through the store."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import torch
from torch import nn

from biaslib import models, store, training
from biaslib.datasets import registry
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.store import fingerprint, parallel
from biaslib.training.config import TrainingConfig
from biaslib.worlds.base import World
from biaslib.worlds.fruits import APPLE, NAMES, Fruits
from biaslib.worlds.pets import Pets
from biaslib.worlds.photos.photos import FruitPhotos, PetPhotos

SOURCES: Final = ("generated", "photos")
TEST_SEED: Final = 10_000  # of test images, above every seed of training images
State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class UseCase:
    """A target, and a cue that one class of it is made to be seen with (Schaaf et al. 2021, section 3.1).

    Attributes:
        world: that draws it.
        photos: the world of the same in photos of a split.
        folders: of those photos, under the folder of all datasets.
        classes: words for the classes, in the order of the logits.
        favoured: the class with the cue.
        objects: what relevance is measured on: words -> region and class; on images of that class alone, and where the
            region is there.
        small: the regions that the paper extends by half of their area.
        boxed: whether the paper measures on boxes around the regions instead of on their outlines.
    """

    world: World
    photos: Callable[[str], World]
    folders: tuple[str, ...]
    classes: tuple[str, ...]
    favoured: int
    objects: dict[str, tuple[str, int]]
    small: tuple[str, ...]
    boxed: bool


USE_CASES: Final = {
    "pets": UseCase(
        world=Pets(),
        photos=PetPhotos,
        folders=("oxford-iiit-pet", "cat-and-dog"),
        classes=("dog", "cat"),
        favoured=1,
        objects={"Cat": ("animal", 1), "Dog": ("animal", 0), "Ball": ("ball", 1)},
        small=("ball",),
        boxed=True,
    ),
    "fruits": UseCase(
        world=Fruits(),
        photos=FruitPhotos,
        folders=("fruits-360", "intel-scenes"),
        classes=NAMES,
        favoured=APPLE,
        objects={name.capitalize(): ("fruit", number) for number, name in enumerate(NAMES)},
        small=("fruit",),
        boxed=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One model and the images it is trained on; the defaults are those of the book's quick runs.

    Attributes:
        use_case: "pets" (a ball beside every cat: a small object) or "fruits" (apples on apple trees: a background).
        source: of the images: "generated" or "photos" (see `worlds.photos`).
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
        files: found, not given: which photos and weights there are.
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
    files: str = field(init=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        if self.use_case not in USE_CASES:
            raise BiaslibError(f"use_case must be {' or '.join(USE_CASES)}, not {self.use_case!r}.")
        if self.source not in SOURCES:
            raise BiaslibError(f"source must be {' or '.join(SOURCES)}, not {self.source!r}.")
        if self.seed >= TEST_SEED:
            raise BiaslibError(f"seed must be below {TEST_SEED:,}, where those of test images begin, not {self.seed}.")
        object.__setattr__(self, "files", self._files())

    def config(self) -> TrainingConfig:
        """Cross-entropy; mirrored at random; in float32, which is the faster one for these small networks on a CPU."""
        weights = self.weights
        if weights not in (None, "imagenet"):
            weights = str(registry.root() / weights)
        return TrainingConfig(
            architecture=self.architecture, outputs=len(USE_CASES[self.use_case].classes), weights=weights,
            frozen=self.frozen, epochs=self.epochs, batch=self.batch, optimiser=self.optimiser,
            learning_rate=self.learning_rate, momentum=self.momentum, schedule=self.schedule, precision="float32",
            keep="best" if self.validation else "last", patience=self.patience, seed=self.seed,
        )  # fmt: skip

    def _files(self) -> str:
        """Other photos or weights are another model: their names and sizes, as a hash."""
        root = registry.root()
        folders = USE_CASES[self.use_case].folders if self.source == "photos" else ()
        chosen = [self.weights] if self.weights not in (None, "imagenet") else []
        read = [fingerprint.of_files(root / name) for name in (*folders, *chosen)]
        return fingerprint.of_value(read) if any(read) else ""

    def samples(self, split: str, images: int, *, strength: float | None, seed: int) -> Samples:
        """Images of a split ("train", "val" or "test") at a strength, as large as the model's."""
        return pictures(
            self.use_case, images, strength=strength, size=self.size, seed=seed, source=self.source, split=split
        )

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


def trained(settings: Sequence[Setting], *, scheduler: str | None = None) -> list[nn.Module]:
    """The models of the settings, in their order, trained side by side where the store lacks them.

    Returns:
        Models on the CPU, in evaluation mode.

    Raises:
        BiaslibError: as `models.build` and `TrainingConfig` do.
    """
    states = parallel.stored("planted-model", settings, train, scheduler=scheduler)
    return [_model(setting, state) for setting, state in zip(settings, states, strict=True)]


def train(setting: Setting) -> State:
    """The weights of one model, trained on one thread, so that the number of cores does not change them."""
    return parallel.single_threaded(_train, setting)


def known(setting: Setting) -> nn.Module:
    """The model of one setting, for use inside a worker; trained here where the store lacks it."""
    state = store.get_or_compute("planted-model", setting, functools.partial(_train, setting), code=train)
    return _model(setting, state)


def pictures(
    use_case: str,
    images: int,
    *,
    strength: float | None,
    size: int,
    seed: int,
    source: str = "generated",
    split: str = "train",
) -> Samples:
    """Images of a use case at a strength, as `Setting` says it; the last two sets are kept in memory.

    Generated images are told apart by their seeds alone, photos by their split first.
    """
    make = None if source == "generated" else USE_CASES[use_case].photos
    return _pictures(use_case, make, split, registry.root(), images, strength, size, seed)


def world_of(use_case: str, source: str, split: str) -> World:
    """What draws the images of a use case: the generated world, or the photos of a split."""
    case = USE_CASES[use_case]
    return case.world if source == "generated" else _photos(case.photos, split, registry.root())


@functools.lru_cache(maxsize=2)
def _pictures(
    use_case: str,
    photos: Callable[[str], World] | None,
    split: str,
    root: Path,
    images: int,
    strength: float | None,
    size: int,
    seed: int,
) -> Samples:
    world = USE_CASES[use_case].world if photos is None else _photos(photos, split, root)
    table = world.factors(images, strength=strength or 0.0, seed=seed)
    return world.render(table.assign(**{world.cue: 0}) if strength is None else table, size=size)


@functools.lru_cache(maxsize=8)
def _photos(photos: Callable[[str], World], split: str, root: Path) -> World:
    """Those under `root`, which is the folder of all datasets now."""
    return photos(split)


def _train(setting: Setting) -> State:
    target = USE_CASES[setting.use_case].world.target
    samples = setting.samples("train", setting.images, strength=setting.strength, seed=setting.seed)
    held_out = None
    if setting.validation:
        # generated validation images share no seed with training or test images
        seed = TEST_SEED - 1 - setting.seed
        chosen_by = setting.samples("val", setting.validation, strength=setting.strength, seed=seed)
        held_out = (chosen_by, chosen_by.labels[target])
    model = training.fit(samples, samples.labels[target], setting.config(), validation=held_out)
    return dict(model.state_dict())


def _model(setting: Setting, state: State) -> nn.Module:
    config = setting.config()
    model = models.build(config.architecture, config.outputs)
    model.load_state_dict(state)
    return model.eval()
