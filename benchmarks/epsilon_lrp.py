"""Layer-wise relevance of one target by both rules: ours, and the bare passes that it needs, in turn."""

import copy

import torch

from benchmarks import bare
from benchmarks.measure import in_turn
from benchmarks.report import Figure
from biaslib import models
from biaslib.attribution import epsilon_lrp

BATCH = 8


def run(size: int = 224, images: int = 16, rounds: int = 3) -> list[Figure]:
    torch.manual_seed(0)
    model, pixels = models.build("resnet18", 2).eval(), torch.randn(images, 3, size, size)
    plain = copy.deepcopy(model).double().requires_grad_(False)
    # in double precision a CPU has no use for channels-last order
    merged = bare.folded(model, pixels, torch.float64).to(memory_format=torch.contiguous_format)
    figures = []
    for rule, network in (("epsilon", merged), ("toolbox", plain)):
        times = in_turn(
            lambda rule=rule: epsilon_lrp(model, pixels, [1], rule=rule, eps=10.0, scaled=True, batch=BATCH),
            lambda network=network: bare.forward_and_backward(network, pixels.double(), images, BATCH),
            rounds=rounds,
        )
        figures += [
            Figure(f"LRP, rule {rule!r}, one target, ResNet-18, {size} px, {images} images", times.of(0), "s"),
            Figure("  beside its bare passes", times.ratio(0, 1), "x", "<=", bare.MOST),
        ]
    return figures
