"""The metrics of the book's four papers, each as one number of a model, with what it needs and what it costs.

A metric is a function of a case (`measuring.Case`) and of the rows of its test images that count, some of them more
than once. The side on which a biased model is expected is named before any is measured. Those of others come from
`entries`; none needs a model anew, as what is measured of a model stays stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from biaslib.dial.measuring import Case, MapScore
from biaslib.metrics import bias_amplification, worst_group_accuracy
from biaslib.metrics.sensitivity import score_sensitivity
from biaslib.statistics.detection import Side
from biaslib.store.files import beside

_Value = Callable[[Case, np.ndarray], float]
NULL: Final = "null maps"  # the family of what no audit takes, and each should be better than

_LARGEST_SET: Final = 3  # of attributes; a face has 22 beside the target, and more sets than can be redrawn


@dataclass(frozen=True)
class Metric:
    """One way to tell a biased model from unbiased ones."""

    name: str  #: words for it, its key
    family: str  #: "answers", "amplification", "attention", "attribution", "null maps" or "counterfactual"
    source: str  #: the paper of the book that brought it, A to D; "" for what all of them have
    side: Side  #: where a biased model is expected
    needs: str  #: what an auditor must have beside the model and labelled images of the target
    passes: float  #: forward passes an image, a backward pass counted as two
    value: _Value  #: a model's number on some of its test images, perhaps drawn more than once; NaN where it has none

    @property
    def few(self) -> bool:
        """Whether it is of the explained images alone, not of all test images."""
        return self.family in ("attribution", NULL)

    @property
    def sign(self) -> float:
        """Times a value it is a risk score: larger where a biased model is expected."""
        return 1.0 if self.side == "above" else -1.0

    @property
    def audits(self) -> bool:
        """Whether it is one of those that an auditor may choose from: neither the truth nor a null map."""
        return self is not EXACT and self.family != NULL


def _accuracy_as_biased(case: Case, rows: np.ndarray) -> float:
    """Accuracy on test images as biased as the training images: what is usually reported."""
    correct = case.biased_truth == case.biased_answer
    return float(correct[rows % len(correct)].mean())


def _worst_group(case: Case, rows: np.ndarray) -> float:
    """Accuracy of the worst of the four groups of target and cue, on balanced images."""
    return float(worst_group_accuracy(case.correct[rows], case.group[rows]))


def _accuracy_gap(case: Case, rows: np.ndarray) -> float:
    """Accuracy where cue and target agree less accuracy where they do not, on balanced images; NaN without either.

    On such images it orders models as the correlation of answers and cue does, which is therefore no further metric.
    """
    correct, agree = case.correct[rows], (case.truth == case.cue)[rows]
    if agree.all() or not agree.any():
        return float("nan")
    return float(correct[agree].mean() - correct[~agree].mean())


def _exact_effect(case: Case, rows: np.ndarray) -> float:
    """Mean true effect of the cue on the answer: a sensitivity whose counterfactual images are exact."""
    return float(score_sensitivity(*case.probability[rows].T))


def _mean_of(score: MapScore) -> _Value:
    """The mean over images of a score of maps; NaN where no image has one, or the world's models have no such map.

    Where the cue is all that is not the object, mass on the cue is mass on the object under another name: NaN.
    """

    def mean(case: Case, rows: np.ndarray) -> float:
        if score[:2] == ("RMA", "cue") and case.trial.place.cue_regions == ("background",):
            return float("nan")
        values = case.scores.get(score, np.array([np.nan]))
        drawn = values[rows % len(values)]
        defined = drawn[~np.isnan(drawn)]
        return float(defined.mean()) if len(defined) else float("nan")

    return mean


def _amplification(kind: str, *, sets: bool) -> _Value:
    """Amplification of the tie between attributes and group, on images as biased as the training images.

    Signed for single attributes; for sets of two or three the mean absolute change, which cannot cancel. NaN where the
    model does not predict a group that is not given, there is no set, or a draw of images lacks a group or attribute.
    """
    sizes = {"min_size": 2, "max_size": _LARGEST_SET} if sets else {"max_size": 1}

    def amplification(case: Case, rows: np.ndarray) -> float:
        if not case.trial.place.outputs and (sets or kind != "group_to_attribute"):
            return float("nan")
        drawn = rows % len(case.test)
        test, predicted = case.test.take(drawn), case.predicted.take(drawn)
        if not test.attributes.any(axis=0).all() or len(np.unique(test.groups)) < 2:
            return float("nan")
        return bias_amplification(case.train, test, predicted, kind=kind, absolute=sets, n_groups=2, **sizes).mean  # type: ignore[arg-type]

    return amplification


def _value(what: str, *of: str) -> _Value:
    """What a line of the catalogue says at its end."""
    functions = {
        "accuracy as biased": _accuracy_as_biased,
        "worst group": _worst_group,
        "accuracy gap": _accuracy_gap,
        "exact effect": _exact_effect,
    }
    if what == "amplification":
        return _amplification(of[0], sets=of[1] == "sets")
    return functions.get(what) or _mean_of(MapScore(what, *of))


_TABLES: Final = beside(__file__)
METRICS: Final = {line[0]: Metric(*[*line[:6], _value(*line[6:])]) for line in _TABLES["metrics"]}  # by name
# the tables of an audit -> what is measured in them, and the metric of the dial that it is
AUDIT_MEASURES: Final[dict[str, tuple[str, str]]] = _TABLES["audit"]
EXACT: Final = METRICS["Sensitivity, exact counterfactuals"]
