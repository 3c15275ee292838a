"""Everything the metrics of the dial need of one model, image by image; through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from torch import nn

from biaslib import attribution, metrics, models, recipes, training, worlds
from biaslib.dial.trials import Trial
from biaslib.metrics import Labels
from biaslib.samples import Samples
from biaslib.store import Calls, stored
from biaslib.worlds.faces import Faces
from biaslib.worlds.pets import Pets
from biaslib.worlds.scenes import OBJECTS, Scenes

_Arrays = dict[str, np.ndarray]

_TEST_SEED: Final = 3_000_000  # of balanced test images; training images have the seeds of their trials
_OWN_SEED: Final = 4_000_000  # of test images as biased as the training images
# of scenes that are as biased: how many, and with which seed beside the model's, for thresholds and for the test
_SCENES_AS_BIASED: Final = ((1000, 10_000), (2000, 20_000))
ATTRIBUTES: Final = tuple(name for name in Faces.attributes if name != Faces.cue)
_ALL_METHODS_IN: Final = ("birds", "pets")  # worlds where the methods are tried that take many passes an image
_BALL_GROWTH: Final = 0.5  # of the ball's area, as paper C extends it
# of faces: further attributes whose maps are compared with the clan's
_BYSTANDERS: Final = ("Eyeglasses", "Blond_Hair")
_ACCURACIES: Final = {"RMA": metrics.relevance_mass_accuracy, "RRA": metrics.relevance_rank_accuracy}
_STEPS, _REGION = 73, 3  # as large a share of 64 x 64 pixels as the paper's 100 regions of 9 x 9 are of 224 x 224


class MapScore(NamedTuple):
    """What is scored on each image's map: the key of `Measured.scores`."""

    score: str  #: "mask score", "heatmap score", "RMA", "RRA" or "AOPC"
    #: the "object" or the "cue" that a map is compared with; of a heatmap score the "target" or the attribute whose map
    #: is compared with the cue's; of AOPC the "answer" that is destroyed
    of: str
    method: str = "Grad-CAM"  #: of `attribution.METHODS`


@dataclass(frozen=True)
class Measured:
    """What one model does, on N balanced test images and on N' test images as biased as its training images."""

    trial: Trial  #: the model
    truth: np.ndarray  #: (N,) whether the target is there; balanced: as often with the cue as without
    cue: np.ndarray  #: (N,) whether the cue is there
    probability: np.ndarray  #: (N, 2) of the target, of the same images without the cue and with it
    scores: dict[MapScore, np.ndarray]  #: of each image's map, (N,) or (explained,); NaN where an image has none
    map: np.ndarray  #: (N, h, w) Grad-CAM of the model's answer
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


def planned(trials: Sequence[Trial]) -> list[Calls]:
    """What `measured` asks of the store."""
    return [_run.calls(trials)]


def measured(trials: Sequence[Trial]) -> list[Measured]:
    """What each model does, in this order; models are trained where the store lacks them."""
    recipes.train.many([trial.recipe for trial in trials])
    return [_measured(trial, arrays) for trial, arrays in zip(trials, planned(trials)[0].results(), strict=True)]


def measure(trial: Trial) -> Measured:
    """What one model does, computed anew."""
    return _measured(trial, _run.compute(trial))


def balanced(trial: Trial) -> pd.DataFrame:
    """The rows of the test images: those of the world without bias, the same for all its trials."""
    return trial.drawn_by.factors(trial.test_images, strength=0.0, seed=_TEST_SEED)


def pictures(trial: Trial) -> Samples:
    """The balanced test images with their masks."""
    return _rendered(trial.world, trial.test_images, trial.size, None)


def probability(world: str, logits: np.ndarray) -> np.ndarray:
    """(N,) of the target, from all logits of a model of this world."""
    if world == "faces":
        return np.asarray(expit(logits[:, Faces.attributes.index(Faces.target)]))
    choices = logits[:, len(OBJECTS) :] if world == "scenes" else logits
    return np.asarray(softmax(choices, axis=1)[:, 1])


def _labels(world: str, table: pd.DataFrame) -> Labels:
    """What amplification is measured between.

    All other attributes and the clan in faces, all objects and the maker in scenes, else the target and the cue.
    """
    match world:
        case "faces":
            names, group = ATTRIBUTES, Faces.cue
        case "scenes":
            names, group = OBJECTS, Scenes.target
        case _:
            names, group = (worlds.get(world).target,), worlds.get(world).cue
    return Labels(table[list(names)].to_numpy(bool), table[group].to_numpy(int), names)


@stored(
    "dial",
    passes=lambda trial: (
        1.5 * trial.test_images,  # those that all models are asked about are drawn once
        # the methods that take many passes, and the curves of pets
        3.5 + {"birds": 198, "pets": 346}.get(trial.world, 0) * trial.explained / (1.5 * trial.test_images),
        (trial.world in _ALL_METHODS_IN) * trial.explained / (1.5 * trial.test_images),
    ),
)
def _run(trial: Trial) -> _Arrays:
    """The arrays of one trial."""
    model, samples = recipes.load(trial.recipe), pictures(trial)
    pairs = [_rendered(trial.world, trial.test_images, trial.size, cue).images for cue in (0, 1)]
    answers = [probability(trial.world, training.predict(model, images)) for images in pairs]
    maps = _maps(trial.world, model, samples.images)
    scores = _attention(trial, maps, samples) | _localisation(trial, model, maps["target"], samples)
    return {
        "probability": np.stack(answers, axis=1),
        "map": maps["target"].astype(np.float16),
        **{"/".join(("score", *key)): values for key, values in scores.items()},
        **_as_biased(trial, model),
    }


def _maps(world: str, model: nn.Module, images: np.ndarray) -> _Arrays:
    """Grad-CAM (N, h, w) of the target's answer, of the cue where the model predicts it, and of bystanders."""
    pixels = models.to_tensor(images, model=model)
    if world == "faces":
        names = ("target", "cue", *_BYSTANDERS)
        outputs = np.array([Faces.attributes.index(name) for name in (Faces.target, Faces.cue, *_BYSTANDERS)])
        cams = attribution.grad_cam(model, pixels, outputs, absolute=True).numpy()
        return {name: cams[:, place] for place, name in enumerate(names)}
    answered = _answered(world, training.predict(model, images))
    maps = {"target": attribution.grad_cam(model, pixels, answered[:, None])[:, 0].numpy()}
    if world == "scenes":
        cue = np.array([OBJECTS.index(Scenes.cue)])
        maps["cue"] = attribution.grad_cam(model, pixels, cue, absolute=True)[:, 0].numpy()
    return maps


def _answered(world: str, logits: np.ndarray) -> np.ndarray:
    """(N,) the output that the answer is."""
    if world == "faces":
        return np.full(len(logits), Faces.attributes.index(Faces.target))
    first = len(OBJECTS) if world == "scenes" else 0
    return np.asarray(first + logits[:, first:].argmax(axis=1))


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
    trial: Trial, model: nn.Module, answer_maps: np.ndarray, samples: Samples
) -> dict[MapScore, np.ndarray]:
    """Mass and rank on object and cue, and how fast the answer is destroyed (paper C); on the explained images."""
    explained = samples.take(slice(trial.explained))
    answered = _answered(trial.world, training.predict(model, explained.images))
    parts = {"object": _union(explained, trial.place.regions), "cue": _union(explained, trial.place.cue_regions)}
    if trial.place.cue_regions == ("ball",):
        parts["cue"] = metrics.dilate_to_area(parts["cue"], share=_BALL_GROWTH)
    scores: dict[MapScore, np.ndarray] = {}
    for name, method in attribution.METHODS.items():
        if name == "Grad-CAM":
            coarse = answer_maps[: trial.explained]
        elif trial.world in _ALL_METHODS_IN:
            pixels = models.to_tensor(explained.images, model=model)
            coarse = method(model, pixels, answered[:, None])[:, 0].numpy()
        else:
            continue
        fine = metrics.upsample_maps(coarse, trial.size, trial.size)
        for part, masks in parts.items():
            rows = np.asarray(masks.any(axis=(1, 2)))
            for score, accuracy in _ACCURACIES.items():
                scores[MapScore(score, part, name)] = _at(rows, accuracy(fine[rows], masks[rows]))
        if trial.world == "pets":
            rows = explained.labels[Pets.target].to_numpy(bool)
            region = max(1, round(_REGION * trial.size / 64))
            curves = metrics.perturbation_curves(
                lambda images: np.asarray(softmax(training.predict(model, images), axis=1)),
                explained.images[rows], fine[rows], answered[rows], steps=_STEPS, region=region,
            )  # fmt: skip
            scores[MapScore("AOPC", "answer", name)] = _at(rows, metrics.aopc(curves))
    return scores


def _as_biased(trial: Trial, model: nn.Module) -> _Arrays:
    """Labels and answers on test images as biased as the training images (paper B)."""
    world, trained = trial.world, _labels(trial.world, trial.data.table())
    if world == "scenes":
        test, predicted = _scenes_as_biased(trial, model)
        truth, answer = test.groups, predicted.groups
    else:
        table = trial.drawn_by.factors(trial.test_images, strength=trial.strength, seed=_OWN_SEED)
        logits = training.predict(model, trial.drawn_by.render(table, size=trial.size, regions=()).images)
        test, truth = _labels(world, table), table[trial.drawn_by.target].to_numpy(bool)
        answer = probability(world, logits) > 0.5
        if world == "faces":
            predicted = _labels(world, pd.DataFrame(logits > 0, columns=Faces.attributes))
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
    chosen_by, test = (_labels("scenes", images.table()) for images in sets)
    logits = [training.predict(model, images.samples().images) for images in sets]
    objects = [of_set[:, : len(OBJECTS)] for of_set in logits]
    thresholds = metrics.calibrated_thresholds(chosen_by.attributes, objects[0])
    return test, Labels(objects[1] > thresholds, logits[1][:, len(OBJECTS) :].argmax(axis=1), OBJECTS)


def _measured(trial: Trial, arrays: _Arrays) -> Measured:
    table = balanced(trial)
    names = _labels(trial.world, table).names
    sides: dict[str, Any] = {
        side: Labels(arrays[f"{side}/attributes"], arrays[f"{side}/groups"].astype(int), names)
        for side in ("train", "test", "predicted")
    }
    return Measured(
        trial=trial,
        truth=table[trial.drawn_by.target].to_numpy(bool),
        cue=table[trial.drawn_by.cue].to_numpy(bool),
        scores={MapScore(*key.split("/")[1:]): array for key, array in arrays.items() if key.startswith("score/")},
        map=arrays["map"].astype(np.float32),
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


@functools.lru_cache(maxsize=3)
def _rendered(name: str, n: int, size: int, cue: int | None) -> Samples:
    """The balanced images as they are, or all of them with or without the cue; kept for the next model."""
    world = worlds.get(name)
    table = world.factors(n, strength=0.0, seed=_TEST_SEED)
    if cue is not None:
        table = table.assign(**{world.cue: np.full(n, cue).astype(table[world.cue].to_numpy().dtype)})
    return world.render(table, size=size)
