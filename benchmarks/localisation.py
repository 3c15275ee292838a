"""Relevance mass and rank accuracy of maps at the size of photos: ours, and Quantus's, in turn."""

import numpy as np
import torch

from benchmarks import workloads
from benchmarks.measure import in_turn
from benchmarks.report import Figure
from biaslib.metrics import relevance_mass_accuracy, relevance_rank_accuracy

Scores = tuple[np.ndarray, np.ndarray]


def run(maps: int = 1000) -> list[Figure]:
    relevance, masks = workloads.maps_with_regions(maps)
    some = (relevance[:20], masks[:20])
    np.testing.assert_allclose(ours(*some), quantus(*some), rtol=1e-5)
    # once: the peer takes a minute, and a hundredfold does not hang on the machine's mood
    times = in_turn(lambda: ours(relevance, masks), lambda: quantus(relevance, masks), rounds=1)
    return [
        Figure(f"Relevance mass and rank accuracy, {maps:,} maps, {workloads.SIZE} px", times.of(0), "s"),
        Figure("  Quantus", times.of(1), "s"),
        Figure("  speed beside Quantus", times.ratio(1, 0), "x", ">=", 20),
    ]


def ours(relevance: np.ndarray, masks: np.ndarray) -> Scores:
    return relevance_mass_accuracy(relevance, masks), relevance_rank_accuracy(relevance, masks)


def quantus(relevance: np.ndarray, masks: np.ndarray) -> Scores:
    import quantus as library  # slow to import

    given = {"a_batch": relevance[:, None], "s_batch": masks[:, None], "channel_first": True}
    images, classes = np.zeros_like(given["a_batch"]), np.zeros(len(relevance), int)
    kinds = (library.RelevanceMassAccuracy, library.RelevanceRankAccuracy)
    metrics = [kind(abs=False, normalise=False, disable_warnings=True) for kind in kinds]
    mass, rank = (np.array(metric(torch.nn.Identity(), images, classes, **given)) for metric in metrics)
    return mass, rank
