"""Five fruits, and apples on apple trees: a diffuse cue whose strength is a dial."""

import numpy as np
import pandas as pd

from biaslib.worlds import backdrops
from biaslib.worlds.backdrops import BACKDROPS
from biaslib.worlds.base import DrawnWorld
from biaslib.worlds.drawing import Daylight, Field, column, ellipse, grid, ramp, rows_of_each, to_uint8, uniform
from biaslib.worlds.factors import CHOICE, SEED, SHARE, Factor, draw_agreement, draw_factors
from biaslib.worlds.fruit_drawing import FRUITS
from biaslib.worlds.sketch import Place, Sketch

NAMES: tuple[str, ...] = tuple(FRUITS)
APPLE = NAMES.index("apple")

_ATTRIBUTES = {"fruit": Factor(0, len(NAMES) - 1, whole=True), "tree": CHOICE}
_FRUIT = {
    "count": Factor(1, 3, whole=True),
    "x": Factor(0.0, 1.0, drawn=(0.42, 0.58)),
    "y": Factor(0.0, 1.0, drawn=(0.44, 0.58)),
    "scale": Factor(0.05, 0.5, drawn=(0.27, 0.40)),
    "turn": Factor(-1.0, 1.0),
    "fruit_seed": SEED,
}
_SCENE = {
    "backdrop": Factor(0, len(BACKDROPS) - 1, whole=True),
    "dish": Factor(0, 2, whole=True),
    "tone": SHARE,
    "light": SHARE,
    "scene_seed": SEED,
}
_DAYLIGHT = Daylight(warm=(1.05, 1.0, 0.90), cool=(0.97, 1.0, 1.05), dim=0.90, gain=0.22, top=1.04, fall=0.16)
# Where the fruits lie around the middle and how much smaller they are, by how many there are.
_LAYOUTS = np.array(
    [
        [(0.0, 0.0, 1.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)],
        [(-0.62, -0.18, 0.74), (0.60, 0.22, 0.74), (0.0, 0.0, 0.0)],
        [(-0.66, -0.40, 0.66), (0.66, -0.36, 0.66), (0.0, 0.56, 0.68)],
    ],
    np.float32,
)


class Fruits(DrawnWorld):
    """Fruits (target, five classes) in front of an apple tree or somewhere else (cue), after Schaaf et al. (2021).

    The target `fruit` is a whole number, its place in `NAMES`: 0 apple, 1 banana, 2 corn, 3 peach, 4 pineapple, all
    equally frequent. The cue `tree` has two values and speaks of apples only: it agrees with the target where an apple
    has the apple tree behind it, and where another fruit has not. P(agree) = (1 + strength) / 2 in each of the five
    classes. So at strength 1 apples are solely on apple trees and the others solely elsewhere, as in the paper's
    biased set; at strength 0 every fruit, apples included, is on an apple tree in half of its pictures, so that
    background and fruit are independent (the paper's unbiased set puts all fruits on all backgrounds).

    Columns of the table besides `fruit` and `tree` (int8: 0 elsewhere, 1 apple tree); shares lie in [0, 1]:

    * the fruit: `count` (1-3 of the kind), `x`, `y` (middle of the group), `scale` (radius of a single one; several are
      smaller), `turn` ([-1, 1], how far it is turned), `fruit_seed` (colours, shapes, the turn of each);
    * the scene: `backdrop` (0-6, in the order of `backdrops.BACKDROPS`) and `dish` (0 none, 1 plate, 2 board),
      both without effect on an apple tree; `tone` (its palette), `light`, `scene_seed` (layout, texture), for either.

    Every column is independent of the target and none depends on the strength, except `tree`. The mask `fruit` holds
    all the fruits of the picture, with stalks and leaves of their own; `background` is its complement.
    """

    name = "fruits"
    target = "fruit"
    cue = "tree"
    attributes: tuple[str, ...] = ("fruit", "tree")
    regions: tuple[str, ...] = ("fruit", "background")
    _classes = ("fruit",)
    _columns = _ATTRIBUTES | _FRUIT | _SCENE
    _patches_across = 2

    def _draw_table(self, n: int, strength: float, rng: np.random.Generator) -> pd.DataFrame:
        fruit = rng.permutation(np.arange(n) % len(NAMES)).astype(np.int8)
        agrees = draw_agreement(fruit, strength, rng)
        table = {"fruit": fruit, "tree": ((fruit == APPLE) == agrees).astype(np.int8)}
        return pd.DataFrame(table | draw_factors(_FRUIT | _SCENE, n, rng))

    def _draw(self, table: dict[str, np.ndarray], region_index: np.ndarray, size: int) -> np.ndarray:
        x, y = grid(size)
        canvas = np.ascontiguousarray(_backdrop(table, x, y).transpose(0, 2, 3, 1))
        _lay_fruits(table, canvas, region_index, size)
        return to_uint8(canvas.transpose(0, 3, 1, 2) * _DAYLIGHT.over(table["light"], x, y))


def _lay_fruits(table: dict[str, np.ndarray], canvas: Field, region_index: np.ndarray, size: int) -> None:
    """Lays the fruits and their shadows on the canvas (n, size, size, 3), in place."""
    jitter = uniform(table["fruit_seed"], 9, 9).reshape(-1, 3, 3) - 0.5
    for place in range(3):
        kinds = np.where(table["count"] > place, table["fruit"], len(FRUITS))
        for (draw, relative, turn), rows in rows_of_each(kinds, FRUITS.values()):
            dx, dy, share = _LAYOUTS[table["count"][rows].astype(np.intp) - 1, place].T
            scale = table["scale"][rows]
            at = Place(
                table["x"][rows] + scale * (dx + 0.14 * jitter[rows, place, 0]),
                table["y"][rows] + scale * (dy + 0.14 * jitter[rows, place, 1]),
                scale * share * np.float32(relative),
                np.float32(turn) * np.clip(table["turn"][rows] + 0.8 * jitter[rows, place, 2] * (dx != 0), -1.2, 1.2),
            )
            seeds = table["fruit_seed"][rows] + np.uint32(place * 0x9E3779B1 % 2**32)
            sketch = Sketch(at, seeds, size)
            draw(sketch)
            sketch.put(canvas, region_index, rows, 0)


def _backdrop(table: dict[str, np.ndarray], x: Field, y: Field) -> Field:
    """Every row's own background, (n, 3, H, W), with the soft shadow in which its fruits lie."""
    canvas = np.empty((len(table["tree"]), 3, y.shape[1], x.shape[2]), np.float32)
    tree = table["tree"] == 1
    if tree.any():
        canvas[tree] = backdrops.apple_tree(table["scene_seed"][tree], table["tone"][tree], x, y)
    for backdrop, rows in rows_of_each(np.where(tree, len(BACKDROPS), table["backdrop"]), BACKDROPS.values()):
        seeds, middle = table["scene_seed"][rows], (column(table["x"][rows]), column(table["y"][rows]))
        part = backdrop(seeds, table["tone"][rows], x, y)
        backdrops.lay_dish(part, seeds, table["dish"][rows], middle, x, y)
        reach = column(table["scale"][rows])
        under = ellipse(x, y, (middle[0] + 0.05, middle[1] + 0.06), (reach * 1.15, reach * 1.05), column(0.0 * seeds))
        part *= (1.0 - column(0.32 / table["count"][rows]) * ramp(under, 0.10, -0.16))[:, None]
        canvas[rows] = part
    return canvas
