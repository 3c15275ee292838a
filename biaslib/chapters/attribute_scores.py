"""What models of many attributes are measured by: one row an attribute, each number with its interval over models."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslib.chapters.attribute_maps import Attended
from biaslib.errors import BiaslibError
from biaslib.metrics import normalized_average_precision, worst_group_accuracy
from biaslib.metrics.correlation import matthews_correlation
from biaslib.statistics import Interval, interval
from biaslib.statistics.crossed import crossed_interval


def per_attribute(found: Sequence[Attended], *, confidence: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Every measure of the paper's Figures 2, 3 and 10 for every attribute (Serianni et al. 2025).

    Args:
        found: what each of the models says of the same faces.
        confidence: of the intervals.
        seed: of the bootstrap.

    Returns:
        A row an attribute, named by the index `attribute`, in the order of the models' outputs. Intervals
        (`statistics.Interval`), all but the first over models:

        * `score`: heatmap score with the group's map, in [0, 1]; over models and faces;
        * `mcc`: correlation of its predictions with those of the group, in [-1, 1], and `absolute_mcc`: the distance of
          the models' mean from 0;
        * `worst_group_accuracy`: of attribute x group, as annotated; each model's own worst group;
        * `average_precision`: AP_N with the mean number of positives of all annotated attributes;
        * `balanced_accuracy`: mean of the accuracies on faces with and without it, as annotated.

        Counts: `models`; `maps` with a score, of all models together; `constant`: models that give this attribute one
        answer on every face, so that it has no correlation with anything.

        NaN: score and correlations of the group with itself; what needs a label where the faces have none, or all the
        same.

    Raises:
        BiaslibError: for no model, or models of different outputs, groups or faces.
    """
    first = _alike(found)
    group = first.experiment.group
    scores = np.stack([one.scores for one in found])  # (models, faces, attributes)
    logits = np.stack([one.logits for one in found])
    of_group = logits[..., first.of(group)] > 0
    positives = [first.labels[name].sum() for name in first.attributes if name in first.labels]
    n_positive = float(np.mean(positives)) if np.any(positives) else np.nan

    def over_models(values: np.ndarray, low: float = 0.0) -> Interval:
        return interval(values, confidence=confidence, seed=seed, bounds=(low, 1.0))

    rows = []
    for at, name in enumerate(first.attributes):
        predicted, itself = logits[..., at] > 0, name == group
        score = np.full(scores.shape[:2], np.nan) if itself else scores[..., at]
        mcc = np.full(len(found), np.nan) if itself else matthews_correlation(predicted, of_group)
        side = -1.0 if np.nansum(mcc) < 0 else 1.0
        worst, precision, balanced = _against_labels(first, name, logits[..., at], n_positive)
        rows.append(
            {
                "attribute": name,
                "score": crossed_interval(score, confidence=confidence, seed=seed, bounds=(0.0, 1.0)),
                "mcc": over_models(mcc, -1.0),
                "absolute_mcc": over_models(side * mcc),
                "worst_group_accuracy": over_models(worst),
                "average_precision": over_models(precision),
                "balanced_accuracy": over_models(balanced),
                "models": len(found),
                "maps": int(np.isfinite(score).sum()),
                "constant": int((predicted == predicted[:, :1]).all(axis=1).sum()),
            }
        )
    return pd.DataFrame(rows).set_index("attribute")


def _alike(found: Sequence[Attended]) -> Attended:
    """The first of them, where all are about the same."""
    if not found:
        raise BiaslibError("There is no model to measure: give at least one.")
    first = found[0]
    for one in found:
        if one.attributes != first.attributes or one.experiment.group != first.experiment.group:
            raise BiaslibError(
                "The models tell different attributes or have different groups: measure each kind apart."
            )
        if not one.labels.equals(first.labels):
            raise BiaslibError("The models were asked about different faces: evaluate all of them on the same ones.")
    return first


def _against_labels(
    one: Attended, name: str, logits: np.ndarray, n_positive: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Worst-group accuracy, AP_N and balanced accuracy of each model (models,); NaN where labels do not tell."""
    nothing = np.full(len(logits), np.nan)
    group = one.experiment.group
    if name not in one.labels or group not in one.labels:
        return nothing, nothing, nothing
    truth, member = one.labels[name].to_numpy(bool), one.labels[group].to_numpy(bool)
    correct = (logits > 0) == truth
    worst = worst_group_accuracy(correct, 2 * truth + member)
    if truth.all() or not truth.any():
        return worst, nothing, nothing
    precision = normalized_average_precision(truth, logits, n_positive)
    return worst, precision, (correct[:, truth].mean(axis=1) + correct[:, ~truth].mean(axis=1)) / 2
