"""Where models with a planted bias look, how much of it lies on what, and how like unbiased models they look."""

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import adaptive_avg_pool2d

from biaslib import attribution, metrics, models, training
from biaslib.attribution import METHODS, Method
from biaslib.chapters.planted_models import TEST_SEED, USE_CASES, Setting
from biaslib.datasets import fruits, registry
from biaslib.errors import BiaslibError
from biaslib.recipes import load, train
from biaslib.samples import Samples
from biaslib.statistics.detection import Side, flagged
from biaslib.store import stored
from biaslib.worlds.photos.cutouts import boxes_of_masks, masks_of_boxes

Arrays = dict[str, np.ndarray]
# what the paper's toolbox computed under the name of the last one
TOOLBOX: Final = "ε-LRP, toolbox"
_WITH_TOOLBOX: Final = METHODS | {
    TOOLBOX: functools.partial(attribution.epsilon_lrp, eps=10.0, rule="toolbox", scaled=True)
}
# methods beyond the paper's, by their names in the grad-cam library
LIBRARY: Final[dict[str, Method]] = {
    "LayerCAM": attribution.library_cam("LayerCAM"),
    "Grad-CAM++": attribution.library_cam("GradCAMPlusPlus"),
    "EigenCAM": attribution.library_cam("EigenCAM"),
}
_LIKENESS_CELLS: Final = 8  # along a side of the grid that every method's maps can be brought to


@dataclass(frozen=True, kw_only=True)
class EvaluationImages:
    """The images that models are explained on, and what of them is explained."""

    images: int = 120
    strength: float | None = 1.0  # of their bias; the paper explains all models on biased images
    explained: str = "predicted"  # class, or the "true" one; the same where only correct predictions are used
    seed: int = TEST_SEED

    def __post_init__(self) -> None:
        if self.explained not in ("predicted", "true"):
            raise BiaslibError(f"explained must be predicted or true, not {self.explained!r}.")

    def samples(self, setting: Setting) -> Samples:
        """The images, as large as the model's."""
        return setting.samples("test", self.images, strength=self.strength, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Outline:
    """Where an object is taken to be."""

    boxes: bool | None = None  # around the regions; None: as in the paper, for cats, dogs and balls, not for fruits
    extension: float = 0.5  # of the small objects (balls, fruits), as a share of their area
    cells: bool = False  # whether coarse maps are enlarged as the squares they are made of, not bilinearly


def maps(settings: Sequence[Setting], evaluation: EvaluationImages) -> list[Arrays]:
    """Every method's map of every image, as the method gives it: (N, h, w) float32 under the method's name.

    Beside them `logits` (N, classes), `truth` (N,) and `explained` (N,), the class that the maps explain.
    """
    train.many([setting.recipe for setting in settings])
    return _maps.many([(setting, evaluation) for setting in settings])


def further_maps(settings: Sequence[Setting], evaluation: EvaluationImages, *, plain: int) -> list[Arrays]:
    """The maps that the paper does not have: other methods, and all methods on so many images without the cue.

    For each model (N, h, w) maps of the evaluation's images under each name of `LIBRARY`; maps of images without the
    cue under each name of both, with "plain: " before it; and `plain truth` and `plain answers`, (plain,) classes.
    """
    return _further_maps.many([(setting, evaluation, plain) for setting in settings])


def scores(settings: Sequence[Setting], evaluation: EvaluationImages, outline: Outline | None = None) -> pd.DataFrame:
    """Relevance mass and rank accuracy, a row for each model, image, object and method.

    Columns: `model` (its place among the settings), `image`, `object` (of `UseCase.objects`; an image has those of its
    own class), `method`, `rma`, `rra` (NaN for a map that is 0 everywhere), `area` (the share of the image that the
    object takes, which is what a map that knows nothing scores) and `correct` (whether the model is right).
    """
    maps(settings, evaluation)
    tables = _scores.many([(setting, evaluation, outline or Outline()) for setting in settings])
    return pd.concat([table.assign(model=place) for place, table in enumerate(tables)], ignore_index=True)


def regions(use_case: str, samples: Samples, outline: Outline) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each object the images (n,) that have it, and where in them it is taken to be, (n, H, W) bool."""
    case = USE_CASES[use_case]
    truth = samples.labels[case.world.target].to_numpy(int)
    objects = {}
    for name, (region, number) in case.objects.items():
        every = np.asarray(samples.masks[region])
        rows = np.flatnonzero((truth == number) & every.any(axis=(1, 2)))
        masks = every[rows]
        if case.boxed if outline.boxes is None else outline.boxes:
            masks = masks_of_boxes(boxes_of_masks(masks), masks.shape[1])
        if region in case.small:
            masks = metrics.dilate_to_area(masks, share=outline.extension)
        objects[name] = (rows, masks)
    return objects


def mass_and_rank(maps: np.ndarray, rows: np.ndarray, masks: np.ndarray, correct: np.ndarray) -> tuple[float, float]:
    """Mean relevance mass and rank accuracy of one model's maps (N, h, w), over images it is right about; else NaN.

    `rows` (n,) are the images that have the object, `masks` (n, H, W) say where it is, `correct` is (N,).
    """
    right = correct[rows]
    if not right.any():
        return float("nan"), float("nan")
    fine = metrics.upsample_maps(maps[rows[right]], *masks.shape[1:])
    mass = metrics.relevance_mass_accuracy(fine, masks[right])
    rank = metrics.relevance_rank_accuracy(fine, masks[right])
    return _mean(mass), _mean(rank)


def stand_ins(source: str) -> dict[str, str]:
    """Fruits that the photos do not show, with the words for what is there instead: {"Corn": "Lemon (for corn)"}.

    Empty for generated images and for photos of all five fruits.
    """
    if source == "generated":
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", registry.DatasetWarning)  # loading the photos gives it
        there = fruits.kinds(registry.root())
    missing = {kind: word for kind, word in there.items() if word != fruits.KINDS[kind][0]}
    return {kind.capitalize(): f"{word} (for {kind})" for kind, word in missing.items()}


def pooled(maps: np.ndarray, cells: int) -> np.ndarray:
    """Maps (N, h, w) averaged down to a grid of (N, cells, cells), float32; a cell need not be whole pixels."""
    return adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(maps, dtype=np.float32)), cells).numpy()


def likeness(maps: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Attention-IoU of two models' maps (N, h, w) of the same images on a common grid: (N,) in [0, 1].

    Finer maps are averaged down to the grid. NaN where one of the maps is 0 everywhere.
    """
    return np.asarray(metrics.attention_iou(pooled(maps, _LIKENESS_CELLS), pooled(others, _LIKENESS_CELLS)))


def reference_likeness(
    maps: np.ndarray,
    predicted: np.ndarray,
    reference_maps: Sequence[np.ndarray],
    reference_predicted: Sequence[np.ndarray],
) -> np.ndarray:
    """Mean likeness of one model's maps to each reference model's, over images to which both give the same answer.

    A map explains an answer: those of two different answers may differ with nothing amiss. Each model has (N, h, w)
    maps of the same images and (N,) classes that these explain. (m,) in [0, 1] for m unbiased reference models; NaN
    where one gives no image the same answer.
    """
    pairs = zip(reference_maps, reference_predicted, strict=True)
    return np.array([_mean(np.where(predicted == other, likeness(maps, theirs), np.nan)) for theirs, other in pairs])


def likeness_false_positives(pairs: np.ndarray, *, side: Side = "below", confidence: float = 0.95) -> np.ndarray:
    """Which unbiased models the rule reports for their likeness when each is audited with all others as references.

    The others' values are their likeness among themselves: an odd model that was left in them would lower its limit.
    `pairs` are the (m, m) likeness of each model to each, without the diagonal; NaN is left out. (m,) bool. Fewer than
    four models are refused: an audit would leave one pair, with no spread.
    """
    if len(pairs) < 4:
        raise BiaslibError(f"false alarms of likeness need at least 4 twins, not {len(pairs)}.")
    apart = np.where(np.eye(len(pairs), dtype=bool), np.nan, pairs)
    reported = []
    for place, own in enumerate(apart):
        others = np.delete(np.delete(apart, place, axis=0), place, axis=1)
        reference = [_mean(row) for row in others]
        reported.append(bool(flagged([_mean(own)], reference, side=side, confidence=confidence)[0]))
    return np.array(reported)


def _mean(values: np.ndarray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


@stored("planted-maps")
def _maps(setting: Setting, evaluation: EvaluationImages) -> Arrays:
    return _explained(setting, evaluation, _WITH_TOOLBOX)


@stored("planted-looks")
def _further_maps(setting: Setting, evaluation: EvaluationImages, plain: int) -> Arrays:
    made = _explained(setting, evaluation, LIBRARY)
    without = replace(evaluation, images=plain, strength=None, seed=evaluation.seed + 1, explained="predicted")
    bare = _explained(setting, without, METHODS | LIBRARY)
    return (
        {name: made[name] for name in LIBRARY}
        | {f"plain: {name}": bare[name] for name in METHODS | LIBRARY}
        | {"plain truth": bare["truth"], "plain answers": bare["explained"]}
    )


def _explained(setting: Setting, evaluation: EvaluationImages, methods: Mapping[str, Method]) -> Arrays:
    """The maps of one model by these methods, and what `maps` has beside them; inside a worker."""
    samples, model = evaluation.samples(setting), load(setting.recipe)
    logits = training.predict(model, samples.images)
    truth = samples.labels[USE_CASES[setting.use_case].world.target].to_numpy(int)
    targets = logits.argmax(axis=1) if evaluation.explained == "predicted" else truth
    pixels = models.to_tensor(samples.images, model=model)
    made = {name: method(model, pixels, targets[:, None])[:, 0].numpy() for name, method in methods.items()}
    return made | {"logits": logits, "truth": truth, "explained": targets}


@stored("planted-scores")
def _scores(setting: Setting, evaluation: EvaluationImages, outline: Outline) -> pd.DataFrame:
    """The rows of one model."""
    made = _maps(setting, evaluation)
    correct = made["logits"].argmax(axis=1) == made["truth"]
    tables = []
    for name, (rows, masks) in regions(setting.use_case, evaluation.samples(setting), outline).items():
        for method in _WITH_TOOLBOX:
            fine = _enlarged(made[method][rows], masks.shape[1:], cells=outline.cells)
            scored = {
                "image": rows, "object": name, "method": method,
                "rma": metrics.relevance_mass_accuracy(fine, masks),
                "rra": metrics.relevance_rank_accuracy(fine, masks),
                "area": masks.mean(axis=(1, 2)), "correct": correct[rows],
            }  # fmt: skip
            tables.append(pd.DataFrame(scored))
    return pd.concat(tables, ignore_index=True)


def _enlarged(coarse: np.ndarray, size: tuple[int, ...], *, cells: bool) -> np.ndarray:
    times = size[0] // coarse.shape[1]
    if not cells or times * coarse.shape[1] != size[0]:
        return metrics.upsample_maps(coarse, *size)
    return coarse.repeat(times, axis=1).repeat(times, axis=2)
