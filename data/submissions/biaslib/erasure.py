"""Encoded is not used: a probe reads the cue from the last features, and LEACE erases it from them.

Probes: Alain and Bengio 2016. LEACE: Belrose et al. 2023 (NeurIPS). The features x are what the last layer reads. With
v their covariance with the cue and S that with themselves, b = pinv(S) v is the best linear reader. LEACE takes x to
x - v (b . (x - mean)) / (b . v). No linear reader finds the cue then, and no other such affine map changes x less.

* *Probe of the cue*: AUC of a ridge regression on the half of the images that it was not fitted on. It says what is
  encoded. Expected above; but models without bias see the background, too: we expect a weak metric.
* *LEACE, change of the answer*: by how much the probability of the target falls where the cue is, and rises where it is
  not. It says what is used. Its signs matter: with the cue other things are erased, whose changes cancel. On balanced
  images the mean is half of what the gap between images with and without the cue loses. Expected above: a biased model
  says the target more often where the cue is. Behind a linear last layer the erasure makes the mean logits of the two
  kinds equal, so on logits the mean change would be half of the gap that the answers show already.

NaN where the cue is in all images or in none. Where features and cue have no covariance nothing is erased.

concept-erasure 0.2.4 shrinks S unless told not to: its erasure is as complete and changes more. Where the cue explains
little (a singular value of at most 0.01) it erases nothing.
"""

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from biaslib import dial, training
from biaslib.dial.entries import Seen


def last_features(network: nn.Module, pictures: np.ndarray) -> tuple[np.ndarray, nn.Module]:
    """What the last layer reads, (N, d) float64, and the layer."""
    layer, kept = network.get_submodule(network.pretrained_cfg["classifier"]), []
    hook = layer.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].cpu().double()))
    try:
        training.predict(network, pictures)
    finally:
        hook.remove()
    return torch.cat(kept).numpy(), layer


def reader(features: np.ndarray, cue: np.ndarray, ridge: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The vectors b and v; the ridge is in units of the features' mean variance."""
    centred = features - features.mean(axis=0)
    own, with_cue = (centred.T @ other / len(cue) for other in (centred, cue - cue.mean()))
    own += ridge * own.trace() / len(own) * np.eye(len(own))
    return np.linalg.lstsq(own, with_cue, rcond=None)[0], with_cue


def erased(features: np.ndarray, cue: np.ndarray) -> np.ndarray:
    """The features (N, d) after LEACE of a cue (N,) bool."""
    best, with_cue = reader(features, cue)
    told = best @ with_cue  # variance of the cue that a linear reader explains
    return features - np.outer((features - features.mean(axis=0)) @ best / told, with_cue) if told > 1e-12 else features


@torch.no_grad()
def logits_of(layer: nn.Module, features: np.ndarray) -> np.ndarray:
    """(N, outputs)."""
    return layer(torch.as_tensor(features).to(next(layer.parameters()))).cpu().double().numpy()


@dial.metric(name="Probe of the cue", tier=3, side="above", passes=1)
def probe(case: Seen) -> float:
    """Every other image of each group, of target and cue, is for fitting."""
    fitted, group = np.zeros(len(case.cue), bool), 2 * case.truth + case.cue
    for number in range(4):
        fitted[np.flatnonzero(group == number)[::2]] = True
    if any(len(np.unique(case.cue[half])) < 2 for half in (fitted, ~fitted)):
        return float("nan")
    features, _ = last_features(case.network, case.pictures)
    best, _ = reader(features[fitted], case.cue[fitted], ridge=0.01)
    return float(roc_auc_score(case.cue[~fitted], features[~fitted] @ best))


@dial.metric(name="LEACE, change of the answer", tier=3, side="above", passes=1)
def change(case: Seen) -> np.ndarray:
    """(N,) what the probability of the target loses where the cue is, or gains where it is not."""
    if case.cue.all() or not case.cue.any():
        return np.full(len(case.cue), np.nan)
    features, layer = last_features(case.network, case.pictures)
    after = case.score_of(logits_of(layer, erased(features, case.cue)))
    return np.where(case.cue, 1, -1) * (case.score - after)
