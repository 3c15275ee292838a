"""The metrics of the book's four papers, each as one number of a model, with what it needs and what it costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from biaslib.dial.measuring import MapScore, Measured
from biaslib.metrics import bias_amplification, worst_group_accuracy
from biaslib.metrics.groups import matthews_correlation
from biaslib.metrics.sensitivity import score_sensitivity
from biaslib.statistics.detection import Side

# (models of one world, rows of the test images) -> (models,)
_Value = Callable[[Sequence[Measured], np.ndarray], np.ndarray]

_LARGEST_SET: Final = 3  # of attributes; a face has 22 beside the target, and more sets than can be redrawn
_CHANNELS: Final = 128  # of the last map of the book's small networks, each of which Score-CAM asks about
# a backward pass counts as two forward ones; integrated gradients here have 64 steps, AOPC 73 regions
_PASSES: Final = {"Grad-CAM": 3.0, "Score-CAM": 1.0 + _CHANNELS, "Integrated gradients": 192.0, "ε-LRP": 3.0}
_AOPC_PASSES: Final = 74
_DIRECTIONS: Final = {
    "group_to_attribute": "group → attribute",
    "attribute_to_group": "attribute → group",
    "undirected": "undirected",
}


@dataclass(frozen=True)
class _Metric:
    """One way to tell a biased model from unbiased ones."""

    name: str  # words for it, its key
    family: str  # "answers", "amplification", "attention", "attribution" or "counterfactual"
    source: str  # the paper of the book that brought it, A to D; "" for what all of them have
    side: Side  # where a biased model is expected
    needs: str  # what an auditor must have beside the model and labelled images of the target
    passes: float  # forward passes an image, a backward pass counted as two
    value: _Value  # each model's number on some of the test images, which may be drawn more than once
    exact: bool = False  # whether it takes pictures that only a generated world has
    slow: bool = False  # whether it takes long to compute again on other images

    @property
    def sign(self) -> float:
        """Times a value it is a risk score: larger where a biased model is expected."""
        return 1.0 if self.side == "above" else -1.0


def _accuracy_as_biased(models: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Accuracy on test images as biased as the training images: what is usually reported."""
    correct = [model.biased_truth == model.biased_answer for model in models]
    return np.array([np.mean(right[rows % len(right)]) for right in correct])


def _worst_group(models: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Accuracy of the worst of the four groups of target and cue, on balanced images."""
    correct = np.stack([model.correct for model in models])[:, rows]
    return np.asarray(worst_group_accuracy(correct, models[0].group[rows]))


def _accuracy_gap(models: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Accuracy where cue and target agree less accuracy where they do not, on balanced images; NaN without either."""
    correct = np.stack([model.correct for model in models])[:, rows]
    agree = (models[0].truth == models[0].cue)[rows]
    if agree.all() or not agree.any():
        return np.full(len(models), np.nan)
    return np.asarray(correct[:, agree].mean(axis=1) - correct[:, ~agree].mean(axis=1))


def _answers_follow_cue(models: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Matthews correlation of answers and cue, on balanced images, where that of target and cue is 0."""
    return matthews_correlation(np.stack([model.answer for model in models])[:, rows], models[0].cue[rows])


def _exact_effect(models: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Mean true effect of the cue on the answer: a sensitivity whose counterfactual images are exact."""
    return np.array([float(score_sensitivity(*model.probability[rows].T)) for model in models])


def _mean_of(score: MapScore) -> _Value:
    """The mean over images of a score of maps; NaN where no image has one, or the world's models have no such map."""

    def mean(model: Measured, rows: np.ndarray) -> float:
        values = model.scores.get(score, np.array([np.nan]))
        drawn = values[rows % len(values)]
        defined = drawn[~np.isnan(drawn)]
        return float(defined.mean()) if len(defined) else float("nan")

    return lambda models, rows: np.array([mean(model, rows) for model in models])


def _amplification(kind: str, *, sets: bool) -> _Value:
    """Amplification of the tie between attributes and group, on images as biased as the training images.

    Signed for single attributes; for sets of two or three the mean absolute change, which cannot cancel. NaN where the
    model does not predict the group, unless the group is what is given; where there is no set; and where a draw of
    images lacks a group or an attribute.
    """
    sizes = {"min_size": 2, "max_size": _LARGEST_SET} if sets else {"max_size": 1}

    def amplification(model: Measured, rows: np.ndarray) -> float:
        predicts_group = model.trial.world in ("faces", "scenes")
        if not predicts_group and (sets or kind != "group_to_attribute"):
            return float("nan")
        drawn = rows % len(model.test)
        test, predicted = model.test.take(drawn), model.predicted.take(drawn)
        if not test.attributes.any(axis=0).all() or len(np.unique(test.groups)) < 2:
            return float("nan")
        return bias_amplification(model.train, test, predicted, kind=kind, absolute=sets, n_groups=2, **sizes).mean  # type: ignore[arg-type]

    return lambda models, rows: np.array([amplification(model, rows) for model in models])


EXACT: Final = _Metric(
    "Sensitivity, exact counterfactuals", "counterfactual", "D", "above", "pairs with and without the cue", 2,
    _exact_effect, exact=True,
)  # fmt: skip
_ALL: Final[tuple[_Metric, ...]] = (
    _Metric("Accuracy on data as biased", "answers", "", "below", "nothing more", 1, _accuracy_as_biased),
    _Metric("Worst-group accuracy", "answers", "A", "below", "labels of the cue", 1, _worst_group),
    _Metric("Accuracy gap", "answers", "D", "above", "labels of the cue", 1, _accuracy_gap),
    _Metric("Correlation of answers and cue", "answers", "A", "above", "labels of the cue", 1, _answers_follow_cue),
    *(
        _Metric(f"Amplification, {words}" + (", sets" if sets else ""), "amplification", "B", "above",
               "labels of the group, also in training", 1, _amplification(kind, sets=sets), slow=True)
        for sets in (False, True)
        for kind, words in _DIRECTIONS.items()
    ),
    _Metric("Mask score of the object", "attention", "A", "below", "masks of the object", 3,
           _mean_of(MapScore("mask score", "object"))),
    _Metric("Mask score of the cue", "attention", "A", "above", "masks of the cue", 3,
           _mean_of(MapScore("mask score", "cue"))),
    _Metric("Heatmap score", "attention", "A", "above", "a model that tells the cue", 5,
           _mean_of(MapScore("heatmap score", "target"))),
    *(
        _Metric(f"{score} of the {part}, {method}", "attribution", "C", "below" if part == "object" else "above",
               f"masks of the {part}", passes, _mean_of(MapScore(score, part, method)))
        for score in ("RMA", "RRA")
        for part in ("object", "cue")
        for method, passes in _PASSES.items()
    ),
    *(
        _Metric(f"AOPC, {method}", "attribution", "C", "above", "which class has the cue", passes + _AOPC_PASSES,
               _mean_of(MapScore("AOPC", "answer", method)))
        for method, passes in _PASSES.items()
    ),
    EXACT,
)  # fmt: skip
METRICS: Final = {metric.name: metric for metric in _ALL}  # by name
