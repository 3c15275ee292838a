"""Score-CAM: how much of a target's score survives where a channel is active."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from biaslib.attribution._models import (
    batches,
    check_outputs,
    checked_targets,
    fold_batchnorm,
    logits_of,
    split,
    unchanged,
)
from biaslib.models import cached_batch, to_tensor


def score_cam(
    model: nn.Module,
    images: np.ndarray | torch.Tensor,
    targets: Sequence[int] | np.ndarray | torch.Tensor,
    *,
    batch: int | None = None,
) -> torch.Tensor:
    r"""How much each place of the last map speaks for each target, without a gradient (Wang et al. 2020).

    $$\mathrm{map}_t = \mathrm{ReLU}\Big(\sum_c w_{tc} F_c\Big), \qquad
      w_{tc} = \mathrm{softmax}_c\, y_t(x \odot m_c), \qquad
      m_c = \frac{\mathrm{up}(F_c) - \min}{\max - \min}$$

    with the map F of the last convolutional stage, enlarged to the image's size (bilinear, corners aligned), and the
    logit $y_t$. No score of a baseline image is subtracted: the softmax over channels would not see it. The masked
    image is a product of *normalised* pixels, so a mask of 0 shows ImageNet's mean colour, not black. A channel that
    is 0 everywhere has a mask of 0; of one that is the same everywhere but not 0, rounding decides what the mask is,
    as in the grad-cam library. The maps are raw: not scaled, not resized.

    One forward pass a channel and image serves all targets, through a copy of the model with its batch normalisations
    folded away; channels that are 0 everywhere share one pass.

    Args:
        model: with timm's `forward_features` and `forward_head`; it comes back as it was, even after an error.
        images: (N, 3, H, W) normalised floats, or uint8 (N, H, W, 3) pixels.
        targets: indices of logits, (T,) for all images or (N, T) for each its own.
        batch: how many (masked) images go through the model at once; bounds the memory. None: on a CPU as many as
            have 200,000 pixels together, whose maps stay in its cache; elsewhere 64.

    Returns:
        (N, T, h, w) float32 on the CPU, >= 0. A map may be 0 everywhere: nothing speaks for the target.

    Raises:
        BiaslibError: images or targets of a wrong shape, a target the model lacks, or a model without a map.
    """
    chosen = checked_targets(images, targets, batch)
    if batch is None:
        on_cpu = next(model.parameters(), torch.zeros(())).device.type == "cpu"
        batch = cached_batch(*to_tensor(images[:1]).shape[2:]) if on_cpu else 64
    fast: nn.Module | None = None
    maps = []
    with unchanged(model), torch.no_grad():
        for pixels, indices in batches(model, images, chosen, batch):
            features, head = split(model, pixels)
            features = features.contiguous()
            if fast is None:
                check_outputs(chosen, head(features[:1].clone()))
                fast = fold_batchnorm(model, pixels[:2])
            for image, channels, wanted in zip(pixels, features, indices, strict=True):
                scores = _masked_scores(fast, image, channels, batch)
                weights = scores[:, wanted].softmax(0)  # (C, T)
                maps.append(torch.einsum("ct,chw->thw", weights, channels).relu().float().cpu())
    return torch.stack(maps)


def _masked_scores(model: nn.Module, image: torch.Tensor, channels: torch.Tensor, batch: int) -> torch.Tensor:
    """The logits of the image under the mask of every channel, (C, outputs)."""
    alive = channels.flatten(1).any(1).nonzero()[:, 0]
    scores = [logits_of(model, _masked(image, channels[some])) for some in alive.split(batch)]
    if len(alive) == len(channels):
        return torch.cat(scores)
    empty = logits_of(model, torch.zeros_like(image)[None])
    every = empty.repeat(len(channels), 1)
    every[alive] = torch.cat([*scores, empty[:0]])
    return every


def _masked(image: torch.Tensor, channels: torch.Tensor) -> torch.Tensor:
    """The image (3, H, W) under the masks of some channels (k, h, w): (k, 3, H, W)."""
    size = (image.shape[1], image.shape[2])
    # in this shape the enlarged channels are the grad-cam library's to the last bit, and where a channel hardly differs
    # from place to place the last bits are all there is
    masks = functional.interpolate(channels[None], size=size, mode="bilinear", align_corners=True)[0, :, None]
    least, most = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
    return image * ((masks - least) / (most - least + 1e-8))
