"""Oxford-IIIT Pet (Parkhi et al. 2012): photos of cats and dogs with the animals' outlines."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import decoded, pictures, registry
from biaslib.samples import Samples

# Of the pictures, by their names. The authors' halves know no validation set, and their notes encourage others to draw
# their own; most is for the test, because outlines are needed for measuring and not for training.
SPLITS = {"train": 0.3, "val": 0.1, "test": 0.6}

_COLUMNS = ("image", "breed", "species", "number")
_GROUND = 2  # the trimaps: 1 animal, 2 ground, 3 not classified: a band along the outline


def load(split: str, *, size: int, root: Path) -> Samples:
    """Oxford-IIIT Pet in its official layout, oxford-iiit-pet/images and annotations.

    The splits are `SPLITS` of annotations/list.txt, by the pictures' names, so that a picture is in the same split in
    every copy, whole or not.

    Returns:
        the split's pictures that are in the folder, in the order of the list; labels `cat` (bool; else a dog) and
        `breed` (int, 1 to 37, the list's class); mask `animal`: all that the trimap does not call ground, that is
        with the band along the outline in which its authors leave it open.

    Warns:
        DatasetWarning: how many pictures of the split are not in the folder.
    """
    dataset = registry.get("oxford-iiit-pet")
    table = _here(dataset, split, root)
    folder = root / "oxford-iiit-pet"
    images = decoded.photos(dataset, [folder / "images" / f"{name}.jpg" for name in table["image"]], size=size)
    trimaps = [folder / "annotations" / "trimaps" / f"{name}.png" for name in table["image"]]
    animal = decoded.regions(dataset, trimaps, _animal, size=size)
    labels = pd.DataFrame({"cat": table["species"] == 1, "breed": table["breed"].astype(np.int8)})
    return Samples(images=images, labels=labels.reset_index(drop=True), masks={"animal": animal})


def _here(dataset: registry.Dataset, split: str, root: Path) -> pd.DataFrame:
    pictures.check_split("Oxford-IIIT Pet", split, list(SPLITS))
    folder = root / "oxford-iiit-pet"
    table = _list(dataset, registry.require(dataset, folder / "annotations" / "list.txt"))
    table = table[[pictures.part(name, SPLITS) == split for name in table["image"]]]
    images = registry.require(dataset, folder / "images")
    here = {path.stem for path in images.iterdir() if path.suffix == ".jpg"}
    found = table[table["image"].isin(here)]
    if not len(found):
        registry.require(dataset, images / f"{next(iter(table['image']), 'Abyssinian_1')}.jpg")
        raise registry.damaged(dataset, folder / "annotations" / "list.txt", f"it lists no picture of {split}")
    pictures.warn_of_a_part(dataset, len(found), len(table), images, split)
    return found


def _list(dataset: registry.Dataset, path: Path) -> pd.DataFrame:
    """Lines of "image class species breed" after some that begin with #."""
    try:
        table = pd.read_csv(path, sep=" ", comment="#", header=None, names=list(_COLUMNS), dtype={"image": str})
        fine = table["species"].isin([1, 2]).all() and table["breed"].between(1, 37).all() and table["image"].is_unique
    except (ValueError, TypeError) as error:
        raise registry.damaged(dataset, path, f"it is no list of pictures: {error}") from error
    if not fine:
        raise registry.damaged(dataset, path, "it has lines without a class (1 to 37), a species (1, 2) or a new name")
    return table


def _animal(trimap: np.ndarray) -> np.ndarray:
    return trimap != _GROUND
