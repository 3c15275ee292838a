"""A world that no room of the package knows: upright bars (target) and flat ones, some with a dot (cue) beside them."""

from typing import ClassVar

import numpy as np

from biaslib.worlds.base import CHOICE, SHARE, World


class Bars(World):
    """Bars on a grey ground. Columns: `upright` (bool), `dot` (int8: 0 none, 1 in the corner), `shade`, `place`."""

    name = "bars"
    target = "upright"
    cue = "dot"
    attributes = ("upright", "dot")
    regions = ("bar", "dot", "ground")
    _classes = ("dot",)
    _columns: ClassVar = {"upright": CHOICE, "dot": CHOICE, "shade": SHARE, "place": SHARE}

    def _draw(self, table, region_index, size):
        images = np.full((len(region_index), size, size, 3), 110, np.uint8)
        rows, columns = np.mgrid[:size, :size] / size
        for image, index, upright, dot, shade, place in zip(
            images, region_index, *(table[name] for name in ("upright", "dot", "shade", "place")), strict=True
        ):
            across = columns if upright else rows
            bar = np.abs(across - 0.4 - 0.2 * place) < 0.06
            image[bar], index[bar] = 150 + 60 * shade, 0
            spot = (rows > 0.8) & (columns > 0.8)
            if dot:
                image[spot], index[spot] = (200, 40, 40), 1
        return images


WORLD = Bars()
PLACE = {
    "target": "upright or flat bar", "cue": "a red dot", "kind": "small object", "regions": ["bar"],
    "cue_regions": ["dot"], "training": {"architecture": "small", "epochs": 2},
}  # fmt: skip
