"""The sheet a face is drawn on: the face's own coordinates, windows around a feature, and whose pixel is whose."""

from collections.abc import Callable, Mapping

import numpy as np

from biaslib.worlds.drawing import Field, Number, column, coverage, paint, rgb, uniform

Colours = list[tuple[float, float, float]]

REGIONS: tuple[str, ...] = (
    "skin", "nose", "eyeglasses", "eyes", "eyebrows", "ears", "mouth", "hair", "hat", "earrings", "necklace", "neck",
    "cloth", "background",
)  # fmt: skip


def oval(u: Field, v: Field, centre: tuple[Number, Number], radii: tuple[Number, Number]) -> Field:
    """Distance to an upright ellipse, negative inside; exact on the edge, close near it."""
    across, down = 1.0 / radii[0], 1.0 / radii[1]
    a, b = (u - centre[0]) * across, (v - centre[1]) * down
    k = np.sqrt(a * a + b * b)
    a *= across
    b *= down
    a *= a
    b *= b
    a += b
    slope = np.sqrt(a, out=a)
    np.maximum(slope, 1e-6, out=slope)
    distance = k - 1.0
    distance *= k
    distance /= slope
    return distance


class Sheet:
    """Pictures of n faces, or the same window of each.

    In the face's own coordinates its middle is the origin, u points to the right of the picture, v to the chin; the
    face is about 1.2 wide and 1.6 high.

    Attributes:
        table: the columns that say how the faces look, each (n,).
        u: coordinate of the pixels across the face, (n, h, w).
        v: the same, downwards.
        canvas: (n, 3, h, w), what has been drawn.
        owner: (n, h, w), the number of each pixel's region in `REGIONS`.
        pixel: the side of a pixel in these coordinates, (n, 1, 1).
    """

    def __init__(
        self, table: Mapping[str, np.ndarray], u: Field, v: Field, canvas: Field, owner: np.ndarray, pixel: Field
    ) -> None:
        """Keeps the parts; they are drawn on in place."""
        self.table, self.u, self.v, self.canvas, self.owner, self.pixel = table, u, v, canvas, owner, pixel

    @classmethod
    def whole(cls, table: Mapping[str, np.ndarray], canvas: Field, owner: np.ndarray) -> "Sheet":
        """Finds the face's coordinates from the columns `x`, `y`, `scale` and `roll` (middle, unit, turn)."""
        size = canvas.shape[-1]
        centres = (np.arange(size, dtype=np.float32) + 0.5) / size
        unit, angle = column(table["scale"]), column(table["roll"])
        dx = (centres[None, None, :] - column(table["x"])) / unit
        dy = (centres[None, :, None] - column(table["y"])) / unit
        cos, sin = np.cos(angle), np.sin(angle)
        return cls(table, dx * cos + dy * sin, dy * cos - dx * sin, canvas, owner, 1.0 / (size * unit))

    def __getitem__(self, name: str) -> Field:
        """A column, (n, 1, 1)."""
        return column(self.table[name])

    def window(self, across: tuple[float, float], down: tuple[float, float]) -> "Sheet":
        """The part of the pictures that holds this part of every face (and whatever else lies in it)."""
        size = self.canvas.shape[-1]
        corners = np.array([(u, v) for u in across for v in down], np.float32)
        cos, sin, unit = (part[:, None] for part in self._turn())
        x = self.table["x"][:, None] + unit * (corners[:, 0] * cos - corners[:, 1] * sin)
        y = self.table["y"][:, None] + unit * (corners[:, 0] * sin + corners[:, 1] * cos)
        rows, columns = (slice(max(0, int(at.min() * size) - 1), max(2, int(at.max() * size) + 2)) for at in (y, x))
        inside = (Ellipsis, rows, columns)
        return Sheet(self.table, self.u[inside], self.v[inside], self.canvas[inside], self.owner[inside], self.pixel)

    def where(self, there: np.ndarray, draw: Callable[["Sheet"], None]) -> None:
        """Draws only on the pictures for which `there` (n,) is true."""
        rows = np.flatnonzero(there)
        if not len(rows):
            return
        table = {name: values[rows] for name, values in self.table.items()}
        part = Sheet(table, self.u[rows], self.v[rows], self.canvas[rows], self.owner[rows], self.pixel[rows])
        draw(part)
        self.canvas[rows], self.owner[rows] = part.canvas, part.owner

    def lay(
        self, distance: Field, colour: Field, region: str | None = None, share: Number = 1.0, keep: tuple[str, ...] = ()
    ) -> None:
        """Lays a shape over what is there; where it covers more than half of a pixel, the pixel is the region's.

        Args:
            distance: to the shape's edge, (n, h, w).
            colour: (n, 3, h, w or 1, 1).
            region: whose pixels these become; None: they stay whose they are.
            share: how opaque it is.
            keep: regions whose pixels stay theirs.
        """
        cover = coverage(distance, self.pixel)
        if region is not None:
            taken = cover > 0.5
            for name in keep:
                taken &= self.owner != REGIONS.index(name)
            self.owner[taken] = REGIONS.index(region)
        self.tint(cover if isinstance(share, float) and share == 1.0 else cover * share, colour)

    def tint(self, share: Field, colour: Field) -> None:
        """Blends what is there with `share` (n, h, w) of a colour."""
        paint(self.canvas, colour, share)

    def cover(self, distance: Field) -> Field:
        """How much of each pixel lies inside."""
        return coverage(distance, self.pixel)

    def chance(self, seed: str, stream: int, count: int) -> list[Field]:
        """Random numbers in [0, 1) of a seed column, each (n, 1, 1)."""
        return [column(values) for values in uniform(self.table[seed], stream, count).T]

    def pick(self, palette: Colours, seed: str, stream: int) -> Field:
        """One of the colours for each face, a little brighter or darker, (n, 3, 1, 1)."""
        which, shade = uniform(self.table[seed], stream, 2).T
        colours = np.array(palette, np.float32)[(which * len(palette)).astype(np.intp)]
        return rgb(colours * (0.9 + 0.2 * shade[:, None]))

    def colour(self, name: str) -> Field:
        """A column of colours (n, 3) of the table, shaped to meet a canvas."""
        return rgb(self.table[name])

    def _turn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.cos(self.table["roll"]), np.sin(self.table["roll"]), self.table["scale"]
