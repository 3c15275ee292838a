"""Image classifiers by name, split where attribution needs it: a feature map, then a head; and where they compute."""

import os
from typing import Any

import torch

from biaslib.errors import refused
from biaslib.models.building import build, cached_batch, first_layers, normalisation, pinned, to_tensor

__all__ = ["build", "cached_batch", "device", "first_layers", "normalisation", "pinned", "placed", "to_tensor"]


def device() -> torch.device:
    """Where networks compute: $BIASLIB_DEVICE (cpu, cuda, cuda:1, mps), else the fastest: CUDA, Apple's, the CPU.

    A device that this machine, or this torch, does not have is a `BiaslibError`.
    """
    chosen = os.environ.get("BIASLIB_DEVICE")
    if not chosen:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:  # an unknown name; a device that is not there or not built in
        raise refused("device that is not here", chosen=chosen) from error
    return torch.device(chosen)


def placed(network: Any) -> Any:
    """The network, a torch module, in evaluation mode, where networks compute.

    NVIDIA's shortened numbers in convolutions (TF32) are switched off: with them maps would keep three digits.
    """
    torch.backends.cudnn.allow_tf32 = False
    return network.to(device()).eval()
