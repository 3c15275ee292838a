"""What every method asks of its model, images and targets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from biaslib.errors import BiaslibError

Head = Callable[[torch.Tensor], torch.Tensor]


def checked_targets(images: np.ndarray | torch.Tensor, targets: Any, batch: int | None) -> torch.Tensor:
    """The targets of every image, (N, T).

    Raises:
        BiaslibError: for no images, a batch of none, or targets that are not indices for these images.
    """
    n = len(images)
    if n == 0:
        raise BiaslibError("There are no images to explain: give at least one.")
    if batch is not None and batch < 1:
        raise BiaslibError(f"batch must be at least 1, not {batch}.")
    chosen = torch.as_tensor(targets)
    if chosen.dtype == torch.bool or chosen.is_floating_point() or chosen.is_complex():
        raise BiaslibError(f"targets must be whole numbers (indices of logits), not {chosen.dtype}.")
    if chosen.ndim == 1:
        chosen = chosen.expand(n, -1)
    if chosen.ndim != 2 or len(chosen) != n or chosen.shape[1] == 0:
        raise BiaslibError(
            f"targets must be (T,) for all images or ({n}, T) for each of the {n} images, with T >= 1, "
            f"not {tuple(torch.as_tensor(targets).shape)}."
        )
    return chosen.long()


def check_outputs(targets: torch.Tensor, logits: torch.Tensor) -> None:
    """Refuses targets that the logits (n, outputs) do not have."""
    if targets.min() < 0 or targets.max() >= logits.shape[1]:
        wrong = targets.min() if targets.min() < 0 else targets.max()
        raise BiaslibError(f"There is no target {wrong}: the model has {logits.shape[1]} outputs, counted from 0.")


def logits_of(model: Any, pixels: torch.Tensor) -> torch.Tensor:
    """(n, outputs), by way of the map where there is one."""
    if hasattr(model, "forward_features") and hasattr(model, "forward_head"):
        return model.forward_head(model.forward_features(pixels))
    return model(pixels)


@torch.no_grad()
def split(model: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, Head]:
    """The map (n, C, h, w) and the head that takes it, whatever order the architecture keeps its channels in.

    Raises:
        BiaslibError: for a model without the two methods of the split, or without a map.
    """
    if not hasattr(model, "forward_features") or not hasattr(model, "forward_head"):
        raise BiaslibError(
            f"{type(model).__name__} cannot be split into a map and a head: give it the methods forward_features and "
            "forward_head, as the models of biaslib.models.build have."
        )
    features = model.forward_features(pixels)
    if not isinstance(features, torch.Tensor) or features.ndim != 4:
        shape = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
        raise BiaslibError(
            f"{type(model).__name__} has no map of channels x height x width (its features are {shape}): "
            "a class activation map needs a convolutional architecture."
        )
    if getattr(model, "output_fmt", "NCHW") == "NHWC":
        return features.movedim(3, 1), lambda map_: model.forward_head(map_.movedim(1, 3))
    return features, model.forward_head
