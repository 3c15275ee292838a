"""The two data sets of Schaaf et al. (2021) made of photos, as worlds: their bias is a dial, a row can be edited."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pandas as pd

from biaslib import datasets
from biaslib.datasets.fruits import SCENES
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.worlds.base import DrawnWorld
from biaslib.worlds.drawing import rows_of_each
from biaslib.worlds.factors import CHOICE, Factor, balanced_bool, draw_agreement, draw_factors, validated
from biaslib.worlds.fruits import APPLE, NAMES
from biaslib.worlds.photos import balls, cutouts

# Data sets with cats and dogs; only the first has their outlines.
PETS = ("pets", "cat-and-dog")
# Schaaf et al. 2021, section 3.1
PAPER_FRUITS = {"train": 1810, "val": 604, "test": 810}

_PLACES = 224  # the side at which free places are looked for, so that a ball lies where it lies at every size
_FRUIT_SIDE = 100  # pixels, of the originals
_ROW = Factor(0, 2**31 - 1, whole=True)
FRUIT_SCALE = (0.15, 0.28)  # of a cut-out's longer half side, a share of the picture's side
_FRUIT = {
    "x": Factor(0.0, 1.0, drawn=(0.42, 0.58)),
    "y": Factor(0.0, 1.0, drawn=(0.42, 0.62)),
    "scale": Factor(0.01, 0.5, drawn=FRUIT_SCALE),
    "turn": Factor(-3.1416, 3.1416, drawn=(-0.5, 0.5)),
    "mirror": CHOICE,
}


class PetPhotos(DrawnWorld):
    """Photos of cats (target) and dogs, some with a ball beside them (cue): `worlds.get("pets")` in photos.

    Where an animal is outlined (Oxford-IIIT Pet), a ball lies at random where it touches neither the animal nor the
    frame; photos without room for one are left out, with and without a ball alike. Where none is (cat-and-dog), it lies
    in the plainest corner: good enough to train on, not to measure with, and such photos bring no mask of the animal.

    Columns of the table: `source` (its place in `PETS`) and `photo` (row of that data set's split), `cat` (bool, of
    that photo), `ball` (int8: 0 none, 1 beside the animal) and the ball's own, `photos.balls.COLUMNS`, which do not
    depend on whether it is shown. No photo is drawn twice: `factors` gives at most `len` of this object rows, half of
    them cats. Masks are `animal` (as outlined), `ball` (exact) and `background`, the rest; only `ball` where not every
    photo is outlined. Without a ball every pixel is the photo's own.

    Attributes:
        left_out: how many photos of the split have no room for a ball.
        counts: how many photos of each source are used at most.
    """

    name = "pet photos"
    target = "cat"
    cue = "ball"
    attributes: tuple[str, ...] = ("cat", "ball")
    regions: tuple[str, ...] = ("animal", "ball", "background")

    def __init__(
        self,
        split: str,
        *,
        photos: Sequence[str] | None = None,
        root: str | os.PathLike[str] | None = None,
        radius: tuple[float, float] = balls.RADIUS,
    ) -> None:
        """Finds a place for a ball in every photo of the split.

        Args:
            split: "train", "val" or "test"; no photo is in two.
            photos: some of `PETS`; None: both for training and validation, as the paper mixes two sources, and only
                the outlined ones for the test.
            root: folder of all datasets.
            radius: see `photos.places`.

        Raises:
            BiaslibError: for unknown photos; as `datasets.load` and `photos.places` do.
        """
        sources = PETS[: 1 if split == "test" else None] if photos is None else tuple(photos)
        if not sources or set(sources) - set(PETS):
            raise BiaslibError(f"photos must be some of {', '.join(PETS)}, not {', '.join(sources) or 'none'}.")
        self._split, self._root, self._sources = split, root, sources
        tables = []
        for source in sources:
            loaded = datasets.load(source, split, size=_PLACES, root=root)
            if "animal" in loaded.masks:
                occupied = np.asarray(loaded.masks["animal"])
                table = balls.places(occupied, radius=radius)
            else:
                table = balls.plain_corners(loaded.images, radius=radius)
            table.insert(0, "source", np.int8(PETS.index(source)))
            table.insert(1, "photo", np.arange(len(table)))
            table.insert(2, "cat", loaded.labels["cat"])
            tables.append(table)
        table = pd.concat(tables, ignore_index=True)
        free = table["ball_x"].notna()
        self._table = table[free].reset_index(drop=True)
        self.left_out = int((~free).sum())
        self.counts = {source: int((self._table["source"] == PETS.index(source)).sum()) for source in sources}

    def __len__(self) -> int:
        """How many photos can be drawn: as many cats as dogs."""
        return 2 * int(min(self._table["cat"].sum(), (~self._table["cat"]).sum()))

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        if n > len(self):
            raise BiaslibError(f"there are {len(self)} photos of {self._split} (half of them cats) here, not {n}.")
        cat = balanced_bool(n, rng)
        rows = np.empty(n, np.intp)
        for kind in (False, True):
            known = np.flatnonzero(self._table["cat"] == kind)
            rows[cat == kind] = rng.permutation(known)[: (cat == kind).sum()]
        table = self._table.iloc[rows].reset_index(drop=True)
        table.insert(3, "ball", (cat == draw_agreement(cat, strength, rng)).astype(np.int8))
        return table

    def render(self, factors: pd.DataFrame, *, size: int = 64, regions: Sequence[str] | None = None) -> Samples:
        """As every world does; only the mask `ball` where not every photo is outlined."""
        samples = super().render(factors, size=size, regions=regions)
        if factors["source"].eq(0).all():
            return samples
        return replace(samples, masks={name: mask for name, mask in samples.masks.items() if name == self.cue})

    def _render(self, factors: pd.DataFrame, size: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
        table = validated(factors, {"source": Factor(0, len(PETS) - 1, whole=True), "photo": _ROW, "ball": CHOICE})
        images = np.empty((len(factors), size, size, 3), np.uint8)
        animal, cat, there = np.zeros(images.shape[:3], bool), np.zeros(len(factors), bool), table["ball"] == 1
        for source, rows in rows_of_each(table["source"], PETS):
            part = _rows(datasets.load(source, self._split, size=size, root=self._root), table["photo"][rows], "photo")
            images[rows], cat[rows] = part.images, part.labels["cat"]
            animal[rows] = part.masks.get("animal", False)
        ball = np.zeros(animal.shape, bool)
        if there.any():
            images[there], ball[there] = balls.put(images[there], factors[there], keep=animal[there])
        region_index = np.select([animal, ball], [np.uint8(0), np.uint8(1)], np.uint8(2))
        return images, pd.DataFrame({"cat": cat, "ball": there}), region_index


class FruitPhotos(DrawnWorld):
    """Photos of fruits (target, five kinds) on photos of scenes (cue): `worlds.get("fruits")` in photos.

    The fruits are cut-outs of Fruits 360; forests of Intel's scenes stand for the paper's apple trees, the other five
    kinds of scenes for its other backgrounds.

    Columns of the table: `fruit` (int8, its place in `worlds.fruits.NAMES`), `tree` (int8: 1 on a forest, 0 elsewhere),
    `photo` (row of the fruit in `datasets.load("fruits360", split)`), `forest` and `elsewhere` (rows of
    `datasets.load("scenes", split)`: what is behind the fruit where `tree` is 1 and where it is 0), and the cut-out's
    place, `photos.cutouts.COLUMNS`. A photo comes again only when all of its kind have come. The mask `fruit` is exact,
    `background` its complement. With the other background every pixel that the fruit covers fully is the same.
    """

    name = "fruit photos"
    target = "fruit"
    cue = "tree"
    attributes: tuple[str, ...] = ("fruit", "tree")
    regions: tuple[str, ...] = ("fruit", "background")

    def __init__(self, split: str, *, root: str | os.PathLike[str] | None = None) -> None:
        """Args: as for `PetPhotos`; fruits and scenes are of the same split."""
        self._split, self._root = split, root

    @cached_property
    def _fruits(self) -> Samples:
        return datasets.load("fruits360", self._split, size=_FRUIT_SIDE, root=self._root)

    @cached_property
    def _kinds(self) -> np.ndarray:
        return datasets.load("scenes", self._split, size=_PLACES, root=self._root).labels["kind"].to_numpy()

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        fruit = rng.permutation(np.arange(n) % len(NAMES)).astype(np.int8)
        tree = (fruit == APPLE) == draw_agreement(fruit, strength, rng)
        photo = np.empty(n, np.int64)
        for kind in range(len(NAMES)):
            known = np.flatnonzero(self._fruits.labels["fruit"] == kind)
            photo[fruit == kind] = _in_turn(known, int((fruit == kind).sum()), rng)
        forest = self._kinds == SCENES.index("forest")
        table = {"fruit": fruit, "tree": tree.astype(np.int8), "photo": photo}
        table["forest"] = _in_turn(np.flatnonzero(forest), n, rng)
        table["elsewhere"] = _in_turn(np.flatnonzero(~forest), n, rng)
        return pd.DataFrame(table | draw_factors(_FRUIT, n, rng))

    def _render(self, factors: pd.DataFrame, size: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
        table = validated(factors, {"tree": CHOICE, "photo": _ROW, "forest": _ROW, "elsewhere": _ROW})
        tree = table["tree"] == 1
        fruits = _rows(self._fruits, table["photo"], "photo")
        scenes = datasets.load("scenes", self._split, size=size, root=self._root)
        behind = _rows(scenes, np.where(tree, table["forest"], table["elsewhere"]), "forest or elsewhere")
        images, fruit = cutouts.paste(fruits.images, fruits.masks["fruit"], behind.images, factors)
        labels = pd.DataFrame({"fruit": fruits.labels["fruit"], "tree": tree})
        return images, labels, np.where(fruit, np.uint8(0), np.uint8(1))


def _rows(samples: Samples, rows: np.ndarray, name: str) -> Samples:
    if len(rows) and rows.max() >= len(samples):
        raise BiaslibError(f"{name} is a row of {len(samples)} photos, but there is a {rows.max()}.")
    return samples.take(rows.astype(np.intp))


def _in_turn(known: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """N of the known numbers in random order, none a second time before all have come."""
    rounds = max(1, -(-n // max(1, len(known))))
    return np.concatenate([rng.permutation(known) for _ in range(rounds)])[:n]
