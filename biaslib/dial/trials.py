"""Models on the dial: a world, a strength of its bias, a seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from biaslib import recipes, worlds
from biaslib.errors import BiaslibError, check_known, check_number, reason, refused
from biaslib.recipes import Drawn, Recipe, Setup
from biaslib.store.files import beside, tupled
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Joint, Objective
from biaslib.worlds.base import World
from biaslib.worlds.digits import CORNERS, Digits
from biaslib.worlds.faces import Faces
from biaslib.worlds.scenes import OBJECTS, Scenes


@dataclass(frozen=True)
class _Place:
    """What a world is on the dial, by the TOML file beside this module."""

    target: str  # words for what the model is asked
    cue: str  # words for what it should not lean on
    kind: str  # of cue
    regions: tuple[str, ...]  # where that is which the target is about
    cue_regions: tuple[str, ...]
    training: TrainingConfig  # its architecture is that of the models where a trial names none; the only one of scenes
    images: int = 3000  # for training
    size: int | None = None  # of its images in pixels, where they have only one
    positive: int = 1  # the class of the target that the model is asked about
    beside: str = ""  # a further column: the cue is there where both are alike, and not where its own is 1
    outputs: tuple[str, ...] = ()  # what its models answer together, the target among it; (): the target alone
    objective: Objective | None = None  # of such models, where it is not a loss for each output
    photos: str = ""  # the name of its photographs in `recipes.Drawn`, where it is not drawn
    drawn_with: tuple[tuple[str, Any], ...] = ()  # what else its tables are drawn with
    tested_with: tuple[tuple[str, Any], ...] = ()  # and those of test images


# what models answer together where it is more than the target
_OUTPUTS: Final = {
    "digits": (*CORNERS, Digits.target), "faces": Faces.attributes, "scenes": (*OBJECTS, Scenes.target)
}  # fmt: skip


def _place(name: str, said: dict[str, Any]) -> _Place:
    config = TrainingConfig(**said.pop("training", {}))
    objective = Joint(attributes=len(OBJECTS), groups=2) if name == "scenes" else None
    return _Place(training=config, outputs=_OUTPUTS.get(name, ()), objective=objective, **said)


# a transformer trained from nothing does not learn at the rates that the worlds' small convolutional networks take
_TRAINED: Final[dict[str, Any]] = {"small_vit": dict(learning_rate=3e-3, batch=64, epochs=6, precision="float32")}


class _Places(dict[str, _Place]):
    """By their names; a world in a file of its own by the file's, with the `PLACE` in it."""

    def __missing__(self, name: str) -> _Place:
        if not worlds.is_file(name):
            raise KeyError(name)
        try:
            return _place(name, tupled(dict(worlds.of_file(name).PLACE)))  # and none of the book's from then on
        except TypeError as error:
            raise refused("place that is not one", name=name, why=reason(error)) from error


PLACES: Final = _Places({name: _place(name, said) for name, said in beside(__file__).items()})


@dataclass(frozen=True, kw_only=True)
class Trial(Setup):
    """One model and the images it is measured on."""

    world: str  #: one of `PLACES`
    strength: float  #: of its bias, in [0, 1]: the correlation of target and cue among the training images
    seed: int = 0  #: of the training images, the initial weights and the order; it tells models of one strength apart
    #: a name that `models.build` knows; None: the world's usual one; "small_vit" is trained at a rate of its own
    architecture: str | None = None
    images: int | None = None  #: for training; None: as many as the world's own recipe takes
    epochs: int | None = None  #: passes over them; None: likewise
    size: int = 64  #: of the images, in pixels
    test_images: int = 1000  #: that every model of a world is measured on; the same for all
    explained: int = 100  #: the first of them, for methods of many passes an image; a divisor of `test_images`

    def __post_init__(self) -> None:
        if not worlds.is_file(self.world):
            check_known("a world of the dial", self.world, PLACES)
        check_number("strength", self.strength, 0, 1)
        usual = self.place.training.architecture
        if self.world == "scenes" and self.architecture not in (None, usual):
            raise BiaslibError(f"Scenes have models of one architecture, {usual}: leave it out.")
        if self.explained < 1 or self.test_images % self.explained:
            raise refused("explained images that do not divide", images=self.test_images, explained=self.explained)

    @property
    def place(self) -> _Place:
        """What the world is on the dial."""
        return PLACES[self.world]

    @property
    def drawn_by(self) -> World:
        """The world, of photographs that of the test."""
        return self.tested(0.0, 0).get_world()

    @property
    def data(self) -> Drawn:
        """The training images."""
        return Drawn(
            world=self.place.photos or self.world, photos="train" if self.place.photos else None, seed=self.seed,
            images=self.images or self.place.images, strength=self.strength, size=self.place.size or self.size,
            options=self.place.drawn_with,
        )  # fmt: skip

    def tested(self, strength: float, seed: int) -> Drawn:
        """Test images, none of which is a training image, with this strength of the bias."""
        return replace(
            self.data, images=self.test_images, strength=strength, seed=seed, options=self.place.tested_with,
            photos="test" if self.place.photos else None,
        )  # fmt: skip

    def truth(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) bool: which rows of the world have the target."""
        return np.asarray(table[self.drawn_by.target].to_numpy() == self.place.positive)

    def cue(self, table: pd.DataFrame) -> np.ndarray:
        """(n,) bool: which rows have the cue."""
        return np.asarray(table[self.drawn_by.cue].to_numpy(int) == self._with_cue(table))

    def edited(self, table: pd.DataFrame, there: int) -> pd.DataFrame:
        """All rows with the cue (1) or without it (0), and nothing else changed."""
        column, value = self.drawn_by.cue, self._with_cue(table)
        return table.assign(**{column: (value if there else 1 - value).astype(table[column].to_numpy().dtype)})

    def _with_cue(self, table: pd.DataFrame) -> np.ndarray:
        return table[self.place.beside].to_numpy(int) if self.place.beside else np.ones(len(table), int)

    @property
    def recipe(self) -> Recipe:
        """The model as the world's own chapters train it."""
        usual = self.place.training
        usual = replace(usual, **_TRAINED.get(self.architecture or "", {}))  # a world's own training is not changed
        config = replace(
            usual, architecture=self.architecture or usual.architecture, epochs=self.epochs or usual.epochs,
            seed=self.seed,
        )  # fmt: skip
        if not self.place.outputs:
            return recipes.target_of_world(self.data, config)
        return Recipe(data=self.data, targets=self.place.outputs, training=config, objective=self.place.objective)


def grid(
    names: Sequence[str],
    *,
    strengths: Sequence[float],
    models: int,
    references: int,
    images: Sequence[int | None] | None = None,
    epochs: Sequence[int | None] | None = None,
    seed: int = 0,
    **shared: Any,
) -> list[Trial]:
    """Trials of several worlds, of `PLACES`, world by world: `models` at every strength, `references` at strength 0.

    Strength 0 is added where it is missing. `images` and `epochs` are a number for each world (None: see `Trial`),
    `seed` is that of the first model of each strength, `shared` is what else a `Trial` takes.
    """
    images, epochs = images or [None] * len(names), epochs or [None] * len(names)
    if not len(names) == len(images) == len(epochs):
        raise refused(
            "worlds without numbers", images=len(images), epochs=len(epochs), worlds=len(names), names=", ".join(names)
        )
    return [
        Trial(world=name, strength=float(strength), seed=seed + number, images=n, epochs=passes, **shared)
        for name, n, passes in zip(names, images, epochs, strict=True)
        for strength in sorted({0.0, *strengths})
        for number in range(models if strength else references)
    ]
