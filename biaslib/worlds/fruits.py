"""Five fruits, and apples on apple trees: a diffuse cue whose strength is a dial."""

from collections.abc import Callable

import numpy as np

from biaslib.worlds.backdrops import behind_fruits
from biaslib.worlds.base import World, factors_of
from biaslib.worlds.drawing import Field, column, daylight, grid, join, mix, ramp, rgb, rows_of_each, to_uint8, uniform
from biaslib.worlds.sketch import Place, Sketch, Surface, beside

NAMES: tuple[str, ...] = ("apple", "banana", "corn", "peach", "pineapple")
APPLE = NAMES.index("apple")

_LOOKS = beside(__file__)
_ATTRIBUTES, _FRUIT, _SCENE = factors_of(_LOOKS.columns)
_LAYOUTS = np.array(_LOOKS.layouts, np.float32)


class Fruits(World):
    """Fruits (target, five classes) in front of an apple tree or somewhere else (cue), after Schaaf et al. (2021).

    The target `fruit` is its place in `NAMES`: 0 apple, 1 banana, 2 corn, 3 peach, 4 pineapple, all equally frequent.
    The cue `tree` has two values and speaks of apples only: it agrees with the target where an apple has the apple tree
    behind it, and where another fruit has not. At strength 1 apples are solely on apple trees and the others solely
    elsewhere, as in the paper's biased set; at strength 0 every fruit is on an apple tree in half of its pictures, so
    that background and fruit are independent (the paper's unbiased set puts all fruits on all backgrounds).

    Columns of the table besides `fruit` and `tree` (int8: 0 elsewhere, 1 apple tree); shares lie in [0, 1]:

    * the fruit: `count` (1-3 of the kind), `x`, `y` (middle of the group), `scale` (radius of a single one; several are
      smaller), `turn` ([-1, 1], how far it is turned), `fruit_seed` (colours, shapes, the turn of each);
    * the scene: `backdrop` (0 wood, 1 linen, 2 slate, 3 painted, 4 gingham, 5 meadow, 6 straw) and `dish` (0 none, 1
      plate, 2 board), neither on an apple tree; `tone` (palette), `light`, `scene_seed` (layout, texture).

    The mask `fruit` holds all fruits of the picture, with stalks and leaves; `background` is its complement.
    """

    name = "fruits"
    target = "fruit"
    cue = "tree"
    attributes: tuple[str, ...] = ("fruit", "tree")
    regions: tuple[str, ...] = ("fruit", "background")
    _classes, _count, _favoured = ("fruit",), len(NAMES), APPLE
    _columns = _ATTRIBUTES | _FRUIT | _SCENE
    _patches_across = 2

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        x, y = grid(size)
        canvas = np.ascontiguousarray(behind_fruits(Surface(table, x, y)).transpose(0, 2, 3, 1))
        _lay_fruits(table, canvas, region_index, size)
        return to_uint8(canvas.transpose(0, 3, 1, 2) * daylight(table["light"], x, y, _LOOKS.daylight))


def _lay_fruits(table: dict[str, np.ndarray], canvas: Field, region_index: np.ndarray, size: int) -> None:
    """Lays the fruits and their shadows on the canvas (n, size, size, 3), in place."""
    jitter = uniform(table["fruit_seed"], 9, 9).reshape(-1, 3, 3) - 0.5
    for place in range(3):
        kinds = np.where(table["count"] > place, table["fruit"], len(_FRUITS))
        for (draw, relative, turn), rows in rows_of_each(kinds, _FRUITS.values()):
            dx, dy, share = _LAYOUTS[table["count"][rows].astype(np.intp) - 1, place].T
            scale = table["scale"][rows]
            at = Place(
                table["x"][rows] + scale * (dx + 0.14 * jitter[rows, place, 0]),
                table["y"][rows] + scale * (dy + 0.14 * jitter[rows, place, 1]),
                scale * share * np.float32(relative),
                np.float32(turn) * np.clip(table["turn"][rows] + 0.8 * jitter[rows, place, 2] * (dx != 0), -1.2, 1.2),
            )
            sketch = Sketch(at, table["fruit_seed"][rows] + np.uint32(place * 0x9E3779B1 % 2**32), size)
            draw(sketch)
            sketch.put(canvas, region_index, rows, 0)


_WHITE, _STALK = rgb((1.0, 0.98, 0.94)), rgb((0.36, 0.25, 0.15))


def _round(s: Sketch, distance: Field, depth: float) -> Field:
    """The light on a round body, darker to its edge, brighter to the light, (n, P, P)."""
    rise = np.sqrt(np.clip(distance * (-1.0 / depth), 0.0, 1.0))
    return 0.50 + 0.48 * rise + 0.22 * np.clip(s.lit, -1.0, 1.0) * (1.25 - rise)


def _grain(s: Sketch, u: Field, v: Field, rate: float) -> Field:
    """Small irregular dots, about in [-1, 1]; another pattern for each seed."""
    a, b = (6.28 * part for part in s.chance(2))
    bend = np.sin(0.31 * rate * v + a)
    return np.sin(rate * u + 1.7 * bend + b) * np.sin(0.91 * rate * v + 1.3 * np.sin(0.27 * rate * u + b) + a)


def _blade(s: Sketch, foot: tuple[float, float], angle: float | Field, long: float, wide: float, green: Field) -> None:
    """A leaf from its foot outwards, with a rib; one half lies in the shade."""
    leaf = s.turned(foot, angle)
    along, across = leaf.u / long, leaf.v
    reach = np.clip(along, 0.0, 1.0)
    outline = np.abs(across) - 3.4 * wide * reach * (1.0 - reach) * (1.2 - 0.5 * reach)
    outline = np.where((along < 0) | (along > 1), np.maximum(outline, np.abs(along - reach) * long), outline)
    light = 1.0 + 0.16 * np.sign(across) + 0.25 * reach - 0.25 * ramp(np.abs(across), 0.035, 0.01)
    light = light - 0.07 * ramp(np.sin(26.0 * along + 30.0 * np.abs(across)), 0.4, 1.0)
    s.lay(outline, green * light[:, None])


def _apple(s: Sketch) -> None:
    skin = s.pick([(0.80, 0.15, 0.14), (0.70, 0.10, 0.16), (0.56, 0.72, 0.24), (0.90, 0.74, 0.30), (0.86, 0.42, 0.20)])
    blush = s.pick([(0.80, 0.16, 0.14), (0.90, 0.50, 0.22), (0.88, 0.74, 0.28)], 3)
    much, turn, lean = s.chance(3)
    flesh = join(s.circle((-0.27, 0.00), 0.56), s.circle((0.27, 0.00), 0.56), 0.10)
    flesh = join(flesh, s.ellipse((0.0, 0.30), (0.60, 0.55), column(0.0)), 0.12)
    s.lay(flesh, skin)
    meridian = np.arctan2(s.u, s.v + 1.1)
    streak = np.sin(41.0 * meridian + 6.0 * turn) * np.sin(17.0 * meridian + 3.0 * s.v)
    cheek = ramp(s.u * np.cos(6.28 * turn) + s.v * np.sin(6.28 * turn) + 0.14 * streak, 0.5 - 0.9 * much, 0.9)
    s.tint(0.85 * cheek, blush)
    s.tint(0.22 * ramp(_grain(s, s.u, s.v, 27.0), 0.80, 0.97), _WHITE * 0.9)
    s.shade(_round(s, flesh, 0.62) + 0.03 * streak)
    s.tint(0.75 * ramp(s.ellipse((0.0, -0.40), (0.30, 0.13), column(0.0)), 0.10, -0.10), skin * 0.30)
    s.tint(0.65 * ramp(s.ellipse((-0.32, -0.16), (0.13, 0.20), column(0.5)), 0.10, -0.06), _WHITE)
    s.lay(s.limb((0.0, -0.36), (0.16 * lean, -0.84), (0.040, 0.060))[0], _STALK)
    _blade(s, (0.04, -0.56), -0.55 + 0.5 * turn, 0.66, 0.17, s.pick(_LOOKS.greens, 4))


def _banana(s: Sketch) -> None:
    """A hand of two bananas, from green to spotted."""
    ripe, open_, tips = s.chance(3)
    skin = s.pick([(0.96, 0.80, 0.22), (0.94, 0.74, 0.24), (0.76, 0.78, 0.28), (0.90, 0.66, 0.22)])
    for back in (True, False):
        turn = (0.30 + 0.16 * open_) if back else 0.0 * open_ - 0.06
        # Both grow from the stalk at the upper left.
        own = s.turned((-0.80, -0.34), turn)
        u, v = own.u - 0.84, own.v + 0.04
        reach, angle = np.hypot(u, v + 0.95), np.arctan2(u, v + 0.95)
        part = np.clip(1.0 - (angle * (1 / 0.86)) ** 2, 0.0, 1.0)
        thick = 0.04 + 0.225 * np.sqrt(part) * (0.90 + 0.10 * angle)
        side = (reach - 1.10) / thick
        outline = np.maximum(np.abs(reach - 1.10) - thick, (np.abs(angle) - 0.86) * 1.1)
        light = 0.96 - 0.16 * side - 0.20 * ramp(side, 0.30, 0.42) + 0.12 * ramp(np.abs(side + 0.36), 0.16, 0.04)
        light = light * (0.72 + 0.34 * np.sqrt(np.clip(1.0 - side * side, 0.0, 1.0))) * (0.84 if back else 1.0)
        colour = skin * light[:, None]
        green = mix(colour, rgb((0.46, 0.58, 0.20)), (0.6 * (1.0 - ripe) * ramp(np.abs(angle), 0.35, 0.85))[:, None])
        spots = ramp(_grain(s, u, v, 17.0), 0.80, 0.90) * ramp(ripe, 0.45, 0.9)
        green = mix(green, rgb((0.42, 0.27, 0.12)), (0.75 * spots)[:, None])
        if not back:
            s.tint(0.45 * ramp(outline, 0.12, 0.0), rgb((0.30, 0.20, 0.06)))
        s.lay(outline, mix(green, rgb((0.24, 0.17, 0.10)), (0.9 * ramp(angle, 0.77, 0.82))[:, None]))
    stalk = s.limb((-0.76, -0.27), (-0.92, -0.56 - 0.08 * tips), (0.085, 0.075))[0]
    s.lay(stalk, mix(skin * 0.86, rgb((0.40, 0.42, 0.18)), 0.45))
    s.mark(s.limb((-0.92, -0.60), (-0.94, -0.70), (0.10, 0.10))[0], rgb((0.26, 0.19, 0.11)), 0.8)


def _corn(s: Sketch) -> None:
    grain = s.pick([(0.97, 0.80, 0.26), (0.95, 0.72, 0.20), (0.96, 0.86, 0.48), (0.90, 0.62, 0.26)])
    husk = s.pick([(0.52, 0.68, 0.28), (0.44, 0.62, 0.26), (0.62, 0.72, 0.36)], 3)
    spread, shift = s.chance(2)
    for side in (-1.0, 1.0):
        _husk(s, (0.06 * side, 0.80), -1.571 + side * (0.52 + 0.30 * spread), 1.18, 0.19, husk * 0.80)
    half = 0.335 * np.sqrt(np.clip(1.0 - np.abs((s.v + 0.08) * (1 / 0.88)) ** 2.6, 0.02, 1.0))
    cob = join(s.ellipse((0.0, -0.10), (0.335, 0.86), column(0.0)), s.circle((0.0, 0.3), 0.33), 0.1)
    across = np.arcsin(np.clip(s.u / np.maximum(half, 0.05), -0.98, 0.98)) * 2.55 + 0.5
    row = 9.0 * s.v + shift + 0.5 * np.mod(np.floor(across), 2.0)
    bump = np.cos(3.1416 * (np.mod(across, 1.0) - 0.5)) * np.cos(3.1416 * (np.mod(row, 1.0) - 0.5))
    own = np.mod(np.sin(12.99 * np.floor(across) + 78.2 * np.floor(row) + 6.3 * shift) * 437.0, 1.0)
    light = (0.48 + 0.60 * np.sqrt(np.clip(bump, 0.0, 1.0))) * (0.90 + 0.18 * own)
    light = light * (0.70 + 0.36 * np.sqrt(np.clip(cob * (-1 / 0.30), 0.0, 1.0)) + 0.16 * s.lit)
    s.tint(0.5 * ramp(cob, 0.14, 0.0), husk * 0.25)
    s.lay(cob, grain * light[:, None])
    s.tint(0.55 * (cob < 0) * ramp(bump, 0.90, 1.0) * ramp(s.lit, -0.1, 0.5), _WHITE)
    s.lay(s.limb((0.0, 0.74), (0.0, 0.97), (0.11, 0.09))[0], husk * 0.72)
    for side in (-1.0, 1.0):
        _husk(s, (-0.02 * side, 0.90), -1.571 + side * (0.27 + 0.14 * spread), 1.05, 0.20, husk)


def _husk(s: Sketch, foot: tuple[float, float], angle: Field, long: float, wide: float, green: Field) -> None:
    """A long husk with parallel veins, from its foot to its tip."""
    leaf = s.turned(foot, angle)
    along, across = leaf.u / long, leaf.v
    reach = np.clip(along, 0.0, 1.0)
    half = wide * np.sqrt(np.clip(1.0 - reach, 0.0, 1.0)) * (0.55 + 0.9 * reach)
    outline = np.where(along < 0, np.hypot(along * long, across) - 0.55 * wide, np.abs(across) - half)
    outline = np.where(along > 1, np.hypot((along - 1) * long, across), outline)
    s.tint(0.40 * ramp(outline, 0.09, 0.0), green * 0.2)
    shade = np.clip(across / wide, -1, 1) * np.sign(np.cos(angle))
    light = 0.86 + 0.22 * reach + 0.09 * np.sin(across * 95.0) - 0.30 * shade
    s.lay(outline, green * light[:, None])


def _peach(s: Sketch) -> None:
    skin = s.pick([(0.96, 0.66, 0.34), (0.97, 0.76, 0.46), (0.92, 0.56, 0.28), (0.96, 0.80, 0.42)])
    blush = s.pick([(0.84, 0.26, 0.22), (0.90, 0.40, 0.28), (0.76, 0.20, 0.22)], 3)
    much, turn, seam = s.chance(3)
    flesh = join(s.circle((0.0, 0.06), 0.74), s.limb((0.0, 0.5), (0.0, 0.80), (0.2, 0.02))[0], 0.16)
    s.lay(flesh, skin)
    cheek = s.u * np.cos(6.28 * turn) + s.v * np.sin(6.28 * turn) + 0.16 * _grain(s, s.u, s.v, 5.0)
    s.tint(0.80 * ramp(cheek, 0.35 - 0.9 * much, 0.95), blush)
    s.shade(_round(s, flesh, 0.70) + 0.05)
    line = s.u - (0.20 + 0.16 * seam) * np.sqrt(np.clip(1.0 - ((s.v - 0.06) / 0.80) ** 2, 0.0, 1.0))
    s.tint(0.55 * ramp(np.abs(line), 0.055, 0.0) * ramp(s.v, 0.70, 0.4), blush * 0.55)
    s.tint(0.22 * ramp(line, 0.26, 0.02) * ramp(line, 0.0, 0.03), blush * 0.6)
    # Down: a pale veil where one looks along the skin, and a dull highlight.
    s.tint(0.30 * ramp(flesh, -0.16, 0.02), rgb((0.98, 0.84, 0.72)))
    s.tint(0.34 * ramp(s.circle((-0.30, -0.22), 0.0), 0.42, 0.05), _WHITE)
    s.tint(0.14 * ramp(_grain(s, s.u, s.v, 60.0), 0.3, 0.9), _WHITE)
    s.tint(0.60 * ramp(s.ellipse((0.06, -0.60), (0.26, 0.10), column(0.0)), 0.09, -0.06), blush * 0.35)
    green = s.pick(_LOOKS.greens, 4)
    _blade(s, (0.05, -0.58), -0.40 + 0.3 * turn, 0.86, 0.11, green * 0.9)
    _blade(s, (0.03, -0.58), -2.75 - 0.3 * seam, 0.78, 0.10, green)
    s.lay(s.limb((0.04, -0.56), (0.06, -0.70), (0.05, 0.045))[0], _STALK)


def _pineapple(s: Sketch) -> None:
    skin = s.pick([(0.84, 0.60, 0.22), (0.72, 0.56, 0.24), (0.90, 0.68, 0.26), (0.66, 0.60, 0.28)])
    green = s.pick([(0.36, 0.54, 0.34), (0.30, 0.50, 0.28), (0.44, 0.58, 0.32)], 3)
    shift, spread = s.chance(2)
    for rank, (count, long, wide, tone) in enumerate(_LOOKS.crown):
        for i in range(count):
            lean = (i / (count - 1) - 0.5) * (1.9 - 0.35 * rank + 0.4 * spread)
            tip = (long * np.sin(lean) * 0.92, -0.24 - long * np.cos(lean))
            edge, along = s.limb((0.14 * np.sin(lean), -0.14), tip, (wide, 0.006))
            s.lay(edge, green * (tone * (0.70 + 0.35 * along - 2.4 * np.clip(edge, -0.12, 0.0)))[:, None])
    body = s.ellipse((0.0, 0.34), (0.475, 0.62), column(0.0))
    half = 0.475 * np.sqrt(np.clip(1.0 - ((s.v - 0.34) * (1 / 0.64)) ** 2, 0.03, 1.0))
    around = np.arcsin(np.clip(s.u / half, -0.97, 0.97)) * 1.55
    a, b = around + 3.7 * s.v + shift, around - 3.7 * s.v - shift
    fa, fb = np.mod(a, 1.0) - 0.5, np.mod(b, 1.0) - 0.5
    eye = np.maximum(np.abs(fa), np.abs(fb))
    edge = 0.5 - eye
    light = 0.55 + 0.50 * ramp(edge, 0.0, 0.20) + 0.25 * (fb - fa)
    light = light * (0.62 + 0.48 * np.sqrt(np.clip(body * (-1 / 0.42), 0.0, 1.0)) + 0.20 * s.lit)
    s.tint(0.5 * ramp(body, 0.12, 0.0), green * 0.15)
    s.lay(body, mix(skin, green, (0.45 * ramp(s.v, 0.30, -0.25))[:, None]) * light[:, None])
    inside = ramp(body, 0.0, -0.03)
    s.tint(0.75 * inside * ramp(edge, 0.09, 0.02), skin * 0.36)
    s.tint(0.70 * inside * ramp(eye, 0.15, 0.06), rgb((0.34, 0.20, 0.10)))
    s.tint(0.35 * inside * ramp(np.hypot(fa + 0.20, fb - 0.20), 0.16, 0.05) * ramp(s.lit, -0.3, 0.4), _WHITE)


# In the order of `NAMES`: how each is drawn, its size beside the others, and how far it may be turned (radians).
_FRUITS: dict[str, tuple[Callable[[Sketch], None], float, float]] = {
    "apple": (_apple, 0.92, 0.35),
    "banana": (_banana, 0.98, 0.80),
    "corn": (_corn, 1.10, 0.90),
    "peach": (_peach, 0.94, 0.45),
    "pineapple": (_pineapple, 1.14, 0.50),
}
