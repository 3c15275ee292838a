"""ROAD: how far the probability of a model's answer falls when the most relevant pixels are removed.

Paper: Rong et al. 2022, "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML). Of the first
100 images the 10, 30 and 50 % of the pixels go that Grad-CAM finds most relevant (the paper's order MoRF). A removed
pixel becomes the weighted mean of its neighbours, removed or not: 1/6 for the four beside it, 1/12 for the four at its
corners, in proportion where the border cuts some off. This linear system is solved exactly. Then comes noise of 0.01,
in units of the network's input, the same for all. The value is the mean fall of the probability of the answer, yes or
no to the target.

Undefined, so NaN and never 0: a map whose values are all equal (Grad-CAM may find no relevance), and all later images.
Expected before measuring: "above". A biased model decides by one simple sign; once that is gone, so is the answer.
Where the cue is the whole background, filling may bring it back. ROAD was made to compare maps and not models.
Public code: grad-cam removes every pixel from a percentile on. Where that is 0, all pixels go, and its system is
singular: the picture becomes NaN, or grey without a word. Here equal pixels are ordered at random, with a fixed seed,
and no more go than the share says. The noise of grad-cam has no seed. Quantus counts changed answers, and stops at a
picture in colour whose map has one value a pixel.
"""

from typing import Final

import numpy as np
import torch
from scipy.linalg import solveh_banded
from scipy.ndimage import correlate

from biaslib import dial, metrics, models, training
from biaslib.dial.entries import Seen

IMAGES: Final = 100
SHARES: Final = (0.1, 0.3, 0.5)
NOISE: Final = 0.01
WEIGHTS: Final = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]]) / 12  # of a pixel's neighbours
_LATER: Final = ((0, 1), (1, -1), (1, 0), (1, 1))  # those that come after it, line by line: rows down, columns right


@dial.metric(name="ROAD", tier=3, side="above", passes=3 + len(SHARES))
def road(case: Seen) -> np.ndarray:
    """(N,): how far the probability of the answer falls, in the mean over the shares; NaN where undefined."""
    values, maps, network = np.full(len(case.truth), np.nan), case.map[:IMAGES], case.network
    rows = np.flatnonzero(maps.max(axis=(1, 2)) > maps.min(axis=(1, 2)))
    if len(rows):
        pixels = models.to_tensor(case.pictures[rows], model=network).numpy()
        ranks = ranked(metrics.upsample_maps(maps[rows], *pixels.shape[2:]))
        gone = [without(pixels, ranks < round(share * ranks[0].size)) for share in SHARES]
        after = [case.score_of(training.predict(network, torch.from_numpy(each))) for each in gone]
        fall = case.score[rows] - np.mean(after, axis=0)
        values[rows] = np.where(case.answer[rows], fall, -fall)
    return values


def ranked(relevance: np.ndarray) -> np.ndarray:
    """(N, H, W): 0 for the most relevant pixel of a map, and so on; equal ones in a random order, always the same."""
    flat = relevance.reshape(len(relevance), -1)
    drawn = np.random.default_rng(0).permutation(flat.shape[1])
    order = drawn[np.argsort(-flat[:, drawn], axis=1, kind="stable")]
    return np.argsort(order, axis=1).reshape(relevance.shape)


def without(pixels: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Pictures (N, C, H, W) whose pixels in the masks (N, H, W) are filled, and noisy."""
    noise = NOISE * np.random.default_rng(0).standard_normal(pixels.shape[1:])
    made = [filled(one, mask) + noise * mask for one, mask in zip(pixels, masks, strict=True)]
    return np.stack(made).astype(pixels.dtype)


def filled(pixels: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(C, H, W), each pixel in the mask (H, W) the mean of its neighbours; at least one pixel must not be in it."""
    (height, width), number = mask.shape, np.cumsum(mask).reshape(mask.shape) - 1
    band = np.zeros((width + 2, mask.sum()))  # row k: the weight between each removed pixel and the k-th after it
    band[0] = correlate(np.ones(mask.shape), WEIGHTS, mode="constant")[mask]
    for down, right in _LATER:
        there = np.s_[1 + down : 1 + down + height, 1 + right : 1 + right + width]
        both = mask & np.pad(mask, 1)[there]
        band[(np.pad(number, 1)[there] - number)[both], number[both]] = -WEIGHTS[1 + down, 1 + right]
    around = correlate(np.where(mask, 0.0, pixels), WEIGHTS[None], mode="constant")[:, mask]
    result = pixels.astype(float)
    result[:, mask] = solveh_banded(band[: np.flatnonzero(band.any(axis=1)).max() + 1], around.T, lower=True).T
    return result
