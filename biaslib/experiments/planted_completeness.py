"""Whether integrated gradients add up, and how near their maps are, for models with a planted bias; stored."""

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pandas as pd
import torch

from biaslib import attribution, models, parallel
from biaslib.attribution.integrated_gradients import Rule
from biaslib.experiments.planted_maps import Evaluation
from biaslib.experiments.planted_models import Setting, known, trained

RULES: tuple[Rule, ...] = get_args(Rule)
Key = tuple[Setting, Evaluation, int, int]


def completeness(
    settings: Sequence[Setting],
    evaluation: Evaluation,
    *,
    steps: int = 64,
    many: int = 257,
    scheduler: str | None = None,
) -> pd.DataFrame:
    """What both rules of integrated gradients leave of the sum, and how far their maps lie from that of many steps.

    Args:
        settings: the models.
        evaluation: the images; each model's map is that of the class it predicts.
        steps: of the maps.
        many: steps of the map that both are compared with, at even distances.
        scheduler: address of a Dask scheduler; None computes here.

    Returns:
        One row each, with `model` (its place among the settings), `image`, `rule`; `gap`: the distance between the sum
        of the shares and the difference of the two logits that they share out, as a part of that difference, >= 0,
        see `attribution.completeness_gap`; and `moved`: how much of the map's mass lies elsewhere than with many
        steps, in [0, 1], NaN where a map is empty.
    """
    trained(settings, scheduler=scheduler)
    keys = [(setting, evaluation, steps, many) for setting in settings]
    found = parallel.stored("planted-completeness", keys, run_completeness, scheduler=scheduler)
    return pd.concat(
        [
            pd.DataFrame({"model": model, "image": np.arange(len(gaps)), "rule": rule, "gap": gaps, "moved": moved})
            for model, measured in enumerate(found)
            for rule, gaps, moved in zip(RULES, measured["gap"], measured["moved"], strict=True)
        ],
        ignore_index=True,
    )


def run_completeness(key: Key) -> dict[str, np.ndarray]:
    """`gap` and `moved`, (rules, N), of one model; on one thread."""
    found: dict[str, np.ndarray] = parallel.single_threaded(_measured, *key)
    return found


def _measured(setting: Setting, evaluation: Evaluation, steps: int, many: int) -> dict[str, np.ndarray]:
    model = known(setting)
    images = models.to_tensor(evaluation.samples(setting).images, model=model)
    targets = model(images).argmax(dim=1, keepdim=True)

    def shares(steps: int, rule: Rule) -> torch.Tensor:
        return attribution.integrated_gradients(model, images, targets, steps=steps, rule=rule, signed=True)

    found = [shares(steps, rule) for rule in RULES]
    gaps = [attribution.completeness_gap(model, images, targets, one)[:, 0].numpy() for one in found]
    finer = _masses(shares(many, "trapezoid"))
    return {"gap": np.stack(gaps), "moved": np.stack([np.abs(_masses(one) - finer).sum(1) / 2 for one in found])}


def _masses(shares: torch.Tensor) -> np.ndarray:
    """Each pixel's part of its map, (N, pixels); NaN for an empty map."""
    maps = shares.square().sum(2).flatten(1).double()
    masses: np.ndarray = (maps / maps.sum(1, keepdim=True)).numpy()
    return masses
