"""A ball in a photo, beside what it shows: where there is room for one, the ball itself, and cats and dogs with it."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import ndimage

from biaslib import datasets
from biaslib.errors import BiaslibError, check_number, refused
from biaslib.samples import Samples
from biaslib.worlds.base import CHOICE, SEED, SHARE, Factor, balanced_bool, draw_agreement, validated
from biaslib.worlds.drawing import Field, chunks, column, grid, ramp, rows_of_each, to_uint8
from biaslib.worlds.pets import BALLS, Pets
from biaslib.worlds.sketch import Place, Upright

RADIUS = (0.06, 0.10)  # of a ball, in shares of the picture's side
GAP = 0.015  # what stays free between ball and object

_COLUMNS = {
    "ball_kind": Factor(0, len(BALLS) - 1, whole=True),
    "ball_x": SHARE,
    "ball_y": SHARE,
    "ball_size": Factor(0.01, 0.5),
    "ball_seed": SEED,
}
ROW = Factor(0, 2**31 - 1, whole=True)  # the number of a photo in its split
# Data sets with cats and dogs; only the first has their outlines.
_PETS = ("pets", "cat-and-dog")
_PLACES = 224  # the side at which free places are looked for, so that a ball lies where it lies at every size
# How much darker the ground is under a ball, and how far around (in radii) anything changes.
_SHADE, _REACH = 0.5, 1.5


def check_square(images: np.ndarray) -> int:
    """The side of the pictures in pixels; refuses those that are not square."""
    if images.shape[1] != images.shape[2]:
        raise refused("pictures that are not square", height=images.shape[1], width=images.shape[2])
    return int(images.shape[1])


def plain_corners(
    images: np.ndarray, *, occupied: np.ndarray | None = None, seed: int = 0, radius: tuple[float, float] = RADIUS
) -> pd.DataFrame:
    """A ball for every picture (N, S, S, 3) uint8, in the plainest of its corners.

    Plain is where the mean gradient of the brightness under the ball is smallest. With `occupied`, (N, S, S) bool, the
    corners are left out in which a ball would touch what is there; x, y and size are NaN where no corner is free.
    Without it the corner is a guess: the chapter on planted biases counts how often it touches an outlined animal. The
    size is drawn evenly from `radius`, the smallest and the largest as shares of the picture's side.

    Returned is a row a picture, which depends on the seed (>= 0), its number and its own picture: `ball_kind` (as the
    column of `worlds.pets`), `ball_x`, `ball_y` (its middle), `ball_size` (its radius; shares of the side), `ball_seed`
    (colours, turn). A `BiaslibError` is raised for pictures that are not square, or numbers out of range.
    """
    size = check_square(images)
    if len(radius) != 2 or not 0.01 <= radius[0] <= radius[1] <= 0.5:
        raise BiaslibError(f"radius must be (smallest, largest) with 0.01 <= smallest <= largest <= 0.5, not {radius}.")
    check_number("seed", seed, 0, whole=True)
    x, y = (field[0] for field in grid(size))
    rows: list[tuple[float, ...]] = []
    for i, image in enumerate(images):
        rng = np.random.default_rng([seed, i])
        kind, ball_seed, wanted = int(rng.integers(len(BALLS))), int(rng.integers(2**32)), rng.uniform(*radius)
        near = np.minimum(GAP + wanted * (1 + rng.random((4, 2))), 1 - GAP - wanted)
        corners = np.abs([(0, 0), (0, 1), (1, 0), (1, 1)] - near)
        if occupied is not None:
            away = [np.hypot(x - across, y - down) > wanted + GAP for across, down in corners]
            corners = corners[[not (occupied[i] & ~free).any() for free in away]]
        if len(corners):
            plain = [_pattern(image, x, y, corner, wanted) for corner in corners]
            rows.append((kind, *corners[int(np.argmin(plain))], wanted, ball_seed))
        else:
            rows.append((kind, np.nan, np.nan, np.nan, ball_seed))
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"ball_kind": np.int8, "ball_seed": np.uint32})


def put(images: np.ndarray, table: pd.DataFrame, *, keep: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Draws a ball in every picture (N, S, S, 3) uint8, with the picture's brightness and a soft shadow under it.

    The table has a row a picture, as of `plain_corners`. No shadow falls on what to keep, (N, S, S) bool. Returns the
    pictures, and (N, S, S) bool where the ball covers more than half of a pixel. Farther than 1.5 radii from the ball's
    middle no pixel changes. A `BiaslibError` is raised for pictures that are not square, a missing or impossible column
    (NaN: there was no room), or a ball that is not wholly inside its picture.
    """
    size = check_square(images)
    values = validated(table, _COLUMNS)
    if len(table) != len(images):
        raise BiaslibError(f"{len(images)} pictures but {len(table)} balls: give one row for every picture.")
    x, y, radius = (values[name] for name in ("ball_x", "ball_y", "ball_size"))
    outside = np.maximum(np.abs(x - 0.5), np.abs(y - 0.5)) + radius > 0.5 + 1e-6
    if outside.any():
        row = int(np.argmax(outside))
        raise refused("ball outside its picture", row=row, radius=radius[row], x=x[row], y=y[row])
    drawn, region_index = np.empty_like(images), np.zeros(images.shape[:3], np.uint8)
    for part in chunks(len(images), size):
        canvas = images[part].astype(np.float32) / 255
        some = {name: column_[part] for name, column_ in values.items()}
        _shadow(canvas, some, None if keep is None else keep[part])
        _draw(canvas, region_index[part], some)
        drawn[part] = to_uint8(canvas.transpose(0, 3, 1, 2))
    return drawn, region_index > 0


def insert_balls(
    samples: Samples, where: Sequence[bool] | np.ndarray, *, beside: str = "animal", seed: int = 0
) -> Samples:
    """Photos of your own with a ball beside some of the objects, in the plainest corner of each that is free.

    The photos are square, with a mask `beside` of the object, which no ball touches (`masks_of_boxes` makes masks from
    boxes); `where`, (N,) bool, says which get a ball. The same seed puts the same ball in the same photo, whichever
    others get one.

    Returned are the photos in their order, those without a ball unchanged; a further label `ball`, further masks `ball`
    (exact; empty where there is none) and `background` (neither object nor ball). A `BiaslibError` is raised where the
    mask is missing, `where` does not fit, or a photo that should get a ball has no room for one: how many, and which.
    """
    where = np.asarray(where)
    if where.shape != (len(samples),) or where.dtype != np.bool_:
        raise BiaslibError(f"where must be {len(samples)} bools, one a photo, not {where.dtype} of {where.shape}.")
    if beside not in samples.masks:
        known = ", ".join(samples.masks) or "no masks at all"
        raise refused("no mask beside a ball", beside=beside, known=known)
    object_ = np.asarray(samples.masks[beside])
    table = plain_corners(samples.images, occupied=object_, seed=seed)
    stuck = np.flatnonzero(where & table["ball_x"].isna())
    if len(stuck):
        rows = ", ".join(map(str, stuck[:5])) + ", ..." * (len(stuck) > 5)
        raise refused("no room for a ball", n=len(stuck), of=where.sum(), beside=beside, rows=rows)
    images, ball = np.array(samples.images), np.zeros(samples.images.shape[:3], bool)
    images[where], ball[where] = put(images[where], table[where], keep=object_[where])
    masks = {**samples.masks, "ball": ball & ~object_}
    masks["background"] = ~(object_ | ball)
    return Samples(images, samples.labels.assign(ball=where), masks)


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
        self, split: str, *, root: str | os.PathLike[str] | None = None, radius: tuple[float, float] = RADIUS
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
            table = plain_corners(loaded.images, occupied=loaded.masks.get("animal"), radius=radius)
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
        table = validated(factors, {"source": CHOICE, "photo": ROW, "ball": CHOICE})
        images = np.empty((len(factors), size, size, 3), np.uint8)
        animal, cat, there = np.zeros(images.shape[:3], bool), np.zeros(len(factors), bool), table["ball"] == 1
        for source, rows in rows_of_each(table["source"], _PETS):
            part = picked(datasets.load(source, self._split, size=size, root=self._root), table["photo"][rows], "photo")
            images[rows], cat[rows] = part.images, part.labels["cat"]
            animal[rows] = part.masks.get("animal", False)
        ball = np.zeros(animal.shape, bool)
        if there.any():
            images[there], ball[there] = put(images[there], factors[there], keep=animal[there])
        region_index = np.select([animal, ball], [np.uint8(0), np.uint8(1)], np.uint8(2))
        return images, pd.DataFrame({"cat": cat, "ball": there}), region_index


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


def picked(samples: Samples, rows: np.ndarray, name: str) -> Samples:
    """The photos with these numbers, which `name` says in the table; a BiaslibError where there are not so many."""
    if len(rows) and rows.max() >= len(samples):
        raise BiaslibError(f"{name} is a row of {len(samples)} photos, but there is a {rows.max()}.")
    return samples.take(rows.astype(np.intp))


def _pattern(image: np.ndarray, x: Field, y: Field, middle: np.ndarray, radius: float) -> float:
    """The mean gradient of the brightness in a disc."""
    size = len(image)
    low, high = np.floor((middle - radius) * size - 6).astype(int), np.ceil((middle + radius) * size + 6).astype(int)
    across, down = (slice(max(0, start), end) for start, end in zip(low, high, strict=True))
    steep = ndimage.gaussian_gradient_magnitude(image[down, across].mean(axis=-1), 0.007 * size)
    return float(steep[np.hypot(x[:, across] - middle[0], y[down] - middle[1]) < radius].mean())


def _draw(canvas: Field, region_index: np.ndarray, table: dict[str, np.ndarray]) -> None:
    """The balls on their pictures (n, S, S, 3), in place."""
    light = np.clip(0.62 + 0.8 * canvas.mean(axis=(1, 2, 3)), 0.7, 1.08)
    for draw, rows in rows_of_each(table["ball_kind"], BALLS):
        x, y, scale = (table[name][rows] for name in ("ball_x", "ball_y", "ball_size"))
        sketch = Upright(Place(x, y, scale, 0 * x), table["ball_seed"][rows], canvas.shape[1], reach=1.0)
        draw(sketch)
        sketch.shade(column(light[rows]))
        sketch.put(canvas, region_index, rows, 1)


def _shadow(canvas: Field, table: dict[str, np.ndarray], keep: np.ndarray | None) -> None:
    """The shadow on the ground under the balls, in place: dark where they touch it, soft around."""
    x, y = grid(canvas.shape[1])
    middle, radius = column(table["ball_x"]), column(table["ball_size"])
    ground = column(table["ball_y"]) + 0.88 * radius
    away = np.hypot((x - middle - 0.1 * radius) / radius, (y - ground) / (0.34 * radius))
    dark = _SHADE * (0.6 * ramp(away, 1.25, 0.3) + 0.4 * ramp(away, 0.9, 0.1))
    dark *= np.hypot(x - middle, y - column(table["ball_y"])) < _REACH * radius
    canvas *= (1.0 - (dark if keep is None else np.where(keep, 0.0, dark)))[..., None].astype(np.float32)
