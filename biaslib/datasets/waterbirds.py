"""Waterbirds (Sagawa et al. 2020): birds of CUB-200-2011 pasted on landscapes of Places365; and these themselves."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import pictures, registry
from biaslib.errors import BiaslibError
from biaslib.samples import Samples

# the kinds of places, as folders of Places365, and which of them are land and water: as in the released script, too
PLACES = ("b/bamboo_forest", "f/forest/broadleaf", "o/ocean", "l/lake/natural")
LAND, WATER = (0, 1), (2, 3)
_PLACE_SPLITS = {"train": 0.4, "val": 0.1, "test": 0.5}  # as many as CUB has birds in each


def load(name: str, split: str, *, size: int, root: Path) -> Samples:
    """Waterbirds in its official layout.

    "waterbirds" is the released set, bias 95 %; "waterbirds-NN" is one made at bias NN % by the official script, in
    waterbird_completeNN_forest2water2/ with metadata.csv. Pictures are resized as a whole, as the official loader does
    before its crop. Returns labels `waterbird` and `background` (True: water), as the generated world `birds` has them;
    masks `bird` and `background` where CUB's segmentations lie in CUB_200_2011/segmentations/, else none.
    """
    found = re.fullmatch(r"waterbirds(?:-(\d{2,3}))?", name)
    if found is None:
        raise BiaslibError(f"Waterbirds goes by waterbirds or waterbirds-NN with its bias in percent, not {name!r}.")
    dataset, folder = registry.get("waterbirds"), root / f"waterbird_complete{found[1] or 95}_forest2water2"
    with dataset.reading(folder / "metadata.csv", "it is no table with img_filename, y, split and place"):
        table = pd.read_csv(folder / "metadata.csv")[["img_filename", "y", "split", "place"]]
    rows = table[table["split"] == pictures.SPLITS.index(split)]
    images = pictures.photos(dataset, [folder / name for name in rows["img_filename"]], size=size)
    labels = pd.DataFrame({"waterbird": rows["y"].to_numpy() == 1, "background": rows["place"].to_numpy() == 1})
    return Samples(images=images, labels=labels, masks=_masks(rows["img_filename"], root=root, size=size))


def cub(split: str, *, size: int, root: Path) -> Samples:
    """CUB-200-2011: label `waterbird` by species, masks `bird`, `background`; "val" is a fifth of the training part."""
    dataset = registry.get("cub")
    names = cub_files(root, split)
    images = pictures.photos(dataset, [root / "CUB_200_2011" / "images" / name for name in names], size=size)
    dataset.require(root / "CUB_200_2011" / "segmentations")
    return Samples(images, pd.DataFrame({"waterbird": _are_waterbirds(names)}), _masks(names, root=root, size=size))


def places365(split: str, *, size: int, root: Path) -> Samples:
    """The places of Waterbirds, 40, 10, 50 % by their names: label `kind` (int8), its place in `PLACES`; no masks."""
    names = place_files(root, split)
    folder = root / "places365" / "data_large"
    images = pictures.photos(registry.get("places365"), [folder / name[1:] for name in names], size=size)
    kinds = [PLACES.index(name[1:].rpartition("/")[0]) for name in names]
    return Samples(images, pd.DataFrame({"kind": np.array(kinds, np.int8)}))


def place_files(root: Path, split: str) -> list[str]:
    """The names that metadata.csv has for the places of a split, such as /o/ocean/00000001.jpg."""
    dataset, folder = registry.get("places365"), root / "places365" / "data_large"
    names = [f"/{kind}/{file.name}" for kind in PLACES for file in pictures.listed(dataset, folder / kind)]
    return [name for name in names if pictures.part(name, _PLACE_SPLITS) == split]


def cub_files(root: Path, split: str) -> pd.Series:
    """The names of CUB's pictures of a split, in the order of images.txt; the index is their place there, from 0 on."""
    dataset = registry.get("cub")
    folder = root / "CUB_200_2011"
    images = _numbered(dataset, folder / "images.txt")
    is_training = _numbered(dataset, folder / "train_test_split.txt")
    if len(images) != len(is_training):
        raise dataset.damaged(folder / "images.txt", "it and train_test_split.txt differ in length")
    parts = np.where(is_training == "0", "test", [pictures.part(name, pictures.TRAINING_PARTS) for name in images])
    return images[parts == split]


def cub_test_labels(root: Path) -> np.ndarray:
    """Which birds of CUB's test set, that of every Waterbirds, are waterbirds, as in images.txt: (5794,) bool."""
    return _are_waterbirds(cub_files(root, "test"))


def _are_waterbirds(names: pd.Series) -> np.ndarray:
    species = names.str.split("/").str[0].str.lower()
    return species.str.contains("|".join(registry.WORDS["waterbirds"])).to_numpy(dtype=bool)


def _masks(filenames: pd.Series, *, root: Path, size: int) -> dict[str, np.ndarray]:
    folder = root / "CUB_200_2011" / "segmentations"
    if not folder.exists():
        return {}
    files = [folder / Path(name).with_suffix(".png") for name in filenames]
    bird = pictures.segmentations(registry.get("cub"), files, size=size)
    return {"bird": bird, "background": ~bird}


def _numbered(dataset: registry.Dataset, path: Path) -> pd.Series:
    """Lines of "number value"."""
    with dataset.reading(path):
        return pd.read_csv(path, sep=" ", header=None, names=["number", "value"], dtype=str)["value"]
