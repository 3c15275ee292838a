"""One bird a picture, shaded and feathered: songbirds that stand and waterbirds that float."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from biaslib.worlds.drawing import Field, Frame, Point, colour_along, coverage, join, mix, paint, ramp, rgb
from biaslib.worlds.sketch import Surface, beside

_COLOURS = beside(__file__)


class _Bird(Surface):
    """The numbers a bird is drawn from, each (n, 1, 1), and the pixels in its own frame.

    In that frame the bird looks to the right, its body's middle is the origin and about one unit long.
    """

    def __init__(self, factors: Mapping[str, np.ndarray], x: Field, y: Field) -> None:
        """Turns the factors' columns into anatomy."""
        super().__init__(factors, x, y)
        self.seeds = factors["bird_seed"]
        self.water = self["waterbird"] > 0.5
        self.neck, self.bill, self.plump, self.tail = (self[name] for name in ("neck", "bill", "plump", "tail"))
        across = (x - self["x"]) * ((2.0 * self["facing"] - 1.0) / self["scale"])
        own = Frame(across, (y - self["y"]) / self["scale"]).turned((0.0, 0.0), 0.2 * self["tilt"])
        self.u, self.v, self.pixel = own.u, own.v, 1.0 / (x.shape[-1] * self["scale"])

    def pick(self, water: Field | float, land: Field | float) -> Field:
        """One number for waterbirds, another for landbirds."""
        return np.where(self.water, water, land).astype(np.float32)


class _Shape(NamedTuple):
    """Distances (n, H, W) to the parts, and the places the colours are hung on."""

    body: Field
    tail: Field
    legs: Field
    bill: Field
    head: Point
    head_radius: Field
    tail_tip: Point
    gape: Point


def draw(factors: Mapping[str, np.ndarray], x: Field, y: Field) -> tuple[Field, Field]:
    """The birds alone: colours (n, 3, H, W), and the coverage (n, H, W) with which to lay them over a background."""
    bird = _Bird(factors, x, y)
    colours = _colours(factors)
    shape = _shape(bird)
    chance = bird.chance(1, 4)

    canvas = _body(bird, colours, shape, chance)
    cover = bird.cover(shape.body)
    for part, colour, lit_at in (
        (shape.tail, colours["wing"] * 0.9, shape.tail_tip[1]),
        (shape.legs, colours["bill"] * 0.72, 0.3),
        (shape.bill, colours["bill"], shape.gape[1]),
    ):
        edge = bird.cover(part)
        paint(canvas, colour * (1.06 - 0.5 * (bird.v - lit_at))[:, None], edge * (1.0 - cover))
        cover = np.maximum(cover, edge)
    _wing(bird, colours, canvas, chance)
    _eye(bird, canvas, shape)
    return canvas, cover


def _colours(factors: Mapping[str, np.ndarray]) -> dict[str, Field]:
    """The plumage with this bird's own tone and brightness, and the colour of bill and legs."""
    palette = np.array(list(_COLOURS.plumages.values()), dtype=np.float32)[factors["plumage"].astype(np.intp)]
    warmth = (factors["tone"][:, None] - 0.5) * np.array([0.16, 0.0, -0.16], dtype=np.float32)
    shade = 0.74 + 0.40 * factors["shade"][:, None]
    parts = ("back", "belly", "breast", "wing", "head")
    colours = {name: rgb((palette[:, i] + warmth) * shade) for i, name in enumerate(parts)}
    return colours | {"bill": colour_along(_COLOURS.bills, factors["bill_tone"])}


def _shape(bird: _Bird) -> _Shape:
    """Body with neck and head in one outline; tail, legs and bill each in their own."""
    pick, plump = bird.pick, bird.plump
    girth = (pick(0.56, 0.45) + 0.03 * plump, pick(0.235, 0.26) + 0.06 * plump)
    trunk = bird.ellipse((pick(-0.04, 0.0), pick(0.06, 0.02)), girth, pick(-0.08, -0.42))
    # A floating body is cut off by the water it would lie in.
    trunk = -join(-trunk, pick(0.24, 9.0) - bird.v, 0.12)

    reach = pick(0.10 + 0.62 * bird.neck, 0.04 + 0.10 * bird.neck)
    head = (pick(0.50 + 0.08 * bird.neck, 0.37), pick(-0.20, -0.24) - reach)
    base = (pick(0.40, 0.22), pick(0.02, -0.06))
    bend = (base[0] + pick(0.16, 0.08), mix(base[1], head[1], 0.35))
    back = (head[0] + pick(-0.10, -0.02) * (0.4 + bird.neck), mix(base[1], head[1], 0.75))
    thin = pick(0.115 - 0.035 * bird.neck, 0.17)
    neck = bird.limb(base, bend, (thin + 0.05, thin))[0]
    neck = join(neck, bird.limb(bend, back, (thin, thin * 0.95))[0], 0.08)
    neck = join(neck, bird.limb(back, head, (thin * 0.95, thin * 0.95))[0], 0.06)
    radius = pick(0.135, 0.185) + 0.02 * plump

    rump = (pick(-0.42, -0.30), pick(0.00, 0.10))
    tip = (pick(-0.68, -0.86) - 0.14 * bird.tail, pick(-0.10, 0.34) - pick(0.10, 0.50) * bird.tail)
    gape = (head[0] + 0.7 * radius, head[1] + pick(0.05, 0.02))
    point = (head[0] + radius + pick(0.15, 0.09) + pick(0.22, 0.11) * bird.bill, gape[1] + pick(0.06, 0.03))
    return _Shape(
        body=join(join(trunk, neck, 0.14), bird.circle(head, radius), 0.05),
        tail=bird.limb(rump, tip, (pick(0.13, 0.11), pick(0.025, 0.055)))[0],
        legs=_legs(bird),
        bill=bird.limb(gape, point, (pick(0.058, 0.068), pick(0.030, 0.006)))[0],
        head=head,
        head_radius=radius,
        tail_tip=tip,
        gape=gape,
    )


def _legs(bird: _Bird) -> Field:
    """Two thin legs with their toes on the ground; a floating bird's are far out of sight."""
    ground = 0.56
    legs = np.full_like(bird.u, np.inf)
    for hip, foot in ((-0.06, -0.02), (0.08, 0.14)):
        shin = bird.limb((hip, 0.20), (foot, ground), (0.030, 0.020))[0]
        toes = bird.limb((foot - 0.06, ground + 0.01), (foot + 0.12, ground + 0.02), (0.016, 0.022))[0]
        legs = np.minimum(legs, np.minimum(shin, toes))
    return legs + bird.pick(9.0, 0.0)


def _body(bird: _Bird, colours: dict[str, Field], shape: _Shape, chance: list[Field]) -> Field:
    """Back, belly, breast and hood, round under a light from above, with small feathers."""
    x, y = bird.u, bird.v
    low = y - bird.pick(0.05, -0.05) + bird.pick(0.0, 0.28) * x
    canvas = mix(colours["back"], colours["belly"], ramp(low, -0.02, 0.20)[:, None])
    breast = bird.circle((bird.pick(0.42, 0.34), bird.pick(0.06, 0.04)), 0.22)
    paint(canvas, colours["breast"], ramp(breast, 0.09, -0.07))
    paint(canvas, colours["head"], ramp(bird.circle(shape.head, shape.head_radius), 0.07, -0.01))
    light = 0.70 + 0.34 * np.sqrt(np.clip(shape.body * -6.0, 0.0, 1.0))
    light -= 0.42 * np.clip(y, -0.25, 0.35) * bird.pick(0.9, 1.0)
    light += 0.04 * (np.sin(31.0 * x + 17.0 * y + 6.28 * chance[0]) * np.sin(43.0 * y - 12.0 * x))
    return canvas * light[:, None]


def _wing(bird: _Bird, colours: dict[str, Field], canvas: Field, chance: list[Field]) -> None:
    """The folded wing: coverts like scales, long flight feathers, a pale bar and a shadow under its edge."""
    pick = bird.pick
    shoulder = (pick(0.18, 0.10), pick(-0.01, -0.02))
    tip = (pick(-0.62, -0.46), pick(-0.09, 0.17))
    wide = pick(0.170, 0.150) + 0.03 * bird.plump
    edge, along = bird.limb(shoulder, tip, (wide, 0.035))
    run = (tip[0] - shoulder[0], tip[1] - shoulder[1])
    across = ((bird.u - shoulder[0]) * run[1] - (bird.v - shoulder[1]) * run[0]) * (-1.0 / np.hypot(*run))
    paint(canvas, colours["wing"] * 0.45, 0.45 * coverage(edge - 0.035, 0.07 + bird.pixel))
    quills = np.sin(across * 62.0 + along * 5.0 + 6.28 * chance[2])
    scales = along * 7.0 + 0.6 * np.abs(np.sin(across * 34.0)) + chance[3]
    scales = 2.0 * (scales - np.floor(scales)) - 1.0
    flight = ramp(along, 0.30, 0.45)
    tone = 1.10 + (0.20 * quills * flight) + (0.13 * scales * (1.0 - flight)) - 0.30 * along - 0.9 * across
    cover = bird.cover(edge)
    paint(canvas, colours["wing"] * tone[:, None], cover)
    bar = ramp(np.abs(along - 0.38 + 0.8 * across), 0.07, 0.02) * bird["wing_bar"]
    paint(canvas, mix(colours["belly"], 0.95, 0.3), 0.65 * bar * cover)


def _eye(bird: _Bird, canvas: Field, shape: _Shape) -> None:
    """A dark eye in a pale ring, with the sky's glint in it."""
    centre = (shape.head[0] + 0.34 * shape.head_radius, shape.head[1] - 0.12 * shape.head_radius)
    distance = bird.circle(centre, 0.055)
    paint(canvas, rgb((0.86, 0.82, 0.72)), 0.55 * bird.cover(distance))
    paint(canvas, rgb((0.04, 0.03, 0.03)), bird.cover(distance + 0.014))
    paint(canvas, rgb((1.0, 1.0, 1.0)), 0.9 * bird.cover(bird.circle((centre[0] + 0.012, centre[1] - 0.016), 0.015)))
