"""Fifteen everyday things seen from above, each drawn on its own sketch."""

from collections.abc import Callable

import numpy as np

from biaslib.worlds.drawing import Frame, column, join, mix, ramp, rgb
from biaslib.worlds.sketch import Sketch

_WHITE, _BLACK = rgb((0.97, 0.97, 0.95)), rgb((0.09, 0.09, 0.10))
_STEEL, _WOOD = rgb((0.74, 0.76, 0.79)), rgb((0.87, 0.69, 0.47))
_GLAZES = [(0.96, 0.95, 0.92), (0.16, 0.52, 0.55), (0.93, 0.73, 0.25), (0.24, 0.34, 0.58), (0.78, 0.36, 0.28)]


def _mug(s: Sketch) -> None:
    glaze = s.pick(_GLAZES)
    (milk,) = s.chance(1)
    s.lay(np.abs(s.box((0.62, 0.0), (0.27, 0.22), 0.18)) - 0.085, glaze)
    round_ = s.circle((-0.22, 0.0), 0.70)
    s.lay(round_, glaze)
    s.relief(0.14, 0.30)
    s.mark(round_ + 0.10, glaze * 0.62)
    coffee = mix(rgb((0.24, 0.13, 0.07)), rgb((0.66, 0.45, 0.28)), 0.8 * milk[:, None])
    s.mark(round_ + 0.17, coffee)
    s.mark(np.abs(round_ + 0.21) - 0.03, coffee * 1.45 + 0.05)
    s.tint(0.55 * ramp(s.circle((-0.30, -0.16), 0.0), 0.36, 0.05) * (round_ < -0.17), coffee * 1.9 + 0.05)


def _book(s: Sketch) -> None:
    """A closed book: cloth cover, spine on the left, a label with a title, pages at the right and the foot."""
    cloth = s.pick([(0.70, 0.15, 0.17), (0.12, 0.36, 0.30), (0.16, 0.26, 0.50), (0.83, 0.52, 0.16), (0.42, 0.22, 0.44)])
    gold = rgb((0.93, 0.80, 0.48))
    (kind,) = s.chance(1)
    s.lay(s.box((0.05, 0.04), (0.62, 0.80), 0.03), rgb((0.95, 0.92, 0.83)))
    s.lay(s.box((-0.03, -0.03), (0.62, 0.80), 0.04), cloth)
    s.relief(0.07, 0.30)
    s.mark(s.box((-0.56, -0.03), (0.10, 0.80)), cloth * 0.68)
    s.mark(np.abs(s.box((0.05, -0.03), (0.42, 0.66), 0.03)) - 0.025, gold, 0.8)
    s.mark(s.box((0.05, -0.30), (0.28, 0.16), 0.02), rgb((0.96, 0.92, 0.80)))
    s.mark(s.box((0.05, -0.34), (0.20, 0.025)), cloth * 0.5)
    s.mark(s.box((0.05, -0.25), (0.13, 0.02)), cloth * 0.5)
    ornament = mix(s.circle((0.05, 0.30), 0.13), np.abs(s.u - 0.05) + np.abs(s.v - 0.30) - 0.17, kind > 0.5)
    s.mark(ornament, gold)


def _glasses(s: Sketch) -> None:
    frame = s.pick([(0.10, 0.10, 0.12), (0.38, 0.20, 0.11), (0.72, 0.13, 0.16), (0.86, 0.72, 0.40)])
    lens = s.pick([(0.16, 0.24, 0.30), (0.30, 0.20, 0.12), (0.14, 0.30, 0.26)], 3)
    (round_,) = s.chance(1)
    for side in (-1.0, 1.0):
        s.lay(s.limb((0.90 * side, 0.05), (0.66 * side, -0.52), (0.055, 0.045))[0], frame * 0.9)
        outline = s.box((0.49 * side, 0.16), (0.41, 0.33 + 0.06 * round_), 0.22 + 0.13 * round_)
        s.lay(outline + 0.05, lens, 0.82)
        shine = s.limb((0.49 * side - 0.18, 0.10), (0.49 * side + 0.02, -0.06), (0.05, 0.05))[0]
        s.mark(shine, rgb((0.85, 0.92, 0.97)), 0.55)
        s.lay(np.abs(outline + 0.05) - 0.055, frame)
    s.lay(s.limb((-0.12, 0.06), (0.12, 0.06), (0.05, 0.05))[0], frame)
    s.relief(0.05, 0.25)


def _key(s: Sketch) -> None:
    metal = s.pick([(0.90, 0.72, 0.28), (0.82, 0.62, 0.22), (0.94, 0.82, 0.46)])
    (heart,) = s.chance(1)
    bow = s.circle((0.0, -0.58), 0.38)
    s.lay(np.maximum(bow, -s.circle((0.0, -0.60 - 0.08 * heart), 0.17)), metal)
    s.lay(s.box((0.0, 0.36), (0.11, 0.60), 0.06), metal)
    s.lay(s.box((0.0, -0.14), (0.16, 0.06), 0.04), metal)
    for at, reach in ((0.86, 0.20), (0.58, 0.16)):
        s.lay(s.box((0.17, at), (reach, 0.085), 0.02), metal)
    s.relief(0.10, 0.45)
    s.mark(np.abs(bow + 0.09) - 0.02, metal * 0.6, 0.7)


def _leaf(s: Sketch) -> None:
    green = s.pick([(0.33, 0.56, 0.20), (0.20, 0.46, 0.26), (0.80, 0.42, 0.12), (0.62, 0.66, 0.18)])
    wide, bend = s.chance(2)
    across = s.u + (0.22 * bend - 0.11) * np.cos(1.8 * s.v)
    half = 0.44 + 0.12 * wide
    radius = (0.90 + half * half) / (2.0 * half)
    bent = Frame(across, s.v + 0.08)
    blade = np.maximum(bent.circle((radius - half, 0.0), radius), bent.circle((half - radius, 0.0), radius))
    pale = green * 0.55 + 0.42 * rgb((0.90, 0.92, 0.62))
    s.lay(Frame(across, s.v).limb((0.0, 0.70), (0.06, 1.0), (0.04, 0.05))[0], green * 0.75)
    s.lay(blade, green)
    s.relief(0.3, 0.28)
    veins = 4.6 * (s.v + 0.55 * np.abs(across))
    s.tint(0.5 * ramp(np.abs(veins - np.round(veins)), 0.16, 0.04) * (blade < -0.05), pale)
    s.mark(np.abs(across) - 0.035 * (1.1 - 0.5 * (1.0 - s.v) / 2), pale, 0.9)
    s.shade(1.0 - 0.12 * ramp(across, -0.04, 0.04))


def _scissors(s: Sketch) -> None:
    grip = s.pick([(0.88, 0.20, 0.16), (0.95, 0.48, 0.10), (0.12, 0.42, 0.72), (0.16, 0.55, 0.34)])
    (open_,) = s.chance(1)
    spread = 0.14 + 0.14 * open_
    for side in (-1.0, 1.0):
        blade = s.limb((0.14 * side, 0.24), (-spread * side, -0.93), (0.13, 0.025))[0]
        s.lay(blade, _STEEL * (0.95 - 0.12 * side))
    for side in (-1.0, 1.0):
        s.lay(s.limb((0.02 * side, 0.06), (0.22 * side, 0.36), (0.10, 0.11))[0], grip)
        s.lay(np.abs(s.ellipse((0.36 * side, 0.60), (0.235, 0.285), column(-0.35 * side))) - 0.085, grip)
    s.relief(0.09, 0.40)
    s.mark(s.circle((0.0, -0.04), 0.07), _BLACK, 0.75)


def _pencil(s: Sketch) -> None:
    paint = s.pick([(0.96, 0.76, 0.12), (0.86, 0.22, 0.18), (0.16, 0.46, 0.76), (0.20, 0.58, 0.34), (0.92, 0.48, 0.14)])
    s.lay(s.box((0.0, 0.84), (0.125, 0.13), 0.07), rgb((0.93, 0.56, 0.58)))
    s.lay(s.polygon([(-0.02, -1.0), (0.02, -1.0), (0.14, -0.58), (-0.14, -0.58)]), _WOOD)
    s.mark(s.v + 0.83, mix(paint, _BLACK, 0.75))
    s.lay(s.box((0.0, 0.06), (0.14, 0.66)), paint)
    s.lay(s.box((0.0, 0.71), (0.14, 0.07)), _STEEL)
    s.shade(1.0 + 0.22 * ramp(s.u, 0.0, -0.07) - 0.24 * ramp(s.u, 0.03, 0.09))


def _phone(s: Sketch) -> None:
    case = s.pick([(0.11, 0.11, 0.13), (0.90, 0.90, 0.91), (0.80, 0.62, 0.60)])
    sky = s.pick([(0.22, 0.48, 0.86), (0.50, 0.32, 0.78), (0.12, 0.62, 0.66), (0.16, 0.22, 0.46)], 3)
    s.lay(s.box((0.0, 0.0), (0.50, 0.94), 0.13), case)
    s.relief(0.05, 0.30)
    screen = s.box((0.0, 0.0), (0.43, 0.84), 0.07)
    s.mark(screen, _BLACK)
    s.mark(screen + 0.015, mix(sky, rgb((0.96, 0.62, 0.50)), (0.5 * ramp(s.v + 0.5 * s.u, -0.6, 1.0))[:, None]))
    column_, row = np.floor((s.u + 0.39) / 0.26), np.floor((s.v + 0.52) / 0.26)
    icon = s.box((-0.26 + 0.26 * column_, -0.39 + 0.26 * row), (0.085, 0.085), 0.03)
    icon = np.maximum(icon, np.maximum(np.abs(s.u) - 0.39, np.abs(s.v + 0.13) - 0.39))
    hue = np.stack([np.sin(2.1 * column_ + 1.3 * row + phase) for phase in (0.0, 2.1, 4.2)], axis=1)
    s.mark(icon, 0.72 + 0.28 * hue)
    s.mark(s.box((0.0, 0.66), (0.36, 0.11), 0.05), _WHITE, 0.55)


def _watch(s: Sketch) -> None:
    strap = s.pick([(0.45, 0.25, 0.13), (0.14, 0.14, 0.16), (0.62, 0.38, 0.22), (0.20, 0.34, 0.46)])
    metal = s.pick([(0.80, 0.81, 0.84), (0.88, 0.72, 0.38)], 3)
    dial = s.pick([(0.97, 0.96, 0.92), (0.97, 0.96, 0.92), (0.12, 0.18, 0.30)], 4)
    hour, minute = s.chance(2)
    s.lay(s.box((0.0, 0.0), (0.26 - 0.07 * np.abs(s.v), 0.98), 0.08), strap)
    s.relief(0.06, 0.30)
    s.mark(np.abs(np.abs(s.u) - 0.14 + 0.05 * np.abs(s.v)) - 0.012, strap * 1.6 + 0.1, 0.7)
    holes = np.maximum(np.abs(s.u) - 0.03, np.abs((s.v * 8.0) - np.round(s.v * 8.0)) / 8.0 - 0.025)
    s.mark(np.maximum(holes, 0.62 - s.v), strap * 0.35)
    s.lay(s.box((0.51, 0.0), (0.07, 0.07), 0.02), metal * 0.85)
    case = s.circle((0.0, 0.0), 0.49)
    s.lay(case, metal * (1.0 + 0.3 * np.clip(s.lit, -1.0, 1.0))[:, None])
    s.mark(case + 0.08, dial)
    ink = np.where(dial.mean(axis=1, keepdims=True) > 0.5, _BLACK, _WHITE)
    turn = np.arctan2(s.v, s.u) * (12.0 / 6.2832)
    ticks = np.maximum(np.abs(turn - np.round(turn)) * 0.16 - 0.022, np.abs(case + 0.14) - 0.035)
    s.mark(ticks, ink, 0.9)
    for angle, length, thick in ((6.2832 * hour, 0.19, 0.032), (6.2832 * minute, 0.28, 0.024)):
        s.mark(s.limb((0.0, 0.0), (length * np.cos(angle), length * np.sin(angle)), (thick, thick))[0], ink)


def _apple(s: Sketch) -> None:
    skin = s.pick([(0.82, 0.14, 0.14), (0.74, 0.12, 0.18), (0.50, 0.72, 0.20), (0.64, 0.76, 0.26)])
    blush, seed = s.chance(2)
    fruit = join(s.circle((-0.24, 0.10), 0.58), s.circle((0.24, 0.10), 0.58), 0.10)
    fruit = join(fruit, s.ellipse((0.0, 0.32), (0.56, 0.52), column(0.0)), 0.1)
    s.lay(fruit, skin)
    s.tint(0.75 * blush * ramp(s.u + 0.5 * s.v, 0.2, 0.8), rgb((0.96, 0.78, 0.30)))
    s.shade(1.02 + 0.30 * np.clip(s.lit, -1.0, 0.8))
    s.tint(0.75 * ramp(s.circle((-0.30, -0.14), 0.0), 0.22, 0.04), _WHITE)
    s.tint(0.7 * ramp(s.ellipse((0.0, -0.36), (0.20, 0.10), column(0.0)), 0.05, -0.06), skin * 0.35)
    s.lay(s.limb((0.0, -0.36), (0.10, -0.80), (0.05, 0.065))[0], rgb((0.36, 0.22, 0.12)))
    blade = s.ellipse((0.40, -0.68), (0.30, 0.14), column(-0.35 + 0.2 * seed))
    s.lay(blade, rgb((0.34, 0.60, 0.22)) * (1.0 - 0.25 * ramp(s.v + 0.68 + 0.35 * (s.u - 0.4), -0.03, 0.03))[:, None])


def _spoon(s: Sketch) -> None:
    metal = s.pick([(0.90, 0.92, 0.95), (0.84, 0.87, 0.90), (0.96, 0.93, 0.86)])
    (slim,) = s.chance(1)
    bowl = s.ellipse((0.0, -0.56), (0.32 + 0.05 * slim, 0.42), column(0.0))
    s.lay(join(bowl, s.limb((0.0, -0.16), (0.0, 0.86), (0.07, 0.125))[0], 0.12), metal)
    s.relief(0.09, 0.40)
    s.mark(bowl + 0.07, metal * (0.62 - 0.42 * np.clip(s.lit - 0.4, -1.0, 1.0))[:, None])
    s.mark(s.ellipse((0.10, -0.40), (0.06, 0.13), column(0.4)), _WHITE, 0.9)
    s.mark(s.limb((0.0, 0.50), (0.0, 0.82), (0.035, 0.06))[0], metal * 0.7)


def _camera(s: Sketch) -> None:
    skin = s.pick([(0.15, 0.15, 0.16), (0.45, 0.25, 0.15), (0.14, 0.38, 0.40), (0.70, 0.30, 0.26)])
    s.lay(s.box((0.62, -0.56), (0.13, 0.10), 0.04), rgb((0.86, 0.22, 0.18)))
    s.lay(s.box((-0.05, -0.56), (0.27, 0.14), 0.05), _STEEL * 0.95)
    s.lay(s.box((0.0, 0.04), (0.92, 0.58), 0.14), _STEEL)
    s.mark(s.box((0.0, 0.13), (0.92, 0.34)), skin)
    s.relief(0.10, 0.32)
    s.mark(s.box((-0.62, -0.36), (0.17, 0.085), 0.03), rgb((0.98, 0.96, 0.84)))
    for radius, colour in ((0.47, _STEEL * 0.9), (0.40, _BLACK), (0.27, rgb((0.16, 0.22, 0.42))), (0.15, _BLACK)):
        s.mark(s.circle((0.08, 0.08), radius), colour)
    s.tint(0.9 * ramp(s.circle((-0.03, -0.05), 0.0), 0.14, 0.06), rgb((0.80, 0.90, 1.0)))
    s.tint(0.6 * ramp(s.circle((0.18, 0.20), 0.0), 0.12, 0.03), rgb((0.62, 0.42, 0.78)))


def _ball(s: Sketch) -> None:
    first = s.pick([(0.90, 0.22, 0.20), (0.16, 0.50, 0.80), (0.98, 0.72, 0.12)])
    second = s.pick([(0.98, 0.80, 0.16), (0.22, 0.66, 0.40), (0.30, 0.42, 0.80)], 3)
    dx, dy, turn = s.chance(3)
    round_ = s.circle((0.0, 0.0), 0.94)
    pole = (0.5 * dx - 0.25, 0.5 * dy - 0.25)
    # Seen around the pole the gores grow narrower, as they do on a sphere.
    angle = np.arctan2(s.v - pole[1], s.u - pole[0]) * (6.0 / 6.2832) + 6.0 * turn
    part = np.floor(np.mod(angle, 6.0))
    edge = (0.5 - np.abs(np.mod(angle, 1.0) - 0.5)) * np.hypot(s.u - pole[0], s.v - pole[1])
    colour = np.where((np.mod(part, 2.0) < 0.5)[:, None], _WHITE, np.where((part < 2.5)[:, None], first, second))
    s.lay(round_, colour)
    s.tint(0.5 * ramp(edge, 0.6 * s.pixel, 0.0), _WHITE * 0.8)
    s.mark(s.circle(pole, 0.13), _WHITE)
    s.shade(0.98 + 0.28 * np.clip(s.lit, -1.0, 0.9) - 0.18 * ramp(round_, -0.25, 0.05))
    s.tint(0.7 * ramp(s.circle((-0.34, -0.42), 0.0), 0.26, 0.04), _WHITE)


_PIPS = [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [1, 1, 0, 0, 1], [1, 1, 1, 1, 0]]


def _die(s: Sketch) -> None:
    body = s.pick([(0.96, 0.94, 0.88), (0.96, 0.94, 0.88), (0.80, 0.14, 0.16), (0.14, 0.30, 0.62), (0.12, 0.46, 0.30)])
    (face,) = s.chance(1)
    up, down, left, _, middle = (column(part) for part in np.array(_PIPS)[(face[:, 0, 0] * 6).astype(np.intp)].T)
    ink = np.where(body.mean(axis=1, keepdims=True) > 0.6, _BLACK, _WHITE)
    s.lay(s.box((0.0, 0.0), (0.70, 0.70), 0.22), body)
    s.relief(0.26, 0.32)
    for x, y, there in (
        (-0.38, -0.38, up), (0.38, 0.38, up), (0.38, -0.38, down), (-0.38, 0.38, down),
        (-0.38, 0.0, left), (0.38, 0.0, left), (0.0, 0.0, middle),
    ):  # fmt: skip
        s.mark(s.circle((x, y), 0.15), ink, there)


def _shell(s: Sketch) -> None:
    tone = s.pick([(0.96, 0.72, 0.60), (0.95, 0.84, 0.72), (0.88, 0.58, 0.60), (0.84, 0.72, 0.84)])
    (bands,) = s.chance(1)
    reach = np.hypot(s.u, s.v - 0.80)
    turn = np.arctan2(s.u, 0.80 - s.v)
    ribs = np.cos(15.0 * turn)
    fan = join(s.circle((0.0, -0.06), 0.82), s.polygon([(-0.10, 0.0), (0.10, 0.0), (0.14, 0.85), (-0.14, 0.85)]), 0.3)
    s.lay(s.box((0.0, 0.74), (0.34, 0.13), 0.05), tone * 0.86)
    s.lay(fan - 0.05 * ribs * ramp(reach, 0.8, 1.5), tone)
    s.relief(0.30, 0.25)
    s.shade(1.0 + 0.20 * ribs * ramp(reach, 0.15, 0.5))
    s.tint(0.40 * ramp(np.sin(9.0 * reach + 6.3 * bands), 0.2, 0.9), tone * rgb((0.78, 0.55, 0.50)))
    s.tint(0.5 * ramp(reach, 0.55, 0.05), tone * 0.7)


# In the order in which they are laid down: flat things first, and their size as a share of the picture's side.
THINGS: dict[str, tuple[Callable[[Sketch], None], float]] = {
    "book": (_book, 0.136),
    "phone": (_phone, 0.128),
    "leaf": (_leaf, 0.130),
    "pencil": (_pencil, 0.150),
    "scissors": (_scissors, 0.142),
    "key": (_key, 0.132),
    "spoon": (_spoon, 0.145),
    "watch": (_watch, 0.140),
    "glasses": (_glasses, 0.132),
    "shell": (_shell, 0.108),
    "camera": (_camera, 0.126),
    "die": (_die, 0.098),
    "mug": (_mug, 0.128),
    "apple": (_apple, 0.116),
    "ball": (_ball, 0.102),
}
