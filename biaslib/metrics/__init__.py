"""What is measured: arrays in, the same kind out; leading dimensions broadcast; undefined is NaN, never 0."""

from biaslib.metrics.amplification import Amplification, Labels, bias_amplification, independent_errors
from biaslib.metrics.attention_iou import attention_iou, mask_score, resize_masks
from biaslib.metrics.groups import group_accuracy, normalized_average_precision, worst_group_accuracy
from biaslib.metrics.localisation import at_size, expanded, relevance_mass_accuracy, relevance_rank_accuracy
from biaslib.metrics.perturbation import aopc, perturbation_curves
from biaslib.metrics.precision import MeanPrecision, mean_average_precision, set_average_precision
from biaslib.metrics.sensitivity import causal_effect, classification_sensitivity, flip_rates, score_sensitivity
from biaslib.metrics.thresholds import calibrated_thresholds

__all__ = [
    "Amplification",
    "Labels",
    "MeanPrecision",
    "aopc",
    "at_size",
    "attention_iou",
    "bias_amplification",
    "calibrated_thresholds",
    "causal_effect",
    "classification_sensitivity",
    "expanded",
    "flip_rates",
    "group_accuracy",
    "independent_errors",
    "mask_score",
    "mean_average_precision",
    "normalized_average_precision",
    "perturbation_curves",
    "relevance_mass_accuracy",
    "relevance_rank_accuracy",
    "resize_masks",
    "score_sensitivity",
    "set_average_precision",
    "worst_group_accuracy",
]
