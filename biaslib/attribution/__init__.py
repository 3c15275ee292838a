"""Where a model looks: `method(model, images, targets, **options) -> (N, T, h, w)` float32 maps, >= 0.

* `grad_cam`: the last map's channels, weighted by their mean gradient; one forward pass for all targets.
* `score_cam`: the same channels, weighted by the score of the image seen through each.
* `integrated_gradients`: each pixel's share of the difference to a black image; `completeness_gap` says how exactly.
* `epsilon_lrp`: each pixel's part in the logit, handed back layer by layer.
* `library_cam`: any other class activation map of the grad-cam library, by its name.

`fold_batchnorm` is what makes the methods that ask a model many times fast: a copy with the same logits in less time.
"""

from biaslib.attribution._models import fold_batchnorm
from biaslib.attribution.epsilon_lrp import epsilon_lrp
from biaslib.attribution.grad_cam import grad_cam
from biaslib.attribution.integrated_gradients import completeness_gap, integrated_gradients
from biaslib.attribution.library_cam import library_cam
from biaslib.attribution.score_cam import score_cam

__all__ = [
    "completeness_gap",
    "epsilon_lrp",
    "fold_batchnorm",
    "grad_cam",
    "integrated_gradients",
    "library_cam",
    "score_cam",
]
