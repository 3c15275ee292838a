"""How far integrated gradients are from adding up, for models with a planted bias; through the store."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslib import attribution, models, parallel
from biaslib.experiments.planted_maps import Evaluation
from biaslib.experiments.planted_models import Setting, known, trained

Key = tuple[Setting, Evaluation, tuple[int, ...]]


def completeness(
    settings: Sequence[Setting], evaluation: Evaluation, *, steps: Sequence[int] = (64,), scheduler: str | None = None
) -> pd.DataFrame:
    """The completeness gap of the predicted class, for every model, image and number of steps, and the maps' own error.

    Returns:
        One row each, with `model` (its place among the settings), `image`, `steps`; `gap`: the distance between the
        sum of the shares and the difference of the two logits that they share out, as a part of that difference, >= 0,
        see `attribution.completeness_gap`; and `moved`: how much of the map's mass lies elsewhere than with the most
        steps, in [0, 1], NaN where a map is empty.
    """
    trained(settings, scheduler=scheduler)
    keys = [(setting, evaluation, tuple(steps)) for setting in settings]
    found = parallel.stored("planted-completeness", keys, run_completeness, scheduler=scheduler)
    return pd.concat(
        [
            pd.DataFrame({"model": model, "image": np.arange(len(gaps)), "steps": number, "gap": gaps, "moved": moved})
            for model, measured in enumerate(found)
            for number, gaps, moved in zip(steps, measured["gap"], measured["moved"], strict=True)
        ],
        ignore_index=True,
    )


def run_completeness(key: Key) -> dict[str, np.ndarray]:
    """`gap` and `moved`, (steps, N), of one model; on one thread."""
    found: dict[str, np.ndarray] = parallel.single_threaded(_measured, *key)
    return found


def _measured(setting: Setting, evaluation: Evaluation, steps: tuple[int, ...]) -> dict[str, np.ndarray]:
    model = known(setting)
    images = models.to_tensor(evaluation.samples(setting).images)
    targets = model(images).argmax(dim=1, keepdim=True)
    shares = [attribution.integrated_gradients(model, images, targets, steps=number, signed=True) for number in steps]
    gaps = [attribution.completeness_gap(model, images, targets, one)[:, 0].numpy() for one in shares]
    maps = [one.square().sum(2).flatten(1).double().numpy() for one in shares]
    with np.errstate(invalid="ignore"):  # an empty map has no shares of its mass
        masses = [one / one.sum(1, keepdims=True) for one in maps]
    most = masses[int(np.argmax(steps))]
    return {"gap": np.stack(gaps), "moved": np.stack([np.abs(one - most).sum(1) / 2 for one in masses])}
