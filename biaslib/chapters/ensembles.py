"""Trained classifiers of generated worlds, shared by all chapters through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from biaslib import models, store, training, worlds
from biaslib.samples import Samples
from biaslib.store import parallel
from biaslib.training import TrainingConfig

State = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A classifier of a world's target, by everything it is made from.

    Attributes:
        world: a name that `worlds.get` knows.
        strength: of the world's bias, in [0, 1].
        images: how many training images.
        config: of the training; its seed tells the models of an ensemble apart.
        size: height and width of the images in pixels.
        data_seed: of the training images.
    """

    world: str
    strength: float
    images: int
    config: TrainingConfig
    size: int = 64
    data_seed: int = 0


def trained(recipes: Sequence[Recipe], *, scheduler: str | None = None) -> list[nn.Module]:
    """The models of the recipes, in their order, trained where the store lacks them.

    Missing models are trained side by side, on this machine's cores or on the workers of the Dask cluster at
    `scheduler` (see `parallel.workers`); each is stored when it is ready, so that a killed call goes on where it was.

    Returns:
        Models on the CPU, in evaluation mode.
    """
    states = parallel.stored("model", recipes, train, scheduler=scheduler)
    return [_model(recipe, state) for recipe, state in zip(recipes, states, strict=True)]


def train(recipe: Recipe) -> State:
    """The weights of one model, trained on one thread, so that the number of cores does not change them."""
    return parallel.single_threaded(_train, recipe)


def known(recipe: Recipe) -> nn.Module:
    """The model of one recipe, for use inside a worker; trained here where the store lacks it."""
    return _model(recipe, store.get_or_compute("model", recipe, functools.partial(train, recipe), code=train))


@functools.lru_cache(maxsize=1)
def training_samples(world: str, strength: float, images: int, size: int, seed: int) -> Samples:
    """The training images of recipes that differ in their model only; the last set is kept in memory."""
    place = worlds.get(world)
    return place.render(place.factors(images, strength=strength, seed=seed), size=size)


def _train(recipe: Recipe) -> State:
    samples = training_samples(recipe.world, recipe.strength, recipe.images, recipe.size, recipe.data_seed)
    target = samples.labels[worlds.get(recipe.world).target]
    return dict(training.fit(samples, target, recipe.config).state_dict())


def _model(recipe: Recipe, state: State) -> nn.Module:
    config = recipe.config
    model = models.build(config.architecture, config.outputs, hidden=config.hidden)
    model.load_state_dict(state)
    return model.eval()
