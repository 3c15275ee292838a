"""Training against the group, an own classifier for each group, and predictions that keep the training set's ratios."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from biaslib.errors import BiaslibError, check_known, refused
from biaslib.metrics import Labels
from biaslib.mitigation.resampling import group_shares
from biaslib.training.objectives import AttributesAndGroup, WithoutMaps, class_weights

_RULES = ("conditional", "max", "sum_of_probabilities", "sum_of_logits")
_ROUNDS = 500  # at most


@dataclass(frozen=True, kw_only=True)
class Adversarial(AttributesAndGroup):
    r"""Attributes, while an adversary that reads the group from the last map is worked against (Wang et al. 2019).

    The adversary, a small network on the averaged map, lowers its own loss; the features get its gradient reversed
    and times `weight` (Ganin and Lempitsky 2015), so that they raise it:
    $\min_{f, h} \max_a L_{attributes}(h(f)) - \lambda L_{group}(a(f))$. The reversal rests while the adversary does no
    better than guessing: beyond that the features would learn to mislead it. Groups count alike in the adversary's
    loss. That it guesses does not show that the group is gone from the map: train a fresh one.

    Targets as `objectives.AttributesAndGroup` takes them; logits (N, A).
    """

    weight: float = 2.0  #: of the reversed gradient, >= 0; 0 leaves an onlooker that changes nothing
    hidden: int = 64  #: width of the adversary's hidden layer

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise BiaslibError(f"weight is how hard the adversary is worked against, 0 or more, not {self.weight!r}.")

    @property
    def outputs(self) -> int:
        """One logit for each attribute."""
        return self.attributes

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """The attributes' mean binary cross-entropy plus the adversary's loss behind a reversal."""
        self.check_learnable(targets)
        if maps.ndim != 4:
            raise BiaslibError("the adversary reads a map (N, C, h, w), which this architecture does not have.")
        weights = class_weights(targets[:, -1].long(), self.groups)
        return AdversarialLoss(maps.shape[1], self.groups, weight=self.weight, hidden=self.hidden, class_weight=weights)


class AdversarialLoss(nn.Module):
    """The loss with the adversary in it."""

    class_weight: torch.Tensor

    def __init__(self, channels: int, groups: int, *, weight: float, hidden: int, class_weight: torch.Tensor) -> None:
        super().__init__()
        self.adversary = nn.Sequential(
            nn.BatchNorm1d(channels, affine=False), nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, groups)
        )
        self.weight = weight
        self.register_buffer("class_weight", class_weight)

    def forward(self, logits: torch.Tensor, targets: torch.Tensor, maps: torch.Tensor | None) -> torch.Tensor:
        """The loss to lower; without maps, that of the attributes alone."""
        loss = binary_cross_entropy_with_logits(logits, targets[:, :-1])
        if maps is None:
            return loss
        if self.training and len(maps) < 2:
            raise BiaslibError("the adversary compares the images of a batch: give batches of at least 2.")
        features, group = maps.mean((2, 3)), targets[:, -1].long()
        guessing = math.log(len(self.class_weight))
        fooled = bool(self._adversary_loss(features.detach(), group) >= guessing)
        return loss + self._adversary_loss(_reversed(features, 0.0 if fooled else self.weight), group)

    def _adversary_loss(self, features: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.adversary(features), group, weight=self.class_weight)


def _reversed(values: torch.Tensor, weight: float) -> torch.Tensor:
    """The same values, whose gradient is multiplied by -weight on its way back."""
    passed = values.view_as(values)
    if passed.requires_grad:  # not where a loss is only measured
        passed.register_hook(lambda gradient: -weight * gradient)
    return passed


@dataclass(frozen=True, kw_only=True)
class DomainIndependent(AttributesAndGroup):
    """A block of A logits for every group; an image trains the block of its own group (Wang et al. 2020).

    Within a block the group is constant and cannot help to tell the attributes. `domain_scores` gives one answer.

    Targets as `objectives.AttributesAndGroup` takes them; logits (N, G A), group after group.
    """

    @property
    def outputs(self) -> int:
        """One logit for each attribute in each group."""
        return self.groups * self.attributes

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """Mean binary cross-entropy of the true group's block."""
        self.check_learnable(targets)
        return WithoutMaps(self._loss)

    def _loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        blocks = logits.unflatten(1, (self.groups, -1))
        own = blocks[torch.arange(len(blocks), device=blocks.device), targets[:, -1].long()]
        return binary_cross_entropy_with_logits(own, targets[:, :-1])


def domain_scores(logits: np.ndarray, rule: str, *, n_groups: int, groups: np.ndarray | None = None) -> np.ndarray:
    r"""One score for each attribute (N, A), higher for more likely (Wang et al. 2020, section 4.2; paper B, Table 6).

    With s the `logits` (N, G A) of a model of `DomainIndependent`, group after group, and $\sigma$ the sigmoid:
    `conditional`: $s_{g, a}$ of the image's known group, from `groups` (N,); `max`: $\max_g s_{g, a}$;
    `sum_of_probabilities`: $\frac{1}{G} \sum_g \sigma(s_{g, a})$; `sum_of_logits`: $\frac{1}{G} \sum_g s_{g, a}$. Only
    the first one is told the group. Scores of different rules have different scales: give each its own thresholds.

    A `BiaslibError` is raised for an unknown rule, logits that are not G blocks, and groups that do not fit.
    """
    check_known("rule", rule, _RULES)
    if logits.ndim != 2 or n_groups < 1 or logits.shape[1] % n_groups:
        raise BiaslibError(f"logits of shape {logits.shape} are not {n_groups} blocks of equal width.")
    blocks = logits.reshape(len(logits), n_groups, -1)
    if rule == "conditional":
        known, n = np.asarray(groups), len(blocks)
        if known.shape != (n,) or known.dtype.kind not in "bui" or not ((known >= 0) & (known < n_groups)).all():
            raise refused("rule without the groups", n=n, last=n_groups - 1)
        return blocks[np.arange(n), known.astype(np.intp)]
    if rule == "sum_of_probabilities":
        blocks = 0.5 * (1 + np.tanh(blocks / 2))  # the sigmoid, without overflow
    return blocks.max(axis=1) if rule == "max" else blocks.mean(axis=1)


@dataclass(frozen=True)
class Constrained:
    """Predictions under constraints, and how far they were met."""

    attributes: np.ndarray  #: (N, A) bool, predicted
    groups: np.ndarray  #: (N,) predicted
    wanted: np.ndarray  #: (A, G) share of each group among the training images with the attribute
    reached: np.ndarray  #: (A, G) the same among the predictions; NaN for an attribute that is never predicted
    met: np.ndarray  #: (A,) bool, every share within the margin; what is never predicted breaks no constraint
    rounds: int  #: of the multipliers' updates, until all were met or at most as many as were allowed


def corpus_constraints(
    attribute_scores: np.ndarray, group_scores: np.ndarray, train: Labels, *, margin: float = 0.05
) -> Constrained:
    r"""Attributes and groups, predicted together so that each attribute keeps its training ratio of groups.

    `attribute_scores` (N, A) are log-odds above the decision threshold, `group_scores` (N, G) log-probabilities, up to
    a constant for each image. Each image takes the group g and the attributes x that maximise $s_g + \sum_a x_a s_a$,
    subject to $|P(\hat g \mid \hat a) - P(g \mid a)| \le$ margin (> 0) for all a and g over the whole set of
    predictions, the second term counted in the labels `train`. Lagrangian relaxation, after Zhao et al. 2017: every
    constraint has a multiplier that grows with its violation and then shifts the scores of the attribute beside the
    group; given the multipliers, each image is decided exactly, by itself. Without active constraints this is each
    attribute's and group's own decision. The relaxation need not meet every constraint: few predicted images leave few
    possible ratios. The round with the smallest sum of violations is returned, and `met` says which hold.

    A `BiaslibError` is raised for scores that do not fit each other or the labels, or are not finite; an attribute that
    no training image has; a margin that is not above 0.
    """
    scores, by_group = _checked_scores(attribute_scores, group_scores, train)
    if not margin > 0:
        raise BiaslibError(f"margin must be above 0, not {margin!r}.")
    wanted = group_shares(train.attributes, train.groups, by_group.shape[1])
    # of the constraints "at most wanted + margin" and "at least wanted - margin"
    multipliers = np.zeros((2, *wanted.shape))
    best, smallest = None, np.inf
    for number in range(1, _ROUNDS + 1):
        attributes, groups = _decided(scores, by_group, _shifts(multipliers, wanted, margin))
        reached = group_shares(attributes, groups, by_group.shape[1])
        # an attribute that is never predicted breaks nothing, and must not be pushed either
        excess = np.nan_to_num(np.stack([reached - wanted, wanted - reached]) - margin, nan=-margin)
        violation = np.clip(excess, 0, None).sum()
        if violation < smallest:
            met = np.asarray((excess <= 0).all(axis=(0, 2)))
            best, smallest = Constrained(attributes, groups, wanted, reached, met, number), violation
        if violation == 0:
            break
        # smaller and smaller steps, towards just inside the margin: at its very edge they would swing for ever
        multipliers = np.clip(multipliers + 1.0 / np.sqrt(number) * (excess + 0.1 * margin), 0, None)
    assert best is not None  # there is a first round
    return replace(best, rounds=number)


def _shifts(multipliers: np.ndarray, wanted: np.ndarray, margin: float) -> np.ndarray:
    """(A, G) what the Lagrangian adds to the score of attribute a beside group g."""
    upper, lower = multipliers
    shared = (upper * (wanted + margin)).sum(axis=1) - (lower * (wanted - margin)).sum(axis=1)
    return lower - upper + shared[:, None]


def _decided(scores: np.ndarray, by_group: np.ndarray, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each image's best group with its best attributes."""
    totals = np.stack(
        [by_group[:, g] + np.clip(scores + shifts[:, g], 0, None).sum(axis=1) for g in range(shifts.shape[1])], axis=1
    )
    groups = totals.argmax(axis=1)
    return scores + shifts.T[groups] > 0, groups


def _checked_scores(
    attribute_scores: np.ndarray, group_scores: np.ndarray, train: Labels
) -> tuple[np.ndarray, np.ndarray]:
    scores, by_group = np.asarray(attribute_scores, float), np.asarray(group_scores, float)
    if scores.ndim != 2 or by_group.ndim != 2 or len(scores) != len(by_group) or not len(scores):
        raise refused("scores of attributes and groups that differ", scores=scores.shape, groups=by_group.shape)
    if not (np.isfinite(scores).all() and np.isfinite(by_group).all()):
        raise BiaslibError("scores must be finite: give log-odds, not probabilities' logarithms of 0.")
    scored, trained = scores.shape[1], train.attributes.shape[1]
    if scored != trained:
        raise BiaslibError(f"{scored} scored attributes but {trained} in the training labels.")
    if train.groups.max() >= by_group.shape[1]:
        raise refused("group without a score", group=int(train.groups.max()), last=by_group.shape[1] - 1)
    never = np.flatnonzero(~train.attributes.any(axis=0))
    if len(never):
        raise BiaslibError(f"no training image has attribute {never[0]}, so it has no ratio to keep: leave it out.")
    return scores, by_group
