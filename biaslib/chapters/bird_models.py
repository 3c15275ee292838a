"""Classifiers of birds, drawn or photographed, trained along a dial of bias, and what pages measure of each."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.special import expit
from torch import nn

from biaslib import attribution, training
from biaslib.errors import check_known
from biaslib.metrics import causal_effect, mask_score, worst_group_accuracy
from biaslib.models import to_tensor
from biaslib.recipes import Drawn, Recipe, load, target_of_world, train
from biaslib.store import Calls, stored
from biaslib.training import TrainingConfig

# where the birds come from, with what `Drawn` calls it; and pets in the place of birds
SOURCES: Final = {"generated": "birds", "photos": "birds", "pets": "pets_on_scenes"}


def recipe(
    bias: float, number: int = 0, *, images: int, size: int = 64, seed: int = 0,
    source: str = "generated", **config: Any
) -> Recipe:  # fmt: skip
    """Of one model: `bias` is the share of its training birds in their usual place, `config` is `TrainingConfig`'s."""
    seed = 1000 * seed + number
    data = _data(source, strength=round(2 * bias - 1, 6), images=images, size=size, seed=seed)
    return target_of_world(data, TrainingConfig(seed=seed, **config))


def probability(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """(N,): how probable a waterbird is to a model."""
    logits = training.predict(model, images)
    return np.asarray(expit(logits[:, 1] - logits[:, 0]))


def explained(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """(N, h, w): Grad-CAM of each predicted class."""
    predicted = (probability(model, images) > 0.5).astype(int)
    return attribution.grad_cam(model, to_tensor(images, model=model), predicted[:, None])[:, 0].numpy()


def balanced(n: int, size: int = 64, seed: int = 0, source: str = "generated") -> Drawn:
    """Test birds whose place says nothing."""
    return _new(_data(source, strength=0.0, images=n, size=size), images=n, seed=10_000 + seed)


def planned(recipes: Sequence[Recipe], *, test_images: int, seed: int = 0) -> list[Calls]:
    """What `measured` asks of the store."""
    return [_measured.calls([(recipe, test_images, seed) for recipe in recipes])]


def measured(recipes: Sequence[Recipe], *, test_images: int, seed: int = 0) -> dict[str, np.ndarray]:
    """What M models say of the same N balanced birds, where they look, and what the background does to them.

    `probability` of a waterbird, mask scores `bird` and `background`, causal `effect` of the background (M, N); `maps`
    (M, N, h, w); accuracy of the `worst` group, and on new images like a model's `own` (M,).
    """
    train.many(recipes)
    parts = planned(recipes, test_images=test_images, seed=seed)[0].results()
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


@stored("bird-measures", passes=lambda _, n, seed: (2.5 * n, 2.3))  # the test images are drawn once
def _measured(recipe: Recipe, test_images: int, seed: int) -> dict[str, np.ndarray]:
    model, data = load(recipe), recipe.data
    assert isinstance(data, Drawn)
    balanced_data = _new(replace(data, strength=0.0), images=test_images, seed=10_000 + seed)
    world, test = balanced_data.get_world(), balanced_data.with_masks()
    waterbird, place = (test.labels[name].to_numpy(bool) for name in (world.target, world.cue))
    answers, maps = probability(model, test.images), explained(model, test.images)
    predict = functools.partial(probability, model)
    effect = causal_effect(predict, world, balanced_data.table(), cue=world.cue, size=data.size)
    own = _new(data, images=test_images // 2, seed=20_000 + seed).samples()
    own_answers = probability(model, own.images) > 0.5
    return {
        "probability": answers,
        "maps": maps,
        "bird": mask_score(maps, test.masks[world.regions[0]]),
        "background": mask_score(maps, test.masks["background"]),
        "effect": np.asarray(effect),
        "worst": np.asarray(worst_group_accuracy((answers > 0.5) == waterbird, waterbird * 2 + place)),
        "own": np.array(np.mean(own_answers == own.labels[world.target].to_numpy(bool))),
    }


def _data(source: str, **options: Any) -> Drawn:
    check_known("source", source, SOURCES)
    return Drawn(world=SOURCES[source], photos=None if source == "generated" else "train", **options)


def _new(data: Drawn, *, images: int, seed: int) -> Drawn:
    """Other images of the kind, for a test; photographs are of another split."""
    return replace(data, images=images, seed=seed, photos=data.photos and "test")
