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
from biaslib.chapters import localisation
from biaslib.chapters.localisation import Arrays, EvaluationImages
from biaslib.chapters.planted_models import TEST_SEED, USE_CASES, Setting, world_of
from biaslib.errors import BiaslibError
from biaslib.recipes import load, train
from biaslib.samples import Samples
from biaslib.store import stored

RANDOM: Final = "Random"
# orders that need no map: the mask of the part that is all that counts
OBJECT, CUE = "Object's mask", "Cue's mask"
ORDERS: Final = (*METHODS, RANDOM, OBJECT, CUE)
_NOISE_IMAGES: Final = 64


@dataclass(frozen=True)
class CueLogits:
    """A model's logits for the same N test images with the cue and without it."""

    setting: Setting
    truth: np.ndarray  # (N,) class of each image
    with_cue: np.ndarray  # (N, classes)
    without: np.ndarray  # (N, classes); nothing but the cue differs
    seed: int  # of the test images

    def logits(self, strength: float | None) -> np.ndarray:
        """(N, classes), of the test images at a strength of the bias; None: without the cue."""
        if strength is None:
            return self.without
        world = self.setting.world("test")
        cued = world.factors(len(self.truth), strength=strength, seed=self.seed)[world.cue].to_numpy(bool)
        return np.where(cued[:, None], self.with_cue, self.without)

    def correct(self, strength: float | None) -> np.ndarray:
        """(N,) whether the likeliest class is the true one, at a strength of the bias."""
        return self.logits(strength).argmax(axis=1) == self.truth

    @property
    def effect(self) -> np.ndarray:
        """(N,) how far the cue raises the probability of the class it was planted with, in [-1, 1]."""
        favoured = USE_CASES[self.setting.use_case].favoured
        return softmax(self.with_cue, axis=1)[:, favoured] - softmax(self.without, axis=1)[:, favoured]


@dataclass(frozen=True, kw_only=True)
class Destruction:
    """How images are destroyed; the paper has 100 steps of 9 x 9 pixels at 224 and leaves the rest open."""

    images: int = 10  # of the favoured class, and as many of the other classes together
    # 73 regions of 3 x 3 pixels are as large a share of 64 x 64 as 100 of 9 x 9 are of 224 x 224
    steps: int = 73
    region: int = 3  # height and width, in pixels
    repeats: int = 1  # of the noise and of the order of ties
    noise: tuple[int, int] = (0, 255)  # smallest and largest value; (0, 0) paints black
    output: str = "probability"  # of the explained class, or its "logit"
    seed: int = 0  # of the noise and of the order of ties

    def __post_init__(self) -> None:
        if self.output not in ("probability", "logit"):
            raise BiaslibError(f"output must be probability or logit, not {self.output!r}.")
        if self.images < 1:
            raise BiaslibError(f"images must be at least 1 of either kind, not {self.images}.")


@dataclass(frozen=True)
class Curves:
    """What destroying n images in several orders does to one model."""

    setting: Setting
    favoured: np.ndarray  # (n,) whether the image is one of the class that the cue was planted with
    correct: np.ndarray  # (n,) whether the model is right about it; the others were not destroyed
    # words of `ORDERS` -> (n, steps + 1) score of the explained class; NaN for wrong answers, and in the order of the
    # cue's mask for images without the cue
    orders: Arrays
    cue_regions: np.ndarray  # (n,) how many regions the cue touches; 0 for images without it

    def fall_without_cue(self) -> np.ndarray:
        """(n,) how far the score has fallen when the cue's mask has just been destroyed, and nothing else.

        NaN for wrong answers, for images without the cue, and for cues of more regions than there are steps.
        """
        values = self.orders[CUE]
        left = values[np.arange(len(values)), np.minimum(self.cue_regions, values.shape[1] - 1)]
        return np.where(self.cue_regions < values.shape[1], values[:, 0] - left, np.nan)


@dataclass(frozen=True)
class Exchanges:
    """What a model answers when one part of an image is exchanged and nothing else is."""

    setting: Setting
    truth: np.ndarray  # (N,) class of the image as it is
    original: np.ndarray  # (N, classes) probabilities, or logits where the destruction's output is these
    other_object: np.ndarray  # the same with the object of another class in its place
    other_cue: np.ndarray  # the same with the cue put in or taken away
    noise: np.ndarray  # (K, classes) for images of nothing but noise

    def fall(self, part: str) -> np.ndarray:
        """(N,) how far the score of the true class falls without its "object", "cue" or "everything" but noise."""
        rows = np.arange(len(self.truth))
        if part == "everything":
            left = self.noise.mean(axis=0)[self.truth]
        else:
            left = {"object": self.other_object, "cue": self.other_cue}[part][rows, self.truth]
        return np.asarray(self.original[rows, self.truth] - left)


def cue_logits(settings: Sequence[Setting], *, images: int = 600, seed: int = TEST_SEED) -> list[CueLogits]:
    """What each model says of the same test images with the cue and without it.

    A test at any strength needs no more: the images are the same, and the cue comes or goes. Models are trained where
    the store lacks them.
    """
    train.many([setting.recipe for setting in settings])
    results = _cue_logits.many([(setting, images, seed) for setting in settings])
    return [CueLogits(setting, seed=seed, **arrays) for setting, arrays in zip(settings, results, strict=True)]


def curves(settings: Sequence[Setting], evaluation: EvaluationImages, destruction: Destruction) -> list[Curves]:
    """Perturbation curves of each model for its own maps, for a random order, and for the true masks.

    The first of the evaluation's images of either kind are destroyed.
    """
    localisation.maps(settings, evaluation)
    results = _curves.many([(setting, evaluation, destruction) for setting in settings])
    named = ("favoured", "correct", "cue_regions")
    return [
        Curves(setting, orders={order: arrays[order] for order in ORDERS}, **{name: arrays[name] for name in named})
        for setting, arrays in zip(settings, results, strict=True)
    ]


def exchanges(settings: Sequence[Setting], evaluation: EvaluationImages, destruction: Destruction) -> list[Exchanges]:
    """What each model answers for the evaluation's images when their object, their cue or everything is exchanged.

    Of the destruction count the noise, which stands in for everything, its seed, and the output.
    """
    results = _exchanges.many([(setting, evaluation, destruction) for setting in settings])
    return [Exchanges(setting, **arrays) for setting, arrays in zip(settings, results, strict=True)]


def exchanged(setting: Setting, evaluation: EvaluationImages) -> dict[str, Samples]:
    """The evaluation's images as they are (`original`), with `other_object`, and with `other_cue`.

    Raises:
        BiaslibError: for photos, whose object cannot be exchanged.
    """
    if setting.source != "generated":
        raise BiaslibError(
            f"parts of {setting.source} cannot be exchanged exactly: take a setting of a generated world."
        )
    case = USE_CASES[setting.use_case]
    world = case.world
    table = world.factors(evaluation.images, strength=evaluation.strength or 0.0, seed=evaluation.seed)
    if evaluation.strength is None:
        table = table.assign(**{world.cue: 0})
    target, cue = table[world.target].to_numpy(), table[world.cue].to_numpy()
    shift = np.random.default_rng([evaluation.seed, 1]).integers(1, len(case.classes), len(table))
    other = ((target.astype(int) + shift) % len(case.classes)).astype(target.dtype)
    tables = {
        "original": table,
        "other_object": table.assign(**{world.target: other}),
        "other_cue": table.assign(**{world.cue: (1 - cue.astype(int)).astype(cue.dtype)}),
    }
    return {name: world.render(edited, size=setting.size) for name, edited in tables.items()}


@stored("planted-answers")
def _cue_logits(setting: Setting, images: int, seed: int) -> Arrays:
    model = load(setting.recipe)
    with_cue, without = (_cued(setting.use_case, setting.source, images, cue, setting.size, seed) for cue in (1, 0))
    return {
        "truth": _truth(setting, without),
        "with_cue": training.predict(model, with_cue.images),
        "without": training.predict(model, without.images),
    }


@functools.lru_cache(maxsize=2)
def _cued(use_case: str, source: str, images: int, cue: int, size: int, seed: int) -> Samples:
    world = world_of(use_case, source, "test")
    return world.render(world.factors(images, strength=0.0, seed=seed).assign(**{world.cue: cue}), size=size)


@stored("planted-curves")
def _curves(setting: Setting, evaluation: EvaluationImages, destruction: Destruction) -> Arrays:
    case = USE_CASES[setting.use_case]
    samples, maps = evaluation.samples(setting), localisation.maps([setting], evaluation)[0]
    truth, favoured = maps["truth"], maps["truth"] == case.favoured
    rows = np.concatenate([np.flatnonzero(kind)[: destruction.images] for kind in (favoured, ~favoured)])
    correct = maps["logits"][rows].argmax(axis=1) == truth[rows]
    model = load(setting.recipe)
    model = attribution.fold_batchnorm(model, models.to_tensor(samples.images[:2], model=model))
    predict = functools.partial(_outputs, model, destruction.output)

    height, width = samples.images.shape[1:3]
    relevance: dict[str, np.ndarray | None] = {
        method: metrics.upsample_maps(maps[method][rows], height, width) for method in METHODS
    }
    relevance[RANDOM] = None
    relevance[OBJECT] = np.asarray(samples.masks[case.world.regions[0]])[rows].astype(np.float32)
    relevance[CUE] = cue = _cue_masks(setting, samples, rows)
    touched = [_regions_touched(mask > 0, destruction.region) for mask in cue]
    arrays = {"favoured": favoured[rows], "correct": correct, "cue_regions": np.array(touched)}
    for order in ORDERS:
        wanted = relevance[order]
        destroyed = correct if wanted is None or order in METHODS else correct & wanted.any(axis=(1, 2))
        arrays[order] = np.full((len(rows), destruction.steps + 1), np.nan)
        if destroyed.any():
            arrays[order][destroyed] = metrics.perturbation_curves(
                predict, samples.images[rows[destroyed]], None if wanted is None else wanted[destroyed],
                truth[rows[destroyed]], steps=destruction.steps, region=destruction.region,
                repeats=destruction.repeats, value_range=destruction.noise, seed=destruction.seed,
            )  # fmt: skip
    return arrays


def _cue_masks(setting: Setting, samples: Samples, rows: np.ndarray) -> np.ndarray:
    """Where the cue is, float32; nowhere in images without it."""
    world = USE_CASES[setting.use_case].world
    there = samples.labels[world.cue].to_numpy(bool)[rows]
    region = "ball" if "ball" in world.regions else "background"
    return np.asarray(samples.masks[region])[rows].astype(np.float32) * there[:, None, None]


def _regions_touched(mask: np.ndarray, region: int) -> int:
    """How many square tiles, counted from the upper left, a mask touches."""
    rows, columns = np.nonzero(mask)
    return len(set(zip(rows // region, columns // region, strict=True)))


@stored("planted-exchanges")
def _exchanges(setting: Setting, evaluation: EvaluationImages, destruction: Destruction) -> Arrays:
    model, samples = load(setting.recipe), exchanged(setting, evaluation)
    shape = (_NOISE_IMAGES, *samples["original"].images.shape[1:])
    rng = np.random.default_rng([evaluation.seed, 2, destruction.seed])
    noise = rng.integers(*destruction.noise, shape, np.uint8, endpoint=True)
    images = {name: changed.images for name, changed in samples.items()} | {"noise": noise}
    answers = {name: _outputs(model, destruction.output, pixels) for name, pixels in images.items()}
    return {"truth": _truth(setting, samples["original"]), **answers}


def _outputs(model: torch.nn.Module, output: str, images: np.ndarray) -> np.ndarray:
    """(N, classes) probabilities, or logits."""
    logits = training.predict(model, images)
    return np.asarray(softmax(logits, axis=1)) if output == "probability" else logits


def _truth(setting: Setting, samples: Samples) -> np.ndarray:
    return samples.labels[USE_CASES[setting.use_case].world.target].to_numpy(int)
