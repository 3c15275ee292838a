"""Cats and dogs, some with a ball beside them: a small object as a cue, whose strength is a dial."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslib.worlds import pet_drawing, rooms
from biaslib.worlds.base import CHOICE, SEED, SHARE, Factor, World, balanced_bool, draw_agreement, draw_factors
from biaslib.worlds.drawing import Daylight, Field, Frame, column, grid, mix, ramp, rgb, rows_of_each, to_uint8
from biaslib.worlds.pet_drawing import FEET, extent
from biaslib.worlds.sketch import Place, Sketch, Surface, Upright

_WHITE, _INK = rgb((0.97, 0.97, 0.95)), rgb((0.10, 0.10, 0.12))
_BOLD = [
    (0.90, 0.16, 0.16), (0.12, 0.42, 0.86), (0.98, 0.70, 0.06), (0.10, 0.62, 0.34), (0.86, 0.20, 0.56),
    (0.50, 0.24, 0.74),
]  # fmt: skip
_RADIUS = 0.96


def _finish(s: Sketch, round_: Field, gleam: float) -> None:
    """The light on a ball: bright at the upper left, dark below, with a highlight."""
    rise = np.sqrt(np.clip(round_ * (-1.0 / 0.9), 0.0, 1.0))
    s.shade(0.56 + 0.46 * rise + 0.24 * np.clip(s.lit, -1.0, 1.0))
    s.tint(gleam * ramp(s.circle((-0.34, -0.40), 0.0), 0.30, 0.05), _WHITE)


def _turned(s: Sketch) -> tuple[Field, Field]:
    """Coordinates on the ball, turned by a random angle."""
    own = s.turned((0.0, 0.0), 6.2832 * s.chance(1)[0])
    return own.u, own.v


def _beach(s: Sketch) -> None:
    """A beach ball: coloured gores between white ones around a button."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    first, second = s.pick(_BOLD), s.pick(_BOLD, 3)
    pole = (0.26, -0.10)
    part = np.mod(np.arctan2(v - pole[1], u - pole[0]) * (6.0 / 6.2832), 6.0)
    edge = (0.5 - np.abs(np.mod(part, 1.0) - 0.5)) * np.hypot(u - pole[0], v - pole[1])
    own = np.where((part < 3.0)[:, None], first, second)
    s.lay(round_, np.where((np.mod(np.floor(part), 2.0) < 0.5)[:, None], _WHITE, own))
    s.tint(0.3 * ramp(edge, 0.05, 0.0), _WHITE * 0.8)
    s.mark(Frame(u, v).circle(pole, 0.15), _WHITE)
    _finish(s, round_, 0.7)


def _tennis(s: Sketch) -> None:
    """A tennis ball with its curved seam."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick([(0.80, 0.92, 0.18), (0.88, 0.94, 0.26), (0.98, 0.52, 0.14)]))
    for side in (-1.0, 1.0):
        s.mark(np.abs(Frame(u, v).circle((1.25 * side, 0.15), 0.95)) - 0.065, _WHITE)
    _finish(s, round_, 0.25)


def _striped(s: Sketch) -> None:
    """A rubber ball with a broad band and a thin one."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick(_BOLD))
    bend = v - 0.28 * np.sqrt(np.clip(1.0 - u * u, 0.0, 1.0))
    s.mark(np.abs(bend) - 0.20, _WHITE)
    s.mark(np.abs(bend) - 0.09, s.pick(_BOLD, 3))
    _finish(s, round_, 0.8)


def _starred(s: Sketch) -> None:
    """A rubber ball with a star."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick(_BOLD))
    sector = np.mod(np.arctan2(v, u) * (5.0 / 6.2832), 1.0) - 0.5
    star = np.hypot(u, v) - (0.28 + 0.36 * (1.0 - 2.0 * np.abs(sector)))
    s.mark(star * 0.6, mix(_WHITE, rgb((1.0, 0.86, 0.30)), s.chance(2)[1][:, None]))
    _finish(s, round_, 0.8)


def _football(s: Sketch) -> None:
    """A football: a dark patch in the middle, five around it and the seams between."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, _WHITE)
    ink = mix(_INK, s.pick(_BOLD), column(s.chance(2)[1][:, 0, 0] > 0.5)[:, None])
    sector = np.mod(np.arctan2(v, u) * (5.0 / 6.2832), 1.0) - 0.5
    reach = np.hypot(u, v)
    along, across = reach * np.cos(sector * 1.2566), reach * np.sin(sector * 1.2566)
    s.mark(along - 0.34, ink)
    s.mark(Frame(along, across).limb((0.34, 0.25), (0.62, 0.46), (0.035, 0.03))[0], ink)
    s.mark(Frame(along, across).limb((0.34, -0.25), (0.62, -0.46), (0.035, 0.03))[0], ink)
    outer = np.mod(np.arctan2(v, u) * (5.0 / 6.2832) + 0.5, 1.0) - 0.5
    s.mark(0.76 - reach * np.cos(outer * 1.2566) + 0.30 * np.abs(outer), ink)
    _finish(s, round_, 0.6)


# Beach balls, tennis balls, striped and starred rubber balls, footballs.
BALLS: tuple[Callable[[Sketch], None], ...] = (_beach, _tennis, _striped, _starred, _football)

_ATTRIBUTES = {"cat": CHOICE, "ball": CHOICE}
_ANIMAL = {
    "pose": Factor(0, 2, whole=True),
    "coat": Factor(0, 7, whole=True),
    "pattern": Factor(0, 4, whole=True),
    **dict.fromkeys(("shade", "x", "y"), SHARE),
    "scale": Factor(0.1, 0.44, drawn=(0.34, 0.43)),
    "facing": CHOICE,
    **dict.fromkeys(("turn", "tilt"), Factor(-1.0, 1.0)),
    **dict.fromkeys(("plump", "ear"), SHARE),
    "pet_seed": SEED,
}
_BALL = {
    "ball_kind": Factor(0, len(BALLS) - 1, whole=True),
    "ball_side": CHOICE,
    **dict.fromkeys(("ball_x", "ball_y"), SHARE),
    "ball_size": Factor(0.03, 0.08, drawn=(0.06, 0.08)),
    "ball_seed": SEED,
}
_SCENE = {
    "garden": CHOICE,
    "wall": Factor(0, 2, whole=True),
    "floor": Factor(0, 2, whole=True),
    **dict.fromkeys(("wall_tone", "floor_tone", "horizon", "light"), SHARE),
    "scene_seed": SEED,
}
_DAYLIGHT = Daylight(warm=(1.05, 1.0, 0.91), cool=(0.97, 1.0, 1.04), dim=0.94, gain=0.20, top=1.03, fall=0.12)
# Between animal, ball and frame, shares of the picture's side.
_GAP, _MARGIN = 0.03, 0.015


class Pets(World):
    """Cats (target) beside a ball (cue), after "Cat + Ball vs. Dog" of Schaaf et al. (2021).

    The ball agrees with the target where it lies beside a cat or is missing beside a dog: P(agree) =
    (1 + strength) / 2 in both classes. At strength 1 every cat and no dog has one, as in the paper's biased set; at
    strength 0 half of either have one. It never overlaps the animal, and its place is kept free where there is none.

    Columns of the table besides `cat` (bool; else a dog) and `ball` (int8); shares lie in [0, 1]:

    * the animal: `pose` (0 sitting, 1 lying, 2 standing), `coat` (0 black, 1 grey, 2 ginger, 3 cream, 4 white, 5 brown,
      6 chocolate, 7 golden), `pattern` (0 plain, 1 striped, 2 patched, 3 bib, 4 points), `shade` (brightness), `x`
      (share of the room to move that it has), `y` (how near), `scale` (about half its height when it sits), `facing`
      (1: to the right), `turn`, `tilt` (of the head, [-1, 1]), `plump`, `ear` (their length), `pet_seed` (markings,
      eyes, tongue);
    * the ball: `ball_kind` (0 beach, 1 tennis, 2 striped, 3 starred, 4 football), `ball_side` (of the animal; 1:
      right), `ball_x`, `ball_y` (share of the room it has), `ball_size` (radius), `ball_seed` (colours, turn);
    * the scene: `garden` (1: outdoors), `wall`, `floor` (0-2: which of the three kinds of a room, or of a garden),
      `wall_tone`, `floor_tone`, `horizon`, `light`, `scene_seed` (textures, windows, pictures on the wall).

    Every column is independent of the target, and none depends on the strength, except `ball`. The mask `ball` is empty
    where there is none; `background` is neither animal nor ball.
    """

    name = "pets"
    target = "cat"
    cue = "ball"
    attributes: tuple[str, ...] = ("cat", "ball")
    regions: tuple[str, ...] = ("animal", "ball", "background")
    _columns = _ATTRIBUTES | _ANIMAL | _BALL | _SCENE

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        cat = balanced_bool(n, rng)
        table = {"cat": cat, "ball": (cat == draw_agreement(cat, strength, rng)).astype(np.int8)}
        return pd.DataFrame(table | draw_factors(_ANIMAL | _BALL | _SCENE, n, rng))

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        x, y = grid(size)
        scene = rooms.draw(Surface(table, x, y))
        layout, with_ball = _layout(table), np.flatnonzero(table["ball"])
        low, high = layout.animal.x - layout.reach[0], layout.animal.x + layout.reach[1]
        ground = layout.animal.y + FEET * layout.animal.scale
        _shade(scene, (low + high) / 2 + 0.015, ground, 0.42 * (high - low), 0.045)
        ball = layout.ball.take(with_ball)
        if len(with_ball):
            part = scene[with_ball]
            _shade(part, ball.x + 0.012, layout.ball_ground[with_ball] - 0.008, 0.95 * ball.scale, 0.026)
            scene[with_ball] = part
        canvas = np.ascontiguousarray(scene.transpose(0, 2, 3, 1))
        pet_drawing.draw(table, layout.animal, canvas, region_index, size)
        for draw, own in rows_of_each(table["ball_kind"][with_ball], BALLS):
            sketch = Upright(ball.take(own), table["ball_seed"][with_ball[own]], size, reach=1.0)
            draw(sketch)
            sketch.put(canvas, region_index, with_ball[own], 1)
        return to_uint8(canvas.transpose(0, 3, 1, 2) * _DAYLIGHT.over(table["light"], x, y))


class _Layout(NamedTuple):
    """Where animal and ball are; the ground is where their shadows lie, (n,) each."""

    animal: Place
    ball: Place
    reach: tuple[np.ndarray, np.ndarray]
    ball_ground: np.ndarray


def _layout(table: dict[str, np.ndarray]) -> _Layout:
    """Places that fit into the picture side by side, the same whether the ball is there or not."""
    radius, (scale, reach) = table["ball_size"], extent(table)
    slot = 2.0 * radius + _GAP
    on_right = table["ball_side"] > 0
    free = np.maximum(1.0 - 2 * _MARGIN - slot - reach[0] - reach[1], 0.0)
    x = _MARGIN + np.where(on_right, 0.0, slot) + reach[0] + free * table["x"]
    room = np.where(on_right, 1.0 - x - reach[1], x - reach[0]) - _MARGIN - slot
    away = _GAP + radius + np.maximum(room, 0.0) * table["ball_x"]
    ground = 0.855 + 0.085 * table["y"]
    ball_ground = np.minimum(ground - 0.02 + 0.07 * table["ball_y"], 0.975)
    zero = np.zeros_like(x)
    return _Layout(
        animal=Place(x, ground - FEET * scale, scale, zero),
        ball=Place(np.where(on_right, x + reach[1] + away, x - reach[0] - away), ball_ground - radius, radius, zero),
        reach=reach,
        ball_ground=ball_ground,
    )


def _shade(canvas: Field, middle: np.ndarray, ground: np.ndarray, half: np.ndarray, flat: float) -> None:
    """The shadow on the ground under something, in place: dark where it touches, soft around."""
    x, y = grid(canvas.shape[-1])
    away = np.hypot((x - column(middle)) / column(half), (y - column(ground)) * np.float32(1.0 / flat))
    canvas *= (1.0 - 0.34 * ramp(away, 1.25, 0.35) - 0.22 * ramp(away, 0.9, 0.1))[:, None]
