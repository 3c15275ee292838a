"""The passes that no method can do without, with nothing around them: what maps and AOPC are timed beside."""

import copy

import torch
from torch import nn

from biaslib.attribution import fold_batchnorm

MOST = 1.15  # times of them that a method may take


def folded(model: nn.Module, images: torch.Tensor, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A copy whose batch normalisations are folded away, ready before the clock starts."""
    frozen = copy.deepcopy(model).to(dtype).requires_grad_(False)
    fast = fold_batchnorm(frozen, images[:2].to(dtype))
    assert fast is not frozen
    return fast


def grad_cam(model: nn.Module, images: torch.Tensor, targets: int) -> torch.Tensor:
    """One pass through the features, one through the head, and the head's gradients of all targets at once."""
    with torch.no_grad():
        features = model.forward_features(images.to(memory_format=torch.channels_last))
    mean = features.mean((2, 3), keepdim=True).requires_grad_()
    logits = model.forward_head(mean)
    seeds = torch.eye(targets)[:, None].expand(-1, *logits.shape)
    return torch.autograd.grad(logits, mean, seeds, is_grads_batched=True)[0]


def forward(model: nn.Module, images: torch.Tensor, passes: int, batch: int) -> None:
    """Passes of single images, so many of them at once."""
    some = images.repeat(-(-batch // len(images)), 1, 1, 1)
    with torch.inference_mode():
        for start in range(0, passes, batch):
            model(some[: min(batch, passes - start)]).softmax(1)


def forward_and_backward(model: nn.Module, images: torch.Tensor, passes: int, batch: int) -> None:
    """Passes of single images and of one target's gradient back to the pixels, so many of them at once."""
    some = images.repeat(-(-batch // len(images)), 1, 1, 1)
    for start in range(0, passes, batch):
        pixels = some[: min(batch, passes - start)].clone().requires_grad_()
        torch.autograd.grad(model(pixels)[:, 1].sum(), pixels)
