"""Layer-wise relevance propagation through zennit's rules, and by the rule of the DeepExplain toolbox."""

import copy
from typing import Any

import torch
from torch import nn
from zennit.core import Composite
from zennit.rules import Epsilon, Norm, Pass
from zennit.types import AvgPool, BatchNorm, Linear

from biaslib.attribution._inputs import logits_of
from biaslib.attribution._lean import lean
from biaslib.attribution._relevance import (
    REMEDY,
    RelevanceMode,
    ToolboxActivation,
    check_layers,
    is_activation,
    merge_normalisations,
)
from biaslib.errors import BiaslibError

STABILISER = 1e-6  # zennit's, where a sum or a mean is shared out


def prepared(model: nn.Module, pixels: torch.Tensor, rule: str, eps: float) -> nn.Module:
    """A copy in float64 that relevance can be handed back through by the rule.

    Raises:
        BiaslibError: for a layer that "epsilon" has no rule for.
    """
    copied = copy.deepcopy(model).double()
    if rule == "epsilon":
        check_layers(copied)
        if lean(copied, pixels) is copied:
            raise BiaslibError(
                "With its batch normalisations merged away the model says something else, so that LRP would explain "
                f"another model: {REMEDY}."
            )
        merge_normalisations(copied, pixels)
    else:
        for name, module in list(copied.named_modules(remove_duplicate=False)):
            if ToolboxActivation.knows(module):
                copied.set_submodule(name, ToolboxActivation(module, eps))
    return copied


def relevance(model: nn.Module, pixels: torch.Tensor, targets: torch.Tensor, rule: str, eps: float) -> torch.Tensor:
    """(n, T, 3, H, W) of each pixel's colours in each target's logit, through a prepared model."""
    return (_by_rule if rule == "epsilon" else _by_toolbox)(model, pixels, targets, eps)


def _by_rule(model: nn.Module, pixels: torch.Tensor, targets: torch.Tensor, eps: float) -> torch.Tensor:
    stabiliser = min(eps, STABILISER)
    composite = Composite(lambda _context, _name, layer: _rule_of(layer, eps, stabiliser))
    pixels = pixels.clone().requires_grad_()
    with composite.context(model) as registered, torch.enable_grad():
        with RelevanceMode(registered, stabiliser):
            logits = logits_of(registered, pixels * 1)
        return _backwards(logits, logits.detach(), pixels, targets)


def _rule_of(layer: nn.Module, eps: float, stabiliser: float) -> Any:
    if is_activation(layer) or isinstance(layer, BatchNorm):  # a merged normalisation does nothing
        return Pass()
    if isinstance(layer, AvgPool):
        return Norm(stabiliser)
    return Epsilon(eps) if isinstance(layer, Linear) else None


def _by_toolbox(model: nn.Module, pixels: torch.Tensor, targets: torch.Tensor, eps: float) -> torch.Tensor:
    pixels = pixels.clone().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, pixels.clone())
        return _backwards(logits, torch.ones_like(logits), pixels, targets) * pixels.detach()[:, None]


def _backwards(logits: torch.Tensor, start: torch.Tensor, pixels: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """What reaches the pixels from each target's logit, where it sets out as `start`."""
    found = []
    for target in targets.T:
        seed = torch.zeros_like(logits).scatter_(1, target[:, None], start.gather(1, target[:, None]))
        found.append(torch.autograd.grad(logits, pixels, seed, retain_graph=True)[0])
    return torch.stack(found, 1)
