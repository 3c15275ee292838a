"""NumPy or torch in, the same kind out."""

from typing import Any, TypeVar

import numpy as np
import torch

Array = TypeVar("Array", np.ndarray, torch.Tensor)


def to_numpy(values: Any) -> np.ndarray:
    """The values as a NumPy array, from wherever they are; not a copy where that can be avoided."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        # NumPy has no bfloat16
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return np.asarray(values)


def like(result: np.ndarray | np.generic, example: Any) -> Any:
    """The result as a torch tensor on the example's device where the example is one, else as NumPy.

    Apple's GPU (mps) has no float64: a result for it is float32.
    """
    if isinstance(example, torch.Tensor):
        if example.device.type == "mps" and result.dtype == np.float64:
            result = result.astype(np.float32)
        return torch.as_tensor(result, device=example.device)
    return result
