"""Which files are opened as pictures."""

from pathlib import Path
from typing import Final

from PIL import Image

# Pillow also knows formats that start another program to be read, as EPS does, and goes by the content, not the ending
FORMATS: Final = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
# what Pillow raises for a file that is no picture, is cut off, or is suspiciously large
UNREADABLE: Final = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


def open_picture(file: Path) -> Image.Image:
    """A picture of one of `FORMATS`, its pixels not read yet.

    Raises:
        OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError: where it cannot be read (`UNREADABLE`), here
            or when its pixels are read.
    """
    return Image.open(file, formats=FORMATS)
