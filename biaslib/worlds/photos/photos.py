"""The two data sets of Schaaf et al. (2021) made of photos, as worlds; cut-outs of one photo laid on another."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage

from biaslib import datasets
from biaslib.datasets.photos import SCENES
from biaslib.errors import BiaslibError, refused
from biaslib.samples import Samples
from biaslib.worlds.base import CHOICE, Factor, World, balanced_bool, draw_agreement, draw_factors, validated
from biaslib.worlds.drawing import rows_of_each
from biaslib.worlds.fruits import Fruits
from biaslib.worlds.pets import Pets
from biaslib.worlds.photos import balls

# Data sets with cats and dogs; only the first has their outlines.
_PETS = ("pets", "cat-and-dog")

_PLACES = 224  # the side at which free places are looked for, so that a ball lies where it lies at every size
SMALL = 8  # where only the labels of photos are asked for
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

_EDGE = 0.6  # pixels of the background over which a cut-out's edge is softened
# The shadow lies towards the lower right, in shares of the cut-out's radius; how soft and how dark it is.
_MOVED, _SOFT, _DARK = (0.10, 0.06), 0.09, 0.45
_PAD = 3  # pixels of the original around a cut-out, so that its edge has colours on both sides


class PetPhotos(Pets):
    """Photos of cats (target) and dogs, some with a ball beside them (cue): `worlds.get("pets")` in photos.

    A ball lies in the plainest corner of its photo. Where the animal is outlined (Oxford-IIIT Pet), it is the plainest
    of the corners in which the ball touches no animal; photos without such a corner are left out, with and without a
    ball alike. Where it is not (cat-and-dog), the ball may touch it: enough to train on, and there is no mask of it.

    Columns of the table: `source` (0 Oxford-IIIT Pet, 1 cat-and-dog) and `photo` (row of that data set's split), `cat`
    (bool, of that photo), `ball` (int8: 0 none, 1 beside the animal) and those of `photos.plain_corners`, which do not
    depend on whether it is shown. No photo is drawn twice: `factors` gives at most `len` of this object rows, half
    of them cats. Masks are `animal` (as outlined), `ball` (exact) and `background`, the rest; only `ball` where not
    every photo is outlined. Without a ball every pixel is the photo's own.

    `left_out` is how many photos of the split have no room for a ball, `counts` how many of each source are used.
    """

    name = "pet photos"

    def __init__(
        self, split: str, *, root: str | os.PathLike[str] | None = None, radius: tuple[float, float] = balls.RADIUS
    ) -> None:
        """Finds a place for a ball, of a `radius` as in `photos.plain_corners`, in every photo of the split.

        No photo is in two of the splits "train", "val" and "test". The test has outlined photos only; the others mix
        both sources, as the paper does. `root` is the folder of all datasets. A `BiaslibError` is raised as
        `datasets.load` and `photos.plain_corners` do.
        """
        sources = _PETS[: 1 if split == "test" else None]
        self._split, self._root = split, root
        tables = []
        for source in sources:
            loaded = datasets.load(source, split, size=_PLACES, root=root)
            table = balls.plain_corners(loaded.images, occupied=loaded.masks.get("animal"), radius=radius)
            own = {"source": np.int8(_PETS.index(source)), "photo": np.arange(len(table)), "cat": loaded.labels["cat"]}
            tables.append(pd.DataFrame(own).join(table))
        table = pd.concat(tables, ignore_index=True)
        free = table["ball_x"].notna()
        self._table = table[free].reset_index(drop=True)
        self.left_out = int((~free).sum())
        self.counts = {source: int((self._table["source"] == _PETS.index(source)).sum()) for source in sources}

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
        table = validated(factors, {"source": CHOICE, "photo": _ROW, "ball": CHOICE})
        images = np.empty((len(factors), size, size, 3), np.uint8)
        animal, cat, there = np.zeros(images.shape[:3], bool), np.zeros(len(factors), bool), table["ball"] == 1
        for source, rows in rows_of_each(table["source"], _PETS):
            part = _rows(datasets.load(source, self._split, size=size, root=self._root), table["photo"][rows], "photo")
            images[rows], cat[rows] = part.images, part.labels["cat"]
            animal[rows] = part.masks.get("animal", False)
        ball = np.zeros(animal.shape, bool)
        if there.any():
            images[there], ball[there] = balls.put(images[there], factors[there], keep=animal[there])
        region_index = np.select([animal, ball], [np.uint8(0), np.uint8(1)], np.uint8(2))
        return images, pd.DataFrame({"cat": cat, "ball": there}), region_index


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
        """The pictures, and where in them the thing is."""
        raise NotImplementedError

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        return self._on_scenes(rng.permutation(np.arange(n) % self._count), strength, rng)

    def _on_scenes(
        self, target: np.ndarray, strength: float, rng: np.random.Generator, photo: np.ndarray | None = None
    ) -> pd.DataFrame:
        """A table for these classes (n,); of their photos, or of the `photo` (n,) that are given."""
        cue = (target == self._favoured) == draw_agreement(target, strength, rng)
        if photo is None:
            known, photo = self._things(SMALL).labels[self.target].to_numpy(int), np.empty(len(target), np.int64)
            for kind in range(self._count):
                photo[target == kind] = _in_turn(np.flatnonzero(known == kind), int((target == kind).sum()), rng)
        table = {self.target: target.astype(np.int8), self.cue: cue.astype(np.int8), "photo": photo}
        kinds = datasets.load(self._ground, self._split, size=SMALL, root=self._root).labels["kind"]
        for column, numbers in self._behind.items():
            table[column] = _in_turn(np.flatnonzero(kinds.isin(numbers)), len(target), rng)
        return pd.DataFrame(table | draw_factors(self._placing, len(target), rng))

    def _render(self, factors: pd.DataFrame, size: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
        table = validated(factors, {self.cue: CHOICE, "photo": _ROW, **dict.fromkeys(self._behind, _ROW)})
        cue, (with_cue, without) = table[self.cue] == 1, self._behind
        things = _rows(self._things(size), table["photo"], "photo")
        scenes = datasets.load(self._ground, self._split, size=size, root=self._root)
        behind = _rows(scenes, np.where(cue, table[with_cue], table[without]), f"{with_cue} or {without}")
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


def _rows(samples: Samples, rows: np.ndarray, name: str) -> Samples:
    if len(rows) and rows.max() >= len(samples):
        raise BiaslibError(f"{name} is a row of {len(samples)} photos, but there is a {rows.max()}.")
    return samples.take(rows.astype(np.intp))


def _in_turn(known: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """N of the known numbers in random order, none a second time before all have come."""
    rounds = max(1, -(-n // max(1, len(known))))
    return np.concatenate([rng.permutation(known) for _ in range(rounds)])[:n]


def masks_of_boxes(boxes: np.ndarray, size: int) -> np.ndarray:
    """Boxes (N, 4) as masks (N, size, size) bool of square pictures: every pixel that the box touches.

    A box is left, top, right, bottom as shares of the picture's sides. A `BiaslibError` is raised for another shape, or
    a box that is empty, NaN or not inside its picture.
    """
    boxes = np.asarray(boxes, float)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise BiaslibError(f"boxes must have shape (N, 4): left, top, right, bottom; not {boxes.shape}.")
    left, top, right, bottom = boxes.T[:, :, None]
    wrong = ~((left >= 0) & (top >= 0) & (left < right) & (top < bottom) & (right <= 1) & (bottom <= 1))[:, 0]
    if wrong.any():
        row = int(np.argmax(wrong))
        raise refused("box outside its picture", row=row, box=boxes[row].round(3).tolist())
    low, high = np.arange(size) / size, np.arange(1, size + 1) / size
    across, down = (low < right) & (high > left), (low < bottom) & (high > top)
    return down[:, :, None] & across[:, None, :]


def boxes_of_masks(masks: np.ndarray) -> np.ndarray:
    """The smallest box around each mask, (N, 4): left, top, right, bottom as shares of the sides; NaN if empty."""
    masks = np.asarray(masks, bool)
    boxes = np.full((len(masks), 4), np.nan)
    for box, mask in zip(boxes, masks, strict=True):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return boxes / np.array([masks.shape[2], masks.shape[1]] * 2)


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
    size = balls.check_square(backgrounds)
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
