"""How a classifier is trained, in one frozen record."""

from dataclasses import dataclass

from biaslib import models
from biaslib.errors import BiaslibError
from biaslib.training.steps import AUGMENTATIONS, OPTIMISERS, SCHEDULES

_LOSSES = ("cross_entropy", "binary")
_PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a classifier is trained; equal configurations and data give equal weights on one machine.

    Attributes:
        architecture: a name that `models.build` knows; with ImageNet's weights it gets their tag (`models.pinned`).
        outputs: classes for cross-entropy, attributes for the binary loss.
        hidden: width of a hidden layer before the last one, or None.
        weights: None, "imagenet", a local file or folder, see `models.build`.
        frozen: how many of the first convolutions, with everything between them, keep the weights they start with, and
            their normalisations the statistics.
        loss: "cross_entropy" (one class an image) or "binary" (one yes or no an attribute).
        balanced: weigh classes inversely to their frequency; for the binary loss, weigh the positive images of each
            attribute by (1 - p) / p.
        epochs: passes over the training images.
        batch: images a step.
        optimiser: one of adamw, adam, sgd, rmsprop.
        learning_rate: its peak.
        weight_decay: of the optimiser.
        momentum: of sgd and rmsprop.
        schedule: one_cycle, cosine or constant.
        augmentation: any of flip (mirror at random) and crop (random area of 70-100 %, aspect 3/4-4/3).
        precision: float32, bfloat16 for the forward pass, or auto: bfloat16 where the machine computes with it and the
            network gains by it, which on a CPU those with depthwise convolutions do not.
        keep: "last" epoch, or the "best" on the validation loss.
        patience: stop after so many epochs without a better validation loss; None never stops.
        seed: of initial weights, order, augmentation and dropout.
    """

    architecture: str = "small"
    outputs: int = 2
    hidden: int | None = None
    weights: str | None = None
    frozen: int = 0
    loss: str = "cross_entropy"
    balanced: bool = True
    epochs: int = 6
    batch: int = 64
    optimiser: str = "adamw"
    learning_rate: float = 4e-3
    weight_decay: float = 1e-4
    momentum: float = 0.9
    schedule: str = "one_cycle"
    augmentation: tuple[str, ...] = ("flip",)
    precision: str = "auto"
    keep: str = "last"
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "architecture", models.pinned(self.architecture, self.weights))
        choices = {
            "loss": _LOSSES,
            "optimiser": OPTIMISERS,
            "schedule": SCHEDULES,
            "precision": _PRECISIONS,
        }
        for name, known in {**choices, "keep": ("last", "best")}.items():
            if getattr(self, name) not in known:
                raise BiaslibError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}.")
        if unknown := set(self.augmentation) - set(AUGMENTATIONS):
            raise BiaslibError(f"augmentation knows {', '.join(AUGMENTATIONS)}, not {', '.join(sorted(unknown))}.")
        for name in ("outputs", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise BiaslibError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.frozen < 0:
            raise BiaslibError(f"frozen is a number of convolutions, 0 or more, not {self.frozen}.")
