"""Where a model looks: `method(model, images, targets, **options) -> (N, T, h, w)` float32 maps on the CPU, >= 0.

The model comes back as it was, even after an error. Images are (N, 3, H, W) normalised floats, or uint8 (N, H, W, 3)
pixels; targets index logits, (T,) for all images or (N, T) for each. `batch` images go through the model at once, which
bounds the memory. A `BiaslibError` is raised for images or targets of a wrong shape, or a target that the model lacks.

`METHODS` are the four that Schaaf et al. 2021 compare, with the book's options.
"""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import nn

from biaslib.attribution._models import fold_batchnorm
from biaslib.attribution.class_activation import grad_cam, library_cam, score_cam
from biaslib.attribution.pixels import (
    attention_rollout,
    completeness_gap,
    epsilon_lrp,
    integrated_gradients,
    occlusion,
)

__all__ = [
    "METHODS",
    "Method",
    "attention_rollout",
    "completeness_gap",
    "epsilon_lrp",
    "fold_batchnorm",
    "grad_cam",
    "integrated_gradients",
    "library_cam",
    "occlusion",
    "score_cam",
]

Method = Callable[[nn.Module, torch.Tensor, np.ndarray], torch.Tensor]

# (model, normalised images (N, 3, H, W), targets (N, T)) -> (N, T, h, w); Schaaf et al. 2021, section 3.2
METHODS: Final[dict[str, Method]] = {
    "Grad-CAM": grad_cam,
    "Score-CAM": score_cam,
    "Integrated gradients": functools.partial(integrated_gradients, steps=64),
    # relevance shrinks layer by layer where eps is large; shares and ranks of a map do not depend on its scale
    "ε-LRP": functools.partial(epsilon_lrp, eps=10.0, scaled=True),
}
