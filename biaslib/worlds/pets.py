"""Cats and dogs, some with a ball beside them: a small object as a cue, whose strength is a dial."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslib.samples import Samples
from biaslib.worlds import pet_drawing, rooms
from biaslib.worlds.balls import BALLS
from biaslib.worlds.drawing import Daylight, Field, chunks, column, grid, ramp, to_uint8
from biaslib.worlds.factors import CHOICE, SEED, SHARE, Factor, agreement, check_draw, check_size, drawn, halves, read
from biaslib.worlds.pet_drawing import FEET, REACH, SIZES
from biaslib.worlds.sketch import Place
from biaslib.worlds.upright import Upright

_ATTRIBUTES = {"cat": CHOICE, "ball": CHOICE}
_ANIMAL = {
    "pose": Factor(0, len(pet_drawing.POSES) - 1, whole=True),
    "coat": Factor(0, len(pet_drawing.COATS) - 1, whole=True),
    "pattern": Factor(0, len(pet_drawing.PATTERNS) - 1, whole=True),
    "shade": SHARE,
    "x": SHARE,
    "y": SHARE,
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
    "wall_tone": SHARE,
    "floor_tone": SHARE,
    "horizon": SHARE,
    "light": SHARE,
    "scene_seed": SEED,
}
_DAYLIGHT = Daylight(warm=(1.05, 1.0, 0.91), cool=(0.97, 1.0, 1.04), dim=0.94, gain=0.20, top=1.03, fall=0.12)
# Between animal, ball and frame, shares of the picture's side.
_GAP, _MARGIN = 0.03, 0.015


class Pets:
    """Cats (target) beside a ball (cue), after "Cat + Ball vs. Dog" of Schaaf et al. (2021).

    The ball agrees with the target where it lies beside a cat or is missing beside a dog: P(agree) =
    (1 + strength) / 2 in both classes. At strength 1 every cat and no dog has one, as in the paper's biased set; at
    strength 0 half of either have one. It never overlaps the animal, and its place is kept free where there is none.

    Columns of the table besides `cat` (bool; else a dog) and `ball` (int8); shares lie in [0, 1]:

    * the animal: `pose` (0-2, in the order of `pet_drawing.POSES`), `coat` (0-7, `pet_drawing.COATS`), `pattern` (0-4,
      `pet_drawing.PATTERNS`), `shade` (brightness), `x` (share of the room to move that it has), `y` (how near),
      `scale` (about half its height when it sits), `facing` (1: to the right), `turn`, `tilt` (of the head, [-1, 1]),
      `plump`, `ear` (their length), `pet_seed` (markings, eyes, tongue);
    * the ball: `ball_kind` (0-4, in the order of `balls.BALLS`), `ball_side` (of the animal; 1: right), `ball_x`,
      `ball_y` (share of the room it has), `ball_size` (radius), `ball_seed` (colours, turn);
    * the scene: `garden` (1: outdoors), `wall`, `floor` (0-2: which of the three kinds of a room, or of a garden),
      `wall_tone`, `floor_tone`, `horizon`, `light`, `scene_seed` (textures, windows, pictures on the wall).

    Every column is independent of the target, and none depends on the strength, except `ball`.
    """

    name = "pets"
    target = "cat"
    cue = "ball"
    attributes: tuple[str, ...] = ("cat", "ball")
    regions: tuple[str, ...] = ("animal", "ball", "background")

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """Draws n rows: half of them cats, a share (1 + strength) / 2 of each class with a ball that agrees.

        The shares are exact to the nearest row. The same seed with another strength gives the same animals and scenes;
        only some balls come or go.

        Args:
            n: number of rows, >= 1.
            strength: the dial, in [0, 1].
            seed: >= 0.

        Raises:
            BiaslibError: n, strength or seed out of range.
        """
        check_draw(n, strength, seed)
        rng = np.random.default_rng(seed)
        cat = halves(n, rng)
        table = {"cat": cat, "ball": (cat == agreement(cat, strength, rng)).astype(np.int8)}
        table |= drawn(_ANIMAL | _BALL | _SCENE, n, rng)
        return pd.DataFrame(table)

    def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
        """Draws the rows, each for itself: the same row gives the same pixels in whatever table it stands.

        Args:
            factors: a table from `factors`, edited at will; further columns are left alone.
            size: height and width in pixels.

        Returns:
            Images (n, size, size, 3); labels `cat` and `ball` (bool); masks `animal` and `ball` (more than half of the
            pixel; never both; `ball` is empty where there is none) and `background`, the rest.

        Raises:
            BiaslibError: a column is missing or a value is out of range; size below 8.
        """
        check_size(size)
        table = read(factors, _ATTRIBUTES | _ANIMAL | _BALL | _SCENE)
        images = np.empty((len(factors), size, size, 3), np.uint8)
        owner = np.zeros(images.shape[:3], np.uint8)
        for rows in chunks(len(factors), size):
            part = {name: values[rows] for name, values in table.items()}
            images[rows] = to_uint8(_draw(part, owner[rows], size))
        labels = pd.DataFrame({name: table[name].astype(bool) for name in self.attributes})
        return Samples(images, labels, {"animal": owner == 1, "ball": owner == 2, "background": owner == 0})


@dataclass(frozen=True)
class _Layout:
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


def _draw(table: dict[str, np.ndarray], owner: np.ndarray, size: int) -> Field:
    """The pictures, (n, 3, size, size); `owner` (n, size, size) becomes 1 on the animal, 2 on the ball."""
    x, y = grid(size)
    room = rooms.Room(*(table[name] for name in ("scene_seed", "wall", "floor", "wall_tone", "floor_tone", "horizon")))
    scene = rooms.draw(room, table["garden"].astype(np.float32), x, y)
    layout, there = _layout(table), table["ball"] > 0
    low, high = layout.animal.x - layout.reach[0], layout.animal.x + layout.reach[1]
    ground = layout.animal.y + FEET * layout.animal.scale
    _shade(scene, (low + high) / 2 + 0.015, ground, 0.42 * (high - low), 0.045, x, y)
    rows = np.flatnonzero(there)
    ball = Place(*(getattr(layout.ball, name)[rows] for name in ("x", "y", "scale", "angle")))
    if len(rows):
        part = scene[rows]
        _shade(part, ball.x + 0.012, layout.ball_ground[rows] - 0.008, 0.95 * ball.scale, 0.026, x, y)
        scene[rows] = part
    canvas = np.ascontiguousarray(scene.transpose(0, 2, 3, 1))
    pet_drawing.draw(table, layout.animal, canvas, owner, size)
    for kind, draw in enumerate(BALLS.values()):
        own = np.flatnonzero(table["ball_kind"][rows] == kind)
        if len(own):
            at = Place(ball.x[own], ball.y[own], ball.scale[own], ball.angle[own])
            sketch = Upright(at, table["ball_seed"][rows[own]], size, reach=1.0)
            draw(sketch)
            sketch.put(canvas, owner, rows[own], 2)
    return canvas.transpose(0, 3, 1, 2) * _DAYLIGHT.over(table["light"], x, y)


def _shade(
    canvas: Field, middle: np.ndarray, ground: np.ndarray, half: np.ndarray, flat: float, x: Field, y: Field
) -> None:
    """The shadow on the ground under something, in place: dark where it touches, soft around."""
    away = np.hypot((x - column(middle)) / column(half), (y - column(ground)) * np.float32(1.0 / flat))
    canvas *= (1.0 - 0.34 * ramp(away, 1.25, 0.35) - 0.22 * ramp(away, 0.9, 0.1))[:, None]
