"""How much of what models with a planted bias look at lies on what; through the store."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslib import metrics
from biaslib.chapters.planted_maps import ALL_METHODS, Evaluation, maps, run_maps
from biaslib.chapters.planted_models import USE_CASES, Setting
from biaslib.datasets import fruits360, registry
from biaslib.samples import Samples
from biaslib.store import parallel
from biaslib.worlds.photos.regions import boxes_of_masks, masks_of_boxes


@dataclass(frozen=True, kw_only=True)
class Outline:
    """Where an object is taken to be.

    Attributes:
        boxes: whether boxes around the regions are measured on; None: as in the paper, boxes for cats, dogs and balls,
            outlines for fruits.
        extension: by what share of their area the small objects (balls, fruits) are extended.
        cells: whether class activation maps are enlarged as the squares they are made of, not bilinearly.
    """

    boxes: bool | None = None
    extension: float = 0.5
    cells: bool = False


def scores(
    settings: Sequence[Setting],
    evaluation: Evaluation,
    outline: Outline | None = None,
    *,
    scheduler: str | None = None,
) -> pd.DataFrame:
    """Relevance mass and rank accuracy of every model, image, object and method.

    Returns:
        One row each, with `model` (its place among the settings), `image`, `object` (of `UseCase.objects`; an image
        has those of its own class), `method`, `rma`, `rra` (NaN for a map that is 0 everywhere), `area` (the share of
        the image that the object takes, which is what a map that knows nothing scores) and `correct` (whether the
        model is right about the image).
    """
    maps(settings, evaluation, scheduler=scheduler)
    keys = [(setting, evaluation, outline or Outline()) for setting in settings]
    found = parallel.stored("planted-scores", keys, run_scores, scheduler=scheduler)
    return pd.concat([table.assign(model=place) for place, table in enumerate(found)], ignore_index=True)


def run_scores(key: tuple[Setting, Evaluation, Outline]) -> pd.DataFrame:
    """The rows of one model."""
    setting, evaluation, outline = key
    found = parallel.stored("planted-maps", [(setting, evaluation)], run_maps)[0]
    correct = found["logits"].argmax(axis=1) == found["truth"]
    tables = []
    for name, (rows, masks) in regions(setting.use_case, evaluation.samples(setting), outline).items():
        for method in ALL_METHODS:
            fine = _enlarged(found[method][rows], masks.shape[1:], cells=outline.cells)
            tables.append(
                pd.DataFrame(
                    {
                        "image": rows,
                        "object": name,
                        "method": method,
                        "rma": metrics.relevance_mass_accuracy(fine, masks),
                        "rra": metrics.relevance_rank_accuracy(fine, masks),
                        "area": masks.mean(axis=(1, 2)),
                        "correct": correct[rows],
                    }
                )
            )
    return pd.concat(tables, ignore_index=True)


def regions(use_case: str, samples: Samples, outline: Outline) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each object the images (n,) that have it, and where in them it is taken to be, (n, H, W) bool."""
    case = USE_CASES[use_case]
    truth = samples.labels[case.world.target].to_numpy(int)
    found = {}
    for name, (region, number) in case.objects.items():
        every = np.asarray(samples.masks[region])
        rows = np.flatnonzero((truth == number) & every.any(axis=(1, 2)))
        masks = every[rows]
        if case.boxed if outline.boxes is None else outline.boxes:
            masks = masks_of_boxes(boxes_of_masks(masks), masks.shape[1])
        if region in case.small:
            masks = metrics.dilate_to_area(masks, share=outline.extension)
        found[name] = (rows, masks)
    return found


def _enlarged(coarse: np.ndarray, size: tuple[int, ...], *, cells: bool) -> np.ndarray:
    times = size[0] // coarse.shape[1]
    if not cells or times * coarse.shape[1] != size[0]:
        return metrics.upsample_maps(coarse, *size)
    return coarse.repeat(times, axis=1).repeat(times, axis=2)


def stand_ins(source: str) -> dict[str, str]:
    """Fruits that the photos do not show, with the words for what is there in their place.

    Args:
        source: of the images, "generated" or "photos".

    Returns:
        Such as {"Corn": "Lemon (for corn)"}; empty for generated images and for a copy that has all five fruits.

    Raises:
        BiaslibError: where photos are asked for, and a fruit and what could stand in for it are missing.
    """
    if source == "generated":
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", registry.DatasetWarning)  # loading the photos gives it
        there = fruits360.kinds(registry.root())
    missing = {kind: word for kind, word in there.items() if word != fruits360.KINDS[kind][0]}
    return {kind.capitalize(): f"{word} (for {kind})" for kind, word in missing.items()}
