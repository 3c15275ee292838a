"""Toy robots lying on their backs. Makers differ in head, antenna and emblem, never in colour."""

import numpy as np

from biaslib.worlds.drawing import Field, Number, box, circle, limb, polygon, rgb
from biaslib.worlds.sketch import Sketch

_PAINTS = [
    (0.85, 0.26, 0.20), (0.20, 0.46, 0.70), (0.95, 0.72, 0.22), (0.30, 0.60, 0.42), (0.80, 0.80, 0.78),
    (0.50, 0.36, 0.62), (0.90, 0.50, 0.20), (0.24, 0.62, 0.64),
]  # fmt: skip
_ACCENTS = [(0.96, 0.92, 0.80), (0.22, 0.24, 0.30), (0.98, 0.80, 0.30), (0.90, 0.36, 0.30), (0.55, 0.80, 0.86)]
_DARK, _METAL, _CREAM = rgb((0.12, 0.13, 0.16)), rgb((0.70, 0.72, 0.75)), rgb((0.98, 0.96, 0.88))
_HEAD = [(0.0, -0.84), (0.40, -0.20), (-0.40, -0.20)]
_TORSO = [(-0.16, -0.13), (0.16, -0.13), (0.42, 0.57), (-0.42, 0.57)]
_PANEL = [(0.0, -0.06), (0.30, 0.46), (-0.30, 0.46)]


def draw(s: Sketch, maker: np.ndarray) -> None:
    """Draws n robots; they fill the height from -1 to 1 and about .6 to either side.

    Args:
        s: their sketch.
        maker: (n,) 0: all is round: head, one large eye, body, a ring on the chest, a bulb as antenna; 1: square: head,
            visor, body, a cross on the chest, two antennas; 2: three-cornered, a chevron, a bar as antenna.
    """
    paint, accent = s.pick(_PAINTS), s.pick(_ACCENTS, 3)
    (gaze,) = s.chance(1)
    which = maker.reshape(-1, 1, 1)

    def by_maker(first: Number, second: Number, third: Number) -> Field:
        return np.where(which == 0, first, np.where(which == 1, second, third)).astype(np.float32)

    for side in (-1.0, 1.0):
        s.lay(limb(s.u, s.v, (0.40 * side, 0.0), (0.52 * side, 0.30), (0.085, 0.085))[0], _METAL)
        claw = circle(s.u, s.v, (0.54 * side, 0.43), 0.10)
        s.lay(np.maximum(np.abs(claw) - 0.05, -box(s.u, s.v, (0.54 * side, 0.56), (0.05, 0.12))), accent * 0.9)
        s.lay(box(s.u, s.v, (0.19 * side, 0.68), (0.085, 0.18)), _METAL)
        s.lay(box(s.u, s.v, (0.21 * side, 0.89), (0.16, 0.09), 0.05), accent * 0.9)
    s.lay(box(s.u, s.v, (0.0, -0.18), (0.12, 0.12)), _METAL * 0.8)
    torso = by_maker(
        circle(s.u, s.v, (0.0, 0.22), 0.41),
        box(s.u, s.v, (0.0, 0.22), (0.40, 0.38), 0.04),
        polygon(s.u, s.v, _TORSO) - 0.03,
    )
    s.lay(torso, paint)
    antenna = by_maker(
        np.minimum(limb(s.u, s.v, (0.0, -0.7), (0.0, -0.88), (0.03, 0.03))[0], circle(s.u, s.v, (0.0, -0.90), 0.09)),
        np.minimum(
            limb(s.u, s.v, (-0.20, -0.70), (-0.34, -0.95), (0.035, 0.045))[0],
            limb(s.u, s.v, (0.20, -0.70), (0.34, -0.95), (0.035, 0.045))[0],
        ),
        np.minimum(
            limb(s.u, s.v, (0.0, -0.7), (0.0, -0.92), (0.03, 0.03))[0],
            limb(s.u, s.v, (-0.16, -0.93), (0.16, -0.93), (0.045, 0.045))[0],
        ),
    )
    s.lay(antenna, accent)
    head = by_maker(
        circle(s.u, s.v, (0.0, -0.48), 0.35),
        box(s.u, s.v, (0.0, -0.46), (0.40, 0.29), 0.03),
        polygon(s.u, s.v, _HEAD) - 0.04,
    )
    s.lay(head, paint)
    s.relief(0.10, 0.34)
    _face(s, which, gaze)
    panel = by_maker(
        circle(s.u, s.v, (0.0, 0.20), 0.28),
        box(s.u, s.v, (0.0, 0.20), (0.29, 0.26), 0.03),
        polygon(s.u, s.v, _PANEL) - 0.04,
    )
    s.mark(panel, _CREAM)
    chevron = np.abs(s.v - 0.17 - np.abs(s.u)) * 0.71 - 0.055
    emblem = by_maker(
        np.abs(circle(s.u, s.v, (0.0, 0.20), 0.145)) - 0.06,
        np.minimum(box(s.u, s.v, (0.0, 0.20), (0.19, 0.05)), box(s.u, s.v, (0.0, 0.20), (0.05, 0.19))),
        np.maximum(chevron, np.abs(s.u) - 0.18),
    )
    s.mark(emblem, _DARK)


def _face(s: Sketch, which: np.ndarray, gaze: Field) -> None:
    """One large eye and a mouth, a visor with two lights, or two small eyes."""
    one, visor, two = (np.where(which == maker, np.float32(0.0), np.float32(9.0)) for maker in range(3))
    look = 0.06 * gaze - 0.03
    s.mark(circle(s.u, s.v, (0.0, -0.50), 0.20) + one, _CREAM)
    s.mark(circle(s.u, s.v, (look, -0.50), 0.10) + one, _DARK)
    s.mark(box(s.u, s.v, (0.0, -0.235), (0.10, 0.02)) + one, _DARK, 0.8)
    s.mark(box(s.u, s.v, (0.0, -0.50), (0.32, 0.10), 0.03) + visor, _DARK)
    s.mark(box(s.u, s.v, (0.0, -0.28), (0.20, 0.03)) + visor, _DARK, 0.8)
    for side in (-1.0, 1.0):
        s.mark(box(s.u, s.v, (0.16 * side + look, -0.50), (0.085, 0.06), 0.02) + visor, _CREAM)
        s.mark(circle(s.u, s.v, (0.13 * side, -0.36), 0.085) + two, _CREAM)
        s.mark(circle(s.u, s.v, (0.13 * side + look, -0.36), 0.045) + two, _DARK)
