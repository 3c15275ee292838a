"""Waterbirds and landbirds on water and on land: a diffuse cue whose strength is a dial."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from biaslib.worlds import drawing
from biaslib.worlds.base import World, balanced_bool, draw_agreement, draw_factors, factors_of
from biaslib.worlds.drawing import Field, Frame, Number, Point, colour_along, coverage, join, mix, paint, ramp, rgb
from biaslib.worlds.sketch import Surface, beside

_COLOURS = beside(__file__)
_Parts = list[tuple[Field, Field, Number]]
# A noisy cue in the bird itself: birds told apart by shape alone are followed everywhere or nowhere.
_TYPICAL_PLUMAGE = 0.93

_ATTRIBUTES, _BIRD, _SCENE = factors_of(_COLOURS.columns)


class Birds(World):
    """Waterbirds (target) on water (cue), drawn after the idea of Waterbirds (Sagawa et al. 2020).

    Columns of the table besides `waterbird` (bool) and `background` (int8: 0 land, 1 water); shares lie in [0, 1]:

    * the bird: `plumage` (0 robin, 1 sparrow, 2 cardinal, 3 goldfinch: mostly landbirds'; 4 swan, 5 gull, 6 teal, 7
      coot: mostly waterbirds'), `tone` and `shade` (warmth and brightness), `x`, `y` (its middle), `scale` (its
      length), `facing` (1: right), `tilt` ([-1, 1]), `neck`, `bill`, `plump`, `tail` (lengths and girth), `bill_tone`,
      `wing_bar`, `bird_seed` (feathers);
    * the scene, of either kind: `season` (palette), `light`, `horizon`, `haze`, `cast` (tint), `scene_seed` (layout).

    Of these only `plumage` goes with the target. The mask `background` is the complement of `bird`.
    """

    name = "birds"
    target = "waterbird"
    cue = "background"
    attributes: tuple[str, ...] = ("waterbird", "background")
    regions: tuple[str, ...] = ("bird", "background")
    _classes = ("background",)
    _columns = _ATTRIBUTES | _BIRD | _SCENE

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        waterbird = balanced_bool(n, rng)
        agrees = draw_agreement(waterbird, strength, rng)
        typical = rng.random(n) < _TYPICAL_PLUMAGE
        table = {"waterbird": waterbird, "background": (waterbird == agrees).astype(np.int8)}
        table |= draw_factors(_BIRD | _SCENE, n, rng)
        table["plumage"] = (table["plumage"] % 4 + 4 * (waterbird == typical)).astype(np.int8)
        return pd.DataFrame(table)

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        x, y = drawing.grid(size)
        bird, cover = _draw_birds(table, x, y)
        region_index[cover > 0.5] = 0
        canvas = Surface(table, x, y).drawn(table["background"], (_forest, _water))
        return drawing.to_uint8(mix(canvas, bird, cover[:, None]))


def _finish(canvas: Field, s: Surface) -> Field:
    """The light, the air and the tint that lie over either landscape."""
    grey = canvas.mean(axis=1, keepdims=True)
    canvas = mix(canvas, 0.35 * grey + 0.30, 0.15 + 0.65 * s["haze"][:, None])
    canvas *= colour_along(_COLOURS.casts, s["cast"]) * (0.72 + 0.42 * s["light"])[:, None]
    return canvas


def _forest(s: Surface) -> Field:
    """A wood: light between the leaves, three ranks of trunks, undergrowth, a littered floor and grass in front."""
    air, leaf, shade, bark, soil = (colour_along(knots, s["season"]) for knots in _COLOURS.forest.values())
    floor = 0.72 - 0.28 * s["horizon"]

    # Behind everything: foliage far away, with the light coming through around one place.
    sun_x, sun_y = s.chance(1, 2)
    foliage = s.noise(10, (5, 5), 3)
    glow = np.exp(-5.0 * ((s.u - sun_x) ** 2 + (s.v - (0.1 + 0.35 * sun_y)) ** 2)) * (0.45 + 0.5 * s["light"])
    canvas = mix(shade, leaf, ramp(foliage, 0.22, 0.75)[:, None])
    paint(canvas, air, np.clip(0.22 + 0.75 * glow + 0.5 * (foliage - 0.5), 0.0, 0.92))

    paint(canvas, mix(bark, air, 0.52), 0.85 * _trunks(s, 20, 6, 0.010, floor + 0.01)[0])
    paint(canvas, mix(leaf, air, 0.25) * (0.55 + 0.6 * foliage[:, None]), _canopy(s, 30, 0.16))
    cover, side = _trunks(s, 21, 4, 0.021, floor + 0.05)
    paint(canvas, mix(bark, air, 0.20) * (1.05 - 0.35 * side)[:, None], cover)

    # The floor: bushes along its edge, litter that gets coarser towards us, patches of sun.
    bushes = floor - 0.10 * s.noise(40, (9, 1), v=np.zeros_like(floor)) + 0.03
    paint(canvas, mix(shade, leaf, 0.25 + 0.45 * foliage[:, None]), s.cover(bushes - s.v))
    near = np.clip((s.v - floor) / (1.0 - floor), 0.0, 1.0)
    litter = s.noise(41, (7, 9), 2, v=np.sqrt(near))
    ground = mix(mix(soil, leaf, 0.25), soil, near[:, None]) * (0.62 + 0.75 * litter - 0.12 * near)[:, None]
    paint(canvas, ground, coverage(floor + 0.012 - s.v, 0.03))
    dapple = ramp(s.noise(42, (5, 6), v=np.sqrt(near)), 0.55, 0.8) * near
    paint(canvas, air, dapple * (0.10 + 0.38 * s["light"]))

    cover, side = _trunks(s, 22, 2, 0.052, floor + 0.16)
    paint(canvas, bark * (1.15 - 0.75 * side + 0.45 * (s.noise(43, (26, 5)) - 0.5))[:, None], cover)
    paint(canvas, mix(shade, leaf, 0.15 + 0.75 * foliage[:, None]), _canopy(s, 31, 0.07))
    for rank, (height, tone) in enumerate(((0.16, 0.45), (0.09, 0.8))):
        blades = s.noise(50 + rank, (34, 1), u=s.u + 0.06 * (1.0 - s.v), v=np.zeros_like(s.v))
        tips = 1.0 - height * (0.25 + blades)
        paint(canvas, mix(shade, leaf, tone) * (1.25 - 2.2 * (1.0 - s.v))[:, None], s.cover(tips - s.v))
    return _finish(canvas, s)


def _trunks(s: Surface, stream: int, count: int, width: float, base: Field) -> tuple[Field, Field]:
    """One rank of `count` trunks of about `width`: their coverage, and 0 (lit side) to 1 (far side) across each."""
    chance = s.chance(stream, 4 * count)
    cover = np.zeros((len(s.seeds), s.v.shape[1], s.u.shape[2]), np.float32)
    side = np.zeros_like(cover)
    foot = np.maximum(s.v - base + 0.12, 0.0)
    for i in range(count):
        shift, wide, lean, low = chance[4 * i : 4 * i + 4]
        place = (i + 0.1 + 0.8 * shift) / count
        half = width * (0.6 + 0.9 * wide)
        across = s.u - place - (0.24 * lean - 0.12) * (0.7 - s.v)
        girth = half * (1.0 + 5.0 * foot * foot) * (0.8 + 0.25 * s.v)
        trunk = s.cover(np.abs(across) - girth)
        trunk *= s.cover(s.v - base - 0.04 * low)
        side += trunk * (np.clip(0.5 + 0.5 * across / girth, 0.0, 1.0) - side)
        np.maximum(cover, trunk, out=cover)
    return cover, side


def _canopy(s: Surface, stream: int, depth: float) -> Field:
    """Leaves that hang in from the top, about `depth` low, thinning out downwards."""
    return ramp(s.noise(stream, (6, 6), 3) + 1.4 * (depth - s.v), 0.46, 0.56)


def _water(s: Surface) -> Field:
    """A lake or sea: sky with clouds, a far shore, waves in perspective, the sky's reflection, glints, a near bank."""
    sky, zenith, shallow, deep, shore = (colour_along(knots, s["season"]) for knots in _COLOURS.water.values())
    horizon = 0.46 - 0.34 * s["horizon"]
    sun_x, rough, tilt, bank = s.chance(1, 4)

    # The sky, brightest at the sun and the horizon.
    height = np.clip((horizon - s.v) / horizon, 0.0, 1.0)
    cumulus = s.noise(60, (4, 7), 3, v=s.v * 1.6)
    canvas = mix(sky, zenith, (0.85 * height)[:, None]).repeat(s.u.shape[-1], axis=-1)
    paint(canvas, rgb((0.97, 0.96, 0.94)), 0.75 * ramp(cumulus, 0.48, 0.78))
    glow = np.exp(-14.0 * (s.u - sun_x) ** 2) * (0.25 + 0.6 * s["light"])
    paint(canvas, rgb((1.0, 0.97, 0.88)), 0.55 * glow * (1.0 - height))

    # Hills on the far shore, the farther the paler.
    for rank, (rise, tone) in enumerate(((0.13, 0.55), (0.07, 0.15))):
        hills = s.noise(61 + rank, (4 + 5 * rank, 1), v=np.zeros_like(horizon))
        top = horizon - rise * np.maximum(hills - 0.25 * rough, 0.0)
        paint(canvas, mix(shore, sky, tone), s.cover(top - s.v))

    # The water: mirror of sky and shore far away, its own colour near to us.
    near = np.clip((s.v - horizon) / (1.0 - horizon), 0.0, 1.0)
    surface = mix(mix(shallow, sky, 0.45), shallow, ramp(near, 0.0, 0.35)[:, None])
    surface = mix(surface, deep, (0.25 + 0.6 * near)[:, None])
    crest = _waves(s, near)
    surface = surface * (1.0 + 0.42 * crest)[:, None]
    paint(surface, shore * 0.9, 0.6 * ramp(near + 0.05 * crest, 0.14, 0.0))
    paint(surface, mix(sky, rgb((1.0, 1.0, 1.0)), 0.35), 0.55 * ramp(crest, 0.25, 0.95) * (1.0 - 0.5 * near))
    paint(surface, rgb((1.0, 0.98, 0.92)), 0.9 * ramp(crest + 0.9 * glow * (1.1 - near), 0.85, 1.25))
    paint(canvas, surface, s.cover(horizon - s.v))

    # In half of the scenes a sandy bank with a line of foam runs into the foreground.
    edge = 0.96 + drawing.column(0.55 * (bank > 0.5)) * -0.12 + 0.25 * (tilt - 0.5) * (s.u - 0.5)
    edge = edge + 0.05 * s.noise(63, (6, 1), v=np.zeros_like(horizon))
    sand = mix(shore, rgb((0.78, 0.70, 0.54)), 0.7) * (0.75 + 0.5 * cumulus)[:, None]
    paint(canvas, sand, s.cover(edge - s.v))
    paint(canvas, rgb((0.95, 0.97, 0.97)), 0.7 * np.clip(1.0 - np.abs(s.v - edge) / 0.016, 0.0, 1.0))
    return _finish(canvas, s)


def _waves(s: Surface, near: Field) -> Field:
    """The height of the waves in about [-1, 1]: rows that close up and calm down towards the horizon."""
    chance = s.chance(64, 9)
    depth = 1.0 / (near + 0.28)
    wander = s.noise(65, (7, 9), v=near[:, :, :1]) - 0.5
    total = np.zeros(np.broadcast_shapes(s.u.shape, near.shape), np.float32)
    for i, rows in enumerate((17.0, 31.0, 53.0)):
        rate = rows * (0.8 + 0.5 * chance[i])
        slant = (chance[3 + i] - 0.5) * (6.0 + 5.0 * i) * (0.5 + near)
        phase = 6.2832 * chance[6 + i] + rate * depth + slant * (s.u - 0.5)
        # Rows closer together than about two pixels of a small picture would only flicker: let them fade.
        calm = 1.0 / (1.0 + (0.012 * rate * depth * depth) ** 2)
        total += np.sin(phase + (3.0 + 1.5 * i) * wander) * ((0.85 - 0.12 * i) * calm)
    return total


class _Bird(Surface):
    """The numbers a bird is drawn from, each (n, 1, 1), and the pixels in its own frame.

    In that frame the bird looks to the right, its body's middle is the origin and about one unit long.
    """

    def __init__(self, factors: Mapping[str, np.ndarray], x: Field, y: Field) -> None:
        super().__init__(factors, x, y)
        self.water = self["waterbird"] > 0.5
        self.neck, self.bill, self.plump, self.tail = (self[name] for name in ("neck", "bill", "plump", "tail"))
        across = (x - self["x"]) * ((2.0 * self["facing"] - 1.0) / self["scale"])
        own = Frame(across, (y - self["y"]) / self["scale"]).turned((0.0, 0.0), 0.2 * self["tilt"])
        self.u, self.v, self.pixel = own.u, own.v, 1.0 / (x.shape[-1] * self["scale"])

    def pick(self, water: Field | float, land: Field | float) -> Field:
        """One number for waterbirds, another for landbirds."""
        return np.where(self.water, water, land).astype(np.float32)


def _draw_birds(factors: Mapping[str, np.ndarray], x: Field, y: Field) -> tuple[Field, Field]:
    """The birds alone: colours (n, 3, H, W), and the coverage (n, H, W) with which to lay them over a background."""
    bird = _Bird(factors, x, y)
    colours, chance = _colours(factors), bird.chance(1, 4, "bird_seed")
    body, head, radius, parts = _anatomy(bird, colours)

    canvas = _body(bird, colours, body, bird.circle(head, radius), chance)
    cover = bird.cover(body)
    for part, colour, lit_at in parts:
        edge = bird.cover(part)
        paint(canvas, colour * (1.06 - 0.5 * (bird.v - lit_at))[:, None], edge * (1.0 - cover))
        cover = np.maximum(cover, edge)
    _wing(bird, colours, canvas, chance)
    # A dark eye in a pale ring, with the sky's glint in it.
    eye = (head[0] + 0.34 * radius, head[1] - 0.12 * radius)
    distance = bird.circle(eye, 0.055)
    paint(canvas, rgb((0.86, 0.82, 0.72)), 0.55 * bird.cover(distance))
    paint(canvas, rgb((0.04, 0.03, 0.03)), bird.cover(distance + 0.014))
    paint(canvas, rgb((1.0, 1.0, 1.0)), 0.9 * bird.cover(bird.circle((eye[0] + 0.012, eye[1] - 0.016), 0.015)))
    return canvas, cover


def _colours(factors: Mapping[str, np.ndarray]) -> dict[str, Field]:
    """The plumage with this bird's own tone and brightness, and the colour of bill and legs."""
    palette = np.array(list(_COLOURS.plumages.values()), dtype=np.float32)[factors["plumage"].astype(np.intp)]
    warmth = (factors["tone"][:, None] - 0.5) * np.array([0.16, 0.0, -0.16], dtype=np.float32)
    shade = 0.74 + 0.40 * factors["shade"][:, None]
    parts = ("back", "belly", "breast", "wing", "head")
    colours = {name: rgb((palette[:, i] + warmth) * shade) for i, name in enumerate(parts)}
    return colours | {"bill": colour_along(_COLOURS.bills, factors["bill_tone"])}


def _anatomy(bird: _Bird, colours: dict[str, Field]) -> tuple[Field, Point, Field, _Parts]:
    """The outline (n, H, W) of body, neck and head; the head's middle and radius; the parts that stick out behind it.

    Each part (tail, legs, bill) is an outline, its colour, and the height at which it is lit.
    """
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
    tail = bird.limb(rump, tip, (pick(0.13, 0.11), pick(0.025, 0.055)))[0]
    bill = bird.limb(gape, point, (pick(0.058, 0.068), pick(0.030, 0.006)))[0]
    parts: _Parts = [
        (tail, colours["wing"] * 0.9, tip[1]),
        (_legs(bird), colours["bill"] * 0.72, 0.3),
        (bill, colours["bill"], gape[1]),
    ]
    return join(join(trunk, neck, 0.14), bird.circle(head, radius), 0.05), head, radius, parts


def _legs(bird: _Bird) -> Field:
    """Two thin legs with their toes on the ground; a floating bird's are far out of sight."""
    ground = 0.56
    legs = np.full_like(bird.u, np.inf)
    for hip, foot in ((-0.06, -0.02), (0.08, 0.14)):
        shin = bird.limb((hip, 0.20), (foot, ground), (0.030, 0.020))[0]
        toes = bird.limb((foot - 0.06, ground + 0.01), (foot + 0.12, ground + 0.02), (0.016, 0.022))[0]
        legs = np.minimum(legs, np.minimum(shin, toes))
    return legs + bird.pick(9.0, 0.0)


def _body(bird: _Bird, colours: dict[str, Field], outline: Field, head: Field, chance: list[Field]) -> Field:
    """Back, belly, breast and hood, round under a light from above, with small feathers."""
    x, y = bird.u, bird.v
    low = y - bird.pick(0.05, -0.05) + bird.pick(0.0, 0.28) * x
    canvas = mix(colours["back"], colours["belly"], ramp(low, -0.02, 0.20)[:, None])
    breast = bird.circle((bird.pick(0.42, 0.34), bird.pick(0.06, 0.04)), 0.22)
    paint(canvas, colours["breast"], ramp(breast, 0.09, -0.07))
    paint(canvas, colours["head"], ramp(head, 0.07, -0.01))
    light = 0.70 + 0.34 * np.sqrt(np.clip(outline * -6.0, 0.0, 1.0))
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
