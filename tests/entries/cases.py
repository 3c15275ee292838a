"""Cases that tests of several entries ask."""

from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from biaslib import training


def case_of(outputs, probability, size, n=6):
    """A case of a linear network, whose score is a probability of its logits."""
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, outputs)).eval()
    pictures = rng.integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    score = probability(training.predict(network, pictures))
    maps = rng.random((n, 4, 4), np.float32)
    return SimpleNamespace(
        truth=np.ones(n, bool),
        map=maps,
        pictures=pictures,
        network=network,
        score=score,
        score_of=probability,
        answer=score > np.median(score),
    )
