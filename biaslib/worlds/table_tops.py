"""Table tops seen from above: wood, linen, slate, painted boards and squared paper."""

import numpy as np

from biaslib.worlds.drawing import Field, clouds, column, mix, noise, ramp, rgb, uniform

_WOODS = [(0.72, 0.53, 0.35), (0.56, 0.38, 0.24), (0.80, 0.66, 0.48), (0.42, 0.29, 0.20), (0.68, 0.60, 0.52)]
_LINENS = [(0.86, 0.82, 0.74), (0.72, 0.74, 0.72), (0.58, 0.66, 0.72), (0.82, 0.70, 0.66), (0.66, 0.70, 0.58)]
_SLATES = [(0.25, 0.28, 0.31), (0.33, 0.34, 0.35), (0.20, 0.24, 0.29), (0.30, 0.32, 0.29)]
_PAINTS = [(0.66, 0.78, 0.80), (0.90, 0.88, 0.84), (0.92, 0.76, 0.72), (0.72, 0.80, 0.68), (0.88, 0.80, 0.58)]
_PAPERS = [(0.95, 0.94, 0.90), (0.90, 0.92, 0.93), (0.80, 0.68, 0.52), (0.93, 0.90, 0.80)]


def _base(palette: list[tuple[float, float, float]], tone: np.ndarray) -> Field:
    """The colour at `tone` in [0, 1] along the palette, (n, 3, 1, 1)."""
    at = np.linspace(0.0, 1.0, len(palette))
    return rgb(np.stack([np.interp(tone, at, channel) for channel in np.array(palette).T], axis=-1))


def _boards(seeds: np.ndarray, along: Field, count: int) -> tuple[Field, Field]:
    """Boards across `along` (n or 1, ...): how far from the joint (0 to .5 of a board), and each one's own number."""
    chance = uniform(seeds, 1, count + 2)
    place = along * count + column(chance[:, -1])
    board = np.floor(place)
    number = np.take_along_axis(chance, board.reshape(len(board), -1).astype(np.intp), axis=1).reshape(board.shape)
    return np.minimum(place - board, board + 1.0 - place), number


def wood(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """Planks with a grain along them; canvas (n, 3, H, W)."""
    joint, number = _boards(seeds, y, 4)
    grain = noise(seeds, 11, x, y, (4, 70))
    wide = noise(seeds, 12, x, y, (2, 14))
    rings = np.abs(np.sin(18.0 * wide + 5.0 * grain))
    light = 0.86 + 0.16 * number + 0.16 * (grain - 0.5) + 0.10 * (rings - 0.6)
    light = light * (1.0 - 0.55 * ramp(joint, 0.05, 0.0))
    return _base(_WOODS, tone) * light[:, None]


def linen(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A woven cloth with uneven threads and a soft fold or two; canvas (n, 3, H, W)."""
    warp = noise(seeds, 21, x, y, (80, 3))
    weft = noise(seeds, 22, x, y, (3, 80))
    fold = clouds(seeds, 23, x, y, (2, 2), 2)
    light = 0.90 + 0.17 * (warp - 0.5) + 0.17 * (weft - 0.5) + 0.22 * (fold - 0.5)
    return _base(_LINENS, tone) * light[:, None]


def slate(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A dark stone with layers; canvas (n, 3, H, W)."""
    layers = clouds(seeds, 31, x, y, (3, 5), 4)
    fine = noise(seeds, 32, x, y, (50, 50))
    step = ramp(np.abs(layers - 0.52), 0.03, 0.0)
    light = 0.80 + 0.50 * (layers - 0.3) + 0.14 * (fine - 0.5) + 0.12 * step
    return _base(_SLATES, tone) * light[:, None]


def painted(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """Upright boards under a worn paint; canvas (n, 3, H, W)."""
    joint, number = _boards(seeds, x, 5)
    brush = noise(seeds, 41, x, y, (60, 3))
    worn = clouds(seeds, 42, x, y, (5, 3), 3)
    light = 0.93 + 0.07 * number + 0.08 * (brush - 0.5)
    light = light * (1.0 - 0.40 * ramp(joint, 0.05, 0.0)) + 0.05 * ramp(joint, 0.10, 0.06) * ramp(joint, 0.04, 0.07)
    canvas = _base(_PAINTS, tone) * light[:, None]
    return mix(canvas, rgb((0.62, 0.52, 0.42)), (0.4 * ramp(worn + 0.06 * brush, 0.66, 0.74))[:, None])


def paper(seeds: np.ndarray, tone: np.ndarray, x: Field, y: Field) -> Field:
    """A large sheet with a faint square grid; canvas (n, 3, H, W)."""
    fibre = clouds(seeds, 51, x, y, (24, 24), 2)
    chance = uniform(seeds, 52, 3)
    light = 0.97 + 0.07 * (fibre - 0.5)
    canvas = _base(_PAPERS, tone) * light[:, None]
    line = np.zeros_like(light)
    for along, shift in ((x, chance[:, 0]), (y, chance[:, 1])):
        place = along * 8.0 + column(shift)
        line = np.maximum(line, ramp(np.abs(place - np.round(place)), 0.09, 0.03))
    return mix(canvas, rgb((0.50, 0.62, 0.74)), (0.38 * line)[:, None])


TABLE_TOPS = {"wood": wood, "linen": linen, "slate": slate, "painted": painted, "paper": paper}
