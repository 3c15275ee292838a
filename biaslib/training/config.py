"""How a classifier is trained, in one frozen record, and what the record's words stand for."""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import nn

from biaslib import models
from biaslib.errors import BiaslibError, check_known, check_number

# what a word of the record may be
_CHOICES: Final = {
    "loss": ("cross_entropy", "binary"),
    "optimiser": ("adamw", "adam", "sgd", "rmsprop"),
    "schedule": ("one_cycle", "cosine", "constant"),
    "precision": ("auto", "float32", "bfloat16"),
    "keep": ("last", "best"),
}
_AUGMENTATIONS: Final = ("flip", "crop")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a classifier is trained; equal configurations and data give equal weights on one machine."""

    #: a name that `models.build` knows; with ImageNet's weights it gets their tag (`pinned`)
    architecture: str = "small"
    outputs: int = 2  #: classes for cross-entropy, attributes for the binary loss
    hidden: int | None = None  #: width of a hidden layer before the last one
    weights: str | None = None  #: None, "imagenet", a local file or folder, see `models.build`
    #: how many of the first convolutions, with everything between them, keep the weights they start with, and their
    #: normalisations the statistics
    frozen: int = 0
    loss: str = "cross_entropy"  #: (one class an image) or "binary" (one yes or no an attribute)
    #: weigh classes inversely to their frequency; for the binary loss, each attribute's positive images by (1 - p) / p
    balanced: bool = True
    epochs: int = 6  #: passes over the training images
    batch: int = 64  #: images a step
    optimiser: str = "adamw"  #: or adam, sgd, rmsprop
    learning_rate: float = 4e-3  #: its peak
    weight_decay: float = 1e-4  #: of the optimiser
    momentum: float = 0.9  #: of sgd and rmsprop
    schedule: str = "one_cycle"  #: or cosine, constant
    #: any of flip (mirror at random) and crop (random area of 70-100 %, aspect 3/4-4/3)
    augmentation: tuple[str, ...] = ("flip",)
    #: float32, bfloat16 for the forward pass, or auto, bfloat16 where the machine computes with it and the network
    #: gains by it, which on a CPU those with depthwise convolutions do not
    precision: str = "auto"
    keep: str = "last"  #: epoch, or the "best" on the validation loss
    seed: int = 0  #: of initial weights, order, augmentation and dropout

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        for name, known in _CHOICES.items():
            check_known(name, getattr(self, name), known)
        if unknown := set(self.augmentation) - set(_AUGMENTATIONS):
            raise BiaslibError(f"augmentation knows {', '.join(_AUGMENTATIONS)}, not {', '.join(sorted(unknown))}.")
        for name in ("outputs", "epochs", "batch"):
            check_number(name, getattr(self, name), 1, whole=True)
        check_number("frozen, a number of convolutions,", self.frozen, 0, whole=True)


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


def autocast(network: nn.Module, precision: str, device: torch.device) -> AbstractContextManager[None]:
    """The forward pass in bfloat16 where that is asked for, or "auto" and the machine and the network gain by it."""
    # on a CPU the backward pass of depthwise convolutions has no fast kernel for it: training takes 1.6 times as long
    depthwise = any(isinstance(module, nn.Conv2d) and module.groups > 1 for module in network.modules())
    gains = _has_bfloat16(device) and not (depthwise and device.type == "cpu")
    wanted = precision == "bfloat16" or (precision == "auto" and gains)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # older releases of torch cannot tell, and emulation would be slower than float32
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)() if device.type == "cpu" else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
