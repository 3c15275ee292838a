"""The whole network is trained on, without a label of the cue.

* *More training, as it was*: every image counts the same. It says what the training alone does, whatever its weights.
* *More weight on errors (JTT)*: Liu et al. 2021 (ICML, "Just Train Twice"). Training images that the network gets wrong
  come twenty times as often. What differs: the paper stops the first network early, trains the second anew from
  ImageNet's weights, and chooses how early and how often by images whose cue is known. Here the first network is the
  one to be repaired, training goes on from it, and nothing is chosen. In both a step takes a batch of images drawn by
  their weights, so that both take as many steps. Without an error JTT is the other.
"""

import math

import numpy as np
import torch
from torch import nn

from biaslib import dial, models, training
from biaslib.dial.repairing import Trained

PASSES, BATCH, RATE = 2, 64, 1e-3
OFTEN = 20  # times that an error comes; the paper tries 4 to 100


def trained_on(case: Trained, weights: np.ndarray) -> nn.Module:
    """The network after more steps on images that are drawn by their weights (N,), some of them mirrored."""
    network, place = case.network.train(), next(case.network.parameters()).device
    steps = PASSES * math.ceil(len(weights) / BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    drawn = np.random.default_rng(case.seed).choice(len(weights), (steps, BATCH), p=weights / weights.sum())
    for rows in drawn:
        pixels = models.to_tensor(case.pictures[rows], place, model=network)
        mirrored = torch.rand(BATCH, device=place) < 0.5
        pixels = torch.where(mirrored[:, None, None, None], pixels.flip(3), pixels)
        target = torch.as_tensor(case.target[rows], device=place)
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(pixels.contiguous(memory_format=torch.channels_last)), target).backward()
        optimiser.step()
        schedule.step()
    return network.eval()


@dial.repair(name="More training, as it was", labels=0)
def more(case: Trained) -> nn.Module:
    """All images alike."""
    return trained_on(case, np.ones(len(case.target)))


@dial.repair(name="More weight on errors (JTT)", labels=0)
def just_train_twice(case: Trained) -> nn.Module:
    """Its errors oftener."""
    wrong = training.predict(case.network, case.pictures).argmax(axis=1) != case.target
    return trained_on(case, np.where(wrong, OFTEN, 1.0))
