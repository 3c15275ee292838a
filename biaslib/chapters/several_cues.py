"""What sets of objects do to classifiers of a robot's maker, and which slices a search reports that knows of none."""

import numpy as np
import pandas as pd
import torch
from scipy.special import expit
from torch import nn

from biaslib import attribution, models, recipes, training
from biaslib.audit import discovery
from biaslib.audit.inputs import Binary, LabelledImages
from biaslib.gan.counterfactuals import features
from biaslib.recipes import Drawn, Recipe
from biaslib.store import stored
from biaslib.worlds.scenes import ASSOCIATIONS, Scenes


@stored("several-cues", passes=lambda recipe, told, test, seed: (told.images + test.images, 2))
def searched(recipe: Recipe, told: Drawn, test: Drawn, seed: int) -> dict[str, np.ndarray]:
    """One model on N test images: a network that tells objects, with new last layers that tell the maker as in `told`.

    `probability` (N,) of maker 1; `effects` on it of each of `ASSOCIATIONS` with a dial (`_effect`); `features` and
    `maps` (slices, N) bool: what the audit reports by each of its ways, on the half of the images that it counts on.
    """
    network, pictures, table = recipes.load(recipe), test.samples().images, test.table()
    network.fc = head = _last_layers(features(network, told.samples().images), told.table()[Scenes.target], seed)
    seen = torch.from_numpy(features(network, pictures)).to(models.device())
    last, logits = (layers(seen).detach().cpu().numpy() for layers in (head[:-1], head))
    answer, score = logits.argmax(axis=1), logits[:, 1] - logits[:, 0]
    maps = attribution.grad_cam(network, models.to_tensor(pictures, model=network), answer[:, None])[:, 0].numpy()
    answered = LabelledImages(
        files=tuple(map(str, table.index)), labels=table[[Scenes.target]] == 1, train=None, groups=(), scores=score,
        predicted=pd.DataFrame({Scenes.target: answer == 1}), target=Binary(Scenes.target, ("0", "1"), ("0", "1")),
    )  # fmt: skip
    effects = [_effect(network, table.head(20), each.objects) for each in ASSOCIATIONS if each.dial]
    found = {"probability": expit(score), "effects": np.array(effects)}
    for way, space in {"features": last, "maps": maps}.items():
        found[way] = np.array([*discovery.discover(answered, {way: space}, table[[]], seed).slices.values()], bool)
    return found


def _last_layers(seen: np.ndarray, maker: pd.Series, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.BatchNorm1d(seen.shape[1]), nn.Linear(seen.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))
    optimiser = torch.optim.AdamW(layers.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(layers(torch.from_numpy(seen)), torch.tensor(maker).long()).backward()
        optimiser.step()
    return layers.to(models.device()).eval()


def _effect(network: nn.Module, table: pd.DataFrame, objects: tuple[str, ...]) -> float:
    """Mean probability of maker 1 with an even number of the objects absent, less that with an odd number."""
    effect = 0.0
    for present in np.ndindex((2,) * len(objects)):
        edited = table.assign(**dict(zip(objects, present, strict=True)))
        logits = training.predict(network, Scenes().render(edited, regions=()).images)
        effect += (-1) ** present.count(0) * expit(logits[:, 1] - logits[:, 0]).mean() / 2 ** (len(objects) - 1)
    return effect
