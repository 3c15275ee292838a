"""Photos of one thing each, for Schaaf et al. (2021): fruits and landscapes, cats and dogs."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import ndimage

from biaslib.datasets import pictures, registry
from biaslib.samples import Samples

# The five kinds of Schaaf et al. (2021) in the order of the generated world `fruits`, each with words for folders.
KINDS: Mapping[str, tuple[str, ...]] = {kind: tuple(words) for kind, words in registry.WORDS["fruits"].items()}
SCENES = ("buildings", "forest", "glacier", "mountain", "sea", "street")
_PARTS = {"train": ("Training", "extra_apples/train"), "test": ("Test", "extra_apples/test")}
_WHITE = 228  # a pixel is as good as white from this brightness of its darkest colour on
_SPECKS = 2  # pixels; what is thinner than twice this (the spit that turns the fruit) is not fruit
# Of the pictures, by their names. The authors' halves know no validation set, and their notes encourage others to draw
# their own; most is for the test, because outlines are needed for measuring and not for training.
_PET_SPLITS = {"train": 0.3, "val": 0.1, "test": 0.6}

_GROUND = 2  # the trimaps: 1 animal, 2 ground, 3 not classified: a band along the outline


def fruits(split: str, *, size: int, root: Path) -> Samples:
    """Five kinds of fruits in the official layout, fruits-360/Training and Test, a folder a variety.

    "val" is a fifth of the official training pictures, by their names. All splits are views of the same turning fruits:
    other pictures, not other fruits. The originals are of 100 pixels. Returns label `fruit` (int8), its place in
    `KINDS`; mask `fruit`, by `_fruit_region`. Varieties of a kind are together; further apples in extra_apples/train
    and test are taken with them. A `DatasetWarning` says which fruit stands in for one that is not in this copy.
    """
    dataset = registry.get("fruits-360")
    parts = _PARTS["test" if split == "test" else "train"]
    files: list[Path] = []
    fruit: list[int] = []
    for number, word in enumerate(kinds(root).values()):
        folders = [folder for part in parts for folder in _folders(root, part, word)]
        if not folders:
            dataset.require(root / "fruits-360" / parts[0] / f"{word} 1")
        found = [file for folder in folders for file in pictures.of_split(dataset, folder, split)]
        files += found
        fruit += [number] * len(found)
    images = pictures.photos(dataset, files, size=size)
    mask = pictures.regions(dataset, files, _fruit_region, size=size, mode="RGB")
    return Samples(images, pd.DataFrame({"fruit": np.array(fruit, np.int8)}), {"fruit": mask})


def scenes(split: str, *, size: int, root: Path) -> Samples:
    """Intel's six kinds of places, intel-scenes/train and test: label `kind` (int8), place in `SCENES`; no masks."""
    folder = root / "intel-scenes" / ("test" if split == "test" else "train")
    images, kind = _of_kinds(registry.get("intel-scenes"), folder, SCENES, split, size=size)
    return Samples(images, pd.DataFrame({"kind": kind}))


def pets(split: str, *, size: int, root: Path) -> Samples:
    """Oxford-IIIT Pet in its official layout, oxford-iiit-pet/images and annotations.

    The splits are 30, 10 and 60 % of annotations/list.txt, by the pictures' names, so that a picture is in the same
    split in every copy, whole or not. Returns the split's pictures that are in the folder, in the order of the list;
    labels `cat` (bool; else a dog) and `breed` (int, 1 to 37, the list's class); mask `animal`: all that the trimap
    does not call ground, that is with the band along the outline in which its authors leave it open.
    A `DatasetWarning` says how many pictures of the split are not in the folder.
    """
    dataset, folder = registry.get("oxford-iiit-pet"), root / "oxford-iiit-pet"
    table = _here(dataset, split, folder)
    images = pictures.photos(dataset, [folder / "images" / f"{name}.jpg" for name in table["image"]], size=size)
    trimaps = [folder / "annotations" / "trimaps" / f"{name}.png" for name in table["image"]]
    animal = pictures.regions(dataset, trimaps, _animal, size=size)
    labels = pd.DataFrame({"cat": table["species"] == 1, "breed": table["breed"].astype(np.int8)})
    return Samples(images=images, labels=labels.reset_index(drop=True), masks={"animal": animal})


def cats_and_dogs(split: str, *, size: int, root: Path) -> Samples:
    """Kaggle's cats and dogs, cat-and-dog/training_set and test_set: label `cat` (bool; else a dog); no masks."""
    folder = root / "cat-and-dog" / ("test_set" if split == "test" else "training_set")
    images, kind = _of_kinds(registry.get("cat-and-dog"), folder, ("cats", "dogs"), split, size=size)
    return Samples(images, pd.DataFrame({"cat": kind == 0}))


def kinds(root: Path) -> dict[str, str]:
    """The five kinds, each with the word of its folders here, as corn -> Lemon; stand-ins are a `DatasetWarning`."""
    dataset = registry.get("fruits-360")
    dataset.require(root / "fruits-360" / "Training")
    found = {}
    for kind, words in KINDS.items():
        there = [word for word in words if _folders(root, "Training", word)]
        if not there:
            dataset.require(root / "fruits-360" / "Training" / f"{words[0]} 1")
        found[kind] = (there or words)[0]
    stand_ins = [f"{there} for {kind}" for kind, there in found.items() if there != KINDS[kind][0]]
    if stand_ins:
        warnings.warn(
            f"{dataset.title}: this copy has not all of the five fruits; {', '.join(stand_ins)} stand in.",
            registry.DatasetWarning,
            stacklevel=4,
        )
    return found


def _fruit_region(picture: np.ndarray) -> np.ndarray:
    """What is fruit before white: apart from the border, without holes, the thin spit and the outermost pixel."""
    pale = np.pad(picture.min(axis=-1) >= _WHITE, 1, constant_values=True)
    connected = ndimage.label(pale)[0]
    thing = ndimage.binary_fill_holes((connected != connected[0, 0])[1:-1, 1:-1])
    thing = ndimage.binary_opening(thing, iterations=_SPECKS)
    pieces, count = ndimage.label(thing)
    if count > 1:
        thing = pieces == 1 + np.argmax(ndimage.sum_labels(thing, pieces, np.arange(1, count + 1)))
    return ndimage.binary_erosion(thing)


def _folders(root: Path, part: str, word: str) -> list[Path]:
    folder = root / "fruits-360" / part
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.split(" ")[0] == word)


def _of_kinds(
    dataset: registry.Dataset, folder: Path, kinds: Sequence[str], split: str, *, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pictures of a folder a kind, (N, size, size, 3) uint8, and the number of each one's kind, (N,) int8."""
    files = [file for kind in kinds for file in pictures.of_split(dataset, folder / kind, split)]
    number = np.array([kinds.index(file.parent.name) for file in files], np.int8)
    return pictures.photos(dataset, files, size=size), number


def _here(dataset: registry.Dataset, split: str, folder: Path) -> pd.DataFrame:
    """Of the list's lines, "image class species breed" after some that begin with #, those whose pictures are here."""
    path, columns = folder / "annotations" / "list.txt", ["image", "breed", "species", "number"]
    with dataset.reading(path, "it is no list of pictures"):
        table = pd.read_csv(path, sep=" ", comment="#", header=None, names=columns, dtype={"image": str})
        fine = table["species"].isin([1, 2]).all() and table["breed"].between(1, 37).all() and table["image"].is_unique
    if not fine:
        raise dataset.damaged(path, "it has lines without a class (1 to 37), a species (1, 2) or a new name")
    table = table[[pictures.part(name, _PET_SPLITS) == split for name in table["image"]]]
    if table.empty:
        raise dataset.damaged(path, f"it lists no picture of {split}")
    return table[pictures.are_here(dataset, folder / "images", list(table["image"] + ".jpg"), split)]


def _animal(trimap: np.ndarray) -> np.ndarray:
    return trimap != _GROUND
