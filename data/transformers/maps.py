"""Maps of a vision transformer: how much of their mass lies on the cue.

For worlds whose models answer one question, and for transformers of timm alone; a network without blocks of attention
has no such map and is a `BiaslibError`.

* *Mass of attention rollout on the cue*: `attribution.attention_rollout` (Abnar and Zuidema 2020). It knows no target.
* *Mass of LeGrad on the cue*: Bousselham et al. 2024 (arXiv 2404.03214), of the network's answer. For each block, the
  logit of the answer is read from that block's own tokens, through the last norm and the head. Its gradient with
  respect to that block's attention is cut at 0, averaged over heads and queries, and averaged over blocks.
* *Mass of Grad-CAM on the cue*: the map that the board has, of the same answer, scored in the same way.

Each map is enlarged to the picture; its mass in the mask of the cue is the score of an image, in [0, 1]. NaN where the
mask is empty or the map is 0 everywhere. Expected before measuring: "above" for all three, as a biased model looks at
the cue. Rollout may find nothing: it says where attention goes, and not what the answer is.

fast-vit-rollout 0.1.1 with `discard_ratio=0` gives the same rollout to 2e-8, for the network here (the mean of the
patches' rows) and for one with a class token. By default it sets the lowest 90 % of each attention matrix to 0, which
the paper does not.

torchcam 0.5.0, `LeGrad`, before its scaling to [0, 1]: the blocks of the network here with random weights were put into
its kind of block, and 12 pictures of noise gave the same maps; the largest difference was 4e-7 of the largest value.
It reads the logit from the mean of all tokens, a class token among them, and ours as the model's head does. The network
here has no class token; where one is read alone, the two differ.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from biaslib import attribution, dial, metrics, models
from biaslib.dial.entries import Seen
from biaslib.errors import BiaslibError

BATCH = 64


class Attended(TorchFunctionMode):
    """Keeps the values (n, heads, tokens, d) of every fused attention that is computed inside, and its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function is functional.scaled_dot_product_attention:
            self.kept.append((args[2], made))
        return made


def legrad(network: nn.Module, pictures: np.ndarray) -> np.ndarray:
    """(N, h, w) >= 0 of the answer, the likeliest output, of pictures (N, H, W, 3) uint8; not scaled."""
    place = next(network.parameters()).device
    starts = range(0, len(pictures), BATCH)
    return np.concatenate(
        [of_batch(network, models.to_tensor(pictures[i : i + BATCH], place, model=network)) for i in starts]
    )


def of_batch(network: nn.Module, pixels: torch.Tensor) -> np.ndarray:
    """(n, h, w) of n normalised images."""
    tokens = []
    hooks = [block.register_forward_hook(lambda *of: tokens.append(of[2])) for block in getattr(network, "blocks", ())]
    try:
        with torch.enable_grad(), Attended() as attended:
            answer = network(pixels.requires_grad_(True)).argmax(dim=1)
            if not tokens or len(attended.kept) != len(tokens):
                raise BiaslibError(f"LeGrad needs a vision transformer with fused attention: {type(network).__name__}.")
            layers = [of_block(network, *of, answer) for of in zip(tokens, attended.kept, strict=True)]
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(layers).mean(dim=0).unflatten(1, network.patch_embed.dynamic_feat_size(pixels.shape[2:])).numpy()


def of_block(network: nn.Module, tokens: torch.Tensor, attended: tuple, answer: torch.Tensor) -> torch.Tensor:
    """(n, patches): the gradient with respect to the attention A, of which the output is A times the values."""
    values, outputs = attended
    heads = network.fc_norm(network.pool(network.norm(tokens)))
    logit = network.head(heads).gather(1, answer[:, None]).sum()
    (slopes,) = torch.autograd.grad(logit, outputs, retain_graph=True)
    of_attention = slopes @ values.mT  # d logit / d A, as the outputs are linear in A
    return of_attention.relu().mean(dim=(1, 2))[:, network.num_prefix_tokens :].detach().cpu()


def mass(case: Seen, maps: np.ndarray) -> np.ndarray:
    """(N,) share of each map's mass that lies on the cue; NaN where the mask is empty or the map is 0."""
    masks = case.mask("cue")
    rows = masks.any(axis=(1, 2)) & (maps.max(axis=(1, 2)) > 0)
    found = np.full(len(maps), np.nan)
    if rows.any():
        found[rows] = metrics.relevance_mass_accuracy(metrics.upsample_maps(maps[rows], *masks.shape[1:]), masks[rows])
    return found


@dial.metric(name="Mass of attention rollout on the cue", tier=3, side="above", passes=1)
def rollout(case: Seen) -> np.ndarray:
    """(N,) of the patches that reach the answer, whatever it is."""
    return mass(case, attribution.attention_rollout(case.network, case.pictures, [0])[:, 0].numpy())


@dial.metric(name="Mass of LeGrad on the cue", tier=3, side="above", passes=3)
def of_legrad(case: Seen) -> np.ndarray:
    """(N,) of the gradient of the answer in all blocks."""
    return mass(case, legrad(case.network, case.pictures))


@dial.metric(name="Mass of Grad-CAM on the cue", tier=3, side="above", passes=3)
def of_grad_cam(case: Seen) -> np.ndarray:
    """(N,) of the last map."""
    return mass(case, case.map)
