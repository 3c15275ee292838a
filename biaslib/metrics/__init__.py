"""What is measured: arrays in, the same kind out; leading dimensions broadcast; undefined is NaN, never 0."""

from biaslib.metrics.amplification import Amplification, bias_amplification
from biaslib.metrics.attention_iou import attention_iou, mask_score, resize_masks
from biaslib.metrics.groups import (
    PredictabilityAmplification,
    disparities,
    group_accuracy,
    group_rates,
    normalized_average_precision,
    predictability_amplification,
    worst_group_accuracy,
)
from biaslib.metrics.labels import Labels, permutation_baseline
from biaslib.metrics.localisation import dilate_to_area, relevance_mass_accuracy, relevance_rank_accuracy, upsample_maps
from biaslib.metrics.perturbation import aopc, perturbation_curves
from biaslib.metrics.precision import (
    MeanPrecision,
    calibrated_thresholds,
    mean_average_precision,
    set_average_precision,
)
from biaslib.metrics.sensitivity import (
    absolute_score_change,
    causal_effect,
    classification_sensitivity,
    flip_rates,
    score_sensitivity,
)

__all__ = [
    "Amplification",
    "Labels",
    "MeanPrecision",
    "PredictabilityAmplification",
    "absolute_score_change",
    "aopc",
    "attention_iou",
    "bias_amplification",
    "calibrated_thresholds",
    "causal_effect",
    "classification_sensitivity",
    "dilate_to_area",
    "disparities",
    "flip_rates",
    "group_accuracy",
    "group_rates",
    "mask_score",
    "mean_average_precision",
    "normalized_average_precision",
    "permutation_baseline",
    "perturbation_curves",
    "predictability_amplification",
    "relevance_mass_accuracy",
    "relevance_rank_accuracy",
    "resize_masks",
    "score_sensitivity",
    "set_average_precision",
    "upsample_maps",
    "worst_group_accuracy",
]
