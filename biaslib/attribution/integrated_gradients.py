"""Integrated gradients: every pixel's share of what separates the image from a black one."""

import torch
from torch import nn

from biaslib.attribution._models import (
    Images,
    Targets,
    batches,
    check_outputs,
    checked_targets,
    fold_batchnorm,
    logits_of,
    place_of,
    unchanged,
)
from biaslib.errors import check_number, refused
from biaslib.models import to_tensor


def integrated_gradients(
    model: nn.Module,
    images: Images,
    targets: Targets,
    *,
    steps: int = 64,
    baseline: Images | None = None,
    signed: bool = False,
    batch: int | None = None,
) -> torch.Tensor:
    r"""Every pixel's share of the difference to a baseline image (Sundararajan et al. 2017, eq. 1).

    $$a_{tc} = (x_c - x'_c) \int_0^1 \frac{\partial y_t(x' + \alpha (x - x'))}{\partial x_c} d\alpha, \qquad
      \mathrm{map}_t = \sum_c a_{tc}^2$$

    with the logit $y_t$ and colour channels c. The integral is a trapezoid rule with `steps` points at even distances,
    both ends among them (captum's "riemann_trapezoid"). The shares should add up to $y_t(x) - y_t(x')$ (completeness).
    They do so only nearly, because the gradients of rectified units jump and no rule with finitely many points is exact
    there. `completeness_gap` measures what is missing. All targets share the forward passes.

    `steps`, at least 2, are the points of the way from the baseline to the image. `baseline` is the image x' that
    stands for nothing, normalised: (3, H, W) for all or (N, 3, H, W) for each; None is black, which is not 0 after
    normalisation. With `signed` the shares $a_{tc}$ themselves are given, (N, T, 3, H, W), of every colour and with
    their sign. `batch` is how many points, of one or more images, go through the model at once, which is any module
    that maps images to logits; None: 8 on a CPU, where more are not faster, elsewhere 128. A `BiaslibError` is also
    raised for fewer steps and for a baseline of another shape.
    """
    check_number("steps, the two ends of the way among them,", steps, 2, whole=True)
    chosen = checked_targets(images, targets, batch)
    batch = batch or (8 if place_of(model).type == "cpu" else 128)
    fast: nn.Module | None = None
    shares = []
    with unchanged(model):
        rows = iter(range(len(images)))
        for pixels, wanted in batches(model, images, chosen, max(1, batch // steps)):
            base = torch.cat([_baseline(baseline, model, next(rows), len(images), pixels[:1]) for _ in pixels])
            if fast is None:
                with torch.no_grad():
                    check_outputs(chosen, logits_of(model, pixels))
                fast = fold_batchnorm(model, pixels)
            mean = _mean_gradients(fast, pixels, base, wanted, steps, batch)
            share = (mean * (pixels - base)[:, None]).float().cpu()
            shares.append(share if signed else share.square().sum(2))
    return torch.cat(shares)


def completeness_gap(
    model: nn.Module,
    images: Images,
    targets: Targets,
    shares: torch.Tensor,
    *,
    baseline: Images | None = None,
    batch: int = 8,
) -> torch.Tensor:
    r"""How far signed shares are from adding up to what they explain.

    $$\mathrm{gap} = \frac{\big|\sum_p a_p - (y_t(x) - y_t(x'))\big|}{|y_t(x) - y_t(x')|}$$

    Shares are (N, T, 3, H, W) from `integrated_gradients(..., signed=True)`; model, images, targets and baseline are
    those that were explained. `batch` images go through the model at once. The gap is (N, T) float32, >= 0; NaN where
    image and baseline have the same logit, because then there is nothing to share. Errors are as there.
    """
    chosen = checked_targets(images, targets, batch)
    if shares.ndim != 5 or shares.shape[:3] != (*chosen.shape, 3):
        raise refused("shares that are pooled", wanted=(*chosen.shape, 3), shape=tuple(shares.shape))
    differences = []
    with unchanged(model), torch.no_grad():
        rows = iter(range(len(images)))
        for pixels, wanted in batches(model, images, chosen, batch):
            bases = [_baseline(baseline, model, next(rows), len(images), pixels[:1]) for _ in pixels]
            logits = logits_of(model, pixels)
            check_outputs(chosen, logits)
            difference = logits - logits_of(model, torch.cat(bases))
            differences.append(difference.gather(1, wanted).cpu())
    difference = torch.cat(differences).double()
    gap = (shares.double().sum((2, 3, 4)) - difference).abs() / difference.abs()
    return gap.where(difference != 0, torch.nan).float()


def _baseline(baseline: Images | None, model: nn.Module, index: int, n: int, pixels: torch.Tensor) -> torch.Tensor:
    """The baseline of one image, (1, 3, H, W)."""
    if baseline is None:
        # by the same arithmetic as the images, so that a black pixel's share is exactly 0
        return to_tensor(torch.zeros(1, 1, 1, 3, dtype=torch.uint8), model=model).to(pixels).expand_as(pixels)
    given = torch.as_tensor(baseline)
    size = tuple(pixels.shape[1:])
    if not given.is_floating_point() or tuple(given.shape) not in (size, (n, *size)):
        raise refused("baseline of another shape", size=size, sizes=(n, *size), given=given, shape=tuple(given.shape))
    return (given if given.ndim == 3 else given[index]).to(pixels)[None]


def _mean_gradients(
    model: nn.Module, pixels: torch.Tensor, base: torch.Tensor, targets: torch.Tensor, steps: int, batch: int
) -> torch.Tensor:
    """The mean gradients of targets (n, T) along the ways from the baselines to the images, (n, T, 3, H, W)."""
    n = len(pixels)
    total = pixels.new_zeros(*targets.shape, *pixels.shape[1:])
    alphas = torch.linspace(0, 1, steps).to(pixels)
    weights = torch.full((steps,), 1 / (steps - 1)).to(pixels)
    weights[[0, -1]] /= 2
    at_once = max(1, batch // n)  # of each image's points
    for alpha, weight in zip(alphas.split(at_once), weights.split(at_once), strict=True):
        points = torch.lerp(base[:, None], pixels[:, None], alpha[:, None, None, None]).flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            logits = logits_of(model, points.clone())  # a model may begin with a change in place
            answers = logits.gather(1, targets.repeat_interleave(len(alpha), 0))  # (points, T)
        for place, answer in enumerate(answers.unbind(1)):
            keep = place < targets.shape[1] - 1  # the last target frees the graph: the next points need its room
            (gradients,) = torch.autograd.grad(
                answer, points, weight.to(answer).expand(n, -1).flatten(), retain_graph=keep
            )
            total[:, place] += gradients.unflatten(0, (n, -1)).sum(1)
    return total
