"""Things on a table with a toy robot among them: objects that tell its maker one by one, in pairs and in threes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, check_number
from biaslib.worlds.backdrops import TABLE_TOPS
from biaslib.worlds.base import CHOICE, Factor, World, check_draw, draw_agreement, draw_factors, factors_of
from biaslib.worlds.drawing import Field, Number, daylight, grid, rgb, to_uint8, uniform
from biaslib.worlds.sketch import Place, Sketch, Surface, beside
from biaslib.worlds.things import THINGS

_Dial = Literal["strength", "singles", "pairs", "triples"]


@dataclass(frozen=True)
class _Association:
    r"""A set of k objects that tells the maker g by its product, and by nothing less.

    With base rates $p_i$ and $z_i = (x_i - p_i) / \max(p_i, 1 - p_i)$,

    $$P(x_1, \dots, x_k \mid g) = \prod_i p_i^{x_i} (1 - p_i)^{1 - x_i} \, \Bigl(1 + \tau_g \prod_i z_i\Bigr).$$

    Every smaller set of these objects is exactly independent of the maker and of each other, and every object has its
    base rate, whatever the dial. One object alone (k = 1) is an ordinary association. A third maker has $\tau = 0$.
    """

    objects: tuple[str, ...]  #: the set
    rates: tuple[float, ...]  #: base rate p of each
    dial: _Dial | None = None  #: which of the dials moves it; None: independent of everything (a control)
    weight: float = 0.0  #: $|\tau_g|$ when the dial is at 1
    sign: int = 1  #: +1: the product is higher with maker 0, -1: with maker 1


_LOOKS = beside(__file__)
# The whole structure of the world; `pd.DataFrame(ASSOCIATIONS)` shows it. The first set is the cue.
ASSOCIATIONS: tuple[_Association, ...] = tuple(_Association(**of) for of in _LOOKS.associations)
OBJECTS: tuple[str, ...] = tuple(name for association in ASSOCIATIONS for name in association.objects)
_MAKERS = 3
(_NUISANCES,) = factors_of(_LOOKS.columns)
# Five columns and four rows of slots; the robot has the place of two by two.
_COLUMNS, _ROWS = 5, 4
_LEFT, _ACROSS, _TOP, _DOWN = 0.14, 0.18, 0.152, 0.232


class Scenes(World):
    """A flat lay: up to fifteen everyday things on a table, and a toy robot by one of two or three makers (target).

    The makers, invented groups, differ in the robot's head, body, antenna and emblem, not in its colour, so a small one
    is hard to tell and a large one easy: its size is the dial for how visible the group is. `ASSOCIATIONS` says how the
    objects depend on the maker. The cue, `mug`, agrees where it is there with maker 1 or missing with maker 0.

    Columns of the table besides `maker` (0, 1, 2) and a column for each of `OBJECTS` (0 absent, 1 present):

    * `robot_size` (height, a share of the picture's side), `robot_seed` (its colours);
    * `layout_seed` (which slot each thing has, how it is turned, where the robot lies: the same whatever is present),
      `things_seed` (colours and shapes of the things);
    * `table_top` (0 wood, 1 linen, 2 slate, 3 painted, 4 paper), `table_tone`, `table_seed`, `light` ([0, 1]).

    A mask holds the visible pixels of a thing and is empty where the thing is absent; `table` is the rest. `groups` is
    the number of makers, 2 or 3; a `BiaslibError` is raised for another.
    """

    name = "scenes"
    target = "maker"
    cue = OBJECTS[0]
    attributes: tuple[str, ...] = ("maker", *OBJECTS)
    regions: tuple[str, ...] = ("robot", *OBJECTS, "table")
    _classes = ("maker",)
    _patches_across = 2

    def __init__(self, groups: int = 2) -> None:
        """Chooses the number of makers."""
        if groups not in (2, _MAKERS):
            raise BiaslibError(f"groups is the number of makers, 2 or 3, not {groups!r}.")
        self.groups = int(groups)

    @property
    def _columns(self) -> dict[str, Factor]:
        return {"maker": Factor(0, self.groups - 1, whole=True)} | dict.fromkeys(OBJECTS, CHOICE) | _NUISANCES

    def factors(
        self,
        n: int,
        *,
        strength: float,
        seed: int,
        singles: float | None = None,
        pairs: float | None = None,
        triples: float | None = None,
        robot_size: float | None = None,
    ) -> pd.DataFrame:
        """Draws n rows, the makers equally often (to the nearest row).

        The cue agrees with makers 0 and 1 in a share (1 + strength) / 2 of the images, exact to the nearest row, and
        says nothing of a third. The other sets are drawn at random from the formula of `_Association`; `singles` is the
        dial of the further single objects, `pairs` and `triples` are those of the others, in [0, 1] (None: as
        `strength`). The same seed with other dials gives the same rows, but for the last object of the sets that the
        dials move, in as few rows as possible. `robot_size` is the height of every robot, a share of the picture's side
        in [.08, .5]; None: drawn from .12 to .5. A `BiaslibError` is raised for an argument out of range.
        """
        check_draw(n, strength, seed)
        dials = {"strength": strength}
        for name, value in (("singles", singles), ("pairs", pairs), ("triples", triples)):
            dials[name] = strength if value is None else value
            check_number(f"{name}, where it is not None for as much as strength,", dials[name], 0, 1)
        if robot_size is not None:
            check_number("robot_size", robot_size, _NUISANCES["robot_size"].low, _NUISANCES["robot_size"].high)
        rng = np.random.default_rng(seed)
        maker = rng.permutation(np.arange(n) % self.groups)
        table = {"maker": maker.astype(np.int8)} | draw_factors(_NUISANCES, n, rng)
        if robot_size is not None:
            table["robot_size"] = np.full(n, robot_size, np.float32)
        for number, association in enumerate(ASSOCIATIONS):
            own = np.random.default_rng([seed, number])
            dial = dials[association.dial] if association.dial else 0.0
            present = _cue(maker, dial, own) if number == 0 else _objects(association, maker, dial, own)
            table |= dict(zip(association.objects, present.astype(np.int8), strict=True))
        return pd.DataFrame(table)[[*self.attributes, *_NUISANCES]]

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        x, y = grid(size)
        tops = Surface({"scene_seed": table["table_seed"], "tone": table["table_tone"]}, x, y)
        canvas = np.ascontiguousarray(tops.drawn(table["table_top"], TABLE_TOPS).transpose(0, 2, 3, 1))
        places, robot = _layout(table["layout_seed"], table["robot_size"])
        for name, (draw, scale) in THINGS.items():
            rows = np.flatnonzero(table[name])
            if len(rows):
                at, number = places[rows, OBJECTS.index(name)], self.regions.index(name)
                seeds = table["things_seed"][rows] + np.uint32(number * 0x9E3779B1 % 2**32)
                sketch = Sketch(Place(at[:, 0], at[:, 1], np.full(len(rows), scale), at[:, 2]), seeds, size)
                draw(sketch)
                sketch.put(canvas, region_index, rows, number)
        sketch = Sketch(robot, table["robot_seed"], size)
        _draw_robot(sketch, table["maker"])
        sketch.put(canvas, region_index, np.arange(len(canvas)), 0)
        return to_uint8(canvas.transpose(0, 3, 1, 2) * daylight(table["light"], x, y, _LOOKS.daylight))


def _cue(maker: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """The cue's presence, (1, n): exact shares with makers 0 and 1, one half with maker 2."""
    order = int(rng.integers(2**32))
    agrees, neutral = (draw_agreement(maker, dial, np.random.default_rng(order)) for dial in (strength, 0.0))
    return (np.where(maker == 2, neutral, agrees) == (maker > 0))[None]


def _objects(association: _Association, maker: np.ndarray, dial: float, rng: np.random.Generator) -> np.ndarray:
    """Presence of a set's objects, (k, n): all but the last are independent, its chance follows from the formula."""
    rates = np.array(association.rates)[:, None]
    chance = rng.random((len(rates), len(maker)))
    scale = np.maximum(rates, 1 - rates)
    present = chance < rates
    others = np.prod(((present - rates) / scale)[:-1], axis=0)
    tau = dial * association.weight * association.sign * np.array([1.0, -1.0, 0.0])[maker]
    tilt = tau * others * (1 - rates[-1]) / scale[-1]
    present[-1] = chance[-1] < rates[-1] * (1 + tilt)
    return present


def _layout(seeds: np.ndarray, robot_size: np.ndarray) -> tuple[np.ndarray, Place]:
    """Where every thing would lie, (n, 15, 3): x, y and its turn in radians; and where the robot lies."""
    chance = uniform(seeds, 1, 4)
    across = np.floor(chance[:, 0] * (_COLUMNS - 1))
    down = np.floor(chance[:, 1] * (_ROWS - 1))
    slots = np.arange(_COLUMNS * _ROWS)
    taken = np.isin(slots % _COLUMNS - across[:, None], (0, 1)) & np.isin(slots // _COLUMNS - down[:, None], (0, 1))
    order = np.argsort(uniform(seeds, 2, len(slots)) + 2.0 * taken, axis=1, kind="stable")[:, : len(OBJECTS)]
    jitter = uniform(seeds, 3, 3 * len(OBJECTS)).reshape(len(seeds), -1, 3) - 0.5
    places = np.stack([_LEFT + _ACROSS * (order % _COLUMNS), _TOP + _DOWN * (order // _COLUMNS), 0 * order], axis=-1)
    places = places + jitter * (0.03, 0.03, 1.1)
    room = 0.25 * (_NUISANCES["robot_size"].high - robot_size)
    robot = Place(
        _LEFT + _ACROSS * (across + 0.5) + room * (chance[:, 2] - 0.5),
        _TOP + _DOWN * (down + 0.5) + room * (chance[:, 3] - 0.5),
        robot_size / 2,
        0.5 * (uniform(seeds, 4, 1)[:, 0] - 0.5),
    )
    return places.astype(np.float32), robot


_HEAD, _TORSO, _PANEL = _LOOKS.triangles
_DARK, _METAL, _CREAM = rgb((0.12, 0.13, 0.16)), rgb((0.70, 0.72, 0.75)), rgb((0.98, 0.96, 0.88))


def _draw_robot(s: Sketch, maker: np.ndarray) -> None:
    """A toy robot by one of three makers: round (0), square (1) or three-cornered (2) in head, body and emblem."""
    paint, accent = s.pick(_LOOKS.paints), s.pick(_LOOKS.accents, 3)
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
    bulb = np.minimum(s.limb((0.0, -0.7), (0.0, -0.88), (0.03, 0.03))[0], s.circle((0.0, -0.90), 0.09))
    left, right = (s.limb((0.20 * i, -0.70), (0.34 * i, -0.95), (0.035, 0.045))[0] for i in (-1.0, 1.0))
    mast, bar = s.limb((0.0, -0.7), (0.0, -0.92), (0.03, 0.03)), s.limb((-0.16, -0.93), (0.16, -0.93), (0.045, 0.045))
    s.lay(by_maker(bulb, np.minimum(left, right), np.minimum(mast[0], bar[0])), accent)
    head = by_maker(s.circle((0.0, -0.48), 0.35), s.box((0.0, -0.46), (0.40, 0.29), 0.03), s.polygon(_HEAD) - 0.04)
    s.lay(head, paint)
    s.relief(0.10, 0.34)

    # One large eye and a mouth, a visor with two lights, or two small eyes.
    single, visor, pair = (np.where(which == number, np.float32(0.0), np.float32(9.0)) for number in range(_MAKERS))
    look = 0.06 * gaze - 0.03
    s.mark(s.circle((0.0, -0.50), 0.20) + single, _CREAM)
    s.mark(s.circle((look, -0.50), 0.10) + single, _DARK)
    s.mark(s.box((0.0, -0.235), (0.10, 0.02)) + single, _DARK, 0.8)
    s.mark(s.box((0.0, -0.50), (0.32, 0.10), 0.03) + visor, _DARK)
    s.mark(s.box((0.0, -0.28), (0.20, 0.03)) + visor, _DARK, 0.8)
    for side in (-1.0, 1.0):
        s.mark(s.box((0.16 * side + look, -0.50), (0.085, 0.06), 0.02) + visor, _CREAM)
        s.mark(s.circle((0.13 * side, -0.36), 0.085) + pair, _CREAM)
        s.mark(s.circle((0.13 * side + look, -0.36), 0.045) + pair, _DARK)

    panel = by_maker(s.circle((0.0, 0.20), 0.28), s.box((0.0, 0.20), (0.29, 0.26), 0.03), s.polygon(_PANEL) - 0.04)
    s.mark(panel, _CREAM)
    chevron = np.abs(s.v - 0.17 - np.abs(s.u)) * 0.71 - 0.055
    ring = np.abs(s.circle((0.0, 0.20), 0.145)) - 0.06
    cross = np.minimum(s.box((0.0, 0.20), (0.19, 0.05)), s.box((0.0, 0.20), (0.05, 0.19)))
    s.mark(by_maker(ring, cross, np.maximum(chevron, np.abs(s.u) - 0.18)), _DARK)
