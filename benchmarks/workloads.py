"""What is measured; run as a module, one workload's peak memory: `python -m benchmarks.workloads NAME`."""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from biaslib import models
from biaslib.attribution import grad_cam
from biaslib.metrics import attention_iou

THREADS = 2
TARGETS = 40


def classifier(batch: int) -> tuple[nn.Module, torch.Tensor]:
    """Paper A's ResNet-50 with its two-layer head (untrained: the weights do not change the cost) and images."""
    torch.manual_seed(0)
    return models.build("resnet50", TARGETS, hidden=2048).eval(), torch.randn(batch, 3, 224, 224)


def maps_of_a_test_set() -> np.ndarray:
    """As many maps as 40 attributes have on paper A's 4,500 test images."""
    return np.random.default_rng(0).random((4500, TARGETS, 7, 7), np.float32)


def forward(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(images)


def explain(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    return grad_cam(model, images, range(TARGETS), absolute=True, batch=len(images))


def all_pairs(maps: np.ndarray) -> np.ndarray:
    return attention_iou(maps[:, :, None], maps[:, None, :])


def pair_by_pair(maps: np.ndarray) -> np.ndarray:
    """The released formula, (N, A, A): normalise, multiply, divide, one pair of attributes after the other."""
    scores = np.empty((len(maps), TARGETS, TARGETS))
    for i in range(TARGETS):
        for j in range(TARGETS):
            a = maps[:, i] / maps[:, i].sum((1, 2), keepdims=True)
            b = maps[:, j] / maps[:, j].sum((1, 2), keepdims=True)
            scores[:, i, j] = (a * b).sum((1, 2)) / (((a + b) / 2) ** 2).sum((1, 2))
    return scores


def _prepare(name: str) -> Callable[[], Any]:
    if name in ("forward", "explain"):
        model, images = classifier(batch=32)
        return lambda: (forward if name == "forward" else explain)(model, images)
    maps = maps_of_a_test_set()
    return lambda: (all_pairs if name == "all_pairs" else pair_by_pair)(maps)


def _peak() -> int:
    """The most memory this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux ru_maxrss begins with the parent's
        return 1024 * int(next(line for line in status.read_text().splitlines() if "VmHWM" in line).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    call = _prepare(sys.argv[1])
    before = _peak()
    call()
    print(json.dumps({"added": _peak() - before, "total": _peak()}))
