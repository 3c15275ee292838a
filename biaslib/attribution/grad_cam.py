"""Grad-CAM for many targets at the price of one forward pass."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from biaslib.attribution._models import batches, check_outputs, checked_targets, split, unchanged

_Head = Callable[[torch.Tensor], torch.Tensor]


def grad_cam(
    model: nn.Module,
    images: np.ndarray | torch.Tensor,
    targets: Sequence[int] | np.ndarray | torch.Tensor,
    *,
    absolute: bool = False,
    batch: int = 64,
) -> torch.Tensor:
    r"""How much each place of the last map speaks for each target (Selvaraju et al. 2017, eq. 1 and 2).

    $$\mathrm{map}_t = \mathrm{ReLU}\Big(\sum_c w_{tc} F_c\Big), \qquad
      w_{tc} = \frac{1}{hw} \sum_{ij} \frac{\partial y_t}{\partial F_{cij}}$$

    with the map F of the last convolutional stage and the logit $y_t$. The sum over places of a gradient is the
    derivative along a shift of the whole channel, so only (N, C) numbers a target are differentiated; and where the
    head sees the map through its mean alone (global average pooling), differentiating the head at that mean gives
    them for all targets at once. The maps are raw: not scaled, not resized.

    Args:
        model: with timm's `forward_features` and `forward_head`; it comes back as it was, even after an error.
        images: (N, 3, H, W) normalised floats, or uint8 (N, H, W, 3) pixels.
        targets: indices of logits, (T,) for all images or (N, T) for each its own.
        absolute: explain $|y_t|$, as for an attribute whose absence is a decision too (Serianni et al. 2025,
            supplement A). A logit of exactly 0 has a zero map.
        batch: how many images go through the model at once; bounds the memory.

    Returns:
        (N, T, h, w) float32 on the CPU, >= 0. A map may be 0 everywhere: nothing speaks for the target.

    Raises:
        BiaslibError: images or targets of a wrong shape, a target the model lacks, or a model without a map.
    """
    chosen = checked_targets(images, targets, batch)
    maps = []
    with unchanged(model):
        for pixels, wanted in batches(model, images, chosen, batch):
            # in this memory order convolutions are about a fifth faster on a CPU
            features, head = split(model, pixels.to(memory_format=torch.channels_last))
            maps.append(_maps(features, head, wanted, absolute))
    return torch.cat(maps)


def _maps(features: torch.Tensor, head: _Head, targets: torch.Tensor, absolute: bool) -> torch.Tensor:
    mean = features.mean((2, 3), keepdim=True)
    with torch.no_grad():
        logits = head(features.clone())  # a head may begin with an activation in place
    check_outputs(targets, logits)
    point = mean if _sees_only_the_mean(head, mean, logits) else features
    shift = torch.zeros_like(mean, requires_grad=True)
    with torch.enable_grad():
        shifted = head(point + shift)
    # as many targets at once as keep their gradients no larger than the map
    at_once = features.numel() // point.numel()
    maps = []
    for chosen in targets.T.split(at_once):  # (k, n)
        seeds = torch.zeros(*chosen.shape, logits.shape[1], dtype=logits.dtype, device=logits.device)
        seeds.scatter_(2, chosen[..., None], 1.0)
        if absolute:
            seeds *= logits.sign()
        weights = _gradient(shifted, shift, seeds).flatten(2) / features[0, 0].numel()  # (k, n, C)
        maps.append(torch.einsum("knc,nchw->nkhw", weights, features).relu().float().cpu())
    return torch.cat(maps, dim=1)


def _sees_only_the_mean(head: _Head, mean: torch.Tensor, logits: torch.Tensor) -> bool:
    try:
        with torch.no_grad():
            pooled = head(mean.clone())
    except (RuntimeError, AssertionError):  # the head insists on the size of its map
        return False
    # too strict costs time, too lax would cost truth
    return pooled.shape == logits.shape and bool((pooled - logits).abs().max() <= 1e-4 * logits.abs().max())


def _gradient(outputs: torch.Tensor, inputs: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
    """The gradient for each seed, (k, *inputs.shape)."""
    if len(seeds) == 1:  # plain: every layer has a plain derivative, not every layer a batched one
        return torch.autograd.grad(outputs, inputs, seeds[0], retain_graph=True)[0][None]
    return torch.autograd.grad(outputs, inputs, seeds, retain_graph=True, is_grads_batched=True)[0]
