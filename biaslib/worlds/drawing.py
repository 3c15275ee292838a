"""Shared, vectorised drawing: shapes with analytic edges, repeatable textures, layers of colour.

Conventions: n pictures are drawn at once. A field has shape (n, H, W) and a canvas (n, 3, H, W), float32, colours in
[0, 1]. Lengths are fractions of the picture's side, so the same numbers give the same composition at every size.
Every operation works on each picture alone: a picture never depends on its neighbours or on how many are drawn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Field = np.ndarray
Number = Field | float
Point = tuple[Number, Number]
_T = TypeVar("_T")

_CHUNK_PIXELS = 2**17  # about 0.5 MB a field: a handful of them stay in the processor's cache


def chunks(n: int, size: int) -> Iterator[slice]:
    """Slices that cover `n` pictures of `size` x `size` pixels, each small enough for the processor's cache."""
    step = max(1, _CHUNK_PIXELS // size**2)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def rows_of_each(kinds: np.ndarray, things: Iterable[_T]) -> Iterator[tuple[_T, np.ndarray]]:
    """Each thing with the rows of its kind (its place among the things), where there are any."""
    for number, thing in enumerate(things):
        rows = np.flatnonzero(kinds == number)
        if len(rows):
            yield thing, rows


def grid(size: int) -> tuple[Field, Field]:
    """Coordinates (x, y) of the pixel centres, shapes (1, 1, size) and (1, size, 1); y points down."""
    centres = (np.arange(size, dtype=np.float32) + 0.5) / size
    return centres[None, None, :], centres[None, :, None]


def column(values: object) -> Field:
    """One number a picture, shaped (n, 1, 1) to meet the fields."""
    return np.asarray(values, dtype=np.float32).reshape(-1, 1, 1)


def coverage(distance: Field, pixel: Number) -> Field:
    """The share of a pixel of this side that lies inside a shape's edge: clip(0.5 - distance / pixel, 0, 1)."""
    share = distance * (-1.0 / pixel) + 0.5
    return np.clip(share, 0.0, 1.0, out=share)


def mix(a: Number, b: Number, share: Number) -> Field:
    """The blend a + share * (b - a)."""
    return np.asarray(a + share * (b - a))


def ramp(value: Field, low: Number, high: Number) -> Field:
    """0 up to `low`, 1 from `high` on, and a smooth step between (low > high turns it round)."""
    t = np.clip((value - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@dataclass(eq=False)
class Frame:
    """The pixels in a thing's own coordinates, and their signed distances to shapes in these, negative inside."""

    u: Field  # coordinate of the pixels across the thing
    v: Field  # the same, downwards

    def turned(self, middle: Point, angle: Number) -> "Frame":
        """The same pixels in a frame around `middle` that is turned by `angle` (radians, clockwise on the screen)."""
        cos, sin = np.cos(angle), np.sin(angle)
        dx, dy = self.u - middle[0], self.v - middle[1]
        return Frame(dx * cos + dy * sin, dy * cos - dx * sin)

    def ellipse(self, centre: Point, radii: Point, angle: Field) -> Field:
        """An ellipse turned by `angle` (radians, clockwise on the screen); exact on the edge, close near it."""
        turned = self.turned(centre, angle)
        u, v = turned.u / radii[0], turned.v / radii[1]
        k = np.sqrt(u * u + v * v)
        return k * (k - 1.0) / np.maximum(np.sqrt((u / radii[0]) ** 2 + (v / radii[1]) ** 2), 1e-6)

    def oval(self, centre: Point, radii: Point) -> Field:
        """An upright ellipse, as `ellipse` without an angle, and faster."""
        across, down = 1.0 / radii[0], 1.0 / radii[1]
        a, b = (self.u - centre[0]) * across, (self.v - centre[1]) * down
        k = np.sqrt(a * a + b * b)
        return k * (k - 1.0) / np.maximum(np.sqrt((a * across) ** 2 + (b * down) ** 2), 1e-6)

    def circle(self, centre: Point, radius: Number) -> Field:
        """A circle."""
        dx, dy = self.u - centre[0], self.v - centre[1]
        return np.sqrt(dx * dx + dy * dy) - radius

    def limb(self, start: Point, end: Point, radii: Point) -> tuple[Field, Field]:
        """A round-ended stroke whose radius runs from radii[0] to radii[1]; and the place along it, from 0 to 1."""
        bx, by = end[0] - start[0], end[1] - start[1]
        length = bx * bx + by * by
        dx, dy = self.u - start[0], self.v - start[1]
        along = np.clip((dx * (bx / length) + dy * (by / length)), 0.0, 1.0)
        dx = dx - along * bx
        dy = dy - along * by
        return np.sqrt(dx * dx + dy * dy) - mix(radii[0], radii[1], along), along

    def box(self, centre: Point, half: Point, radius: Number = 0.0) -> Field:
        """An upright rectangle of half width half[0] and half height half[1], its corners rounded."""
        dx = np.abs(self.u - centre[0]) - (half[0] - radius)
        dy = np.abs(self.v - centre[1]) - (half[1] - radius)
        outside = np.sqrt(np.maximum(dx, 0.0) ** 2 + np.maximum(dy, 0.0) ** 2)
        return outside + np.minimum(np.maximum(dx, dy), 0.0) - radius

    def polygon(self, corners: Sequence[tuple[float, float]]) -> Field:
        """A convex polygon, its corners clockwise on the screen; too small outside its corners."""
        distance = np.full(np.broadcast_shapes(self.u.shape, self.v.shape), -np.inf, np.float32)
        for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
            length = float(np.hypot(bx - ax, by - ay))
            across, down = (by - ay) / length, (ax - bx) / length
            np.maximum(distance, self.u * across + self.v * down - (ax * across + ay * down), out=distance)
        return distance


def join(a: Field, b: Field, blend: Number) -> Field:
    """The union of two shapes with the crease between them filled over a width `blend`."""
    h = np.maximum(blend - np.abs(a - b), 0.0)
    return np.minimum(a, b) - h * h * (0.25 / blend)


# Textures: the same seed gives the same texture, whatever else is drawn.


def _scramble(bits: np.ndarray) -> np.ndarray:
    """A well-mixed 32-bit hash (two multiply and shift rounds)."""
    bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B)
    return bits ^ (bits >> np.uint32(16))


def uniform(seeds: np.ndarray, stream: int, count: int) -> np.ndarray:
    """Repeatable random numbers in [0, 1), (n, count) float32, of one of the independent streams of n seeds."""
    start = _scramble(np.asarray(seeds).astype(np.uint32) + np.full(1, stream * 0x9E3779B9 % 2**32, np.uint32))
    steps = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x85EBCA6B)
    bits = _scramble(start[:, None] ^ _scramble(steps)[None, :])
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _interpolate(knots: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Smooth interpolation along the last axis: knots (n, ..., k), at (n or 1, m) in knots -> (n, ..., m)."""
    at = np.clip(at, 0.0, knots.shape[-1] - 1.001)
    left = at.astype(np.intp)
    t = (at - left).astype(np.float32)
    t = t * t * (3.0 - 2.0 * t)
    if len(left) == 1:
        low, high = (np.take(knots, index, axis=-1) for index in (left[0], left[0] + 1))
    else:
        spread = (slice(None), *[None] * (knots.ndim - 2), slice(None))
        low, high = (np.take_along_axis(knots, index[spread], axis=-1) for index in (left, left + 1))
        t = t[spread]
    return mix(low, high, t)


def noise(seeds: np.ndarray, stream: int, x: Field, y: Field, cells: tuple[int, int], octaves: int = 1) -> Field:
    """Smooth random texture in [0, 1], (n, H, W), with about cells[0] x cells[1] bumps across the unit square.

    More octaves, each twice as fine and .55 as strong as the one before, make clouds, foliage, stone. The coordinates
    are x (n or 1, 1, W) and y (n or 1, H, 1); those outside [0, 1] repeat the border.
    """
    total: Field = np.zeros((), np.float32)
    weight, norm = 1.0, 0.0
    for octave in range(octaves):
        columns, rows = cells[0] << octave, cells[1] << octave
        knots = uniform(seeds, stream + 97 * octave, (rows + 1) * (columns + 1)).reshape(-1, columns + 1, rows + 1)
        lines = _interpolate(knots, y[:, :, 0] * rows)  # (n, columns + 1, H)
        total = total + weight * _interpolate(np.ascontiguousarray(lines.swapaxes(1, 2)), x[:, 0, :] * columns)
        norm += weight
        weight *= 0.55
    return total * (1.0 / norm)


# Layers.


def rgb(values: object) -> Field:
    """Colours (n, 3) or (3,), shaped (n or 1, 3, 1, 1) to meet a canvas."""
    return np.asarray(values, dtype=np.float32).reshape(-1, 3, 1, 1)


def colour_along(palette: Sequence[tuple[float, float, float]], at: np.ndarray) -> Field:
    """The colour at `at` (n,) in [0, 1] along evenly spaced colours, (n, 3, 1, 1)."""
    knots = np.linspace(0.0, 1.0, len(palette))
    return rgb(np.stack([np.interp(at, knots, channel) for channel in np.array(palette).T], axis=-1))


def paint(canvas: Field, colour: Field, cover: Field) -> None:
    """Lays `colour` (n, 3, H, W or 1, 1) over the canvas where `cover` (n, H, W) says, in place."""
    layer = colour - canvas
    canvas += np.multiply(layer, cover[:, None], out=layer)


def daylight(light: np.ndarray, x: Field, y: Field, day: Mapping[str, Any]) -> Field:
    """What to multiply a canvas by, (n, 3, H, W): light from the upper left, the cooler the brighter.

    For `light` (n,) in [0, 1] its colour goes from `warm` to `cool`, its brightness from `dim` to `dim` + `gain`. Over
    the picture it goes from `top` down by `fall`, while x + `slope` * y goes over its `span`.
    """
    warm, cool = np.array(day["warm"], np.float32), np.array(day["cool"], np.float32)
    tint = rgb(warm + (cool - warm) * light[:, None])
    fall = day["top"] - day["fall"] * ramp(x + day["slope"] * y, *day["span"])
    return tint * (column(day["dim"] + day["gain"] * light) * fall)[:, None]


def to_uint8(canvas: Field) -> np.ndarray:
    """Canvas (n, 3, H, W) in [0, 1] -> images (n, H, W, 3) uint8."""
    return (np.clip(canvas, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8).transpose(0, 2, 3, 1)
