"""Adversarial training: the last map should tell the attributes and not the group (Wang et al. 2019)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from biaslib.errors import BiaslibError
from biaslib.training.objectives import AttributesAndGroup, class_weights


@dataclass(frozen=True, kw_only=True)
class Adversarial(AttributesAndGroup):
    r"""Attributes, while an adversary that reads the group from the last map is worked against.

    The adversary, a small network on the averaged map, lowers its own loss; the features get its gradient reversed
    and times `weight` (Ganin and Lempitsky 2015), so that they raise it:
    $\min_{f, h} \max_a L_{attributes}(h(f)) - \lambda L_{group}(a(f))$. The reversal rests while the adversary does no
    better than guessing: beyond that the features would learn to mislead it. Groups count alike in the adversary's
    loss. The model itself does not predict the group. That this adversary guesses does not show that the group is gone
    from the map: train a fresh one to find out.

    Targets as `objectives.AttributesAndGroup` takes them; logits (N, A).

    Attributes:
        weight: of the reversed gradient, >= 0; 0 leaves an onlooker that changes nothing.
        hidden: width of the adversary's hidden layer.
    """

    weight: float = 2.0
    hidden: int = 64

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
