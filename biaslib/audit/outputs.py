"""How the numbers that a model returns are read as a yes or a no."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from biaslib.errors import BiaslibError


@dataclass(frozen=True)
class Reading:
    """How a row of K outputs is read; a result above 0 is a yes.

    Attributes:
        yes: the outputs that speak for yes, of which the largest counts.
        no: the classes that speak for no, of which the largest is subtracted; empty where the output of `yes` answers
            a question of its own.
        groups: the outputs that answer the questions about the groups, in their order.
        threshold: what is subtracted from every output that answers a question of its own.
    """

    yes: tuple[int, ...]
    no: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    threshold: float = 0.0

    def __call__(self, outputs: torch.Tensor) -> torch.Tensor:
        """(N, K), or (N,) for one output -> (N, 1 + groups), the target's first."""
        outputs = outputs.reshape(len(outputs), -1)
        if self.no:
            return outputs[:, self.yes].amax(1, keepdim=True) - outputs[:, self.no].amax(1, keepdim=True)
        return outputs[:, [*self.yes, *self.groups]] - self.threshold

    def words(self) -> str:
        """For the report."""
        if not self.no:
            return f"output {self.yes[0]}, counted from 0, above {self.threshold:g}"
        return f"yes where the largest of the outputs {_listed(self.yes)} is above the largest of {_listed(self.no)}"


def reading(
    outputs: int,
    *,
    output: int | None = None,
    yes: Sequence[int] = (),
    no: Sequence[int] = (),
    groups: Sequence[int] = (),
    threshold: float | None = None,
) -> Reading:
    """How a model with so many outputs is to be read.

    Outputs can be classes, of which the largest wins, or each of them can answer a question of its own. The numbers do
    not tell which, so a model with more outputs than are asked for is refused until somebody says it.

    Args:
        outputs: how many there are, K.
        output: the one that answers the question about the target; None where there is one, or two classes.
        yes: the classes that mean yes.
        no: the classes that mean no; empty: all others.
        groups: the outputs that answer the questions about the groups.
        threshold: an output above it says yes; None: 0, that of logits.

    Raises:
        BiaslibError: for an output that is not there, for choices that exclude each other, and where it is not clear
            how the outputs are to be read.
    """
    for number in (*(() if output is None else (output,)), *yes, *no, *groups):
        if not 0 <= number < outputs:
            raise BiaslibError(f"There is no output {number}: the model has {outputs}, counted from 0.")
    if yes or no:
        return _classes(outputs, output, yes, no, groups, threshold)
    if output is None and groups:
        raise BiaslibError("Outputs for groups need the output of the target named, too.")
    if output is None and outputs == 2:
        if threshold is not None:
            raise BiaslibError(
                "Two outputs are read as two classes, of which the larger wins, and need no threshold: leave it out, "
                "or name the output that it is for."
            )
        return Reading((1,), (0,))
    if output is None and outputs > 2:
        raise BiaslibError(
            f"The model has {outputs} outputs: name the classes that mean yes where the largest output wins, or the "
            "output that tells the target, with its threshold, where every output answers a question of its own."
        )
    asked = (output or 0, *groups)
    if threshold is None and outputs > len(set(asked)):
        raise BiaslibError(
            f"Output {output} is one of {outputs}: name it as a class that means yes where the largest output wins, or "
            "give its threshold (0 for logits, 0.5 for probabilities) where every output answers a question of its own."
        )
    return Reading((asked[0],), (), tuple(groups), threshold or 0.0)


def _classes(
    outputs: int,
    output: int | None,
    yes: Sequence[int],
    no: Sequence[int],
    groups: Sequence[int],
    threshold: float | None,
) -> Reading:
    if output is not None or groups or threshold is not None:
        raise BiaslibError(
            "Classes of which the largest wins go without an output, outputs for groups and a threshold: leave those "
            "out, or the classes."
        )
    if not yes:
        raise BiaslibError("There are classes that mean no and none that mean yes: name those, too.")
    both = sorted({*yes} & {*no})
    if both:
        raise BiaslibError(f"Class {both[0]} means yes and no at once: name it in one of the two.")
    others = tuple(no) or tuple(number for number in range(outputs) if number not in yes)
    if not others:
        raise BiaslibError(f"All {outputs} classes mean yes, so nothing can be a no: name fewer of them.")
    return Reading(tuple(yes), others)


def numbers(text: str) -> list[int]:
    """The numbers of a list with ranges, such as "281-285,290"; both ends of a range belong to it.

    Raises:
        BiaslibError: for anything else.
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or part.strip().endswith("-"):
            raise BiaslibError(f"Classes are numbers and ranges such as 281-285,290, not {text!r}.")
        found += range(int(first), int(last or first) + 1)
    if not found or len(set(found)) < len(found):
        raise BiaslibError(f"Classes are named once each, and a range begins with its smaller end, not {text!r}.")
    return found


def are_shares(outputs: torch.Tensor) -> bool:
    """Whether every row is probabilities that add up to 1, as softmax gives them."""
    whole = outputs.ndim == 2 and outputs.shape[1] > 1 and bool((outputs >= 0).all())
    return whole and torch.allclose(outputs.sum(dim=1), torch.ones(len(outputs), device=outputs.device), atol=1e-3)


def _listed(classes: tuple[int, ...]) -> str:
    """Numbers with runs written as ranges."""
    runs: list[list[int]] = []
    for number in sorted(classes):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs)
