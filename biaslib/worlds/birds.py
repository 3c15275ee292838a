"""Waterbirds and landbirds on water and on land: a diffuse cue whose strength is a dial."""

import numpy as np
import pandas as pd

from biaslib.samples import Samples
from biaslib.worlds import bird_drawing, landscapes
from biaslib.worlds.drawing import chunks, grid, mix, to_uint8
from biaslib.worlds.factors import CHOICE, SEED, SHARE, Factor, agreement, check_draw, check_size, drawn, halves, read

# A noisy cue in the bird itself: birds told apart by shape alone are followed everywhere or nowhere.
_TYPICAL_PLUMAGE = 0.93

_ATTRIBUTES = {"waterbird": CHOICE, "background": CHOICE}
_BIRD = {
    "plumage": Factor(0, len(bird_drawing.PLUMAGES) - 1, whole=True),
    "tone": SHARE,
    "shade": SHARE,
    "x": Factor(0.0, 1.0, drawn=(0.42, 0.58)),
    "y": Factor(0.0, 1.0, drawn=(0.52, 0.70)),
    "scale": Factor(0.1, 1.0, drawn=(0.27, 0.475)),
    "facing": CHOICE,
    "tilt": Factor(-1.0, 1.0),
    "neck": SHARE,
    "bill": SHARE,
    "bill_tone": SHARE,
    "plump": SHARE,
    "tail": SHARE,
    "wing_bar": SHARE,
    "bird_seed": SEED,
}
_SCENE = {"season": SHARE, "light": SHARE, "horizon": SHARE, "haze": SHARE, "cast": SHARE, "scene_seed": SEED}
_LANDSCAPES = (landscapes.forest, landscapes.water)


class Birds:
    """Waterbirds (target) on water (cue), drawn after the idea of Waterbirds (Sagawa et al. 2020).

    Columns of the table besides `waterbird` (bool) and `background` (int8: 0 land, 1 water); shares lie in [0, 1]:

    * the bird: `plumage` (0-7, in the order of `bird_drawing.PLUMAGES`; the first four are mostly landbirds'),
      `tone` and `shade` (its warmth and brightness), `x`, `y` (its middle in the picture), `scale` (its length),
      `facing` (1: to the right), `tilt` ([-1, 1]), `neck`, `bill`, `plump`, `tail` (lengths and girth), `bill_tone`,
      `wing_bar`, `bird_seed` (feathers);
    * the scene, of either kind: `season` (palette), `light`, `horizon`, `haze`, `cast` (tint), `scene_seed` (layout).

    Every column but `plumage` is independent of the target, and none depends on the strength except `background`.
    """

    name = "birds"
    target = "waterbird"
    cue = "background"
    attributes: tuple[str, ...] = ("waterbird", "background")
    regions: tuple[str, ...] = ("bird", "background")

    def factors(self, n: int, *, strength: float, seed: int) -> pd.DataFrame:
        """Draws n rows: half of them waterbirds, a share (1 + strength) / 2 of each class on its own background.

        The shares are exact to the nearest row. The same seed with another strength gives the same birds and scenes;
        only some backgrounds change between land and water.

        Args:
            n: number of rows, >= 1.
            strength: the dial, in [0, 1].
            seed: >= 0.

        Raises:
            BiaslibError: n, strength or seed out of range.
        """
        check_draw(n, strength, seed)
        rng = np.random.default_rng(seed)
        waterbird = halves(n, rng)
        agrees = agreement(waterbird, strength, rng)
        typical = rng.random(n) < _TYPICAL_PLUMAGE
        table = {"waterbird": waterbird, "background": (waterbird == agrees).astype(np.int8)}
        table |= drawn(_BIRD | _SCENE, n, rng)
        table["plumage"] = (table["plumage"] % 4 + 4 * (waterbird == typical)).astype(np.int8)
        return pd.DataFrame(table)

    def render(self, factors: pd.DataFrame, *, size: int = 64) -> Samples:
        """Draws the rows, each for itself: the same row gives the same pixels in whatever table it stands.

        Args:
            factors: a table from `factors`, edited at will; further columns are left alone.
            size: height and width in pixels.

        Returns:
            Images (n, size, size, 3); labels `waterbird` (bool) and `background` (int8); masks `bird` (covers more than
            half of the pixel) and its complement `background`.

        Raises:
            BiaslibError: a column is missing or a value is out of range; size below 8.
        """
        check_size(size)
        table = read(factors, _ATTRIBUTES | _BIRD | _SCENE)
        images = np.empty((len(factors), size, size, 3), np.uint8)
        bird = np.empty(images.shape[:3], bool)
        x, y = grid(size)
        for rows in chunks(len(factors), size):
            part = {name: values[rows] for name, values in table.items()}
            canvas, cover = bird_drawing.draw(part, x, y)
            images[rows] = to_uint8(mix(_backdrop(part, x, y), canvas, cover[:, None]))
            bird[rows] = cover > 0.5
        labels = pd.DataFrame(
            {
                "waterbird": table["waterbird"].astype(bool),
                "background": table["background"].astype(np.int8),
            }
        )
        return Samples(images, labels, {"bird": bird, "background": ~bird})


def _backdrop(table: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Every row's own landscape, (n, 3, H, W)."""
    canvas = np.empty((len(table["background"]), 3, y.shape[1], x.shape[2]), np.float32)
    for kind, landscape in enumerate(_LANDSCAPES):
        rows = table["background"] == kind
        if rows.any():
            seeds, *lights = (
                table[name][rows] for name in ("scene_seed", "season", "light", "horizon", "haze", "cast")
            )
            canvas[rows] = landscape(landscapes.Scene(seeds, *lights), x, y)
    return canvas
