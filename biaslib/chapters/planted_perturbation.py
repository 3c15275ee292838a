"""How far models with a planted bias can be destroyed, and what an exact exchange of parts does; through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.special import softmax

from biaslib import attribution, metrics, models, training
from biaslib.chapters import planted_maps
from biaslib.chapters.planted_maps import METHODS, Evaluation
from biaslib.chapters.planted_models import USE_CASES, Setting, known
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.store import parallel

RANDOM: Final = "Random"
# what destroys best where a part is all that counts: the part itself, in place of a map
OBJECT, CUE = "Object's mask", "Cue's mask"
ORDERS: Final = (*METHODS, RANDOM, OBJECT, CUE)
NOISE_IMAGES: Final = 64
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Destruction:
    """How images are destroyed; the paper has 100 steps of 9 x 9 pixels at 224 and leaves the rest open.

    Attributes:
        images: how many of the favoured class, and how many of the other classes together.
        steps: regions destroyed. 73 of 3 x 3 pixels are as large a share of 64 x 64 as 100 of 9 x 9 are of 224 x 224.
        region: height and width of a region, in pixels.
        repeats: how many times noise and lots are drawn.
        noise: smallest and largest value of the noise, in 0 ... 255; (0, 0) paints black.
        output: "probability" or "logit" of the explained class.
        seed: of noise and lots.
    """

    images: int = 10
    steps: int = 73
    region: int = 3
    repeats: int = 1
    noise: tuple[int, int] = (0, 255)
    output: str = "probability"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.output not in ("probability", "logit"):
            raise BiaslibError(f"output must be probability or logit, not {self.output!r}.")
        if self.images < 1:
            raise BiaslibError(f"images must be at least 1 of either kind, not {self.images}.")


@dataclass(frozen=True)
class Curves:
    """What destroying images in several orders does to one model.

    Attributes:
        setting: of the model.
        favoured: (n,) whether the image is one of the class that the cue was planted with.
        correct: (n,) whether the model is right about it; the others were not destroyed.
        orders: words of `ORDERS` -> (n, steps + 1) score of the explained class; NaN for wrong answers, and in the
            order of the cue's mask for images without the cue.
        cue_regions: (n,) how many regions the cue touches; 0 for images without it.
    """

    setting: Setting
    favoured: np.ndarray
    correct: np.ndarray
    orders: Arrays
    cue_regions: np.ndarray

    def fall_without_cue(self) -> np.ndarray:
        """(n,) how far the score has fallen when the cue's mask has just been destroyed, and nothing else.

        NaN for wrong answers, for images without the cue, and for cues of more regions than there are steps.
        """
        values = self.orders[CUE]
        left = values[np.arange(len(values)), np.minimum(self.cue_regions, values.shape[1] - 1)]
        return np.where(self.cue_regions < values.shape[1], values[:, 0] - left, np.nan)


@dataclass(frozen=True)
class Exchanges:
    """What a model answers when one part of an image is exchanged and nothing else is.

    Attributes:
        setting: of the model.
        truth: (N,) class of the image as it is.
        original: (N, classes) probabilities, or logits where the destruction's output is these.
        other_object: the same with the object of another class in its place.
        other_cue: the same with the cue put in or taken away.
        noise: (K, classes) for images of nothing but noise.
    """

    setting: Setting
    truth: np.ndarray
    original: np.ndarray
    other_object: np.ndarray
    other_cue: np.ndarray
    noise: np.ndarray

    def fall(self, part: str) -> np.ndarray:
        """(N,) how far the score of the true class falls when a part is exchanged; in [-1, 1] for probabilities.

        Args:
            part: "object", "cue", or "everything", which leaves noise.
        """
        rows = np.arange(len(self.truth))
        if part == "everything":
            left = self.noise.mean(axis=0)[self.truth]
        else:
            left = {"object": self.other_object, "cue": self.other_cue}[part][rows, self.truth]
        return np.asarray(self.original[rows, self.truth] - left)


def curves(
    settings: Sequence[Setting], evaluation: Evaluation, destruction: Destruction, *, scheduler: str | None = None
) -> list[Curves]:
    """Perturbation curves of each model for its own maps, for a random order, and for the true masks.

    Args:
        settings: of the models, which are trained and explained where the store lacks it.
        evaluation: the images and maps; the first ones of either kind are destroyed.
        destruction: how.
        scheduler: see `parallel.workers`.
    """
    planted_maps.maps(settings, evaluation, scheduler=scheduler)
    keys = [(setting, evaluation, destruction) for setting in settings]
    found = parallel.stored("planted-curves", keys, run_curves, scheduler=scheduler)
    return [
        Curves(
            setting,
            arrays["favoured"],
            arrays["correct"],
            {order: arrays[order] for order in ORDERS},
            arrays["cue_regions"],
        )
        for setting, arrays in zip(settings, found, strict=True)
    ]


def run_curves(key: tuple[Setting, Evaluation, Destruction]) -> Arrays:
    """The curves of one model; on one thread."""
    found: Arrays = parallel.single_threaded(_curves, *key)
    return found


def exchanges(
    settings: Sequence[Setting], evaluation: Evaluation, destruction: Destruction, *, scheduler: str | None = None
) -> list[Exchanges]:
    """What each model answers for the evaluation's images when their object, their cue or everything is exchanged.

    Args:
        settings: of the models.
        evaluation: the images, all of them.
        destruction: the noise that stands in for everything, its seed, and the output.
        scheduler: see `parallel.workers`.
    """
    keys = [(setting, evaluation, destruction) for setting in settings]
    found = parallel.stored("planted-exchanges", keys, run_exchanges, scheduler=scheduler)
    return [Exchanges(setting, **arrays) for setting, arrays in zip(settings, found, strict=True)]


def run_exchanges(key: tuple[Setting, Evaluation, Destruction]) -> Arrays:
    """The scores of one model; on one thread."""
    found: Arrays = parallel.single_threaded(_exchanges, *key)
    return found


def exchanged(setting: Setting, evaluation: Evaluation) -> dict[str, Samples]:
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


def _curves(setting: Setting, evaluation: Evaluation, destruction: Destruction) -> Arrays:
    case = USE_CASES[setting.use_case]
    samples, found = evaluation.samples(setting), planted_maps.maps([setting], evaluation)[0]
    truth = found["truth"]
    rows = np.concatenate([np.flatnonzero(truth == case.favoured)[: destruction.images],
                           np.flatnonzero(truth != case.favoured)[: destruction.images]])  # fmt: skip
    correct = found["logits"][rows].argmax(axis=1) == truth[rows]
    model = known(setting)
    model = attribution.fold_batchnorm(model, models.to_tensor(samples.images[:2], model=model))

    predict = functools.partial(_scores, model, destruction.output)
    height, width = samples.images.shape[1:3]
    relevance: dict[str, np.ndarray | None] = {
        method: metrics.upsample_maps(found[method][rows], height, width) for method in METHODS
    }
    relevance[RANDOM] = None
    relevance[OBJECT] = _of(samples, _object_region(setting), rows)
    relevance[CUE] = cue = _cue_mask(setting, samples, rows)
    touched = [_regions(mask > 0, destruction.region) for mask in cue]
    arrays = {"favoured": truth[rows] == case.favoured, "correct": correct, "cue_regions": np.array(touched)}
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


def _scores(model: torch.nn.Module, output: str, images: np.ndarray) -> np.ndarray:
    logits = training.predict(model, images)
    return np.asarray(softmax(logits, axis=1)) if output == "probability" else logits


def _regions(mask: np.ndarray, region: int) -> int:
    """How many square tiles, counted from the upper left, a mask touches."""
    rows, columns = np.nonzero(mask)
    return len(set(zip(rows // region, columns // region, strict=True)))


def _object_region(setting: Setting) -> str:
    return USE_CASES[setting.use_case].world.regions[0]


def _cue_mask(setting: Setting, samples: Samples, rows: np.ndarray) -> np.ndarray:
    """Where the cue is; nowhere in images without it."""
    world = USE_CASES[setting.use_case].world
    there = samples.labels[world.cue].to_numpy(bool)[rows]
    region = "ball" if "ball" in world.regions else "background"
    return np.asarray(_of(samples, region, rows) * there[:, None, None])


def _of(samples: Samples, region: str, rows: np.ndarray) -> np.ndarray:
    return np.asarray(samples.masks[region])[rows].astype(np.float32)


def _exchanges(setting: Setting, evaluation: Evaluation, destruction: Destruction) -> Arrays:
    model, images = known(setting), exchanged(setting, evaluation)
    truth = images["original"].labels[USE_CASES[setting.use_case].world.target].to_numpy(int)
    shape = (NOISE_IMAGES, *images["original"].images.shape[1:])
    rng = np.random.default_rng([evaluation.seed, 2, destruction.seed])
    noise = rng.integers(*destruction.noise, shape, np.uint8, endpoint=True)
    found = {name: _scores(model, destruction.output, samples.images) for name, samples in images.items()}
    return {"truth": truth, **found, "noise": _scores(model, destruction.output, noise)}
