"""What things lie on, seen from above, and what stands behind them: table tops, cloths, grass, straw, an apple tree."""

from collections.abc import Mapping

import numpy as np

from biaslib.worlds.drawing import (
    Field,
    Frame,
    Number,
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

_WOODS = [(0.72, 0.53, 0.35), (0.56, 0.38, 0.24), (0.80, 0.66, 0.48), (0.42, 0.29, 0.20), (0.68, 0.60, 0.52)]
_LINENS = [(0.86, 0.82, 0.74), (0.72, 0.74, 0.72), (0.58, 0.66, 0.72), (0.82, 0.70, 0.66), (0.66, 0.70, 0.58)]
_SLATES = [(0.25, 0.28, 0.31), (0.33, 0.34, 0.35), (0.20, 0.24, 0.29), (0.30, 0.32, 0.29)]
_PAINTS = [(0.66, 0.78, 0.80), (0.90, 0.88, 0.84), (0.92, 0.76, 0.72), (0.72, 0.80, 0.68), (0.88, 0.80, 0.58)]
_PAPERS = [(0.95, 0.94, 0.90), (0.90, 0.92, 0.93), (0.80, 0.68, 0.52), (0.93, 0.90, 0.80)]
_LEAVES = [(0.42, 0.62, 0.20), (0.30, 0.54, 0.20), (0.24, 0.46, 0.26), (0.52, 0.58, 0.20)]
_SKIES = [(0.66, 0.82, 0.94), (0.86, 0.92, 0.94), (0.96, 0.90, 0.74), (0.58, 0.78, 0.94)]
_CHECKS = [(0.80, 0.22, 0.22), (0.22, 0.40, 0.66), (0.30, 0.52, 0.34), (0.90, 0.66, 0.26)]
_GLAZES = [(0.95, 0.94, 0.91), (0.62, 0.74, 0.80), (0.80, 0.60, 0.46), (0.86, 0.88, 0.80)]
_BOARDS = [(0.80, 0.62, 0.42), (0.62, 0.44, 0.29), (0.88, 0.76, 0.58), (0.50, 0.36, 0.26)]


def _boards(seeds: np.ndarray, along: Field, count: int) -> tuple[Field, Field]:
    """Boards across `along` (n or 1, ...): how far from the joint (0 to .5 of a board), and each one's own number."""
    chance = uniform(seeds, 1, count + 2)
    place = along * count + column(chance[:, -1])
    board = np.floor(place)
    number = np.take_along_axis(chance, board.reshape(len(board), -1).astype(np.intp), axis=1).reshape(board.shape)
    return np.minimum(place - board, board + 1.0 - place), number


def _wood(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """Planks with a grain along them; canvas (n, 3, H, W)."""
    joint, number = _boards(seeds, y, 4)
    grain = noise(seeds, 11, x, y, (4, 70))
    wide = noise(seeds, 12, x, y, (2, 14))
    rings = np.abs(np.sin(18.0 * wide + 5.0 * grain))
    light = 0.86 + 0.16 * number + 0.16 * (grain - 0.5) + 0.10 * (rings - 0.6)
    light = light * (1.0 - 0.55 * ramp(joint, 0.05, 0.0))
    return colour_along(_WOODS, tone) * light[:, None]


def _linen(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A woven cloth with uneven threads and a soft fold or two; canvas (n, 3, H, W)."""
    warp = noise(seeds, 21, x, y, (80, 3))
    weft = noise(seeds, 22, x, y, (3, 80))
    fold = noise(seeds, 23, x, y, (2, 2), 2)
    light = 0.90 + 0.17 * (warp - 0.5) + 0.17 * (weft - 0.5) + 0.22 * (fold - 0.5)
    return colour_along(_LINENS, tone) * light[:, None]


def _slate(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A dark stone with layers; canvas (n, 3, H, W)."""
    layers = noise(seeds, 31, x, y, (3, 5), 4)
    fine = noise(seeds, 32, x, y, (50, 50))
    step = ramp(np.abs(layers - 0.52), 0.03, 0.0)
    light = 0.80 + 0.50 * (layers - 0.3) + 0.14 * (fine - 0.5) + 0.12 * step
    return colour_along(_SLATES, tone) * light[:, None]


def _painted(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """Upright boards under a worn paint; canvas (n, 3, H, W)."""
    joint, number = _boards(seeds, x, 5)
    brush = noise(seeds, 41, x, y, (60, 3))
    worn = noise(seeds, 42, x, y, (5, 3), 3)
    light = 0.93 + 0.07 * number + 0.08 * (brush - 0.5)
    light = light * (1.0 - 0.40 * ramp(joint, 0.05, 0.0)) + 0.05 * ramp(joint, 0.10, 0.06) * ramp(joint, 0.04, 0.07)
    canvas = colour_along(_PAINTS, tone) * light[:, None]
    return mix(canvas, rgb((0.62, 0.52, 0.42)), (0.4 * ramp(worn + 0.06 * brush, 0.66, 0.74))[:, None])


def _paper(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A large sheet with a faint square grid; canvas (n, 3, H, W)."""
    fibre = noise(seeds, 51, x, y, (24, 24), 2)
    chance = uniform(seeds, 52, 3)
    light = 0.97 + 0.07 * (fibre - 0.5)
    canvas = colour_along(_PAPERS, tone) * light[:, None]
    line = np.zeros_like(light)
    for along, shift in ((x, chance[:, 0]), (y, chance[:, 1])):
        place = along * 8.0 + column(shift)
        line = np.maximum(line, ramp(np.abs(place - np.round(place)), 0.09, 0.03))
    return mix(canvas, rgb((0.50, 0.62, 0.74)), (0.38 * line)[:, None])


TABLE_TOPS = (_wood, _linen, _slate, _painted, _paper)


def _scatter(
    seeds: np.ndarray, stream: int, x: Field, y: Field, cells: float, width: float, turn: tuple[float, float]
) -> tuple[Field, Field, Field, Field]:
    """Leaves or blades strewn over the picture: one in each cell of a slanted lattice, never touching the next.

    There are `cells` leaves along the side of the picture. A leaf is .9 of a cell long and 2 `width` cells wide, and
    points to an angle between turn[0] and turn[1]. Returned are, each (n, H, W), the distance to the leaf in cells, the
    place along it ([-1, 1]) and across it (in cells), and a random number in [0, 1) of its own.
    """
    slant, shift_u, shift_v = (column(values) for values in uniform(seeds, stream, 3).T)
    slant = 6.2832 * slant
    cos, sin = np.cos(slant) * np.float32(cells), np.sin(slant) * np.float32(cells)
    u = (x - 0.5) * cos + (y - 0.5) * sin + shift_u
    v = (y - 0.5) * cos - (x - 0.5) * sin + shift_v
    side = 2 * int(np.ceil(0.75 * cells)) + 4
    column_number, row_number = np.floor(u), np.floor(v)
    cell = ((row_number + side // 2) * side + column_number + side // 2).astype(np.intp).reshape(len(seeds), -1)
    chance = uniform(seeds, stream + 1, 2 * side * side)
    number, angle = (
        np.take_along_axis(part, cell, axis=1).reshape(u.shape)
        for part in (chance[:, : side * side], chance[:, side * side :])
    )
    angle = turn[0] + (turn[1] - turn[0]) * angle - slant
    u, v = u - column_number - 0.5, v - row_number - 0.5
    cos, sin = np.cos(angle), np.sin(angle)
    along, across = (u * cos + v * sin) * (1 / 0.45), v * cos - u * sin
    # A lens with a pointed tip: wide at a third of its length.
    outline = width * (1.0 - along * along) * (1.0 - 0.28 * along)
    return np.abs(across) - outline, along, across, number


def _apple_tree(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """The crown of an apple tree: sky out of focus, boughs, and five layers of leaves, the nearest the brightest.

    No apple is drawn on it, so that the tree is a background and nothing of the fruit. Canvas (n, 3, H, W).
    """
    pixel = 1.0 / x.shape[-1]
    chance = uniform(seeds, 1, 24)
    leaf, sky = colour_along(_LEAVES, tone), colour_along(_SKIES, chance[:, 0])
    young = mix(leaf, rgb((0.62, 0.68, 0.26)), 0.3)
    gaps = noise(seeds, 2, x, y, (3, 3), 2)
    canvas = mix(leaf * 0.34, sky, ramp(gaps, 0.40, 0.70)[:, None])
    for i in range(4):
        middle = column(chance[:, 4 + i]), column(0.8 * chance[:, 9 + i])
        disc = Frame(x, y).circle(middle, column(0.05 + 0.06 * chance[:, 14 + i]))
        paint(canvas, mix(sky, leaf * 1.5, 0.3), 0.45 * ramp(disc, 0.012, -0.012))
    for layer in range(5):
        if layer in (1, 3):
            _bough(canvas, chance[:, 19 + layer - 1 : 21 + layer - 1], x, y, pixel, 0.020 + 0.006 * layer)
        cells = 8.6 - 0.8 * layer
        distance, along, across, number = _scatter(seeds, 10 + 2 * layer, x, y, cells, 0.25, (-0.5, 3.6))
        # Where the sky shines through there are few leaves.
        distance = distance + 2.0 * np.maximum(number + 0.9 * gaps - 1.22, 0.0)
        light = (0.46 + 0.15 * layer) * (0.78 + 0.44 * np.mod(7.0 * number, 1.0))
        light *= np.where(across < 0, np.float32(0.86), np.float32(1.14))
        light += 0.16 * along + 0.12 * np.clip(1.4 - 40.0 * np.abs(across), 0.0, 1.0)
        canvas *= (1.0 - 0.45 * ramp(distance, 0.10, -0.05))[:, None]
        paint(canvas, (leaf if layer % 2 else young) * light[:, None], coverage(distance, cells * pixel))
    return canvas


def _bough(canvas: Field, chance: np.ndarray, x: Field, y: Field, pixel: float, thick: float) -> None:
    """A bough across the picture, with a twig."""
    left, right = column(0.15 + 0.8 * chance[:, 0]), column(0.05 + 0.8 * chance[:, 1])
    bough, _ = Frame(x, y).limb((-0.1, left), (1.1, right), (1.7 * thick, thick))
    twig, _ = Frame(x, y).limb((0.45, mix(left, right, 0.46)), (0.80, right - 0.30), (0.8 * thick, 0.3 * thick))
    bark = rgb((0.36, 0.27, 0.20))
    upper = y - mix(left, right, x)
    for part in (twig, bough):
        light = 1.05 - 16.0 * upper + 0.10 * np.sin(90.0 * x + 160.0 * upper)
        paint(canvas, bark * np.clip(light, 0.45, 1.5)[:, None], coverage(part, pixel))


def _gingham(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A checked picnic cloth with soft folds; canvas (n, 3, H, W)."""
    chance = uniform(seeds, 61, 3)
    count = column(5.0 + 4.0 * chance[:, 0])
    share: Field = np.zeros((len(seeds), y.shape[1], x.shape[2]), np.float32)
    for along, shift in ((x, chance[:, 1]), (y, chance[:, 2])):
        place = along * count + column(shift)
        share = share + 0.5 * ramp(np.abs(np.mod(place, 1.0) - 0.5), 0.22, 0.28)
    fold = noise(seeds, 62, x, y, (2, 2), 2)
    thread = noise(seeds, 63, x, y, (70, 70))
    cloth = mix(rgb((0.95, 0.94, 0.90)), colour_along(_CHECKS, tone), (0.85 * share)[:, None])
    return cloth * (0.88 + 0.26 * (fold - 0.5) + 0.08 * thread)[:, None]


def _meadow(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """Short grass from above, blade over blade; canvas (n, 3, H, W)."""
    green = mix(rgb((0.30, 0.52, 0.18)), rgb((0.52, 0.60, 0.24)), column(tone)[:, None])
    patch = noise(seeds, 70, x, y, (4, 4), 3)
    canvas = green * (0.50 + 0.45 * patch)[:, None]
    _strew(canvas, seeds, 71, x, y, green, ((10.0, 0.11), (8.0, 0.10), (6.0, 0.08)), (-2.4, -0.7))
    return canvas


def _straw(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """Straw in a market crate, in every direction; canvas (n, 3, H, W)."""
    gold = mix(rgb((0.84, 0.70, 0.42)), rgb((0.70, 0.54, 0.34)), column(tone)[:, None])
    canvas = gold * (0.46 + 0.40 * noise(seeds, 80, x, y, (6, 6), 2))[:, None]
    _strew(canvas, seeds, 81, x, y, gold, ((7.0, 0.09), (5.5, 0.08), (4.2, 0.06)), (0.0, 3.1416))
    return canvas


def _strew(
    canvas: Field,
    seeds: np.ndarray,
    stream: int,
    x: Field,
    y: Field,
    colour: Field,
    layers: tuple[tuple[float, float], ...],
    turn: tuple[float, float],
) -> None:
    """Layers of blades over the canvas, in place, each as (blades along the side, half width in cells)."""
    for layer, (cells, width) in enumerate(layers):
        distance, along, _, number = _scatter(seeds, stream + 2 * layer, x, y, cells, width, turn)
        light = (0.84 + 0.15 * layer) * (0.75 + 0.5 * np.mod(7.0 * number, 1.0)) + 0.14 * along
        canvas *= (1.0 - 0.35 * ramp(distance, 0.07, -0.03))[:, None]
        paint(canvas, colour * light[:, None], coverage(distance, cells / x.shape[-1]))


BACKDROPS = (_wood, _linen, _slate, _painted, _gingham, _meadow, _straw)
_MOVED = (0.018, 0.028)  # where the shadow of a dish lies, away from the light


def _lay_dish(
    canvas: Field, seeds: np.ndarray, kind: np.ndarray, middle: tuple[Number, Number], x: Field, y: Field
) -> None:
    """Lays a plate (kind 1), a wooden board (2) or nothing (0) and its shadow on the canvas, in place."""
    pixel = 1.0 / x.shape[-1]
    chance = uniform(seeds, 90, 3)
    for rows, colours in ((kind == 1, _GLAZES), (kind == 2, _BOARDS)):
        if not rows.any():
            continue
        colour, part = colour_along(colours, chance[rows, 0]), canvas[rows]
        centre = tuple(np.broadcast_to(place, (len(seeds), 1, 1))[rows] for place in middle)
        dx, dy = x - centre[0], y - centre[1]
        size = column(0.36 + 0.08 * chance[rows, 1])
        if colours is _GLAZES:
            outline, below = Frame(dx, dy).circle((0.0, 0.0), size), Frame(dx, dy).circle(_MOVED, size)
            well = outline + 0.085
            slope = np.clip(5.0 * (dx + dy), -1.0, 1.0)
            light = 1.06 - 0.10 * (dx + dy) - 0.20 * ramp(np.abs(well), 0.022, 0.0) * slope
            light = light - 0.12 * ramp(np.abs(outline + 0.030), 0.012, 0.004)
        else:
            half = size * 1.06, size * 0.90
            outline, below = Frame(dx, dy).box((0.0, 0.0), half, 0.06), Frame(dx, dy).box(_MOVED, half, 0.06)
            grain = noise(seeds[rows], 91, x, y, (4, 60))
            rim = ramp(np.abs(outline + 0.012), 0.012, 0.0) * np.clip(5.0 * (dx + dy), -1, 1)
            light = 0.92 + 0.20 * (grain - 0.5) - 0.16 * rim
        part *= (1.0 - 0.42 * ramp(below, 0.05, -0.03))[:, None]
        paint(part, colour * light[:, None], coverage(outline, pixel))
        canvas[rows] = part


def behind_fruits(table: Mapping[str, np.ndarray], x: Field, y: Field) -> Field:
    """Every row's own background, (n, 3, H, W), with the soft shadow in which its fruits lie."""
    canvas = np.empty((len(table["tree"]), 3, y.shape[1], x.shape[2]), np.float32)
    tree = table["tree"] == 1
    if tree.any():
        canvas[tree] = _apple_tree(table["scene_seed"][tree], table["tone"][tree], x, y)
    for backdrop, rows in rows_of_each(np.where(tree, len(BACKDROPS), table["backdrop"]), BACKDROPS):
        seeds, middle = table["scene_seed"][rows], (column(table["x"][rows]), column(table["y"][rows]))
        part = backdrop(seeds, table["tone"][rows], x, y)
        _lay_dish(part, seeds, table["dish"][rows], middle, x, y)
        reach = column(table["scale"][rows])
        below = middle[0] + 0.05, middle[1] + 0.06
        under = Frame(x, y).ellipse(below, (reach * 1.15, reach * 1.05), column(0.0 * seeds))
        part *= (1.0 - column(0.32 / table["count"][rows]) * ramp(under, 0.10, -0.16))[:, None]
        canvas[rows] = part
    return canvas
