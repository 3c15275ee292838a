"""Rooms and gardens without anybody in them: a wall or a hedge behind, a floor or a lawn in front."""

from collections.abc import Mapping

import numpy as np

from biaslib.worlds.drawing import (
    Field,
    Frame,
    colour_along,
    column,
    coverage,
    mix,
    noise,
    paint,
    ramp,
    rgb,
    rows_of_each,
    uniform,
)

_PAINTS = [(0.86, 0.84, 0.76), (0.66, 0.76, 0.78), (0.84, 0.70, 0.62), (0.70, 0.74, 0.62), (0.78, 0.74, 0.84)]
_WOODS = [(0.72, 0.52, 0.33), (0.52, 0.35, 0.22), (0.82, 0.68, 0.50), (0.62, 0.50, 0.40)]
_TILES = [(0.88, 0.86, 0.80), (0.74, 0.52, 0.40), (0.66, 0.72, 0.74), (0.80, 0.76, 0.62)]
_CARPETS = [(0.66, 0.38, 0.38), (0.44, 0.60, 0.54), (0.80, 0.68, 0.50), (0.42, 0.50, 0.70)]
_GREENS = [(0.36, 0.56, 0.22), (0.46, 0.60, 0.24), (0.26, 0.46, 0.24), (0.56, 0.58, 0.28)]
_STONES = [(0.72, 0.68, 0.62), (0.62, 0.62, 0.62), (0.78, 0.68, 0.54), (0.66, 0.56, 0.50)]
_BRICKS = [(0.66, 0.38, 0.28), (0.74, 0.52, 0.40), (0.58, 0.42, 0.36), (0.80, 0.72, 0.64)]
_SKIES = [(0.58, 0.76, 0.92), (0.78, 0.86, 0.92), (0.94, 0.86, 0.74), (0.50, 0.70, 0.90)]


_Table = Mapping[str, np.ndarray]


def draw(table: _Table, x: Field, y: Field) -> Field:
    """Draws the rooms, and the gardens where `garden` is 1; canvas (n, 3, H, W)."""
    canvas = np.empty((len(table["garden"]), 3, y.shape[1], x.shape[2]), np.float32)
    ground = np.empty_like(canvas)
    for layer, name, kinds in ((canvas, "wall", _WALLS + _HEDGES), (ground, "floor", _FLOORS + _GROUNDS)):
        for surface, rows in rows_of_each(table[name] + 3 * table["garden"], kinds):
            layer[rows] = surface({column_: values[rows] for column_, values in table.items()}, x, y)
    line = _edge(table)
    inside = column(table["garden"] == 0)
    # A skirting board indoors, and the dark where the floor meets what is behind it.
    board = np.abs(y - line + 0.022) - 0.022
    skirting = mix(colour_along(_PAINTS, table["wall_tone"]), rgb((0.97, 0.96, 0.93)), 0.75)
    paint(canvas, skirting * (1.02 - 5.0 * np.abs(y - line + 0.03))[:, None], coverage(board, 1 / x.shape[-1]) * inside)
    paint(canvas, ground, coverage(line - y, 1 / x.shape[-1]) * np.ones_like(x))
    canvas *= (1.0 - 0.30 * ramp(np.abs(y - line), 0.05, 0.0) * (y >= line - 0.004))[:, None]
    return canvas


def _edge(table: _Table) -> Field:
    """Where wall and floor meet, a share of the height from the top, (n, 1, 1)."""
    return column(0.62 - 0.22 * table["horizon"])


def _near(table: _Table, y: Field) -> tuple[Field, Field]:
    """How near the floor is to us (0 at its far edge, 1 at our feet), and how large it is seen, (n, H, 1) each."""
    line = _edge(table)
    near = np.clip((y - line) / (1.0 - line), 0.0, 1.0)
    return near, 0.42 + 0.58 * near


def _painted(table: _Table, x: Field, y: Field) -> Field:
    """A painted wall, with a picture on it in some rooms."""
    seeds = table["scene_seed"]
    light = 0.96 + 0.10 * (noise(seeds, 10, x, y, (3, 3), 3) - 0.5)
    canvas = colour_along(_PAINTS, table["wall_tone"]) * light[:, None]
    chance = uniform(seeds, 11, 8)
    middle = column(0.12 + 0.76 * chance[:, 0]), column(0.10 + 0.12 * chance[:, 1])
    frame = Frame(x, y).box(middle, (column(0.09 + 0.05 * chance[:, 2]), column(0.08 + 0.04 * chance[:, 3])))
    hung = column(chance[:, 4] < 0.6)
    canvas *= (1.0 - 0.25 * hung * ramp(frame - 0.01, 0.03, -0.01))[:, None]
    paint(canvas, colour_along(_WOODS, chance[:, 5]) * 0.75, hung * coverage(frame, 1 / x.shape[-1]))
    view = mix(
        colour_along(_SKIES, chance[:, 6]), colour_along(_GREENS, chance[:, 7]), ramp(y - middle[1], 0.0, 0.06)[:, None]
    )
    paint(canvas, view, hung * coverage(frame + 0.018, 1 / x.shape[-1]))
    return canvas


def _papered(table: _Table, x: Field, y: Field) -> Field:
    """Striped wallpaper."""
    seeds = table["scene_seed"]
    chance = uniform(seeds, 20, 3)
    place = np.mod(x * column(5.0 + 6.0 * chance[:, 0]) + column(chance[:, 1]), 1.0)
    stripe = ramp(np.abs(place - 0.5), 0.24, 0.27) + 0.0 * y
    thin = ramp(np.abs(np.abs(place - 0.5) - 0.17), 0.05, 0.02)
    base = colour_along(_PAINTS, table["wall_tone"])
    canvas = base * (0.95 + 0.06 * (noise(seeds, 21, x, y, (40, 3)) - 0.5))[:, None]
    return mix(canvas, base * 0.74, (0.75 * stripe + 0.25 * thin)[:, None])


def _window(table: _Table, x: Field, y: Field) -> Field:
    """A wall with a window to the sky and a curtain on either side."""
    seeds = table["scene_seed"]
    chance = uniform(seeds, 30, 5)
    light = 0.90 + 0.10 * (noise(seeds, 31, x, y, (3, 3), 2) - 0.5)
    canvas = colour_along(_PAINTS, table["wall_tone"]) * light[:, None]
    middle, half = column(0.22 + 0.56 * chance[:, 0]), column(0.16 + 0.05 * chance[:, 1])
    pane = Frame(x, y).box((middle, 0.08), (half, 0.24))
    sky = colour_along(_SKIES, chance[:, 2])
    view = mix(sky, rgb((0.97, 0.97, 0.95)), ramp(noise(seeds, 32, x, y, (4, 6), 2), 0.5, 0.75)[:, None])
    hills = 0.24 - 0.12 * noise(seeds, 33, x, 0 * y, (7, 1))
    view = mix(view, colour_along(_GREENS, chance[:, 3]) * 0.9, ramp(y - hills, 0.0, 0.03)[:, None])
    bars = np.minimum(np.abs(x - middle) + 0.0 * y, np.abs(y - 0.12) + 0.0 * x) - 0.007
    frame = rgb((0.96, 0.95, 0.92))
    paint(canvas, frame, coverage(pane - 0.018, 1 / x.shape[-1]))
    paint(canvas, view, coverage(pane, 1 / x.shape[-1]))
    paint(canvas, frame * 0.96, coverage(np.maximum(bars, pane), 1 / x.shape[-1]))
    hang = np.abs(np.abs(x - middle) - half - 0.01) - 0.055 + 0.02 * y
    cloth = colour_along(_CARPETS, chance[:, 4]) * 1.25
    folds = 0.92 + 0.16 * np.sin(x * 150.0) + 0.0 * y
    paint(canvas, cloth * folds[:, None], coverage(np.maximum(hang, y - 0.38), 1 / x.shape[-1]))
    return canvas


def _planks(table: _Table, x: Field, y: Field) -> Field:
    """Floor boards that run towards us, and grow narrower to the far edge."""
    seeds = table["scene_seed"]
    near, seen = _near(table, y)
    chance = uniform(seeds, 40, 34)
    place = (x - 0.5) / seen * 7.0 + 14.0 + column(chance[:, 0])
    number = np.take_along_axis(chance, np.floor(place).reshape(len(place), -1).astype(np.intp), 1).reshape(place.shape)
    joint = np.abs(place - np.round(place)) * seen
    grain = noise(seeds, 41, x, near, (60, 5))
    light = 0.74 + 0.24 * number + 0.16 * (grain - 0.5) + 0.16 * near
    light = light * (1.0 - 0.45 * ramp(joint, 0.07, 0.015))
    return colour_along(_WOODS, table["floor_tone"]) * light[:, None]


def _tiled(table: _Table, x: Field, y: Field) -> Field:
    """Square tiles, chequered in some rooms, with a gleam."""
    seeds = table["scene_seed"]
    near, seen = _near(table, y)
    chance = uniform(seeds, 50, 3)
    across = (x - 0.5) / seen * 5.0 + 20.0 + column(chance[:, 0])
    depth = column(np.full(len(chance), 5.0)) / seen + column(chance[:, 1])
    odd = np.mod(np.floor(across) + np.floor(depth), 2.0) * column(chance[:, 2] > 0.5)
    joint = np.minimum(np.abs(across - np.round(across)) * seen, np.abs(depth - np.round(depth)) * seen * seen)
    light = 0.84 + 0.14 * near + 0.08 * (noise(seeds, 51, x, y, (8, 8), 2) - 0.5) - 0.24 * odd
    light = light * (1.0 - 0.28 * ramp(joint, 0.045, 0.01))
    return colour_along(_TILES, table["floor_tone"]) * light[:, None]


def _carpet(table: _Table, x: Field, y: Field) -> Field:
    """A soft carpet with a border woven in."""
    seeds = table["scene_seed"]
    near, seen = _near(table, y)
    pile = noise(seeds, 60, x, np.sqrt(near), (34, 26), 2)
    light = 0.82 + 0.34 * (pile - 0.5) + 0.16 * near
    base = colour_along(_CARPETS, table["floor_tone"])
    rim = np.maximum(np.abs(x - 0.5) / seen - 0.52, np.abs(near - 0.52) * 0.8 - 0.36)
    band = ramp(np.abs(rim), 0.035, 0.02)
    return mix(base, mix(base, rgb((0.96, 0.90, 0.76)), 0.6), (0.8 * band)[:, None]) * light[:, None]


def _hedge(table: _Table, x: Field, y: Field) -> Field:
    """A hedge out of focus under some sky."""
    seeds = table["scene_seed"]
    leaves = noise(seeds, 70, x, y, (12, 12), 3)
    green = colour_along(_GREENS, table["wall_tone"])
    canvas = mix(green * 0.50, green * 1.20, ramp(leaves, 0.20, 0.80)[:, None])
    top = column(0.20 * uniform(seeds, 71, 1)[:, 0]) - 0.05 + 0.06 * noise(seeds, 72, x, 0 * y, (8, 1))
    paint(canvas, colour_along(_SKIES, table["floor_tone"]), coverage(y - top, 0.03))
    return canvas


def _fence(table: _Table, x: Field, y: Field) -> Field:
    """A wooden fence with bushes behind it."""
    seeds = table["scene_seed"]
    canvas = _hedge(table, x, y)
    chance = uniform(seeds, 80, 30)
    place = x * 8.0 + 1.0 + column(chance[:, 0])
    number = np.take_along_axis(chance, np.floor(place).astype(np.intp).reshape(len(chance), -1), 1).reshape(
        place.shape
    )
    joint = 0.5 - np.abs(np.mod(place, 1.0) - 0.5)
    top = column(0.14 + 0.10 * chance[:, 1]) + 0.10 * np.abs(joint - 0.5) + 0.02 * number
    grain = noise(seeds, 81, x, y, (70, 3))
    wood = mix(
        colour_along(_WOODS, table["wall_tone"]), rgb((0.90, 0.88, 0.84)), column(0.6 * (chance[:, 2] > 0.5))[:, None]
    )
    light = (0.80 + 0.20 * number + 0.16 * (grain - 0.5)) * (1.0 - 0.30 * ramp(joint, 0.12, 0.04))
    cover = coverage(top - y, 1 / x.shape[-1]) * ramp(joint, 0.015, 0.045)
    paint(canvas, wood * light[:, None], cover)
    return canvas


def _bricks(table: _Table, x: Field, y: Field) -> Field:
    """A brick wall."""
    seeds = table["scene_seed"]
    chance = uniform(seeds, 90, 200)
    row = y * 13.0
    place = x * 5.5 + 0.5 * np.mod(np.floor(row), 2.0)
    which = (np.floor(row) * 7.0 + np.floor(place)).astype(np.intp).reshape(1, -1) + np.zeros((len(chance), 1), np.intp)
    number = np.take_along_axis(chance, which, 1).reshape(len(chance), *np.broadcast_shapes(row.shape, place.shape)[1:])
    joint = np.minimum((0.5 - np.abs(np.mod(row, 1.0) - 0.5)) * 0.8, (0.5 - np.abs(np.mod(place, 1.0) - 0.5)) * 2.0)
    light = 0.76 + 0.30 * number + 0.20 * (noise(seeds, 91, x, y, (40, 40)) - 0.5)
    canvas = colour_along(_BRICKS, table["wall_tone"]) * light[:, None]
    return mix(canvas, rgb((0.74, 0.72, 0.68)), (0.7 * ramp(joint, 0.12, 0.04))[:, None] * np.ones_like(canvas))


def _lawn(table: _Table, x: Field, y: Field) -> Field:
    """Grass, its blades longer towards us."""
    seeds = table["scene_seed"]
    near, _ = _near(table, y)
    patch = noise(seeds, 100, x, np.sqrt(near), (5, 6), 3)
    blades = noise(seeds, 101, x + 0.02 * near, near, (90, 16)) - 0.5
    light = 0.62 + 0.42 * patch + (0.35 + 0.35 * near) * blades + 0.12 * near
    return colour_along(_GREENS, table["floor_tone"]) * light[:, None]


def _paving(table: _Table, x: Field, y: Field) -> Field:
    """Flagstones with moss between them."""
    seeds = table["scene_seed"]
    near, seen = _near(table, y)
    chance = uniform(seeds, 110, 2)
    depth = column(np.full(len(chance), 4.2)) / seen + column(chance[:, 1])
    across = (x - 0.5) / seen * 3.6 + 20.0 + column(chance[:, 0]) + 0.5 * np.mod(np.floor(depth), 2.0)
    joint = np.minimum(np.abs(across - np.round(across)) * seen, np.abs(depth - np.round(depth)) * seen * seen)
    rough = noise(seeds, 111, x, np.sqrt(near), (14, 12), 3)
    own = np.mod(np.sin(12.9 * np.floor(across) + 78.2 * np.floor(depth)) * 437.0, 1.0)
    canvas = (
        colour_along(_STONES, table["floor_tone"]) * (0.72 + 0.14 * own + 0.34 * (rough - 0.5) + 0.14 * near)[:, None]
    )
    return mix(canvas, rgb((0.34, 0.38, 0.24)), (0.7 * ramp(joint + 0.05 * (rough - 0.5), 0.06, 0.015))[:, None])


def _gravel(table: _Table, x: Field, y: Field) -> Field:
    """A path of fine gravel."""
    seeds = table["scene_seed"]
    near, _ = _near(table, y)
    grit = noise(seeds, 120, x, np.sqrt(near), (46, 34), 2)
    broad = noise(seeds, 121, x, y, (3, 5), 2)
    return (
        colour_along(_STONES, table["floor_tone"])
        * (0.80 + 0.66 * (grit - 0.5) + 0.20 * (broad - 0.5) + 0.12 * near)[:, None]
    )


_WALLS = (_painted, _papered, _window)
_FLOORS = (_planks, _tiled, _carpet)
_HEDGES = (_hedge, _fence, _bricks)
_GROUNDS = (_lawn, _paving, _gravel)
