"""Fruits 360 (Oltean), fruits turning before white; and Intel's scenes, grounds on which they can be pasted."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import ndimage

from biaslib.datasets import pictures, registry
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
SCENES = ("buildings", "forest", "glacier", "mountain", "sea", "street")
_PARTS = {"train": ("Training", "extra_apples/train"), "test": ("Test", "extra_apples/test")}
_WHITE = 228  # a pixel is as good as white from this brightness of its darkest colour on
_SPECKS = 2  # pixels; what is thinner than twice this (the spit that turns the fruit) is not fruit


def load(split: str, *, size: int, root: Path) -> Samples:
    """Five kinds of fruits in the official layout, fruits-360/Training and Test, a folder a variety.

    "val" is a fifth of the official training pictures, by their names. All splits are views of the same turning fruits:
    other pictures, not other fruits. The originals are of 100 pixels.

    Returns:
        label `fruit` (int8), its place in `KINDS`; mask `fruit`, by `_fruit_region`. Varieties of a kind are
        together; further apples in extra_apples/train and test are taken with them.

    Warns:
        DatasetWarning: which fruit stands in for one that is not in this copy.
    """
    dataset = registry.get("fruits-360")
    pictures.check_split("Fruits 360", split)
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


def load_scenes(split: str, *, size: int, root: Path) -> Samples:
    """Intel's six kinds of landscapes and streets, intel-scenes/train and test, in each a folder a kind.

    Returns:
        label `kind` (int8), its place in `SCENES`; no masks.
    """
    pictures.check_split("Intel's scenes", split)
    folder = root / "intel-scenes" / ("test" if split == "test" else "train")
    images, kind = pictures.of_kinds(registry.get("intel-scenes"), folder, SCENES, split, size=size)
    return Samples(images, pd.DataFrame({"kind": kind}))


def kinds(root: Path) -> dict[str, str]:
    """The five kinds, each with the word of the folders that hold it in this copy, such as corn -> Lemon.

    Where another fruit stands in for one that is not there, a `DatasetWarning` says which; where neither is there, a
    `BiaslibError` is raised.
    """
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
    """What is fruit in a picture before white.

    White that is connected to the border is ground; holes (highlights) are filled; what is as thin as the spit on
    which the fruit turns is taken off; the outermost pixel, in which fruit and white are mixed, is left out.
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
