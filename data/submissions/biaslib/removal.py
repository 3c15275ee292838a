"""Scores of a map by what the model answers when the pixels go that the map finds relevant.

Of the first 100 images Grad-CAM is enlarged to the picture, and pixels are taken in its order, the most relevant first;
equal ones in a random order, always the same. The score is of the probability of the answer, yes or no to the target.

* *ROAD* (Rong et al. 2022, ICML): 10, 30 and 50 % of the pixels go (the paper's MoRF). A removed pixel becomes the
  weighted mean of its neighbours, removed or not: 1/6 for the four beside it, 1/12 for the four at its corners, in
  proportion where the border cuts some off. This linear system is solved exactly. Then comes noise of 0.01, in units of
  the network's input, the same for all. The value is the mean fall of the probability. Expected above: a biased model
  decides by one simple sign; once that is gone, so is the answer. Where the cue is the whole background, filling may
  bring it back.
* *Deletion and insertion* (Petsiuk et al. 2018, BMVC): in 16 equal steps the pixels turn grey, which is 0 at the
  network's input; or they come back into a blurred picture (a Gauss kernel of 11 pixels, sigma 5, as in the paper's
  code, though its pictures are larger). The value is the area under the probability, of trapezoids, in [0, 1]. Expected
  below for deletion and above for insertion: a few pixels take a biased model's answer away, and a few bring it back.

All three were made to compare maps and not models. NaN, and never 0: a map whose values are all equal (Grad-CAM may
find no relevance), and all later images.

Public code: grad-cam's ROAD removes every pixel from a percentile on. Where that is 0, all pixels go, the system is
singular and the picture NaN; here never more go than the share says. Its noise has no seed. Quantus' counts changed
answers, and stops at pictures in colour whose maps have one value a pixel. The authors' kernel of insertion folds its
tails back, almost a box, and takes what is beyond the border for grey: a blurred picture has a grey rim. The area of
Quantus (`PixelFlipping`) is not divided by the steps, and lacks the first: the whole picture.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import torch
from scipy.linalg import solveh_banded
from scipy.ndimage import correlate, gaussian_filter

from biaslib import dial, metrics, models, training
from biaslib.dial.entries import Seen

IMAGES: Final = 100
SHARES: Final = (0.1, 0.3, 0.5)
NOISE: Final = 0.01
WEIGHTS: Final = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]]) / 12  # of a pixel's neighbours
_LATER: Final = ((0, 1), (1, -1), (1, 0), (1, 1))  # those that come after it, line by line: rows down, columns right
STEPS: Final = 16
SIGMA, RADIUS = 5, 5  # of the blur, in pixels


@dial.metric(name="ROAD", tier=3, side="above", passes=3 + len(SHARES))
def road(case: Seen) -> np.ndarray:
    """(N,): how far the probability of the answer falls, in the mean over the shares; NaN where undefined."""

    def falls(rows: np.ndarray, pixels: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        gone = [without(pixels, ranks < round(share * ranks[0].size)) for share in SHARES]
        after = [case.score_of(training.predict(case.network, torch.from_numpy(each))) for each in gone]
        fall = case.score[rows] - np.mean(after, axis=0)
        return np.where(case.answer[rows], fall, -fall)

    return _of_each(case, falls)


@dial.metric(name="Deletion AUC", tier=3, side="below", passes=4 + STEPS)
def deletion(case: Seen) -> np.ndarray:
    """(N,): the area while pixels turn grey."""
    return _areas(case, lambda pixels: (pixels, np.zeros_like(pixels)))


@dial.metric(name="Insertion AUC", tier=3, side="above", passes=4 + STEPS)
def insertion(case: Seen) -> np.ndarray:
    """(N,): the area while pixels come back into the blurred picture."""
    return _areas(case, lambda pixels: (blurred(pixels), pixels))


def _areas(case: Seen, ends: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    def areas(rows: np.ndarray, pixels: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        network = case.network
        steps = (training.predict(network, torch.from_numpy(each)) for each in changed(*ends(pixels), ranks))
        under = area(np.stack([case.score_of(logits) for logits in steps], axis=1))
        return np.where(case.answer[rows], under, 1 - under)

    return _of_each(case, areas)


def _of_each(case: Seen, value: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """(N,) what rows, pixels as the network takes them, and ranks give, of those images that have it; else NaN."""
    values, maps = np.full(len(case.truth), np.nan), case.map[:IMAGES]
    rows = np.flatnonzero(maps.max(axis=(1, 2)) > maps.min(axis=(1, 2)))
    if len(rows):
        pixels = models.to_tensor(case.pictures[rows], model=case.network).numpy()
        values[rows] = value(rows, pixels, ranked(metrics.upsample_maps(maps[rows], *pixels.shape[2:])))
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
