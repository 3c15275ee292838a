"""Which of a model's outputs tells what."""

from collections.abc import Sequence

import torch

from biaslib.errors import BiaslibError


def check_outputs(outputs: int, output: int | None, group_outputs: Sequence[int]) -> None:
    """Whether a model with so many outputs has these.

    Raises:
        BiaslibError: where it has not, or the target's is not named and there are several.
    """
    if output is None and outputs > 2:
        raise BiaslibError(f"The model has {outputs} outputs: say which one tells the target, counted from 0.")
    if output is None and group_outputs:
        raise BiaslibError("Outputs for groups need the output of the target named, too.")
    for one in (*(() if output is None else (output,)), *group_outputs):
        if not 0 <= one < outputs:
            raise BiaslibError(f"There is no output {one}: the model has {outputs}, counted from 0.")


def are_shares(outputs: torch.Tensor) -> bool:
    """Whether every row is probabilities that add up to 1, as softmax gives them."""
    whole = outputs.ndim == 2 and outputs.shape[1] > 1 and bool((outputs >= 0).all())
    return whole and torch.allclose(outputs.sum(dim=1), torch.ones(len(outputs), device=outputs.device), atol=1e-3)


def read_for_itself(outputs: int, output: int | None, group_outputs: Sequence[int], threshold: float) -> str:
    """What to know where one of several outputs tells the target; "" where all of them are asked for."""
    if output is None or outputs == len({output, *group_outputs}):
        return ""
    other = (
        "leave the output out" if outputs == 2 else "give a module that returns two: the largest other, and this one"
    )
    return (
        f"The model has {outputs} outputs, and output {output} was read for itself, above {threshold:g} being yes, as "
        "is right where every output answers a question of its own; where they are classes of which the largest wins, "
        f"{other}."
    )


def said(output: int | None, outputs: int) -> str:
    """Which output tells the target, in words."""
    if output is not None:
        return f"output {output}, counted from 0"
    return "the only output" if outputs == 1 else "the second output less the first (two classes)"
