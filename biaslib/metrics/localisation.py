"""Relevance mass and rank accuracy: how much of a map lies in a region (Osman et al. 2022)."""

from collections.abc import Callable

import numpy as np
from scipy.ndimage import distance_transform_edt

from biaslib.errors import BiaslibError, refused
from biaslib.metrics._arrays import AnyArray, Array, broadcast_shape, checked_maps, checked_masks, grid, like


def relevance_mass_accuracy(relevance: Array, mask: AnyArray) -> Array:
    r"""The share of a map's mass that lies in a region (Osman et al. 2022; Schaaf et al. 2021, eq. 1).

    $$\mathrm{RMA} = \frac{\sum_{p \in M} R_p}{\sum_p R_p}$$

    A map that is the same everywhere scores the region's share of the image. Maps are (..., H, W), >= 0, on the grid of
    the mask (`upsample_maps` enlarges coarser ones), and masks (..., H, W) bool, True inside the region; others are a
    `BiaslibError`. The share is (...) float64 in [0, 1]; NaN where the map is 0 everywhere or holds a NaN or an
    infinity, and where the region is empty: there is nothing that could be found.

    Example:
        >>> float(relevance_mass_accuracy(np.array([[3.0, 1.0]]), np.array([[True, False]])))
        0.75
    """
    return like(_of_each_pair(_mass, relevance, mask), relevance)


def relevance_rank_accuracy(relevance: Array, mask: AnyArray) -> Array:
    r"""The share of a map's K highest pixels that lie in a region of K pixels (Schaaf et al. 2021, eq. 2).

    $$\mathrm{RRA} = \frac{|\mathrm{top}_K(R) \cap M|}{K}, \qquad K = |M|$$

    Where several pixels share the K-th highest value, which of them belong to the top K is not defined, and a
    rectified map is full of zeros. The score is then its exact expectation when ties are broken at random: with a
    pixels above that value, h of them in the region, and t pixels at it, u of them in the region,

    $$\mathrm{RRA} = \frac{1}{K}\Big(h + (K - a)\frac{u}{t}\Big)$$

    So a map that is the same everywhere scores the region's share of the image, as any order that knows nothing does.

    What is given, returned and raised is as for `relevance_mass_accuracy`: NaN also for a map that is 0 everywhere,
    which ranks nothing, though one that is 1 everywhere has a score.

    Example:
        >>> float(relevance_rank_accuracy(np.array([[3.0, 1.0, 1.0]]), np.array([[True, True, False]])))
        0.75
    """
    return like(_of_each_pair(_rank, relevance, mask), relevance)


def dilate_to_area(mask: Array, *, share: float = 0.5) -> Array:
    """Regions grown on all sides alike, by a share of their area (Schaaf et al. 2021, section 4.2: 50 %).

    A coarse map cannot meet a small object exactly, so the paper extends the small ones. The pixels nearest to the
    region (Euclidean distance) are added until the area is reached; among pixels as near, those nearest to the region's
    centre come first. A region that the border cuts off grows on the sides that are left. Masks (..., H, W) bool give
    masks with (1 + share) times the pixels (rounded), or all there are. An empty region stays empty. A `BiaslibError`
    is raised for a mask that is not bool or has no pixels, and for a negative share.
    """
    fine = checked_masks(mask)
    if not 0 <= share < np.inf:
        raise BiaslibError(f"share must be a finite number >= 0 (0.5 adds half of the area), not {share}.")
    grown = fine.copy()
    for place in np.ndindex(fine.shape[:-2]):
        region = fine[place]
        if region.any():
            wanted = round((1 + share) * np.count_nonzero(region))
            from_centre = np.indices(region.shape) - np.argwhere(region).mean(0)[:, None, None]
            to_centre = (from_centre**2).sum(0)
            nearest = np.lexsort((to_centre.ravel(), distance_transform_edt(~region).ravel()))
            grown[place].flat[nearest[:wanted]] = True
    return like(grown, mask)


def upsample_maps(maps: Array, height: int, width: int) -> Array:
    """Coarse maps enlarged to the size of the image they explain, as class activation maps are for display and scoring.

    Bilinear between the centres of the cells, level beyond the outermost ones (as OpenCV's, Pillow's and the grad-cam
    library's). A map that is >= 0 stays so. Maps (..., h, w) become (..., height, width) float32; float64 for maps of
    float64. A `BiaslibError` is raised for maps that are no numbers, have no cell, or are larger than the image.
    """
    coarse = checked_maps(maps)
    if height < coarse.shape[-2] or width < coarse.shape[-1]:
        raise refused("maps larger than the image", maps=grid(coarse), height=height, width=width)
    import torch  # here and not above, as it takes seconds and no score needs it
    from torch.nn.functional import interpolate

    dtype = np.float64 if coarse.dtype == np.float64 else np.float32
    cells = torch.from_numpy(np.array(coarse, dtype, order="C").reshape(-1, 1, *coarse.shape[-2:]))
    fine = interpolate(cells, size=(height, width), mode="bilinear", align_corners=False)
    return like(fine.numpy().reshape(*coarse.shape[:-2], height, width), maps)


def _mass(values: np.ndarray, region: np.ndarray) -> float:
    shares = np.divide(values, values.max(), dtype=np.float64)  # so that no sum overflows
    # both sums in the same order: a region that holds everything scores exactly 1, and none scores more
    return (shares * region).sum() / shares.sum()


def _rank(values: np.ndarray, region: np.ndarray) -> float:
    size = np.count_nonzero(region)
    place = len(values) - size
    least = np.partition(values, place)[place]  # the K-th highest value
    above, tied = values > least, values == least
    certain = np.count_nonzero(above & region)
    left = size - np.count_nonzero(above)
    return (certain + left * np.count_nonzero(tied & region) / np.count_nonzero(tied)) / size


def _of_each_pair(score: Callable[[np.ndarray, np.ndarray], float], relevance: AnyArray, mask: AnyArray) -> np.ndarray:
    """The score of every map and region, (...), NaN where the map has no finite mass or the region no pixel."""
    maps, regions = checked_maps(relevance), checked_masks(mask)
    if maps.shape[-2:] != regions.shape[-2:]:
        raise refused("masks of other grids than the maps", maps=grid(maps), masks=grid(regions))
    shape = broadcast_shape("the maps and of the masks", maps.shape[:-2], regions.shape[:-2])
    maps = np.broadcast_to(maps, (*shape, *maps.shape[-2:]))
    regions = np.broadcast_to(regions, maps.shape)
    scores = np.full(shape, np.nan)
    # map by map: the pieces stay in the processor's cache, and nothing as large as the maps is made
    for place in np.ndindex(shape):
        values, region = maps[place].ravel(), regions[place].ravel()
        if (values < 0).any():
            raise refused("signed relevance")
        if 0 < values.max() < np.inf and region.any():
            scores[place] = score(values, region)
    return scores
