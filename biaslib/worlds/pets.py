"""Cats and dogs, some with a ball beside them: a small object as a cue, whose strength is a dial."""

from collections.abc import Mapping

import numpy as np

from biaslib.worlds import drawing, rooms
from biaslib.worlds.base import World, factors_of
from biaslib.worlds.drawing import Field, Frame, Point, column, grid, join, mix, ramp, rgb, rows_of_each
from biaslib.worlds.rooms import BALLS
from biaslib.worlds.sketch import Place, Sketch, Surface, Upright, beside

_PET = beside(__file__)
_COATS, _REACH, _SIZES = (np.array(numbers, np.float32) for numbers in (_PET.coats, _PET.reach, _PET.sizes))
_FEET = 0.90  # how far below the middle the feet are
_HEADS = (0.39, 0.40)  # half the width of a dog's and of a cat's head
_NOD = 0.30  # how far a head is tilted at most, in radians
_WHITE, _INK = rgb((0.97, 0.95, 0.92)), rgb((0.10, 0.08, 0.08))
_ROSE = rgb((0.86, 0.56, 0.54))
_PLACES = {name: np.array(places, np.float32) for name, places in _PET.joints.items()}

_ATTRIBUTES, _ANIMAL, _BALL, _SCENE = factors_of(_PET.columns)
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
      (share of the room to move that it has), `y` (how near), `scale` (half its height when it sits), `facing` (1:
      right), `turn`, `tilt` (of the head, [-1, 1]), `plump`, `ear` (their length), `pet_seed` (markings, eyes, tongue);
    * the ball: `ball_kind` (0 beach, 1 tennis, 2 striped, 3 starred, 4 football), `ball_side` (of the animal; 1:
      right), `ball_x`, `ball_y` (share of the room it has), `ball_size` (radius), `ball_seed` (colours, turn);
    * the scene: `garden` (1: outdoors), `wall`, `floor` (0-2: which of the three kinds of a room, or of a garden),
      `wall_tone`, `floor_tone`, `horizon`, `light`, `scene_seed` (textures, windows, pictures on the wall).

    The mask `ball` is empty where there is none; `background` is neither animal nor ball.
    """

    name = "pets"
    target = "cat"
    cue = "ball"
    attributes: tuple[str, ...] = ("cat", "ball")
    regions: tuple[str, ...] = ("animal", "ball", "background")
    _columns = _ATTRIBUTES | _ANIMAL | _BALL | _SCENE

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        x, y = grid(size)
        scene = rooms.draw(Surface(table, x, y))
        (animal, ball, reach, ball_ground), with_ball = _layout(table), np.flatnonzero(table["ball"])
        low, high = animal.x - reach[0], animal.x + reach[1]
        _shade(scene, (low + high) / 2 + 0.015, animal.y + _FEET * animal.scale, 0.42 * (high - low), 0.045)
        ball = ball.take(with_ball)
        if len(with_ball):
            part = scene[with_ball]
            _shade(part, ball.x + 0.012, ball_ground[with_ball] - 0.008, 0.95 * ball.scale, 0.026)
            scene[with_ball] = part
        canvas = np.ascontiguousarray(scene.transpose(0, 2, 3, 1))
        _draw_animals(table, animal, canvas, region_index, size)
        for draw, own in rows_of_each(table["ball_kind"][with_ball], BALLS):
            sketch = Upright(ball.take(own), table["ball_seed"][with_ball[own]], size, reach=1.0)
            draw(sketch)
            sketch.put(canvas, region_index, with_ball[own], 1)
        return drawing.to_uint8(canvas.transpose(0, 3, 1, 2) * drawing.daylight(table["light"], x, y, _PET.daylight))


def _layout(table: dict[str, np.ndarray]) -> tuple[Place, Place, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Places of animal and ball that fit into the picture side by side, the same whether the ball is there or not.

    And how far the animal reaches to the left and to the right, and where the ball's shadow lies, (n,) each.
    """
    radius, (scale, reach) = table["ball_size"], _extent(table)
    slot = 2.0 * radius + _GAP
    on_right = table["ball_side"] > 0
    free = np.maximum(1.0 - 2 * _MARGIN - slot - reach[0] - reach[1], 0.0)
    x = _MARGIN + np.where(on_right, 0.0, slot) + reach[0] + free * table["x"]
    room = np.where(on_right, 1.0 - x - reach[1], x - reach[0]) - _MARGIN - slot
    away = _GAP + radius + np.maximum(room, 0.0) * table["ball_x"]
    ground = 0.855 + 0.085 * table["y"]
    ball_ground = np.minimum(ground - 0.02 + 0.07 * table["ball_y"], 0.975)
    zero = np.zeros_like(x)
    ball_x = np.where(on_right, x + reach[1] + away, x - reach[0] - away)
    animal, ball = Place(x, ground - _FEET * scale, scale, zero), Place(ball_x, ball_ground - radius, radius, zero)
    return animal, ball, reach, ball_ground


def _shade(canvas: Field, middle: np.ndarray, ground: np.ndarray, half: np.ndarray, flat: float) -> None:
    """The shadow on the ground under something, in place: dark where it touches, soft around."""
    x, y = grid(canvas.shape[-1])
    away = np.hypot((x - column(middle)) / column(half), (y - column(ground)) * np.float32(1.0 / flat))
    canvas *= (1.0 - 0.34 * ramp(away, 1.25, 0.35) - 0.22 * ramp(away, 0.9, 0.1))[:, None]


class _Coat:
    """Two colours, (n, 3, 1, 1), of the table's n animals, and their pattern, (n, 1, 1)."""

    def __init__(self, factors: Mapping[str, np.ndarray]) -> None:
        shade = 0.86 + 0.24 * factors["shade"][:, None]
        base = _COATS[factors["coat"].astype(np.intp)] * shade
        pattern = factors["pattern"][:, None]
        bright = base.mean(axis=1, keepdims=True) > 0.45
        chance = drawing.uniform(factors["pet_seed"], 1, 5)
        spots = np.where(bright, _COATS[(chance[:, 3] * 8).astype(np.intp)] * 0.62, np.float32(0.93))
        second = np.select(
            [pattern == 1, pattern == 2, pattern == 3],
            [np.where(bright, base * 0.56, base * 1.7 + 0.10), spots, np.full_like(base, 0.94)],
            np.where(bright, base * 0.38, base * 0.5 + 0.40),
        )
        self.base, self.second, self.pattern = rgb(base), rgb(second), column(factors["pattern"])
        self.phase = [column(6.28 * chance[:, i]) for i in range(3)]

    def markings(self, u: Field, v: Field) -> Field:
        """The share of the second colour in a striped or a patched coat, (n, P, P)."""
        a, b, c = self.phase
        stripe = 0.75 * ramp(np.sin(25.0 * u + 2.0 * np.sin(4.0 * v + a) + b), 0.10, 0.95)
        patch = ramp(np.sin(4.1 * u + a) * np.sin(3.7 * v + b) + 0.5 * np.sin(2.6 * (u - v) + c), 0.10, 0.22)
        return np.where(self.pattern == 1, stripe, np.where(self.pattern == 2, patch, np.float32(0.0)))

    def fur(self, markings: Field, tip: Field, light: Field) -> Field:
        """The colour under this light, of a place that is 1 on paws, breast, blaze or ears in `tip`."""
        share = np.where(self.pattern >= 3, tip, markings)
        return mix(self.base, self.second, share[:, None]) * light[:, None]


def _extent(factors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """An animal's scale in its pose, and how far it reaches to the left and to the right of its middle, (n,) each."""
    pose, right = factors["pose"].astype(np.intp), factors["facing"] > 0
    scale = factors["scale"] * _SIZES[pose]
    behind, ahead = _REACH[pose].T * scale
    return scale, (np.where(right, behind, ahead), np.where(right, ahead, behind))


def _draw_animals(
    factors: Mapping[str, np.ndarray], place: Place, canvas: Field, region_index: np.ndarray, size: int
) -> None:
    """Draws one animal a picture, in place; its feet are `_FEET` * scale below its place; its region is 0."""
    flip = np.where(factors["facing"] > 0, 1.0, -1.0).astype(np.float32)
    for cat, rows in rows_of_each(factors["cat"], (0, 1)):
        own, at = {name: values[rows] for name, values in factors.items()}, place.take(rows)
        pose = own["pose"].astype(np.intp)
        joint = {
            name: (column(places[1 - cat][pose, 0]), column(places[1 - cat][pose, 1]))
            for name, places in _PLACES.items()
        }
        coat = _Coat(own)
        body = Upright(at, own["pet_seed"], size)
        body.u *= column(flip[rows])
        _body(body, cat == 1, joint, coat, own)
        body.put(canvas, region_index, rows, 0)
        nod, neck = at.scale * flip[rows], _PLACES["head"][1 - cat][pose]
        x, y = at.x + nod * neck[:, 0], at.y + at.scale * neck[:, 1]
        nodding = Place(x, y, at.scale * np.float32(_HEADS[cat]), own["tilt"] * np.float32(_NOD))
        head = Upright(nodding, own["pet_seed"], size, reach=1.36)
        (_cat_head if cat else _dog_head)(head, coat, own, column(flip[rows]))
        head.put(canvas, region_index, rows, 0)


def _round(s: Sketch, distance: Field, depth: float, strands: Field | float = 0.0) -> Field:
    """The light on something round and furry: darker at its edge, brighter to the light."""
    rise = np.sqrt(np.clip(distance * (-1.0 / depth), 0.0, 1.0))
    return 0.66 + 0.36 * rise + 0.13 * np.clip(s.lit, -1.0, 1.0) + strands


def _strands(s: Sketch, angle: np.ndarray) -> Field:
    """Fur: fine differences of light, (n, P, P), on a sketch that is turned by `angle`."""
    cos, sin = np.cos(column(angle)), np.sin(column(angle))
    across, down = (s.u * cos - s.v * sin)[:, :1], (s.u * sin + s.v * cos)[:, :, :1]
    fine = drawing.noise(s.seeds, 5, 0.5 + 0.45 * across, 0.5 + 0.45 * down, (44, 26))
    return 0.17 * (fine - 0.5)


def _body(s: Sketch, cat: bool, joint: Mapping[str, Point], coat: _Coat, own: Mapping[str, np.ndarray]) -> None:
    """Everything but the head, from the back to the front."""
    marks, strands = coat.markings(s.u, s.v), _strands(s, 0.0 * own["tilt"])
    plump, pose = column(own["plump"]), column(own["pose"])
    thigh, paw = (0.088, 0.078) if cat else (0.105, 0.090)

    # A cat's long even tail or a dog's tapering one; the legs on the other side, in the shade.
    foot, tip = (0.075, 0.070) if cat else (0.095, 0.035)
    low, _ = s.limb(joint["rump"], joint["tail"], (foot + 0.02, foot))
    high, along = s.limb(joint["tail"], joint["tip"], (foot, tip))
    tail = join(low, high, 0.10)
    s.lay(tail, coat.fur(marks, ramp(along, 0.35, 0.5), 0.94 * _round(s, tail, 0.09, strands)))
    front, _ = s.limb(joint["far_shoulder"], joint["far_paw"], (thigh + 0.02, paw))
    hind, _ = s.limb(joint["far_knee"], joint["far_foot"], (thigh + 0.03, paw))
    far = np.minimum(front, hind)
    s.lay(far, coat.fur(marks, ramp(s.v, 0.66, 0.74), 0.74 * _round(s, far, 0.10, strands)))

    # Hips, chest and neck in one outline, with the breast of a bib.
    sitting = pose == 0
    hips, chest = (0.27, 0.23) if cat else (0.29, 0.28)
    girth = hips + 0.05 * plump + 0.05 * sitting, chest + 0.03 * plump
    trunk, _ = s.limb(joint["hip"], joint["chest"], girth)
    neck, _ = s.limb(joint["chest"], joint["head"], (girth[1] * 0.9, 0.20 if cat else 0.21))
    trunk = join(trunk, neck, 0.16)
    breast = ramp(s.circle((joint["chest"][0] + 0.14, joint["chest"][1] + 0.06), 0.0), 0.34, 0.20)
    light = _round(s, trunk, 0.30, strands) - 0.20 * ramp(s.v, 0.2, 1.0) * ~sitting
    s.lay(trunk, coat.fur(marks, breast * (coat.pattern == 3), light))

    # The haunch with its foot, and the front leg on our side, each with a soft shadow on the trunk.
    haunch = s.ellipse(joint["haunch"], (0.30 + 0.03 * plump, 0.30), 0.0 * plump)
    shin, _ = s.limb(joint["knee"], joint["foot"], (thigh + 0.04, paw + 0.01))
    toes, _ = s.limb(joint["foot"], (joint["foot"][0] + 0.09, joint["foot"][1] + 0.01), (paw, paw * 0.85))
    hind = join(join(haunch, shin, 0.08), toes, 0.04)
    s.tint(0.30 * ramp(hind, 0.07, 0.0), coat.base * 0.30)
    light = _round(s, hind, 0.24, strands) - 0.10 * ramp(s.v, 0.4, 0.9)
    s.lay(hind, coat.fur(marks, ramp(s.v, 0.74, 0.80), light))
    leg, _ = s.limb(joint["shoulder"], joint["paw"], (thigh + 0.03, paw))
    toes, _ = s.limb(joint["paw"], (joint["paw"][0] + 0.09, joint["paw"][1] + 0.01), (paw * 1.1, paw))
    front = join(leg, toes, 0.05)
    s.tint(0.30 * ramp(front, 0.06, 0.0) * ramp(s.v, 0.1, 0.35), coat.base * 0.30)
    sock = np.where(pose == 1, ramp(s.u, 0.40, 0.46), ramp(s.v, 0.66, 0.72))
    s.lay(front, coat.fur(marks, sock, _round(s, front, 0.10, strands)))
    under = s.circle(joint["head"], _HEADS[cat])
    s.tint(0.45 * ramp(under, 0.18, -0.05) * ramp(s.v - joint["head"][1], -0.1, 0.3), coat.base * 0.22)


def _cat_head(s: Upright, coat: _Coat, own: Mapping[str, np.ndarray], flip: Field) -> None:
    turn = 0.16 * flip * column(own["turn"])
    level, front = turn * 0.0, s.u - turn
    a = np.abs(front)
    sides, half = Frame(np.abs(s.u - 0.3 * turn), s.v), Frame(a, s.v)
    ears = Frame(sides.u, s.v + 0.10 * column(own["ear"]))
    marks = coat.markings(1.3 * s.u, 0.4 * s.v)
    ear = ears.polygon([(0.16, -0.55), (0.66, -1.20), (0.94, -0.25)]) - 0.04
    s.lay(ear, coat.fur(marks, 1.0 * (coat.pattern == 4), 0.92 * _round(s, ear, 0.20)))
    s.mark(ears.polygon([(0.36, -0.55), (0.65, -1.00), (0.80, -0.40)]), mix(coat.base * 0.6, _ROSE, 0.6))
    face = join(s.ellipse((0.0, 0.0), (0.90, 0.76), level), sides.circle((0.40, 0.30), 0.48), 0.12)
    s.tint(0.35 * ramp(face, 0.12, 0.0), coat.base * 0.3)
    mask = ramp(np.hypot(front * 0.9, s.v - 0.22), 0.62, 0.40) * (coat.pattern == 4)
    blaze = ramp(a + 0.42 * np.minimum(s.v - 0.25, 0.0) * -1.0, 0.34, 0.26) * (coat.pattern == 3)
    light = _round(s, face, 0.60, _strands(s, own["tilt"] * np.float32(_NOD)))
    s.lay(face, coat.fur(marks, np.maximum(mask, blaze), light))
    pads = half.ellipse((0.17, 0.42), (0.23, 0.18), level)
    s.tint(0.60 * ramp(pads, 0.06, -0.06), mix(coat.base, _WHITE, 0.65))
    eye = half.ellipse((0.42, -0.02), (0.215, 0.19), level + 0.15)
    iris = s.pick([(0.62, 0.72, 0.28), (0.86, 0.68, 0.22), (0.46, 0.68, 0.78), (0.52, 0.66, 0.40)])
    s.mark(eye - 0.05, _INK, 0.75)
    s.mark(eye, iris)
    (wide,) = s.chance(1)
    s.mark(half.ellipse((0.41, -0.02), (0.055 + 0.07 * wide, 0.17), level), _INK)
    s.mark(half.circle((0.36, -0.09), 0.055), _WHITE)
    s.mark(Frame(front, s.v).polygon([(-0.12, 0.22), (0.12, 0.22), (0.0, 0.36)]) - 0.02, _ROSE * 0.92)
    line = half.limb((0.0, 0.36), (0.0, 0.46), (0.02, 0.02))[0]
    s.mark(np.minimum(line, half.limb((0.0, 0.47), (0.20, 0.42), (0.024, 0.015))[0]), _INK, 0.75)
    bright = coat.base.mean(axis=1, keepdims=True)
    for end, start in (((1.22, 0.26), 0.36), ((1.24, 0.50), 0.44), ((1.12, 0.72), 0.50)):
        hair = half.limb((0.34, start), end, (0.024, 0.010))[0]
        s.lay(hair, np.where(bright > 0.6, rgb((0.80, 0.78, 0.76)), _WHITE), 0.85)


def _dog_head(s: Upright, coat: _Coat, own: Mapping[str, np.ndarray], flip: Field) -> None:
    """A longer face with hanging ears, a broad muzzle, a large nose and, with some, the tongue out."""
    turn = 0.20 * flip * column(own["turn"])
    level, middle = turn * 0.0, Frame(s.u - turn, s.v)
    front, a = middle.u, np.abs(middle.u)
    half, strands = Frame(a, s.v), _strands(s, own["tilt"] * np.float32(_NOD))
    panting, _ = s.chance(2)
    marks = coat.markings(1.3 * s.u, 0.4 * s.v)
    muzzle = middle.ellipse((0.0, 0.44), (0.46, 0.42), level)
    face = join(s.ellipse((0.0, -0.14), (0.72, 0.74), level), muzzle, 0.24)
    tongue = middle.limb((0.0, 0.66), (0.06, 0.98), (0.16, 0.15))[0] + 9.0 * (panting < 0.45)
    s.lay(tongue, rgb((0.90, 0.44, 0.46)) * (0.9 - 0.3 * ramp(np.abs(front - 0.03), 0.03, 0.0))[:, None])
    mask = ramp(np.hypot(front * 0.9, s.v - 0.40), 0.66, 0.42) * (coat.pattern == 4)
    blaze = ramp(a + 0.34 * np.minimum(s.v - 0.25, 0.0) * -1.0, 0.40, 0.30) * (coat.pattern == 3)
    s.lay(face, coat.fur(marks, np.maximum(mask, blaze), _round(s, face, 0.55, strands)))
    s.tint(0.45 * ramp(muzzle, 0.08, -0.10), mix(coat.base, _WHITE, 0.45))
    s.tint(0.20 * ramp(np.abs(muzzle), 0.08, 0.0) * ramp(s.v, 0.55, 0.2), coat.base * 0.25)
    hang = column(own["ear"])
    sides = Frame(np.abs(s.u - 0.2 * turn), s.v)
    ear, along = sides.limb((0.56, -0.56), (0.90 - 0.04 * hang, 0.10 + 0.44 * hang), (0.18, 0.27))
    s.tint(0.40 * ramp(ear, 0.14, 0.0), coat.base * 0.25)
    s.lay(ear, coat.fur(marks, 1.0 * (coat.pattern == 4), 0.74 * _round(s, ear, 0.24, strands) + 0.08 * along))
    eye = half.ellipse((0.34, -0.12), (0.135, 0.145), level)
    s.mark(eye - 0.05, coat.base * 0.35, 0.8)
    s.mark(eye, rgb((0.22, 0.12, 0.07)))
    s.mark(half.circle((0.30, -0.17), 0.05), _WHITE)
    s.mark(middle.ellipse((0.0, 0.26), (0.22, 0.155), level), _INK)
    s.mark(middle.ellipse((-0.06, 0.20), (0.08, 0.035), level), rgb((0.60, 0.60, 0.62)), 0.8)
    line = half.limb((0.0, 0.38), (0.0, 0.58), (0.022, 0.022))[0]
    s.mark(np.minimum(line, half.limb((0.0, 0.60), (0.30, 0.52), (0.028, 0.018))[0]), _INK, 0.75)
