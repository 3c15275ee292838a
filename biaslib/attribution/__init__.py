"""Where a model looks: `method(model, images, targets, **options) -> (N, T, h, w)` float32 maps, >= 0."""

from biaslib.attribution.epsilon_lrp import epsilon_lrp
from biaslib.attribution.grad_cam import grad_cam
from biaslib.attribution.integrated_gradients import completeness_gap, integrated_gradients
from biaslib.attribution.score_cam import score_cam

__all__ = ["completeness_gap", "epsilon_lrp", "grad_cam", "integrated_gradients", "score_cam"]
