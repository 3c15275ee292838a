"""Attention-IoU: how far two maps share their mass (Serianni et al. 2025)."""

from typing import Literal

import numpy as np

from biaslib.errors import BiaslibError, check_known, refused
from biaslib.metrics._arrays import AnyArray, Array, broadcast_shape, checked_maps, checked_masks, grid, like, to_numpy


def attention_iou(a: Array, b: Array) -> Array:
    r"""Generalised intersection over union of two non-negative maps (Serianni et al. 2025, section 2).

    With both maps divided by their sums, $\hat a$ and $\hat b$, the paper's form is

    $$\frac{\langle\hat a, \hat b\rangle}{\lVert(\hat a + \hat b)/2\rVert^2}
      = \frac{4\langle\hat a, \hat b\rangle}
             {\lVert\hat a\rVert^2 + \lVert\hat b\rVert^2 + 2\langle\hat a, \hat b\rangle}$$

    so that a pair costs one inner product and all pairs of many maps need no array larger than the answer:
    `attention_iou(a[:, :, None], a[:, None, :])` for maps (N, A, h, w) gives (N, A, A). The score does not change when
    a map is multiplied by a positive number, when both are enlarged by repeating their pixels, or change places.

    `a` and `b` are maps (..., h, w) on the same grid, >= 0; others are a `BiaslibError`. The score is (...) float64 in
    [0, 1]: 0 where no place has mass in both, 1 for identical maps; NaN where a map is 0 everywhere or not finite.

    Example:
        >>> float(attention_iou(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]])))
        0.8
    """
    first, second = _shares(a, "first"), _shares(b, "second")
    if np.shape(a)[-2:] != np.shape(b)[-2:]:
        raise refused("maps on different grids", a=grid(a), b=grid(b))
    broadcast_shape("the maps", first.shape[:-1], second.shape[:-1])
    # einsum, not matmul: all inner products are summed in the same order, so identical maps score exactly 1
    shared = np.einsum("...k,...k->...", first, second)
    own = np.einsum("...k,...k->...", first, first) + np.einsum("...k,...k->...", second, second)
    # rounding may overstep the bound by one unit in the last place
    return like(np.minimum(4 * shared / (own + 2 * shared), 1.0), a)


def mask_score(maps: Array, masks: AnyArray, *, absent: Literal["nan", "zero"] = "nan") -> Array:
    """Attention-IoU of maps with a region's masks: is the attention where the region is?

    The masks are brought to the maps' grid by `resize_masks`, not the maps to the masks' (Serianni et al. 2025, section
    2, "Bias Scores"). Maps are (N, h, w), >= 0, and masks (N, H, W) bool, True inside the region. The scores are (N,)
    float64 in [0, 1]; NaN where the map is 0 everywhere. Where the region is not in the image, `absent` says: "nan"
    (there is nothing to attend to), or "zero", as in the authors' released code, where such images stay in the mean and
    make rare regions score low; another value is a `BiaslibError`. Else everything is as for `attention_iou`.
    """
    check_known("absent", absent, ("nan", "zero"))
    if np.ndim(maps) < 2:
        raise BiaslibError(f"maps must be (N, h, w), not {tuple(np.shape(maps))}.")
    fine = to_numpy(masks)
    height, width = np.shape(maps)[-2:]
    score = attention_iou(to_numpy(maps), resize_masks(fine, (height, width)))
    if absent == "zero":
        score = np.where(fine.any((-2, -1)), score, 0.0)
    return like(score, maps)


def resize_masks(masks: Array, shape: tuple[int, int]) -> Array:
    """The share of each coarser pixel that a region covers: bilinear with antialiasing, no threshold.

    Masks (..., H, W) bool, others are a `BiaslibError`, become (..., h, w) float32 in [0, 1]. No region vanishes.
    """
    fine = checked_masks(masks)
    if len(tuple(shape)) != 2 or min(shape) < 1:
        raise BiaslibError(f"The grid must have two sides of at least one cell, not {tuple(shape)}.")
    import torch  # here and not above, as it takes seconds and no other score needs it
    from torch.nn.functional import interpolate

    flat = fine.reshape(-1, 1, *fine.shape[-2:])
    coarse = np.empty((len(flat), *shape), np.float32)
    # in pieces: as floats the masks of a whole test set would fill the memory
    for start in range(0, len(flat), 256):
        piece = torch.tensor(flat[start : start + 256], dtype=torch.float32)
        resized = interpolate(piece, size=tuple(shape), mode="bilinear", antialias=True, align_corners=False)
        coarse[start : start + 256] = resized[:, 0].numpy()
    return like(coarse.reshape(*fine.shape[:-2], *shape), masks)


def _shares(maps: AnyArray, which: str) -> np.ndarray:
    """Each map as one row of shares of its mass, (..., h * w) float64, NaN where it has none."""
    values = checked_maps(maps, f"{which} maps")
    rows = np.array(values.reshape(*values.shape[:-2], -1), np.float64, order="C")  # a copy: it is divided in place
    if (rows < 0).any():
        raise BiaslibError(f"The {which} maps hold negative values: attention is >= 0, so pool or clip them first.")
    with np.errstate(invalid="ignore"):  # 0 / 0 is the answer that is wanted
        rows /= rows.max(axis=-1, keepdims=True)  # so that no sum overflows
        rows /= rows.sum(axis=-1, keepdims=True)
    return rows
