"""Every other class activation map, from the grad-cam library, through this package's signature."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from biaslib.attribution._models import batches, check_outputs, checked_targets, split, unchanged
from biaslib.errors import BiaslibError

_NAMES = (
    "AblationCAM", "EigenCAM", "EigenGradCAM", "FEM", "GradCAM", "GradCAMElementWise", "GradCAMPlusPlus", "HiResCAM",
    "KPCA_CAM", "LayerCAM", "RandomCAM", "ScoreCAM", "SegEigenCAM", "XGradCAM",
)  # fmt: skip


def library_cam(name: str) -> Callable[..., torch.Tensor]:
    """A class activation map of the grad-cam library as a function of this package.

    A `BiaslibError` is raised for a name the library does not have.

    Args:
        name: of the library's class, such as "LayerCAM", "EigenCAM", "GradCAMPlusPlus" or "AblationCAM".

    Returns:
        `method(model, images, targets, *, batch=8)` -> (N, T, h, w) float32 on the CPU, >= 0: the library's map of
        the last convolutional stage before it is scaled and resized, its negative values set to 0. It goes through
        the library once a target, on a copy of the model, and asks of model, images and targets what `grad_cam` asks.
        EigenCAM, FEM and KPCA_CAM do not look at the target; RandomCAM draws from numpy's global generator.
    """
    if name not in _NAMES:
        raise BiaslibError(f"There is no class activation map {name!r}: choose one of {', '.join(_NAMES)}.")

    def method(
        model: nn.Module,
        images: np.ndarray | torch.Tensor,
        targets: Sequence[int] | np.ndarray | torch.Tensor,
        *,
        batch: int = 8,
    ) -> torch.Tensor:
        chosen = checked_targets(images, targets, batch)
        maps = []
        with unchanged(model):
            divided = _Divided(copy.deepcopy(model)) if hasattr(model, "forward_features") else model
            for pixels, wanted in batches(model, images, chosen, batch):
                features, head = split(model, pixels[:1])
                with torch.no_grad():
                    check_outputs(chosen, head(features.clone()))
                maps.append(torch.stack([_raw(name, divided, pixels, column) for column in wanted.T], 1))
        return torch.cat(maps)

    method.__name__ = method.__qualname__ = f"library_cam_{name}"
    return method


class _Map(nn.Module):
    """The first half of a model, as the layer whose output the library looks at."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return split(self.model, images)[0].detach().requires_grad_()


class _Divided(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.map, self.head = _Map(model), model.forward_head
        self.channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.map(images) * 1  # a head may begin with a change in place
        return self.head(features.movedim(1, 3) if self.channels_last else features)


def _raw(name: str, model: Any, pixels: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The library's map of each image's target (n, h, w), before it is scaled and resized."""
    import pytorch_grad_cam  # slow to import, and most methods do without
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    cam = getattr(pytorch_grad_cam, name)(model, [model.map])
    found = []
    compute = cam.get_cam_image

    def keep(*args: Any, **kwargs: Any) -> np.ndarray:
        found.append(compute(*args, **kwargs))
        return found[-1]

    cam.get_cam_image = keep
    with torch.enable_grad():
        cam(pixels, [ClassifierOutputTarget(int(target)) for target in targets])
    cam.activations_and_grads.release()
    return torch.from_numpy(np.array(found[0])).float().clamp(min=0)
