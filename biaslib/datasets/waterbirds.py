"""Waterbirds (Sagawa et al. 2020): birds of CUB-200-2011 pasted on landscapes of Places365."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import pictures, registry
from biaslib.errors import BiaslibError
from biaslib.samples import Samples

_SPLITS = {"train": 0, "val": 1, "test": 2}

# the 17 kinds whose species count as waterbirds, as in the released generate_waterbirds.py
_WATERBIRDS = (
    "albatross", "auklet", "cormorant", "frigatebird", "fulmar", "gull", "jaeger", "kittiwake", "pelican", "puffin",
    "tern", "gadwall", "grebe", "mallard", "merganser", "guillemot", "pacific_loon",
)  # fmt: skip


def load(name: str, split: str, *, size: int, root: Path) -> Samples:
    """Waterbirds in its official layout.

    "waterbirds" is the released set, bias 95 %; "waterbirds-NN" is one made at bias NN % by the official script, in
    waterbird_completeNN_forest2water2/ with metadata.csv. Pictures are resized as a whole, as the official loader does
    before its crop. Returns labels `waterbird` and `background` (True: water), as the generated world `birds` has them;
    masks `bird` and `background` where CUB's segmentations lie in CUB_200_2011/segmentations/, else none.
    """
    dataset = registry.get("waterbirds")
    pictures.check_split("Waterbirds", split, list(_SPLITS))
    folder = root / f"waterbird_complete{_bias(name)}_forest2water2"
    table = _metadata(dataset, folder / "metadata.csv")
    rows = table[table["split"] == _SPLITS[split]]
    images = pictures.photos(dataset, [folder / name for name in rows["img_filename"]], size=size)
    labels = pd.DataFrame({"waterbird": rows["y"].to_numpy() == 1, "background": rows["place"].to_numpy() == 1})
    return Samples(images=images, labels=labels, masks=_masks(rows["img_filename"], root=root, size=size))


def cub_test_labels(root: Path) -> np.ndarray:
    """Which birds of CUB's official test set are waterbirds, in the order of images.txt: (5794,) bool.

    The test images of every Waterbirds set are these, in this order, whatever its bias; only the backgrounds differ.
    """
    dataset = registry.get("cub")
    folder = root / "CUB_200_2011"
    images = _numbered(dataset, folder / "images.txt")
    is_training = _numbered(dataset, folder / "train_test_split.txt")
    if len(images) != len(is_training):
        raise dataset.damaged(folder / "images.txt", "it and train_test_split.txt differ in length")
    species = images.str.split("/").str[0].str.lower()
    return species[is_training == "0"].str.contains("|".join(_WATERBIRDS)).to_numpy(dtype=bool)


def _bias(name: str) -> str:
    if name == "waterbirds":
        return "95"
    found = re.fullmatch(r"waterbirds-(\d{2,3})", name)
    if found is None:
        raise BiaslibError(f"Waterbirds goes by waterbirds or waterbirds-NN with its bias in percent, not {name!r}.")
    return found[1]


def _metadata(dataset: registry.Dataset, path: Path) -> pd.DataFrame:
    dataset.require(path)
    try:
        return pd.read_csv(path)[["img_filename", "y", "split", "place"]]
    except (KeyError, ValueError) as error:
        raise dataset.damaged(path, f"it is no table with img_filename, y, split and place: {error}") from error


def _masks(filenames: pd.Series, *, root: Path, size: int) -> dict[str, np.ndarray]:
    folder = root / "CUB_200_2011" / "segmentations"
    if not folder.exists():
        return {}
    files = [folder / Path(name).with_suffix(".png") for name in filenames]
    bird = pictures.segmentations(registry.get("cub"), files, size=size)
    return {"bird": bird, "background": ~bird}


def _numbered(dataset: registry.Dataset, path: Path) -> pd.Series:
    """Lines of "number value"."""
    dataset.require(path)
    try:
        return pd.read_csv(path, sep=" ", header=None, names=["number", "value"], dtype=str)["value"]
    except ValueError as error:
        raise dataset.damaged(path, str(error)) from error
