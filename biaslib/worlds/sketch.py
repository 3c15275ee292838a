"""What is drawn on: a sketch of one thing that is laid on a picture, a surface seen from afar, a sheet with a face."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import numpy as np

from biaslib.store import files
from biaslib.worlds import drawing
from biaslib.worlds.drawing import Field, Frame, Number, column, coverage, grid, paint, rgb, rows_of_each, uniform

# The light comes from the upper left; lengths are shares of the picture's side.
_LIGHT = (-0.55, -0.83)
_SHADOW, _SOFT, _DARK = 0.018, 0.026, 0.52


def beside(module: str) -> SimpleNamespace:
    """The colours and other numbers in the TOML file that lies beside a module, given its `__file__`."""
    return SimpleNamespace(**files.beside(module))


class Place(NamedTuple):
    """Where things lie, one a row; every part is (n,), lengths are shares of the picture's side."""

    x: np.ndarray  # of the thing's middle
    y: np.ndarray  # of its middle, downwards
    scale: np.ndarray  # radius of the circle that it fits into
    angle: np.ndarray  # how far it is turned clockwise, in radians

    def take(self, rows: np.ndarray) -> "Place":
        """The chosen rows."""
        return Place(*(part[rows] for part in self))


class Sketch(Frame):
    """The patches around n things, each in the circle of radius 1 around its middle, and what is drawn on them.

    `u` and `v`, (n, P, P), are coordinates across and along each thing, `lit` says how far towards the light a pixel
    lies, `pixel`, (n, 1, 1), is the side of one; `seeds`, (n,), are those of the things' own colours and shapes.
    """

    def __init__(self, place: Place, seeds: np.ndarray, size: int) -> None:
        """Finds the patches of pictures with `size` pixels a side."""
        reach = float(place.scale.max()) + _SHADOW + _SOFT
        side = 2 * int(np.ceil(reach * size)) + 2
        middle = np.stack([place.x, place.y]).astype(np.float32) * np.float32(size)
        self._size, scale = size, column(place.scale)
        start = np.floor(middle).astype(np.intp) - side // 2
        self._columns, self._rows = start[:, :, None] + np.arange(side)
        dx = (self._columns + np.float32(0.5) - middle[0][:, None]).astype(np.float32)[:, None, :] / (size * scale)
        dy = (self._rows + np.float32(0.5) - middle[1][:, None]).astype(np.float32)[:, :, None] / (size * scale)
        turned = Frame(dx, dy).turned((0.0, 0.0), column(place.angle))
        super().__init__(turned.u, turned.v)
        self.lit = dx * np.float32(_LIGHT[0]) + dy * np.float32(_LIGHT[1])
        self.pixel = 1.0 / (size * scale)
        # what lies farther out than this would be cut off, or not, by the size of the largest thing beside it
        own = np.floor((scale + (_SHADOW + _SOFT)) * size) * self.pixel
        self._own = (np.abs(dx) < own) & (np.abs(dy) < own)
        self.seeds = seeds
        self._colour = np.zeros((len(seeds), 3, side, side), np.float32)  # premultiplied by what it covers
        self._cover = np.zeros_like(self.u)
        self._distance = np.full_like(self.u, 9.0)

    def chance(self, count: int) -> list[Field]:
        """The thing's own random numbers in [0, 1), each (n, 1, 1)."""
        return [column(values) for values in uniform(self.seeds, 1, count).T]

    def pick(self, palette: Sequence[tuple[float, float, float]], stream: int = 2) -> Field:
        """One of the colours for each thing, a little brighter or darker, (n, 3, 1, 1)."""
        which, shade, *tint = uniform(self.seeds, stream, 5).T
        colours = np.array(palette, np.float32)[(which * len(palette)).astype(np.intp)]
        return rgb(colours * (0.88 + 0.24 * shade[:, None]) + 0.06 * (np.stack(tint, axis=1) - 0.5))

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
        layer = colour * self._cover[:, None] - self._colour
        self._colour += np.multiply(layer, share[:, None], out=layer)

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

    def put(self, canvas: Field, region_index: np.ndarray, rows: np.ndarray, number: int) -> None:
        """Lays things and shadows on rows of contiguous canvas (N, S, S, 3) and region_index (N, S, S), in place."""
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
        region_index.reshape(-1)[at[cover > 0.5]] = number

    def _shadow(self) -> Field:
        """The outline, soft and moved away from the light."""
        shadow = coverage(self._distance, column(_SOFT * self._size) * self.pixel)
        for axis, step in ((2, -_LIGHT[0]), (1, -_LIGHT[1])):
            shadow = _moved(shadow, step * _SHADOW * self._size, axis)
        return shadow


def _moved(values: Field, step: float, axis: int) -> Field:
    """Moves (n, P, P) by a positive number of pixels, whole or not; what comes in is 0."""
    whole = int(step)
    part = np.float32(step - whole)
    result = np.zeros_like(values)
    source, target = np.moveaxis(values, axis, 0), np.moveaxis(result, axis, 0)
    for pixels, share in ((whole, 1 - part), (whole + 1, part)):
        target[pixels:] += share * source[: len(source) - pixels]
    return result


class Upright(Sketch):
    """A sketch of something that stands on the ground, whose shadow is therefore not behind it."""

    def __init__(self, place: Place, seeds: np.ndarray, size: int, reach: float | None = None) -> None:
        """Finds the patches; a thing reaches `reach` times its scale from its middle, or (None) over the picture."""
        if reach is not None:
            super().__init__(Place(place.x, place.y, place.scale * np.float32(reach), place.angle), seeds, size)
            zoom: Number = reach
        else:
            middle, zero = np.full(len(seeds), 0.5, np.float32), np.zeros(len(seeds), np.float32)
            super().__init__(Place(middle, middle, middle, zero), seeds, size)
            zoom = 0.5 / column(place.scale)
            self.u -= 2.0 * (column(place.x) - 0.5)
            self.v -= 2.0 * (column(place.y) - 0.5)
        self.u *= zoom
        self.v *= zoom
        self.lit *= zoom
        self.pixel = self.pixel * zoom

    def _shadow(self) -> Field:
        """No shadow on what is behind."""
        return np.zeros_like(self._cover)


class Surface(Frame):
    """Whole pictures of the rows of a table, for what fills them: walls and floors, landscapes, cloths.

    `table` holds the columns, (n,) each, `seeds` its column `scene_seed`; `u`, (1, 1, W), and `v`, (1, H, 1), are the
    coordinates of the pixels, `pixel` the side of one.
    """

    def __init__(self, table: Mapping[str, np.ndarray], x: Field, y: Field) -> None:
        """Takes the coordinates of `drawing.grid`."""
        super().__init__(x, y)
        self.table, self.seeds = table, table["scene_seed"]
        self.pixel: Number = 1.0 / x.shape[-1]

    def __getitem__(self, name: str) -> Field:
        """A column, (n, 1, 1)."""
        return column(self.table[name])

    def take(self, rows: np.ndarray) -> "Surface":
        """The chosen rows."""
        return Surface({name: values[rows] for name, values in self.table.items()}, self.u, self.v)

    def drawn(self, kinds: np.ndarray, things: Sequence[Callable[["Surface"], Field]]) -> Field:
        """What the thing of each row's kind draws on it, (n, 3, H, W)."""
        canvas = np.empty((len(kinds), 3, self.v.shape[1], self.u.shape[2]), np.float32)
        for thing, rows in rows_of_each(kinds, things):
            canvas[rows] = thing(self.take(rows))
        return canvas

    def chance(self, stream: int, count: int, seed: str = "scene_seed") -> list[Field]:
        """Random numbers in [0, 1) of a seed column, each (n, 1, 1)."""
        return [column(values) for values in uniform(self.table[seed], stream, count).T]

    def number_of(self, cells: Field, stream: int, count: int) -> Field:
        """The random number, of `count` in [0, 1), of the whole cell that each pixel is in, (n, H, W)."""
        own = uniform(self.seeds, stream, count)
        index = np.floor(cells).astype(np.intp).reshape(len(cells), -1)
        index = np.broadcast_to(index, (len(own), index.shape[1]))
        return np.take_along_axis(own, index, axis=1).reshape(len(own), *cells.shape[1:])

    def noise(
        self, stream: int, cells: tuple[int, int], octaves: int = 1, *, u: Field | None = None, v: Field | None = None
    ) -> Field:
        """A texture, (n, H, W), as `drawing.noise` makes it; elsewhere than at the pixels where `u` or `v` is given."""
        across, down = self.u if u is None else u, self.v if v is None else v
        return drawing.noise(self.seeds, stream, across, down, cells, octaves)

    def cover(self, distance: Field) -> Field:
        """How much of each pixel lies inside."""
        return coverage(distance, self.pixel)


@dataclass(eq=False)
class Sheet(Surface):
    """A surface that is drawn on in place: n faces, or the same window of each.

    In its own coordinates a face's middle is the origin, v points to the chin, and it is about 1.2 wide and 1.6 high.
    """

    regions: ClassVar = (
        "skin", "nose", "eyeglasses", "eyes", "eyebrows", "ears", "mouth", "hair", "hat", "earrings", "necklace",
        "neck", "cloth", "background",
    )  # fmt: skip

    canvas: Field  # what has been drawn, (n, 3, h, w)
    region_index: np.ndarray  # the number of each pixel's region in `regions`, (n, h, w)
    table: dict[str, np.ndarray]  # the columns that say how the faces look, each (n,)
    pixel: Field  # the side of a pixel in these coordinates, (n, 1, 1)

    @classmethod
    def whole(cls, table: dict[str, np.ndarray], canvas: Field, region_index: np.ndarray) -> "Sheet":
        """Finds the face's coordinates from the columns `x`, `y`, `scale` and `roll` (middle, unit, turn)."""
        size, unit, angle = canvas.shape[-1], column(table["scale"]), column(table["roll"])
        x, y = grid(size)
        own = Frame((x - column(table["x"])) / unit, (y - column(table["y"])) / unit).turned((0.0, 0.0), angle)
        return cls(own.u, own.v, canvas, region_index, table, 1.0 / (size * unit))

    def window(self, across: tuple[float, float], down: tuple[float, float]) -> "Sheet":
        """The part of the pictures that holds this part of every face (and whatever else lies in it)."""
        size = self.canvas.shape[-1]
        corners = np.array([(u, v) for u in across for v in down], np.float32)
        unit, angle = self.table["scale"][:, None], self.table["roll"][:, None]
        cos, sin = np.cos(angle), np.sin(angle)
        x = self.table["x"][:, None] + unit * (corners[:, 0] * cos - corners[:, 1] * sin)
        y = self.table["y"][:, None] + unit * (corners[:, 0] * sin + corners[:, 1] * cos)
        rows, columns = (slice(max(0, int(at.min() * size) - 1), max(2, int(at.max() * size) + 2)) for at in (y, x))
        parts = (self.u, self.v, self.canvas, self.region_index)
        u, v, canvas, region_index = (part[..., rows, columns] for part in parts)
        return Sheet(u, v, canvas, region_index, self.table, self.pixel)

    def where(self, there: np.ndarray, draw: Callable[["Sheet"], None]) -> None:
        """Draws only on the pictures for which `there` (n,) is true."""
        rows = np.flatnonzero(there)
        if not len(rows):
            return
        table = {name: values[rows] for name, values in self.table.items()}
        parts = (self.u, self.v, self.canvas, self.region_index, self.pixel)
        u, v, canvas, region_index, pixel = (part[rows] for part in parts)
        draw(Sheet(u, v, canvas, region_index, table, pixel))
        self.canvas[rows], self.region_index[rows] = canvas, region_index

    def lay(
        self, distance: Field, colour: Field, region: str | None = None, share: Number = 1.0, keep: tuple[str, ...] = ()
    ) -> None:
        """Lays a shape of a colour, as opaque as `share`; what it half covers is the region's, but for those kept."""
        cover = self.cover(distance)
        if region is not None:
            taken = cover > 0.5
            for name in keep:
                taken &= self.region_index != self.regions.index(name)
            self.region_index[taken] = self.regions.index(region)
        self.tint(cover if isinstance(share, float) and share == 1.0 else cover * share, colour)

    def tint(self, share: Field, colour: Field) -> None:
        """Blends what is there with `share` (n, h, w) of a colour."""
        paint(self.canvas, colour, share)

    def pick(self, palette: Sequence[tuple[float, float, float]], seed: str, stream: int) -> Field:
        """One of the colours for each face, a little brighter or darker, (n, 3, 1, 1)."""
        which, shade = uniform(self.table[seed], stream, 2).T
        colours = np.array(palette, np.float32)[(which * len(palette)).astype(np.intp)]
        return rgb(colours * (0.9 + 0.2 * shade[:, None]))

    def colour(self, name: str) -> Field:
        """A column of colours (n, 3) of the table, shaped to meet a canvas."""
        return rgb(self.table[name])
