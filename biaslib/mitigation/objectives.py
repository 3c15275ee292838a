"""Training against the group: an adversary on the last map, or a classifier of the attributes for each group."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from biaslib.errors import BiaslibError
from biaslib.training.objectives import AttributesAndGroup, class_weights

_RULES = ("conditional", "max", "sum_of_probabilities", "sum_of_logits")


@dataclass(frozen=True, kw_only=True)
class Adversarial(AttributesAndGroup):
    r"""Attributes, while an adversary that reads the group from the last map is worked against (Wang et al. 2019).

    The adversary, a small network on the averaged map, lowers its own loss; the features get its gradient reversed
    and times `weight` (Ganin and Lempitsky 2015), so that they raise it:
    $\min_{f, h} \max_a L_{attributes}(h(f)) - \lambda L_{group}(a(f))$. The reversal rests while the adversary does no
    better than guessing: beyond that the features would learn to mislead it. Groups count alike in the adversary's
    loss. The model itself does not predict the group. That this adversary guesses does not show that the group is gone
    from the map: train a fresh one to find out.

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
        reversed_features = _Reversal.apply(features, 0.0 if fooled else self.weight)
        return loss + self._adversary_loss(reversed_features, group)

    def _adversary_loss(self, features: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.adversary(features), group, weight=self.class_weight)


class _Reversal(torch.autograd.Function):
    """The same values, whose gradient is multiplied by -weight on its way back."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, weight: float) -> torch.Tensor:
        ctx.weight = weight
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return -ctx.weight * gradients[0], None


@dataclass(frozen=True, kw_only=True)
class DomainIndependent(AttributesAndGroup):
    """A block of A logits for every group; an image trains the block of its own group (Wang et al. 2020).

    Within a block the group is constant, so that it cannot help to tell the attributes. The model does not predict
    the group: `domain_scores` turns the blocks into one answer.

    Targets as `objectives.AttributesAndGroup` takes them; logits (N, G A), group after group.
    """

    @property
    def outputs(self) -> int:
        """One logit for each attribute in each group."""
        return self.groups * self.attributes

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """Mean binary cross-entropy of the true group's block."""
        self.check_learnable(targets)
        return _DomainIndependentLoss(self.groups)


class _DomainIndependentLoss(nn.Module):
    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, logits: torch.Tensor, targets: torch.Tensor, maps: torch.Tensor | None) -> torch.Tensor:
        blocks = logits.unflatten(1, (self.groups, -1))
        own = blocks[torch.arange(len(blocks), device=blocks.device), targets[:, -1].long()]
        return binary_cross_entropy_with_logits(own, targets[:, :-1])


def domain_scores(logits: np.ndarray, rule: str, *, n_groups: int, groups: np.ndarray | None = None) -> np.ndarray:
    r"""One score for each attribute (N, A), higher for more likely (Wang et al. 2020, section 4.2; paper B, Table 6).

    With s the `logits` (N, G A) of a model of `DomainIndependent`, group after group, and $\sigma$ the sigmoid:
    `conditional`: $s_{g, a}$ of the image's known group, from `groups` (N,); `max`: $\max_g s_{g, a}$;
    `sum_of_probabilities`: $\frac{1}{G} \sum_g \sigma(s_{g, a})$; `sum_of_logits`: $\frac{1}{G} \sum_g s_{g, a}$. Only
    the first one is told the group. Scores of different rules have different scales: give each its own thresholds.

    A `BiaslibError` is raised for an unknown rule, logits that are not G blocks, or groups that are missing or do not
    fit.
    """
    if rule not in _RULES:
        raise BiaslibError(f"rule must be one of {', '.join(_RULES)}, not {rule!r}.")
    if logits.ndim != 2 or n_groups < 1 or logits.shape[1] % n_groups:
        raise BiaslibError(f"logits of shape {logits.shape} are not {n_groups} blocks of equal width.")
    blocks = logits.reshape(len(logits), n_groups, -1)
    match rule:
        case "conditional":
            return blocks[np.arange(len(blocks)), _known(groups, len(logits), n_groups)]
        case "max":
            return blocks.max(axis=1)
        case "sum_of_probabilities":
            return (0.5 * (1 + np.tanh(blocks / 2))).mean(axis=1)  # the sigmoid, without overflow
        case _:
            return blocks.mean(axis=1)


def _known(groups: np.ndarray | None, n: int, n_groups: int) -> np.ndarray:
    if groups is None:
        raise BiaslibError("the conditional rule is told every image's group: give `groups`, or take another rule.")
    known = np.asarray(groups)
    if known.shape != (n,) or known.dtype.kind not in "bui" or (n and not 0 <= known.min() <= known.max() < n_groups):
        raise BiaslibError(f"groups must be {n} whole numbers from 0 to {n_groups - 1}, one for each row of logits.")
    return known.astype(np.intp)
