"""Sketches of things that stand on the ground."""

import numpy as np

from biaslib.worlds.drawing import Field, Number, column
from biaslib.worlds.sketch import Place, Sketch


class Upright(Sketch):
    """A sketch of something that stands on the ground, whose shadow is therefore not behind it."""

    def __init__(self, place: Place, seeds: np.ndarray, size: int, reach: float | None = None) -> None:
        """Finds the patches.

        Args:
            place: where the things are.
            seeds: (n,) the seeds of their own colours and shapes.
            size: pixels a side of the picture.
            reach: how far a thing reaches from its middle, in units of its scale; None: over the whole picture.
        """
        if reach is not None:
            super().__init__(Place(place.x, place.y, place.scale * np.float32(reach), place.angle), seeds, size)
            zoom: Number = reach
        else:
            middle, zero = np.full(len(seeds), 0.5, np.float32), np.zeros(len(seeds), np.float32)
            super().__init__(Place(middle, middle, middle, zero), seeds, size)
            zoom = 0.5 / column(place.scale)
            self.u -= 2.0 * (column(place.x) - 0.5)
            self.v -= 2.0 * (column(place.y) - 0.5)
        self.u *= zoom
        self.v *= zoom
        self.lit *= zoom
        self.pixel = self.pixel * zoom

    def _shadow(self) -> Field:
        """No shadow on what is behind."""
        return np.zeros_like(self._cover)
