"""Things on a table with a toy robot among them: objects that tell its maker one by one, in pairs and in threes."""

from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.worlds.backdrops import TABLE_TOPS
from biaslib.worlds.base import CHOICE, SEED, SHARE, DrawnWorld, Factor, check_draw, draw_agreement, draw_factors
from biaslib.worlds.drawing import Daylight, grid, rows_of_each, to_uint8, uniform
from biaslib.worlds.sketch import Place, Sketch
from biaslib.worlds.things import THINGS, draw_robot

_Dial = Literal["strength", "singles", "pairs", "triples"]


@dataclass(frozen=True)
class Association:
    r"""A set of k objects that tells the maker g by its product, and by nothing less.

    With base rates $p_i$ and $z_i = (x_i - p_i) / \max(p_i, 1 - p_i)$,

    $$P(x_1, \dots, x_k \mid g) = \prod_i p_i^{x_i} (1 - p_i)^{1 - x_i} \, \Bigl(1 + \tau_g \prod_i z_i\Bigr).$$

    Every smaller set of these objects is exactly independent of the maker and of each other, and every object has its
    base rate, whatever the dial. One object alone (k = 1) is an ordinary association.

    Attributes:
        objects: the set.
        rates: base rate p of each.
        dial: which of the dials moves it; None: independent of everything (a control).
        weight: $|\tau_g|$ when the dial is at 1.
        sign: +1: the product is higher with maker 0, -1: with maker 1. A third maker has $\tau = 0$.
    """

    objects: tuple[str, ...]
    rates: tuple[float, ...]
    dial: _Dial | None
    weight: float
    sign: int


# The whole structure of the world; `pd.DataFrame(ASSOCIATIONS)` shows it. The first set is the cue.
ASSOCIATIONS: tuple[Association, ...] = (
    Association(("mug",), (0.5,), "strength", 1.0, -1),
    Association(("book",), (0.4,), "singles", 0.8, 1),
    Association(("glasses",), (0.35,), "singles", 0.6, -1),
    Association(("key",), (0.35,), "singles", 0.4, 1),
    Association(("leaf",), (0.4,), "singles", 0.2, -1),
    Association(("scissors", "pencil"), (0.45, 0.5), "pairs", 1.0, 1),
    Association(("phone", "watch"), (0.4, 0.4), "pairs", 1.0, -1),
    Association(("apple", "spoon", "camera"), (0.45, 0.45, 0.45), "triples", 1.0, 1),
    Association(("ball",), (0.35,), None, 0.0, 1),
    Association(("die",), (0.3,), None, 0.0, 1),
    Association(("shell",), (0.35,), None, 0.0, 1),
)
OBJECTS: tuple[str, ...] = tuple(name for association in ASSOCIATIONS for name in association.objects)
MAKERS = 3
_SMALL, _LARGE = 0.12, 0.5  # the robot's height, a share of the picture's side

_NUISANCES = {
    "robot_size": Factor(0.08, _LARGE, drawn=(_SMALL, _LARGE)),
    "robot_seed": SEED,
    "layout_seed": SEED,
    "things_seed": SEED,
    "table_top": Factor(0, len(TABLE_TOPS) - 1, whole=True),
    "table_tone": SHARE,
    "table_seed": SEED,
    "light": SHARE,
}
_DAYLIGHT = Daylight(
    warm=(1.04, 1.0, 0.93), cool=(0.98, 1.0, 1.04), dim=0.86, gain=0.20, top=1.0, fall=0.16, slope=1.2, span=(0.3, 2.4)
)
# Five columns and four rows of slots; the robot has the place of two by two.
_COLUMNS, _ROWS = 5, 4
_LEFT, _ACROSS, _TOP, _DOWN = 0.14, 0.18, 0.152, 0.232


class Scenes(DrawnWorld):
    """A flat lay: up to fifteen everyday things on a table, and a toy robot by one of two or three makers (target).

    The makers are invented groups. They differ in the robot's head, body, antenna and emblem, not in its colour, so a
    small robot is hard to tell and a large one easy: its size is the dial for how visible the group is. `ASSOCIATIONS`
    says how the objects depend on the maker. The cue is `mug`: it agrees with the maker where it is there with maker 1
    or not there with maker 0.

    Columns of the table besides `maker` (0, 1, 2) and a column for each of `OBJECTS` (0 absent, 1 present):

    * `robot_size` (height, a share of the picture's side), `robot_seed` (its colours);
    * `layout_seed` (which slot each thing has, how it is turned, where the robot lies: the same whatever is present),
      `things_seed` (colours and shapes of the things);
    * `table_top` (0-4, in the order of `backdrops.TABLE_TOPS`), `table_tone`, `table_seed`, `light` ([0, 1]).

    None of the latter depends on the maker, on an object or on a dial. A mask holds the visible pixels of a thing and
    is empty where the thing is absent; `table` is the rest.

    Args:
        groups: number of makers, 2 or 3.

    Raises:
        BiaslibError: another number of makers.
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
        if groups not in (2, MAKERS):
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
        says nothing of a third. The other sets are drawn at random from the formula of `Association`. The same seed
        with other dials gives the same rows, but for the last object of the sets that the dials move, in as few rows
        as possible.

        Args:
            n: number of rows, >= 1.
            strength: the dial of the cue, in [0, 1].
            seed: >= 0.
            singles: the dial of the further single objects, in [0, 1]; None: as `strength`.
            pairs: the dial of the pairs, likewise.
            triples: the dial of the triple, likewise.
            robot_size: height of every robot, a share of the picture's side in [.08, .5]; None: drawn from .12 to .5.

        Raises:
            BiaslibError: an argument out of range.
        """
        check_draw(n, strength, seed)
        dials = {"strength": strength}
        for name, value in (("singles", singles), ("pairs", pairs), ("triples", triples)):
            dials[name] = strength if value is None else value
            if not isinstance(dials[name], Real) or not 0 <= dials[name] <= 1:
                raise BiaslibError(f"{name} must lie in [0, 1], or be None for as much as strength, not {value!r}.")
        sizes = _NUISANCES["robot_size"]
        if robot_size is not None and not (isinstance(robot_size, Real) and sizes.low <= robot_size <= sizes.high):
            raise BiaslibError(
                f"robot_size must lie in [{sizes.low:g}, {sizes.high:g}], or be None for any, not {robot_size!r}."
            )
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
        canvas = np.empty((len(region_index), size, size, 3), np.float32)
        for top, rows in rows_of_each(table["table_top"], TABLE_TOPS.values()):
            canvas[rows] = top(table["table_seed"][rows], table["table_tone"][rows], x, y).transpose(0, 2, 3, 1)
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
        draw_robot(sketch, table["maker"])
        sketch.put(canvas, region_index, np.arange(len(canvas)), 0)
        return to_uint8(canvas.transpose(0, 3, 1, 2) * _DAYLIGHT.over(table["light"], x, y))


def _cue(maker: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """The cue's presence, (1, n): exact shares with makers 0 and 1, one half with maker 2."""
    order = int(rng.integers(2**32))
    agrees, neutral = (draw_agreement(maker, dial, np.random.default_rng(order)) for dial in (strength, 0.0))
    return (np.where(maker == 2, neutral, agrees) == (maker > 0))[None]


def _objects(association: Association, maker: np.ndarray, dial: float, rng: np.random.Generator) -> np.ndarray:
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
    room = 0.25 * (_LARGE - robot_size)
    robot = Place(
        _LEFT + _ACROSS * (across + 0.5) + room * (chance[:, 2] - 0.5),
        _TOP + _DOWN * (down + 0.5) + room * (chance[:, 3] - 0.5),
        robot_size / 2,
        0.5 * (uniform(seeds, 4, 1)[:, 0] - 0.5),
    )
    return places.astype(np.float32), robot
