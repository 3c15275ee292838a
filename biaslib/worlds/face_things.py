"""What is around a face and what it wears: backdrop, clothes, neck, hair, hats, tie, necklace, earrings, glasses."""

import numpy as np

from biaslib.worlds.drawing import Field, Frame, column, join, mix, ramp, rgb
from biaslib.worlds.sketch import Sheet, beside

_COLOURS = beside(__file__)
_WHITE = rgb((1.0, 1.0, 1.0))


def _hair_colours(s: Sheet) -> Field:
    """The hair's colours, (n, 3); of two labelled colours at once, the mixture."""
    flags = np.stack([s.table[name] for name in _COLOURS.hair], axis=1).astype(np.float32)
    other = s.pick(_COLOURS.other_hair, "hair_seed", 1)
    darkest, lightest = np.array(list(_COLOURS.hair.values()), np.float32).swapaxes(0, 1)
    (shade,) = s.chance("hair_seed", 2, 1)
    known = flags[:, :, None] * mix(darkest, lightest, shade.reshape(-1, 1, 1))
    mean = rgb(known.sum(axis=1) / np.maximum(flags.sum(axis=1, keepdims=True), 1.0))
    return np.where(column(flags.sum(axis=1))[:, None] > 0, mean, other)[:, :, 0, 0]


def _hair_outline(s: Sheet) -> Field:
    """Distance to the hair's whole outline, the cap and what hangs down."""
    wide, volume, low = s["wide"], s["hair_volume"], s["hair_low"]
    u = np.abs(s.u)
    cap = s.oval((0.0, -0.20), (wide + 0.055 + 0.075 * volume, 0.715 + 0.055 * volume))
    half = wide + 0.035 + 0.085 * volume
    flare = 0.06 * volume * ramp(s.v, -0.2, 0.9)
    hang = Frame(u - flare, s.v).box((0.0, 0.5 * (low - 0.25)), (half, 0.5 * (low + 0.25)), 0.10)
    phase, other = s.chance("hair_seed", 3, 2)
    crown = ramp(s.v, -0.4, -0.8)
    curls = np.sin(13.0 * s.v + 6.0 * u + 6.28 * phase) + 0.6 * np.sin(21.0 * s.u + 6.28 * other) * crown
    return join(cap, hang, 0.12) - s["Wavy_Hair"] * (0.028 + 0.038 * curls)


def _hair_behind(s: Sheet) -> tuple[Field, Field]:
    """The hair behind the head; gives its outline and its light: strands from the parting, a shine, darker edges."""
    outline = _hair_outline(s)
    a, b, c, d = s.chance("hair_seed", 4, 4)
    wavy = s["Wavy_Hair"]
    fan = (s.u - 0.30 * s["parting"]) / (0.62 + 0.38 * np.clip(s.v + 0.95, 0.0, 1.1))
    fan = fan + wavy * 0.075 * np.sin(12.0 * s.v + 4.0 * np.abs(s.u) + 6.28 * d)
    strands = np.sin(17.0 * fan + 6.28 * a) + 0.7 * np.sin(29.0 * fan + 6.28 * b) + 0.5 * np.sin(43.0 * fan + 6.28 * c)
    light = 0.90 + (0.075 + 0.105 * wavy) * strands
    light += 0.14 * wavy * np.sin(13.0 * s.v + 9.0 * np.abs(s.u) + 6.28 * b)
    band = (s.v + 0.66 - 0.42 * s.u * s.u) * (1.0 / 0.10)
    light += (0.24 - 0.12 * wavy) / (1.0 + band * band)
    light = light - 0.26 * ramp(outline, -0.10, 0.0) - 0.10 * s.u
    shade = 0.62 + 0.38 * ramp(np.abs(s.u), s["wide"] - 0.12, s["wide"] + 0.06)
    s.lay(outline, s.colour("hair") * (light * shade)[:, None], "hair")
    return outline, light


def _hair_in_front(s: Sheet, outline: Field, light: Field) -> None:
    """The hair over forehead and temples, down to the hairline, with its soft shadow on the skin."""
    wide, parting, receding, bangs = s["wide"], s["parting"], s["Receding_Hairline"], s["Bangs"]
    a = np.abs(s.u)
    (phase,) = s.chance("hair_seed", 5, 1)
    start = -0.555 + 0.05 * s["forehead"] - 0.05 * receding
    sweep = 0.10 * ramp(np.abs(s.u - 0.45 * parting), 0.0, 0.42) + 0.06 * (s.u * -parting)
    temples = -0.21 * receding * ramp(np.abs(a - 0.31), 0.20, 0.03)
    fall = ramp(a, (0.70 - 0.06 * s["hair_sides"]) * wide, (1.02 - 0.10 * s["hair_sides"]) * wide)
    side = np.maximum(s["hair_low"], 0.02) + 0.10
    line = mix(start + (1.0 - receding) * sweep + temples, side, fall)
    ends = np.abs(np.sin(19.0 * s.u + 6.28 * phase)) * 0.045 + 0.02 * np.sin(41.0 * s.u)
    reach = 0.80 * wide - receding * (0.80 * wide - 0.25)
    fringe = -0.350 - ends - 0.5 * (np.maximum(a - reach, 0.0) * 9.0) + 0.04 * parting * s.u
    below = 0.80 * (s.v - np.where(bangs > 0, np.maximum(line, fringe), line))
    shape = np.maximum(outline, below)
    s.tint(0.34 * ramp(shape, 0.055, 0.0) * ramp(outline, 0.0, -0.02), s.colour("shadow"))
    s.lay(shape, s.colour("hair") * (light - 0.16 * ramp(below, -0.10, 0.0))[:, None], "hair")


def _hat(s: Sheet) -> None:
    """A knitted cap, a hat with a brim or a baseball cap, with its shadow below."""
    kind, second = s.chance("accessory_seed", 11, 2)
    colour = s.pick(_COLOURS.hats, "accessory_seed", 12)
    band = np.where(second[:, None] < 0.5, colour * 0.55, mix(colour, rgb((1.0, 0.98, 0.92)), 0.72))
    half = s["wide"] + 0.10 + 0.075 * s["hair_volume"] + 0.05 * s["Wavy_Hair"]
    knitted, brimmed = kind < 0.34, kind > 0.67
    flat = np.maximum(s.box((0.0, -0.65), (0.86 * half + 0.10 * (s.v + 0.5), 0.38), 0.16), s.v + 0.44)
    crown = np.where(brimmed, flat, np.maximum(s.oval((0.0, -0.50), (half, 0.54)), s.v + 0.44))
    cuff = s.box((0.0, -0.475), (half + 0.02, 0.085), 0.05)
    brim = Frame(s.u, s.v + 0.10 * s.u * s.u).oval((0.0, -0.44), (1.02, 0.105))
    visor = np.maximum(s.oval((0.10, -0.42), (0.60, 0.125)), -0.46 - s.v)
    edge = np.where(knitted, cuff, np.where(brimmed, brim, visor))
    s.tint(0.42 * ramp(edge, 0.075, 0.0) * ramp(s.v, -0.46, -0.36), s.colour("shadow") * 0.7)
    ribs = 0.5 + 0.5 * np.sin(46.0 * s.u / (1.25 - 0.55 * np.clip(-s.v - 0.45, 0.0, 0.6)))
    round_off = 0.74 + 0.34 * np.sqrt(np.clip(crown * -3.2, 0.0, 1.0)) - 0.16 * s.u
    seams = 0.16 * ramp(np.abs(np.abs(s.u) - 0.42 * (1.0 + s.v + 0.05)), 0.022, 0.0)
    light = round_off - np.where(knitted, 0.20 * ribs, np.where(brimmed, 0.0 * ribs, seams))
    bobble = s.circle((0.0, -0.985), 0.075)
    s.lay(np.where(knitted, bobble, 9.0), band * (1.0 - 1.5 * np.maximum(s.u, 0.0))[:, None], "hat")
    s.lay(crown, colour * light[:, None], "hat")
    s.lay(np.where(brimmed, np.maximum(crown, -0.60 - s.v), 9.0), band * (1.0 - 0.2 * s.u)[:, None])
    rim = 1.02 - 0.16 * s.u - np.where(knitted, 0.22 * ribs, 0.30 * ramp(s.v, -0.44, -0.34))
    s.lay(edge, np.where(knitted[:, None], band, colour) * rim[:, None], "hat")
    s.lay(np.where(knitted | brimmed, 9.0, s.limb((-0.02, -1.04), (0.02, -1.04), (0.03, 0.03))[0]), band, "hat")


def _backdrop(s: Sheet) -> None:
    """Two colours that run into each other, and a soft light behind the head."""
    first, second = s.pick(_COLOURS.backdrops, "scene_seed", 1), s.pick(_COLOURS.backdrops, "scene_seed", 2)
    angle, a, b, c = s.chance("scene_seed", 3, 4)
    along = s.u * np.cos(6.28 * angle) + s.v * np.sin(6.28 * angle)
    wave = 0.30 * np.sin(2.6 * s.u + 6.28 * a) * np.sin(2.2 * s.v + 6.28 * b)
    s.canvas[:] = first
    s.tint(ramp(along + wave, -1.1, 1.1), second)
    s.tint(0.30 * ramp(np.hypot(s.u - 1.6 * (c - 0.5), s.v + 0.5), 1.3, 0.2), mix(first, _WHITE, 0.6))


def _clothes(s: Sheet) -> None:
    """Shoulders."""
    a = np.abs(s.u)
    (kind,) = s.chance("clothes_seed", 2, 1)
    colour, second = s.pick(_COLOURS.clothes, "clothes_seed", 3), s.pick(_COLOURS.clothes, "clothes_seed", 4)
    slope = 0.985 + 0.16 * np.maximum(a - 0.22, 0.0) + 0.42 * np.maximum(a - 0.72, 0.0) ** 2
    top = 0.93 * (slope - s.v)
    light = 0.86 + 0.22 * ramp(top, -0.12, 0.0) - 0.12 * s.u - 0.10 * ramp(np.abs(a - 0.62), 0.05, 0.0)
    stripes = ramp(np.sin(34.0 * (s.v - 0.25 * a)), -0.2, 0.4) * 0.75 * (kind > 0.70)
    s.lay(top, mix(colour, second, stripes[:, None]) * light[:, None], "cloth")


def _neck(s: Sheet) -> None:
    """Neck and what the neckline, round or pointed, leaves free, in the head's shade; the collar's seam."""
    a, wide = np.abs(s.u), s["neck"]
    kind, depth = s.chance("clothes_seed", 1, 2)
    deep = 0.16 + 0.12 * depth
    pointed = 0.75 * np.maximum(a * (deep + 0.12) / 0.34 + s.v - 0.98 - deep - 0.12, 0.93 - s.v)
    free = np.where(kind < 0.35, pointed, s.oval((0.0, 0.98), (0.35, deep)))
    throat = 0.95 * np.maximum(np.maximum(a - wide - 0.5 * np.maximum(s.v - 0.90, 0.0) ** 2, 0.35 - s.v), s.v - 1.02)
    s.lay(np.maximum(np.abs(free) - 0.028, 0.95 - s.v), s.pick(_COLOURS.clothes, "clothes_seed", 3) * 0.72, "cloth")
    shade = 0.30 + 0.52 * ramp(s.v, 0.72, 1.04) + 0.14 * ramp(a, wide, 0.3 * wide) - 0.16 * s.u
    s.lay(np.minimum(throat, free), mix(s.colour("shadow"), s.colour("tone"), shade[:, None]), "neck")


def _necktie(s: Sheet) -> None:
    """A white collar and a tie."""
    a = np.abs(s.u)
    colour = s.pick(_COLOURS.ties, "accessory_seed", 1)
    (kind,) = s.chance("accessory_seed", 2, 1)
    shirt = 0.9 * np.maximum(0.955 + 0.02 * a - s.v, a - 0.36 + 0.20 * (s.v - 1.0))
    s.lay(shirt, rgb((0.90, 0.91, 0.94)) * (0.94 - 0.1 * s.u)[:, None], "cloth")
    wing = Frame(a, s.v).polygon([(0.02, 1.06), (0.30, 0.90), (0.37, 0.99), (0.22, 1.21)])
    s.lay(wing - 0.018, rgb((0.70, 0.72, 0.78)), "cloth")
    s.lay(wing, rgb((0.99, 0.99, 1.0)), "cloth")
    knot = Frame(a, s.v).polygon([(-0.12, 1.03), (0.115, 1.03), (0.075, 1.16), (-0.08, 1.16)])
    blade = 0.97 * np.maximum(a - 0.072 - 0.32 * (s.v - 1.14), 1.13 - s.v)
    stripes = ramp(np.sin(44.0 * (s.v - 0.8 * s.u)), 0.1, 0.5) * (0.62 * (kind > 0.4))
    cloth = mix(colour, rgb((0.98, 0.92, 0.80)), stripes[:, None])
    s.lay(blade, cloth * (1.0 - 1.2 * np.maximum(s.u, 0.0))[:, None], "cloth")
    s.lay(knot - 0.014, colour * 0.5, "cloth")
    s.lay(knot, colour * (1.12 - 0.6 * s.u)[:, None], "cloth")


def _necklace(s: Sheet) -> None:
    """Pearls, a chain with a pendant, or a broad ring."""
    kind, _ = s.chance("accessory_seed", 3, 2)
    bend = 0.215 / (s["neck"] * s["neck"])
    line = 1.135 - bend * s.u * s.u
    across = (s.v - line) / np.sqrt(1.0 + (2.0 * bend * s.u) ** 2)
    ends = 0.9 * (np.abs(s.u) - s["neck"])
    arc = s.u * (1.0 + 2.2 * np.abs(s.u))
    bead = np.abs(np.mod(arc * (1.0 / 0.086) + 0.5, 1.0) - 0.5) * 0.086
    pearls = np.hypot(bead, across) - 0.040
    pendant = np.minimum(np.abs(across) - 0.020, s.oval((0.0, 1.175), (0.060, 0.075)))
    ring = np.abs(across) - 0.042
    shape = np.maximum(np.where(kind < 0.4, pearls, np.where(kind < 0.72, pendant, ring)), ends)
    s.lay(np.maximum(shape - 0.014, ends), s.colour("shadow") * 0.5, "necklace", share=0.75)
    shine = 0.84 + 0.5 * ramp(np.hypot(np.where(kind < 0.4, bead, 0.0), across + 0.012), 0.03, 0.0)
    s.lay(shape, s.pick(_COLOURS.jewels, "accessory_seed", 4) * shine[:, None], "necklace")


def _earrings(s: Sheet) -> None:
    """Hoops, drops or discs below the ears, over whatever hair there is."""
    (kind,) = s.chance("accessory_seed", 5, 1)
    u, v = np.abs(s.u) - (s["wide"] + 0.045), s.v - 0.255
    hoop = np.abs(np.hypot(u, 0.88 * v) - 0.082) - 0.024
    stud, _ = Frame(u, v).limb((0.0, -0.11), (0.0, -0.02), (0.034, 0.020))
    drop = np.minimum(stud, Frame(u, v).oval((0.0, 0.05), (0.066, 0.095)))
    disc = np.hypot(u, v) - 0.092
    shape = np.where(kind < 0.36, hoop, np.where(kind < 0.70, drop, disc))
    s.lay(shape - 0.016, rgb((0.16, 0.12, 0.12)), "earrings", share=0.55)
    shine = 0.86 + 0.5 * ramp(np.hypot(u + 0.02, v - 0.02), 0.075, 0.0)
    s.lay(shape, s.pick(_COLOURS.jewels, "accessory_seed", 6) * shine[:, None], "earrings")


def _glasses(s: Sheet) -> None:
    """Round, angular or swung frames over clear glass. Eyes and brows that are seen through it stay eyes and brows."""
    kind, dark = s.chance("accessory_seed", 7, 2)
    side = np.where(s.u > s["shift"], 1.0, -1.0).astype(np.float32)
    a = np.abs(s.u - s["shift"])
    u, v = a - s["eye_at"] - 0.008, s.v + 0.035
    thick = 0.021 + 0.006 * dark + 0.016 * s["detail"]
    round_one = np.hypot(u, v) - 0.172
    angular = Frame(u, v).box((0.0, 0.0), (0.178, 0.138), 0.045)
    swung = Frame(u, v + 0.16 * u).box((0.0, 0.0), (0.182, 0.130), 0.10)
    lens = np.where(kind < 0.36, round_one, np.where(kind < 0.70, angular, swung))
    glare = 0.30 * ramp(np.abs(u * side + 0.75 * v + 0.03), 0.040, 0.008) * (1.0 - 0.8 * s["detail"])
    s.lay(lens, rgb((0.93, 0.97, 1.0)), "eyeglasses", share=0.07 + glare, keep=("eyes", "eyebrows"))
    bridge = np.maximum(np.abs(s.v + 0.052 - 0.5 * a * a) - 0.9 * thick, a - s["eye_at"] + 0.15)
    bow = np.maximum(np.abs(s.v + 0.075) - 0.85 * thick, np.maximum(s["eye_at"] + 0.16 - a, a - s["wide"] - 0.005))
    frame = np.minimum(np.abs(lens) - thick, np.where(lens < 0, 9.0, np.minimum(bridge, bow)))
    light = 1.0 + 0.9 * ramp(s.v + 0.12, 0.03, -0.03)
    s.lay(frame, s.pick(_COLOURS.frames, "accessory_seed", 8) * light[:, None], "eyeglasses")


def draw_behind(s: Sheet) -> tuple[Field, Field]:
    """Backdrop, shoulders, the hair behind the head, the neck; gives the outline of the hair and the light on it."""
    s.table["hair"] = _hair_colours(s)
    _backdrop(s)
    _clothes(s.window((-3.0, 3.0), (0.94, 3.0)))
    outline, light = _hair_behind(s)
    _neck(s.window((-0.52, 0.52), (0.32, 1.50)))
    return outline, light


def draw_in_front(s: Sheet, outline: Field, light: Field) -> None:
    """The hair in front, given its outline and light; tie, necklace, glasses, earrings and a hat."""
    _hair_in_front(s, outline, light)
    s.window((-0.60, 0.60), (0.84, 3.0)).where(s.table["Wearing_Necktie"] > 0, _necktie)
    s.window((-0.36, 0.36), (0.74, 1.34)).where(s.table["Wearing_Necklace"] > 0, _necklace)
    s.window((-0.72, 0.72), (-0.36, 0.30)).where(s.table["Eyeglasses"] > 0, _glasses)
    s.window((-0.84, 0.84), (0.10, 0.44)).where(s.table["Wearing_Earrings"] > 0, _earrings)
    s.window((-1.20, 1.20), (-1.18, -0.18)).where(s.table["Wearing_Hat"] > 0, _hat)
