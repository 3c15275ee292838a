"""Cut-outs of one photo on the background of another, with a soft edge and a soft shadow; boxes and masks."""

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage

from biaslib.errors import BiaslibError
from biaslib.worlds.factors import CHOICE, Factor, validated

COLUMNS = {
    "x": Factor(0.0, 1.0),
    "y": Factor(0.0, 1.0),
    "scale": Factor(0.01, 0.5),
    "turn": Factor(-3.1416, 3.1416),
    "mirror": CHOICE,
}
_EDGE = 0.6  # pixels of the background over which a cut-out's edge is softened
# The shadow lies towards the lower right, in shares of the cut-out's radius; how soft and how dark it is.
_MOVED, _SOFT, _DARK = (0.10, 0.06), 0.09, 0.45
_PAD = 3  # pixels of the original around a cut-out, so that its edge has colours on both sides


def masks_of_boxes(boxes: np.ndarray, size: int) -> np.ndarray:
    """Boxes as masks of square pictures.

    Args:
        boxes: (N, 4) left, top, right, bottom as shares of the picture's sides.
        size: height and width of the masks in pixels.

    Returns:
        (N, size, size) bool: every pixel that the box touches.

    Raises:
        BiaslibError: for another shape, or a box that is empty, NaN or not inside its picture.
    """
    boxes = np.asarray(boxes, float)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise BiaslibError(f"boxes must have shape (N, 4): left, top, right, bottom; not {boxes.shape}.")
    left, top, right, bottom = boxes.T[:, :, None]
    wrong = ~((left >= 0) & (top >= 0) & (left < right) & (top < bottom) & (right <= 1) & (bottom <= 1))[:, 0]
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BiaslibError(
            "a box must have 0 <= left < right <= 1 and 0 <= top < bottom <= 1 (shares of the sides), but row "
            f"{row} is {boxes[row].round(3).tolist()}; leave out pictures without a box."
        )
    low, high = np.arange(size) / size, np.arange(1, size + 1) / size
    across, down = (low < right) & (high > left), (low < bottom) & (high > top)
    return down[:, :, None] & across[:, None, :]


def boxes_of_masks(masks: np.ndarray) -> np.ndarray:
    """The smallest box around each mask.

    Args:
        masks: (N, H, W) bool.

    Returns:
        (N, 4) float64: left, top, right, bottom as shares of the picture's sides; NaN where the mask is empty.
    """
    masks = np.asarray(masks, bool)
    boxes = np.full((len(masks), 4), np.nan)
    for box, mask in zip(boxes, masks, strict=True):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return boxes / np.array([masks.shape[2], masks.shape[1]] * 2)


def check_square(images: np.ndarray) -> int:
    """The side of the pictures in pixels; refuses those that are not square."""
    if images.shape[1] != images.shape[2]:
        raise BiaslibError(
            f"things are planted in square pictures, and these are {images.shape[1]} x {images.shape[2]}: resize or "
            "crop them and their masks first."
        )
    return int(images.shape[1])


def paste(
    pictures: np.ndarray, masks: np.ndarray, backgrounds: np.ndarray, table: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """What a mask shows of one picture, cut out and laid on another.

    Args:
        pictures: (N, h, w, 3) uint8.
        masks: (N, h, w) bool, what is cut out of each.
        backgrounds: (N, S, S, 3) uint8.
        table: N rows: `x`, `y` (where the middle of the cut-out's box comes to lie) and `scale` (half the longer side
            of that box before it is turned), in shares of the side of the background; `turn` (clockwise, in
            radians); `mirror` (1: left and right change places).

    Returns:
        the pictures (N, S, S, 3) uint8, and (N, S, S) bool where the cut-out covers more than half of a pixel. Where
        it covers less, and in its shadow, the background is seen through it; elsewhere not a pixel differs from it.

    Raises:
        BiaslibError: for parts that do not fit each other, an empty mask, or a cut-out that is not wholly inside its
            background.
    """
    size = check_square(backgrounds)
    if masks.shape != pictures.shape[:3] or masks.dtype != np.bool_:
        raise BiaslibError(
            f"masks must be bool of shape {pictures.shape[:3]}, as the pictures are, not {masks.dtype} of shape "
            f"{masks.shape}."
        )
    if not len(pictures) == len(backgrounds) == len(table):
        raise BiaslibError(
            f"{len(pictures)} cut-outs, {len(backgrounds)} backgrounds and {len(table)} rows: give one of each."
        )
    empty = ~masks.any(axis=(1, 2))
    if empty.any():
        raise BiaslibError(f"the mask of row {int(np.argmax(empty))} is empty: there is nothing to cut out.")
    values = validated(table, COLUMNS)
    images, covered = np.array(backgrounds), np.zeros(backgrounds.shape[:3], bool)
    for i in range(len(images)):
        place = {name: float(column[i]) for name, column in values.items()}
        cut, alpha = _turned(pictures[i], masks[i], place, size)
        box = Image.fromarray(alpha).getbbox() or (0, 0, 0, 0)
        left, top = (round(place[name] * size - side / 2) for name, side in zip("xy", alpha.shape[::-1], strict=True))
        if left + box[0] < 0 or top + box[1] < 0 or left + box[2] > size or top + box[3] > size:
            raise BiaslibError(
                f"the cut-out of row {i} is larger than its background, or too near to its border, to be wholly inside "
                "it: make its scale smaller or move x and y inwards."
            )
        _lay(images[i], covered[i], cut, alpha, (top, left), place["scale"] * size)
    return images, covered


def _turned(picture: np.ndarray, mask: np.ndarray, place: dict[str, float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """The cut-out as large and turned as it is to be: colours (h, w, 3) and alpha (h, w), uint8."""
    # colours from inside the outline continue beyond it, so that none of the old background shines through the edge
    inner = ndimage.binary_erosion(mask, iterations=2)
    near = ndimage.distance_transform_edt(~(inner if inner.any() else mask), return_indices=True)[1]
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    zoom = 2 * place["scale"] * size / max(rows[-1] + 1 - rows[0], columns[-1] + 1 - columns[0])
    around = [(_PAD, _PAD), (_PAD, _PAD)]
    colours = np.pad(picture[near[0], near[1]][box], [*around, (0, 0)], mode="edge")
    layers = []
    for padded in (colours, np.pad(mask[box].astype(np.uint8) * 255, around)):
        image = Image.fromarray(padded[:, ::-1] if place["mirror"] else padded)
        image = image.resize([max(1, round(side * zoom)) for side in image.size], Image.Resampling.BICUBIC)
        turned = image.rotate(-np.degrees(place["turn"]), Image.Resampling.BICUBIC, expand=True)
        layers.append(np.asarray(turned))
    return layers[0], layers[1]


def _lay(
    image: np.ndarray, covered: np.ndarray, cut: np.ndarray, alpha: np.ndarray, corner: tuple[int, int], radius: float
) -> None:
    """Lays a cut-out with its shadow on an image (S, S, 3) uint8, and marks what it covers, in place."""
    margin = int(np.ceil(0.5 * radius + 4 * _EDGE))
    cover = ndimage.gaussian_filter(np.pad(alpha, margin).astype(np.float32) / 255, _EDGE)
    colour = np.pad(cut, ((margin, margin), (margin, margin), (0, 0)), mode="edge").astype(np.float32)
    shadow = ndimage.shift(cover, (_MOVED[1] * radius, _MOVED[0] * radius), order=1)
    shadow = ndimage.gaussian_filter(shadow, _SOFT * radius)
    seen, from_ = zip(
        *(_overlap(c - margin, n, len(image)) for c, n in zip(corner, cover.shape, strict=True)), strict=True
    )
    cover, colour, shadow = cover[from_], colour[from_], shadow[from_]
    cover[cover <= 1 / 255] = 0
    shadow[shadow <= 1 / 255] = 0
    below = image[seen] * (1 - _DARK * shadow * (1 - cover))[..., None]
    image[seen] = np.clip(below + (colour - below) * cover[..., None], 0, 255) + 0.5
    covered[seen] = cover > 0.5


def _overlap(start: int, length: int, size: int) -> tuple[slice, slice]:
    """Where a stretch of pixels lies on a picture's side, and which part of it does."""
    low, high = max(start, 0), min(start + length, size)
    return slice(low, high), slice(low - start, high - start)
