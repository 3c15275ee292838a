"""What training does to its images at random, batch by batch."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from biaslib import models

KINDS = ("flip", "crop")


def augmented(pixels: torch.Tensor, kinds: tuple[str, ...], *, model: nn.Module | None = None) -> torch.Tensor:
    """Mirrored ("flip") and cropped ("crop") at random, from torch's global generator.

    Args:
        pixels: (N, H, W, 3) uint8.
        kinds: any of `KINDS`.
        model: whose normalisation is used, see `models.to_tensor`.

    Returns:
        (N, 3, H, W) float32, normalised as the model takes it.
    """
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
