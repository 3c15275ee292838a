"""Small things seen from above: layers of shapes on a patch, a raised edge, a soft shadow, and how they are laid down.

A sketch is drawn in the thing's own frame: its middle is the origin, v points to its foot, and it fits into the circle
of radius 1. Only the patch of the picture around that circle is ever touched.
"""

from dataclasses import dataclass

import numpy as np

from biaslib.worlds.drawing import Field, Number, column, coverage, rgb, uniform

# The light comes from the upper left; lengths are shares of the picture's side.
_LIGHT = (-0.55, -0.83)
_SHADOW, _SOFT, _DARK = 0.018, 0.026, 0.52


@dataclass(frozen=True)
class Place:
    """Where things lie, one a row; every part is (n,).

    Attributes:
        x: middle of the thing, a share of the picture's side.
        y: the same, downwards.
        scale: radius of the circle that it fits into.
        angle: how far it is turned clockwise, in radians.
    """

    x: np.ndarray
    y: np.ndarray
    scale: np.ndarray
    angle: np.ndarray


class Sketch:
    """The patches around n things, and what has been drawn on them so far.

    Attributes:
        u: coordinate of the pixels across the thing, (n, P, P).
        v: the same along the thing, downwards.
        lit: how far towards the light a pixel lies, (n, P, P).
        pixel: side of a pixel in these coordinates, (n, 1, 1).
        seeds: (n,) the seeds of the things' own colours and shapes.
    """

    def __init__(self, place: Place, seeds: np.ndarray, size: int) -> None:
        """Finds the patches of pictures with `size` pixels a side."""
        reach = float(place.scale.max()) + _SHADOW + _SOFT
        side = 2 * int(np.ceil(reach * size)) + 2
        middle = np.stack([place.x, place.y]).astype(np.float32) * np.float32(size)
        self._start = np.floor(middle).astype(np.intp) - side // 2
        self._size = size
        offsets = np.arange(side)
        self._columns, self._rows = self._start[0][:, None] + offsets, self._start[1][:, None] + offsets
        scale = column(place.scale)
        dx = (self._columns + np.float32(0.5) - middle[0][:, None]).astype(np.float32)[:, None, :] / (size * scale)
        dy = (self._rows + np.float32(0.5) - middle[1][:, None]).astype(np.float32)[:, :, None] / (size * scale)
        cos, sin = np.cos(column(place.angle)), np.sin(column(place.angle))
        self.u = dx * cos + dy * sin
        self.v = dy * cos - dx * sin
        self.lit = dx * np.float32(_LIGHT[0]) + dy * np.float32(_LIGHT[1])
        self.pixel = 1.0 / (size * scale)
        # what lies farther out than this would be cut off, or not, by the size of the largest thing beside it
        own = np.floor((column(place.scale) + (_SHADOW + _SOFT)) * size) * self.pixel
        self._own = (np.abs(dx) < own) & (np.abs(dy) < own)
        self.seeds = seeds
        self._colour = np.zeros((len(seeds), 3, side, side), np.float32)  # premultiplied by what it covers
        self._cover = np.zeros_like(self.u)
        self._distance = np.full_like(self.u, 9.0)

    def chance(self, count: int) -> list[Field]:
        """The thing's own random numbers in [0, 1), each (n, 1, 1)."""
        return [column(values) for values in uniform(self.seeds, 1, count).T]

    def pick(self, palette: list[tuple[float, float, float]], stream: int = 2) -> Field:
        """One of the colours for each thing, a little brighter or darker, (n, 3, 1, 1)."""
        which, shade, *tint = uniform(self.seeds, stream, 5).T
        colours = np.array(palette, np.float32)[(which * len(palette)).astype(np.intp)]
        colours = colours * (0.88 + 0.24 * shade[:, None]) + 0.06 * (np.stack(tint, axis=1) - 0.5)
        return rgb(colours)

    def lay(self, distance: Field, colour: Field, share: Number = 1.0) -> None:
        """Adds a part: covers what lies below it with `share` of its colour, and belongs to the thing's outline."""
        distance = np.where(self._own, distance, np.float32(9.0))
        cover = coverage(distance, self.pixel) * share
        self._colour += (colour - self._colour) * cover[:, None]
        self._cover += (1.0 - self._cover) * cover
        np.minimum(self._distance, distance, out=self._distance)

    def mark(self, distance: Field, colour: Field, share: Number = 1.0) -> None:
        """Colours what has been laid already, and nothing beside it."""
        self.tint(coverage(distance, self.pixel) * share, colour)

    def tint(self, share: Field, colour: Field) -> None:
        """Blends what has been laid with `share` (n, P, P) of another colour."""
        layer = colour * self._cover[:, None]
        layer -= self._colour
        layer *= share[:, None]
        self._colour += layer

    def shade(self, light: Field) -> None:
        """Multiplies the brightness of what has been laid by `light` (n, P, P)."""
        self._colour *= light[:, None]

    def relief(self, width: float = 0.12, depth: float = 0.35) -> None:
        """Rounds the outline: its edge towards the light is brighter, the far one darker, over a `width`."""
        slope = np.zeros_like(self._distance)
        slope[:, :, 1:-1] = (self._distance[:, :, 2:] - self._distance[:, :, :-2]) * _LIGHT[0]
        slope[:, 1:-1, :] += (self._distance[:, 2:, :] - self._distance[:, :-2, :]) * _LIGHT[1]
        slope *= 0.5 / self.pixel
        edge = np.clip(1.0 + self._distance / width, 0.0, 1.0)
        self.shade(1.0 + depth * np.clip(slope, -1.0, 1.0) * edge)

    def put(self, canvas: Field, owner: np.ndarray, rows: np.ndarray, number: int) -> None:
        """Lays the things and their shadows on pictures, in place.

        Args:
            canvas: (N, size, size, 3), contiguous.
            owner: (N, size, size), contiguous: whose pixel it is; `number` where a thing covers more than half of it.
            rows: (n,) the pictures of the things.
            number: the things' own number.
        """
        shadow = self._shadow()
        inside = [(at >= 0) & (at < self._size) for at in (self._rows, self._columns)]
        touched = ((self._cover > 0) | (shadow > 0)) & inside[0][:, :, None] & inside[1][:, None, :]
        k, i, j = np.nonzero(touched)
        at = (rows[k] * self._size + self._rows[k, i]) * self._size + self._columns[k, j]
        cover = self._cover[k, i, j]
        pixels = canvas.reshape(-1, 3)
        below = pixels[at]
        below *= ((1.0 - cover) * (1.0 - _DARK * shadow[k, i, j] * (1.0 - cover)))[:, None]
        below += self._colour.transpose(0, 2, 3, 1)[k, i, j]
        pixels[at] = below
        owner.reshape(-1)[at[cover > 0.5]] = number

    def _shadow(self) -> Field:
        """The outline, soft and moved away from the light."""
        soft = column(_SOFT * self._size) * self.pixel
        shadow = coverage(self._distance, soft)
        for axis, step in ((2, -_LIGHT[0]), (1, -_LIGHT[1])):
            shadow = _moved(shadow, step * _SHADOW * self._size, axis)
        return shadow


def _moved(values: Field, step: float, axis: int) -> Field:
    """Moves (n, P, P) by a positive number of pixels, whole or not; what comes in is 0."""
    whole = int(step)
    part = np.float32(step - whole)
    result = np.zeros_like(values)
    for pixels, share in ((whole, 1 - part), (whole + 1, part)):
        source = [slice(None)] * 3
        target = [slice(None)] * 3
        source[axis] = slice(0, values.shape[axis] - pixels)
        target[axis] = slice(pixels, None)
        result[tuple(target)] += share * values[tuple(source)]
    return result
