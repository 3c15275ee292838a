"""The metrics of the book's four papers, each as one number of a model, with what it needs and what it costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from biaslib.dial.measuring import Measured
from biaslib.metrics import Labels, bias_amplification, worst_group_accuracy
from biaslib.metrics.correlation import matthews_correlation
from biaslib.metrics.sensitivity import score_sensitivity
from biaslib.statistics.detection import Side

# (models of one trial's world, rows of the test images) -> (models,)
Value = Callable[[Sequence[Measured], np.ndarray], np.ndarray]

LARGEST_SET: Final = 3  # of attributes; a face has 22 beside the target, and more sets than can be redrawn
FAMILIES: Final = ("answers", "amplification", "attention", "attribution", "counterfactual")
CHANNELS: Final = 128  # of the last map of the book's small networks, each of which Score-CAM asks about


@dataclass(frozen=True)
class Metric:
    """One way to tell a biased model from unbiased ones.

    Attributes:
        name: words for it, its key.
        family: one of `FAMILIES`.
        source: the paper of the book that brought it, A to D; "" for what all of them have.
        side: where a biased model is expected.
        needs: what an auditor must have beside the model and labelled images of the target.
        passes: forward passes an image, a backward pass counted as two.
        value: gives each model's number on some of the test images, which may be drawn more than once.
        exact: whether it takes pictures that only a generated world has.
        slow: whether it takes long to compute again on other images.
    """

    name: str
    family: str
    source: str
    side: Side
    needs: str
    passes: float
    value: Value
    exact: bool = False
    slow: bool = False


def worst_group(found: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Accuracy of the worst of the four groups of target and cue, on balanced images."""
    correct = np.stack([one.correct for one in found])[:, rows]
    return np.asarray(worst_group_accuracy(correct, found[0].group[rows]))


def accuracy_gap(found: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Accuracy where cue and target agree less accuracy where they do not, on balanced images; NaN without either."""
    correct, agree = np.stack([one.correct for one in found])[:, rows], (found[0].truth == found[0].cue)[rows]
    if agree.all() or not agree.any():
        return np.full(len(found), np.nan)
    return np.asarray(correct[:, agree].mean(axis=1) - correct[:, ~agree].mean(axis=1))


def answers_follow_cue(found: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Matthews correlation of answers and cue, on balanced images, where that of target and cue is 0."""
    return matthews_correlation(np.stack([one.answer for one in found])[:, rows], found[0].cue[rows])


def own_accuracy(found: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Accuracy on test images as biased as the training images: what is usually reported."""
    return np.array([np.mean((one.own_truth == one.own_answer)[rows % len(one.own_truth)]) for one in found])


def exact_effect(found: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
    """Mean true effect of the cue on the answer: a sensitivity whose counterfactual images are exact."""
    return np.array([float(score_sensitivity(*one.probability[rows].T)) for one in found])


def mean_of(name: str) -> Value:
    """The mean over images of a score of maps; NaN where no image has one, or the world's models have no such map."""

    def value(found: Sequence[Measured], rows: np.ndarray) -> np.ndarray:
        return np.array([_mean(one.scores.get(name, np.full(1, np.nan)), rows) for one in found])

    return value


def amplification_of(kind: str, *, sets: bool) -> Value:
    """Amplification of the tie between attributes and group, on images as biased as the training images.

    Signed for single attributes; for sets of two or three the mean size of the change, which cannot cancel. NaN where
    the model does not tell the group, unless the group is what is given; where there is no set; and where a draw of
    images lacks a group or an attribute.
    """
    sizes = {"min_size": 2, "max_size": LARGEST_SET} if sets else {"max_size": 1}

    def one_value(one: Measured, rows: np.ndarray) -> float:
        told = one.trial.world in ("faces", "scenes")
        if not told and (sets or kind != "group_to_attribute"):
            return float("nan")
        some = rows % len(one.own)
        test, said = (_rows(side, some) for side in (one.own, one.said))
        if not test.attributes.any(axis=0).all() or len(np.unique(test.groups)) < 2:
            return float("nan")
        return bias_amplification(one.train, test, said, kind=kind, absolute=sets, n_groups=2, **sizes).mean  # type: ignore[arg-type]

    return lambda found, rows: np.array([one_value(one, rows) for one in found])


def _amplifications() -> tuple[Metric, ...]:
    ways = {
        "group_to_attribute": "group → attribute",
        "attribute_to_group": "attribute → group",
        "undirected": "undirected",
    }
    return tuple(
        Metric(
            f"Amplification, {words}" + (", sets" if sets else ""), "amplification", "B", "above",
            "labels of the group, also in training", 1, amplification_of(kind, sets=sets), slow=True,
        )
        for sets in (False, True)
        for kind, words in ways.items()
    )  # fmt: skip


# a backward pass counts as two forward ones; integrated gradients here have 64 steps, AOPC 73 regions
_PASSES: Final = {"Grad-CAM": 3.0, "Score-CAM": 1.0 + CHANNELS, "Integrated gradients": 192.0, "ε-LRP": 3.0}
_STEPS: Final = 74


def _localisation() -> tuple[Metric, ...]:
    parts: dict[str, Side] = {"object": "below", "cue": "above"}
    return tuple(
        Metric(
            f"{short} of the {part}, {method}", "attribution", "C", side, f"masks of the {part}", passes,
            mean_of(f"{short}, {part}, {method}"),
        )
        for short in ("RMA", "RRA")
        for part, side in parts.items()
        for method, passes in _PASSES.items()
    )  # fmt: skip


_ANSWERS = (
    Metric("Accuracy on data as biased", "answers", "", "below", "nothing more", 1, own_accuracy),
    Metric("Worst-group accuracy", "answers", "A", "below", "labels of the cue", 1, worst_group),
    Metric("Accuracy gap", "answers", "D", "above", "labels of the cue", 1, accuracy_gap),
    Metric("Correlation of answers and cue", "answers", "A", "above", "labels of the cue", 1, answers_follow_cue),
)
_ATTENTION = (
    Metric("Mask score of the object", "attention", "A", "below", "masks of the object", 3,
           mean_of("mask score, object")),
    Metric("Mask score of the cue", "attention", "A", "above", "masks of the cue", 3, mean_of("mask score, cue")),
    Metric("Heatmap score", "attention", "A", "above", "a model that tells the cue", 5, mean_of("heatmap score")),
)  # fmt: skip
_DESTRUCTION = tuple(
    Metric(
        f"AOPC, {method}", "attribution", "C", "above", "which class has the cue", passes + _STEPS,
        mean_of(f"AOPC, {method}"),
    )
    for method, passes in _PASSES.items()
)  # fmt: skip
EXACT: Final = Metric(
    "Sensitivity, exact counterfactuals", "counterfactual", "D", "above", "pairs with and without the cue", 2,
    exact_effect, exact=True,
)  # fmt: skip
METRICS: Final[tuple[Metric, ...]] = (
    *_ANSWERS, *_amplifications(), *_ATTENTION, *_localisation(), *_DESTRUCTION, EXACT,
)  # fmt: skip
BY_NAME: Final = {metric.name: metric for metric in METRICS}


def _mean(values: np.ndarray, rows: np.ndarray) -> float:
    chosen = values[rows % len(values)]
    defined = chosen[~np.isnan(chosen)]
    return float(defined.mean()) if len(defined) else float("nan")


def _rows(labels: Labels, rows: np.ndarray) -> Labels:
    return Labels(labels.attributes[rows], labels.groups[rows], labels.names)
