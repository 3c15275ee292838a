"""Class activation maps: Grad-CAM and Score-CAM for many targets at once, and all others of the grad-cam library."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from biaslib.attribution._models import (
    Images,
    Targets,
    batches,
    check_outputs,
    checked_targets,
    fold_batchnorm,
    logits_of,
    place_of,
    split,
    unchanged,
)
from biaslib.errors import check_known
from biaslib.models import cached_batch, to_tensor

_Head = Callable[[torch.Tensor], torch.Tensor]
_LIBRARY = (
    "AblationCAM", "EigenCAM", "EigenGradCAM", "FEM", "GradCAM", "GradCAMElementWise", "GradCAMPlusPlus", "HiResCAM",
    "KPCA_CAM", "LayerCAM", "RandomCAM", "ScoreCAM", "SegEigenCAM", "XGradCAM",
)  # fmt: skip


def grad_cam(
    model: nn.Module, images: Images, targets: Targets, *, absolute: bool = False, batch: int = 64
) -> torch.Tensor:
    r"""How much each place of the last map speaks for each target (Selvaraju et al. 2017, eq. 1 and 2).

    $$\mathrm{map}_t = \mathrm{ReLU}\Big(\sum_c w_{tc} F_c\Big), \qquad
      w_{tc} = \frac{1}{hw} \sum_{ij} \frac{\partial y_t}{\partial F_{cij}}$$

    with the map F of the last convolutional stage and the logit $y_t$. The sum over places of a gradient is the
    derivative along a shift of the whole channel, so only (N, C) numbers a target are differentiated; and where the
    head sees the map through its mean alone (global average pooling), differentiating the head at that mean gives
    them for all targets at once. The maps are raw, not scaled or resized; 0 everywhere: nothing speaks for the target.

    The model has timm's `forward_features`, which gives a map, and `forward_head`; another is a `BiaslibError`. With
    `absolute` $|y_t|$ is explained, as for an attribute whose absence is a decision too (Serianni et al. 2025,
    supplement A); a logit of exactly 0 then has a zero map.
    """
    chosen = checked_targets(images, targets, batch)
    maps = []
    with unchanged(model):
        for pixels, wanted in batches(model, images, chosen, batch):
            # in this memory order convolutions are about a fifth faster on a CPU
            features, head = split(model, pixels.to(memory_format=torch.channels_last))
            maps.append(_maps(features, head, wanted, absolute))
    return torch.cat(maps)


def _maps(features: torch.Tensor, head: _Head, targets: torch.Tensor, absolute: bool) -> torch.Tensor:
    mean = features.mean((2, 3), keepdim=True)
    with torch.no_grad():
        logits = head(features.clone())  # a head may begin with an activation in place
    check_outputs(targets, logits)
    point = mean if _sees_only_the_mean(head, mean, logits) else features
    shift = torch.zeros_like(mean, requires_grad=True)
    with torch.enable_grad():
        shifted = head(point + shift)
    # as many targets at once as keep their gradients no larger than the map
    at_once = features.numel() // point.numel()
    maps = []
    for chosen in targets.T.split(at_once):  # (k, n)
        seeds = torch.zeros(*chosen.shape, logits.shape[1], dtype=logits.dtype, device=logits.device)
        seeds.scatter_(2, chosen[..., None], 1.0)
        if absolute:
            seeds *= logits.sign()
        weights = _gradient(shifted, shift, seeds).flatten(2) / features[0, 0].numel()  # (k, n, C)
        maps.append(torch.einsum("knc,nchw->nkhw", weights, features).relu().float().cpu())
    return torch.cat(maps, dim=1)


def _sees_only_the_mean(head: _Head, mean: torch.Tensor, logits: torch.Tensor) -> bool:
    try:
        with torch.no_grad():
            pooled = head(mean.clone())
    except (RuntimeError, AssertionError):  # the head insists on the size of its map
        return False
    # too strict costs time, too lax would cost truth
    return pooled.shape == logits.shape and bool((pooled - logits).abs().max() <= 1e-4 * logits.abs().max())


def _gradient(outputs: torch.Tensor, inputs: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
    """The gradient for each seed, (k, *inputs.shape)."""
    if len(seeds) == 1:  # plain: every layer has a plain derivative, not every layer a batched one
        return torch.autograd.grad(outputs, inputs, seeds[0], retain_graph=True)[0][None]
    return torch.autograd.grad(outputs, inputs, seeds, retain_graph=True, is_grads_batched=True)[0]


def score_cam(model: nn.Module, images: Images, targets: Targets, *, batch: int | None = None) -> torch.Tensor:
    r"""How much each place of the last map speaks for each target, without a gradient (Wang et al. 2020).

    $$\mathrm{map}_t = \mathrm{ReLU}\Big(\sum_c w_{tc} F_c\Big), \qquad
      w_{tc} = \mathrm{softmax}_c\, y_t(x \odot m_c), \qquad
      m_c = \frac{\mathrm{up}(F_c) - \min}{\max - \min}$$

    with the map enlarged to the image's size (bilinear, corners aligned). No score of a baseline image is subtracted:
    the softmax over channels would not see it. The masked image is a product of *normalised* pixels, so a mask of 0
    shows ImageNet's mean colour, not black. A channel that is 0 everywhere has a mask of 0; of one that is the same
    everywhere but not 0, rounding decides what the mask is, as in the grad-cam library.

    One forward pass a channel and image serves all targets, through a copy of the model with its batch normalisations
    folded away; channels that are 0 everywhere share one pass. Everything is as for `grad_cam`, but that `batch` counts
    masked images. None: on a CPU as many as have 200,000 pixels, whose maps stay in its cache; elsewhere 256.
    """
    chosen = checked_targets(images, targets, batch)
    if batch is None:
        batch = cached_batch(*to_tensor(images[:1]).shape[2:]) if place_of(model).type == "cpu" else 256
    fast: nn.Module | None = None
    maps = []
    with unchanged(model), torch.no_grad():
        for pixels, wanted in batches(model, images, chosen, batch):
            features, head = split(model, pixels)
            features = features.contiguous()
            if fast is None:
                check_outputs(chosen, head(features[:1].clone()))
                fast = fold_batchnorm(model, pixels[:2])
            scores = _masked_scores(fast, pixels, features, batch)
            weights = scores.gather(2, wanted[:, None].expand(-1, scores.shape[1], -1)).softmax(1)  # (n, C, T)
            maps.append(torch.einsum("nct,nchw->nthw", weights, features).relu().float().cpu())
    return torch.cat(maps)


def _masked_scores(model: nn.Module, pixels: torch.Tensor, features: torch.Tensor, batch: int) -> torch.Tensor:
    """The logits of every image under the mask of each of its channels, (n, C, outputs)."""
    empty = logits_of(model, torch.zeros_like(pixels[:1]))
    scores = empty.expand(*features.shape[:2], -1).clone()
    for images, channels in (some.unbind(1) for some in features.any((2, 3)).nonzero().split(batch)):
        scores[images, channels] = logits_of(model, _masked(pixels[images], features[images, channels]))
    return scores


def _masked(images: torch.Tensor, channels: torch.Tensor) -> torch.Tensor:
    """Images (k, 3, H, W), each under the mask of a channel (k, h, w)."""
    size = (images.shape[2], images.shape[3])
    # in this shape the enlarged channels are the grad-cam library's to the last bit, and where a channel hardly differs
    # from place to place the last bits are all there is
    masks = functional.interpolate(channels[None], size=size, mode="bilinear", align_corners=True)[0, :, None]
    least, most = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
    return images * ((masks - least) / (most - least + 1e-8))


def library_cam(name: str) -> Callable[..., torch.Tensor]:
    """A class activation map of the grad-cam library as a function of this package, `method(..., *, batch=8)`.

    `name` is that of the library's class, such as "LayerCAM", "EigenCAM" or "AblationCAM"; another is a `BiaslibError`.
    The maps are the library's of the last convolutional stage before they are scaled and resized, negative values set
    to 0. They go through the library once a target, on a copy of the model, which is asked for what `grad_cam` asks.
    EigenCAM, FEM and KPCA_CAM do not look at the target; RandomCAM draws from numpy's global generator.
    """
    check_known("a class activation map", name, _LIBRARY)

    def method(model: nn.Module, images: Images, targets: Targets, *, batch: int = 8) -> torch.Tensor:
        chosen = checked_targets(images, targets, batch)
        maps = []
        with unchanged(model):
            divided = _Divided(copy.deepcopy(model)) if hasattr(model, "forward_features") else model
            for pixels, wanted in batches(model, images, chosen, batch):
                features, head = split(model, pixels[:1])
                with torch.no_grad():
                    check_outputs(chosen, head(features.clone()))
                maps.append(torch.stack([_raw(name, divided, pixels, column) for column in wanted.T], 1))
        return torch.cat(maps)

    method.__name__ = method.__qualname__ = f"library_cam_{name}"
    return method


class _Divided(nn.Module):
    """A model whose last map comes out of a layer of its own, `map`, which the library looks at."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.map = model, nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features, head = split(self.model, images)
        return head(self.map(features.detach().requires_grad_()) * 1)  # a head may begin with a change in place


def _raw(name: str, model: Any, pixels: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The library's map of each image's target (n, h, w), before it is scaled and resized."""
    import pytorch_grad_cam  # slow to import, and most methods do without
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    cam = getattr(pytorch_grad_cam, name)(model, [model.map])
    found = []
    compute = cam.get_cam_image

    def keep(*args: Any, **kwargs: Any) -> np.ndarray:
        found.append(compute(*args, **kwargs))
        return found[-1]

    cam.get_cam_image = keep
    with torch.enable_grad():
        cam(pixels, [ClassifierOutputTarget(int(target)) for target in targets])
    cam.activations_and_grads.release()
    return torch.from_numpy(np.array(found[0])).float().clamp(min=0)
