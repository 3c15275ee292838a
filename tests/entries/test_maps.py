"""Maps of a vision transformer: LeGrad by attention that is written out, and the mass of maps on the cue."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from biaslib import models
from biaslib.errors import BiaslibError
from biaslib.store.files import module_of

maps = module_of(Path(__file__).parents[2] / "data" / "transformers" / "maps.py")
SCALED = ("patch_embed.proj.weight", "qkv.weight", "proj.weight", "head.weight")


def network(architecture="small_vit", outputs=3):
    """Of random weights, whose attention is not nearly the same everywhere."""
    torch.manual_seed(0)
    made = models.build(architecture, outputs).eval()
    for name, weight in made.named_parameters():
        if name.endswith(SCALED):
            torch.nn.init.normal_(weight, std=0.3)
    return made


def pictures(n=3, side=64):
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def attention_written_out(block, tokens):
    """The attention of a block (heads, tokens, tokens), and a function of it that gives the block's own tokens."""
    of, (heads, d) = block.attn, (block.attn.num_heads, block.attn.head_dim)
    query, key, value = (each.view(-1, heads, d).transpose(0, 1) for each in of.qkv(block.norm1(tokens)).chunk(3, -1))
    matrix = (query @ key.transpose(1, 2) / d**0.5).softmax(dim=-1)

    def rest(attention):
        after = tokens + of.proj((attention @ value).transpose(0, 1).reshape(len(tokens), -1))
        return after + block.mlp(block.norm2(after))

    return matrix, rest


def by_hand(model, image, target):
    """LeGrad of one normalised image (3, H, W), patch by patch."""
    tokens = (model.patch_embed(image[None]).flatten(1, 2) + model.pos_embed)[0].detach()
    layers = []
    for block in model.blocks:
        matrix, rest = attention_written_out(block, tokens)
        leaf = matrix.detach().requires_grad_(True)
        after = rest(leaf)
        logit = model.head(model.fc_norm(model.norm(after).mean(dim=0)))[target]
        slopes = torch.autograd.grad(logit, leaf)[0].numpy()
        layers.append(np.maximum(slopes, 0).mean(axis=0).mean(axis=0))
        tokens = after.detach()
    return np.mean(layers, axis=0).reshape(8, 8)


def test_legrad_is_that_of_attention_that_is_written_out():
    model, images = network(), pictures()
    pixels = models.to_tensor(images, model=model)
    found = maps.legrad(model, images)
    assert found.shape == (3, 8, 8)
    answers = model(pixels).argmax(dim=1)
    expected = np.stack([by_hand(model, *of) for of in zip(pixels, answers, strict=True)])
    assert expected.std(axis=(1, 2)).min() > 0.1 * expected.mean()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * expected.max())


def test_legrad_leaves_the_network_as_it_was_and_does_not_depend_on_the_batch(monkeypatch):
    model, images = network(), pictures(5)
    found = maps.legrad(model, images)
    monkeypatch.setattr(maps, "BATCH", 2)
    np.testing.assert_allclose(maps.legrad(model, images), found, rtol=1e-3, atol=1e-6)
    assert not any(block._forward_hooks for block in model.blocks)
    assert all(weight.grad is None for weight in model.parameters())


def test_a_network_without_attention_has_no_such_map():
    with pytest.raises(BiaslibError, match="needs a vision transformer with fused attention: _SmallCNN"):
        maps.legrad(network("small"), pictures())


@pytest.mark.parametrize("enter", [maps.rollout, maps.of_legrad, maps.of_grad_cam])
def test_the_mass_on_the_whole_picture_is_1_and_on_nothing_undefined(enter):
    masks = np.zeros((4, 64, 64), bool)
    masks[:2] = True
    masks[2, :32] = True
    images = pictures(4)
    grad_cam = np.random.default_rng(1).random((4, 8, 8), np.float32)
    case = SimpleNamespace(network=network(), pictures=images, map=grad_cam, mask=lambda part: masks)
    found = enter(case)
    np.testing.assert_allclose(found[:2], 1, rtol=1e-5)
    assert 0.05 < found[2] < 0.95
    assert np.isnan(found[3])


def test_a_map_of_nothing_has_no_mass():
    case = SimpleNamespace(map=np.zeros((1, 8, 8), np.float32), mask=lambda part: np.ones((1, 64, 64), bool))
    assert np.isnan(maps.of_grad_cam(case)).all()
