"""Toys, each drawn on its own sketch: five kinds of balls, and robots that lie on their backs."""

from collections.abc import Callable

import numpy as np

from biaslib.worlds.drawing import Field, Number, circle, column, limb, mix, ramp, rgb
from biaslib.worlds.sketch import Sketch

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
    angle = 6.2832 * s.chance(1)[0]
    cos, sin = np.cos(angle), np.sin(angle)
    return s.u * cos + s.v * sin, s.v * cos - s.u * sin


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
    s.mark(circle(u, v, pole, 0.15), _WHITE)
    _finish(s, round_, 0.7)


def _tennis(s: Sketch) -> None:
    """A tennis ball with its curved seam."""
    round_, (u, v) = s.circle((0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick([(0.80, 0.92, 0.18), (0.88, 0.94, 0.26), (0.98, 0.52, 0.14)]))
    for side in (-1.0, 1.0):
        s.mark(np.abs(circle(u, v, (1.25 * side, 0.15), 0.95)) - 0.065, _WHITE)
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
    angle = np.arctan2(v, u) * (5.0 / 6.2832)
    star = np.hypot(u, v) - (0.28 + 0.36 * (1.0 - 2.0 * np.abs(np.mod(angle, 1.0) - 0.5)))
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
    s.mark(limb(along, across, (0.34, 0.25), (0.62, 0.46), (0.035, 0.03))[0], ink)
    s.mark(limb(along, across, (0.34, -0.25), (0.62, -0.46), (0.035, 0.03))[0], ink)
    outer = np.mod(np.arctan2(v, u) * (5.0 / 6.2832) + 0.5, 1.0) - 0.5
    s.mark(0.76 - reach * np.cos(outer * 1.2566) + 0.30 * np.abs(outer), ink)
    _finish(s, round_, 0.6)


BALLS: dict[str, Callable[[Sketch], None]] = {
    "beach": _beach,
    "tennis": _tennis,
    "striped": _striped,
    "starred": _starred,
    "football": _football,
}


_PAINTS = [
    (0.85, 0.26, 0.20), (0.20, 0.46, 0.70), (0.95, 0.72, 0.22), (0.30, 0.60, 0.42), (0.80, 0.80, 0.78),
    (0.50, 0.36, 0.62), (0.90, 0.50, 0.20), (0.24, 0.62, 0.64),
]  # fmt: skip
_ACCENTS = [(0.96, 0.92, 0.80), (0.22, 0.24, 0.30), (0.98, 0.80, 0.30), (0.90, 0.36, 0.30), (0.55, 0.80, 0.86)]
_DARK, _METAL, _CREAM = rgb((0.12, 0.13, 0.16)), rgb((0.70, 0.72, 0.75)), rgb((0.98, 0.96, 0.88))
_HEAD = [(0.0, -0.84), (0.40, -0.20), (-0.40, -0.20)]
_TORSO = [(-0.16, -0.13), (0.16, -0.13), (0.42, 0.57), (-0.42, 0.57)]
_PANEL = [(0.0, -0.06), (0.30, 0.46), (-0.30, 0.46)]


def robot(s: Sketch, maker: np.ndarray) -> None:
    """A toy robot by one of three makers, who differ in head, antenna and emblem, never in colour.

    With maker 0 all is round: head, one large eye, body, a ring on the chest, a bulb as antenna; with 1 square: head,
    visor, body, a cross on the chest, two antennas; with 2 three-cornered, a chevron, a bar as antenna.
    """
    paint, accent = s.pick(_PAINTS), s.pick(_ACCENTS, 3)
    (gaze,) = s.chance(1)
    which = maker.reshape(-1, 1, 1)

    def by_maker(first: Number, second: Number, third: Number) -> Field:
        return np.where(which == 0, first, np.where(which == 1, second, third)).astype(np.float32)

    for side in (-1.0, 1.0):
        s.lay(s.limb((0.40 * side, 0.0), (0.52 * side, 0.30), (0.085, 0.085))[0], _METAL)
        claw = s.circle((0.54 * side, 0.43), 0.10)
        s.lay(np.maximum(np.abs(claw) - 0.05, -s.box((0.54 * side, 0.56), (0.05, 0.12))), accent * 0.9)
        s.lay(s.box((0.19 * side, 0.68), (0.085, 0.18)), _METAL)
        s.lay(s.box((0.21 * side, 0.89), (0.16, 0.09), 0.05), accent * 0.9)
    s.lay(s.box((0.0, -0.18), (0.12, 0.12)), _METAL * 0.8)
    torso = by_maker(s.circle((0.0, 0.22), 0.41), s.box((0.0, 0.22), (0.40, 0.38), 0.04), s.polygon(_TORSO) - 0.03)
    s.lay(torso, paint)
    antenna = by_maker(
        np.minimum(s.limb((0.0, -0.7), (0.0, -0.88), (0.03, 0.03))[0], s.circle((0.0, -0.90), 0.09)),
        np.minimum(
            s.limb((-0.20, -0.70), (-0.34, -0.95), (0.035, 0.045))[0],
            s.limb((0.20, -0.70), (0.34, -0.95), (0.035, 0.045))[0],
        ),
        np.minimum(
            s.limb((0.0, -0.7), (0.0, -0.92), (0.03, 0.03))[0], s.limb((-0.16, -0.93), (0.16, -0.93), (0.045, 0.045))[0]
        ),
    )
    s.lay(antenna, accent)
    head = by_maker(s.circle((0.0, -0.48), 0.35), s.box((0.0, -0.46), (0.40, 0.29), 0.03), s.polygon(_HEAD) - 0.04)
    s.lay(head, paint)
    s.relief(0.10, 0.34)
    _face(s, which, gaze)
    panel = by_maker(s.circle((0.0, 0.20), 0.28), s.box((0.0, 0.20), (0.29, 0.26), 0.03), s.polygon(_PANEL) - 0.04)
    s.mark(panel, _CREAM)
    chevron = np.abs(s.v - 0.17 - np.abs(s.u)) * 0.71 - 0.055
    emblem = by_maker(
        np.abs(s.circle((0.0, 0.20), 0.145)) - 0.06,
        np.minimum(s.box((0.0, 0.20), (0.19, 0.05)), s.box((0.0, 0.20), (0.05, 0.19))),
        np.maximum(chevron, np.abs(s.u) - 0.18),
    )
    s.mark(emblem, _DARK)


def _face(s: Sketch, which: np.ndarray, gaze: Field) -> None:
    """One large eye and a mouth, a visor with two lights, or two small eyes."""
    one, visor, two = (np.where(which == maker, np.float32(0.0), np.float32(9.0)) for maker in range(3))
    look = 0.06 * gaze - 0.03
    s.mark(s.circle((0.0, -0.50), 0.20) + one, _CREAM)
    s.mark(s.circle((look, -0.50), 0.10) + one, _DARK)
    s.mark(s.box((0.0, -0.235), (0.10, 0.02)) + one, _DARK, 0.8)
    s.mark(s.box((0.0, -0.50), (0.32, 0.10), 0.03) + visor, _DARK)
    s.mark(s.box((0.0, -0.28), (0.20, 0.03)) + visor, _DARK, 0.8)
    for side in (-1.0, 1.0):
        s.mark(s.box((0.16 * side + look, -0.50), (0.085, 0.06), 0.02) + visor, _CREAM)
        s.mark(s.circle((0.13 * side, -0.36), 0.085) + two, _CREAM)
        s.mark(s.circle((0.13 * side + look, -0.36), 0.045) + two, _DARK)
