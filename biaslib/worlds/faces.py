"""Faces with an invented protected attribute, CelebA's correlations, and a confounder that no label shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.worlds import base, face_drawing, face_things
from biaslib.worlds.base import CHOICE, SEED, SHARE, Factor, World, balanced_bool, draw_agreement, draw_factors
from biaslib.worlds.drawing import daylight, grid, to_uint8
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
_FEATURES = ("brow_tone", "brow_height", "nose_length", "nose_width", "mouth_width", "lip_tone")
_LOOKS = {
    **dict.fromkeys(("skin", "undertone", "face_width", "face_length", "jaw", "forehead"), SHARE),
    "eye_colour": Factor(0, 5, whole=True),
    **dict.fromkeys(("eye_size", "eye_gap"), SHARE),
    "gaze": Factor(-1.0, 1.0),
    **dict.fromkeys((*_FEATURES, "hair_length", "hair_volume"), SHARE),
    "parting": Factor(-1.0, 1.0),
    **dict.fromkeys(("hair_seed", "make_up_seed", "accessory_seed", "clothes_seed", "scene_seed"), SEED),
    "light": SHARE,
    **dict.fromkeys(("x", "y", "zoom", "roll", "turn"), Factor(-1.0, 1.0)),
}
_POSE = ("x", "y", "zoom", "roll", "turn", "gaze")
_OTHERS = {"eye_shadow": Factor(0, 2, whole=True), "detail": SHARE}


class Faces(World):
    """Faces with 23 attributes under CelebA's names, and two clans: after Serianni et al. (2025).

    *The protected attribute is invented.* `Clan` is drawn as small differences spread over brows (with a gap, or
    not), eyes (larger irises with a pale ring, or not) and mouth (narrower with a deep bow in the upper lip, or
    not). `Male` is not drawn: a picture of it would be a picture of our stereotypes. Nor is `Pale_Skin`: skin colour is
    independent of everything else here.

    *What is tied by the labels.* `FACE_ATTRIBUTES` gives each attribute's rate and its correlation with `Male` as
    annotated in CelebA. The clans take these correlations over with the other sign (clan 1 stands where CelebA says
    "not Male"), so that the target and the cue agree where both are 1. Given the clan, attributes are independent, but
    for the four hair colours, of which a face has one or none. `Wavy_Hair`, the target, is tied to the clan by its
    label alone.

    *What no label shows.* `eye_shadow` is there with blond hair and hardly ever without, and its hue is that of the
    clan, whatever the correlation of Blond_Hair with the clan. `confounder=False` draws it independently of both.

    *What is only in the same place.* `Eyeglasses` lie over the clan's eyes and are independent of the clan.

    Columns of the table besides `Clan`, the attributes (bool) and `eye_shadow` (0 none, 1 rose, 2 teal); shares lie in
    [0, 1], signed shares in [-1, 1]:

    * the head: `skin` (light to deep), `undertone`, `face_width`, `face_length`, `jaw`, `forehead`, `eye_colour` (0-5),
      `eye_size`, `eye_gap`, `brow_tone` (also of a beard), `brow_height`, `nose_length`, `nose_width`, `mouth_width`,
      `lip_tone`;
    * the hair: `hair_length`, `hair_volume`, `parting` (signed), `hair_seed` (strands, shade);
    * `make_up_seed`, `accessory_seed`, `clothes_seed` (kinds and colours), `scene_seed` (the backdrop), `light`;
    * the pose, signed: `x`, `y`, `zoom`, `roll`, `turn`, `gaze`;
    * `detail`: 0; up to 1, smiles are larger, frames thicker, glass clearer (for generators of few pixels).

    None of these depends on an attribute or on the clan. A change of one attribute changes the pixels of what it draws
    and no others, but for the soft shadow of hair and hats on the skin below and for the glare on a pair of glasses.
    Hair of two of the four colours has their mixture. In the masks a beard and make-up are skin, a tie is cloth, and
    the clear glass of glasses is theirs but where an eye or a brow is seen through it.
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
        if not isinstance(detail, Real) or not 0 <= detail <= 1:
            raise BiaslibError(f"detail must lie in [0, 1], not {detail!r}.")
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
        outline, light = face_things.draw_behind(sheet)
        face_drawing.draw(sheet)
        face_things.draw_in_front(sheet, outline, light)
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
    more = face_drawing.palette(table) | {
        "x": 0.5 + 0.018 * table["x"],
        "y": 0.470 + 0.012 * table["y"],
        "scale": 0.409 + 0.011 * table["zoom"],
        "roll": 0.10 * table["roll"],
        "shift": 0.050 * table["turn"],
        "wide": 0.565 + 0.055 * table["face_width"],
        "long": table["face_length"],
        "neck": (0.565 + 0.055 * table["face_width"]) * (0.44 + 0.05 * table["jaw"]),
        "eye_at": 0.238 + 0.024 * table["eye_gap"],
        "hair_low": -0.14 + 1.34 * table["hair_length"],
        "hair_sides": np.clip(2.5 * table["hair_length"] - 0.5, 0.0, 1.0),
    }
    return table | {name: np.asarray(values, np.float32) for name, values in more.items()}


def where_drawn(
    factors: pd.DataFrame, attributes: Sequence[str], *, size: int = 64, grid: int | None = None
) -> np.ndarray:
    """How much each pixel changes, (N, A, h, w) in [0, 1], when a face is drawn with an attribute and without it.

    The absolute change, averaged over the colours and the cells of a `grid` with so many a side; None: single pixels.
    """
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
