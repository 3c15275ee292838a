"""Photos of birds, or cats and dogs, pasted where they are on photos of scenes, as Waterbirds (Sagawa et al. 2020)."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from biaslib import datasets, store
from biaslib.datasets import registry, waterbirds
from biaslib.datasets.photos import SCENES
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.worlds.base import check_draw
from biaslib.worlds.birds import Birds
from biaslib.worlds.drawing import chunks
from biaslib.worlds.photos.photos import SMALL, OnScenes

# the data set keeps most of its outlined animals for tests; here all need an outline, and most are for training
_PET_SPLITS = {"train": "test", "val": "val", "test": "train"}


class _Composites(OnScenes):
    """Where the mask of a photo is, the photo; elsewhere the scene."""

    def _pasted(self, things: Samples, scenes: np.ndarray, factors: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        there = np.asarray(things.masks[self.regions[0]])
        return np.where(there[..., None], np.asarray(things.images), scenes), there

    def every_photo(self, *, strength: float, seed: int) -> pd.DataFrame:
        """A row for every photo of the split, in their order; `factors` has as many of either class."""
        known = self._things(SMALL).labels[self.target].to_numpy(int)
        check_draw(len(known), strength, seed)
        return self._on_scenes(known, strength, np.random.default_rng(seed), np.arange(len(known)))


class BirdPhotos(_Composites, Birds):
    """Waterbirds: birds of CUB-200-2011 (waterbirds: target) on photos of Places365, of water or land (cue).

    `worlds.get("birds")` in photos: the species that count as waterbirds, and the four kinds of places, are those of
    the script that made Waterbirds. Columns as `OnScenes` says, with the scenes in `water` and `land`.
    """

    name = "bird photos"

    _ground = "places365"
    _behind = {"water": waterbirds.WATER, "land": waterbirds.LAND}  # noqa: RUF012

    def _things(self, size: int) -> Samples:
        return datasets.load("cub", self._split, size=size, root=self._root)

    def files(self, table: pd.DataFrame) -> pd.DataFrame:
        """Which photos a table's rows are made of: `img_id`, `img_filename` and `place_filename` of metadata.csv."""
        root = registry.root(self._root)
        birds = waterbirds.cub_files(root, self._split).iloc[table["photo"]]
        scene = np.where(table["background"] == 1, table["water"], table["land"])
        places = np.array(waterbirds.place_files(root, self._split))[scene]
        return pd.DataFrame({"img_id": birds.index + 1, "img_filename": birds.to_numpy(), "place_filename": places})


class PetsOnScenes(_Composites):
    """Cats (target) and dogs of Oxford-IIIT Pet on the sea or in a forest (cue), of Intel's scenes.

    Waterbirds' construction with photos that can be had more freely. Most animals with an outline are here in "train".
    Columns as `OnScenes` says, with the scenes in `sea` and `forest`.
    """

    name = "pets on scenes"
    target = "cat"
    cue = "background"
    attributes: tuple[str, ...] = ("cat", "background")
    regions: tuple[str, ...] = ("animal", "background")

    _behind = {"sea": [SCENES.index("sea")], "forest": [SCENES.index("forest")]}  # noqa: RUF012

    def _things(self, size: int) -> Samples:
        return datasets.load("pets", _PET_SPLITS.get(self._split, self._split), size=size, root=self._root)


def write_waterbirds(bias: int, *, root: str | os.PathLike[str] | None = None, seed: int = 0, size: int = 256) -> Path:
    """Makes Waterbirds of a bias in its official layout, which `datasets.load("waterbirds-NN", ...)` reads.

    `bias` is the share of training birds in their usual place in per cent, 50 to 100; in validation and test it is
    50 %. Every bird of CUB is there once, under its own name, as a JPEG of size x size pixels. As in the authors'
    script the bird stays in its place. Unlike there, picture and scene are resized as a whole, the places of the three
    splits differ, and which birds are for validation (a fifth of CUB's training pictures) follows from their names.

    Returns the folder, waterbird_completeNN_forest2water2 under `root`, which appears when it is whole. A
    `BiaslibError` is raised for a bias out of range, where the folder is there already or cannot be written, and where
    birds, outlines or places are missing (with their source, licence and how to get them).
    """
    if bias not in range(50, 101):
        raise BiaslibError(f"bias is the share in per cent, a whole number from 50 to 100, not {bias!r}.")
    folder = registry.root(root) / f"waterbird_complete{bias}_forest2water2"
    if folder.exists():
        raise BiaslibError(f"{folder} is there already: remove it, or choose another bias.")
    tables = []
    with store.replacing(folder) as partial:
        for number, split in enumerate(("train", "val", "test")):
            world = BirdPhotos(split, root=root)
            rows = world.every_photo(strength=bias / 50 - 1 if split == "train" else 0.0, seed=seed)
            files = world.files(rows)
            for part in chunks(len(rows), size):
                pictures = world.render(rows[part], size=size, regions=()).images
                for name, picture in zip(files["img_filename"][part], pictures, strict=True):
                    (partial / name).parent.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(picture).save(partial / name, quality=95)
            tables.append(files.assign(y=rows["waterbird"], split=number, place=rows["background"]))
        columns = ["img_id", "img_filename", "y", "split", "place", "place_filename"]
        pd.concat(tables).sort_values("img_id")[columns].to_csv(partial / "metadata.csv", index=False)
    return folder
