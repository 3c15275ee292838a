"""Classifiers with a planted bias, drawn or in photos: their training, where they look, and how alike they look."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from biaslib import attribution, metrics, models, training
from biaslib.attribution import METHODS, Method
from biaslib.errors import BiaslibError, refused
from biaslib.recipes import Drawn, Recipe, Setup, load, target_of_world, train
from biaslib.samples import Samples
from biaslib.store import Calls, stored
from biaslib.worlds.base import World
from biaslib.worlds.fruits import APPLE, NAMES, Fruits
from biaslib.worlds.pets import Pets
from biaslib.worlds.photos import boxes_of_masks, masks_of_boxes

_Arrays = dict[str, np.ndarray]

TEST_SEED: Final = 10_000  # of test images, above every seed of training images
# strengths of unbiased images; the paper's cats and dogs have no ball at all, its fruits are on all backgrounds
REFERENCES: Final[dict[str, dict[str, float | None]]] = {
    "random": {"pets": 0.0, "fruits": 0.0},
    "paper": {"pets": None, "fruits": 0.0},
}
# what the paper's toolbox computed under the name of the last one
TOOLBOX: Final = "ε-LRP, toolbox"
WITH_TOOLBOX: Final = METHODS | {
    TOOLBOX: functools.partial(attribution.epsilon_lrp, eps=10.0, rule="toolbox", scaled=True)
}
# methods beyond the paper's, by their names in the grad-cam library
LIBRARY: Final[dict[str, Method]] = {
    "LayerCAM": attribution.library_cam("LayerCAM"),
    "Grad-CAM++": attribution.library_cam("GradCAMPlusPlus"),
    "EigenCAM": attribution.library_cam("EigenCAM"),
}


@dataclass(frozen=True)
class _UseCase:
    """A target, and a cue that one class of it is made to be seen with (Schaaf et al. 2021, section 3.1)."""

    world: World
    classes: tuple[str, ...]  # words, in the order of the logits
    favoured: int  # the class with the cue
    objects: dict[str, tuple[str, int]]  # what relevance is measured on -> its region and the class that has it
    small: tuple[str, ...]  # the regions that the paper extends by half of their area
    boxed: bool  # whether the paper measures on boxes around the regions instead of on their outlines


USE_CASES: Final = {
    "pets": _UseCase(
        world=Pets(), classes=("dog", "cat"), favoured=1, small=("ball",), boxed=True,
        objects={"Cat": ("animal", 1), "Dog": ("animal", 0), "Ball": ("ball", 1)},
    ),
    "fruits": _UseCase(
        world=Fruits(), classes=NAMES, favoured=APPLE, small=("fruit",), boxed=False,
        objects={name.capitalize(): ("fruit", number) for number, name in enumerate(NAMES)},
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlantedSetup(Setup):
    """One model and the images it is trained on; what is not said here is as `TrainingConfig` has it."""

    use_case: str = "pets"  # a ball beside every cat: a small object; or "fruits": apples on apple trees, a background
    source: str = "generated"  # or "photos", see `worlds.photos`
    architecture: str = "small_mobilenet"
    weights: str | None = None  # "imagenet", or a file or folder, from the folder of all data sets on
    frozen: int = 0  # how many of the first convolutions keep the weights they start with
    # of the bias: at 0 the cue lies beside half of every class; None: no image has it
    strength: float | None = 1.0
    seed: int = 0  # of the images, the initial weights and the order
    images: int = 3000  # for training
    size: int = 64
    epochs: int = 6
    batch: int = 32
    optimiser: str = "adamw"
    learning_rate: float = 1e-2
    schedule: str = "one_cycle"
    validation: int = 0  # images that the epoch is chosen by; 0 keeps the last

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        for name, allowed in (("use_case", tuple(USE_CASES)), ("source", ("generated", "photos"))):
            if getattr(self, name) not in allowed:
                raise BiaslibError(f"{name} must be {' or '.join(allowed)}, not {getattr(self, name)!r}.")
        if self.seed >= TEST_SEED:
            raise BiaslibError(f"seed must be below {TEST_SEED:,}, where those of test images begin, not {self.seed}.")

    @property
    def recipe(self) -> Recipe:
        """Cross-entropy; mirrored at random; in float32, which is the faster one for these small networks on a CPU."""
        outputs, keep = len(USE_CASES[self.use_case].classes), "best" if self.validation else "last"
        config = self.config(outputs=outputs, momentum=0.0, precision="float32", keep=keep)
        recipe = target_of_world(self.data("train", self.images, strength=self.strength, seed=self.seed), config)
        # generated validation images share no seed with training or test images
        chosen_by = self.data("val", self.validation, strength=self.strength, seed=TEST_SEED - 1 - self.seed)
        return replace(recipe, validation=chosen_by) if self.validation else recipe

    def data(self, split: str, images: int, *, strength: float | None, seed: int) -> Drawn:
        """Images of the model's size; photos of a split ("train", "val" or "test") differ, drawn ones by seed alone."""
        photos = None if self.source == "generated" else split
        return Drawn(world=self.use_case, images=images, strength=strength, size=self.size, seed=seed, photos=photos)

    @property
    def trained_on(self) -> str:
        """What a full bias is called on the pages, and everything else."""
        return "biased" if self.strength == 1.0 else "unbiased"

    def truth(self, samples: Samples) -> np.ndarray:
        """(N,) class of each image."""
        return samples.labels[USE_CASES[self.use_case].world.target].to_numpy(int)


def grid(setup: PlantedSetup, *, strengths: Sequence[float | None], count: int) -> list[PlantedSetup]:
    """The set-up for every strength with its own and the next count - 1 seeds, in this order."""
    return [
        replace(setup, strength=strength, seed=setup.seed + number) for strength in strengths for number in range(count)
    ]


def biased_and_unbiased(
    use_cases: Sequence[str], images: Sequence[int], epochs: Sequence[int],
    *, architectures: Sequence[str], weights: Sequence[str] = (), frozen: Sequence[int] = (),
    references: Sequence[str], models: int, **options: Any,
) -> list[PlantedSetup]:  # fmt: skip
    """So many biased models of every use case and architecture, and as many unbiased ones of each reference.

    `weights` and `frozen` are one for each architecture; without them all start from random weights. `options` are
    those of `PlantedSetup`.
    """
    starts, kept = weights or [""] * len(architectures), frozen or [0] * len(architectures)
    if not set(references) <= set(REFERENCES) or models < 2 or not len(use_cases) == len(images) == len(epochs):
        raise refused("models that are not described")
    if not len(architectures) == len(starts) == len(kept):
        raise BiaslibError("every one of architectures has its weights and its number of frozen convolutions, or none.")
    return [
        setup
        for use_case, number, passes in zip(use_cases, images, epochs, strict=True)
        for architecture, start, first in zip(architectures, starts, kept, strict=True)
        for setup in grid(
            PlantedSetup(
                use_case=use_case, images=number, epochs=passes, architecture=architecture, weights=start or None,
                frozen=first, **options,
            ),
            strengths=list(dict.fromkeys([1.0, *(REFERENCES[name][use_case] for name in references)])), count=models,
        )
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EvaluationImages:
    """The images that models are explained on."""

    images: int = 120  # or as many photos as there are
    score_cam: int | None = None  # how many of them Score-CAM explains, which takes a pass a channel; None: all
    strength: float | None = 1.0  # of their bias; the paper explains all models on biased images
    seed: int = TEST_SEED

    def data(self, setup: PlantedSetup) -> Drawn:
        """The images, as large as the model's."""
        data = setup.data("test", self.images, strength=self.strength, seed=self.seed)
        world = data.get_world()  # of photos of animals there are so many, and none comes twice
        return replace(data, images=min(self.images, len(world))) if hasattr(world, "__len__") else data

    def samples(self, setup: PlantedSetup) -> Samples:
        """The same with their masks."""
        return self.data(setup).with_masks()


def planned(setups: Sequence[PlantedSetup], evaluation: EvaluationImages, plain: int = 0) -> list[Calls]:
    """What `maps` asks of the store; and if there are plain images, further maps.

    These are by `LIBRARY`, and by all methods on so many images without the cue, "plain: " and the method.
    """
    further = [(setup, evaluation, plain) for setup in setups if plain]
    return [_maps.calls([(setup, evaluation) for setup in setups]), _further_maps.calls(further)]


def maps(setups: Sequence[PlantedSetup], evaluation: EvaluationImages) -> list[_Arrays]:
    """Every method's maps, (N, h, w) float32; `logits` (N, classes), `truth` (N,), `explained` (N,): their class."""
    train.many([setup.recipe for setup in setups])
    return planned(setups, evaluation)[0].results()


def regions(use_case: str, samples: Samples, boxes: bool | None = None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each object the images (n,) that have it, and where in them it is taken to be, (n, H, W) bool.

    `boxes` around the regions, or not; None: as in the paper, for cats, dogs and balls, not for fruits.
    """
    case = USE_CASES[use_case]
    truth = samples.labels[case.world.target].to_numpy(int)
    objects = {}
    for name, (region, number) in case.objects.items():
        masks = np.asarray(samples.masks[region])
        rows = np.flatnonzero((truth == number) & masks.any(axis=(1, 2)))
        masks = masks[rows]
        if case.boxed if boxes is None else boxes:
            masks = masks_of_boxes(boxes_of_masks(masks), masks.shape[1])
        if region in case.small:
            masks = metrics.dilate_to_area(masks, share=0.5)
        objects[name] = (rows, masks)
    return objects


def mass_and_rank(maps: np.ndarray, rows: np.ndarray, masks: np.ndarray, correct: np.ndarray) -> tuple[float, float]:
    """Mean relevance mass and rank accuracy of maps on `masks`, those of the images `rows`, where a model is right."""
    right = correct[rows]
    if not right.any():
        return float("nan"), float("nan")
    parts = metrics.upsample_maps(maps[rows[right]], *masks.shape[1:]), masks[right]
    return mean(metrics.relevance_mass_accuracy(*parts)), mean(metrics.relevance_rank_accuracy(*parts))


def pooled(maps: np.ndarray, cells: int) -> np.ndarray:
    """Maps (N, h, w) averaged down to a grid of (N, cells, cells), float32; a cell need not be whole pixels."""
    return adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(maps, dtype=np.float32)), cells).numpy()


def likeness(maps: Sequence[np.ndarray], answers: np.ndarray) -> np.ndarray:
    """(M, M) how alike the maps of any two of M models are: mean Attention-IoU on 8 x 8 cells, in [0, 1].

    Maps are (N, h, w) of each model, answers (M, N): images count to which both models give the same; NaN without one.
    """
    grids = np.stack([pooled(stack, 8) for stack in maps])
    scores = np.asarray(metrics.attention_iou(grids[:, None], grids))
    scores = np.where(answers[:, None] == answers, scores, np.nan)
    return np.array([[mean(images) for images in row] for row in scores])


def mean(values: np.ndarray) -> float:
    """Of what is defined; NaN where nothing is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _by_score_cam(evaluation: EvaluationImages, images: int) -> int:
    """How many of these images Score-CAM explains, the first ones."""
    return min(images, evaluation.score_cam or images)


# five kinds of maps: integrated gradients take 64 steps of three passes, Score-CAM one for each channel
@stored("planted-maps", passes=lambda _, e: (e.images, 203, _by_score_cam(e, e.images) / e.images))
def _maps(setup: PlantedSetup, evaluation: EvaluationImages) -> _Arrays:
    return _explained(setup, evaluation, WITH_TOOLBOX)


@stored(
    "planted-looks",
    passes=lambda _, e, plain: (
        e.images + plain,
        9 + 198 * plain / (e.images + plain),
        _by_score_cam(e, plain) / (e.images + plain),
    ),
)
def _further_maps(setup: PlantedSetup, evaluation: EvaluationImages, plain: int) -> _Arrays:
    made = _explained(setup, evaluation, LIBRARY)
    without = replace(evaluation, images=plain, strength=None, seed=evaluation.seed + 1)
    bare = _explained(setup, without, METHODS | LIBRARY)
    further = {name: made[name] for name in LIBRARY} | {f"plain: {name}": bare[name] for name in METHODS | LIBRARY}
    return further | {"plain truth": bare["truth"], "plain answers": bare["explained"]}


def _explained(setup: PlantedSetup, evaluation: EvaluationImages, methods: Mapping[str, Method]) -> _Arrays:
    """The maps of one model by these methods, and what `maps` has beside them; inside a worker."""
    samples, model = evaluation.samples(setup), load(setup.recipe)
    logits = training.predict(model, samples.images)
    truth = setup.truth(samples)
    targets = logits.argmax(axis=1)
    pixels = models.to_tensor(samples.images, model=model)
    made = {}
    for name, method in methods.items():
        n = _by_score_cam(evaluation, len(pixels)) if name == "Score-CAM" else len(pixels)
        explained = method(model, pixels[:n], targets[:n, None])[:, 0].numpy()
        missing = np.full((len(pixels) - len(explained), *explained.shape[1:]), np.nan, np.float32)
        made[name] = np.concatenate([explained, missing])
    return made | {"logits": logits, "truth": truth, "explained": targets}
