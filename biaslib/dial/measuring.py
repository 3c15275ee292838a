"""Everything the metrics of the dial need of one model, image by image; through the store."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from torch import nn

from biaslib import attribution, metrics, models, training, worlds
from biaslib.chapters import scene_models
from biaslib.chapters.localisation import METHODS
from biaslib.dial.trials import Trial, network, train
from biaslib.metrics import Labels
from biaslib.samples import Samples
from biaslib.store import parallel
from biaslib.worlds.faces import Faces
from biaslib.worlds.pets import Pets
from biaslib.worlds.scenes import OBJECTS, Scenes

Arrays = dict[str, np.ndarray]

TEST_SEED: Final = 3_000_000  # of balanced test images; training images have the seeds of their trials
OWN_SEED: Final = 4_000_000  # of test images as biased as the training images
SCORE: Final = "score/"  # begins the names of scores among the arrays
SLOW: Final = ("birds", "pets")  # worlds where the methods are tried that take many passes an image
EXTENSION: Final = 0.5  # of the ball's area, as paper C extends it
# of faces: further attributes whose maps are compared with the clan's
BYSTANDERS: Final = ("Eyeglasses", "Blond_Hair")
STEPS, REGION = 73, 3  # as large a share of 64 x 64 pixels as the paper's 100 regions of 9 x 9 are of 224 x 224
ATTRIBUTES: Final = tuple(name for name in Faces.attributes if name != Faces.cue)


@dataclass(frozen=True)
class Measured:
    """What one model does, on N balanced test images and on N' like its training images.

    Attributes:
        trial: the model.
        truth: (N,) whether the target is there; balanced: as often with the cue as without.
        cue: (N,) whether the cue is there.
        probability: (N, 2) of the target, of the same images without the cue and with it.
        scores: name -> (N,) or (explained,) score of each image's map; NaN where it has none.
        map: (N, h, w) Grad-CAM of the model's answer.
        train: labels of the training images: attributes, and groups that they are tied to.
        own: labels of the test images that are as biased.
        said: what the model says of those; where it does not tell the group, the group as labelled.
        own_truth: (N',) the target in those images.
        own_answer: (N',) the answer.
    """

    trial: Trial
    truth: np.ndarray
    cue: np.ndarray
    probability: np.ndarray
    scores: Arrays
    map: np.ndarray
    train: Labels
    own: Labels
    said: Labels
    own_truth: np.ndarray
    own_answer: np.ndarray

    @property
    def effect(self) -> np.ndarray:
        """(N,) true causal effect of the cue on the probability of the target, in [-1, 1]."""
        return self.probability[:, 1] - self.probability[:, 0]

    @property
    def answer(self) -> np.ndarray:
        """(N,) bool: whether the target is said to be there."""
        return np.where(self.cue, self.probability[:, 1], self.probability[:, 0]) > 0.5

    @property
    def correct(self) -> np.ndarray:
        """(N,) bool."""
        return self.answer == self.truth

    @property
    def group(self) -> np.ndarray:
        """(N,) 0 to 3: target and cue together."""
        return 2 * self.truth + self.cue


def measured(trials: Sequence[Trial], *, scheduler: str | None = None) -> list[Measured]:
    """What each model does, in this order; models are trained where the store lacks them.

    Args:
        trials: of any worlds.
        scheduler: see `parallel.workers`.
    """
    train(trials, scheduler=scheduler)
    found = parallel.stored("dial", trials, run, scheduler=scheduler)
    return [_measured(trial, arrays) for trial, arrays in zip(trials, found, strict=True)]


def run(trial: Trial) -> Arrays:
    """The arrays of one trial; on one thread."""
    arrays: Arrays = parallel.single_threaded(_run, trial)
    return arrays


def balanced(trial: Trial) -> pd.DataFrame:
    """The rows of the test images: those of the world without bias, the same for all its trials."""
    return _table(trial.world, trial.test_images, 0.0, TEST_SEED)


def pictures(trial: Trial) -> Samples:
    """The balanced test images with their masks."""
    return _rendered(trial.world, trial.test_images, trial.size, None)


def probability(world: str, logits: np.ndarray) -> np.ndarray:
    """(N,) of the target, from all logits of a model of this world."""
    if world == "faces":
        return np.asarray(expit(logits[:, Faces.attributes.index(Faces.target)]))
    choices = logits[:, len(OBJECTS) :] if world == "scenes" else logits
    return np.asarray(softmax(choices, axis=1)[:, 1])


def labels(world: str, table: pd.DataFrame) -> Labels:
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


def _run(trial: Trial) -> Arrays:
    model, samples = network(trial), pictures(trial)
    pairs = [_rendered(trial.world, trial.test_images, trial.size, cue).images for cue in (0, 1)]
    answers = [probability(trial.world, training.predict(model, images)) for images in pairs]
    maps = _maps(trial.world, model, samples.images)
    scores = _attention(trial, maps, samples) | _localised(trial, model, maps["answer"], samples)
    return {
        "probability": np.stack(answers, axis=1),
        "map": maps["answer"].astype(np.float16),
        **{f"{SCORE}{name}": values for name, values in scores.items()},
        **_as_biased(trial, model),
    }


def _maps(world: str, model: nn.Module, images: np.ndarray) -> Arrays:
    """Grad-CAM (N, h, w) of the answer, of the cue where the model tells it, and of bystanders."""
    pixels = models.to_tensor(images, model=model)
    if world == "faces":
        names = ("answer", "cue", *BYSTANDERS)
        targets = np.array([Faces.attributes.index(name) for name in (Faces.target, Faces.cue, *BYSTANDERS)])
        found = attribution.grad_cam(model, pixels, targets, absolute=True).numpy()
        return {name: found[:, at] for at, name in enumerate(names)}
    said = _answered(world, training.predict(model, images))
    maps = {"answer": attribution.grad_cam(model, pixels, said[:, None])[:, 0].numpy()}
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


def _attention(trial: Trial, maps: Arrays, samples: Samples) -> Arrays:
    """Attention-IoU of maps with regions and with the cue's map (paper A)."""
    place = trial.place
    scores = {
        "mask score, object": metrics.mask_score(maps["answer"], _union(samples, place.regions)),
        "mask score, cue": metrics.mask_score(maps["answer"], _union(samples, place.cue_regions)),
    }
    if "cue" in maps:
        scores["heatmap score"] = metrics.attention_iou(maps["answer"], maps["cue"])
    return scores | {
        f"heatmap score, {name}": metrics.attention_iou(maps[name], maps["cue"]) for name in BYSTANDERS if name in maps
    }


def _localised(trial: Trial, model: nn.Module, answer_maps: np.ndarray, samples: Samples) -> Arrays:
    """Mass and rank on object and cue, and how fast the answer is destroyed (paper C); on the explained images."""
    some = samples.take(slice(trial.explained))
    asked = _answered(trial.world, training.predict(model, some.images))
    own, cue = _union(some, trial.place.regions), _union(some, trial.place.cue_regions)
    if trial.place.cue_regions == ("ball",):
        cue = metrics.dilate_to_area(cue, share=EXTENSION)
    scores: Arrays = {}
    for name in METHODS if trial.world in SLOW else ("Grad-CAM",):
        coarse = answer_maps[: trial.explained]
        if name != "Grad-CAM":
            coarse = METHODS[name](model, models.to_tensor(some.images, model=model), asked[:, None])[:, 0].numpy()
        fine = metrics.upsample_maps(coarse, trial.size, trial.size)
        for part, masks in (("object", own), ("cue", cue)):
            rows = np.asarray(masks.any(axis=(1, 2)))
            mass = metrics.relevance_mass_accuracy(fine[rows], masks[rows])
            rank = metrics.relevance_rank_accuracy(fine[rows], masks[rows])
            scores |= {f"RMA, {part}, {name}": _at(rows, mass), f"RRA, {part}, {name}": _at(rows, rank)}
        if trial.world == "pets":
            rows = some.labels[Pets.target].to_numpy(bool)
            curves = metrics.perturbation_curves(
                functools.partial(_probabilities, model), some.images[rows], fine[rows], asked[rows], steps=STEPS,
                region=max(1, round(REGION * trial.size / 64)),
            )  # fmt: skip
            scores[f"AOPC, {name}"] = _at(rows, metrics.aopc(curves))
    return scores


def _as_biased(trial: Trial, model: nn.Module) -> Arrays:
    """Labels and answers on test images as biased as the training images (paper B)."""
    world, trained = trial.world, labels(trial.world, trial.training_table())
    if isinstance(trial.recipe, scene_models.Experiment):
        outcome = scene_models.outcomes([trial.recipe])[0]
        own, said = outcome.test, scene_models.predicted(outcome)
        truth, answer = own.groups, said.groups
    else:
        table = _table(world, trial.test_images, trial.strength, OWN_SEED)
        logits = training.predict(model, trial.drawn_by.render(table, size=trial.size).images)
        own, truth = labels(world, table), table[trial.drawn_by.target].to_numpy(bool)
        answer = probability(world, logits) > 0.5
        said = _said_of_faces(logits) if world == "faces" else Labels(answer[:, None], own.groups, own.names)
    sides = {"train": trained, "own": own, "said": said}
    return {
        **{f"{name}/attributes": side.attributes for name, side in sides.items()},
        **{f"{name}/groups": side.groups.astype(np.int8) for name, side in sides.items()},
        "own_truth": np.asarray(truth, bool),
        "own_answer": np.asarray(answer, bool),
    }


def _said_of_faces(logits: np.ndarray) -> Labels:
    yes, told = logits > 0, [Faces.attributes.index(name) for name in ATTRIBUTES]
    return Labels(yes[:, told], yes[:, Faces.attributes.index(Faces.cue)].astype(int), ATTRIBUTES)


def _measured(trial: Trial, arrays: Arrays) -> Measured:
    table = balanced(trial)
    names = labels(trial.world, table).names
    trained, own, said = (
        Labels(arrays[f"{side}/attributes"], arrays[f"{side}/groups"].astype(int), names)
        for side in ("train", "own", "said")
    )
    return Measured(
        trial=trial,
        truth=table[trial.drawn_by.target].to_numpy(bool),
        cue=table[trial.drawn_by.cue].to_numpy(bool),
        probability=arrays["probability"],
        scores={name.removeprefix(SCORE): values for name, values in arrays.items() if name.startswith(SCORE)},
        map=arrays["map"].astype(np.float32),
        train=trained,
        own=own,
        said=said,
        own_truth=arrays["own_truth"],
        own_answer=arrays["own_answer"],
    )


def _probabilities(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """(N, classes)."""
    return np.asarray(softmax(training.predict(model, images), axis=1))


def _union(samples: Samples, regions: tuple[str, ...]) -> np.ndarray:
    return np.any([samples.masks[region] for region in regions], axis=0)


def _at(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values at these rows, NaN at all others."""
    found = np.full(len(rows), np.nan)
    found[rows] = values
    return found


def _table(world: str, n: int, strength: float, seed: int) -> pd.DataFrame:
    return worlds.get(world).factors(n, strength=strength, seed=seed)


@functools.lru_cache(maxsize=3)
def _rendered(world: str, n: int, size: int, cue: int | None) -> Samples:
    """The balanced images as they are, or all of them with or without the cue; kept for the next model."""
    table = _table(world, n, 0.0, TEST_SEED)
    if cue is not None:
        name = worlds.get(world).cue
        table = table.assign(**{name: np.full(n, cue).astype(table[name].to_numpy().dtype)})
    return worlds.get(world).render(table, size=size)
