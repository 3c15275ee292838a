"""Fruits 360 (Oltean): fruits turning before white, and what is fruit in their pictures."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import ndimage

from biaslib.datasets import decoded, pictures, registry
from biaslib.samples import Samples

# The five kinds of Schaaf et al. (2021) in the order of the generated world `fruits`, each with the first word of the
# folders that hold it ("Apple Braeburn 1"), and with what stands in for it in a copy that lacks it: the fruit that is
# nearest to it in colour.
KINDS: Mapping[str, tuple[str, ...]] = {
    "apple": ("Apple",),
    "banana": ("Banana",),
    "corn": ("Corn", "Lemon"),
    "peach": ("Peach", "Orange"),
    "pineapple": ("Pineapple",),
}
_PARTS = {"train": ("Training", "extra_apples/train"), "test": ("Test", "extra_apples/test")}
_WHITE = 228  # a pixel is as good as white from this brightness of its darkest colour on
_SPECKS = 2  # pixels; what is thinner than twice this (the spit that turns the fruit) is not fruit


def load(split: str, *, size: int, root: Path) -> Samples:
    """Five kinds of fruits in the official layout, fruits-360/Training and Test, a folder a variety.

    "val" is a fifth of the official training pictures, by their names. All splits are views of the same turning fruits:
    other pictures, not other fruits. The originals are of 100 pixels.

    Returns:
        label `fruit` (int8), its place in `KINDS`; mask `fruit`, see `fruit_region`. Varieties of a kind are
        together; further apples in extra_apples/train and test are taken with them.

    Warns:
        DatasetWarning: which fruit stands in for one that is not in this copy.
    """
    dataset = registry.get("fruits-360")
    pictures.check_split("Fruits 360", split, pictures.SPLITS)
    parts = _PARTS["test" if split == "test" else "train"]
    files: list[Path] = []
    fruit: list[int] = []
    for number, word in enumerate(kinds(root).values()):
        folders = [folder for part in parts for folder in _folders(root, part, word)]
        if not folders:
            registry.require(dataset, root / "fruits-360" / parts[0] / f"{word} 1")
        found = [file for folder in folders for file in pictures.of_split(dataset, folder, split)]
        files += found
        fruit += [number] * len(found)
    images = decoded.photos(dataset, files, size=size)
    mask = decoded.regions(dataset, files, fruit_region, size=size, mode="RGB")
    return Samples(images, pd.DataFrame({"fruit": np.array(fruit, np.int8)}), {"fruit": mask})


def kinds(root: Path) -> dict[str, str]:
    """The five kinds, each with the word of the folders that hold it in this copy, such as corn -> Lemon.

    Raises:
        BiaslibError: where neither a kind nor what could stand in for it is there.

    Warns:
        DatasetWarning: which fruit stands in for one that is not there.
    """
    dataset = registry.get("fruits-360")
    registry.require(dataset, root / "fruits-360" / "Training")
    found = {}
    for kind, words in KINDS.items():
        there = [word for word in words if _folders(root, "Training", word)]
        if not there:
            registry.require(dataset, root / "fruits-360" / "Training" / f"{words[0]} 1")
        found[kind] = there[0] if there else words[0]
    stand_ins = [f"{there} for {kind}" for kind, there in found.items() if there != KINDS[kind][0]]
    if stand_ins:
        warnings.warn(
            f"{dataset.title}: this copy has not all of the five fruits; {', '.join(stand_ins)} stand in.",
            registry.DatasetWarning,
            stacklevel=4,
        )
    return found


def fruit_region(picture: np.ndarray) -> np.ndarray:
    """What is fruit in a picture before white.

    White that is connected to the border is ground; holes (highlights) are filled; what is as thin as the spit on
    which the fruit turns is taken off; the outermost pixel, in which fruit and white are mixed, is left out.

    Args:
        picture: (H, W, 3) uint8.

    Returns:
        (H, W) bool; nowhere where all is white.
    """
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
