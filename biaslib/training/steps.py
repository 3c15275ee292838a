"""One step of a training: what it does to its images, in which precision, by which optimiser, at which rate."""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import nn

from biaslib import models

AUGMENTATIONS: Final = ("flip", "crop")
OPTIMISERS: Final = ("adamw", "adam", "sgd", "rmsprop")
SCHEDULES: Final = ("one_cycle", "cosine", "constant")


def augmented(pixels: torch.Tensor, kinds: tuple[str, ...], *, model: nn.Module) -> torch.Tensor:
    """Mirrored ("flip") and cropped ("crop") at random, from torch's global generator."""
    if "flip" in kinds:
        mirrored = torch.rand(len(pixels), device=pixels.device) < 0.5
        pixels = torch.where(mirrored[:, None, None, None], pixels.flip(2), pixels)
    images = models.to_tensor(pixels, model=model)
    return _random_crop(images) if "crop" in kinds else images


def _random_crop(images: torch.Tensor) -> torch.Tensor:
    """A random part of each image, of 70-100 % of its area and aspect 3/4-4/3, scaled to the full size."""
    n = len(images)
    area = torch.empty(n, device=images.device).uniform_(0.7, 1.0)
    aspect = torch.empty(n, device=images.device).uniform_(math.log(3 / 4), math.log(4 / 3)).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    across = (2 * torch.rand(n, device=images.device) - 1) * (1 - width)
    down = (2 * torch.rand(n, device=images.device) - 1) * (1 - height)
    zero = torch.zeros_like(width)
    theta = torch.stack([torch.stack([width, zero, across], 1), torch.stack([zero, height, down], 1)], 1)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def optimiser(
    parameters: Iterable[nn.Parameter], *, kind: str, learning_rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    """One of `OPTIMISERS`; the momentum is for sgd and rmsprop."""
    common: dict[str, Any] = {"params": list(parameters), "lr": learning_rate, "weight_decay": weight_decay}
    match kind:
        case "adamw":
            return torch.optim.AdamW(**common, fused=True)
        case "adam":
            return torch.optim.Adam(**common, fused=True)
        case "sgd":
            return torch.optim.SGD(**common, momentum=momentum)
        case _:
            return torch.optim.RMSprop(**common, momentum=momentum)


def learning_rate(step: int, steps: int, *, peak: float, schedule: str) -> float:
    """Of one step: one_cycle rises linearly over the first 30 % and then follows a cosine to zero (Smith 2018)."""
    if schedule == "constant":
        return peak
    warm = 0.3 * steps if schedule == "one_cycle" else 0.0
    if step < warm:
        return peak * (0.04 + 0.96 * step / warm)
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))


def autocast(network: nn.Module, precision: str, device: torch.device) -> AbstractContextManager[None]:
    """The forward pass in bfloat16 where that is asked for, or "auto" and the machine and the network gain by it."""
    wanted = precision == "bfloat16" or (precision == "auto" and _gains_by_bfloat16(network, device))
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)


def _gains_by_bfloat16(network: nn.Module, device: torch.device) -> bool:
    # on a CPU the backward pass of depthwise convolutions has no fast kernel for it: training takes 1.6 times as long
    depthwise = any(isinstance(module, nn.Conv2d) and module.groups > 1 for module in network.modules())
    return _has_bfloat16(device) and not (depthwise and device.type == "cpu")


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # older releases of torch cannot tell, and emulation would be slower than float32
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)() if device.type == "cpu" else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
