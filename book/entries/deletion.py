"""Deletion and insertion: the area under the probability of a model's answer while pixels go, or come back.

Paper: Petsiuk et al. 2018, "RISE: Randomized Input Sampling for Explanation of Black-box Models" (BMVC). Of the first
100 images, the pixels are taken in the order of Grad-CAM, the most relevant first, in 16 equal steps. Deletion: they
turn grey, which is 0 at the network's input. Insertion: they come back into a blurred picture (a Gauss kernel of 11
pixels, sigma 5, as in the paper's code, though its pictures are larger). The area is that of the trapezoids, in [0, 1].
The answer is yes or no to the target.

Undefined, so NaN: a map whose values are all equal (Grad-CAM may find no relevance), and all later images.
Expected before measuring: deletion "below", insertion "above". A biased model decides by one simple sign: a few pixels
take its answer away, and a few bring it back. Where the cue is the whole background, this may well be wrong.
Public code: the authors' kernel folds its tails back, almost a box, and takes what is beyond the border for grey, so
that a blurred picture has a grey rim. Equal pixels go as the sort leaves them; here they go in a random order with a
fixed seed. The area of quantus (`PixelFlipping`) is not divided by the steps, and lacks the first: the whole picture.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import torch
from scipy.ndimage import gaussian_filter

from biaslib import dial, metrics, models, training
from biaslib.dial.entries import Seen

IMAGES: Final = 100
STEPS: Final = 16
SIGMA, RADIUS = 5, 5  # of the blur, in pixels


@dial.metric(name="Deletion AUC", tier=3, side="below", passes=4 + STEPS)
def deletion(case: Seen) -> np.ndarray:
    """(N,): the area while pixels turn grey."""
    return _areas(case, lambda pixels: (pixels, np.zeros_like(pixels)))


@dial.metric(name="Insertion AUC", tier=3, side="above", passes=4 + STEPS)
def insertion(case: Seen) -> np.ndarray:
    """(N,): the area while pixels come back into the blurred picture."""
    return _areas(case, lambda pixels: (blurred(pixels), pixels))


def _areas(case: Seen, ends: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    values, maps, network = np.full(len(case.truth), np.nan), case.map[:IMAGES], case.network
    rows = np.flatnonzero(maps.max(axis=(1, 2)) > maps.min(axis=(1, 2)))
    if len(rows):
        pixels = models.to_tensor(case.pictures[rows], model=network).numpy()
        ranks = ranked(metrics.upsample_maps(maps[rows], *pixels.shape[2:]))
        steps = (training.predict(network, torch.from_numpy(each)) for each in changed(*ends(pixels), ranks))
        under = area(np.stack([case.score_of(logits) for logits in steps], axis=1))
        values[rows] = np.where(case.answer[rows], under, 1 - under)
    return values


def ranked(relevance: np.ndarray) -> np.ndarray:
    """(N, H, W): 0 for the most relevant pixel of a map, and so on; equal ones in a random order, always the same."""
    flat = relevance.reshape(len(relevance), -1)
    drawn = np.random.default_rng(0).permutation(flat.shape[1])
    order = drawn[np.argsort(-flat[:, drawn], axis=1, kind="stable")]
    return np.argsort(order, axis=1).reshape(relevance.shape)


def changed(first: np.ndarray, last: np.ndarray, ranks: np.ndarray, steps: int = STEPS) -> Iterator[np.ndarray]:
    """Pictures (N, C, H, W) after 0, 1, ..., all steps: `first`, with ever more of `last`, by the ranks (N, H, W)."""
    for step in range(steps + 1):
        yield np.where(ranks[:, None] < round(step / steps * ranks[0].size), last, first)


def blurred(pixels: np.ndarray) -> np.ndarray:
    """Pictures (N, C, H, W); what is beyond the border is as the border is."""
    return gaussian_filter(pixels, SIGMA, radius=RADIUS, axes=(2, 3), mode="nearest")


def area(curves: np.ndarray) -> np.ndarray:
    """(N,): under curves (N, steps + 1), in their unit."""
    return (curves[:, 1:] + curves[:, :-1]).mean(axis=1) / 2
