"""F-Fidelity (Zheng et al. 2025, ICLR): how far the answer falls when a random part of some pixels goes.

Pixels are in the order of Grad-CAM, enlarged to the picture. The first 10, 30 and 50 % are the explanation, the rest is
not. Of either a share `ALPHA` goes at random, but never more than a share `BETA` of the picture: a pixel that goes is 0
at the network's input. A copy of the network first learns to bear such gaps, on the second half of the pictures. The
score is of up to 100 pictures of the first half: the mean fall of the copy's probability of the answer.

* *F-Fidelity+*: pixels of the explanation go. Expected above: a biased model decides by one simple sign, which Grad-CAM
  shows, and once a part of it is gone the answer is less certain.
* *F-Fidelity−*: other pixels go. Expected below: what is beside the sign does not matter to a biased model.

Both were made to compare maps and not models. NaN, and never 0: a map whose values are all equal, and all pictures that
are not scored.

The paper fine-tunes on training pictures and their labels. Here the copy learns the network's own logits of the whole
picture: our test pictures have the cue equally often in either class, and their labels would teach a biased network to
give its bias up. The error is squared, as logits mean different things in our worlds; normalisation keeps its
statistics. The paper counts right labels over 50 draws; we take the probability over `DRAWS`, so small changes count.
Here the limit holds for every picture. In the authors' example it has no effect, and their fine-tuning hides red only.
"""

import copy
from typing import Final

import numpy as np
import torch

from biaslib import dial, metrics, models, training
from biaslib.dial.entries import Seen

IMAGES: Final = 100
SHARES: Final = (0.1, 0.3, 0.5)  # of the pixels, that are taken for the explanation
ALPHA, BETA, DRAWS = 0.5, 0.1, 2
STEPS, BATCH, RATE = 10, 32, 1e-4  # of the fine-tuning, by Adam
PASSES: Final = 6 + len(SHARES) * DRAWS


@dial.metric(name="F-Fidelity+", tier=3, side="above", passes=PASSES)
def plus(case: Seen) -> np.ndarray:
    """(N,): the fall when a part of the explanation goes; NaN where undefined."""
    return falls(case, explained=True)


@dial.metric(name="F-Fidelity−", tier=3, side="below", passes=PASSES)
def minus(case: Seen) -> np.ndarray:
    """(N,): the fall when a part of the rest goes; NaN where undefined."""
    return falls(case, explained=False)


def falls(case: Seen, explained: bool, steps=STEPS, shares=SHARES, alpha=ALPHA, beta=BETA) -> np.ndarray:
    """(N,): the mean fall over shares and draws."""
    half = len(case.truth) // 2
    values, maps = np.full(len(case.truth), np.nan), case.map[: min(IMAGES, half)]
    rows = np.flatnonzero(np.ptp(maps, axis=(1, 2)) > 0)
    if not len(rows):
        return values
    network = tuned(case.network, case.pictures[half:], steps, beta)
    pixels = models.to_tensor(case.pictures[rows], model=network).numpy()
    ranks = ranked(metrics.upsample_maps(maps[rows], *pixels.shape[2:]))
    before, after = case.score_of(training.predict(network, torch.from_numpy(pixels))), []
    rng = np.random.default_rng(0)
    for share in shares:
        size = round(share * ranks[0].size)
        for _ in range(DRAWS):
            gone = drawn((ranks < size) == explained, alpha, beta, rng)
            after.append(case.score_of(training.predict(network, torch.from_numpy(pixels * ~gone[:, None]))))
    fall = before - np.mean(after, axis=0)
    values[rows] = np.where(case.answer[rows], fall, -fall)
    return values


def drawn(parts: np.ndarray, alpha: float, beta: float, rng: np.random.Generator) -> np.ndarray:
    """(N, H, W): a share alpha of each of the parts (N, H, W), at random, at most a share beta of the picture."""
    flat = parts.reshape(len(parts), -1)
    count = np.minimum(np.round(alpha * flat.sum(axis=1)), np.floor(beta * flat.shape[1]))
    order = np.argsort(np.argsort(np.where(flat, rng.random(flat.shape), 2), axis=1), axis=1)
    return (order < count[:, None]).reshape(parts.shape)


def tuned(network: torch.nn.Module, pictures: np.ndarray, steps: int, beta: float) -> torch.nn.Module:
    """A copy that has learned to give the network's logits where up to a share beta of the pixels is gone."""
    result, rng = copy.deepcopy(network).eval().requires_grad_(True), np.random.default_rng(1)
    pixels, wanted = models.to_tensor(pictures, model=network), torch.from_numpy(training.predict(network, pictures))
    optimiser = torch.optim.Adam(result.parameters(), lr=RATE)
    for _ in range(steps):
        rows = rng.choice(len(pixels), min(BATCH, len(pixels)), replace=False)
        gone = drawn(np.ones((len(rows), *pixels.shape[2:]), bool), beta * rng.random(), beta, rng)
        with torch.enable_grad():
            loss = (result(pixels[rows] * torch.from_numpy(~gone)[:, None]) - wanted[rows]).square().mean()
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
    return result


def ranked(relevance: np.ndarray) -> np.ndarray:
    """(N, H, W): 0 for the most relevant pixel of a map, and so on; equal ones in a random order, always the same."""
    flat, mixed = relevance.reshape(len(relevance), -1), np.random.default_rng(0).permutation(relevance[0].size)
    order = mixed[np.argsort(-flat[:, mixed], axis=1, kind="stable")]
    return np.argsort(order, axis=1).reshape(relevance.shape)
