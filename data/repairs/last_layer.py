"""A new last layer on the features as they are, from training images whose cue is known.

* *Last layer anew (DFR)*: Kirichenko, Izmailov and Wilson 2023 (ICLR). Logistic regressions on as many images of every
  group of class and cue, averaged over ten random choices of these images. As in the paper features are standardised.
  What differs: the paper's best version takes held-out images, ours has training images, which the network knows
  (the paper's DFR-Tr-Tr); the penalty is the square of the weights, not their sum, and it is fixed, not tuned.
* *Last layer, GroupDRO*: Sagawa, Koh, Hashimoto and Liang 2020 (ICLR). The loss is a weighted mean of the losses of the
  groups, and the weight of a group grows exponentially with its loss. What differs: the paper trains the whole network,
  in small batches; ours moves the last layer alone, from where it is, with all labelled images in every step. The
  strong penalty that the paper asks for is that of DFR here.

A network whose labelled images lack a group is given back as it is by DFR, which cannot balance them. GroupDRO takes
the groups that there are; with one group, or no labels, it gives the network back, too.
"""

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import nn

from biaslib import dial, training
from biaslib.dial.repairing import Trained

DRAWS = 10  # of balanced images
C = 0.1  # of scikit-learn: the training error's weight beside half the square of the weights
STEPS, RATE, GROUP_RATE = 500, 0.02, 0.05  # of GroupDRO: Adam's steps, its rate, and that of the groups' weights


def last_layer(network: nn.Module) -> nn.Linear:
    """The layer."""
    return network.get_submodule(network.pretrained_cfg["classifier"])


def last_features(case: Trained) -> np.ndarray:
    """(labels, d) float64: what the last layer reads of the labelled images."""
    kept: list[torch.Tensor] = []
    hook = last_layer(case.network).register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].cpu().double()))
    try:
        training.predict(case.network, case.pictures[case.rows])
    finally:
        hook.remove()
    return torch.cat(kept).numpy()


def groups(case: Trained) -> np.ndarray:
    """(labels,) int: class and cue of the labelled images."""
    return 2 * case.target[case.rows] + case.cue


def with_layer(network: nn.Module, weight: np.ndarray, bias: np.ndarray) -> nn.Module:
    """The network with this last layer."""
    layer = last_layer(network)
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weight))
        layer.bias.copy_(torch.as_tensor(bias))
    return network


def spread(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (d,) that standardise features; a feature that is always the same has deviation 1."""
    deviation = features.std(axis=0)
    return features.mean(axis=0), np.where(deviation > 1e-9, deviation, 1.0)


def balanced_regression(
    features: np.ndarray, target: np.ndarray, group: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weight (outputs, d) and bias (outputs,): the mean over draws of as many images of each group."""
    rng, found = np.random.default_rng(seed), []
    cells = [np.flatnonzero(group == each) for each in np.unique(group)]
    for _ in range(DRAWS):
        rows = np.concatenate([rng.choice(cell, min(map(len, cells)), replace=False) for cell in cells])
        mean, deviation = spread(features[rows])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = LogisticRegression(C=C, max_iter=1000).fit((features[rows] - mean) / deviation, target[rows])
        weight, bias = fitted.coef_ / deviation, fitted.intercept_
        if len(weight) == 1:  # of two classes scikit-learn keeps the second's alone
            weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
        found.append((weight, bias - weight @ mean))
    weights, biases = zip(*found, strict=True)
    return np.mean(weights, axis=0), np.mean(biases, axis=0)


@dial.repair(name="Last layer anew (DFR)", labels=1200)
def deep_feature_reweighting(case: Trained) -> nn.Module:
    """As it is where a group of class and cue has no labelled image."""
    group = groups(case)
    if len(np.unique(group)) < 2 * last_layer(case.network).out_features:
        return case.network
    layer = balanced_regression(last_features(case), case.target[case.rows], group, case.seed)
    return with_layer(case.network, *layer)


@dial.repair(name="Last layer, GroupDRO", labels=1200)
def group_robust(case: Trained) -> nn.Module:
    """As it is where fewer than two groups of class and cue have a labelled image."""
    kinds, group = np.unique(groups(case), return_inverse=True)
    if len(kinds) < 2:
        return case.network
    features, layer = last_features(case), last_layer(case.network)
    mean, deviation = spread(features)
    x, y = torch.as_tensor((features - mean) / deviation), torch.as_tensor(case.target[case.rows])
    old, bias = (part.detach().cpu().double().numpy() for part in (layer.weight, layer.bias))
    weight = torch.tensor(old * deviation, requires_grad=True)
    constant = torch.tensor(bias + old @ mean, requires_grad=True)
    optimiser, shares = torch.optim.Adam([weight, constant], lr=RATE), torch.full((len(kinds),), 1 / len(kinds))
    member = nn.functional.one_hot(torch.as_tensor(group), len(kinds)).double()
    for _ in range(STEPS):
        losses = nn.functional.cross_entropy(x @ weight.T + constant, y, reduction="none") @ member / member.sum(dim=0)
        shares = shares * (GROUP_RATE * losses.detach()).exp()
        shares = shares / shares.sum()
        optimiser.zero_grad()
        (shares @ losses + weight.square().sum() / (2 * C * len(x))).backward()
        optimiser.step()
    after = weight.detach().numpy() / deviation
    return with_layer(case.network, after, constant.detach().numpy() - after @ mean)
