"""How far integrated gradients are from adding up, for models with a planted bias; through the store."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslib import attribution, models, parallel
from biaslib.experiments.planted_maps import Evaluation
from biaslib.experiments.planted_models import Setting, known, trained

Key = tuple[Setting, Evaluation, int]


def completeness(
    settings: Sequence[Setting], evaluation: Evaluation, *, steps: Sequence[int] = (64,), scheduler: str | None = None
) -> pd.DataFrame:
    """The completeness gap of the predicted class, for every model, image and number of steps.

    Returns:
        One row each, with `model` (its place among the settings), `image`, `steps` and `gap`: the distance between the
        sum of the shares and the difference of the two logits that they share out, as a part of that difference, >= 0;
        see `attribution.completeness_gap`.
    """
    trained(settings, scheduler=scheduler)
    keys = [(setting, evaluation, number) for setting in settings for number in steps]
    found = parallel.stored("planted-completeness", keys, run_completeness, scheduler=scheduler)
    return pd.concat(
        [
            pd.DataFrame({"model": settings.index(key[0]), "image": np.arange(len(gaps)), "steps": key[2], "gap": gaps})
            for key, gaps in zip(keys, found, strict=True)
        ],
        ignore_index=True,
    )


def run_completeness(key: Key) -> np.ndarray:
    """(N,) gaps of one model; on one thread."""
    found: np.ndarray = parallel.single_threaded(_gaps, *key)
    return found


def _gaps(setting: Setting, evaluation: Evaluation, steps: int) -> np.ndarray:
    model = known(setting)
    images = models.to_tensor(evaluation.samples(setting).images)
    targets = model(images).argmax(dim=1, keepdim=True)
    shares = attribution.integrated_gradients(model, images, targets, steps=steps, signed=True)
    return attribution.completeness_gap(model, images, targets, shares)[:, 0].numpy()
