"""Where a model looks: `method(model, images, targets, **options) -> (N, T, h, w)` float32 maps on the CPU, >= 0.

* `grad_cam`: the last map's channels, weighted by their mean gradient; one forward pass for all targets.
* `score_cam`: the same channels, weighted by the score of the image seen through each.
* `integrated_gradients`: each pixel's share of the difference to a black image; `completeness_gap` says how exactly.
* `attention_rollout`: the patches that a vision transformer's answer draws on, the same for every target.
* `occlusion`: how far the logit falls when a tile of the image is covered; for any model.
* `epsilon_lrp`: each pixel's part in the logit, handed back layer by layer.
* `library_cam`: any other class activation map of the grad-cam library, by its name.

The model comes back as it was, even after an error. Images are (N, 3, H, W) normalised floats, or uint8 (N, H, W, 3)
pixels; targets are indices of logits, (T,) for all images or (N, T) for each its own. `batch` is how many images go
through the model at once, which bounds the memory. A wrong shape or a target that it lacks is a `BiaslibError`.

`METHODS` are the four that Schaaf et al. 2021 compare, with the book's options.
`fold_batchnorm` is what makes the methods that ask a model many times fast: a copy with the same logits in less time.
"""

import functools
from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import nn

from biaslib.attribution._models import fold_batchnorm
from biaslib.attribution.class_activation import grad_cam, library_cam, score_cam
from biaslib.attribution.epsilon_lrp import epsilon_lrp
from biaslib.attribution.integrated_gradients import completeness_gap, integrated_gradients
from biaslib.attribution.mapless import attention_rollout, occlusion

__all__ = [
    "METHODS", "Method", "attention_rollout", "completeness_gap", "epsilon_lrp", "fold_batchnorm", "grad_cam",
    "integrated_gradients", "library_cam", "occlusion", "score_cam",
]  # fmt: skip

Method = Callable[[nn.Module, torch.Tensor, np.ndarray], torch.Tensor]

# (model, normalised images (N, 3, H, W), targets (N, T)) -> (N, T, h, w); Schaaf et al. 2021, section 3.2
METHODS: Final[dict[str, Method]] = {
    "Grad-CAM": grad_cam,
    "Score-CAM": score_cam,
    "Integrated gradients": functools.partial(integrated_gradients, steps=64),
    # relevance shrinks layer by layer where eps is large; shares and ranks of a map do not depend on its scale
    "ε-LRP": functools.partial(epsilon_lrp, eps=10.0, scaled=True),
}
