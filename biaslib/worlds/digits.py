"""Real handwritten digits with white corners: balanced one by one, skewed in pairs."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage

from biaslib.errors import BiaslibError, check_known, check_number, refused
from biaslib.samples import Samples
from biaslib.worlds.base import CHOICE, Factor, World, balanced_bool, check_draw

Split = Literal["train", "test"]
CORNERS = ("top_left", "bottom_left", "top_right")
_CLASSES = 10
# As in MNIST: a digit fills the middle 20 of 28 pixels.
_BOX, _FRAME = 20, 28
_MARGIN = (_FRAME - _BOX) // 2
# Corners of four images in turn: each corner is white in two of them, the left ones match or do not.
_MATCHED = np.array([[1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1]], bool)
_UNMATCHED = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]], bool)


@dataclass(frozen=True)
class Scans:
    """Handwritten digits, white on black."""

    images: np.ndarray  #: (N, H, W) uint8
    digits: np.ndarray  #: (N,) 0 to 9
    train: np.ndarray  #: numbers of the scans to draw training images from
    test: np.ndarray  #: numbers of those for testing; none is in both


class Digits(World):
    """Real digits in two groups of five classes (target), with three corners that are white or not (attributes).

    After Zhao, Andrews and Xiang 2023, section 4. Each corner alone is white in half of the images of either group,
    whatever the strength s. But in group 1 the two left corners match (both white or both black) in a share
    (1 + s) / 2 of the images, and in group 0 in the share (1 - s) / 2, so that of the images with both left corners
    white a share (1 + s) / 2 is of group 1. The right corner is independent of everything. The paper's probabilities
    are lost in its text; this is the simplest table with its properties.

    Columns: `group` (bool), `digit` (0-9), `scan` (number of the original), `top_left`, `bottom_left`, `top_right` (0
    black, 1 white), `blur` (deviation of a Gaussian over the digit, in pixels of 28; the corners stay sharp).

    The cue is `bottom_left`: alone it says nothing about the group, beside `top_left` it does.

    `assignment` says which random five of the ten classes are group 1; `corner` is the side of a corner in pixels of a
    28-pixel image (the paper's is one pixel); `scans` are the originals to use, None for scikit-learn's 1,797 of 8 x 8
    pixels. A negative assignment and a corner that would touch the digit are a `BiaslibError`.
    """

    name = "digits"
    target = "group"
    cue = "bottom_left"
    attributes: tuple[str, ...] = ("group", *CORNERS)
    regions: tuple[str, ...] = ("digit", *CORNERS)

    def __init__(self, assignment: int = 0, *, corner: int = 3, scans: Scans | None = None) -> None:
        """Chooses the groups; the scans are read when they are first needed."""
        check_number("assignment", assignment, 0, whole=True)
        check_number("corner, the side of a corner in pixels of 28,", corner, 1, _MARGIN, whole=True)
        order = np.random.default_rng([int(assignment), _CLASSES]).permutation(_CLASSES)
        self.group_one: tuple[int, ...] = tuple(sorted(int(digit) for digit in order[: _CLASSES // 2]))
        self.corner: int = int(corner)
        self._scans: Scans | None = scans

    @property
    def scans(self) -> Scans:
        """The handwritten originals."""
        return self._scans or _small_scans()

    def factors(self, n: int, *, strength: float, seed: int, split: Split = "train", blur: float = 0.0) -> pd.DataFrame:
        """Draws n rows: half of them of group 1, the classes of a group equally often.

        The corners' counts are exact to the nearest four images of a group. The same seed with another strength gives
        the same scans; with another blur only that column changes. A scan of the `split` is used again where there are
        more rows of its class than scans. `strength` is the skew of the left corners' pair, in [0, 1]; `blur`, in
        [0, 100], holds for all rows. A `BiaslibError` is raised for an argument out of range.
        """
        table = self._plain(n, strength, seed, split, blur)
        rng = np.random.default_rng([seed, 1])
        for group, sign in ((False, -1), (True, 1)):
            rows = rng.permutation(np.flatnonzero(table["group"] == group))
            matched = 4 * round((1 + sign * strength) / 2 * len(rows) / 4)
            for part, patterns in ((rows[:matched], _MATCHED), (rows[matched:], _UNMATCHED)):
                table.loc[part, list(CORNERS)] = patterns[np.arange(len(part)) % 4].astype(np.int8)
        return table

    def skewed(
        self, n: int, *, shares: Sequence[float], seed: int, split: Split = "train", blur: float = 0.0
    ) -> pd.DataFrame:
        """Draws n rows whose corners are each skewed to a group of their own, independently of each other.

        `shares` holds for each corner the share of group 1 among the images where it is white, in [0, 1]; the other
        arguments are those of `factors`. A `BiaslibError` is raised for an argument out of range.
        """
        if len(shares) != len(CORNERS) or not all(0 <= share <= 1 for share in shares):
            raise BiaslibError(f"shares holds one number in [0, 1] for each of {', '.join(CORNERS)}, not {shares!r}.")
        table = self._plain(n, 0.0, seed, split, blur)
        rng = np.random.default_rng([seed, 2])
        for corner, share in zip(CORNERS, shares, strict=True):
            for group in (False, True):
                rows = rng.permutation(np.flatnonzero(table["group"] == group))
                white = rows[: round((share if group else 1 - share) * len(rows))]
                table.loc[white, corner] = np.int8(1)
        return table

    def render(self, factors: pd.DataFrame, *, size: int = _FRAME, regions: Sequence[str] | None = None) -> Samples:
        """As every world does; the mask `digit` is the middle, where it may lie, and a corner's mask is its place."""
        return super().render(factors, size=size, regions=regions)

    @property
    def _columns(self) -> Mapping[str, Factor]:
        scan = Factor(0, len(self.scans.digits) - 1, whole=True)
        columns = {"group": CHOICE, "scan": scan, "blur": Factor(0.0, 100.0)}
        return columns | dict.fromkeys(CORNERS, CHOICE)

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        pages = np.stack([_resized(page, size) for page in self.scans.images[table["scan"]]])
        for blur in np.unique(table["blur"][table["blur"] > 0]):
            rows = table["blur"] == blur
            sigma = float(blur) * size / _FRAME
            pages[rows] = ndimage.gaussian_filter(pages[rows], sigma=(0, sigma, sigma), mode="constant")
        region_index[:] = 0
        side = max(1, round(self.corner * size / _FRAME))
        low, high = slice(0, side), slice(size - side, size)
        places = dict(zip(CORNERS, ((low, low), (high, low), (low, high)), strict=True))
        for number, (corner, place) in enumerate(places.items(), start=1):
            pages[:, *place] = 255 * table[corner][:, None, None]
            region_index[:, *place] = number
        return np.repeat(pages[..., None], 3, axis=-1)

    def _plain(self, n: int, strength: float, seed: int, split: Split, blur: float) -> pd.DataFrame:
        """Groups, classes and scans; all corners black."""
        check_draw(n, strength, seed)
        check_known("split", split, get_args(Split))
        check_number("blur, in pixels,", blur, 0, 100)
        rng = np.random.default_rng(seed)
        group = balanced_bool(n, rng)
        digit, scan, scans = np.empty(n, np.int8), np.empty(n, np.uint32), self.scans
        pool = scans.train if split == "train" else scans.test
        for value in (False, True):
            classes = [c for c in range(_CLASSES) if (c in self.group_one) == value]
            rows = np.flatnonzero(group == value)
            digit[rows] = rng.permutation(np.resize(classes, len(rows)))
        for c in range(_CLASSES):
            rows = np.flatnonzero(digit == c)
            scan[rows] = np.resize(rng.permutation(pool[scans.digits[pool] == c]), len(rows))
        table = {"group": group, "digit": digit, "scan": scan} | {name: np.zeros(n, np.int8) for name in CORNERS}
        return pd.DataFrame(table | {"blur": np.full(n, blur, np.float32)})


def scans_of(train: Samples, test: Samples) -> Scans:
    """Scans from a data set of grey digits with the label `digit`; without it, or of two sizes, a `BiaslibError`."""
    if train.images.shape[1:] != test.images.shape[1:]:
        raise refused("scans of two sizes", train=train.images.shape[1:3], test=test.images.shape[1:3])
    for part in (train, test):
        if "digit" not in part.labels or set(part.labels["digit"]) != set(range(_CLASSES)):
            raise BiaslibError("scans need a label `digit` with all of 0 to 9, in training and in test.")
    return Scans(
        np.concatenate([train.images[..., 0], test.images[..., 0]]),
        np.concatenate([train.labels["digit"], test.labels["digit"]]).astype(np.int8),
        np.arange(len(train)),
        np.arange(len(train), len(train) + len(test)),
    )


@functools.cache
def _small_scans() -> Scans:
    """The 1,797 digits that come with scikit-learn, 8 x 8 pixels, by 13 writers (Alpaydin and Kaynak 1998).

    Every third scan of each class is for testing. Writers are not recorded, so one may be in both parts.
    """
    from sklearn.datasets import load_digits  # takes a second to import, and only this source needs it

    images, digits = load_digits(return_X_y=True)
    turn = pd.Series(digits).groupby(digits).cumcount().to_numpy() % 3
    pages = np.round(images.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    frames = np.stack([np.pad(_resized(page, _BOX), _MARGIN) for page in pages])
    return Scans(frames, digits.astype(np.int8), np.flatnonzero(turn < 2), np.flatnonzero(turn == 2))


def _resized(page: np.ndarray, size: int) -> np.ndarray:
    if page.shape == (size, size):
        return page
    return np.asarray(Image.fromarray(page).resize((size, size), Image.Resampling.BICUBIC))
