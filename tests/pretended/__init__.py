"""A pretended accelerator: device `sim`, whose tensors lie in this machine's memory and refuse to mix with the CPU's.

It finds tensors on the wrong device without a graphics card, and computes the CPU's numbers. It says nothing of speed.
"""

import contextlib
import shutil
from pathlib import Path

import torch

NAME = "sim"


class _Module:
    """What torch asks of a device's module."""

    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    device = staticmethod(lambda index: contextlib.nullcontext())
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])
    get_rng_state = staticmethod(lambda device=None: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, device=None: None)


def can_be_built() -> bool:
    return all(map(shutil.which, ("c++", "ninja")))


def install() -> torch.device:
    """Builds the device, half a minute the first time on a machine, and registers it in this process."""
    if not hasattr(torch, NAME):
        from torch.utils.cpp_extension import load

        built = load("pretended_device", [str(Path(__file__).with_name("device.cpp"))], extra_cflags=["-O0"])
        torch.utils.rename_privateuse1_backend(NAME)
        torch._register_device_module(NAME, _Module)
        built.install()
        torch.utils.generate_methods_for_privateuse1_backend()
    return torch.device(NAME)
