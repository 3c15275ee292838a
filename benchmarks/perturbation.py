"""The area over the perturbation curve: ours, its bare passes, and Quantus's on the same images, in turn."""

import numpy as np
import torch
from torch import nn

from benchmarks import bare
from benchmarks.measure import in_turn
from benchmarks.report import Figure
from biaslib import models
from biaslib.attribution import fold_batchnorm
from biaslib.metrics import aopc, perturbation_curves

ARCHITECTURES = {"efficientnet_b0": (224, 8), "small": (64, 32)}  # size in pixels, images
REGION = 8  # divides both sizes: at an edge the two would tile differently
FILL = 0.0  # instead of noise, so that both see the same


def run(steps: int = 50, rounds: int = 3) -> list[Figure]:
    figures = []
    for architecture, (size, n) in ARCHITECTURES.items():
        torch.manual_seed(0)
        model = models.build(architecture, 2).eval()
        rng = np.random.default_rng(0)
        images, relevance = rng.normal(size=(n, size, size, 3)).astype(np.float32), rng.random((n, size, size))
        case = (model, images, relevance, steps)
        np.testing.assert_allclose(ours(*case), quantus(*case), rtol=0, atol=1e-5)
        fast = bare.folded(model, torch.from_numpy(images).movedim(3, 1))
        passes = (fast, torch.from_numpy(images).movedim(3, 1), n * (steps + 1), models.cached_batch(size, size))
        times = in_turn(
            lambda case=case: ours(*case),
            lambda case=case: quantus(*case),
            lambda passes=passes: bare.forward(*passes),
            rounds=rounds,
        )
        figures += [
            Figure(f"AOPC, {steps} steps, {architecture}, {size} px, {n} images", times.of(0), "s"),
            Figure("  beside its bare passes", times.ratio(0, 2), "x", "<=", bare.MOST),
            Figure("  Quantus", times.of(1), "s"),
            Figure("  speed beside Quantus", times.ratio(1, 0), "x", ">=", 1.5),
        ]
    return figures


def ours(model: nn.Module, images: np.ndarray, relevance: np.ndarray, steps: int) -> np.ndarray:
    fast = fold_batchnorm(model, torch.from_numpy(images[:2]).movedim(3, 1))

    @torch.inference_mode()
    def predict(shown: np.ndarray) -> torch.Tensor:
        return fast(torch.from_numpy(shown).movedim(3, 1)).softmax(1)

    options = {"steps": steps, "region": REGION, "value_range": (FILL, FILL)}
    return aopc(perturbation_curves(predict, images, relevance, 1, **options))


def quantus(model: nn.Module, images: np.ndarray, relevance: np.ndarray, steps: int) -> np.ndarray:
    import quantus as library  # slow to import

    options = {"perturb_baseline": FILL, "normalise": False, "disable_warnings": True}
    metric = library.RegionPerturbation(patch_size=REGION, regions_evaluation=steps, order="morf", **options)
    channels_first = np.ascontiguousarray(np.moveaxis(images, 3, 1))
    given = {"a_batch": relevance[:, None].astype(np.float32), "channel_first": True}
    falls = metric(model, channels_first, np.ones(len(images), int), **given)
    return np.sum(falls, axis=1) / (1 + steps)
