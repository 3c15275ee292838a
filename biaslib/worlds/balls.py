"""Five kinds of balls, each drawn on its own sketch."""

from collections.abc import Callable

import numpy as np

from biaslib.worlds.drawing import Field, circle, column, limb, mix, ramp, rgb
from biaslib.worlds.sketch import Sketch

_WHITE, _INK = rgb((0.97, 0.97, 0.95)), rgb((0.10, 0.10, 0.12))
_BOLD = [
    (0.90, 0.16, 0.16),
    (0.12, 0.42, 0.86),
    (0.98, 0.70, 0.06),
    (0.10, 0.62, 0.34),
    (0.86, 0.20, 0.56),
    (0.50, 0.24, 0.74),
]
_RADIUS = 0.96


def _finish(s: Sketch, round_: Field, gleam: float) -> None:
    """The light on a ball: bright at the upper left, dark below, with a highlight."""
    rise = np.sqrt(np.clip(round_ * (-1.0 / 0.9), 0.0, 1.0))
    s.shade(0.56 + 0.46 * rise + 0.24 * np.clip(s.lit, -1.0, 1.0))
    s.tint(gleam * ramp(circle(s.u, s.v, (-0.34, -0.40), 0.0), 0.30, 0.05), _WHITE)


def _turned(s: Sketch) -> tuple[Field, Field]:
    """Coordinates on the ball, turned by a random angle."""
    angle = 6.2832 * s.chance(1)[0]
    cos, sin = np.cos(angle), np.sin(angle)
    return s.u * cos + s.v * sin, s.v * cos - s.u * sin


def beach(s: Sketch) -> None:
    """A beach ball: coloured gores between white ones around a button."""
    round_, (u, v) = circle(s.u, s.v, (0.0, 0.0), _RADIUS), _turned(s)
    first, second = s.pick(_BOLD), s.pick(_BOLD, 3)
    pole = (0.26, -0.10)
    part = np.mod(np.arctan2(v - pole[1], u - pole[0]) * (6.0 / 6.2832), 6.0)
    edge = (0.5 - np.abs(np.mod(part, 1.0) - 0.5)) * np.hypot(u - pole[0], v - pole[1])
    own = np.where((part < 3.0)[:, None], first, second)
    s.lay(round_, np.where((np.mod(np.floor(part), 2.0) < 0.5)[:, None], _WHITE, own))
    s.tint(0.3 * ramp(edge, 0.05, 0.0), _WHITE * 0.8)
    s.mark(circle(u, v, pole, 0.15), _WHITE)
    _finish(s, round_, 0.7)


def tennis(s: Sketch) -> None:
    """A tennis ball with its curved seam."""
    round_, (u, v) = circle(s.u, s.v, (0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick([(0.80, 0.92, 0.18), (0.88, 0.94, 0.26), (0.98, 0.52, 0.14)]))
    for side in (-1.0, 1.0):
        s.mark(np.abs(circle(u, v, (1.25 * side, 0.15), 0.95)) - 0.065, _WHITE)
    _finish(s, round_, 0.25)


def striped(s: Sketch) -> None:
    """A rubber ball with a broad band and a thin one."""
    round_, (u, v) = circle(s.u, s.v, (0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick(_BOLD))
    bend = v - 0.28 * np.sqrt(np.clip(1.0 - u * u, 0.0, 1.0))
    s.mark(np.abs(bend) - 0.20, _WHITE)
    s.mark(np.abs(bend) - 0.09, s.pick(_BOLD, 3))
    _finish(s, round_, 0.8)


def starred(s: Sketch) -> None:
    """A rubber ball with a star."""
    round_, (u, v) = circle(s.u, s.v, (0.0, 0.0), _RADIUS), _turned(s)
    s.lay(round_, s.pick(_BOLD))
    angle = np.arctan2(v, u) * (5.0 / 6.2832)
    star = np.hypot(u, v) - (0.28 + 0.36 * (1.0 - 2.0 * np.abs(np.mod(angle, 1.0) - 0.5)))
    s.mark(star * 0.6, mix(_WHITE, rgb((1.0, 0.86, 0.30)), s.chance(2)[1][:, None]))
    _finish(s, round_, 0.8)


def football(s: Sketch) -> None:
    """A football: a dark patch in the middle, five around it and the seams between."""
    round_, (u, v) = circle(s.u, s.v, (0.0, 0.0), _RADIUS), _turned(s)
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
    "beach": beach,
    "tennis": tennis,
    "striped": striped,
    "starred": starred,
    "football": football,
}
