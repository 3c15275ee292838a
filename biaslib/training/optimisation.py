"""Optimisers and schedules of the learning rate, by name."""

import math
from collections.abc import Iterable
from typing import Any, Final

import torch
from torch import nn

OPTIMISERS: Final = ("adamw", "adam", "sgd", "rmsprop")
SCHEDULES: Final = ("one_cycle", "cosine", "constant")


def optimiser(
    parameters: Iterable[nn.Parameter], *, kind: str, learning_rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """One of `OPTIMISERS`; the momentum is for sgd and rmsprop."""
    common: dict[str, Any] = {"params": list(parameters), "lr": learning_rate, "weight_decay": weight_decay}
    match kind:
        case "adamw":
            return torch.optim.AdamW(**common, fused=True)
        case "adam":
            return torch.optim.Adam(**common, fused=True)
        case "sgd":
            return torch.optim.SGD(**common, momentum=momentum)
        case _:
            return torch.optim.RMSprop(**common, momentum=momentum)


def learning_rate(step: int, steps: int, *, peak: float, schedule: str) -> float:
    """Of one step: one_cycle rises linearly over the first 30 % and then follows a cosine to zero (Smith 2018)."""
    if schedule == "constant":
        return peak
    warm = 0.3 * steps if schedule == "one_cycle" else 0.0
    if step < warm:
        return peak * (0.04 + 0.96 * step / warm)
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))
