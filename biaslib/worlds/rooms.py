"""Where a pet is: a wall or a hedge behind, a floor or a lawn in front, and the balls that may lie there."""

from collections.abc import Callable

import numpy as np

from biaslib.worlds.drawing import Field, Frame, colour_along, column, coverage, mix, paint, ramp, rgb
from biaslib.worlds.sketch import Sketch, Surface, beside

_COLOURS = beside(__file__)


def draw(s: Surface) -> Field:
    """Draws the rooms, and the gardens where `garden` is 1; canvas (n, 3, H, W)."""
    garden = s.table["garden"]
    canvas = s.drawn(s.table["wall"] + 3 * garden, _WALLS + _HEDGES)
    ground = s.drawn(s.table["floor"] + 3 * garden, _FLOORS + _GROUNDS)
    line = _edge(s)
    # A skirting board indoors, and the dark where the floor meets what is behind it.
    skirting = mix(colour_along(_COLOURS.paints, s["wall_tone"]), rgb((0.97, 0.96, 0.93)), 0.75)
    skirting = skirting * (1.02 - 5.0 * np.abs(s.v - line + 0.03))[:, None]
    paint(canvas, skirting, s.cover(np.abs(s.v - line + 0.022) - 0.022) * column(garden == 0))
    paint(canvas, ground, s.cover(line - s.v) * np.ones_like(s.u))
    canvas *= (1.0 - 0.30 * ramp(np.abs(s.v - line), 0.05, 0.0) * (s.v >= line - 0.004))[:, None]
    return canvas


def _edge(s: Surface) -> Field:
    """Where wall and floor meet, a share of the height from the top, (n, 1, 1)."""
    return 0.62 - 0.22 * s["horizon"]


def _near(s: Surface) -> tuple[Field, Field]:
    """How near the floor is to us (0 at its far edge, 1 at our feet), and how large it is seen, (n, H, 1) each."""
    line = _edge(s)
    near = np.clip((s.v - line) / (1.0 - line), 0.0, 1.0)
    return near, 0.42 + 0.58 * near


def _painted(s: Surface) -> Field:
    """A painted wall, with a picture on it in some rooms."""
    light = 0.96 + 0.10 * (s.noise(10, (3, 3), 3) - 0.5)
    canvas = colour_along(_COLOURS.paints, s["wall_tone"]) * light[:, None]
    chance = s.chance(11, 8)
    middle = 0.12 + 0.76 * chance[0], 0.10 + 0.12 * chance[1]
    frame = s.box(middle, (0.09 + 0.05 * chance[2], 0.08 + 0.04 * chance[3]))
    hung = column(chance[4] < 0.6)
    canvas *= (1.0 - 0.25 * hung * ramp(frame - 0.01, 0.03, -0.01))[:, None]
    paint(canvas, colour_along(_COLOURS.woods, chance[5]) * 0.75, hung * s.cover(frame))
    sky, green = colour_along(_COLOURS.skies, chance[6]), colour_along(_COLOURS.greens, chance[7])
    view = mix(sky, green, ramp(s.v - middle[1], 0.0, 0.06)[:, None])
    paint(canvas, view, hung * s.cover(frame + 0.018))
    return canvas


def _papered(s: Surface) -> Field:
    chance = s.chance(20, 3)
    away = np.abs(np.mod(s.u * (5.0 + 6.0 * chance[0]) + chance[1], 1.0) - 0.5)
    stripe = ramp(away, 0.24, 0.27) + 0.0 * s.v
    thin = ramp(np.abs(away - 0.17), 0.05, 0.02)
    base = colour_along(_COLOURS.paints, s["wall_tone"])
    canvas = base * (0.95 + 0.06 * (s.noise(21, (40, 3)) - 0.5))[:, None]
    return mix(canvas, base * 0.74, (0.75 * stripe + 0.25 * thin)[:, None])


def _window(s: Surface) -> Field:
    chance = s.chance(30, 5)
    light = 0.90 + 0.10 * (s.noise(31, (3, 3), 2) - 0.5)
    canvas = colour_along(_COLOURS.paints, s["wall_tone"]) * light[:, None]
    middle, half = 0.22 + 0.56 * chance[0], 0.16 + 0.05 * chance[1]
    pane = s.box((middle, 0.08), (half, 0.24))
    clouds = ramp(s.noise(32, (4, 6), 2), 0.5, 0.75)[:, None]
    view = mix(colour_along(_COLOURS.skies, chance[2]), rgb((0.97, 0.97, 0.95)), clouds)
    hills = 0.24 - 0.12 * s.noise(33, (7, 1), v=0 * s.v)
    view = mix(view, colour_along(_COLOURS.greens, chance[3]) * 0.9, ramp(s.v - hills, 0.0, 0.03)[:, None])
    bars = np.minimum(np.abs(s.u - middle) + 0.0 * s.v, np.abs(s.v - 0.12) + 0.0 * s.u) - 0.007
    frame = rgb((0.96, 0.95, 0.92))
    paint(canvas, frame, s.cover(pane - 0.018))
    paint(canvas, view, s.cover(pane))
    paint(canvas, frame * 0.96, s.cover(np.maximum(bars, pane)))
    hang = np.abs(np.abs(s.u - middle) - half - 0.01) - 0.055 + 0.02 * s.v
    folds = 0.92 + 0.16 * np.sin(s.u * 150.0) + 0.0 * s.v
    curtain = colour_along(_COLOURS.carpets, chance[4]) * 1.25 * folds[:, None]
    paint(canvas, curtain, s.cover(np.maximum(hang, s.v - 0.38)))
    return canvas


def _planks(s: Surface) -> Field:
    near, seen = _near(s)
    place = (s.u - 0.5) / seen * 7.0 + 14.0 + s.chance(40, 1)[0]
    number = s.number_of(place, 40, 34)
    joint = np.abs(place - np.round(place)) * seen
    light = 0.74 + 0.24 * number + 0.16 * (s.noise(41, (60, 5), v=near) - 0.5) + 0.16 * near
    light = light * (1.0 - 0.45 * ramp(joint, 0.07, 0.015))
    return colour_along(_COLOURS.woods, s["floor_tone"]) * light[:, None]


def _tiled(s: Surface) -> Field:
    near, seen = _near(s)
    chance = s.chance(50, 3)
    across = (s.u - 0.5) / seen * 5.0 + 20.0 + chance[0]
    depth = 5.0 / seen + chance[1]
    odd = np.mod(np.floor(across) + np.floor(depth), 2.0) * column(chance[2] > 0.5)
    joint = np.minimum(np.abs(across - np.round(across)) * seen, np.abs(depth - np.round(depth)) * seen * seen)
    light = 0.84 + 0.14 * near + 0.08 * (s.noise(51, (8, 8), 2) - 0.5) - 0.24 * odd
    light = light * (1.0 - 0.28 * ramp(joint, 0.045, 0.01))
    return colour_along(_COLOURS.tiles, s["floor_tone"]) * light[:, None]


def _carpet(s: Surface) -> Field:
    near, seen = _near(s)
    light = 0.82 + 0.34 * (s.noise(60, (34, 26), 2, v=np.sqrt(near)) - 0.5) + 0.16 * near
    base = colour_along(_COLOURS.carpets, s["floor_tone"])
    rim = np.maximum(np.abs(s.u - 0.5) / seen - 0.52, np.abs(near - 0.52) * 0.8 - 0.36)
    band = ramp(np.abs(rim), 0.035, 0.02)
    return mix(base, mix(base, rgb((0.96, 0.90, 0.76)), 0.6), (0.8 * band)[:, None]) * light[:, None]


def _hedge(s: Surface) -> Field:
    green = colour_along(_COLOURS.greens, s["wall_tone"])
    canvas = mix(green * 0.50, green * 1.20, ramp(s.noise(70, (12, 12), 3), 0.20, 0.80)[:, None])
    top = 0.20 * s.chance(71, 1)[0] - 0.05 + 0.06 * s.noise(72, (8, 1), v=0 * s.v)
    paint(canvas, colour_along(_COLOURS.skies, s["floor_tone"]), coverage(s.v - top, 0.03))
    return canvas


def _fence(s: Surface) -> Field:
    canvas = _hedge(s)
    shift, height, pale = s.chance(80, 3)
    place = s.u * 8.0 + 1.0 + shift
    number = s.number_of(place, 80, 30)
    joint = 0.5 - np.abs(np.mod(place, 1.0) - 0.5)
    top = 0.14 + 0.10 * height + 0.10 * np.abs(joint - 0.5) + 0.02 * number
    wood = colour_along(_COLOURS.woods, s["wall_tone"])
    wood = mix(wood, rgb((0.90, 0.88, 0.84)), column(0.6 * (pale > 0.5))[:, None])
    light = (0.80 + 0.20 * number + 0.16 * (s.noise(81, (70, 3)) - 0.5)) * (1.0 - 0.30 * ramp(joint, 0.12, 0.04))
    paint(canvas, wood * light[:, None], s.cover(top - s.v) * ramp(joint, 0.015, 0.045))
    return canvas


def _bricks(s: Surface) -> Field:
    row = s.v * 13.0
    place = s.u * 5.5 + 0.5 * np.mod(np.floor(row), 2.0)
    number = s.number_of(np.floor(row) * 7.0 + np.floor(place), 90, 200)
    joint = np.minimum((0.5 - np.abs(np.mod(row, 1.0) - 0.5)) * 0.8, (0.5 - np.abs(np.mod(place, 1.0) - 0.5)) * 2.0)
    light = 0.76 + 0.30 * number + 0.20 * (s.noise(91, (40, 40)) - 0.5)
    canvas = colour_along(_COLOURS.bricks, s["wall_tone"]) * light[:, None]
    return mix(canvas, rgb((0.74, 0.72, 0.68)), (0.7 * ramp(joint, 0.12, 0.04))[:, None] * np.ones_like(canvas))


def _lawn(s: Surface) -> Field:
    near, _ = _near(s)
    blades = s.noise(101, (90, 16), u=s.u + 0.02 * near, v=near) - 0.5
    light = 0.62 + 0.42 * s.noise(100, (5, 6), 3, v=np.sqrt(near)) + (0.35 + 0.35 * near) * blades + 0.12 * near
    return colour_along(_COLOURS.greens, s["floor_tone"]) * light[:, None]


def _paving(s: Surface) -> Field:
    near, seen = _near(s)
    chance = s.chance(110, 2)
    depth = 4.2 / seen + chance[1]
    across = (s.u - 0.5) / seen * 3.6 + 20.0 + chance[0] + 0.5 * np.mod(np.floor(depth), 2.0)
    joint = np.minimum(np.abs(across - np.round(across)) * seen, np.abs(depth - np.round(depth)) * seen * seen)
    rough = s.noise(111, (14, 12), 3, v=np.sqrt(near))
    own = np.mod(np.sin(12.9 * np.floor(across) + 78.2 * np.floor(depth)) * 437.0, 1.0)
    light = 0.72 + 0.14 * own + 0.34 * (rough - 0.5) + 0.14 * near
    canvas = colour_along(_COLOURS.stones, s["floor_tone"]) * light[:, None]
    return mix(canvas, rgb((0.34, 0.38, 0.24)), (0.7 * ramp(joint + 0.05 * (rough - 0.5), 0.06, 0.015))[:, None])


def _gravel(s: Surface) -> Field:
    near, _ = _near(s)
    grit = s.noise(120, (46, 34), 2, v=np.sqrt(near))
    light = 0.80 + 0.66 * (grit - 0.5) + 0.20 * (s.noise(121, (3, 5), 2) - 0.5) + 0.12 * near
    return colour_along(_COLOURS.stones, s["floor_tone"]) * light[:, None]


_WALLS = (_painted, _papered, _window)
_FLOORS = (_planks, _tiled, _carpet)
_HEDGES = (_hedge, _fence, _bricks)
_GROUNDS = (_lawn, _paving, _gravel)


_WHITE, _INK = rgb((0.97, 0.97, 0.95)), rgb((0.10, 0.10, 0.12))
_RADIUS = 0.96


def _lit(s: Sketch, round_: Field, gleam: float) -> None:
    """The light on a ball: bright at the upper left, dark below, with a highlight."""
    rise = np.sqrt(np.clip(round_ * (-1.0 / 0.9), 0.0, 1.0))
    s.shade(0.56 + 0.46 * rise + 0.24 * np.clip(s.lit, -1.0, 1.0))
    s.tint(gleam * ramp(s.circle((-0.34, -0.40), 0.0), 0.30, 0.05), _WHITE)


def _turned(s: Sketch) -> tuple[Field, Field]:
    """Coordinates on the ball, turned by a random angle."""
    own = s.turned((0.0, 0.0), 6.2832 * s.chance(1)[0])
    return own.u, own.v


def _beach(s: Sketch) -> None:
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    first, second = s.pick(_COLOURS.bold), s.pick(_COLOURS.bold, 3)
    pole = (0.26, -0.10)
    part = np.mod(np.arctan2(v - pole[1], u - pole[0]) * (6.0 / 6.2832), 6.0)
    edge = (0.5 - np.abs(np.mod(part, 1.0) - 0.5)) * np.hypot(u - pole[0], v - pole[1])
    own = np.where((part < 3.0)[:, None], first, second)
    s.lay(round_, np.where((np.mod(np.floor(part), 2.0) < 0.5)[:, None], _WHITE, own))
    s.tint(0.3 * ramp(edge, 0.05, 0.0), _WHITE * 0.8)
    s.mark(Frame(u, v).circle(pole, 0.15), _WHITE)
    _lit(s, round_, 0.7)


def _tennis(s: Sketch) -> None:
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick([(0.80, 0.92, 0.18), (0.88, 0.94, 0.26), (0.98, 0.52, 0.14)]))
    for side in (-1.0, 1.0):
        s.mark(np.abs(Frame(u, v).circle((1.25 * side, 0.15), 0.95)) - 0.065, _WHITE)
    _lit(s, round_, 0.25)


def _striped(s: Sketch) -> None:
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick(_COLOURS.bold))
    bend = v - 0.28 * np.sqrt(np.clip(1.0 - u * u, 0.0, 1.0))
    s.mark(np.abs(bend) - 0.20, _WHITE)
    s.mark(np.abs(bend) - 0.09, s.pick(_COLOURS.bold, 3))
    _lit(s, round_, 0.8)


def _starred(s: Sketch) -> None:
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick(_COLOURS.bold))
    sector = np.mod(np.arctan2(v, u) * (5.0 / 6.2832), 1.0) - 0.5
    star = np.hypot(u, v) - (0.28 + 0.36 * (1.0 - 2.0 * np.abs(sector)))
    s.mark(star * 0.6, mix(_WHITE, rgb((1.0, 0.86, 0.30)), s.chance(2)[1][:, None]))
    _lit(s, round_, 0.8)


def _football(s: Sketch) -> None:
    """A football: a dark patch in the middle, five around it and the seams between."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, _WHITE)
    ink = mix(_INK, s.pick(_COLOURS.bold), column(s.chance(2)[1][:, 0, 0] > 0.5)[:, None])
    sector = np.mod(np.arctan2(v, u) * (5.0 / 6.2832), 1.0) - 0.5
    reach = np.hypot(u, v)
    along, across = reach * np.cos(sector * 1.2566), reach * np.sin(sector * 1.2566)
    s.mark(along - 0.34, ink)
    s.mark(Frame(along, across).limb((0.34, 0.25), (0.62, 0.46), (0.035, 0.03))[0], ink)
    s.mark(Frame(along, across).limb((0.34, -0.25), (0.62, -0.46), (0.035, 0.03))[0], ink)
    outer = np.mod(np.arctan2(v, u) * (5.0 / 6.2832) + 0.5, 1.0) - 0.5
    s.mark(0.76 - reach * np.cos(outer * 1.2566) + 0.30 * np.abs(outer), ink)
    _lit(s, round_, 0.6)


# Beach balls, tennis balls, striped and starred rubber balls, footballs.
BALLS: tuple[Callable[[Sketch], None], ...] = (_beach, _tennis, _striped, _starred, _football)
