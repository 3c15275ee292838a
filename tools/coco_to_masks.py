"""Draws the outlines of an annotation file in COCO's JSON as masks, a folder a category, as `biaslib audit` takes them.

    python tools/coco_to_masks.py annotations.json FOLDER

writes FOLDER/category/name.png, black and white, for every picture in which something is outlined. A pixel is inside
where its centre is. Polygons, boxes (where there is no polygon) and counted runs (COCO's crowds) are drawn; runs that
are packed into text, as pycocotools packs them, are refused.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from matplotlib import path
from PIL import Image

from biaslib.errors import BiaslibError


def convert(annotations: Path, folder: Path) -> int:
    """Writes the masks and returns how many there are.

    A BiaslibError is raised, and nothing written, where the folder holds something, or the file is not COCO's JSON.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BiaslibError(f"{folder} is not empty: name a new folder for the masks.")
    try:
        given = json.loads(annotations.read_text(encoding="utf-8"))
        pictures = {each["id"]: (each["file_name"], (each["height"], each["width"])) for each in given["images"]}
        names = {each["id"]: each["name"] for each in given["categories"]}
        outlines: dict[PurePath, list[Any]] = {}
        for each in given["annotations"]:
            file, size = pictures[each["image_id"]]
            place = PurePath(names[each["category_id"]].replace("/", " "), file).with_suffix(".png")
            outlines.setdefault(place, [size]).extend(_shapes(each, size, annotations))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BiaslibError(
            f"{annotations} is no annotation file in COCO's JSON ({type(error).__name__}: {error})."
        ) from error
    outside = [place for place in outlines if place.is_absolute() or ".." in place.parts]
    if outside:
        raise BiaslibError(f"{annotations} names a picture outside its folder ({outside[0].name}): mend its file_name.")
    for place, (size, *shapes) in outlines.items():
        mask = np.zeros(size, bool)
        for shape in shapes:
            _draw(mask, shape)
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(folder / place)
    return len(outlines)


def _shapes(annotation: dict[str, Any], size: tuple[int, int], file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The polygons of one thing, or its counted runs, or its box."""
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, dict):
        if isinstance(segmentation["counts"], str):
            raise BiaslibError(
                f"{file} holds packed runs (RLE as text), which are not read: save polygons, or unpack them first with "
                "pycocotools."
            )
        if sum(segmentation["counts"]) != size[0] * size[1]:
            raise ValueError(f"counted runs do not fill a picture of {size[1]} x {size[0]}")
        yield "runs", np.array(segmentation["counts"], int)
    elif segmentation:
        for polygon in segmentation:
            yield "polygon", np.array(polygon, float).reshape(-1, 2)
    else:
        x, y, width, height = map(float, annotation["bbox"])
        yield "polygon", np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height)])


def _draw(mask: np.ndarray, shape: tuple[str, np.ndarray]) -> None:
    """Sets the pixels inside to True."""
    kind, values = shape
    if kind == "runs":  # of 0 and of 1 in turn, column by column
        mask |= np.repeat(np.arange(len(values)) % 2 == 1, values).reshape(mask.shape[::-1]).T
        return
    first = np.maximum(np.floor(values.min(axis=0)).astype(int), 0)
    last = np.maximum(np.minimum(np.ceil(values.max(axis=0)).astype(int), mask.shape[::-1]), first)
    rows, columns = slice(first[1], last[1]), slice(first[0], last[0])
    y, x = np.mgrid[rows, columns] + 0.5
    if x.size:
        inside = path.Path(values).contains_points(np.stack([x.ravel(), y.ravel()], axis=1))
        mask[rows, columns] |= inside.reshape(x.shape)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("annotations", type=Path, help="the JSON")
    parser.add_argument("folder", type=Path, help="a new folder for the masks")
    given = parser.parse_args()
    try:
        number = convert(given.annotations, given.folder)
    except BiaslibError as error:
        parser.error(str(error))
    print(f"{number:,} masks are in {given.folder}")


if __name__ == "__main__":
    main()
