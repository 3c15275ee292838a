"""Cats and dogs, some with a ball beside them: a small object as a cue, whose strength is a dial."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslib.worlds import pet_drawing, rooms
from biaslib.worlds.base import DrawnWorld
from biaslib.worlds.drawing import Daylight, Field, column, grid, ramp, rows_of_each, to_uint8
from biaslib.worlds.factors import CHOICE, SEED, SHARE, Factor, balanced_bool, draw_agreement, draw_factors
from biaslib.worlds.pet_drawing import FEET, REACH, SIZES
from biaslib.worlds.sketch import Place, Upright
from biaslib.worlds.toys import BALLS

_ATTRIBUTES = {"cat": CHOICE, "ball": CHOICE}
_ANIMAL = {
    "pose": Factor(0, len(pet_drawing.POSES) - 1, whole=True),
    "coat": Factor(0, len(pet_drawing.COATS) - 1, whole=True),
    "pattern": Factor(0, len(pet_drawing.PATTERNS) - 1, whole=True),
    **dict.fromkeys(("shade", "x", "y"), SHARE),
    "scale": Factor(0.1, 0.44, drawn=(0.34, 0.43)),
    "facing": CHOICE,
    "turn": Factor(-1.0, 1.0),
    "tilt": Factor(-1.0, 1.0),
    "plump": SHARE,
    "ear": SHARE,
    "pet_seed": SEED,
}
_BALL = {
    "ball_kind": Factor(0, len(BALLS) - 1, whole=True),
    "ball_side": CHOICE,
    "ball_x": SHARE,
    "ball_y": SHARE,
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


class Pets(DrawnWorld):
    """Cats (target) beside a ball (cue), after "Cat + Ball vs. Dog" of Schaaf et al. (2021).

    The ball agrees with the target where it lies beside a cat or is missing beside a dog: P(agree) =
    (1 + strength) / 2 in both classes. At strength 1 every cat and no dog has one, as in the paper's biased set; at
    strength 0 half of either have one. It never overlaps the animal, and its place is kept free where there is none.

    Columns of the table besides `cat` (bool; else a dog) and `ball` (int8); shares lie in [0, 1]:

    * the animal: `pose` (0-2, in the order of `pet_drawing.POSES`), `coat` (0-7, `pet_drawing.COATS`), `pattern` (0-4,
      `pet_drawing.PATTERNS`), `shade` (brightness), `x` (share of the room to move that it has), `y` (how near),
      `scale` (about half its height when it sits), `facing` (1: to the right), `turn`, `tilt` (of the head, [-1, 1]),
      `plump`, `ear` (their length), `pet_seed` (markings, eyes, tongue);
    * the ball: `ball_kind` (0-4, in the order of `toys.BALLS`), `ball_side` (of the animal; 1: right), `ball_x`,
      `ball_y` (share of the room it has), `ball_size` (radius), `ball_seed` (colours, turn);
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
        scene = rooms.draw(table, x, y)
        layout, with_ball = _layout(table), np.flatnonzero(table["ball"])
        low, high = layout.animal.x - layout.reach[0], layout.animal.x + layout.reach[1]
        ground = layout.animal.y + FEET * layout.animal.scale
        _shade(scene, (low + high) / 2 + 0.015, ground, 0.42 * (high - low), 0.045, x, y)
        ball = layout.ball.take(with_ball)
        if len(with_ball):
            part = scene[with_ball]
            _shade(part, ball.x + 0.012, layout.ball_ground[with_ball] - 0.008, 0.95 * ball.scale, 0.026, x, y)
            scene[with_ball] = part
        canvas = np.ascontiguousarray(scene.transpose(0, 2, 3, 1))
        pet_drawing.draw(table, layout.animal, canvas, region_index, size)
        for draw, own in rows_of_each(table["ball_kind"][with_ball], BALLS.values()):
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
    pose, radius = table["pose"].astype(np.intp), table["ball_size"]
    scale = table["scale"] * SIZES[pose]
    behind, ahead = REACH[pose].T * scale
    right = table["facing"] > 0
    reach = np.where(right, behind, ahead), np.where(right, ahead, behind)
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


def _shade(
    canvas: Field, middle: np.ndarray, ground: np.ndarray, half: np.ndarray, flat: float, x: Field, y: Field
) -> None:
    """The shadow on the ground under something, in place: dark where it touches, soft around."""
    away = np.hypot((x - column(middle)) / column(half), (y - column(ground)) * np.float32(1.0 / flat))
    canvas *= (1.0 - 0.34 * ramp(away, 1.25, 0.35) - 0.22 * ramp(away, 0.9, 0.1))[:, None]
