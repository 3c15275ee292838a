"""What every method asks of its model, images and targets, and how it borrows the model."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from biaslib.errors import BiaslibError, refused
from biaslib.models import to_tensor

Images = np.ndarray | torch.Tensor
Targets = Sequence[int] | np.ndarray | torch.Tensor

_MOST_DIFFERENCE = 5e-5  # of two logits


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
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


def checked_targets(images: np.ndarray | torch.Tensor, targets: Any, batch: int | None) -> torch.Tensor:
    """The targets of every image, (N, T)."""
    n = len(images)
    if n == 0:
        raise BiaslibError("There are no images to explain: give at least one.")
    if batch is not None and batch < 1:
        raise BiaslibError(f"batch must be at least 1, not {batch}.")
    chosen = torch.as_tensor(targets)
    if chosen.dtype == torch.bool or chosen.is_floating_point() or chosen.is_complex():
        raise BiaslibError(f"targets must be whole numbers (indices of logits), not {chosen.dtype}.")
    if chosen.ndim == 1:
        chosen = chosen.expand(n, -1)
    if chosen.ndim != 2 or len(chosen) != n or chosen.shape[1] == 0:
        raise refused("targets of another shape", n=n, shape=tuple(torch.as_tensor(targets).shape))
    return chosen.long()


def place_of(model: nn.Module) -> torch.device:
    """Where the model computes; a model without weights on the CPU."""
    return next(model.parameters(), torch.zeros(())).device


def batches(
    model: nn.Module, images: Any, targets: torch.Tensor, batch: int, dtype: torch.dtype | None = None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Some images at a time as the model takes them (or in `dtype`), with their targets, where the model computes."""
    like = next(model.parameters(), torch.zeros(()))
    for start in range(0, len(images), batch):
        pixels = to_tensor(images[start : start + batch], like.device, model=model)
        yield pixels.to(dtype or like.dtype), targets[start : start + batch].to(like.device)


def check_outputs(targets: torch.Tensor, logits: torch.Tensor) -> None:
    """Refuses targets that the logits (n, outputs) do not have."""
    if targets.min() < 0 or targets.max() >= logits.shape[1]:
        wrong = targets.min() if targets.min() < 0 else targets.max()
        raise BiaslibError(f"There is no target {wrong}: the model has {logits.shape[1]} outputs, counted from 0.")


def logits_of(model: Any, pixels: torch.Tensor) -> torch.Tensor:
    """(n, outputs), by way of the map where there is one."""
    if hasattr(model, "forward_features") and hasattr(model, "forward_head"):
        return model.forward_head(model.forward_features(pixels))
    return model(pixels)


@torch.no_grad()
def split(model: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """The map (n, C, h, w) and the head that takes it, whatever order the architecture keeps its channels in."""
    if not hasattr(model, "forward_features") or not hasattr(model, "forward_head"):
        raise refused("model in one piece", model=type(model).__name__)
    features = model.forward_features(pixels)
    if getattr(features, "ndim", 0) != 4:
        shape = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
        raise refused("model without a map", shape=shape)
    if getattr(model, "output_fmt", "NCHW") == "NHWC":
        return features.movedim(3, 1), lambda map_: model.forward_head(map_.movedim(1, 3))
    return features, model.forward_head


@torch.no_grad()
def fold_batchnorm(model: nn.Module, pixels: torch.Tensor) -> nn.Module:
    """A copy that computes the same logits in about half the time on a CPU; the model itself where there is none.

    Batch normalisations with fixed statistics are folded into the convolutions that feed them, and the weights lie in
    channels-last order, which suits convolutions better. Which normalisation follows which convolution is seen in a
    forward pass, and the copy is used only if it gives these images the logits of the model, in evaluation mode.
    """
    pixels = pixels.to(next(model.parameters(), pixels).device)
    pairs, expected = _normalised_convolutions(model, pixels)
    try:
        copied = copy.deepcopy(model)
        for convolution, name in pairs:
            normalisation = copied.get_submodule(name)
            _fold(copied.get_submodule(convolution), normalisation)
            # nothing remains, or the activation, which timm keeps inside some of its normalisations
            copied.set_submodule(name, nn.Sequential(*normalisation.children()))
        copied = copied.to(memory_format=torch.channels_last)
        found = logits_of(copied, pixels)
    except (RuntimeError, TypeError, AttributeError):  # cannot be copied, or reads what is gone
        return model
    # a softmax over scores sees absolute differences
    same = found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=_MOST_DIFFERENCE)
    return copied if same else model


def _normalised_convolutions(model: nn.Module, pixels: torch.Tensor) -> tuple[list[tuple[str, str]], torch.Tensor]:
    """The names of convolutions and of the normalisations of what they have just put out; and the images' logits."""
    names = {module: name for name, module in model.named_modules()}
    made: dict[nn.Module, list[torch.Tensor]] = {}
    taken: dict[nn.Module, list[torch.Tensor]] = {}

    def note(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            made.setdefault(module, []).append(output)
        else:
            taken.setdefault(module, []).append(inputs[0])

    kinds = (nn.Conv2d, nn.BatchNorm2d)
    hooks = [module.register_forward_hook(note) for module in names if isinstance(module, kinds)]
    try:
        logits = logits_of(model, pixels)
    finally:
        for hook in hooks:
            hook.remove()
    # a layer that runs twice would be folded for one of its two uses only
    once = {id(outputs[0]): names[module] for module, outputs in made.items() if len(outputs) == 1}
    pairs = [
        (once[id(inputs[0])], names[module])
        for module, inputs in taken.items()
        if len(inputs) == 1 and id(inputs[0]) in once and module.running_mean is not None
    ]
    return pairs, logits


def _fold(convolution: Any, normalisation: Any) -> None:
    like = convolution.weight
    factor = (normalisation.running_var.double() + normalisation.eps).rsqrt()
    if normalisation.weight is not None:
        factor = factor * normalisation.weight
    bias = -normalisation.running_mean * factor
    if convolution.bias is not None:
        bias = bias + convolution.bias * factor
    if normalisation.bias is not None:
        bias = bias + normalisation.bias
    convolution.weight = nn.Parameter((like * factor[:, None, None, None]).to(like.dtype), requires_grad=False)
    convolution.bias = nn.Parameter(bias.to(like.dtype), requires_grad=False)
