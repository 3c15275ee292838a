"""Borrow a model and give it back as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no parameter gradients inside; every flag as it was afterwards, even after an error.

    The flags are set one by one: `model.eval()` may be overridden, and some architectures fuse their weights in it.
    """
    training = [(module, module.training) for module in model.modules()]
    gradients = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for module, _ in training:
            module.training = False
        for parameter, _ in gradients:
            parameter.requires_grad_(False)
        # the caller may be inside `torch.inference_mode()`, where nothing can be differentiated
        with torch.inference_mode(False):
            yield
    finally:
        for module, flag in training:
            module.training = flag
        for parameter, flag in gradients:
            parameter.requires_grad_(flag)
