"""The pointing game on the cue: whether the most relevant place of a model's map lies on the cue.

Paper: Zhang et al. 2018, "Top-Down Neural Attention by Excitation Backprop" (IJCV). Grad-CAM of the answer is enlarged
to the picture. A hit is a maximum in the mask of the cue, or near it. The paper allows 15 pixels in pictures of about
500; here that is 3 % of the longer side, 2 pixels of 64. An image counts 1 for a hit and 0 for a miss. Where several
pixels are the maximum, as at a border, the value is the share of them that hit: what a draw among them would give.

Undefined, so NaN: an image without a cue, and a map whose values are all equal, which points nowhere.
Expected before measuring: "above". A biased model looks at the cue. Where the cue is the whole background, as in birds,
unbiased models hit it often too, by chance: the tolerance and a coarse map make the mask larger still.
Public code: quantus has no tolerance. One hit among several maxima is a hit there, so that a map without any relevance
always hits. It means an empty mask to be NaN, but writes that into an array of truth values: it becomes a hit.
"""

from typing import Final

import numpy as np
from scipy.ndimage import binary_dilation

from biaslib import dial, metrics
from biaslib.dial.entries import Seen

TOLERANCE: Final = 15 / 500  # of the longer side


@dial.metric(name="Pointing game on the cue", tier=3, side="above", passes=3)
def pointing(case: Seen) -> np.ndarray:
    """(N,): 1 where the map points at the cue, 0 where it does not; NaN where undefined."""
    masks = case.mask("cue")
    return hits(metrics.upsample_maps(case.map, *masks.shape[1:]), masks, round(TOLERANCE * max(masks.shape[1:])))


def hits(maps: np.ndarray, masks: np.ndarray, tolerance: int) -> np.ndarray:
    """(N,) of maps and masks (N, H, W): the share of a map's maxima that are at most so many pixels from the mask."""
    largest = maps.max(axis=(1, 2), keepdims=True)
    down, right = np.mgrid[-tolerance : tolerance + 1, -tolerance : tolerance + 1]
    near = binary_dilation(masks, (down**2 + right**2 <= tolerance**2)[None])
    share = np.mean(near, axis=(1, 2), where=maps == largest)
    return np.where(masks.any(axis=(1, 2)) & (maps.min(axis=(1, 2)) < largest[:, 0, 0]), share, np.nan)
