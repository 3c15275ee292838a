"""A model that can be read, and images that it is asked about."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import nn

from biaslib.audit.model import ModelUnderAudit, model_under_audit
from biaslib.audit.records import AuditOptions

SIZE, N = 32, 200
# pixels in [0, 1] as they are
PLAIN = {"size": SIZE, "mean": (0, 0, 0), "std": (1, 1, 1)}


def options(model="small", *, preprocessing=None, **given) -> AuditOptions:
    """Those of an audit of a model, with as many groups as there are outputs for them."""
    groups = [f"group {at}" for at, _ in enumerate(given.get("group_outputs", [0]))]
    asked = {"labels": "labels.csv", "target": "target", "groups": groups, "data": "images", "model": model}
    return AuditOptions(**asked, **(preprocessing or {}), **given)


def under_audit(model, **given) -> ModelUnderAudit:
    """A model that is opened as an audit opens it."""
    return model_under_audit(options(model, **given))


class Spots(nn.Module):
    """Sees how much of a picture is red and how much is green; a linear head on the two."""

    def __init__(self, red: float, green: float, outputs: int = 1):
        super().__init__()
        self.head = nn.Linear(2, outputs)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([red, green]).expand(outputs, 2))
            self.head.bias.fill_(-8.0)

    def forward_features(self, x):
        grey = x.mean(1)
        both = torch.stack([x[:, 0] - grey, x[:, 1] - grey], 1).clamp(min=0.0) * 1.5
        return nn.functional.avg_pool2d(both, 4)

    def forward_head(self, features):
        return self.head(features.mean((2, 3)))

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


class Plain(nn.Module):
    """A model without a split."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def biased():
    """Answers by the red spot alone, which marks the group."""
    return Spots(1000.0, 0.0)


def honest():
    """Answers by the green spot, which marks the target."""
    return Spots(0.0, 1000.0)


def both():
    """Two outputs, target and group."""
    model = Spots(0.0, 0.0, outputs=2)
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[0.0, 1000.0], [1000.0, 0.0]]))
    return model


def no_model():
    return 3


def draw(folder: Path, *, n: int = N, noise: float = 0.1, seed: int = 0) -> pd.DataFrame:
    """Grey pictures, half with a green spot (target) and half with a red one (group); some labels are wrong."""
    rng = np.random.default_rng(seed)
    images, masks = folder / "images", folder / "masks" / "spot"
    images.mkdir(parents=True)
    masks.mkdir(parents=True)
    green, red = np.arange(n) % 2 == 0, np.arange(n) // 2 % 2 == 0
    names = [f"{i:03d}.png" for i in range(n)]
    for i, name in enumerate(names):
        picture = np.repeat(rng.integers(90, 140, (SIZE, SIZE, 1), np.uint8), 3, axis=2)
        mask = np.zeros((SIZE, SIZE), bool)
        if green[i]:
            picture[12:16, 8:12] = (0, 255, 0)
        if red[i]:
            picture[24:28, 20:24] = (255, 0, 0)
            mask[24:28, 20:24] = True
        Image.fromarray(picture).save(images / name)
        Image.fromarray(mask).save(masks / name)
    labels = pd.DataFrame({"file": names, "green": (green ^ (rng.random(n) < noise)).astype(int)})
    labels = labels.assign(red=red.astype(int), random=rng.integers(0, 2, n))
    labels.to_csv(folder / "labels.csv", index=False)
    return labels
