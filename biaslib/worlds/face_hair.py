"""Hair and hats of faces."""

import numpy as np

from biaslib.worlds.drawing import Field, box, circle, column, join, limb, mix, ramp, rgb
from biaslib.worlds.face_sheet import Colours, Sheet, oval

# From the darkest to the lightest of a name. Dark blond and light brown overlap, as they do for annotators: hair alone
# does not say for sure who is blond.
_COLOURS = {
    "Black_Hair": ((0.09, 0.08, 0.09), (0.12, 0.10, 0.11)),
    "Blond_Hair": ((0.52, 0.36, 0.20), (0.98, 0.82, 0.48)),
    "Brown_Hair": ((0.30, 0.17, 0.10), (0.68, 0.49, 0.28)),
    "Gray_Hair": ((0.66, 0.66, 0.69), (0.80, 0.80, 0.83)),
}
# Hair of none of these four: red, and dyed.
_OTHER: Colours = [(0.70, 0.28, 0.10), (0.60, 0.16, 0.12), (0.48, 0.26, 0.56), (0.16, 0.46, 0.50), (0.84, 0.42, 0.54)]
_HATS: Colours = [
    (0.80, 0.22, 0.20), (0.18, 0.32, 0.58), (0.16, 0.44, 0.36), (0.88, 0.66, 0.20), (0.42, 0.28, 0.50),
    (0.86, 0.82, 0.74), (0.22, 0.24, 0.28),
]  # fmt: skip


def colours(s: Sheet) -> Field:
    """The hair's colours, (n, 3, 1, 1); of two labelled colours at once, the mixture."""
    flags = np.stack([s.table[name] for name in _COLOURS], axis=1).astype(np.float32)
    other = s.pick(_OTHER, "hair_seed", 1)
    darkest, lightest = np.array(list(_COLOURS.values()), np.float32).swapaxes(0, 1)
    (shade,) = s.chance("hair_seed", 2, 1)
    known = darkest + shade.reshape(-1, 1, 1) * (lightest - darkest)
    mean = rgb((flags[:, :, None] * known).sum(axis=1) / np.maximum(flags.sum(axis=1, keepdims=True), 1.0))
    return np.where(column(flags.sum(axis=1))[:, None] > 0, mean, other)


def _outline(s: Sheet) -> Field:
    """Distance to the hair's whole outline, the cap and what hangs down."""
    wide, volume, low = s["wide"], s["hair_volume"], s["hair_low"]
    u = np.abs(s.u)
    cap = oval(s.u, s.v, (0.0, -0.20), (wide + 0.055 + 0.075 * volume, 0.715 + 0.055 * volume))
    half = wide + 0.035 + 0.085 * volume
    flare = 0.06 * volume * ramp(s.v, -0.2, 0.9)
    hang = box(u - flare, s.v, (0.0, 0.5 * (low - 0.25)), (half, 0.5 * (low + 0.25)), 0.10)
    outline = join(cap, hang, 0.12)
    phase, other = s.chance("hair_seed", 3, 2)
    curls = np.sin(13.0 * s.v + 6.0 * u + 6.28 * phase) + 0.6 * np.sin(21.0 * s.u + 6.28 * other) * ramp(
        s.v, -0.4, -0.8
    )
    return outline - s["Wavy_Hair"] * (0.028 + 0.038 * curls)


def _light(s: Sheet, outline: Field) -> Field:
    """Strands that fan out from the parting, a shine, darker edges."""
    a, b, c, d = s.chance("hair_seed", 4, 4)
    wavy = s["Wavy_Hair"]
    fan = (s.u - 0.30 * s["parting"]) / (0.62 + 0.38 * np.clip(s.v + 0.95, 0.0, 1.1))
    fan = fan + wavy * 0.075 * np.sin(12.0 * s.v + 4.0 * np.abs(s.u) + 6.28 * d)
    strands = np.sin(17.0 * fan + 6.28 * a) + 0.7 * np.sin(29.0 * fan + 6.28 * b) + 0.5 * np.sin(43.0 * fan + 6.28 * c)
    light = 0.90 + (0.075 + 0.105 * wavy) * strands
    light += 0.14 * wavy * np.sin(13.0 * s.v + 9.0 * np.abs(s.u) + 6.28 * b)
    band = (s.v + 0.66 - 0.42 * s.u * s.u) * (1.0 / 0.10)
    light += (0.24 - 0.12 * wavy) / (1.0 + band * band)
    return light - 0.26 * ramp(outline, -0.10, 0.0) - 0.10 * s.u


def back(s: Sheet) -> tuple[Field, Field]:
    """The hair behind the head; gives its outline and the light on it for `front`."""
    outline = _outline(s)
    light = _light(s, outline)
    shade = 0.62 + 0.38 * ramp(np.abs(s.u), s["wide"] - 0.12, s["wide"] + 0.06)
    s.lay(outline, s.colour("hair") * (light * shade)[:, None], "hair")
    return outline, light


def hairline(s: Sheet) -> Field:
    """How far down the hair reaches on the forehead and at the sides, (n, h, w) or (n, 1, w)."""
    wide, parting, receding, bangs = s["wide"], s["parting"], s["Receding_Hairline"], s["Bangs"]
    a = np.abs(s.u)
    (phase,) = s.chance("hair_seed", 5, 1)
    start = -0.555 + 0.05 * s["forehead"] - 0.05 * receding
    sweep = 0.10 * ramp(np.abs(s.u - 0.45 * parting), 0.0, 0.42) + 0.06 * (s.u * -parting)
    temples = -0.21 * receding * ramp(np.abs(a - 0.31), 0.20, 0.03)
    fall = ramp(a, (0.70 - 0.06 * s["hair_sides"]) * wide, (1.02 - 0.10 * s["hair_sides"]) * wide)
    side = np.maximum(s["hair_low"], 0.02) + 0.10
    line = start + (1.0 - receding) * sweep + temples
    line = line + (side - line) * fall
    ends = np.abs(np.sin(19.0 * s.u + 6.28 * phase)) * 0.045 + 0.02 * np.sin(41.0 * s.u)
    reach = 0.80 * wide - receding * (0.80 * wide - 0.25)
    fringe = -0.350 - ends - 0.5 * (np.maximum(a - reach, 0.0) * 9.0) + 0.04 * parting * s.u
    return np.where(bangs > 0, np.maximum(line, fringe), line)


def front(s: Sheet, outline: Field, light: Field) -> None:
    """The hair over forehead and temples, with its soft shadow on the skin."""
    below = 0.80 * (s.v - hairline(s))
    shape = np.maximum(outline, below)
    s.tint(0.34 * ramp(shape, 0.055, 0.0) * ramp(outline, 0.0, -0.02), s.colour("shadow"))
    s.lay(shape, s.colour("hair") * (light - 0.16 * ramp(below, -0.10, 0.0))[:, None], "hair")


def hat(s: Sheet) -> None:
    """A knitted cap, a hat with a brim or a baseball cap, with its shadow below."""
    kind, second = s.chance("accessory_seed", 11, 2)
    colour = s.pick(_HATS, "accessory_seed", 12)
    band = np.where(second[:, None] < 0.5, colour * 0.55, mix(colour, rgb((1.0, 0.98, 0.92)), 0.72))
    half = s["wide"] + 0.10 + 0.075 * s["hair_volume"] + 0.05 * s["Wavy_Hair"]
    knitted, brimmed = kind < 0.34, kind > 0.67
    crown = np.maximum(oval(s.u, s.v, (0.0, -0.50), (half, 0.54)), s.v + 0.44)
    flat = np.maximum(box(s.u, s.v, (0.0, -0.65), (0.86 * half + 0.10 * (s.v + 0.5), 0.38), 0.16), s.v + 0.44)
    crown = np.where(brimmed, flat, crown)
    cuff = box(s.u, s.v, (0.0, -0.475), (half + 0.02, 0.085), 0.05)
    brim = oval(s.u, s.v + 0.10 * s.u * s.u, (0.0, -0.44), (1.02, 0.105))
    visor = np.maximum(oval(s.u, s.v, (0.10, -0.42), (0.60, 0.125)), -0.46 - s.v)
    edge = np.where(knitted, cuff, np.where(brimmed, brim, visor))
    s.tint(0.42 * ramp(edge, 0.075, 0.0) * ramp(s.v, -0.46, -0.36), s.colour("shadow") * 0.7)
    ribs = 0.5 + 0.5 * np.sin(46.0 * s.u / (1.25 - 0.55 * np.clip(-s.v - 0.45, 0.0, 0.6)))
    round_off = 0.74 + 0.34 * np.sqrt(np.clip(crown * -3.2, 0.0, 1.0)) - 0.16 * s.u
    seams = 0.16 * ramp(np.abs(np.abs(s.u) - 0.42 * (1.0 + s.v + 0.05)), 0.022, 0.0)
    light = round_off - np.where(knitted, 0.20 * ribs, np.where(brimmed, 0.0 * ribs, seams))
    bobble = circle(s.u, s.v, (0.0, -0.985), 0.075)
    s.lay(np.where(knitted, bobble, 9.0), band * (1.0 - 1.5 * np.maximum(s.u, 0.0))[:, None], "hat")
    s.lay(crown, colour * light[:, None], "hat")
    s.lay(np.where(brimmed, np.maximum(crown, -0.60 - s.v), 9.0), band * (1.0 - 0.2 * s.u)[:, None])
    rim = 1.02 - 0.16 * s.u - np.where(knitted, 0.22 * ribs, 0.30 * ramp(s.v, -0.44, -0.34))
    s.lay(edge, np.where(knitted[:, None], band, colour) * rim[:, None], "hat")
    button, _ = limb(s.u, s.v, (-0.02, -1.04), (0.02, -1.04), (0.03, 0.03))
    s.lay(np.where(knitted | brimmed, 9.0, button), band, "hat")
