"""Integrated gradients: every pixel's share of what separates the image from a black one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import torch
from torch import nn

from biaslib.attribution._frozen import frozen
from biaslib.attribution._inputs import check_outputs, checked_targets, logits_of
from biaslib.attribution._lean import lean
from biaslib.errors import BiaslibError
from biaslib.models import to_tensor

Rule = Literal["adaptive", "trapezoid"]
EVEN_AT_FIRST: Final = 16  # points of the adaptive rule before it looks where the others should go
ROUNDING: Final = 1e-5  # part of a sum of shares that is no error of the rule


def integrated_gradients(
    model: nn.Module,
    images: np.ndarray | torch.Tensor,
    targets: Sequence[int] | np.ndarray | torch.Tensor,
    *,
    steps: int = 64,
    baseline: np.ndarray | torch.Tensor | None = None,
    rule: Rule = "adaptive",
    signed: bool = False,
    batch: int = 8,
) -> torch.Tensor:
    r"""Every pixel's share of the difference to a baseline image (Sundararajan et al. 2017, eq. 1).

    $$a_{tc} = (x_c - x'_c) \int_0^1 \frac{\partial y_t(x' + \alpha (x - x'))}{\partial x_c} d\alpha, \qquad
      \mathrm{map}_t = \sum_c a_{tc}^2$$

    with the logit $y_t$ and colour channels c. The shares should add up to $y_t(x) - y_t(x')$ (completeness), but the
    gradients of rectified units jump, and no rule with finitely many points is exact there; `completeness_gap` measures
    what is left.

    The rule "trapezoid" is the usual one: points at even distances, both ends among them. "adaptive" begins with 16
    of these, or all if there are fewer, and halves, round by round and for each target on its own, the intervals that
    add most to the error: those whose width times the change of the shares over them is largest. What then is missing
    in the sum moves weight between the ends of the intervals, in the direction of the expected error, as far as no
    weight becomes negative. So the sum says nothing about the map; compare it with that of more steps. Which rule's
    map is nearer to it depends on the network: the page *Mass and rank* measures both.

    Args:
        model: as `biaslib.models.build` makes them, or any module that maps images to logits. It comes back as it
            was: no hook, the same modes, gradients untouched, even after an error.
        images: (N, 3, H, W) normalised floats, or uint8 (N, H, W, 3) pixels.
        targets: indices of logits, (T,) for all images or (N, T) for each its own.
        steps: how many points of the way from the baseline to the image are looked at, at least 2.
        baseline: the image x' that stands for nothing, normalised: (3, H, W) for all or (N, 3, H, W) for each; None
            is black, which is not 0 after normalisation.
        rule: where the points lie and what they weigh. "adaptive" holds the gradients of all steps of a target, several
            times steps x 3 x H x W values, and shares only the first passes between targets; "trapezoid" shares all.
        signed: give the shares $a_{tc}$ themselves, of every colour and with their sign.
        batch: how many points go through the model at once; bounds the memory of the passes. Larger is not faster on a
            CPU.

    Returns:
        (N, T, H, W) float32 on the CPU, >= 0, squared shares summed over colours; signed (N, T, 3, H, W).

    Raises:
        BiaslibError: for images, targets or a baseline of a wrong shape, a target the model does not have, an unknown
            rule, or fewer than two steps.
    """
    if rule not in get_args(Rule):
        raise BiaslibError(f"rule must be {' or '.join(get_args(Rule))}, not {rule!r}.")
    if steps < 2:
        raise BiaslibError(f"steps must be at least 2 (the two ends of the way), not {steps}.")
    chosen = checked_targets(images, targets, batch)
    like = next(model.parameters(), torch.zeros(()))
    fast: nn.Module | None = None
    shares = []
    with frozen(model):
        for index in range(len(images)):
            pixels = to_tensor(images[index : index + 1], like.device, model=model).to(like.dtype)
            base = _baseline(baseline, model, index, len(images), pixels)
            if fast is None:
                with torch.no_grad():
                    check_outputs(chosen, logits_of(model, pixels))
                fast = lean(model, pixels)
            way = _Way(fast, pixels, base, batch)
            share = (way.even if rule == "trapezoid" else way.adaptive)(chosen[index].tolist(), steps).float().cpu()
            shares.append(share if signed else share.square().sum(1))
    return torch.stack(shares)


def completeness_gap(
    model: nn.Module,
    images: np.ndarray | torch.Tensor,
    targets: Sequence[int] | np.ndarray | torch.Tensor,
    shares: torch.Tensor,
    *,
    baseline: np.ndarray | torch.Tensor | None = None,
    batch: int = 8,
) -> torch.Tensor:
    r"""How far signed shares are from adding up to what they explain.

    $$\mathrm{gap} = \frac{\big|\sum_p a_p - (y_t(x) - y_t(x'))\big|}{|y_t(x) - y_t(x')|}$$

    Args:
        model: the model that was explained; it comes back as it was.
        images: the images that were explained.
        targets: the targets that were explained.
        shares: (N, T, 3, H, W) from `integrated_gradients(..., signed=True)`.
        baseline: the baseline that was used.
        batch: how many images go through the model at once.

    Returns:
        (N, T) float32, >= 0; NaN where image and baseline have the same logit, because then there is nothing to share.

    Raises:
        BiaslibError: as `integrated_gradients`, and for shares of another shape.
    """
    chosen = checked_targets(images, targets, batch)
    if shares.ndim != 5 or shares.shape[:3] != (*chosen.shape, 3):
        raise BiaslibError(
            f"shares must be {(*chosen.shape, 3)} x height x width, not {tuple(shares.shape)}: "
            "call integrated_gradients with signed=True."
        )
    like = next(model.parameters(), torch.zeros(()))
    differences = []
    with frozen(model), torch.no_grad():
        for start in range(0, len(images), batch):
            pixels = to_tensor(images[start : start + batch], like.device, model=model).to(like.dtype)
            rows = range(start, start + len(pixels))
            base = torch.cat([_baseline(baseline, model, row, len(images), pixels[:1]) for row in rows])
            logits = logits_of(model, pixels)
            check_outputs(chosen, logits)
            difference = (logits - logits_of(model, base)).cpu()
            differences.append(difference.gather(1, chosen[start : start + batch].cpu()))
    difference = torch.cat(differences).double()
    gap = (shares.double().sum((2, 3, 4)) - difference).abs() / difference.abs()
    return gap.where(difference != 0, torch.nan).float()


def _baseline(
    baseline: np.ndarray | torch.Tensor | None, model: nn.Module, index: int, n: int, pixels: torch.Tensor
) -> torch.Tensor:
    """The baseline of one image, (1, 3, H, W)."""
    if baseline is None:
        # by the same arithmetic as the images, so that a black pixel's share is exactly 0
        return to_tensor(torch.zeros(1, 1, 1, 3, dtype=torch.uint8), model=model).to(pixels).expand_as(pixels)
    given = torch.as_tensor(baseline)
    size = tuple(pixels.shape[1:])
    if not given.is_floating_point() or tuple(given.shape) not in (size, (n, *size)):
        raise BiaslibError(
            f"baseline must be normalised floats of shape {size} or {(n, *size)}, not {given.dtype} of shape "
            f"{tuple(given.shape)}; leave it out for black."
        )
    return (given if given.ndim == 3 else given[index]).to(pixels)[None]


@dataclass(frozen=True)
class _Way:
    """The straight way from a baseline to an image, and what is seen at points of it."""

    model: nn.Module
    pixels: torch.Tensor
    base: torch.Tensor
    batch: int

    def even(self, targets: list[int], steps: int) -> torch.Tensor:
        """The shares by points at even distances, (T, 3, H, W)."""
        ways = self.points(steps)
        parts = zip(_trapezoid(ways).split(self.batch), ways.split(self.batch), strict=True)
        return torch.stack([_weighted(weights, self.look(way, targets)[0]) for weights, way in parts]).sum(0)

    def adaptive(self, targets: list[int], steps: int) -> torch.Tensor:
        """The shares by points that lie close where the gradient changes, (T, 3, H, W)."""
        ways = self.points(min(steps, EVEN_AT_FIRST))
        found, logits = self.look(ways, targets)
        differences = (logits[:, -1] - logits[:, 0]).double()
        return torch.cat(
            [
                self._refined(ways, found[place][None], differences[place : place + 1], target, steps)
                for place, target in enumerate(targets)
            ]
        )

    def _refined(
        self, ways: torch.Tensor, found: torch.Tensor, difference: torch.Tensor, target: int, steps: int
    ) -> torch.Tensor:
        """The shares of one target, (1, 3, H, W), from what was seen, (1, n, 3, H, W), and what is still looked at."""
        while len(ways) < steps:
            error = ways.diff() * found[0].diff(dim=0).flatten(1).norm(dim=1)
            worst = error.topk(min((len(error) + 1) // 2, steps - len(ways))).indices
            between = (ways[worst] + ways[worst + 1]) / 2
            ways, order = torch.cat([ways, between]).sort()
            found = torch.cat([found, self.look(between, [target])[0]], 1)[:, order]
        sums = found.sum((2, 3, 4), dtype=torch.double)
        return _weighted(_closing(ways.double(), sums, difference).to(found), found)

    def points(self, steps: int) -> torch.Tensor:
        """Points at even distances, (n,): 0 is the baseline, 1 the image."""
        return torch.linspace(0, 1, steps).to(self.pixels)

    def look(self, ways: torch.Tensor, targets: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients times the whole difference, (T, n, 3, H, W), and logits, (T, n), at n points of the way."""
        found, logits = [], []
        for way in ways.split(self.batch):
            points = torch.lerp(self.base, self.pixels, way[:, None, None, None]).requires_grad_()
            with torch.enable_grad():
                seen = logits_of(self.model, points.clone())  # a model may begin with a change in place
                asked = [seen[:, target].sum() for target in targets]
            gradients = [
                torch.autograd.grad(one, points, retain_graph=place < len(asked) - 1)[0]
                for place, one in enumerate(asked)
            ]
            found.append(torch.stack(gradients) * (self.pixels - self.base))
            logits.append(seen.detach()[:, targets].T)
            del points, seen, asked, gradients  # the next points need their room
        return torch.cat(found, 1), torch.cat(logits, 1)


def _weighted(weights: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """The sum over points; `weights` (n,) or (T, n)."""
    return torch.einsum("tn,tnchw->tchw", weights.expand(found.shape[:2]), found)


def _trapezoid(ways: torch.Tensor) -> torch.Tensor:
    """The weights of points at any distances, (n,)."""
    widths = ways.diff()
    return (nn.functional.pad(widths, (1, 0)) + nn.functional.pad(widths, (0, 1))) / 2


def _closing(ways: torch.Tensor, sums: torch.Tensor, differences: torch.Tensor) -> torch.Tensor:
    """Weights (T, n) near the trapezoid's with which `sums`, (T, n), add up to `differences`, (T,); none negative.

    A jump lies anywhere in its interval: the error is an unknown part of half the width times the change, independent
    between intervals. The likeliest errors, given their sum, are in proportion to the square of that product.
    """
    half, weights, changes = ways.diff() / 2, _trapezoid(ways), sums.diff(dim=1)
    direction = half.square() * changes
    rounding = ROUNDING * sums.abs() @ weights
    shift = torch.zeros_like(changes)
    for _ in half:  # each time at least one interval more gives all it can
        missing = differences - sums @ weights - (shift * changes).sum(1)
        missing = missing.where(missing.abs() > rounding, 0)
        if not missing.any():
            break
        free = direction.where(shift.abs() < half, 0)
        part = missing / (free * changes).sum(1)
        shift = (shift + part.nan_to_num(0, 0, 0)[:, None] * free).clamp(-half, half)
    return weights + nn.functional.pad(shift, (1, 0)) - nn.functional.pad(shift, (0, 1))
