"""Boxes and masks, each as the other, and what is asked of photos before anything is planted in them."""

import numpy as np

from biaslib.errors import BiaslibError


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
    """The side of the pictures in pixels.

    Raises:
        BiaslibError: where they are not square.
    """
    if images.shape[1] != images.shape[2]:
        raise BiaslibError(
            f"things are planted in square pictures, and these are {images.shape[1]} x {images.shape[2]}: resize or "
            "crop them and their masks first."
        )
    return int(images.shape[1])
