"""The images and masks that an audit is given, as its model wants them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from biaslib.audit.pixels import Frame, colours, depth, frame, range_unknown, region
from biaslib.audit.tables import PICTURES, listed
from biaslib.datasets.decoded import UNREADABLE
from biaslib.errors import BiaslibError
from biaslib.models.networks import IMAGENET_MEAN, IMAGENET_STD

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_MOST_PIXELS = 4096  # on a side: four times what timm's largest models see, and 200 MB a picture as the model takes it
_CAUTION = "your weights may need others: give --mean, --std, --size"
_DARK = 64  # a quarter of 8 bits: data of 14 bits or fewer in 16 never reaches it


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What happens to a picture before the model sees it.

    The shorter side is resized to size / crop, and the square of `size` in the middle is cut out, as timm does.

    Attributes:
        size: height and width in pixels.
        mean: of each colour in [0, 1], which is subtracted.
        std: what is divided by then, in (0, 1].
        crop: share of the shorter side that is kept, in (0, 1].
        interpolation: a name of `FILTERS`.
        source: where these come from, in words.

    Raises:
        BiaslibError: for a number outside its range, or more than 4,096 pixels on the side that is resized.
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
        if not all(0 <= value <= 1 for value in (*self.mean, *self.std)):
            raise BiaslibError(
                f"mean and std are of pixels in [0, 1], and {self.mean} and {self.std} are not: divide those of pixels "
                "from 0 to 255 by 255."
            )
        if self.size / self.crop > _MOST_PIXELS:
            raise BiaslibError(
                f"size / crop, to which the shorter side of a picture is resized, is at most {_MOST_PIXELS:,} pixels, "
                f"not {self.size / self.crop:,.0f}: give the size that the model was trained with."
            )

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        *,
        beside: Mapping[str, Any] | None = None,
        name: str = "config.json",
        local: bool = False,
        **given: Any,
    ) -> "Preprocessing":
        """What was given, else what lies beside the weights, else timm's configuration, else the defaults.

        Args:
            config: of the model, as timm names its entries.
            beside: likewise, from a file beside the weights.
            name: of that file.
            local: whether the weights are the user's own, which timm's configuration may not fit.
            given: the attributes; None is not given.

        Raises:
            BiaslibError: for impossible values.
        """
        known, near = _steps(config), _steps(beside or {})
        asked = {name: value for name, value in given.items() if value is not None}
        sources = [f"{name} beside the weights: {', '.join(sorted(near))}"] if near else []
        if {"size", "mean", "std", "crop", "interpolation"} - near.keys() - asked.keys():
            own = "timm's defaults for this architecture" if local else "timm's own for this architecture"
            sources.append(own if known else "defaults (ImageNet's mean and deviation)")
            if local and {"size", "mean", "std"} - near.keys() - asked.keys():
                sources.append(_CAUTION)
        sources += [f"given: {', '.join(sorted(asked))}"] if asked else []
        mode = {**config, **(beside or {})}.get("crop_mode", "center")
        sources += [f"not crop_mode {mode!r}, the middle is cut out"] if mode != "center" else []
        return cls(**{**known, **near, **asked}, source="; ".join(sources))

    def picture(self, file: Path) -> np.ndarray:
        """(size, size, 3) uint8, of the upright picture (`pixels.colours`).

        Raises:
            BiaslibError: where the range of its values is not known.
            OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError: where it cannot be read.
        """
        return np.asarray(self._cut(colours(file), FILTERS[self.interpolation]))

    def mask(self, file: Path) -> np.ndarray:
        """(size, size) bool: what is inside the region (`pixels.region`).

        Raises:
            BiaslibError: where it cannot be read, or is no mask of one region.
        """
        inside = Image.fromarray(region(file).astype(np.uint8) * 255)
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


def check_pictures(folder: Path, files: Sequence[str]) -> str:
    """What a reader should know of how the pictures are read, "" where there is nothing; no model is needed for it.

    Args:
        folder: of the images.
        files: their names in it.

    Raises:
        BiaslibError: for files that a link leads out of the folder to, pictures whose range of values is not known, and
            those of 16 bits where all of them together stay below a quarter of the range: such data has fewer bits,
            and a model would see black.
    """
    root = folder.resolve()
    outside = [name for name in files if not (folder / name).resolve().is_relative_to(root)]
    if outside:
        raise BiaslibError(
            f"{len(outside):,} of the images are links to files outside {folder} ({listed(outside)}): copy these files "
            "into it, or drop those rows."
        )
    depths = {name: depth(folder / name) for name in files}
    unknown = [name for name, bits in depths.items() if bits == 32]
    if unknown:
        raise range_unknown(unknown)
    deep = [name for name, bits in depths.items() if bits == 16]
    if not deep:
        return ""
    if _all_dark(folder / name for name in deep):
        raise BiaslibError(
            f"The {len(deep):,} images of 16 bits ({listed(deep)}) hold no value above 16,383 of 65,535, as data of 12 "
            "or 14 bits does, and would be nearly black: multiply their values until they use the whole range, or save "
            "them with 8 bits."
        )
    return (
        f"{len(deep):,} of the images have 16 bits a colour; all were scaled to 8 bits by the range of the type, "
        "65,535, and not by the values in them."
    )


def find_masks(folder: Path, images: Path, files: Sequence[str]) -> dict[str, list[Path | None]]:
    """Region -> the mask of every image, None where it has none.

    A folder of masks is one region, named as the folder; a folder of folders of masks is one region each. A mask is
    named as its image, whatever the ending. It is taken to be of the upright picture where its size shows that, or it
    carries the EXIF orientation of its image.

    Raises:
        BiaslibError: for a folder that is not there, masks that belong to no image, are not as large as theirs, or may
            be drawn for an image as it is stored where that is turned.
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
    wrong, turned = [], []
    for masks in found.values():
        for name, mask in zip(files, masks, strict=True):
            image = None if mask is None else frame(images / name)
            # an image that cannot be read is listed later
            if mask is None or image is None:
                continue
            outline = frame(mask)
            if outline is None or outline.size not in (image.size, image.stored):
                wrong.append(f"{mask.name} {_times(outline)} for {_times(image)}")
            elif not _lies_on(image, outline):
                turned.append(name)
    if wrong:
        raise BiaslibError(
            f"{len(wrong):,} of the masks are not as large as their images ({listed(wrong)}): give every mask one "
            "pixel for each pixel of its image."
        )
    if turned:
        raise BiaslibError(
            f"{len(turned):,} of the images are turned by their EXIF orientation ({listed(turned)}), and nothing shows "
            "that their masks were drawn for the upright picture: save these images upright, without that tag, and "
            "check that each mask lies on its image."
        )
    return found


def _lies_on(image: Frame, outline: Frame) -> bool:
    """Whether a mask is of the upright picture: the size shows it, or it is turned as its image is."""
    return outline.size == image.size and (image.turn in (1, outline.turn) or image.size != image.stored)


def _of(folder: Path, files: Sequence[str]) -> list[Path | None]:
    candidates = ((folder / name).with_suffix(suffix) for name in files for suffix in PICTURES)
    there = iter([path if path.is_file() else None for path in candidates])
    return [next((path for path in one if path), None) for one in zip(*[there] * len(PICTURES), strict=True)]


def _times(seen: Frame | None) -> str:
    return "unreadable" if seen is None else f"{seen.size[0]} x {seen.size[1]}"


def _all_dark(files: Iterable[Path]) -> bool:
    """Whether no picture that can be read has a value of `_DARK` or more; stops at the first that has."""
    dark = False
    for file in files:
        try:
            if np.asarray(colours(file)).max() >= _DARK:
                return False
        except UNREADABLE:
            continue  # it is listed later
        dark = True
    return dark


def _steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of `Preprocessing` that a configuration of timm's names."""
    steps = {
        "size": config["input_size"][-1] if "input_size" in config else None,
        "mean": config.get("mean"),
        "std": config.get("std"),
        "crop": config.get("crop_pct"),
        "interpolation": config.get("interpolation") if config.get("interpolation") in FILTERS else None,
    }
    return {name: value for name, value in steps.items() if value is not None}
