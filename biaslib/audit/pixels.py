"""The pixels of one file: upright, with 8 bits a colour, or as a region of two values."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile

from biaslib.audit.tables import listed
from biaslib.datasets.decoded import UNREADABLE, open_picture
from biaslib.errors import BiaslibError

_ORIENTATION = 0x0112  # EXIF's tag: 1 is upright, 5 to 8 exchange width and height
_TURNED_BACK = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_UNKNOWN = ("I", "F")  # Pillow's integers of 32 bits, and floats
_WHOLE = (1, 255, 65_535)  # a region that fills its mask is one of these


@dataclass(frozen=True)
class Frame:
    """How a file holds its picture.

    Attributes:
        size: width and height of the upright picture.
        turn: EXIF's number of how it is stored, 1 where that is upright.
    """

    size: tuple[int, int]
    turn: int

    @property
    def stored(self) -> tuple[int, int]:
        """Width and height as they are stored."""
        return self.size[::-1] if self.turn >= 5 else self.size


def frame(file: Path) -> Frame | None:
    """How a file holds its picture; None where it cannot be read. A PNG is read whole, as its EXIF may stand last."""
    try:
        with open_picture(file) as image:
            turn = _turn(image)
            # Pillow turns the size of a TIFF itself
            exchanged = turn >= 5 and image.format != "TIFF"
            return Frame(image.size[::-1] if exchanged else image.size, turn)
    except UNREADABLE:
        return None


def depth(file: Path) -> int | None:
    """8 or 16 bits a colour, 32 where the range of the values is not known; None where the file cannot be read."""
    try:
        with open_picture(file) as image:
            if image.mode in _UNKNOWN:
                return 32
            # of 16-bit colour Pillow's mode does not tell
            packed = image.tile[0].args if isinstance(image, ImageFile.ImageFile) and image.tile else ""
            return 16 if image.mode.startswith("I;16") or ";16" in str(packed) else 8
    except UNREADABLE:
        return None


def colours(file: Path) -> Image.Image:
    """A picture in RGB, upright as its EXIF orientation says, 8 bits a colour.

    Of 16 bits the upper 8 are taken, so that the range of the type, 65,535, becomes 255 in every picture. The values
    inside a picture never change this: 12-bit data in 16 bits stays dark, and `check_pictures` refuses it.

    Raises:
        BiaslibError: where the range of its values is not known.
        OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError: where it cannot be read.
    """
    with open_picture(file) as opened:
        image = _upright(opened)
    if image.mode in _UNKNOWN:
        raise range_unknown([file.name])
    if image.mode.startswith("I;16"):
        # Pillow does the same for colour, but clips grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGB")


def region(file: Path) -> np.ndarray:
    """A mask, upright as its EXIF orientation says: (H, W) bool, True where it is not 0.

    A mask has at most two values, 0 outside the region and any other inside; the numbers of a palette count, not its
    colours. Everything else is refused, and so are soft edges and JPEG, whose greys could be labels as well.

    Raises:
        BiaslibError: where it cannot be read, or does not say what is inside.
    """
    try:
        with open_picture(file) as opened:
            image = _upright(opened)
    except UNREADABLE as error:
        raise BiaslibError(f"The mask {file} cannot be read: replace it, or take it out of its folder.") from error
    if "A" in image.getbands() and image.getchannel("A").getextrema() != (255, 255):
        raise BiaslibError(f"The mask {file} is partly transparent: save it as a black-and-white PNG, without alpha.")
    pixels = np.asarray(image if len(image.getbands()) == 1 else image.convert("L"))
    values = [value.item() for value in np.unique(pixels.astype(float))]
    if len(values) > 2:
        raise BiaslibError(
            f"The mask {file} has {len(values)} values ({_listed(values)}), and a mask has two, 0 and another: split a "
            "map of labels into one mask a region, and save soft edges or a JPEG as a black-and-white PNG."
        )
    if values[0] != 0 and (len(values) == 2 or values[0] not in _WHOLE):
        raise BiaslibError(
            f"The mask {file} has the values ({_listed(values)}) and no 0, so it does not say what is outside the "
            "region: write 0 there and 255 inside, in one mask a region."
        )
    if image.mode == "P" and len(values) == 2 and _lightness(image, 0) > _lightness(image, int(values[1])):
        raise BiaslibError(
            f"In the mask {file} number 0 of its palette is the lighter colour, so it is not clear which is the "
            "region: save it as a black-and-white PNG, white inside."
        )
    return pixels > 0


def range_unknown(names: Sequence[str]) -> BiaslibError:
    """The error to raise for pictures whose values are floats or have 32 bits."""
    return BiaslibError(
        f"{len(names):,} of the images hold floats or 32 bits a pixel ({listed(names)}), so the range of their values "
        "is not known: save them with 8 or 16 bits, the whole range used."
    )


def _turn(image: Image.Image) -> int:
    number = image.getexif().get(_ORIENTATION, 1)
    return number if number in _TURNED_BACK else 1


def _upright(image: Image.Image) -> Image.Image:
    """A copy; Pillow's own function also writes the EXIF data anew, and some cameras' data stops it."""
    image.load()
    turn = _turn(image)
    return image.copy() if turn == 1 else image.transpose(_TURNED_BACK[turn])


def _listed(values: Sequence[float]) -> str:
    return listed([f"{value:g}" for value in values])


def _lightness(image: Image.Image, number: int) -> int:
    return sum((image.getpalette() or [])[3 * number : 3 * number + 3])
