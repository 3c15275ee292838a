"""A ball in a photo, beside what the photo shows: where there is room for one, and the ball itself."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import ndimage

from biaslib.errors import BiaslibError, check_number, refused
from biaslib.samples import Samples
from biaslib.worlds.base import SEED, SHARE, Factor, validated
from biaslib.worlds.drawing import Field, chunks, column, grid, ramp, rows_of_each, to_uint8
from biaslib.worlds.pets import BALLS
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
