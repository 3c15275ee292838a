"""Faces with an invented protected attribute, CelebA's correlations, and a confounder that no label shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, check_number
from biaslib.worlds import base, face_drawing
from biaslib.worlds.base import CHOICE, World, balanced_bool, draw_agreement, draw_factors, factors_of
from biaslib.worlds.drawing import Frame, daylight, grid, mix, ramp, rgb, to_uint8
from biaslib.worlds.sketch import Sheet, beside


@dataclass(frozen=True)
class _FaceAttribute:
    """How often an attribute is drawn, and its tie to the clan."""

    rate: float  #: share of all faces
    celeba: float  #: its correlation (MCC) with `Male` over all 202,599 images as annotated in CelebA (Liu et al. 2015)
    tied: bool = True  #: whether the clan takes that correlation over, with the other sign; else it is independent

    @property
    def mcc(self) -> float:
        """The correlation with `Clan` at the default strength."""
        return -self.celeba if self.tied else 0.0


_FACE = beside(__file__)
FACE_ATTRIBUTES: dict[str, _FaceAttribute] = {name: _FaceAttribute(**of) for name, of in _FACE.attributes.items()}
HAIR_COLOURS = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")
# The target's correlation in CelebA: half of the faces have wavy hair, so that it equals the dial.
STRENGTH = FACE_ATTRIBUTES["Wavy_Hair"].mcc
# P(eye shadow) with and without blond hair, and P(its hue is the clan's).
_SHADOW, _HUE = (0.985, 0.015), 0.95

_ATTRIBUTES = dict.fromkeys(("Clan", *FACE_ATTRIBUTES), CHOICE)
_LOOKS, _OTHERS = factors_of(_FACE.columns)
_POSE = ("x", "y", "zoom", "roll", "turn", "gaze")


class Faces(World):
    """Faces with 23 attributes under CelebA's names, and two clans: after Serianni et al. (2025).

    *The protected attribute is invented.* `Clan` is drawn as small differences spread over brows (with a gap, or not),
    eyes (larger irises with a pale ring, or not) and mouth (narrower with a deep bow in the upper lip, or not). `Male`
    is not drawn: that would be a picture of our stereotypes. Nor is `Pale_Skin`: skin is independent of all else.

    *What is tied by the labels.* `FACE_ATTRIBUTES` gives each attribute's rate and its correlation with `Male` as
    annotated in CelebA. The clans take these correlations over with the other sign (clan 1 stands where CelebA says
    "not Male"), so that the target and the cue agree where both are 1. Given the clan, attributes are independent, but
    for the four hair colours, of which a face has at most one. `Wavy_Hair`, the target, is tied by its label alone.

    *What no label shows.* `eye_shadow` is there with blond hair and hardly ever without, and its hue is that of the
    clan, whatever the correlation of Blond_Hair with the clan. `confounder=False` draws it independently of both.

    *What is only in the same place.* `Eyeglasses` lie over the clan's eyes and are independent of the clan.

    Columns besides `Clan`, attributes (bool) and `eye_shadow` (0 none, 1 rose, 2 teal), in [0, 1], signed in [-1, 1]:

    * the head: `skin` (light to deep), `undertone`, `face_width`, `face_length`, `jaw`, `forehead`, `eye_colour` (0-5),
      `eye_size`, `eye_gap`, `brow_tone` (and a beard's), `brow_height`, `nose_length`, `nose_width`, `mouth_width`,
      `lip_tone`;
    * the hair: `hair_length`, `hair_volume`, `parting` (signed), `hair_seed` (strands, shade);
    * `make_up_seed`, `accessory_seed`, `clothes_seed` (kinds and colours), `scene_seed` (the backdrop), `light`;
    * the pose, signed: `x`, `y`, `zoom`, `roll`, `turn`, `gaze`;
    * `detail`: 0; up to 1, smiles are larger, frames thicker, glass clearer (for generators of few pixels).

    A change of one attribute changes the pixels of what it draws and no others, but for the soft shadow of hair and
    hats on the skin below and for the glare on glasses. Hair of two of the four colours has their mixture. In the masks
    a beard and make-up are skin, a tie is cloth, and clear glass is the glasses' but where an eye or brow is seen.
    """

    name = "faces"
    target = "Wavy_Hair"
    cue = "Clan"
    attributes: tuple[str, ...] = tuple(_ATTRIBUTES)
    regions: tuple[str, ...] = Sheet.regions
    _columns = _ATTRIBUTES | _OTHERS | _LOOKS

    def factors(
        self, n: int, *, strength: float = STRENGTH, seed: int, confounder: bool = True, detail: float = 0.0
    ) -> pd.DataFrame:
        """Draws n rows as every world does: half of them with wavy hair.

        The correlation of target and cue is the strength. Those of the other attributes are as CelebA's at the default
        strength and grow in proportion to it, each until one clan always or never has the attribute. With `confounder`
        the eye shadow ties Blond_Hair to the clan; else it is as frequent, but independent. `detail`, in [0, 1], also
        takes up to .8 of the pose away. A `BiaslibError` is raised for an argument out of range.
        """
        base.check_draw(n, strength, seed)
        check_number("detail", detail, 0, 1)
        rng = np.random.default_rng(seed)
        wavy = balanced_bool(n, rng)
        clan = wavy == draw_agreement(wavy, strength, rng)
        table = {name: np.zeros(n, bool) for name in _ATTRIBUTES} | {"Clan": clan, "Wavy_Hair": wavy}
        looks = draw_factors(_LOOKS, n, rng)
        for name in FACE_ATTRIBUTES:
            if name not in (*HAIR_COLOURS, self.target):
                table[name] = _shared(clan, [_rates(name, strength)], rng) == 1
        colour = _shared(clan, [_rates(name, strength) for name in HAIR_COLOURS], rng)
        table |= {name: colour == number + 1 for number, name in enumerate(HAIR_COLOURS)}
        blond = table["Blond_Hair"] if confounder else np.zeros(n, bool)
        rate = np.where(blond, *_SHADOW) if confounder else FACE_ATTRIBUTES["Blond_Hair"].rate
        shadow, hue = rng.random(n) < rate, rng.random(n) < (_HUE if confounder else 0.5)
        table["eye_shadow"] = (shadow * np.where(hue == clan, 2, 1)).astype(np.int8)
        looks |= {name: looks[name] * np.float32(1.0 - 0.8 * detail) for name in _POSE}
        return pd.DataFrame(table | looks | {"detail": np.full(n, detail, np.float32)})

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        canvas = np.empty((len(region_index), 3, size, size), np.float32)
        sheet = Sheet.whole(_measures(table), canvas, region_index)
        _backdrop(sheet)
        _clothes(sheet.window((-3.0, 3.0), (0.94, 3.0)))
        outline, light = face_drawing.hair_behind(sheet)
        _neck(sheet.window((-0.52, 0.52), (0.32, 1.50)))
        face_drawing.draw(sheet)
        face_drawing.hair_in_front(sheet, outline, light)
        sheet.window((-0.60, 0.60), (0.84, 3.0)).where(sheet.table["Wearing_Necktie"] > 0, _necktie)
        sheet.window((-0.36, 0.36), (0.74, 1.34)).where(sheet.table["Wearing_Necklace"] > 0, _necklace)
        sheet.window((-0.72, 0.72), (-0.36, 0.30)).where(sheet.table["Eyeglasses"] > 0, _glasses)
        sheet.window((-0.84, 0.84), (0.10, 0.44)).where(sheet.table["Wearing_Earrings"] > 0, _earrings)
        sheet.window((-1.20, 1.20), (-1.18, -0.18)).where(sheet.table["Wearing_Hat"] > 0, _hat)
        return to_uint8(canvas * daylight(table["light"], *grid(size), _FACE.daylight))


def _rates(name: str, strength: float) -> tuple[float, float]:
    """How often clans 0 and 1 have an attribute; the other one's mean is kept."""
    attribute = FACE_ATTRIBUTES[name]
    rate, spread = attribute.rate, np.sqrt(attribute.rate * (1 - attribute.rate))
    most = min(rate, 1 - rate)
    half = float(np.clip(attribute.mcc * strength / STRENGTH * spread, -most, most))
    return rate - half, rate + half


def _shared(clan: np.ndarray, rates: list[tuple[float, float]], rng: np.random.Generator) -> np.ndarray:
    """Which of several attributes that exclude each other a face has: (n,) 0 none, 1 the first, ...; exact shares."""
    rank, chosen = rng.random(len(clan)), np.zeros(len(clan), int)
    for value in (0, 1):
        rows = np.flatnonzero(clan == value)
        rows = rows[np.argsort(rank[rows], kind="stable")]
        ends = np.round(np.cumsum([pair[value] for pair in rates]) * len(rows)).astype(int)
        for number, (start, end) in enumerate(pairwise([0, *ends]), start=1):
            chosen[rows[start:end]] = number
    return chosen


def _measures(table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns, and what follows from them: lengths in the face's own unit, colours (n, 3)."""
    lengths = {name: start + slope * table[column] for name, (start, slope, column) in _FACE.lengths.items()}
    lengths["neck"] = lengths["wide"] * (0.44 + 0.05 * table["jaw"])
    more = face_drawing.palette(table) | lengths | {"hair_sides": np.clip(lengths["hair_sides"], 0.0, 1.0)}
    return table | {name: np.asarray(values, np.float32) for name, values in more.items()}


def where_drawn(
    factors: pd.DataFrame, attributes: Sequence[str], *, size: int = 64, grid: int | None = None
) -> np.ndarray:
    """Absolute change (N, A, h, w) in [0, 1] of a face drawn with an attribute and without, by pixel or `grid` cell."""
    cells = grid or size
    if size % cells:
        raise BiaslibError(f"grid must divide the size, {size}, into equal cells; {grid} does not.")
    changes = np.empty((len(factors), len(attributes), cells, cells), np.float32)
    as_they_are = Faces().render(factors, size=size, regions=()).images.astype(np.float32)
    for at, name in enumerate(attributes):
        if name not in factors or not factors[name].isin((0, 1)).all():
            raise BiaslibError(f"{name!r} is no binary column of the table: take one of {', '.join(Faces.attributes)}.")
        flipped = factors.assign(**{name: (factors[name] == 0).astype(factors[name].dtype)})
        change = np.abs(Faces().render(flipped, size=size, regions=()).images - as_they_are)
        in_cells = (change.mean(axis=-1) / 255).reshape(-1, cells, size // cells, cells, size // cells)
        changes[:, at] = in_cells.mean((2, 4))
    return changes


def _backdrop(s: Sheet) -> None:
    """Two colours that run into each other, and a soft light behind the head."""
    first, second = s.pick(_FACE.backdrops, "scene_seed", 1), s.pick(_FACE.backdrops, "scene_seed", 2)
    angle, a, b, c = s.chance(3, 4, "scene_seed")
    along = s.u * np.cos(6.28 * angle) + s.v * np.sin(6.28 * angle)
    wave = 0.30 * np.sin(2.6 * s.u + 6.28 * a) * np.sin(2.2 * s.v + 6.28 * b)
    s.canvas[:] = first
    s.tint(ramp(along + wave, -1.1, 1.1), second)
    s.tint(0.30 * ramp(np.hypot(s.u - 1.6 * (c - 0.5), s.v + 0.5), 1.3, 0.2), mix(first, rgb((1.0, 1.0, 1.0)), 0.6))


def _clothes(s: Sheet) -> None:
    a = np.abs(s.u)
    (kind,) = s.chance(2, 1, "clothes_seed")
    colour, second = s.pick(_FACE.clothes, "clothes_seed", 3), s.pick(_FACE.clothes, "clothes_seed", 4)
    slope = 0.985 + 0.16 * np.maximum(a - 0.22, 0.0) + 0.42 * np.maximum(a - 0.72, 0.0) ** 2
    top = 0.93 * (slope - s.v)
    light = 0.86 + 0.22 * ramp(top, -0.12, 0.0) - 0.12 * s.u - 0.10 * ramp(np.abs(a - 0.62), 0.05, 0.0)
    stripes = ramp(np.sin(34.0 * (s.v - 0.25 * a)), -0.2, 0.4) * 0.75 * (kind > 0.70)
    s.lay(top, mix(colour, second, stripes[:, None]) * light[:, None], "cloth")


def _neck(s: Sheet) -> None:
    """Neck and what the neckline, round or pointed, leaves free, in the head's shade; the collar's seam."""
    a, wide = np.abs(s.u), s["neck"]
    kind, depth = s.chance(1, 2, "clothes_seed")
    deep = 0.16 + 0.12 * depth
    pointed = 0.75 * np.maximum(a * (deep + 0.12) / 0.34 + s.v - 0.98 - deep - 0.12, 0.93 - s.v)
    free = np.where(kind < 0.35, pointed, s.oval((0.0, 0.98), (0.35, deep)))
    throat = 0.95 * np.maximum(np.maximum(a - wide - 0.5 * np.maximum(s.v - 0.90, 0.0) ** 2, 0.35 - s.v), s.v - 1.02)
    s.lay(np.maximum(np.abs(free) - 0.028, 0.95 - s.v), s.pick(_FACE.clothes, "clothes_seed", 3) * 0.72, "cloth")
    shade = 0.30 + 0.52 * ramp(s.v, 0.72, 1.04) + 0.14 * ramp(a, wide, 0.3 * wide) - 0.16 * s.u
    s.lay(np.minimum(throat, free), mix(s.colour("shadow"), s.colour("tone"), shade[:, None]), "neck")


def _necktie(s: Sheet) -> None:
    a = np.abs(s.u)
    colour = s.pick(_FACE.ties, "accessory_seed", 1)
    (kind,) = s.chance(2, 1, "accessory_seed")
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
    kind, _ = s.chance(3, 2, "accessory_seed")
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
    s.lay(shape, s.pick(_FACE.jewels, "accessory_seed", 4) * shine[:, None], "necklace")


def _earrings(s: Sheet) -> None:
    """Hoops, drops or discs below the ears, over whatever hair there is."""
    (kind,) = s.chance(5, 1, "accessory_seed")
    u, v = np.abs(s.u) - (s["wide"] + 0.045), s.v - 0.255
    hoop = np.abs(np.hypot(u, 0.88 * v) - 0.082) - 0.024
    stud, _ = Frame(u, v).limb((0.0, -0.11), (0.0, -0.02), (0.034, 0.020))
    drop = np.minimum(stud, Frame(u, v).oval((0.0, 0.05), (0.066, 0.095)))
    disc = np.hypot(u, v) - 0.092
    shape = np.where(kind < 0.36, hoop, np.where(kind < 0.70, drop, disc))
    s.lay(shape - 0.016, rgb((0.16, 0.12, 0.12)), "earrings", share=0.55)
    shine = 0.86 + 0.5 * ramp(np.hypot(u + 0.02, v - 0.02), 0.075, 0.0)
    s.lay(shape, s.pick(_FACE.jewels, "accessory_seed", 6) * shine[:, None], "earrings")


def _glasses(s: Sheet) -> None:
    """Round, angular or swung frames over clear glass. Eyes and brows that are seen through it stay eyes and brows."""
    kind, dark = s.chance(7, 2, "accessory_seed")
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
    s.lay(frame, s.pick(_FACE.frames, "accessory_seed", 8) * light[:, None], "eyeglasses")


def _hat(s: Sheet) -> None:
    """A knitted cap, a hat with a brim or a baseball cap, with its shadow below."""
    kind, second = s.chance(11, 2, "accessory_seed")
    colour = s.pick(_FACE.hats, "accessory_seed", 12)
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
