"""What a change of the image does to the score."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.metrics._arrays import Array
from biaslib.worlds.protocol import World


def causal_effect(
    predict: Callable[[np.ndarray], Array], world: World, factors: pd.DataFrame, *, cue: str, size: int = 64
) -> Array:
    """The true effect of a cue on a model: every image drawn with it and without, all else the same, subtracted.

    An average over images is the average treatment effect; no estimate is involved, because a generated world draws
    both of the counterfactuals (Pearl's do(cue = 1) and do(cue = 0)).

    Args:
        predict: uint8 images (N, size, size, 3) -> scores (N,), NumPy or torch; or (..., N), such as one row a
            model, which draws the images once for all.
        world: the world that draws.
        factors: N rows as the world's own `factors` makes them.
        cue: the binary column to set, often `world.cue`.
        size: height and width of the images, in pixels.

    Returns:
        (N,) or (..., N): predict(cue = 1) - predict(cue = 0), in the unit of the scores and of their kind.

    Raises:
        BiaslibError: for an unknown or a non-binary cue, no rows, or scores of another shape.
    """
    if cue not in factors.columns:
        raise BiaslibError(f"There is no factor {cue!r}: take one of {', '.join(map(str, factors.columns))}.")
    if len(factors) == 0:
        raise BiaslibError("There are no rows to draw: give at least one.")
    if not factors[cue].isin((0, 1)).all():
        raise BiaslibError(f"The factor {cue!r} is not binary, so it has no one effect: take one that is 0 or 1.")
    # in the column's own type, so that the world draws the same as from its own table
    on, off = (np.full(len(factors), value).astype(factors[cue].to_numpy().dtype) for value in (1, 0))
    with_cue, without = (predict(world.render(factors.assign(**{cue: value}), size=size).images) for value in (on, off))
    if tuple(np.shape(with_cue))[-1:] != (len(factors),):
        raise BiaslibError(
            f"predict must give one score an image, (..., {len(factors)}), not {tuple(np.shape(with_cue))}: "
            "pick one logit or probability."
        )
    return with_cue - without
