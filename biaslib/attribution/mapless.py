"""Maps of models that have no map of channels: attention rollout for transformers, occlusion for whatever answers."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from biaslib.attribution._models import Images, Targets, batches, check_outputs, checked_targets, unchanged
from biaslib.errors import refused


def attention_rollout(model: Any, images: Images, targets: Targets, *, batch: int = 32) -> torch.Tensor:
    r"""How much of every patch reaches the answer of a vision transformer (Abnar and Zuidema 2020, section 3).

    $$\mathrm{map} = \Big(\prod_{l=L}^{1} \tfrac12 (\bar A_l + I)\Big)_{\mathrm{class},\,\mathrm{patches}}$$

    with block l's attention A, the mean over its heads, whose rows sum to 1, and the identity I for the way around it:
    the class token's row on the grid of the patches, or the mean of their rows where the model averages its patches.
    **It is not class specific**: no target enters, and all maps of an image are the same. The model is a
    `VisionTransformer`, `Beit` or `Eva` of timm with fused attention; another is a `BiaslibError`.
    """
    from timm.models import Beit, Eva, VisionTransformer  # takes seconds, and the other methods do without

    chosen = checked_targets(images, targets, batch)
    known, maps = isinstance(model, (VisionTransformer, Beit, Eva)), []
    with unchanged(model), torch.no_grad():
        for pixels, wanted in batches(model, images, chosen, batch):
            with _Attention() as attention:
                check_outputs(wanted, model(pixels))
            if not known or len(attention.matrices) != len(model.blocks) or model.global_pool not in ("token", "avg"):
                raise refused("attention that is not rolled out", model=type(model).__name__)
            grid = model.patch_embed.dynamic_feat_size(pixels.shape[2:])
            patches = slice(model.num_prefix_tokens, None)
            rows = torch.eye(attention.matrices[0].shape[1]).to(pixels)
            rows = rows[:1] if model.global_pool == "token" else rows[patches].mean(0, keepdim=True)
            for matrix in reversed(attention.matrices):
                rows = (rows @ matrix + rows) / 2
            maps.append(rows[:, 0, patches].unflatten(1, grid).float().cpu())
    return torch.cat(maps)[:, None].repeat(1, chosen.shape[1], 1, 1)


class _Attention(TorchFunctionMode):
    """Keeps every fused attention (n, tokens, tokens) that is computed inside, the mean over heads."""

    def __init__(self) -> None:
        super().__init__()
        self.matrices: list[torch.Tensor] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is functional.scaled_dot_product_attention:
            each_token = torch.eye(args[1].shape[2]).to(args[1]).expand(*args[1].shape[:2], -1, -1)
            self.matrices.append(function(*(*args[:2], each_token, *args[3:]), **(kwargs or {})).mean(1))
        return function(*args, **(kwargs or {}))


def occlusion(
    model: nn.Module, images: Images, targets: Targets, *, grid: int = 8, absolute: bool = False, batch: int = 32
) -> torch.Tensor:
    r"""How far each logit falls when a tile of the image is covered (Zeiler and Fergus 2014, section 4.2).

    $$\mathrm{map}_{tij} = \mathrm{ReLU}\big(y_t(x) - y_t(x \text{ with tile } ij \text{ set to } 0)\big)$$

    with `grid` x `grid` tiles, as equal as whole pixels allow, and normalised pixels, of which 0 is the mean colour.
    `absolute` explains $|y_t|$, as in `grad_cam`. The model is any module that maps images to logits.
    """
    chosen = checked_targets(images, targets, batch)
    maps = []
    with unchanged(model), torch.no_grad():
        for pixels, wanted in batches(model, images, chosen, batch):
            logits, (rows, columns) = model(pixels), (torch.arange(n) * grid // n for n in pixels.shape[2:])
            check_outputs(wanted, logits)
            tile = (rows[:, None] * grid + columns).to(pixels.device)  # the number of every pixel's
            covered = [model(pixels.masked_fill(tile == number, 0)).gather(1, wanted) for number in range(grid**2)]
            answers = logits.gather(1, wanted)[..., None]
            falls = (answers - torch.stack(covered, 2)) * (answers.sign() if absolute else 1)
            maps.append(falls.relu().unflatten(2, (grid, grid)).float().cpu())
    return torch.cat(maps)
