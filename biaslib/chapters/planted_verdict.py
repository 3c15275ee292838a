"""Whether a map gives a planted bias away: likeness to unbiased twins, and further methods."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from biaslib import attribution, metrics
from biaslib.chapters.planted_maps import METHODS, Evaluation, Method, explained
from biaslib.chapters.planted_models import Setting
from biaslib.errors import BiaslibError
from biaslib.statistics.detection import Side, beyond
from biaslib.store import parallel

Arrays = dict[str, np.ndarray]

# methods beyond the paper's, by their names in the grad-cam library
LIBRARY: Final[dict[str, Method]] = {
    "LayerCAM": attribution.library_cam("LayerCAM"),
    "Grad-CAM++": attribution.library_cam("GradCAMPlusPlus"),
    "EigenCAM": attribution.library_cam("EigenCAM"),
}


def likeness(maps: np.ndarray, others: np.ndarray, *, cells: int = 8) -> np.ndarray:
    """Attention-IoU of two models' maps of the same images, on a grid that every method can be brought to.

    Args:
        maps: (N, h, w), >= 0.
        others: (N, h, w), those of another model.
        cells: along a side of the grid; finer maps are averaged down to it.

    Returns:
        (N,) in [0, 1]; NaN where one of the maps is 0 everywhere.
    """
    return np.asarray(metrics.attention_iou(pooled(maps, cells), pooled(others, cells)))


def pooled(maps: np.ndarray, cells: int) -> np.ndarray:
    """Maps (N, h, w) averaged down to a grid of (N, cells, cells), float32; a cell need not be whole pixels."""
    return adaptive_avg_pool2d(torch.from_numpy(np.ascontiguousarray(maps, dtype=np.float32)), cells).numpy()


def twin_likeness(
    maps: np.ndarray, answers: np.ndarray, twin_maps: Sequence[np.ndarray], twin_answers: Sequence[np.ndarray]
) -> np.ndarray:
    """Mean likeness of one model's maps to each twin's, over the images to which both give the same answer.

    A map explains an answer: those of two different answers may differ with nothing amiss.

    Args:
        maps: (N, h, w), >= 0.
        answers: (N,) the class that each of them explains.
        twin_maps: for each of m twins, (N, h, w) maps of the same images.
        twin_answers: for each of m twins, (N,).

    Returns:
        (m,) in [0, 1]; NaN where a twin gives no image the same answer.
    """
    pairs = zip(twin_maps, twin_answers, strict=True)
    return np.array([_mean(np.where(answers == said, likeness(maps, theirs), np.nan)) for theirs, said in pairs])


def likeness_alarms(pairs: np.ndarray, *, side: Side = "below", confidence: float = 0.95) -> np.ndarray:
    """Which unbiased models the rule reports for their likeness when each is audited with all the others as its twins.

    The others' values are their likeness among themselves: an odd model that was left in them would lower its limit.

    Args:
        pairs: (m, m) likeness of each twin to each; the diagonal is not read. NaN is left out.
        side: where a biased model is expected.
        confidence: of `limit`.

    Returns:
        (m,) bool.

    Raises:
        BiaslibError: for fewer than four twins, of which an audit leaves one pair, with no spread.
    """
    if len(pairs) < 4:
        raise BiaslibError(f"false alarms of likeness need at least 4 twins, not {len(pairs)}.")
    apart = np.where(np.eye(len(pairs), dtype=bool), np.nan, pairs)
    found = []
    for place, own in enumerate(apart):
        others = np.delete(np.delete(apart, place, axis=0), place, axis=1)
        calm = [_mean(row) for row in others]
        found.append(bool(beyond([_mean(own)], calm, side=side, confidence=confidence)[0]))
    return np.array(found)


def looks(
    settings: Sequence[Setting], evaluation: Evaluation, *, plain: int = 16, scheduler: str | None = None
) -> list[Arrays]:
    """The maps that the paper does not have: other methods, and all methods on images without the cue.

    Args:
        settings: of the models, which are trained where the store lacks them.
        evaluation: the images that the paper's methods have maps of.
        plain: how many images without the cue.
        scheduler: see `parallel.workers`.

    Returns:
        For each model, (N, h, w) maps of the evaluation's images under each name of `LIBRARY`; maps of images without
        the cue under each name of both, with "plain: " before it; and `plain truth` and `plain answers`, (plain,)
        classes.
    """
    keys = [(setting, evaluation, plain) for setting in settings]
    return parallel.stored("planted-looks", keys, run_looks, scheduler=scheduler)


def run_looks(key: tuple[Setting, Evaluation, int]) -> Arrays:
    """The maps of one model; on one thread."""
    found: Arrays = parallel.single_threaded(_looks, *key)
    return found


def mass_and_rank(maps: np.ndarray, rows: np.ndarray, masks: np.ndarray, correct: np.ndarray) -> tuple[float, float]:
    """Mean relevance mass and rank accuracy of one model's maps, over images it is right about.

    Args:
        maps: (N, h, w) of all images.
        rows: (n,) the images that have the object.
        masks: (n, H, W) where it is.
        correct: (N,) whether the model is right.

    Returns:
        Both means; NaN where no image is left.
    """
    right = correct[rows]
    if not right.any():
        return float("nan"), float("nan")
    fine = metrics.upsample_maps(maps[rows[right]], *masks.shape[1:])
    mass = metrics.relevance_mass_accuracy(fine, masks[right])
    rank = metrics.relevance_rank_accuracy(fine, masks[right])
    return _mean(mass), _mean(rank)


def _mean(values: np.ndarray) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _looks(setting: Setting, evaluation: Evaluation, plain: int) -> Arrays:
    found = explained(setting, evaluation, LIBRARY)
    without = replace(evaluation, images=plain, strength=None, seed=evaluation.seed + 1, explained="predicted")
    bare = explained(setting, without, METHODS | LIBRARY)
    return (
        {name: found[name] for name in LIBRARY}
        | {f"plain: {name}": bare[name] for name in METHODS | LIBRARY}
        | {"plain truth": bare["truth"], "plain answers": bare["explained"]}
    )
