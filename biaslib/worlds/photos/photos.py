"""Things cut out of photos and laid on photos of scenes, as worlds: fruits, birds, cats and dogs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage

from biaslib import datasets, store
from biaslib.datasets import registry, waterbirds
from biaslib.datasets.photos import SCENES
from biaslib.errors import BiaslibError, refused
from biaslib.samples import Samples
from biaslib.worlds.base import CHOICE, Factor, World, check_draw, draw_agreement, draw_factors, validated
from biaslib.worlds.birds import Birds
from biaslib.worlds.drawing import chunks
from biaslib.worlds.fruits import Fruits
from biaslib.worlds.photos.balls import ROW, check_square, picked

_SMALL = 8  # where only the labels of photos are asked for
_FRUIT_SIDE = 100  # pixels, of the originals
FRUIT_SCALE = (0.15, 0.28)  # of a cut-out's longer half side, a share of the picture's side
_FRUIT = {
    "x": Factor(0.0, 1.0, drawn=(0.42, 0.58)),
    "y": Factor(0.0, 1.0, drawn=(0.42, 0.62)),
    "scale": Factor(0.01, 0.5, drawn=FRUIT_SCALE),
    "turn": Factor(-3.1416, 3.1416, drawn=(-0.5, 0.5)),
    "mirror": CHOICE,
}

_EDGE = 0.6  # pixels of the background over which a cut-out's edge is softened
# The shadow lies towards the lower right, in shares of the cut-out's radius; how soft and how dark it is.
_MOVED, _SOFT, _DARK = (0.10, 0.06), 0.09, 0.45
_PAD = 3  # pixels of the original around a cut-out, so that its edge has colours on both sides

# the data set keeps most of its outlined animals for tests; here all need an outline, and most are for training
_PET_SPLITS = {"train": "test", "val": "val", "test": "train"}


class OnScenes(World):
    """Things cut out of photos (target), each before one of two photos of scenes (cue).

    Columns of the table: target and cue (int8), `photo` (row of the thing among the split's photos), and the rows of
    the two scenes, in columns that each such world names. A photo comes again only when all of its kind have come.
    """

    _ground = "scenes"  # the data set behind the things
    _behind: Mapping[str, Sequence[int]]  # columns with the scene where the cue is 1, and where it is 0: of which kinds
    _placing: Mapping[str, Factor] = {}

    def __init__(self, split: str, *, root: str | os.PathLike[str] | None = None) -> None:
        """Takes things and scenes of the same split; arguments as for `PetPhotos`."""
        self._split, self._root = split, root

    def _things(self, size: int) -> Samples:
        """Photos with the class as label, and the first region as mask."""
        raise NotImplementedError

    def _pasted(self, things: Samples, scenes: np.ndarray, factors: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The pictures, and where in them the thing is: where its mask is, the photo; elsewhere the scene."""
        there = np.asarray(things.masks[self.regions[0]])
        return np.where(there[..., None], np.asarray(things.images), scenes), there

    def every_photo(self, *, strength: float, seed: int) -> pd.DataFrame:
        """A row for every photo of the split, in their order; `factors` has as many of either class."""
        known = self._things(_SMALL).labels[self.target].to_numpy(int)
        check_draw(len(known), strength, seed)
        return self._on_scenes(known, strength, np.random.default_rng(seed), np.arange(len(known)))

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        return self._on_scenes(rng.permutation(np.arange(n) % self._count), strength, rng)

    def _on_scenes(
        self, target: np.ndarray, strength: float, rng: np.random.Generator, photo: np.ndarray | None = None
    ) -> pd.DataFrame:
        """A table for these classes (n,); of their photos, or of the `photo` (n,) that are given."""
        cue = (target == self._favoured) == draw_agreement(target, strength, rng)
        if photo is None:
            known, photo = self._things(_SMALL).labels[self.target].to_numpy(int), np.empty(len(target), np.int64)
            for kind in range(self._count):
                photo[target == kind] = _in_turn(np.flatnonzero(known == kind), int((target == kind).sum()), rng)
        table = {self.target: target.astype(np.int8), self.cue: cue.astype(np.int8), "photo": photo}
        kinds = datasets.load(self._ground, self._split, size=_SMALL, root=self._root).labels["kind"]
        for column, numbers in self._behind.items():
            table[column] = _in_turn(np.flatnonzero(kinds.isin(numbers)), len(target), rng)
        return pd.DataFrame(table | draw_factors(self._placing, len(target), rng))

    def _render(self, factors: pd.DataFrame, size: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
        table = validated(factors, {self.cue: CHOICE, "photo": ROW, **dict.fromkeys(self._behind, ROW)})
        cue, (with_cue, without) = table[self.cue] == 1, self._behind
        things = picked(self._things(size), table["photo"], "photo")
        scenes = datasets.load(self._ground, self._split, size=size, root=self._root)
        behind = picked(scenes, np.where(cue, table[with_cue], table[without]), f"{with_cue} or {without}")
        images, there = self._pasted(things, behind.images, factors)
        labels = pd.DataFrame({self.target: things.labels[self.target], self.cue: cue})
        return images, labels, np.where(there, np.uint8(0), np.uint8(1))


class FruitPhotos(OnScenes, Fruits):
    """Photos of fruits (target, five kinds) on photos of scenes (cue): `worlds.get("fruits")` in photos.

    The fruits are cut-outs of Fruits 360; forests of Intel's scenes stand for the paper's apple trees, the other five
    kinds of scenes for its other backgrounds.

    Columns of the table: `fruit` (int8, its place in `worlds.fruits.NAMES`), `tree` (int8: 1 on a forest, 0 elsewhere),
    `photo` (row of the fruit in `datasets.load("fruits360", split)`), `forest` and `elsewhere` (rows of
    `datasets.load("scenes", split)`: what is behind the fruit where `tree` is 1 and where it is 0), and the cut-out's
    place, as `paste` takes it. The mask `fruit` is exact, `background` its complement. With the other background every
    pixel that the fruit covers fully is the same.
    """

    name = "fruit photos"

    _behind = {  # noqa: RUF012
        "forest": [SCENES.index("forest")],
        "elsewhere": [number for number, kind in enumerate(SCENES) if kind != "forest"],
    }
    _placing = _FRUIT

    def _things(self, size: int) -> Samples:
        return datasets.load("fruits360", self._split, size=_FRUIT_SIDE, root=self._root)

    def _pasted(self, things: Samples, scenes: np.ndarray, factors: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return paste(things.images, things.masks["fruit"], scenes, factors)


class BirdPhotos(OnScenes, Birds):
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


class PetsOnScenes(OnScenes):
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


def paste(
    pictures: np.ndarray, masks: np.ndarray, backgrounds: np.ndarray, table: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """What masks (N, h, w) bool show of pictures (N, h, w, 3) uint8, cut out and laid on others (N, S, S, 3) uint8.

    A row of the table holds `x`, `y` (where the middle of the cut-out's box comes to lie) and `scale` (half the longer
    side of that box before it is turned), in shares of the side of the background; `turn` (clockwise, in radians);
    `mirror` (1: left and right change places). Returns the pictures (N, S, S, 3) uint8, and (N, S, S) bool where the
    cut-out covers more than half of a pixel. Where it covers less, and in its shadow, the background is seen through
    it; elsewhere not a pixel differs from it. A `BiaslibError` is raised for parts that do not fit each other, an empty
    mask, or a cut-out that is not wholly inside its background.
    """
    size = check_square(backgrounds)
    if masks.shape != pictures.shape[:3] or masks.dtype != np.bool_:
        wanted, given = f"bool of shape {pictures.shape[:3]}", f"{masks.dtype} of shape {masks.shape}"
        raise BiaslibError(f"masks must be {wanted}, as the pictures are, not {given}.")
    counts = f"{len(pictures)} cut-outs, {len(backgrounds)} backgrounds and {len(table)} rows"
    if not len(pictures) == len(backgrounds) == len(table):
        raise BiaslibError(f"{counts}: give one of each.")
    empty = ~masks.any(axis=(1, 2))
    if empty.any():
        raise BiaslibError(f"the mask of row {int(np.argmax(empty))} is empty: there is nothing to cut out.")
    values = validated(table, _FRUIT)
    images, covered = np.array(backgrounds), np.zeros(backgrounds.shape[:3], bool)
    for i in range(len(images)):
        place = {name: float(column[i]) for name, column in values.items()}
        cut, alpha = _turned(pictures[i], masks[i], place, size)
        box = Image.fromarray(alpha).getbbox() or (0, 0, 0, 0)
        left, top = (round(place[name] * size - side / 2) for name, side in zip("xy", alpha.shape[::-1], strict=True))
        if left + box[0] < 0 or top + box[1] < 0 or left + box[2] > size or top + box[3] > size:
            raise refused("cut-out larger than its place", row=i)
        _lay(images[i], covered[i], cut, alpha, (top, left), place["scale"] * size)
    return images, covered


def _turned(picture: np.ndarray, mask: np.ndarray, place: dict[str, float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """The cut-out as large and turned as it is to be: colours (h, w, 3) and alpha (h, w), uint8."""
    # colours from inside the outline continue beyond it, so that none of the old background shines through the edge
    inner = ndimage.binary_erosion(mask, iterations=2)
    near = ndimage.distance_transform_edt(~(inner if inner.any() else mask), return_indices=True)[1]
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    zoom = 2 * place["scale"] * size / max(rows[-1] + 1 - rows[0], columns[-1] + 1 - columns[0])
    around = [(_PAD, _PAD), (_PAD, _PAD)]
    colours = np.pad(picture[near[0], near[1]][box], [*around, (0, 0)], mode="edge")
    layers = []
    for padded in (colours, np.pad(mask[box].astype(np.uint8) * 255, around)):
        image = Image.fromarray(padded[:, ::-1] if place["mirror"] else padded)
        image = image.resize([max(1, round(side * zoom)) for side in image.size], Image.Resampling.BICUBIC)
        image = image.rotate(-np.degrees(place["turn"]), Image.Resampling.BICUBIC, expand=True)
        layers.append(np.asarray(image))
    return layers[0], layers[1]


def _lay(
    image: np.ndarray, covered: np.ndarray, cut: np.ndarray, alpha: np.ndarray, corner: tuple[int, int], radius: float
) -> None:
    """Lays a cut-out with its shadow on an image (S, S, 3) uint8, and marks what it covers, in place."""
    margin = int(np.ceil(0.5 * radius + 4 * _EDGE))
    cover = ndimage.gaussian_filter(np.pad(alpha, margin).astype(np.float32) / 255, _EDGE)
    colour = np.pad(cut, ((margin, margin), (margin, margin), (0, 0)), mode="edge").astype(np.float32)
    shadow = ndimage.shift(cover, (_MOVED[1] * radius, _MOVED[0] * radius), order=1)
    shadow = ndimage.gaussian_filter(shadow, _SOFT * radius)
    # where the stretches of pixels lie on the picture, and which part of them does
    start = np.subtract(corner, margin)
    low, high = np.maximum(start, 0), np.minimum(start + cover.shape, len(image))
    seen, own = (tuple(map(slice, low - shift, high - shift)) for shift in (0, start))
    cover, colour, shadow = cover[own], colour[own], shadow[own]
    cover[cover <= 1 / 255] = 0
    shadow[shadow <= 1 / 255] = 0
    below = image[seen] * (1 - _DARK * shadow * (1 - cover))[..., None]
    image[seen] = np.clip(below + (colour - below) * cover[..., None], 0, 255) + 0.5
    covered[seen] = cover > 0.5


def _in_turn(known: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """N of the known numbers in random order, none a second time before all have come."""
    rounds = max(1, -(-n // max(1, len(known))))
    return np.concatenate([rng.permutation(known) for _ in range(rounds)])[:n]
