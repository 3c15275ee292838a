"""Domain-independent training: one classifier of the attributes for each group, features shared (Wang et al. 2020)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from biaslib.errors import BiaslibError
from biaslib.training.objectives import AttributesAndGroup

_RULES = ("conditional", "max", "sum_of_probabilities", "sum_of_logits")


@dataclass(frozen=True, kw_only=True)
class DomainIndependent(AttributesAndGroup):
    """A block of A logits for every group; an image trains the block of its own group.

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
    r"""One score for each attribute from the blocks of all groups (Wang et al. 2020, section 4.2; paper B, Table 6).

    With s the logits and $\sigma$ the sigmoid: `conditional`: $s_{g, a}$ of the image's known group;
    `max`: $\max_g s_{g, a}$; `sum_of_probabilities`: $\frac{1}{G} \sum_g \sigma(s_{g, a})$; `sum_of_logits`:
    $\frac{1}{G} \sum_g s_{g, a}$. Only the first one is told the group. Scores of different rules have different
    scales: give each its own thresholds.

    Args:
        logits: (N, G A), group after group, as a model of `DomainIndependent` predicts them.
        rule: one of the four.
        n_groups: G.
        groups: (N,) known groups; for the conditional rule only.

    Returns:
        (N, A), higher for more likely.

    Raises:
        BiaslibError: for an unknown rule, logits that are not G blocks, or groups that are missing or do not fit.
    """
    if rule not in _RULES:
        raise BiaslibError(f"rule must be one of {', '.join(_RULES)}, not {rule!r}.")
    if logits.ndim != 2 or n_groups < 1 or logits.shape[1] % n_groups:
        raise BiaslibError(f"logits of shape {logits.shape} are not {n_groups} blocks of equal width.")
    blocks = logits.reshape(len(logits), n_groups, -1)
    match rule:
        case "conditional":
            known = _known(groups, len(logits), n_groups)
            return blocks[np.arange(len(blocks)), known]
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
