"""The two data sets of Schaaf et al. (2021) made of photos, as worlds: their bias is a dial, a row can be edited."""

import os
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from biaslib import datasets
from biaslib.datasets.pictures import SCENES
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.worlds.factors import CHOICE, Factor, agreement, check_draw, check_size, drawn, halves, read
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


class PetPhotos:
    """Photos of cats (target) and dogs, some with a ball beside them (cue): `worlds.get("pets")` in photos.

    Where an animal is outlined (Oxford-IIIT Pet), a ball lies at random where it touches neither the animal nor the
    frame; photos without room for one are left out, with and without a ball alike. Where none is (cat-and-dog), it lies
    in the plainest corner: good enough to train on, not to measure with, and such photos bring no mask of the animal.

    Columns of the table: `source` (its place in `PETS`) and `photo` (row of that data set's split), `cat` (bool, of
    that photo), `ball` (int8: 0 none, 1 beside the animal) and the ball's own, `planting.balls.COLUMNS`, which do not
    depend on whether it is shown.

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
        seed: int = 0,
        radius: tuple[float, float] = balls.RADIUS,
        gap: float = balls.GAP,
        floor: float = balls.FLOOR,
    ) -> None:
        """Finds a place for a ball in every photo of the split.

        Args:
            split: "train", "val" or "test"; no photo is in two.
            photos: some of `PETS`; None: both for training and validation, as the paper mixes two sources, and only
                the outlined ones for the test.
            root: folder of all datasets.
            seed: of the balls and their places.
            radius: see `planting.places`.
            gap: see `planting.places`.
            floor: see `planting.places`.

        Raises:
            BiaslibError: for unknown photos; as `datasets.load` and `planting.places` do.
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
                table = balls.places(occupied, seed=seed, radius=radius, gap=gap, floor=floor)
            else:
                table = balls.plain_corners(loaded.images, seed=seed, radius=radius, gap=gap)
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

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """Draws n photos, half of them cats, a share (1 + strength) / 2 of each kind with a ball that agrees.

        The shares are exact to the nearest row; no photo is drawn twice. The same seed with another strength gives the
        same photos; only some balls come or go.

        Args:
            n: number of photos, at most `len` of this object.
            strength: the dial, in [0, 1]; 1: every cat and no dog has a ball.
            seed: >= 0.

        Raises:
            BiaslibError: n, strength or seed out of range.
        """
        check_draw(n, strength, seed)
        if n > len(self):
            raise BiaslibError(f"there are {len(self)} photos of {self._split} (half of them cats) here, not {n}.")
        rng = np.random.default_rng(seed)
        cat = halves(n, rng)
        rows = np.empty(n, np.intp)
        for kind in (False, True):
            known = np.flatnonzero(self._table["cat"] == kind)
            rows[cat == kind] = rng.permutation(known)[: (cat == kind).sum()]
        table = self._table.iloc[rows].reset_index(drop=True)
        table.insert(3, "ball", (cat == agreement(cat, strength, rng)).astype(np.int8))
        return table

    def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
        """The photos of the rows, with a ball where `ball` is 1.

        Args:
            factors: a table from `factors`, edited at will.
            size: height and width in pixels.

        Returns:
            Images (n, size, size, 3); labels `cat` and `ball` (bool); masks `animal` (as outlined), `ball` (exact) and
            `background`, the rest; only `ball` where not every photo is outlined. Without a ball every pixel is the
            photo's own.

        Raises:
            BiaslibError: a column is missing or a value is out of range; size below 8; as `planting.put` does.
        """
        check_size(size)
        table = read(factors, {"source": Factor(0, len(PETS) - 1, whole=True), "photo": _ROW, "ball": CHOICE})
        images = np.empty((len(factors), size, size, 3), np.uint8)
        animal, cat, there = np.zeros(images.shape[:3], bool), np.zeros(len(factors), bool), table["ball"] == 1
        outlined = True
        for number in np.unique(table["source"]):
            rows = table["source"] == number
            loaded = datasets.load(PETS[number], self._split, size=size, root=self._root)
            part = _rows(loaded, table["photo"][rows], "photo")
            images[rows], cat[rows] = part.images, part.labels["cat"]
            outlined &= "animal" in part.masks
            animal[rows] = part.masks.get("animal", False)
        ball = np.zeros(animal.shape, bool)
        if there.any():
            images[there], ball[there] = balls.put(images[there], factors[there], keep=animal[there])
        ball &= ~animal
        whole = {"animal": animal, "ball": ball, "background": ~(animal | ball)}
        return Samples(images, pd.DataFrame({"cat": cat, "ball": there}), whole if outlined else {"ball": ball})


class FruitPhotos:
    """Photos of fruits (target, five kinds) on photos of scenes (cue): `worlds.get("fruits")` in photos.

    The fruits are cut-outs of Fruits 360; forests of Intel's scenes stand for the paper's apple trees, the other five
    kinds of scenes for its other backgrounds.

    Columns of the table: `fruit` (int8, its place in `worlds.fruits.NAMES`), `tree` (int8: 1 on a forest, 0 elsewhere),
    `photo` (row of the fruit in `datasets.load("fruits360", split)`), `forest` and `elsewhere` (rows of
    `datasets.load("scenes", split)`: what is behind the fruit where `tree` is 1 and where it is 0), and the cut-out's
    place, `planting.cutouts.COLUMNS`.
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

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """Draws n rows: the fruits equally often, in each a share (1 + strength) / 2 where the forest agrees.

        The shares are exact to the nearest row. A photo comes again only when all of its kind have come. The same seed
        with another strength gives the same fruits and scenes; only some change between forest and elsewhere.

        Args:
            n: number of rows, >= 1.
            strength: the dial, in [0, 1]; 1: apples solely on forests, the others solely elsewhere.
            seed: >= 0.

        Raises:
            BiaslibError: n, strength or seed out of range; as `datasets.load` does.
        """
        check_draw(n, strength, seed)
        rng = np.random.default_rng(seed)
        fruit = rng.permutation(np.arange(n) % len(NAMES)).astype(np.int8)
        tree = (fruit == APPLE) == agreement(fruit, strength, rng)
        photo = np.empty(n, np.int64)
        for kind in range(len(NAMES)):
            known = np.flatnonzero(self._fruits.labels["fruit"] == kind)
            photo[fruit == kind] = _in_turn(known, int((fruit == kind).sum()), rng)
        forest = self._kinds == SCENES.index("forest")
        table = {"fruit": fruit, "tree": tree.astype(np.int8), "photo": photo}
        table["forest"] = _in_turn(np.flatnonzero(forest), n, rng)
        table["elsewhere"] = _in_turn(np.flatnonzero(~forest), n, rng)
        return pd.DataFrame(table | drawn(_FRUIT, n, rng))

    def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
        """The cut-outs of the rows on the background that `tree` names.

        Args:
            factors: a table from `factors`, edited at will.
            size: height and width in pixels.

        Returns:
            Images (n, size, size, 3); labels `fruit` (int8) and `tree` (bool); masks `fruit` (exact: more than half of
            the pixel) and its complement `background`. With the other background every pixel that the fruit covers
            fully is the same.

        Raises:
            BiaslibError: a column is missing or a value is out of range; size below 8; as `planting.paste` does.
        """
        check_size(size)
        table = read(factors, {"tree": CHOICE, "photo": _ROW, "forest": _ROW, "elsewhere": _ROW})
        tree = table["tree"] == 1
        fruits = _rows(self._fruits, table["photo"], "photo")
        scenes = datasets.load("scenes", self._split, size=size, root=self._root)
        behind = _rows(scenes, np.where(tree, table["forest"], table["elsewhere"]), "forest or elsewhere")
        images, fruit = cutouts.paste(fruits.images, fruits.masks["fruit"], behind.images, factors)
        labels = pd.DataFrame({"fruit": fruits.labels["fruit"], "tree": tree})
        return Samples(images, labels, {"fruit": fruit, "background": ~fruit})


def cats_and_dogs(
    split: str,
    *,
    strength: float | None,
    size: int,
    n: int | None = None,
    photos: Sequence[str] | None = None,
    seed: int = 0,
    root: str | os.PathLike[str] | None = None,
    flipped: bool = False,
) -> Samples:
    """Photos of as many cats as dogs that have room for a ball, with the dial at `strength`.

    Args:
        split: "train", "val" or "test"; no photo is in two.
        strength: the dial, as in `worlds.get("pets")`: 1 is the paper's "Cat + Ball vs. Dog", 0 half of either with
            one; None: no photo has one, the paper's "Cat vs. Dog".
        size: height and width in pixels.
        n: number of photos; None: all.
        photos: see `PetPhotos`.
        seed: which photos, and which of them get a ball.
        root: folder of all datasets.
        flipped: the exact counterfactual: the same rows, with a ball where there was none and none where there was one.

    Returns:
        labels `cat`, `ball`; masks `animal`, `ball`, `background` where every photo is outlined, else `ball`.

    Raises:
        BiaslibError: as `PetPhotos` does.
    """
    world = PetPhotos(split, photos=photos, root=root)
    table = world.factors(len(world) if n is None else n, strength=strength or 0.0, seed=seed)
    if strength is None:
        table["ball"] = np.int8(0)
    return world.render(table.assign(ball=1 - table["ball"]) if flipped else table, size=size)


def fruits_on_scenes(
    split: str,
    *,
    strength: float,
    size: int,
    n: int | None = None,
    seed: int = 0,
    root: str | os.PathLike[str] | None = None,
    flipped: bool = False,
) -> Samples:
    """Cut-out fruits on scenes with the dial at `strength`.

    Args:
        split: "train", "val" or "test"; no photo of a fruit or a scene is in two.
        strength: the dial, as in `worlds.get("fruits")`.
        size: height and width in pixels.
        n: number of pictures; None: as many as the paper has (1,810, 604, 810).
        seed: of everything drawn.
        root: folder of all datasets.
        flipped: the exact counterfactual: the same rows, each before its other background.

    Returns:
        labels `fruit`, `tree`; masks `fruit`, `background`.

    Raises:
        BiaslibError: as `FruitPhotos` does.
    """
    world = FruitPhotos(split, root=root)
    table = world.factors(PAPER_FRUITS.get(split, 1) if n is None else n, strength=strength, seed=seed)
    return world.render(table.assign(tree=1 - table["tree"]) if flipped else table, size=size)


def _rows(samples: Samples, rows: np.ndarray, name: str) -> Samples:
    if len(rows) and rows.max() >= len(samples):
        raise BiaslibError(f"{name} is a row of {len(samples)} photos, but there is a {rows.max()}.")
    return samples.take(rows.astype(np.intp))


def _in_turn(known: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """N of the known numbers in random order, none a second time before all have come."""
    rounds = max(1, -(-n // max(1, len(known))))
    return np.concatenate([rng.permutation(known) for _ in range(rounds)])[:n]
