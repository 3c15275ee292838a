"""How far a score falls as the most relevant parts of an image are destroyed (Samek et al. 2017)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from biaslib.errors import BiaslibError, check_number, refused
from biaslib.metrics._arrays import AnyArray, Array, like, to_numpy


def perturbation_curves(
    predict: Callable[[Array], Any],
    images: Array,
    relevance: AnyArray | None,
    targets: Any,
    *,
    steps: int = 100,
    region: int = 9,
    repeats: int = 1,
    value_range: tuple[float, float] | None = None,
    seed: int = 0,
    batch: int | None = None,
) -> Array:
    r"""The score of the explained class while an image is destroyed, its most relevant regions first.

    $$c_p = f(x'^{(p)}), \qquad x'^{(0)} = x, \qquad
      x'^{(p)} = x'^{(p-1)} \text{ with noise for the region of the } p\text{-th largest relevance}$$

    (Samek et al. 2017.) What the papers leave open is settled so: the regions are square tiles that do not overlap,
    counted from the upper left, smaller at the lower and right edge where the size is no multiple of `region`; a
    region's relevance is the sum over its pixels; ties are broken at random; every value of every pixel is drawn anew
    from a uniform distribution. An image has the same noise whatever its relevance is, so that two of its curves differ
    by the order alone. The curves are (N, steps + 1) float64: the score after 0, 1, ..., `steps` regions; NaN where the
    relevance is not finite. A `BiaslibError` is raised for images, relevance, targets or scores of a wrong shape or
    type, more steps than there are regions, a region larger than the image, or a range that the images cannot hold.

    Args:
        predict: images (M, H, W, 3) of the type and kind that `images` has -> scores (M, T), NumPy or torch. The papers
            take probabilities; logits work too.
        images: (N, H, W, 3), uint8 or float; may be a memory map.
        relevance: (N, H, W), larger is more relevant, signed or not; `upsample_maps` enlarges coarser maps. None
            destroys the regions in random order, the baseline for every other order; so does a map without contrast.
        targets: the index of the explained score of every image, (N,), or one for all.
        steps: how many regions are destroyed, P in the papers.
        region: height and width of a region in pixels.
        repeats: how many times the noise and the order of ties are drawn; the curve is the mean.
        value_range: smallest and largest value of the noise; None is 0 to 255 for uint8, and for floats those of all
            images. (0, 0) paints black.
        seed: of the noise and the order of ties.
        batch: how many images go through `predict` at once; None: as many as have 200,000 pixels together.
    """
    pixels = _checked_images(images)
    n, height, width = pixels.shape[:3]
    check_number("region, in pixels of the images,", region, 1, min(height, width), whole=True)
    tops, lefts = np.arange(0, height, region), np.arange(0, width, region)
    available = len(tops) * len(lefts)
    if not 1 <= steps <= available:
        raise refused("steps beyond the regions", height=height, width=width, n=available, region=region, steps=steps)
    if batch is None:
        from biaslib.models import cached_batch  # here and not above, as it imports torch, which takes seconds

        batch = cached_batch(height, width)
    check_number("repeats", repeats, 1, whole=True)
    check_number("batch", batch, 1, whole=True)
    sums = _region_sums(relevance, pixels.shape[:3], tops, lefts)
    defined = np.isfinite(sums).all(1)
    chosen = _checked_targets(targets, n)
    spread = _checked_range(value_range, pixels)
    tiles = [np.s_[top : top + region, left : left + region] for top in tops for left in lefts]

    curves = np.where(defined[:, None], np.zeros(steps + 1), np.nan)
    everything = chain.from_iterable(
        _destroyed(index, pixels[index], sums[index], tiles, steps, repeats, spread, seed)
        for index in map(int, np.flatnonzero(defined))
    )
    while some := list(islice(everything, batch)):
        rows, columns, weights, pictures = (np.array(part) for part in zip(*some, strict=True))
        scores = _checked_scores(to_numpy(predict(like(pictures, images))), len(some), chosen)
        np.add.at(curves, (rows, columns), weights * scores[np.arange(len(some)), chosen[rows]])
    return like(curves, images)


def _destroyed(
    index: int, image: np.ndarray, sums: np.ndarray, tiles: Sequence[tuple[slice, slice]], steps: int, repeats: int,
    value_range: tuple[float, float], seed: int,
) -> Iterator[tuple[int, int, float, np.ndarray]]:  # fmt: skip
    """An image (H, W, 3) after 0, 1, ... of its tiles: its index, the step, its weight in the curve, the picture."""
    yield index, 0, 1.0, image
    for repeat in range(repeats):
        # not default_rng([0, 0, 0]): that is the stream of default_rng(0), which may have drawn the images
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index, repeat)))
        low, high = value_range
        if image.dtype == np.uint8:
            noise = rng.integers(int(low), int(high), image.shape, np.uint8, endpoint=True)
        else:
            noise = rng.uniform(low, high, image.shape).astype(image.dtype)
        order = np.lexsort((rng.random(len(tiles)), -sums))[:steps]
        left = image.copy()
        for step, place in enumerate(order, 1):
            left[tiles[place]] = noise[tiles[place]]
            yield index, step, 1 / repeats, left.copy()


def aopc(curves: Array) -> Array:
    r"""The area over the perturbation curve, a mean over its steps (Samek et al. 2017; Schaaf et al. 2021, eq. 3).

    $$\mathrm{AOPC} = \frac{1}{1 + P} \sum_{p=0}^{P} (c_0 - c_p)$$

    What an order must beat is the value of the same images in random order. Curves (..., P + 1) with P >= 1 steps, else
    a `BiaslibError`, give (...) in the scores' unit, within [-1, 1] for probabilities; NaN where a curve has one.

    Example:
        >>> float(aopc(np.array([1.0, 0.5, 0.0])))
        0.5
    """
    scores = to_numpy(curves)
    if scores.ndim < 1 or scores.shape[-1] < 2 or scores.dtype.kind not in "fiu":
        kind = f"{scores.dtype} of shape {scores.shape}"
        raise BiaslibError(f"curves must be numbers (..., steps + 1) with at least one step, not {kind}.")
    return like((scores[..., :1] - scores).mean(-1, dtype=np.float64), curves)


def _region_sums(relevance: AnyArray | None, shape: tuple[int, ...], tops: np.ndarray, lefts: np.ndarray) -> np.ndarray:
    """The relevance of every region, (N, rows x columns)."""
    if relevance is None:
        return np.zeros((shape[0], len(tops) * len(lefts)))
    maps = to_numpy(relevance)
    if maps.shape != shape or maps.dtype.kind not in "fiub":
        raise refused("relevance of another shape", wanted=shape, dtype=maps.dtype, shape=maps.shape)
    # map by map: as float64 the maps of a test set would fill the memory
    rows = (np.add.reduceat(image.astype(np.float64), tops, axis=0) for image in maps)
    return np.stack([np.add.reduceat(sums, lefts, axis=1).ravel() for sums in rows])


def _checked_images(images: AnyArray) -> np.ndarray:
    pixels = to_numpy(images)
    numbers = pixels.dtype == np.uint8 or pixels.dtype.kind == "f"
    if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.size == 0 or not numbers:
        raise refused("images of another type", dtype=pixels.dtype, shape=pixels.shape)
    return pixels


def _checked_targets(targets: Any, n: int) -> np.ndarray:
    chosen = to_numpy(targets)
    if chosen.dtype.kind not in "iu" or chosen.shape not in ((), (n,)):
        kind = f"{chosen.dtype} of shape {chosen.shape}"
        raise BiaslibError(f"targets must be whole numbers, one for each of the {n} images, not {kind}.")
    return np.broadcast_to(chosen, (n,))


def _checked_range(value_range: tuple[float, float] | None, pixels: np.ndarray) -> tuple[float, float]:
    whole = pixels.dtype == np.uint8
    if value_range is None:
        return (0, 255) if whole else (float(pixels.min()), float(pixels.max()))
    low, high = value_range
    if not (low <= high and np.isfinite([low, high]).all()) or (whole and not 0 <= low <= high <= 255):
        where = " between 0 and 255" if whole else ""
        raise BiaslibError(f"value_range must be a smallest and a largest value{where}, not ({low}, {high}).")
    return low, high


def _checked_scores(scores: np.ndarray, n: int, targets: np.ndarray) -> np.ndarray:
    if scores.ndim != 2 or len(scores) != n:
        raise refused("scores without their classes", n=n, shape=scores.shape)
    if targets.min() < 0 or targets.max() >= scores.shape[1]:
        wrong = targets.min() if targets.min() < 0 else targets.max()
        raise BiaslibError(f"There is no target {wrong}: predict gives {scores.shape[1]} scores, counted from 0.")
    return scores
