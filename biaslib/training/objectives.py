"""What a classifier is trained for: which targets it takes, how many logits it needs, which loss it lowers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from biaslib.errors import BiaslibError, refused

Targets = np.ndarray | pd.Series | pd.DataFrame


class Objective(Protocol):
    """Plugs into `training.fit`. Implementations are frozen dataclasses: their fields name the run."""

    @property
    def outputs(self) -> int:
        """How many logits the model needs."""

    def checked(self, targets: Targets) -> torch.Tensor:
        """The targets as the criterion takes them; those of another type, shape or range are refused."""

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """A module called with (logits, targets, maps) that gives the loss; its parameters are trained, too.

        In evaluation, where one epoch is compared with another, maps is None. `targets` are those of all training
        images, as `checked` returns them; those from which nothing can be learned are refused. `maps` is the model's
        `forward_features` for one image, (1, C, h, w), to build layers that fit.
        """


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """One class an image, from targets (N,); where `balanced`, classes are weighed inversely to their frequency."""

    outputs: int
    balanced: bool = True

    def checked(self, targets: Targets) -> torch.Tensor:
        """(N,) class numbers."""
        array = np.asarray(targets)
        if array.ndim != 1 or array.dtype.kind not in "bui":
            raise BiaslibError(f"cross-entropy takes (N,) class numbers, not {array.dtype} of shape {array.shape}.")
        classes = torch.tensor(array, dtype=torch.long)
        _check_classes(classes, self.outputs)
        return classes

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """Cross-entropy, each class weighed by how rare it is where balanced."""
        present = targets.unique()
        if len(present) < 2:
            raise BiaslibError(f"Every training image has class {int(present[0])}: a classifier needs two classes.")
        weights = class_weights(targets, self.outputs) if self.balanced else None
        return WithoutMaps(nn.CrossEntropyLoss(weights))


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A yes or no for each attribute, from targets (N, outputs); where `balanced`, a yes weighs (1 - p) / p."""

    outputs: int
    balanced: bool = True

    def checked(self, targets: Targets) -> torch.Tensor:
        """(N, outputs) 0 and 1, float."""
        array = np.asarray(targets)
        if array.ndim != 2 or array.shape[1] != self.outputs or array.dtype.kind not in "bui":
            raise refused("targets that are no answers", n=self.outputs, dtype=array.dtype, shape=array.shape)
        if not np.isin(array, (0, 1)).all():
            raise BiaslibError("the binary loss takes 0 and 1 only; for classes take cross-entropy.")
        return torch.tensor(array, dtype=torch.float32)

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """Binary cross-entropy, averaged over the attributes."""
        _check_attributes(targets)
        share = targets.mean(0)
        weights = (1 - share) / share if self.balanced else None
        return WithoutMaps(nn.BCEWithLogitsLoss(pos_weight=weights))


@dataclass(frozen=True, kw_only=True)
class AttributesAndGroup:
    """What objectives with targets (N, A + 1) share: A attributes, 0 or 1, and last the number of one of G groups."""

    attributes: int
    groups: int

    def checked(self, targets: Targets) -> torch.Tensor:
        """(N, A + 1), float."""
        array = np.asarray(targets)
        if array.ndim != 2 or array.shape[1] != self.attributes + 1 or array.dtype.kind not in "bui":
            raise refused("joint targets of another shape", columns=self.attributes + 1, of=self, array=array)
        if not np.isin(array[:, :-1], (0, 1)).all():
            raise BiaslibError("attributes must be 0 or 1 in every column but the last, which is the group.")
        _check_classes(torch.tensor(array[:, -1], dtype=torch.long), self.groups)
        return torch.tensor(array, dtype=torch.float32)

    def check_learnable(self, targets: torch.Tensor) -> None:
        """Refuses attributes that are the same on every image, and groups that no image is of."""
        _check_attributes(targets[:, :-1])
        for group in range(self.groups):
            if not (targets[:, -1] == group).any():
                raise refused("group that is never trained on", group=group)


@dataclass(frozen=True, kw_only=True)
class Joint(AttributesAndGroup):
    """Attributes and group, as paper B trains (section 5.1): targets of `AttributesAndGroup`, logits (N, A + G)."""

    @property
    def outputs(self) -> int:
        """One logit for each attribute and one for each group."""
        return self.attributes + self.groups

    def criterion(self, targets: torch.Tensor, maps: torch.Tensor) -> nn.Module:
        """Mean over the A + 1 targets: the attributes' binary cross-entropies and the group's cross-entropy."""
        self.check_learnable(targets)
        return WithoutMaps(self._loss)

    def _loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        width = self.attributes
        binary = binary_cross_entropy_with_logits(logits[:, :width], targets[:, :-1])
        return (width * binary + cross_entropy(logits[:, width:], targets[:, -1].long())) / (width + 1)


def _check_attributes(targets: torch.Tensor) -> None:
    share = targets.mean(0)
    if constant := [str(i) for i, value in enumerate(share) if value in (0, 1)]:
        raise refused("targets of one value", columns=", ".join(constant))


def _check_classes(classes: torch.Tensor, outputs: int) -> None:
    if len(classes) and (int(classes.max()) >= outputs or int(classes.min()) < 0):
        raise refused("classes beyond the outputs", first=int(classes.min()), last=int(classes.max()), outputs=outputs)


def class_weights(classes: torch.Tensor, outputs: int) -> torch.Tensor:
    """(outputs,) weights inverse to the classes' frequencies, 1 on average over the images."""
    counts = torch.bincount(classes, minlength=outputs).float()
    return len(classes) / (counts.clamp(min=1) * (counts > 0).sum())


class WithoutMaps(nn.Module):
    """A loss of torch's, or a function, which looks at logits and targets alone."""

    def __init__(self, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: torch.Tensor, targets: torch.Tensor, maps: torch.Tensor | None) -> torch.Tensor:
        """The loss to lower."""
        return self.loss(logits, targets)
