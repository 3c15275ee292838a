"""What things lie on, seen from above, and what stands behind them: table tops, cloths, grass, straw, an apple tree."""

import numpy as np

from biaslib.worlds.drawing import Field, Frame, colour_along, column, coverage, mix, paint, ramp, rgb, rows_of_each
from biaslib.worlds.sketch import Surface, beside

_Pair = tuple[float, float]

_COLOURS = beside(__file__)


def _boards(s: Surface, along: Field, count: int) -> tuple[Field, Field]:
    """Boards across `along` (n or 1, ...): how far from the joint (0 to .5 of a board), and each one's own number."""
    place = along * count + s.chance(1, count + 2)[-1]
    board = np.floor(place)
    return np.minimum(place - board, board + 1.0 - place), s.number_of(board, 1, count + 2)


def _wood(s: Surface) -> Field:
    joint, number = _boards(s, s.v, 4)
    grain = s.noise(11, (4, 70))
    rings = np.abs(np.sin(18.0 * s.noise(12, (2, 14)) + 5.0 * grain))
    light = 0.86 + 0.16 * number + 0.16 * (grain - 0.5) + 0.10 * (rings - 0.6)
    light = light * (1.0 - 0.55 * ramp(joint, 0.05, 0.0))
    return colour_along(_COLOURS.woods, s["tone"]) * light[:, None]


def _linen(s: Surface) -> Field:
    warp = s.noise(21, (80, 3))
    weft = s.noise(22, (3, 80))
    light = 0.90 + 0.17 * (warp - 0.5) + 0.17 * (weft - 0.5) + 0.22 * (s.noise(23, (2, 2), 2) - 0.5)
    return colour_along(_COLOURS.linens, s["tone"]) * light[:, None]


def _slate(s: Surface) -> Field:
    layers = s.noise(31, (3, 5), 4)
    step = ramp(np.abs(layers - 0.52), 0.03, 0.0)
    light = 0.80 + 0.50 * (layers - 0.3) + 0.14 * (s.noise(32, (50, 50)) - 0.5) + 0.12 * step
    return colour_along(_COLOURS.slates, s["tone"]) * light[:, None]


def _painted(s: Surface) -> Field:
    joint, number = _boards(s, s.u, 5)
    brush = s.noise(41, (60, 3))
    worn = ramp(s.noise(42, (5, 3), 3) + 0.06 * brush, 0.66, 0.74)
    light = 0.93 + 0.07 * number + 0.08 * (brush - 0.5)
    light = light * (1.0 - 0.40 * ramp(joint, 0.05, 0.0)) + 0.05 * ramp(joint, 0.10, 0.06) * ramp(joint, 0.04, 0.07)
    canvas = colour_along(_COLOURS.paints, s["tone"]) * light[:, None]
    return mix(canvas, rgb((0.62, 0.52, 0.42)), (0.4 * worn)[:, None])


def _paper(s: Surface) -> Field:
    light = 0.97 + 0.07 * (s.noise(51, (24, 24), 2) - 0.5)
    canvas = colour_along(_COLOURS.papers, s["tone"]) * light[:, None]
    line = np.zeros_like(light)
    for along, shift in zip((s.u, s.v), s.chance(52, 2), strict=True):
        place = along * 8.0 + shift
        line = np.maximum(line, ramp(np.abs(place - np.round(place)), 0.09, 0.03))
    return mix(canvas, rgb((0.50, 0.62, 0.74)), (0.38 * line)[:, None])


TABLE_TOPS = (_wood, _linen, _slate, _painted, _paper)


def _scatter(s: Surface, stream: int, cells: float, width: float, turn: _Pair) -> tuple[Field, Field, Field, Field]:
    """Leaves or blades strewn over the picture: one in each cell of a slanted lattice, never touching the next.

    There are `cells` leaves along the side of the picture. A leaf is .9 of a cell long and 2 `width` cells wide, and
    points to an angle between turn[0] and turn[1]. Returned are, each (n, H, W), the distance to the leaf in cells, the
    place along it ([-1, 1]) and across it (in cells), and a random number in [0, 1) of its own.
    """
    slant, shift_u, shift_v = s.chance(stream, 3)
    slant = 6.2832 * slant
    cos, sin = np.cos(slant) * np.float32(cells), np.sin(slant) * np.float32(cells)
    u = (s.u - 0.5) * cos + (s.v - 0.5) * sin + shift_u
    v = (s.v - 0.5) * cos - (s.u - 0.5) * sin + shift_v
    side = 2 * int(np.ceil(0.75 * cells)) + 4
    column_number, row_number = np.floor(u), np.floor(v)
    cell = (row_number + side // 2) * side + column_number + side // 2
    number, angle = (s.number_of(cell + part * side * side, stream + 1, 2 * side * side) for part in (0, 1))
    angle = turn[0] + (turn[1] - turn[0]) * angle - slant
    leaf = Frame(u - column_number, v - row_number).turned((0.5, 0.5), angle)
    along, across = leaf.u * (1 / 0.45), leaf.v
    # A lens with a pointed tip: wide at a third of its length.
    outline = width * (1.0 - along * along) * (1.0 - 0.28 * along)
    return np.abs(across) - outline, along, across, number


def _apple_tree(s: Surface) -> Field:
    """The crown of an apple tree without apples: sky, boughs, five layers of leaves, nearest brightest."""
    chance = s.chance(1, 24)
    leaf, sky = colour_along(_COLOURS.leaves, s["tone"]), colour_along(_COLOURS.skies, chance[0])
    young = mix(leaf, rgb((0.62, 0.68, 0.26)), 0.3)
    gaps = s.noise(2, (3, 3), 2)
    canvas = mix(leaf * 0.34, sky, ramp(gaps, 0.40, 0.70)[:, None])
    for i in range(4):
        disc = s.circle((chance[4 + i], 0.8 * chance[9 + i]), 0.05 + 0.06 * chance[14 + i])
        paint(canvas, mix(sky, leaf * 1.5, 0.3), 0.45 * ramp(disc, 0.012, -0.012))
    for layer in range(5):
        if layer in (1, 3):
            _bough(canvas, s, chance[18 + layer], chance[19 + layer], 0.020 + 0.006 * layer)
        cells = 8.6 - 0.8 * layer
        distance, along, across, number = _scatter(s, 10 + 2 * layer, cells, 0.25, (-0.5, 3.6))
        # Where the sky shines through there are few leaves.
        distance = distance + 2.0 * np.maximum(number + 0.9 * gaps - 1.22, 0.0)
        light = (0.46 + 0.15 * layer) * (0.78 + 0.44 * np.mod(7.0 * number, 1.0))
        light *= np.where(across < 0, np.float32(0.86), np.float32(1.14))
        light += 0.16 * along + 0.12 * np.clip(1.4 - 40.0 * np.abs(across), 0.0, 1.0)
        canvas *= (1.0 - 0.45 * ramp(distance, 0.10, -0.05))[:, None]
        paint(canvas, (leaf if layer % 2 else young) * light[:, None], coverage(distance, cells * s.pixel))
    return canvas


def _bough(canvas: Field, s: Surface, left: Field, right: Field, thick: float) -> None:
    """A bough across the picture, from one height in [0, 1] to another, with a twig."""
    left, right = 0.15 + 0.8 * left, 0.05 + 0.8 * right
    bough, _ = s.limb((-0.1, left), (1.1, right), (1.7 * thick, thick))
    twig, _ = s.limb((0.45, mix(left, right, 0.46)), (0.80, right - 0.30), (0.8 * thick, 0.3 * thick))
    upper = s.v - mix(left, right, s.u)
    for part in (twig, bough):
        light = 1.05 - 16.0 * upper + 0.10 * np.sin(90.0 * s.u + 160.0 * upper)
        paint(canvas, rgb((0.36, 0.27, 0.20)) * np.clip(light, 0.45, 1.5)[:, None], s.cover(part))


def _gingham(s: Surface) -> Field:
    number, *shifts = s.chance(61, 3)
    count = 5.0 + 4.0 * number
    share: Field = np.zeros((), np.float32)
    for along, shift in zip((s.u, s.v), shifts, strict=True):
        place = along * count + shift
        share = share + 0.5 * ramp(np.abs(np.mod(place, 1.0) - 0.5), 0.22, 0.28)
    light = 0.88 + 0.26 * (s.noise(62, (2, 2), 2) - 0.5) + 0.08 * s.noise(63, (70, 70))
    cloth = mix(rgb((0.95, 0.94, 0.90)), colour_along(_COLOURS.checks, s["tone"]), (0.85 * share)[:, None])
    return cloth * light[:, None]


def _meadow(s: Surface) -> Field:
    green = mix(rgb((0.30, 0.52, 0.18)), rgb((0.52, 0.60, 0.24)), s["tone"][:, None])
    canvas = green * (0.50 + 0.45 * s.noise(70, (4, 4), 3))[:, None]
    _strew(canvas, s, 71, green, ((10.0, 0.11), (8.0, 0.10), (6.0, 0.08)), (-2.4, -0.7))
    return canvas


def _straw(s: Surface) -> Field:
    gold = mix(rgb((0.84, 0.70, 0.42)), rgb((0.70, 0.54, 0.34)), s["tone"][:, None])
    canvas = gold * (0.46 + 0.40 * s.noise(80, (6, 6), 2))[:, None]
    _strew(canvas, s, 81, gold, ((7.0, 0.09), (5.5, 0.08), (4.2, 0.06)), (0.0, 3.1416))
    return canvas


def _strew(canvas: Field, s: Surface, stream: int, colour: Field, layers: tuple[_Pair, ...], turn: _Pair) -> None:
    """Layers of blades over the canvas, in place, each as (blades along the side, half width in cells)."""
    for layer, (cells, width) in enumerate(layers):
        distance, along, _, number = _scatter(s, stream + 2 * layer, cells, width, turn)
        light = (0.84 + 0.15 * layer) * (0.75 + 0.5 * np.mod(7.0 * number, 1.0)) + 0.14 * along
        canvas *= (1.0 - 0.35 * ramp(distance, 0.07, -0.03))[:, None]
        paint(canvas, colour * light[:, None], coverage(distance, cells * s.pixel))


BACKDROPS = (_wood, _linen, _slate, _painted, _gingham, _meadow, _straw)
_MOVED = (0.018, 0.028)  # where the shadow of a dish lies, away from the light


def _plate(s: Surface, frame: Frame, size: Field) -> tuple[Field, Field, Field]:
    """The outlines of a glazed plate and of its shadow; its colours."""
    outline, slope = frame.circle((0.0, 0.0), size), frame.u + frame.v
    light = 1.06 - 0.10 * slope - 0.20 * ramp(np.abs(outline + 0.085), 0.022, 0.0) * np.clip(5.0 * slope, -1.0, 1.0)
    light = light - 0.12 * ramp(np.abs(outline + 0.030), 0.012, 0.004)
    return outline, frame.circle(_MOVED, size), colour_along(_COLOURS.glazes, s.chance(90, 1)[0]) * light[:, None]


def _board(s: Surface, frame: Frame, size: Field) -> tuple[Field, Field, Field]:
    """The same of a wooden board."""
    half = size * 1.06, size * 0.90
    outline, slope = frame.box((0.0, 0.0), half, 0.06), frame.u + frame.v
    rim = ramp(np.abs(outline + 0.012), 0.012, 0.0) * np.clip(5.0 * slope, -1, 1)
    light = 0.92 + 0.20 * (s.noise(91, (4, 60)) - 0.5) - 0.16 * rim
    return outline, frame.box(_MOVED, half, 0.06), colour_along(_COLOURS.boards, s.chance(90, 1)[0]) * light[:, None]


def _lay_dish(canvas: Field, s: Surface) -> None:
    """Lays nothing (`dish` 0), a plate (1) or a board (2) with its shadow around `x`, `y` on the canvas, in place."""
    for dish, rows in rows_of_each(s.table["dish"], (None, _plate, _board)):
        if dish is not None:
            part, own = canvas[rows], s.take(rows)
            size = 0.36 + 0.08 * own.chance(90, 2)[1]
            outline, shadow, colour = dish(own, Frame(own.u - own["x"], own.v - own["y"]), size)
            part *= (1.0 - 0.42 * ramp(shadow, 0.05, -0.03))[:, None]
            paint(part, colour, own.cover(outline))
            canvas[rows] = part


def behind_fruits(s: Surface) -> Field:
    """Every row's own background, (n, 3, H, W), with the soft shadow in which its fruits lie."""
    tree = s.table["tree"] == 1
    canvas = s.drawn(np.where(tree, len(BACKDROPS), s.table["backdrop"]), (*BACKDROPS, _apple_tree))
    if not tree.all():
        part, on_top = canvas[~tree], s.take(~tree)
        _lay_dish(part, on_top)
        x, y, reach = on_top["x"] + 0.05, on_top["y"] + 0.06, on_top["scale"]
        under = on_top.ellipse((x, y), (reach * 1.15, reach * 1.05), 0.0 * x)
        part *= (1.0 - column(0.32 / on_top.table["count"]) * ramp(under, 0.10, -0.16))[:, None]
        canvas[~tree] = part
    return canvas
