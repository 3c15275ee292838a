"""Photos of cats and dogs: Oxford-IIIT Pet (Parkhi et al. 2012) with the animals' outlines, and Kaggle's."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import pictures, registry
from biaslib.samples import Samples

# Of the pictures, by their names. The authors' halves know no validation set, and their notes encourage others to draw
# their own; most is for the test, because outlines are needed for measuring and not for training.
_SPLITS = {"train": 0.3, "val": 0.1, "test": 0.6}

_GROUND = 2  # the trimaps: 1 animal, 2 ground, 3 not classified: a band along the outline


def load(split: str, *, size: int, root: Path) -> Samples:
    """Oxford-IIIT Pet in its official layout, oxford-iiit-pet/images and annotations.

    The splits are 30, 10 and 60 % of annotations/list.txt, by the pictures' names, so that a picture is in the same
    split in every copy, whole or not.

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
    images = pictures.photos(dataset, [folder / "images" / f"{name}.jpg" for name in table["image"]], size=size)
    trimaps = [folder / "annotations" / "trimaps" / f"{name}.png" for name in table["image"]]
    animal = pictures.regions(dataset, trimaps, _animal, size=size)
    labels = pd.DataFrame({"cat": table["species"] == 1, "breed": table["breed"].astype(np.int8)})
    return Samples(images=images, labels=labels.reset_index(drop=True), masks={"animal": animal})


def load_cats_and_dogs(split: str, *, size: int, root: Path) -> Samples:
    """Kaggle's cats and dogs in the official layout, cat-and-dog/training_set and test_set, in each cats/ and dogs/.

    Returns:
        label `cat` (bool; else a dog); no masks: nobody has outlined these animals.
    """
    pictures.check_split("cat-and-dog", split)
    folder = root / "cat-and-dog" / ("test_set" if split == "test" else "training_set")
    images, kind = pictures.of_kinds(registry.get("cat-and-dog"), folder, ("cats", "dogs"), split, size=size)
    return Samples(images, pd.DataFrame({"cat": kind == 0}))


def _here(dataset: registry.Dataset, split: str, root: Path) -> pd.DataFrame:
    pictures.check_split("Oxford-IIIT Pet", split, list(_SPLITS))
    folder = root / "oxford-iiit-pet"
    table = _list(dataset, dataset.require(folder / "annotations" / "list.txt"))
    table = table[[pictures.part(name, _SPLITS) == split for name in table["image"]]]
    images = dataset.require(folder / "images")
    here = {path.stem for path in images.iterdir() if path.suffix == ".jpg"}
    found = table[table["image"].isin(here)]
    if not len(found):
        dataset.require(images / f"{next(iter(table['image']), 'Abyssinian_1')}.jpg")
        raise dataset.damaged(folder / "annotations" / "list.txt", f"it lists no picture of {split}")
    pictures.warn_of_a_part(dataset, len(found), len(table), images, split)
    return found


def _list(dataset: registry.Dataset, path: Path) -> pd.DataFrame:
    """Lines of "image class species breed" after some that begin with #."""
    try:
        table = pd.read_csv(
            path, sep=" ", comment="#", header=None, names=["image", "breed", "species", "number"], dtype={"image": str}
        )
        fine = table["species"].isin([1, 2]).all() and table["breed"].between(1, 37).all() and table["image"].is_unique
    except (ValueError, TypeError) as error:
        raise dataset.damaged(path, f"it is no list of pictures: {error}") from error
    if not fine:
        raise dataset.damaged(path, "it has lines without a class (1 to 37), a species (1, 2) or a new name")
    return table


def _animal(trimap: np.ndarray) -> np.ndarray:
    return trimap != _GROUND
