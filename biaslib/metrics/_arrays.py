"""NumPy or torch in, the same kind out, without importing torch, which takes seconds."""

import sys
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

from biaslib.errors import BiaslibError, refused

if TYPE_CHECKING:
    from torch import Tensor

AnyArray = Union[np.ndarray, "Tensor"]
Array = TypeVar("Array", np.ndarray, "Tensor")


def is_tensor(values: Any) -> bool:
    """Whether the values are a torch tensor, which nobody has before torch is imported."""
    return isinstance(values, getattr(sys.modules.get("torch"), "Tensor", ()))


def to_numpy(values: Any) -> np.ndarray:
    """The values as a NumPy array, from wherever they are; not a copy where that can be avoided."""
    if is_tensor(values):
        values = values.detach().cpu()
        # NumPy has no bfloat16
        return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    return np.asarray(values)


def like(result: np.ndarray | np.generic, example: Any) -> Any:
    """The result as the example is: a torch tensor on its device (float32 on Apple's, without float64), or NumPy."""
    if is_tensor(example):
        import torch

        if example.device.type == "mps" and result.dtype == np.float64:
            result = result.astype(np.float32)
        return torch.as_tensor(result, device=example.device)
    return result


def broadcast_shape(what: str, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The leading dimensions that two arrays have together; a BiaslibError where they do not broadcast."""
    try:
        return np.broadcast_shapes(first, second)
    except ValueError as error:
        raise refused("leading dimensions that differ", what=what, first=first, second=second) from error


def checked_maps(maps: Any, what: str = "maps") -> np.ndarray:
    """The maps (..., h, w) as NumPy; a BiaslibError where they are no numbers or have no pixel."""
    values = to_numpy(maps)
    if values.ndim < 2 or values.size == 0 or values.dtype.kind not in "fiub":
        kind = f"{values.dtype} of shape {values.shape}"
        raise BiaslibError(f"The {what} must be numbers (..., h, w) with at least one pixel, not {kind}.")
    return values


def checked_masks(masks: Any) -> np.ndarray:
    """The masks (..., h, w) as NumPy; a BiaslibError where they are not bool or have no pixel."""
    values = to_numpy(masks)
    if values.dtype != np.bool_ or values.ndim < 2 or values.size == 0:
        raise refused("masks that are not bool", dtype=values.dtype, shape=values.shape)
    return values


def checked_binary(what: str, values: Any, remedy: str) -> np.ndarray:
    """The values as NumPy bool; a BiaslibError with the remedy where they are neither that nor 0 and 1."""
    array = to_numpy(values)
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iufO" or not ((array == 0) | (array == 1)).all():
        raise BiaslibError(f"{what} must hold 0 and 1 only (or bool): {remedy}.")
    return array.astype(bool)


def grid(maps: Any) -> str:
    """The size of maps (..., h, w) in words."""
    return " x ".join(map(str, np.shape(maps)[-2:]))
