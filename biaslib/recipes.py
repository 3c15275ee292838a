"""How every classifier of the book comes about: a record of all that its weights depend on, `train`, `load`."""

import functools
import multiprocessing
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
import torch
from torch import nn

from biaslib import datasets, models, training, worlds
from biaslib.datasets import photos, registry, waterbirds
from biaslib.samples import Samples
from biaslib.store import fingerprint, stored
from biaslib.store.files import sha256
from biaslib.training import TrainingConfig
from biaslib.training.objectives import Objective
from biaslib.worlds.base import World
from biaslib.worlds.photos import BirdPhotos, FruitPhotos, PetPhotos, PetsOnScenes

_State = dict[str, torch.Tensor]
_Options = tuple[tuple[str, Any], ...]

CELEBA: Final = ("celeba", "celeba-cropped")  # CelebA's faces in whole pictures, and the square of each face alone
CRITERION: Final = "criterion/"  # begins the names of an objective's own tensors among the weights
# the worlds of photographs by the names that `Drawn` has for them, and the folders of the data sets these are from
_PHOTOS: Final[dict[str, tuple[Any, tuple[str, ...]]]] = {
    "pets": (PetPhotos, ("oxford-iiit-pet", "cat-and-dog")),
    "fruits": (FruitPhotos, ("fruits-360", "intel-scenes")),
    "birds": (BirdPhotos, ("CUB_200_2011", *(f"places365/data_large/{kind}" for kind in waterbirds.PLACES))),
    "pets_on_scenes": (PetsOnScenes, ("oxford-iiit-pet", "intel-scenes")),
}


class Data(Protocol):
    """What a model is trained on: a frozen dataclass that says it in plain values."""

    def table(self) -> pd.DataFrame:
        """The labels, one row an image, from which rows can be chosen before an image is drawn or read."""

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        """The images of these rows, or of all."""

    def fingerprint(self) -> str:
        """Hash of the code and of the files that the images depend on."""


class Rows(Protocol):
    """Which rows of the data are trained on, some perhaps twice: a frozen dataclass (`mitigation.resampling`)."""

    def chosen(self, table: pd.DataFrame) -> np.ndarray:
        """Positions of the rows."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Images of a world: drawn, or photographs in which the world's cue was planted."""

    world: str  #: a name that `worlds.get` knows; of photographs also "pets_on_scenes"
    images: int  #: how many
    strength: float | None  #: of the world's bias, in [0, 1]; None where no image has the cue
    seed: int = 0  #: of the factors
    size: int = 64  #: height and width in pixels
    options: _Options = ()  #: what else `world.factors` takes, as pairs of name and value
    made_with: _Options = ()  #: what the world is made with, such as (("groups", 3),) for scenes
    photos: str | None = None  #: the split of the photographs that take the place of drawings, if any

    def get_world(self) -> World:
        """The world."""
        if self.photos is not None:
            return _photos(self.world, self.photos, registry.root())
        known = worlds.get(self.world)
        return type(known)(**dict(self.made_with)) if self.made_with else known

    def table(self) -> pd.DataFrame:
        """The world's factors."""
        world = self.get_world()
        table = world.factors(self.images, strength=self.strength or 0.0, seed=self.seed, **dict(self.options))
        return table.assign(**{world.cue: 0}) if self.strength is None else table

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        """The images, without masks; those of the last few records are kept in memory."""
        everyone = _rendered(self, registry.root() if self.photos else None, masks=False)
        return everyone if rows is None else everyone.take(rows)

    def with_masks(self) -> Samples:
        """The images with the world's masks; also kept in memory for a while."""
        return _rendered(self, registry.root() if self.photos else None, masks=True)

    def fingerprint(self) -> str:
        """Of the world's module and, where they are photographs, of their files' names and sizes."""
        if worlds.is_file(self.world):
            return sha256(Path(self.world))
        if not self.photos:
            return fingerprint.of_modules([type(worlds.get(self.world)).__module__])
        kind, folders = _PHOTOS[self.world]
        modules = [kind.__module__, photos.__name__]
        code = fingerprint.of_modules(modules, without=[datasets.__name__])
        return fingerprint.of_value([code, [fingerprint.of_files(registry.root() / folder) for folder in folders]])


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Photographs of a data set, as `datasets.load` reads them."""

    name: str  #: of the data set
    size: int  #: height and width in pixels
    images: int | None = None  #: the first so many, or all there are
    split: str = "train"  #: or "val" or "test"

    def table(self) -> pd.DataFrame:
        """All labels as annotated."""
        return self._loaded().labels[: self.images]

    def samples(self, rows: np.ndarray | None = None) -> Samples:
        """The photographs; raises where their files are missing or damaged."""
        everyone = self._loaded()
        return everyone.take(slice(self.images) if rows is None else rows)

    def fingerprint(self) -> str:
        """Of all photographs of the split, as read, and of their annotations. Warns as `datasets.load` does."""
        samples = self._loaded()
        return fingerprint.of_value([samples.images, samples.labels])

    def _loaded(self) -> Samples:
        with warnings.catch_warnings():
            if multiprocessing.parent_process() is not None:
                # what `datasets.load` warns of was said before the worker was started
                warnings.simplefilter("ignore", datasets.DatasetWarning)
            return datasets.load(self.name, self.split, size=self.size)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that the weights of a classifier depend on, and nothing else."""

    data: Data  #: what it is trained on
    #: the label of a class, or the labels of attributes, one an output (and, for a joint objective, the group's last)
    targets: str | tuple[str, ...]
    training: TrainingConfig  #: how; weights in a file are named from the folder of all data sets on
    objective: Objective | None = None  #: what it is trained for, else the loss that `training` names
    rows: Rows | None = None  #: which rows of the data, else all
    validation: Data | None = None  #: what the epoch is chosen by, else the last epoch stays

    def fingerprint(self) -> str:
        """Hash of the code and the files that the weights depend on beside the record's own values."""
        parts = [type(part).__module__ for part in (self.objective, self.rows) if part is not None]
        code = fingerprint.of_modules([training.__name__, models.__name__, *parts])
        # this module, too: what is measured of a model is drawn by it
        own, weights = fingerprint.of_module(__name__), fingerprint.of_files(_weights_file(self.training))
        return fingerprint.of_value([code, own, weights])

    def table(self) -> pd.DataFrame:
        """The labels of the rows it is trained on."""
        table = self.data.table()
        return table if self.rows is None else table.iloc[self.rows.chosen(table)]


class Setup:
    """A chapter's own record of what it varies, from which it makes a recipe; a frozen dataclass."""

    @property
    def recipe(self) -> Recipe:
        """Of the model."""
        raise NotImplementedError

    def config(self, **own: Any) -> TrainingConfig:
        """How the model is trained: `own`, and what the set-up says under the name that a configuration has for it."""
        said: Any = {each.name: getattr(self, each.name) for each in fields(TrainingConfig) if each.name in vars(self)}
        return TrainingConfig(**said | own)

    def fingerprint(self) -> str:
        """Hash of the recipe: a set-up in a key stands for all that its model depends on."""
        return fingerprint.of_value(self.recipe)


@stored("model", code=())  # a recipe names all code that counts
def train(recipe: Recipe) -> _State:
    """The weights of one model, and those of its objective's own layers, whose names begin with `CRITERION`."""
    rows = None if recipe.rows is None else recipe.rows.chosen(recipe.data.table())
    config = recipe.training
    if config.weights not in (None, "imagenet"):
        config = replace(config, weights=str(_weights_file(config)))
    model, criterion = training.fit_with_criterion(
        *_examples(recipe, recipe.data.samples(rows)),
        config,
        objective=recipe.objective,
        validation=None if recipe.validation is None else _examples(recipe, recipe.validation.samples()),
    )
    own = {f"{CRITERION}{name}": tensor for name, tensor in criterion.state_dict().items()}
    # a worker sends them, and a card's tensors cannot be sent
    return {name: tensor.cpu() for name, tensor in (model.state_dict() | own).items()}


def load(recipe: Recipe) -> nn.Module:
    """The model of one recipe, in evaluation mode, on `models.device()`; trained here where the store lacks it."""
    return _model(recipe, train(recipe))


def load_many(recipes: Sequence[Recipe]) -> list[nn.Module]:
    """The models of all recipes, in their order; what the store lacks is trained side by side."""
    states = train.many(recipes)
    return [_model(recipe, state) for recipe, state in zip(recipes, states, strict=True)]


def target_of_world(data: Drawn, config: TrainingConfig) -> Recipe:
    """A classifier of the target of the world that the data is drawn from."""
    # of photographs alone: the class says it, and none is read
    drawn = data.world in worlds.names() or worlds.is_file(data.world)
    world = worlds.get(data.world) if drawn else _PHOTOS[data.world][0]
    return Recipe(data=data, targets=world.target, training=config)


def _model(recipe: Recipe, state: _State) -> nn.Module:
    model = models.build(recipe.training.architecture, recipe.training.outputs, hidden=recipe.training.hidden)
    model.load_state_dict({name: tensor for name, tensor in state.items() if not name.startswith(CRITERION)})
    return models.placed(model)


def _examples(recipe: Recipe, samples: Samples) -> tuple[Samples, Any]:
    if isinstance(recipe.targets, str):
        return samples, samples.labels[recipe.targets]
    table = samples.labels[list(recipe.targets)]
    return samples, table if recipe.objective is None else table.to_numpy(np.int8)


def _weights_file(config: TrainingConfig) -> Path:
    """Where the weights lie that it starts from; a path to nothing where they are not in a file."""
    return registry.root() / ("none" if config.weights in (None, "imagenet") else str(config.weights))


@functools.lru_cache(maxsize=6)  # as many as a worker comes back to with its next trainings
def _rendered(data: Drawn, root: Path | None, *, masks: bool) -> Samples:
    return data.get_world().render(data.table(), size=data.size, regions=None if masks else ())


@functools.lru_cache(maxsize=8)
def _photos(world: str, split: str, root: Path) -> World:
    """Those under `root`, which is the folder of all data sets now."""
    found: World = _PHOTOS[world][0](split)
    return found
