"""The case: everything the metrics of the dial may know of one model, image by image; through the store.

What is stored of a model depends on this module and on what it imports, `trials` among it, and neither on the metrics
of the catalogue nor on verdicts or pages: a new metric of the same arrays asks no model anything.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import ndimage
from scipy.special import expit, softmax
from torch import nn

from biaslib import attribution, metrics, models, recipes, training
from biaslib.dial.trials import PLACES, Trial
from biaslib.metrics import Labels
from biaslib.samples import Samples
from biaslib.store import stored
from biaslib.worlds.digits import Digits
from biaslib.worlds.faces import Faces
from biaslib.worlds.scenes import OBJECTS

_Arrays = dict[str, np.ndarray]

_TEST_SEED: Final = 3_000_000  # of balanced test images; training images have the seeds of their trials
_OWN_SEED: Final = 4_000_000  # of test images as biased as the training images
# of scenes that are as biased: how many, and with which seed beside the model's, for thresholds and for the test
_SCENES_AS_BIASED: Final = ((1000, 10_000), (2000, 20_000))
ATTRIBUTES: Final = tuple(name for name in Faces.attributes if name != Faces.cue)
_ALL_METHODS_IN: Final = ("birds", "pets")  # worlds where the methods are tried that take many passes an image
_GRAD_CAM_ALONE: Final = ("small_vit",)  # of transformers: ε-LRP has no rule for attention
_BALL_GROWTH: Final = 0.5  # of the ball's area, as paper C extends it
# of faces: further attributes whose maps are compared with the clan's
_BYSTANDERS: Final = ("Eyeglasses", "Blond_Hair")
_ACCURACIES: Final = {"RMA": metrics.relevance_mass_accuracy, "RRA": metrics.relevance_rank_accuracy}
# maps that do not know the model, and that of a network of its kind with other, random weights
NULL_MAPS: Final = ("random map", "centre", "edges", "random network")
_STEPS, _REGION = 73, 3  # as large a share of 64 x 64 pixels as the paper's 100 regions of 9 x 9 are of 224 x 224


class MapScore(NamedTuple):
    """What is scored on each image's map: the key of `Measured.scores`."""

    score: str  #: "mask score", "heatmap score", "RMA", "RRA" or "AOPC"
    #: the "object" or the "cue" that a map is compared with; of a heatmap score the "target" or the attribute whose map
    #: is compared with the cue's; of AOPC the "answer" that is destroyed
    of: str
    method: str = "Grad-CAM"  #: of `attribution.METHODS`, or one of `NULL_MAPS`


@dataclass(frozen=True)
class Case:
    """What one model does, on N balanced test images and on N' test images as biased as its training images."""

    trial: Trial  #: the model
    truth: np.ndarray  #: (N,) whether the target is there; balanced: as often with the cue as without
    cue: np.ndarray  #: (N,) whether the cue is there
    probability: np.ndarray  #: (N, 2) of the target, of the same images without the cue and with it
    scores: dict[MapScore, np.ndarray]  #: of each image's map, (N,) or (explained,); NaN where an image has none
    map: np.ndarray  #: (N, h, w) Grad-CAM of the model's answer
    #: of the explained images, (explained, h, w) by each method of `attribution.METHODS` that was tried, of the answer;
    #: each image's largest value is 1
    maps: dict[str, np.ndarray]
    train: Labels  #: of the training images: attributes, and groups that they are tied to
    test: Labels  #: of the test images that are as biased
    predicted: Labels  #: the answers on those; where the model does not predict the group, the group as labelled
    biased_truth: np.ndarray  #: (N',) the target in those images
    biased_answer: np.ndarray  #: (N',) the answer

    @property
    def effect(self) -> np.ndarray:
        """(N,) true causal effect of the cue on the probability of the target, in [-1, 1]."""
        return self.probability[:, 1] - self.probability[:, 0]

    @property
    def answer(self) -> np.ndarray:
        """(N,) bool: whether the model finds the target."""
        return np.where(self.cue, self.probability[:, 1], self.probability[:, 0]) > 0.5

    @property
    def correct(self) -> np.ndarray:
        """(N,) bool."""
        return self.answer == self.truth

    @property
    def group(self) -> np.ndarray:
        """(N,) 0 to 3: target and cue together."""
        return 2 * self.truth + self.cue

    def mask(self, part: str) -> np.ndarray:
        """(N, H, W) bool: where the "object" or the "cue" is, in the test images that all models of a world share."""
        place = self.trial.place
        return _union(pictures(self.trial), place.regions if part == "object" else place.cue_regions)


def measured(trials: Sequence[Trial]) -> list[Case]:
    """What each model does, in this order; models are trained where the store lacks them."""
    recipes.train.many([trial.recipe for trial in trials])
    return [_measured(trial, arrays) for trial, arrays in zip(trials, measurements.many(trials), strict=True)]


def balanced(trial: Trial) -> pd.DataFrame:
    """The rows of the test images: those of the world without bias, the same for all its trials."""
    return trial.tested(0.0, _TEST_SEED).table()


def pictures(trial: Trial) -> Samples:
    """The balanced test images with their masks."""
    return _rendered(_shared(trial), None)


def probability(world: str, logits: np.ndarray) -> np.ndarray:
    """(N,) of the target, from all logits of a model of this world."""
    place = PLACES[world]
    if place.outputs and not place.objective:
        return np.asarray(expit(logits[:, _target(world)]))
    return np.asarray(softmax(logits[:, max(len(place.outputs) - 1, 0) :], axis=1)[:, place.positive])


def _target(world: str) -> int:
    """The output for the target, of a model with one for each attribute."""
    return PLACES[world].outputs.index(Faces.target if world == "faces" else Digits.target)


def _labels(trial: Trial, table: pd.DataFrame) -> Labels:
    """What amplification is measured between.

    Where models answer more than the target: all else and the target (in faces the clan); else the target and the cue.
    """
    if not trial.place.outputs:
        return Labels(trial.truth(table)[:, None], trial.cue(table).astype(int), (trial.drawn_by.target,))
    group = Faces.cue if trial.world == "faces" else trial.drawn_by.target
    names = tuple(name for name in trial.place.outputs if name != group)
    return Labels(table[list(names)].to_numpy(bool), table[group].to_numpy(int), names)


@stored(
    "dial",
    passes=lambda trial: (
        1.5 * trial.test_images,  # those that all models are asked about are drawn once
        # Grad-CAM of a random network; the methods that take many passes, and the curves of pets
        3.5 + (9 + {"birds": 198, "pets": 346}.get(trial.world, 0)) * trial.explained / (1.5 * trial.test_images),
        (trial.world in _ALL_METHODS_IN) * trial.explained / (1.5 * trial.test_images),
    ),
)
def measurements(trial: Trial) -> _Arrays:
    """What `measured` asks of the store: the arrays of one trial."""
    model, samples = recipes.load(trial.recipe), pictures(trial)
    pairs = [_rendered(_shared(trial), cue).images for cue in (0, 1)]
    answers = [probability(trial.world, training.predict(model, images)) for images in pairs]
    maps = _maps(trial, model, samples.images)
    explained = _explained(trial, model, maps["target"], samples.take(slice(trial.explained)))
    scores = _attention(trial, maps, samples) | _localisation(trial, model, explained, samples)
    return {
        "probability": np.stack(answers, axis=1),
        "map": maps["target"].astype(np.float16),
        **{f"maps/{name}": _to_one(explained[name]) for name in explained if name not in NULL_MAPS},
        **{"/".join(("score", *key)): values for key, values in scores.items()},
        **_as_biased(trial, model),
    }


def _maps(trial: Trial, model: nn.Module, images: np.ndarray) -> _Arrays:
    """Grad-CAM (N, h, w) of the target's answer, of the cue where the model predicts it, and of bystanders."""
    pixels, outputs, world = models.to_tensor(images, model=model), trial.place.outputs, trial.drawn_by
    if outputs and not trial.place.objective:
        own = {"target": world.target, "cue": world.cue} | {name: name for name in _BYSTANDERS if name in outputs}
        asked = np.array([outputs.index(name) for name in own.values()])
        cams = attribution.grad_cam(model, pixels, asked, absolute=True).numpy()
        return {name: cams[:, place] for place, name in enumerate(own)}
    answered = answered_output(trial.world, training.predict(model, images))
    maps = {"target": attribution.grad_cam(model, pixels, answered[:, None])[:, 0].numpy()}
    if outputs:
        cue = np.array([outputs.index(world.cue)])
        maps["cue"] = attribution.grad_cam(model, pixels, cue, absolute=True)[:, 0].numpy()
    return maps


def answered_output(world: str, logits: np.ndarray) -> np.ndarray:
    """(N,) the output that the answer is."""
    place = PLACES[world]
    if place.outputs and not place.objective:
        return np.full(len(logits), _target(world))
    first = max(len(place.outputs) - 1, 0)
    return np.asarray(first + logits[:, first:].argmax(axis=1))


def _explained(trial: Trial, model: nn.Module, cams: np.ndarray, explained: Samples) -> _Arrays:
    """Maps (explained, h, w) by all methods that are tried in this world, and the null maps; of the answer."""
    pixels = models.to_tensor(explained.images, model=model)
    answered = answered_output(trial.world, training.predict(model, explained.images))[:, None]
    made = {"Grad-CAM": cams[: trial.explained]}
    if trial.world in _ALL_METHODS_IN and trial.architecture not in _GRAD_CAM_ALONE:
        others = {name: method for name, method in attribution.METHODS.items() if name not in made}
        made |= {name: method(model, pixels, answered)[:, 0].numpy() for name, method in others.items()}
    chance = 1000 * trial.seed + round(100 * trial.strength) + 1  # another for each model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chance)
        config = trial.recipe.training
        network = models.placed(models.build(config.architecture, config.outputs, hidden=config.hidden))
    side = np.linspace(-1, 1, trial.data.size)
    grey = explained.images.mean(axis=3, dtype=np.float32)
    nulls = (
        np.random.default_rng(chance).random(grey.shape, np.float32),
        np.broadcast_to(np.exp(-4 * (side[:, None] ** 2 + side**2)), grey.shape),
        np.hypot(ndimage.sobel(grey, axis=1), ndimage.sobel(grey, axis=2)),
        attribution.grad_cam(network, pixels, answered, absolute=True)[:, 0].numpy(),
    )
    return made | dict(zip(NULL_MAPS, nulls, strict=True))


def _attention(trial: Trial, maps: _Arrays, samples: Samples) -> dict[MapScore, np.ndarray]:
    """Attention-IoU of maps with regions and with the cue's map (paper A)."""
    parts = {"object": trial.place.regions, "cue": trial.place.cue_regions}
    scores = {
        MapScore("mask score", part): metrics.mask_score(maps["target"], _union(samples, regions))
        for part, regions in parts.items()
    }
    others = [name for name in maps if name != "cue"] if "cue" in maps else []
    return scores | {MapScore("heatmap score", name): metrics.attention_iou(maps[name], maps["cue"]) for name in others}


def _localisation(
    trial: Trial, model: nn.Module, explained_maps: _Arrays, samples: Samples
) -> dict[MapScore, np.ndarray]:
    """Mass and rank on object and cue, and how fast the answer is destroyed (paper C); on the explained images."""
    explained = samples.take(slice(trial.explained))
    parts = {"object": _union(explained, trial.place.regions), "cue": _union(explained, trial.place.cue_regions)}
    if trial.place.cue_regions == ("ball",):
        parts["cue"] = metrics.dilate_to_area(parts["cue"], share=_BALL_GROWTH)
    scores: dict[MapScore, np.ndarray] = {}
    for name, coarse in explained_maps.items():
        fine = metrics.upsample_maps(coarse, trial.data.size, trial.data.size)
        for part, masks in parts.items():
            rows = np.asarray(masks.any(axis=(1, 2)))
            for score, accuracy in _ACCURACIES.items():
                scores[MapScore(score, part, name)] = _at(rows, accuracy(fine[rows], masks[rows]))
        if trial.world == "pets" and name not in NULL_MAPS:
            rows = trial.truth(balanced(trial))[: trial.explained]
            region = max(1, round(_REGION * trial.data.size / 64))
            answered = answered_output(trial.world, training.predict(model, explained.images))
            curves = metrics.perturbation_curves(
                lambda images: np.asarray(softmax(training.predict(model, images), axis=1)),
                explained.images[rows], fine[rows], answered[rows], steps=_STEPS, region=region,
            )  # fmt: skip
            scores[MapScore("AOPC", "answer", name)] = _at(rows, metrics.aopc(curves))
    return scores


def _as_biased(trial: Trial, model: nn.Module) -> _Arrays:
    """Labels and answers on test images as biased as the training images (paper B)."""
    trained = _labels(trial, trial.data.table())
    if trial.place.objective:
        test, predicted = _scenes_as_biased(trial, model)
        truth, answer = test.groups, predicted.groups
    else:
        images = trial.tested(trial.strength, _OWN_SEED)
        table = images.table()
        logits = training.predict(model, images.get_world().render(table, size=trial.data.size, regions=()).images)
        test, truth = _labels(trial, table), trial.truth(table)
        answer = probability(trial.world, logits) > 0.5
        if trial.place.outputs:
            predicted = _labels(trial, pd.DataFrame(logits > 0, columns=trial.place.outputs))
        else:
            predicted = Labels(answer[:, None], test.groups, test.names)
    sides = {"train": trained, "test": test, "predicted": predicted}
    return {
        **{f"{name}/attributes": side.attributes for name, side in sides.items()},
        **{f"{name}/groups": side.groups.astype(np.int8) for name, side in sides.items()},
        "biased_truth": np.asarray(truth, bool),
        "biased_answer": np.asarray(answer, bool),
    }


def _scenes_as_biased(trial: Trial, model: nn.Module) -> tuple[Labels, Labels]:
    """Labels and predictions: objects at thresholds from other such images, and the likeliest maker."""
    data = trial.data
    sets = [replace(data, images=n, seed=data.seed + seed) for n, seed in _SCENES_AS_BIASED]
    chosen_by, test = (_labels(trial, images.table()) for images in sets)
    logits = [training.predict(model, images.samples().images) for images in sets]
    objects = [of_set[:, : len(OBJECTS)] for of_set in logits]
    thresholds = metrics.calibrated_thresholds(chosen_by.attributes, objects[0])
    return test, Labels(objects[1] > thresholds, logits[1][:, len(OBJECTS) :].argmax(axis=1), OBJECTS)


def _measured(trial: Trial, arrays: _Arrays) -> Case:
    table = balanced(trial)
    names = _labels(trial, table).names
    sides: dict[str, Any] = {
        side: Labels(arrays[f"{side}/attributes"], arrays[f"{side}/groups"].astype(int), names)
        for side in ("train", "test", "predicted")
    }
    return Case(
        trial=trial,
        truth=trial.truth(table),
        cue=trial.cue(table),
        scores={MapScore(*key.split("/")[1:]): array for key, array in arrays.items() if key.startswith("score/")},
        map=arrays["map"].astype(np.float32),
        maps={key.removeprefix("maps/"): array for key, array in arrays.items() if key.startswith("maps/")},
        probability=arrays["probability"],
        biased_truth=arrays["biased_truth"],
        biased_answer=arrays["biased_answer"],
        **sides,
    )


def _union(samples: Samples, regions: tuple[str, ...]) -> np.ndarray:
    return np.any([samples.masks[region] for region in regions], axis=0)


def _at(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values at these rows, NaN at all others."""
    everywhere = np.full(len(rows), np.nan)
    everywhere[rows] = values
    return everywhere


def _to_one(maps: np.ndarray) -> np.ndarray:
    """Each map by its largest value, in half precision, which would lose the smallest otherwise."""
    largest = maps.max(axis=(1, 2), keepdims=True)
    return np.divide(maps, largest, out=np.zeros_like(maps), where=largest > 0).astype(np.float16)


def _shared(trial: Trial) -> Trial:
    """What all trials with the same test images have in common."""
    return replace(trial, strength=0.0, seed=0, architecture=None, images=None, epochs=None)


@functools.lru_cache(maxsize=3)
def _rendered(shared: Trial, cue: int | None) -> Samples:
    """The balanced images as they are, or all of them with or without the cue; kept for the next model."""
    table = balanced(shared)
    return shared.drawn_by.render(table if cue is None else shared.edited(table, cue), size=shared.data.size)
