"""Models to explain, and what every method promises about them."""

from typing import Any

import torch
from torch import nn

from biaslib import models


def lively(architecture: str, outputs: int = 4, **options: Any) -> nn.Module:
    """A model whose normalisations do something and whose logits differ, which fresh weights do not give."""
    torch.manual_seed(0)
    model = models.build(architecture, outputs, **options).eval()
    images = torch.randn(8, 3, 64, 64)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.train()
                module.momentum = None
        model(images)  # the statistics of these images
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
                module.running_mean += 0.1 * torch.randn_like(module.running_mean)
                module.running_var *= 0.5 + torch.rand_like(module.running_var)
                module.weight *= 0.5 + torch.rand_like(module.weight)
                module.bias += 0.2 * torch.randn_like(module.bias)
        last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
        last.weight *= 5 / model(images).std()
    return model


def state(model: nn.Module) -> list[Any]:
    """Everything of a model that a method must leave as it was."""
    return [
        [module.training for module in model.modules()],
        [(value.requires_grad, None if value.grad is None else value.grad.clone()) for value in model.parameters()],
        [(value.clone(), value.stride()) for value in model.state_dict().values()],
        [len(module._forward_hooks) + len(module._backward_hooks) for module in model.modules()],
        [len(module._forward_pre_hooks) for module in model.modules()],
        {
            f"{name} {key}": 0
            for name, module in model.named_modules()
            for key in (type(module).__name__, *vars(module))
        },
    ]


def trained_halfway(architecture: str = "resnet10t", outputs: int = 2) -> nn.Module:
    """A model with everything that could get lost: mixed modes, mixed `requires_grad`, gradients."""
    torch.manual_seed(0)
    model = models.build(architecture, outputs, hidden=4).train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    model(torch.randn(2, 3, 64, 64)).sum().backward()
    return model


def assert_close(maps: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-4) -> None:
    """Equal within `tolerance` of the largest value."""
    assert maps.shape == expected.shape
    assert expected.abs().max() > 0
    assert (maps - expected).abs().max() <= tolerance * expected.abs().max()
