"""Faces: head and skin, eyes, brows, nose, mouth and beard; hair."""

from collections.abc import Mapping

import numpy as np

from biaslib.worlds.drawing import Field, Frame, column, join, mix, ramp, rgb
from biaslib.worlds.sketch import Sheet, beside

_COLOURS = beside(__file__)
_SKIN, _IRIS = (np.array(colours, np.float32) for colours in (_COLOURS.skin, _COLOURS.iris))
_INK = rgb((0.10, 0.06, 0.06))
_WHITE = rgb((1.0, 1.0, 1.0))
_EYES_AT, _BROWS_AT, _MOUTH_AT = -0.06, -0.245, 0.435


def palette(table: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Colours (n, 3) of a face's parts; brows and beards are darker than any skin."""
    at = table["skin"] * (len(_SKIN) - 1)
    low = np.minimum(at.astype(np.intp), len(_SKIN) - 2)
    base = mix(_SKIN[low], _SKIN[low + 1], (at - low)[:, None].astype(np.float32))
    tilt = (table["undertone"][:, None] - 0.5) * np.array([0.0, 0.035, -0.035], np.float32)
    tone = (base + tilt).astype(np.float32)
    bright = tone.mean(axis=1, keepdims=True)
    darkest, lighter = np.array([(0.13, 0.08, 0.06), (0.26, 0.13, 0.05)], np.float32)
    brow = (darkest + table["brow_tone"][:, None] * lighter) * (0.35 + 0.75 * bright)
    lips = 0.55 * tone * (0.98, 0.66, 0.64) + 0.45 * (0.40 + 0.60 * bright) * np.array([0.84, 0.40, 0.40], np.float32)
    return {
        "tone": tone,
        "shadow": tone * np.array([0.66, 0.53, 0.49], np.float32),
        "iris": _IRIS[table["eye_colour"].astype(np.intp)],
        "brow": brow,
        "beard": brow * 1.10 + 0.01,
        "lips": lips * (0.88 + 0.24 * table["lip_tone"][:, None]),
    }


def _ears(s: Sheet) -> None:
    a = np.abs(s.u)
    ear = Frame(a, s.v).oval((s["wide"] + 0.015, 0.0), (0.078, 0.145))
    s.lay(ear, s.colour("tone") * (0.86 - 0.14 * ramp(a - s["wide"], 0.09, 0.0))[:, None], "ears")
    s.lay(Frame(a, s.v).oval((s["wide"] + 0.025, 0.0), (0.036, 0.085)), s.colour("shadow"), share=0.55)


def _skin(s: Sheet) -> None:
    """The head's skin without ears: round, lit from the upper left."""
    chin = s.oval((0.03 * s["turn"], 0.25), (s["wide"] * (0.72 + 0.17 * s["jaw"]), 0.51 + 0.05 * s["long"]))
    distance = join(s.oval((0.0, -0.15), (s["wide"], 0.70)), chin, 0.28)
    rise = np.sqrt(np.clip(distance * -2.1, 0.0, 1.0))
    light = 0.34 + 0.66 * rise - 0.13 * s.u - 0.10 * s.v
    dark = s.colour("shadow")
    s.lay(distance, dark + (s.colour("tone") - dark) * light[:, None], "skin")
    glow = 0.16 * ramp(np.hypot(1.1 * (s.u + 0.14), s.v + 0.40), 0.34, 0.0)
    glow += 0.07 * ramp(np.hypot(np.abs(s.u) - 0.34, 1.2 * (s.v - 0.16)), 0.17, 0.0)
    s.tint(glow, mix(s.colour("tone"), _WHITE, 0.55))
    s.tint(0.30 * ramp(np.hypot(0.8 * s.u, 2.2 * (s.v - 0.575)), 0.13, 0.0), dark)


def _cheeks(s: Sheet) -> None:
    flush = 0.76 * ramp(np.hypot(np.abs(s.u - s["shift"]) - 0.355, 1.15 * (s.v - 0.205)), 0.165, 0.02)
    s.tint(flush, mix(s.colour("tone"), rgb((0.93, 0.22, 0.30)), 0.62))


def _lids(s: Sheet, narrow: Field) -> tuple[Field, Field, Field]:
    """Across the eye from -1 to 1; the upper and the lower lid there."""
    half, high = 0.138 + 0.018 * s["eye_size"], (0.084 + 0.014 * s["eye_size"]) * (1.0 - 0.52 * narrow)
    across = (np.abs(s.u - s["shift"]) - s["eye_at"]) / half
    arch = np.maximum(1.0 - across * across, -0.5)
    arch *= 0.65 + 0.35 * arch  # pointed corners
    return across, _EYES_AT - high * arch, _EYES_AT + 0.70 * high * arch


def _eye_shadow(s: Sheet) -> None:
    """A soft colour around the eyes, up to the brows: rose (1) or teal (2)."""
    across, top, bottom = _lids(s, 0.0 * s["wide"])
    share = ramp(top - s.v, 0.20, 0.10) * ramp(np.abs(across), 1.60, 1.10) * ramp(bottom + 0.09 - s.v, -0.02, 0.02)
    teal, rose = s.pick(_COLOURS.teal, "make_up_seed", 1), s.pick(_COLOURS.rose, "make_up_seed", 2)
    colour = np.where(s["eye_shadow"][:, None] > 1.5, teal, rose)
    s.tint(0.93 * share, mix(colour, s.colour("tone"), 0.06))


def _sockets(s: Sheet) -> None:
    """The soft shade around the eyes, and the crease of the open lid."""
    across, top, _ = _lids(s, 0.0 * s["wide"])
    dark = s.colour("shadow")
    s.tint(0.22 * ramp(np.hypot(across, 9.0 * (s.v - _EYES_AT + 0.02)), 1.5, 0.6), dark)
    s.tint(0.55 * ramp(np.abs(s.v - top + 0.030), 0.024, 0.004) * ramp(np.abs(across), 1.0, 0.7), dark)


def _eyes(s: Sheet) -> None:
    """White, iris, pupil and glint between the lids. The clan's: larger irises with a pale ring."""
    across, top, bottom = _lids(s, s["Narrow_Eyes"])
    side = np.where(s.u > s["shift"], 1.0, -1.0).astype(np.float32)
    inside = 0.84 * np.maximum(np.maximum(top - s.v, s.v - bottom), 0.13 * (np.abs(across) - 1.02))
    s.lay(inside, rgb((0.97, 0.96, 0.95)) * (1.0 - 0.26 * ramp(s.v - top, 0.05, 0.0))[:, None], "eyes")
    radius = 0.062 + 0.026 * s["Clan"]
    local = (np.abs(s.u - s["shift"]) - s["eye_at"]) * side - 0.022 * s["gaze"]
    down, iris = s.v - (_EYES_AT - 0.006), s.colour("iris")
    away = np.sqrt(local * local + down * down)
    lit = mix(iris * 0.62, iris * 1.25 + 0.04, ramp(down, -0.05, 0.06)[:, None])
    s.lay(np.maximum(inside, away - radius), lit)
    s.lay(np.maximum(inside, np.abs(away - radius + 0.006) - 0.009), iris * 0.35, share=0.8)
    ring = np.maximum(inside, np.abs(away - 0.055) - 0.023)
    s.lay(ring, mix(iris, rgb((1.0, 0.94, 0.60)), 0.88), share=0.92 * s["Clan"])
    s.lay(np.maximum(inside, away - 0.030), _INK)
    s.lay(np.hypot(local + 0.026, down + 0.026) - 0.017, _WHITE, share=0.95 * s.cover(inside - 0.01))
    wide = np.abs(across) - 1.06
    s.lay(np.maximum(np.abs(s.v - top) - 0.017, 0.13 * wide), _INK, "eyes", share=0.92)
    s.lay(np.maximum(np.abs(s.v - bottom) - 0.006, 0.13 * wide), s.colour("shadow") * 0.8, share=0.6)


def _brows(s: Sheet) -> None:
    """Tapered brows: level or arched, fine or bushy. The clan's: with a gap."""
    a = np.abs(s.u - s["shift"])
    t = (a - (s["eye_at"] - 0.135)) / 0.295
    arched, bushy, clan = s["Arched_Eyebrows"], s["Bushy_Eyebrows"], s["Clan"]
    along = np.clip(t, 0.0, 1.0)
    rise = (0.020 + 0.070 * arched) * 4.0 * along * (1.0 - along) + 0.012 * arched - 0.034 * along * along
    thick = (0.026 + 0.026 * bushy) * (1.0 - (0.62 - 0.20 * bushy) * along)
    hairs = np.sin(95.0 * a + 38.0 * s.v) * (0.003 + 0.004 * bushy)
    at = s.v - (_BROWS_AT - 0.012 * s["brow_height"]) + rise
    ends = 0.295 * np.maximum(-t, t - 1.0)
    distance = 0.9 * np.maximum(np.abs(at) - thick + hairs, ends + 0.35 * np.maximum(np.abs(at) - 0.4 * thick, 0.0))
    gap = 0.044 * clan - np.abs(a - s["eye_at"] - 0.030 + 0.35 * at)
    distance = np.maximum(distance, np.where(clan > 0, gap, distance))
    s.lay(distance, s.colour("brow"), "eyebrows", share=0.93)


def _nose(s: Sheet) -> None:
    """Bridge, tip, wings and nostrils; only inside the nose's outline."""
    big = 0.94 + 0.80 * s["Big_Nose"] + 0.12 * s["nose_width"]
    middle, tip = 1.9 * s["shift"], 0.155 + 0.035 * s["nose_length"]
    u = s.u - middle
    a = np.abs(u)
    bridge, _ = s.limb((s["shift"] * 1.2, -0.10), (middle, tip), (0.026, 0.046 * big))
    wings = Frame(a, s.v).oval((0.062 * big, tip + 0.028), (0.052 * big, 0.048 * big))
    nostrils = Frame(a, s.v).oval((0.044 * big, tip + 0.046 * big), (0.024 * big, 0.015 * big))
    outline = join(join(bridge, Frame(u, s.v).circle((0.0, tip + 0.012), 0.066 * big), 0.05), wings, 0.05)
    inside, dark, tone = s.cover(outline), s.colour("shadow"), s.colour("tone")
    s.lay(outline - 0.25 * s.pixel, tone, "nose", share=0.0)
    edge = ramp(outline, -0.045, 0.0) * ramp(s.v, -0.08, 0.06)
    s.tint(inside * (0.62 * edge + 0.30 * ramp(u, -0.02, 0.07 * big) * ramp(s.v, -0.2, 0.1)), dark)
    s.tint(inside * 0.62 * ramp(s.v - tip - 0.05 * big, -0.03, 0.03), dark)
    shine = 0.50 * ramp(np.hypot(u + 0.02, s.v - tip + 0.01), 0.052 * big, 0.0)
    shine += 0.26 * ramp(np.abs(u + 0.012), 0.034, 0.0) * ramp(s.v, -0.12, 0.0) * ramp(s.v, tip, tip - 0.08)
    s.tint(inside * shine, mix(tone, _WHITE, 0.6))
    s.lay(nostrils, dark * 0.38, share=0.9 * inside)


def _mouth(s: Sheet) -> None:
    """Lips that smile or not, open or not, fine or full. The clan's: narrower, with a deep bow in the upper lip."""
    smile, opened, big = s["Smiling"], s["Mouth_Slightly_Open"], s["Big_Lips"]
    clan, detail = s["Clan"], s["detail"]
    u = s.u - 1.2 * s["shift"]
    half = 0.190 + 0.018 * s["mouth_width"] + (0.078 + 0.02 * detail) * smile - 0.060 * clan
    p = u / half
    square = np.minimum(p * p, 1.5)
    full = np.sqrt(np.maximum(1.0 - square, 0.0)) * (0.45 + 0.55 * np.maximum(1.0 - square, 0.0))
    lift = (0.168 + 0.03 * detail) * smile - 0.008
    line = _MOUTH_AT + lift * (0.42 - square)
    gap = (0.112 + 0.02 * detail) * opened * np.maximum(1.0 - 1.1 * square, 0.0)
    dip = 1.0 / (1.0 + (u / 0.034) ** 2)
    peaks = 1.0 / (1.0 + ((np.abs(u) - 0.058) / 0.030) ** 2)
    upper = (0.033 + 0.046 * big) * full * (1.0 - (0.10 + 0.55 * clan) * dip + (0.06 + 0.70 * clan) * peaks)
    lower = (0.042 + 0.060 * big) * full
    top, bottom = line - 0.25 * gap - upper, line + 0.75 * gap + lower
    ends = half * (np.abs(p) - 1.0)
    outline = 0.88 * np.maximum(np.maximum(top - s.v, s.v - bottom), ends)
    lips = np.where(s["Wearing_Lipstick"][:, None] > 0, s.pick(_COLOURS.lipstick, "make_up_seed", 3), s.colour("lips"))
    light = 1.0 - 0.20 * ramp(s.v - line, 0.01, -0.012)
    light += 0.20 * ramp(np.hypot(0.55 * (u + 0.03), s.v - bottom + 0.55 * lower), 0.032, 0.0)
    s.lay(outline, lips * light[:, None], "mouth")
    within = 0.88 * np.maximum(np.maximum(line - 0.25 * gap - s.v, s.v - line - 0.75 * gap), ends)
    s.lay(within, rgb((0.30, 0.07, 0.08)), "mouth", share=opened)
    tongue = Frame(u, s.v).oval((0.0, line + 0.82 * gap), (0.10, 0.034))
    s.lay(np.maximum(within, tongue), rgb((0.80, 0.36, 0.36)), share=opened)
    s.lay(np.maximum(within + 0.004, s.v - line - 0.16 * gap), rgb((0.97, 0.96, 0.93)), share=opened)
    seam = np.maximum(np.abs(s.v - line) - 0.0115 + 0.004 * square, half * (np.abs(p) - 1.06))
    s.lay(0.9 * seam, lips * 0.34, "mouth", share=0.85 * (1.0 - opened))


def _mustache(s: Sheet) -> None:
    u = s.u - 1.25 * s["shift"]
    p = np.abs(u) / 0.24
    drop, hairs = 0.085 * p * p, 0.004 * np.sin(90.0 * u)
    top = 0.298 + drop + 0.016 * ramp(p, 0.16, 0.0)
    bottom = 0.402 + 0.75 * drop - 0.050 * p - 0.022 * ramp(p, 0.14, 0.0)
    distance = 0.9 * np.maximum(np.maximum(top - s.v, s.v - bottom) + hairs, 0.24 * (p - 0.97))
    light = 0.96 + 0.13 * np.sin(60.0 * np.abs(u) + 25.0 * s.v)
    s.lay(distance, s.colour("beard") * light[:, None], "skin", share=0.96)


def _goatee(s: Sheet) -> None:
    u = s.u - 0.7 * s["shift"]
    hairs = 0.007 * np.sin(60.0 * u) * ramp(s.v, 0.6, 0.75)
    chin, lip = Frame(u, s.v).oval((0.0, 0.70), (0.165, 0.125)), Frame(u, s.v).oval((0.0, 0.60), (0.056, 0.06))
    light = 0.96 + 0.13 * np.sin(60.0 * u + 6.0 * s.v)
    s.lay(join(chin, lip, 0.08) + hairs, s.colour("beard") * light[:, None], "skin", share=0.96)


def draw(s: Sheet) -> None:
    """Everything of the face that is not hair: from the ears to the brows."""
    _ears(s.window((-0.80, 0.80), (-0.20, 0.20)))
    _skin(s.window((-0.75, 0.75), (-0.95, 0.92)))
    s.window((-0.60, 0.60), (0.0, 0.42)).where(s.table["Rosy_Cheeks"] > 0, _cheeks)
    part = s.window((-0.60, 0.60), (-0.32, 0.16))
    _sockets(part)
    part.where(s.table["eye_shadow"] > 0, _eye_shadow)
    _eyes(part)
    _nose(s.window((-0.42, 0.42), (-0.20, 0.42)))
    _mouth(s.window((-0.48, 0.48), (0.20, 0.80)))
    s.window((-0.38, 0.38), (0.22, 0.54)).where(s.table["Mustache"] > 0, _mustache)
    s.window((-0.30, 0.30), (0.45, 0.90)).where(s.table["Goatee"] > 0, _goatee)
    _brows(s.window((-0.62, 0.62), (-0.46, -0.10)))


def _hair_colours(s: Sheet) -> Field:
    """The hair's colours, (n, 3); of two labelled colours at once, the mixture."""
    flags = np.stack([s.table[name] for name in _COLOURS.hair], axis=1).astype(np.float32)
    other = s.pick(_COLOURS.other_hair, "hair_seed", 1)
    darkest, lightest = np.array(list(_COLOURS.hair.values()), np.float32).swapaxes(0, 1)
    (shade,) = s.chance(2, 1, "hair_seed")
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
    phase, other = s.chance(3, 2, "hair_seed")
    crown = ramp(s.v, -0.4, -0.8)
    curls = np.sin(13.0 * s.v + 6.0 * u + 6.28 * phase) + 0.6 * np.sin(21.0 * s.u + 6.28 * other) * crown
    return join(cap, hang, 0.12) - s["Wavy_Hair"] * (0.028 + 0.038 * curls)


def hair_behind(s: Sheet) -> tuple[Field, Field]:
    """The hair behind the head; gives its outline and its light: strands from the parting, a shine, darker edges."""
    s.table["hair"] = _hair_colours(s)
    outline = _hair_outline(s)
    a, b, c, d = s.chance(4, 4, "hair_seed")
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


def hair_in_front(s: Sheet, outline: Field, light: Field) -> None:
    """Lays hair of this outline and light over forehead and temples, down to the hairline, with a soft shadow below."""
    wide, parting, receding, bangs = s["wide"], s["parting"], s["Receding_Hairline"], s["Bangs"]
    a = np.abs(s.u)
    (phase,) = s.chance(5, 1, "hair_seed")
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
