"""Regions of images as an annotation file in COCO's JSON outlines them: polygons, runs of pixels, and boxes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from biaslib.errors import BiaslibError, reason

_FARTHEST = 1_000_000  # pixels: no corner lies further out


@dataclass(frozen=True)
class Outline:
    """What a file outlines of one region in one image."""

    name: str  # of the image
    size: tuple[int, int]  # width and height of the image
    polygons: tuple[tuple[float, ...], ...]  # x and y of each corner in turn, in pixels
    runs: tuple[tuple[int, ...], ...]  # how many pixels are outside and inside in turn, column by column

    def drawn(self) -> np.ndarray:
        """(H, W) bool: the pixels whose centre lies inside one of the shapes."""
        (width, height), mask = self.size, np.zeros(self.size[::-1], bool)
        for counts in self.runs:
            mask |= np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T
        for numbers in self.polygons:
            # inside is what has an odd number of edges to its left; Pillow would move the corners to whole pixels
            corners, passed = np.reshape(numbers, (-1, 2)), np.zeros((height, width + 1), bool)
            for (x, y), (to_x, to_y) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
                rows = np.arange(*np.clip(np.ceil(np.sort([y, to_y]) - 0.5), 0, height).astype(int))
                if len(rows):
                    edge = x + (rows + 0.5 - y) * (to_x - x) / (to_y - y)
                    passed[rows, np.clip(np.ceil(edge - 0.5), 0, width).astype(int)] ^= True
            mask |= np.logical_xor.accumulate(passed[:, :width], axis=1)
        return mask


Mask = Path | Outline


def read_outlines(file: Path, files: Sequence[str]) -> dict[str, Sequence[Outline | None]]:
    """Name of a category -> its outline in each of these images, known by their `file_name`; None where it has none.

    A BiaslibError is raised for anything else than COCO's JSON.
    """
    things: dict[str, dict[str, list[Any]]] = {}
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
        pictures = {each["id"]: each for each in given["images"]}
        categories = {each["id"]: str(each["name"]) for each in given["categories"]}
        for each in given["annotations"]:
            picture = pictures[each["image_id"]]
            of_region = things.setdefault(categories[each["category_id"]], {})
            of_region.setdefault(PurePath(picture["file_name"]).as_posix(), [picture]).append(each)
        return {
            region: [_outline(of.get(PurePath(name).as_posix())) for name in files] for region, of in things.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BiaslibError(
            f"{file} is no annotation file in COCO's JSON ({type(error).__name__}: {reason(error)}): mend it, or give "
            "a folder of masks."
        ) from error


def _outline(given: Sequence[Mapping[str, Any]] | None) -> Outline | None:
    """That of a picture, which is given first, and of the things in it."""
    if given is None:
        return None
    picture, polygons, runs = given[0], list[tuple[float, ...]](), list[tuple[int, ...]]()
    width, height = int(picture["width"]), int(picture["height"])
    for thing in given[1:]:
        drawn = thing.get("segmentation")
        if isinstance(drawn, dict):
            counts = drawn["counts"]
            runs.append(tuple(_unpacked(counts) if isinstance(counts, str) else map(int, counts)))
            if min(runs[-1], default=0) < 0 or sum(runs[-1]) != width * height:
                raise ValueError(f"runs do not fill {picture['file_name']} of {width} x {height}")
            continue
        left, top, across, down = (0, 0, 0, 0) if drawn else thing["bbox"]
        right, bottom = left + across, top + down
        for polygon in drawn or [[left, top, right, top, right, bottom, left, bottom]]:
            polygons.append(tuple(map(float, polygon)))
            if len(polygon) % 2 or not (np.abs(polygons[-1]) < _FARTHEST).all():
                raise ValueError(f"a polygon in {picture['file_name']} has no corners of x and y")
    return Outline(str(picture["file_name"]), (width, height), tuple(polygons), tuple(runs))


def _unpacked(text: str) -> list[int]:
    """Counts of runs that pycocotools has packed: 5 bits a sign, the lowest first, less the count before the last."""
    counts, value, shift = list[int](), 0, 0
    for sign in text:
        bits = ord(sign) - 48
        if not 0 <= bits < 64:
            raise ValueError(f"packed runs hold {sign!r}")
        value, shift = value | (bits & 31) << shift, shift + 5
        if bits < 32:  # the last sign of a count, whose fifth bit says that it is below 0
            value -= (bits & 16) << (shift - 4)
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    return counts
