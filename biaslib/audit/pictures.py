"""The images and masks that an audit is given, as its model wants them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from biaslib.audit.tables import PICTURES, listed
from biaslib.errors import BiaslibError
from biaslib.networks import IMAGENET_MEAN, IMAGENET_STD

# what Pillow raises for a file that is no picture, is cut off, or is suspiciously large
UNREADABLE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What happens to a picture before the model sees it.

    The shorter side is resized to size / crop, and the square of `size` in the middle is cut out, as timm does.

    Attributes:
        size: height and width in pixels.
        mean: of each colour in [0, 1], which is subtracted.
        std: what is divided by then.
        crop: share of the shorter side that is kept, in (0, 1].
        interpolation: "bilinear" or "bicubic".
        source: where these come from, in words.
    """

    size: int = 224
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    crop: float = 1.0
    interpolation: str = "bicubic"
    source: str = "defaults"

    def __post_init__(self) -> None:
        if self.size < 8:
            raise BiaslibError(f"size must be at least 8 pixels, not {self.size}.")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise BiaslibError(f"mean and std are three numbers each, std above 0, not {self.mean} and {self.std}.")
        if not 0 < self.crop <= 1:
            raise BiaslibError(f"crop is a share in (0, 1], not {self.crop}.")

    @classmethod
    def of(cls, config: dict[str, Any], **given: Any) -> "Preprocessing":
        """What was given, and else what timm's configuration of the model says, and else the defaults."""
        known = {
            "size": config["input_size"][-1] if "input_size" in config else None,
            "mean": config.get("mean"),
            "std": config.get("std"),
            "crop": config.get("crop_pct"),
            "interpolation": config.get("interpolation") if config.get("interpolation") in _FILTERS else None,
        }
        known = {name: value for name, value in known.items() if value is not None}
        asked = {name: value for name, value in given.items() if value is not None}
        said = ["timm's own for this architecture" if known else "defaults (ImageNet's mean and deviation)"]
        said += [f"given: {', '.join(sorted(asked))}"] if asked else []
        return cls(**{**known, **asked}, source="; ".join(said))

    def picture(self, file: Path) -> np.ndarray:
        """(size, size, 3) uint8.

        Raises:
            OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError: where it cannot be read.
        """
        with Image.open(file) as opened:
            return np.asarray(self._cut(opened.convert("RGB"), _FILTERS[self.interpolation]))

    def mask(self, file: Path) -> np.ndarray:
        """(size, size) bool: what is above half of the mask's largest value.

        Raises:
            BiaslibError: where it cannot be read.
        """
        try:
            with Image.open(file) as opened:
                grey = opened if opened.mode in ("1", "L", "P", "I", "I;16") else opened.convert("L")
                values = np.asarray(grey).astype(np.int64)
        except UNREADABLE as error:
            raise BiaslibError(f"The mask {file} cannot be read: replace it, or take it out of its folder.") from error
        inside = Image.fromarray((values > values.max() / 2).astype(np.uint8) * 255)
        return np.asarray(self._cut(inside, Image.Resampling.NEAREST)) > 0

    def normalised(self, pictures: np.ndarray) -> np.ndarray:
        """(N, size, size, 3) uint8 -> (N, 3, size, size) float32, as the model takes them."""
        mean, std = (np.array(values, np.float32) for values in (self.mean, self.std))
        values = (pictures.astype(np.float32) / 255 - mean) / std
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2))

    def _cut(self, image: Image.Image, resampling: Image.Resampling) -> Image.Image:
        side = int(self.size / self.crop)
        width, height = image.size
        if min(width, height) != side:
            short = min(width, height)
            image = image.resize((int(side * width / short), int(side * height / short)), resampling)
        left, top = (round((length - self.size) / 2) for length in image.size)
        return image.crop((left, top, left + self.size, top + self.size))


def find_masks(folder: Path, images: Path, files: Sequence[str]) -> dict[str, list[Path | None]]:
    """Region -> the mask of every image, None where it has none.

    A folder of masks is one region, named as the folder; a folder of folders of masks is one region each. A mask is
    named as its image, whatever the ending.

    Raises:
        BiaslibError: for a folder that is not there, masks that belong to no image, or are not as large as theirs.
    """
    if not folder.is_dir():
        raise BiaslibError(f"There is no folder of masks {folder}: name the one that holds them, or leave masks out.")
    found = {folder.name: _of(folder, files)}
    if not any(found[folder.name]):
        found = {inner.name: _of(inner, files) for inner in sorted(folder.iterdir()) if inner.is_dir()}
        found = {region: masks for region, masks in found.items() if any(masks)}
    if not found:
        raise BiaslibError(
            f"No mask in {folder} belongs to an image: name each as its image is (cat.png for cat.jpg), in the folder "
            "itself or in one folder a region."
        )
    wrong = []
    for masks in found.values():
        for name, mask in zip(files, masks, strict=True):
            sizes = _size(images / name), None if mask is None else _size(mask)
            # an image that cannot be read is listed later
            if mask is not None and sizes[0] is not None and sizes[0] != sizes[1]:
                wrong.append(f"{mask.name} {_times(sizes[1])} for {_times(sizes[0])}")
    if wrong:
        raise BiaslibError(
            f"{len(wrong):,} of the masks are not as large as their images ({listed(wrong)}): give every mask one "
            "pixel for each pixel of its image."
        )
    return found


def _of(folder: Path, files: Sequence[str]) -> list[Path | None]:
    candidates = ((folder / name).with_suffix(suffix) for name in files for suffix in PICTURES)
    there = iter([path if path.is_file() else None for path in candidates])
    return [next((path for path in one if path), None) for one in zip(*[there] * len(PICTURES), strict=True)]


def _size(file: Path) -> tuple[int, int] | None:
    try:
        with Image.open(file) as opened:
            return opened.size
    except UNREADABLE:
        return None


def _times(size: tuple[int, int] | None) -> str:
    return "unreadable" if size is None else f"{size[0]} x {size[1]}"
