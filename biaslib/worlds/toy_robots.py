"""Toy robots lying on their backs. Makers differ in head, antenna and emblem, never in colour."""

import numpy as np

from biaslib.worlds.drawing import Field, Number, box, circle, limb, polygon, rgb
from biaslib.worlds.sketch import Sketch

_PAINTS = [
    (0.85, 0.26, 0.20), (0.20, 0.46, 0.70), (0.95, 0.72, 0.22), (0.30, 0.60, 0.42), (0.80, 0.80, 0.78),
    (0.50, 0.36, 0.62), (0.90, 0.50, 0.20), (0.24, 0.62, 0.64),
]  # fmt: skip
_ACCENTS = [(0.96, 0.92, 0.80), (0.22, 0.24, 0.30), (0.98, 0.80, 0.30), (0.90, 0.36, 0.30), (0.55, 0.80, 0.86)]
_DARK, _METAL = rgb((0.12, 0.13, 0.16)), rgb((0.70, 0.72, 0.75))
_TRIANGLE = [(0.0, -0.80), (0.36, -0.22), (-0.36, -0.22)]


def draw(s: Sketch, maker: np.ndarray) -> None:
    """Draws n robots; they fill the height from -1 to 1 and about .6 to either side.

    Args:
        s: their sketch.
        maker: (n,) 0: round head, one antenna with a bulb, a ring on the chest; 1: square head, two antennas, a cross;
            2: three-cornered head, a bar across its top, a chevron.
    """
    paint, accent = s.pick(_PAINTS), s.pick(_ACCENTS, 3)
    stripe, gaze = s.chance(2)
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
    s.lay(box(s.u, s.v, (0.0, 0.22), (0.40, 0.37), 0.09), paint)
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
        circle(s.u, s.v, (0.0, -0.46), 0.33),
        box(s.u, s.v, (0.0, -0.46), (0.36, 0.27), 0.03),
        polygon(s.u, s.v, _TRIANGLE) - 0.04,
    )
    s.lay(head, paint)
    s.relief(0.10, 0.34)
    low = by_maker(-0.49, -0.49, -0.36)
    apart = by_maker(0.135, 0.165, 0.12)
    for side in (-1.0, 1.0):
        s.mark(np.hypot(s.u - side * apart, s.v - low) - 0.085, rgb((0.98, 0.97, 0.90)))
        s.mark(np.hypot(s.u - side * apart - 0.05 * gaze + 0.025, s.v - low) - 0.045, _DARK)
    s.mark(box(s.u, s.v - low, (0.0, 0.155), (0.12, 0.022)), _DARK, 0.8)
    s.mark(box(s.u, s.v, (0.0, 0.20), (0.30, 0.24), 0.05), accent)
    chevron = np.abs(s.v - 0.24 + 0.16 - 1.0 * np.abs(s.u)) * 0.71 - 0.05
    emblem = by_maker(
        np.abs(circle(s.u, s.v, (0.0, 0.20), 0.125)) - 0.045,
        np.minimum(box(s.u, s.v, (0.0, 0.20), (0.17, 0.05)), box(s.u, s.v, (0.0, 0.20), (0.05, 0.17))),
        np.maximum(chevron, np.abs(s.u) - 0.17),
    )
    s.mark(emblem, np.where(accent.mean(axis=1, keepdims=True) > 0.45, _DARK, rgb((0.97, 0.95, 0.88))))
    for i in range(3):
        s.mark(circle(s.u, s.v, (-0.16 + 0.16 * i, 0.51), 0.035), _lamp(i, stripe))


def _lamp(i: int, stripe: Field) -> Field:
    """The colour of one of the three lamps under the emblem."""
    lamps = np.array([(0.95, 0.85, 0.30), (0.40, 0.85, 0.50), (0.95, 0.40, 0.35)], np.float32)
    return rgb(lamps[(i + (stripe[:, 0, 0] * 3).astype(np.intp)) % 3])
