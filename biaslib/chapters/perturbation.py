"""What models with a planted bias answer when images change: a cue put in, a part exchanged, regions destroyed."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.special import softmax

from biaslib import attribution, metrics, models, training
from biaslib.attribution import METHODS
from biaslib.chapters import planted_models
from biaslib.chapters.planted_models import TEST_SEED, USE_CASES, EvaluationImages, PlantedSetup
from biaslib.errors import BiaslibError
from biaslib.recipes import Drawn, load, train
from biaslib.samples import Samples
from biaslib.store import Calls, stored

RANDOM: Final = "Random"
# orders that need no map: the mask of the part that is all that counts
OBJECT, CUE = "Object's mask", "Cue's mask"
_ORDERS: Final = (*METHODS, RANDOM, OBJECT, CUE)
_NOISE_IMAGES: Final = 64


@dataclass(frozen=True)
class _CueLogits:
    """A model's logits for the same N test images with the cue and without it."""

    setup: PlantedSetup
    truth: np.ndarray  # (N,) class of each image
    with_cue: np.ndarray  # (N, classes)
    without: np.ndarray  # (N, classes); nothing but the cue differs
    seed: int  # of the test images

    def correct(self, strength: float | None) -> np.ndarray:
        """(N,) whether the likeliest class is the true one, at a strength of the bias; None: without the cue."""
        data = self.setup.data("test", len(self.truth), strength=strength, seed=self.seed)
        there = data.table()[data.get_world().cue].to_numpy(bool)
        return np.where(there, self.with_cue.argmax(axis=1), self.without.argmax(axis=1)) == self.truth

    @property
    def effect(self) -> np.ndarray:
        """(N,) how far the cue raises the probability of the class it was planted with, in [-1, 1]."""
        favoured = USE_CASES[self.setup.use_case].favoured
        return softmax(self.with_cue, axis=1)[:, favoured] - softmax(self.without, axis=1)[:, favoured]


@dataclass(frozen=True, kw_only=True)
class Destruction:
    """How images are destroyed; the paper has 100 steps of 9 x 9 pixels at 224 and leaves the rest open."""

    images: int = 10  # of the favoured class, and as many of the other classes together
    # 73 regions of 3 x 3 pixels are as large a share of 64 x 64 as 100 of 9 x 9 are of 224 x 224
    steps: int = 73
    region: int = 3  # height and width, in pixels
    noise: tuple[int, int] = (0, 255)  # smallest and largest value; (0, 0) paints black
    seed: int = 0  # of the noise and of the order of ties

    def __post_init__(self) -> None:
        if self.images < 1:
            raise BiaslibError(f"images must be at least 1 of either kind, not {self.images}.")


@dataclass(frozen=True)
class _Curves:
    """What destroying n images in several orders does to one model; NaN for wrong answers."""

    setup: PlantedSetup
    favoured: np.ndarray  # (n,) whether the image is of the class with the cue
    orders: dict[str, np.ndarray]  # of `_ORDERS` -> (n, steps + 1) probability of its class; NaN for no cue's mask
    without_cue: np.ndarray  # (n,) how far it has fallen when just the cue's mask is destroyed; NaN for too few steps


@dataclass(frozen=True)
class _Exchanges:
    """How far right answers fall when one part of an image is exchanged and nothing else is; NaN for wrong answers."""

    setup: PlantedSetup
    favoured: np.ndarray  # (N,) whether the image is of the class with the cue
    object: np.ndarray  # (N,) with the object of another class in its place; NaN for photos
    cue: np.ndarray  # (N,) with the cue put in or taken away
    everything: np.ndarray  # (N,) with nothing left but noise
    noise: np.ndarray  # (classes,) mean probabilities of images of nothing but noise


def planned_logits(setups: Sequence[PlantedSetup], *, images: int, seed: int = TEST_SEED) -> list[Calls]:
    """What `cue_logits` asks of the store."""
    return [_cue_logits.calls([(setup, images, seed) for setup in setups])]


def planned(setups: Sequence[PlantedSetup], evaluation: EvaluationImages, destruction: Destruction) -> list[Calls]:
    """What `curves`, and then `exchanges`, ask of the store, after the maps."""
    keys = [(setup, evaluation, destruction) for setup in setups]
    return [*planted_models.planned(setups, evaluation), _curves.calls(keys), _exchanges.calls(keys)]


def cue_logits(setups: Sequence[PlantedSetup], *, images: int = 600, seed: int = TEST_SEED) -> list[_CueLogits]:
    """What each model says of the same test images with the cue and without: all that a test at any strength needs."""
    train.many([setup.recipe for setup in setups])
    results = planned_logits(setups, images=images, seed=seed)[0].results()
    return [_CueLogits(setup, seed=seed, **arrays) for setup, arrays in zip(setups, results, strict=True)]


def curves(setups: Sequence[PlantedSetup], evaluation: EvaluationImages, destruction: Destruction) -> list[_Curves]:
    """Perturbation curves for a model's own maps, a random order and the true masks, on the first images of a kind."""
    planted_models.maps(setups, evaluation)
    results = planned(setups, evaluation, destruction)[-2].results()
    return [
        _Curves(setup, arrays["favoured"], {order: arrays[order] for order in _ORDERS}, arrays["without_cue"])
        for setup, arrays in zip(setups, results, strict=True)
    ]


def exchanges(
    setups: Sequence[PlantedSetup], evaluation: EvaluationImages, destruction: Destruction
) -> list[_Exchanges]:
    """What the exchange of the object, the cue, or everything by the destruction's noise takes from each model."""
    results = planned(setups, evaluation, destruction)[-1].results()
    return [_Exchanges(setup, **arrays) for setup, arrays in zip(setups, results, strict=True)]


def _exchanged(setup: PlantedSetup, evaluation: EvaluationImages) -> dict[str, Samples]:
    """The evaluation's images as they are (`original`), with `other_cue`, and drawn ones with `other_object`."""
    case, data = USE_CASES[setup.use_case], evaluation.data(setup)
    world, table = data.get_world(), data.table()
    edits = {"original": {}, "other_cue": {world.cue: 1 - table[world.cue].astype(int)}}
    if setup.source == "generated":  # nobody has the photo with another animal in the place of this one
        shift = np.random.default_rng([evaluation.seed, 1]).integers(1, len(case.classes), len(table))
        edits["other_object"] = {world.target: (table[world.target].astype(int) + shift) % len(case.classes)}
    tables = {name: table.assign(**edit).astype(table.dtypes) for name, edit in edits.items()}
    return {name: world.render(edited, size=setup.size, regions=()) for name, edited in tables.items()}


@stored("planted-answers", passes=lambda _, images, seed: (2 * images, 1))
def _cue_logits(setup: PlantedSetup, images: int, seed: int) -> dict[str, np.ndarray]:
    model, data = load(setup.recipe), setup.data("test", images, strength=0.0, seed=seed)
    samples = {"with_cue": _cued(data, 1), "without": _cued(data, 0)}
    answers = {name: training.predict(model, each.images) for name, each in samples.items()}
    return {"truth": setup.truth(samples["without"]), **answers}


@functools.lru_cache(maxsize=2)
def _cued(data: Drawn, cue: int) -> Samples:
    world = data.get_world()
    return world.render(data.table().assign(**{world.cue: cue}), size=data.size)


@stored("planted-curves", passes=lambda _, e, d: (2 * d.images, len(_ORDERS) * (d.steps + 1)))
def _curves(setup: PlantedSetup, evaluation: EvaluationImages, destruction: Destruction) -> dict[str, np.ndarray]:
    case = USE_CASES[setup.use_case]
    samples, maps = evaluation.samples(setup), planted_models.maps([setup], evaluation)[0]
    truth, favoured = maps["truth"], maps["truth"] == case.favoured
    rows = np.concatenate([np.flatnonzero(kind)[: destruction.images] for kind in (favoured, ~favoured)])
    pictures, correct = samples.images[rows], maps["logits"][rows].argmax(axis=1) == truth[rows]
    model = load(setup.recipe)
    model = attribution.fold_batchnorm(model, models.to_tensor(samples.images[:2], model=model))
    predict = functools.partial(_probabilities, model)

    there = samples.labels[case.world.cue].to_numpy(bool)[rows, None, None]
    place = "ball" if "ball" in case.world.regions else "background"
    masks = {OBJECT: samples.masks[case.world.regions[0]][rows], CUE: samples.masks[place][rows] & there}
    relevance: dict[str, np.ndarray | None] = {
        **{method: metrics.upsample_maps(maps[method][rows], *samples.images.shape[1:3]) for method in METHODS},
        RANDOM: None,
        **{order: mask.astype(np.float32) for order, mask in masks.items()},
    }
    arrays = {"favoured": favoured[rows]}
    for order, wanted in relevance.items():
        destroyed = correct if wanted is None or order in METHODS else correct & wanted.any(axis=(1, 2))
        arrays[order] = np.full((len(rows), destruction.steps + 1), np.nan)
        if destroyed.any():
            arrays[order][destroyed] = metrics.perturbation_curves(
                predict, pictures[destroyed], None if wanted is None else np.nan_to_num(wanted[destroyed]),
                truth[rows][destroyed], steps=destruction.steps, region=destruction.region,
                value_range=destruction.noise, seed=destruction.seed,
            )  # fmt: skip
        if order in METHODS:  # Score-CAM may explain fewer images, but every order has the same noise
            arrays[order][np.isnan(maps[order][rows]).any(axis=(1, 2))] = np.nan
    # after so many steps the tiles that the cue touches are destroyed
    touched = np.array([len(np.unique(np.argwhere(mask) // destruction.region, axis=0)) for mask in masks[CUE]])
    left = arrays[CUE][np.arange(len(rows)), np.minimum(touched, destruction.steps)]
    return arrays | {"without_cue": np.where(touched <= destruction.steps, arrays[CUE][:, 0] - left, np.nan)}


@stored("planted-exchanges", passes=lambda _, evaluation, d: (3 * evaluation.images + _NOISE_IMAGES, 1))
def _exchanges(setup: PlantedSetup, evaluation: EvaluationImages, destruction: Destruction) -> dict[str, np.ndarray]:
    model, samples = load(setup.recipe), _exchanged(setup, evaluation)
    shape = (_NOISE_IMAGES, *samples["original"].images.shape[1:])
    rng = np.random.default_rng([evaluation.seed, 2, destruction.seed])
    noise = rng.integers(*destruction.noise, shape, np.uint8, endpoint=True)
    answers = {name: _probabilities(model, changed.images) for name, changed in samples.items()}
    truth, noisy = setup.truth(samples["original"]), _probabilities(model, noise).mean(axis=0)
    rows, original = np.arange(len(truth)), answers["original"]
    own = np.where(original.argmax(axis=1) == truth, original[rows, truth], np.nan)
    left = {"cue": answers["other_cue"], "everything": np.broadcast_to(noisy, original.shape)}
    left["object"] = answers.get("other_object", np.full_like(original, np.nan))
    falls = {part: own - probabilities[rows, truth] for part, probabilities in left.items()}
    return {"favoured": truth == USE_CASES[setup.use_case].favoured, "noise": noisy, **falls}


def _probabilities(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """(N, classes) of images."""
    return np.asarray(softmax(training.predict(model, images), axis=1))
