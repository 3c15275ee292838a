from typing import Any

import numpy as np
import pytest
import timm
import torch
from captum.attr import Occlusion
from torch import nn

from biaslib import models
from biaslib.attribution import attention_rollout, grad_cam, occlusion
from biaslib.errors import BiaslibError
from tests.attribution.subjects import assert_close, lively, state


def transformer(name: str = "vit_tiny_patch16_224", **options: Any) -> nn.Module:
    """Random weights, whose attention is far from even."""
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=3, **options).eval()
    with torch.no_grad():
        for block in model.blocks:
            block.attn.qkv.weight.mul_(8)
    return model


def pictures(n: int, size: int = 224) -> torch.Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def attentions(model: Any, images: torch.Tensor) -> list[np.ndarray]:
    """(n, heads, tokens, tokens) of every block, from its weights."""
    found, tokens = [], model.norm_pre(model._pos_embed(model.patch_embed(images)))
    for block in model.blocks:
        layer = block.attn
        query, key, _ = layer.qkv(block.norm1(tokens)).unflatten(2, (3, layer.num_heads, -1)).unbind(2)
        scores = torch.einsum("nihd,njhd->nhij", query, key).double().numpy() / np.sqrt(query.shape[-1])
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        found.append(powers / powers.sum(axis=3, keepdims=True))
        tokens = block(tokens)
    return found


def rolled_out(matrices: list[np.ndarray]) -> np.ndarray:
    """(n, tokens, tokens) as the paper has it: the identity is added, rows are normalised, matrices are multiplied."""
    product = np.eye(matrices[0].shape[-1])
    for matrix in matrices:
        around = matrix.mean(axis=1) + np.eye(matrix.shape[-1])
        product = around / around.sum(axis=2, keepdims=True) @ product
    return product


def test_rollout_is_the_papers_formula() -> None:
    model, images = transformer(), pictures(2)
    maps = attention_rollout(model, images, [0])
    expected = rolled_out(attentions(model, images))[:, 0, 1:].reshape(2, 1, 14, 14)
    assert maps.dtype == torch.float32
    np.testing.assert_allclose(maps.numpy(), expected, rtol=1e-4)
    # the maps are far from even, and what is missing to 1 is the class token's own share
    assert expected.std() > 0.1 * expected.mean()
    assert (maps.sum((2, 3)) < 1).all()


def test_rollout_by_hand() -> None:
    # one block in which the class token looks at patch 2 alone: half of its row stays with itself
    model = transformer("vit_tiny_patch16_224", depth=1)
    ahead = torch.zeros(1, 3, 197, 64)
    ahead[:, :, 2, 0] = 1e4

    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
            query = torch.ones(1, 3, 197, 64)
            nn.functional.scaled_dot_product_attention(query, ahead, query)
            return x

    model.blocks[0].attn = Fixed()
    expected = torch.zeros(14, 14)
    expected[0, 1] = 0.5
    torch.testing.assert_close(attention_rollout(model, pictures(1), [0])[0, 0], expected)


def test_rollout_without_a_class_token_is_the_mean_of_the_patches() -> None:
    model = transformer(class_token=False, global_pool="avg")
    images = pictures(1)
    expected = rolled_out(attentions(model, images)).mean(axis=1).reshape(1, 1, 14, 14)
    np.testing.assert_allclose(attention_rollout(model, images, [0]).numpy(), expected, rtol=1e-4)


def test_tokens_that_are_no_patches_have_no_place() -> None:
    model = transformer(reg_tokens=4)
    images = pictures(1)
    expected = rolled_out(attentions(model, images))[:, 0, 5:].reshape(1, 1, 14, 14)
    np.testing.assert_allclose(attention_rollout(model, images, [0]).numpy(), expected, rtol=1e-4)


def test_rollout_is_the_same_for_every_target_and_batch() -> None:
    model, images = transformer(), pictures(3)
    maps = attention_rollout(model, images, [[0, 2], [1, 1], [2, 0]])
    assert maps.shape == (3, 2, 14, 14)
    assert torch.equal(maps[:, 0], maps[:, 1])
    assert_close(attention_rollout(model, images, [0], batch=2), maps[:, :1], 1e-5)


def test_the_small_transformer_is_rolled_out_and_has_a_grad_cam() -> None:
    torch.manual_seed(0)
    model = models.build("small_vit", 3).eval()
    pixels = torch.randn(2, 3, 64, 64)
    maps = attention_rollout(model, pixels, [0])
    assert maps.shape == (2, 1, 8, 8)
    assert_close(maps.sum((2, 3)), torch.ones(2, 1), 1e-5)  # without a class token all mass is on patches
    assert maps.std() > 0
    plain = model.forward_features(pixels).requires_grad_(True)
    (slopes,) = torch.autograd.grad(model.forward_head(plain)[:, 1].sum(), plain)
    expected = (slopes.mean((2, 3), keepdim=True) * plain).sum(1).relu()
    assert_close(grad_cam(model, pixels, [1])[:, 0], expected.detach(), 1e-4)


def test_a_grid_need_not_be_square() -> None:
    model = transformer(img_size=(64, 96))
    assert attention_rollout(model, pictures(1)[:, :, :64, :96], [0]).shape == (1, 1, 4, 6)


@pytest.mark.parametrize("name", ["beit_base_patch16_224", "eva02_tiny_patch14_224", "deit_tiny_distilled_patch16_224"])
def test_other_transformers_of_timm_are_rolled_out(name: str) -> None:
    torch.manual_seed(0)
    options = {} if "deit" in name else {"depth": 2}
    maps = attention_rollout(timm.create_model(name, num_classes=2, **options), pictures(1), [0])
    side = 224 // (14 if "14" in name.split("_")[2] else 16)
    assert maps.shape == (1, 1, side, side)
    assert (maps > 0).all()
    assert maps.sum() <= 1 + 1e-5


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_as_it_was(fails: bool) -> None:
    model: Any = transformer().train()
    model.blocks[0].eval()
    model.blocks[1].attn.qkv.weight.requires_grad_(False)
    before = state(model)
    fused = [block.attn.fused_attn for block in model.blocks]
    for method in (attention_rollout, occlusion):
        if fails:
            with pytest.raises(BiaslibError, match="There is no target 3"):
                method(model, pictures(1), [3])
        else:
            method(model, pictures(1), [0], **({} if method is attention_rollout else {"grid": 1}))
    assert str(state(model)) == str(before)
    assert [block.attn.fused_attn for block in model.blocks] == fused


@pytest.mark.parametrize("model", ["resnet10t", "swin_tiny_patch4_window7_224", "map pooling", "not fused"])
def test_what_cannot_be_rolled_out_is_refused(model: str) -> None:
    torch.manual_seed(0)
    given = transformer(global_pool="map", depth=1) if model == "map pooling" else None
    if model == "not fused":
        given = transformer(depth=1)
        given.blocks[0].attn.fused_attn = False
    given = given or timm.create_model(model, num_classes=3)
    with pytest.raises(BiaslibError, match="cannot be rolled out: that needs a vision transformer of timm"):
        attention_rollout(given.eval(), pictures(1), [0])


def test_occlusion_by_hand() -> None:
    class Sums(nn.Module):
        """Two logits: the sum of the image, and less that."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            total = images.sum((1, 2, 3))
            return torch.stack([total, -total], 1)

    images = torch.zeros(1, 3, 4, 4)
    images[:, :, :2, 2:] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    images[:, :, 3, 0] = -1.0
    maps = occlusion(Sums(), images, [0, 1], grid=2)
    assert maps[0].tolist() == [[[0.0, 30.0], [0.0, 0.0]], [[0.0, 0.0], [3.0, 0.0]]]
    # the size of either is what the first one is
    assert occlusion(Sums(), images, [0, 1], grid=2, absolute=True)[0].tolist() == [[[0.0, 30.0], [0.0, 0.0]]] * 2


@pytest.mark.parametrize("targets", [[1, 3], [[0, 1], [2, 3]]])
def test_occlusion_equals_captums(targets: list[Any]) -> None:
    model, images = lively("small"), pictures(2, 64)
    expected = [
        Occlusion(model).attribute(
            images, sliding_window_shapes=(3, 16, 16), strides=(3, 16, 16), target=torch.tensor(of).expand(2)
        )
        for of in (targets if isinstance(targets[0], int) else torch.tensor(targets).T.tolist())
    ]
    tiles = torch.stack(expected, 1)[:, :, 0, ::16, ::16].relu()
    assert_close(occlusion(model, images, targets, grid=4, batch=1), tiles.detach())


def test_tiles_cover_every_pixel_where_they_are_not_equal() -> None:
    class Mean(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.sum((1, 2, 3))[:, None]

    maps = occlusion(Mean(), torch.ones(1, 3, 10, 7), [0], grid=3)
    assert maps.sum() == 3 * 10 * 7
    assert maps[0, 0].tolist() == [[36.0, 24.0, 24.0], [27.0, 18.0, 18.0], [27.0, 18.0, 18.0]]
