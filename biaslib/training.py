"""Training and prediction: one configuration, one loop, resumable after every epoch."""

import hashlib
import math
import pickle
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from biaslib import augmentation, fingerprint, models, objectives, store
from biaslib.errors import BiaslibError
from biaslib.objectives import Objective, Targets
from biaslib.samples import Samples

LOSSES = ("cross_entropy", "binary")
OPTIMISERS = ("adamw", "adam", "sgd", "rmsprop")
SCHEDULES = ("one_cycle", "cosine", "constant")
PRECISIONS = ("auto", "float32", "bfloat16")


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint could not be read, and the training it belongs to starts anew."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a classifier is trained; equal configurations and data give equal weights on one machine.

    Attributes:
        architecture: a name that `models.build` knows.
        outputs: classes for cross-entropy, attributes for the binary loss.
        hidden: width of a hidden layer before the last one, or None.
        weights: None, "imagenet" or a local file.
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
        precision: float32, bfloat16 for the forward pass, or auto: bfloat16 where the machine computes with it.
        keep: "last" epoch, or the "best" on the validation loss.
        patience: stop after so many epochs without a better validation loss; None never stops.
        seed: of initial weights, order, augmentation and dropout.
    """

    architecture: str = "small"
    outputs: int = 2
    hidden: int | None = None
    weights: str | None = None
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
        choices = {"loss": LOSSES, "optimiser": OPTIMISERS, "schedule": SCHEDULES, "precision": PRECISIONS}
        for name, known in {**choices, "keep": ("last", "best")}.items():
            if getattr(self, name) not in known:
                raise BiaslibError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}.")
        if unknown := set(self.augmentation) - set(augmentation.KINDS):
            raise BiaslibError(f"augmentation knows {', '.join(augmentation.KINDS)}, not {', '.join(sorted(unknown))}.")
        for name in ("outputs", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise BiaslibError(f"{name} must be at least 1, not {getattr(self, name)}.")


def fit(
    samples: Samples,
    targets: Targets,
    config: TrainingConfig,
    *,
    objective: Objective | None = None,
    validation: tuple[Samples, Targets] | None = None,
) -> nn.Module:
    """Trains a classifier and returns it on the CPU, in evaluation mode.

    After every epoch a checkpoint goes to the store; a run that was killed and is started again with the same data
    and configuration goes on from there and ends with the same weights. A finished run leaves no checkpoint.

    Args:
        samples: N training images.
        targets: (N,) class numbers for cross-entropy, (N, outputs) booleans for the binary loss, or what the
            objective takes.
        config: everything else.
        objective: what to train for; None: the loss that the configuration names. One with layers of its own, such
            as an adversary, trains them with the model.
        validation: images and targets to choose the epoch by; needed by `keep="best"` and by `patience`.

    Raises:
        BiaslibError: where the set is empty, the targets do not fit the images, hold one class only, or an attribute
            is the same everywhere; where the objective needs other outputs than the configuration has; or where the
            validation set that the configuration needs is missing.
    """
    objective = objective or _named_objective(config)
    answers = _checked_targets(samples, targets, config, objective)
    if validation is None and (config.keep == "best" or config.patience is not None):
        raise BiaslibError("keep='best' and patience choose by a validation set: give `validation=(samples, targets)`.")
    held_out = None if validation is None else (validation[0], _checked_targets(*validation, config, objective))
    checkpoint = _checkpoint_path(samples, answers, config, objective, held_out)
    with torch.random.fork_rng():
        run = _Run.start(samples, answers, config, objective)
        run.resume(checkpoint)
        progress = tqdm(
            range(run.epoch, config.epochs),
            initial=run.epoch,
            total=config.epochs,
            desc=f"training {config.architecture}, seed {config.seed}",
            unit="epoch",
            disable=not sys.stderr.isatty(),
        )
        for _ in progress:
            if run.stopped(config.patience):
                break
            run.train_epoch(samples, answers)
            run.validate(held_out)
            run.save(checkpoint)
        checkpoint.unlink(missing_ok=True)
        if config.keep == "best" and run.best is not None:
            run.model.load_state_dict(run.best)
    return run.model.cpu().to(memory_format=torch.contiguous_format).eval()


@torch.inference_mode()
def predict(model: nn.Module, images: np.ndarray | torch.Tensor, *, batch: int = 128) -> np.ndarray:
    """Logits (N, outputs), float32, of uint8 (N, H, W, 3) pixels or normalised (N, 3, H, W) images.

    The model computes where it is, in evaluation mode, and is left in the mode it was in.

    Raises:
        BiaslibError: where the images have another type or shape, or there are none.
    """
    if len(images) == 0:
        raise BiaslibError("There are no images to predict: the set is empty.")
    place = next(model.parameters()).device
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        starts = range(0, len(images), batch)
        tensors = (models.to_tensor(images[i : i + batch], place) for i in starts)
        # convolutions read this memory order faster
        parts = [model(tensor.contiguous(memory_format=torch.channels_last)).float() for tensor in tensors]
    finally:
        for module, mode in modes.items():
            module.training = mode
    return torch.cat(parts).cpu().numpy()


@dataclass
class _Run:
    """A training between two epochs: everything a checkpoint has to hold."""

    config: TrainingConfig
    model: nn.Module
    criterion: nn.Module
    optimiser: torch.optim.Optimizer
    steps: int
    device: torch.device
    epoch: int = 0
    best: dict[str, torch.Tensor] | None = None
    best_loss: float = math.inf
    best_epoch: int = 0

    @classmethod
    def start(cls, samples: Samples, targets: torch.Tensor, config: TrainingConfig, objective: Objective) -> "_Run":
        device = models.device()
        torch.manual_seed(config.seed)
        model = models.build(config.architecture, config.outputs, weights=config.weights, hidden=config.hidden)
        with torch.inference_mode():
            maps, _ = _forward(model.eval(), models.to_tensor(np.asarray(samples.images[:1])))
        criterion = objective.criterion(targets, maps.clone()).to(device)
        model = model.to(device).to(memory_format=torch.channels_last)
        optimiser = _optimiser([*model.parameters(), *criterion.parameters()], config)
        steps = config.epochs * math.ceil(len(samples) / config.batch)
        return cls(config, model, criterion, optimiser, steps, device)

    def train_epoch(self, samples: Samples, targets: torch.Tensor) -> None:
        # one seed an epoch, so that a resumed run draws what an unbroken one would have drawn
        seed = int(np.random.SeedSequence([self.config.seed, self.epoch]).generate_state(1)[0])
        torch.manual_seed(seed)
        self.model.train()
        self.criterion.train()
        step = self.epoch * math.ceil(len(samples) / self.config.batch)
        for rows in _batches(len(samples), self.config.batch, np.random.default_rng(seed)):
            for group in self.optimiser.param_groups:
                group["lr"] = _learning_rate(step, self.steps, self.config)
            images = augmentation.augmented(_pixels(samples.images, rows, self.device), self.config.augmentation)
            with _autocast(self.config.precision, self.device):
                maps, logits = _forward(self.model, images.contiguous(memory_format=torch.channels_last))
            loss = self.criterion(logits.float(), targets[rows].to(self.device), maps.float())
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            step += 1
        self.epoch += 1

    def validate(self, held_out: tuple[Samples, torch.Tensor] | None) -> None:
        if held_out is None:
            return
        logits = torch.from_numpy(predict(self.model, held_out[0].images)).to(self.device)
        with torch.inference_mode():
            loss = float(self.criterion.eval()(logits, held_out[1].to(self.device), None))
        if loss < self.best_loss:
            self.best_loss, self.best_epoch = loss, self.epoch
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def stopped(self, patience: int | None) -> bool:
        return patience is not None and self.epoch - self.best_epoch >= patience

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "criterion": self.criterion.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "epoch": self.epoch,
            "best": self.best,
            "best_loss": self.best_loss,
            "best_epoch": self.best_epoch,
        }
        with store.replacing(path) as partial:
            torch.save(state, partial)

    def resume(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
        except (RuntimeError, EOFError, KeyError, ValueError, pickle.UnpicklingError):
            warnings.warn(f"checkpoint {path.name} is damaged; the training starts anew.", DamagedCheckpointWarning, 3)
            return
        self.model.load_state_dict(state["model"])
        self.criterion.load_state_dict(state["criterion"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.epoch, self.best = state["epoch"], state["best"]
        self.best_loss, self.best_epoch = state["best_loss"], state["best_epoch"]


def _forward(model: Any, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The last map, (N, C, h, w) where the architecture has one, and the logits."""
    maps = model.forward_features(images)
    logits = model.forward_head(maps)
    return maps.permute(0, 3, 1, 2) if getattr(model, "output_fmt", "NCHW") == "NHWC" else maps, logits


def _named_objective(config: TrainingConfig) -> Objective:
    kind = objectives.Binary if config.loss == "binary" else objectives.CrossEntropy
    return kind(outputs=config.outputs, balanced=config.balanced)


def _checked_targets(samples: Samples, targets: Targets, config: TrainingConfig, objective: Objective) -> torch.Tensor:
    if len(samples) == 0:
        raise BiaslibError("There is nothing to train on: the set is empty.")
    if objective.outputs != config.outputs:
        raise BiaslibError(
            f"the objective needs {objective.outputs} outputs, but the configuration has {config.outputs}: "
            f"set outputs={objective.outputs}."
        )
    if len(targets) != len(samples):
        raise BiaslibError(f"{len(samples)} images but {len(targets)} targets: give one target for every image.")
    return objective.checked(targets)


def _checkpoint_path(
    samples: Samples,
    targets: torch.Tensor,
    config: TrainingConfig,
    objective: Objective,
    held_out: tuple[Samples, torch.Tensor] | None,
) -> Path:
    chosen_by = None if held_out is None else [held_out[0].images, held_out[1].numpy()]
    weights = Path(config.weights) if config.weights not in (None, "imagenet") else None
    start = hashlib.sha256(weights.read_bytes()).hexdigest() if weights is not None and weights.is_file() else None
    code = [fingerprint.of_code(fit), fingerprint.of_code(type(objective))]
    described = [config, objective, targets.numpy(), samples.images, chosen_by, start, code]
    return store.root() / "checkpoints" / f"{fingerprint.of_value(described)}.pt"


def _optimiser(parameters: list[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    common: dict[str, Any] = {
        "params": parameters,
        "lr": config.learning_rate,
        "weight_decay": config.weight_decay,
    }
    match config.optimiser:
        case "adamw":
            return torch.optim.AdamW(**common)
        case "adam":
            return torch.optim.Adam(**common)
        case "sgd":
            return torch.optim.SGD(**common, momentum=config.momentum)
        case _:
            return torch.optim.RMSprop(**common, momentum=config.momentum)


def _learning_rate(step: int, steps: int, config: TrainingConfig) -> float:
    """Of one step: one_cycle rises linearly over the first 30 % and then follows a cosine to zero (Smith 2018)."""
    if config.schedule == "constant":
        return config.learning_rate
    warm = 0.3 * steps if config.schedule == "one_cycle" else 0.0
    if step < warm:
        return config.learning_rate * (0.04 + 0.96 * step / warm)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))


def _batches(n: int, batch: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    order = rng.permutation(n)
    # a last batch of one image has no variance for batch normalisation
    cuts = [i for i in range(batch, n, batch) if n - i > 1]
    yield from np.split(order, cuts)


def _pixels(images: np.ndarray, rows: np.ndarray, device: torch.device) -> torch.Tensor:
    # sorted rows make reading a memory map sequential; the order inside a batch does not matter to the loss,
    # but the targets are picked by `rows`, so the pixels go back into that order
    order = np.argsort(rows)
    batch = np.empty((len(rows), *images.shape[1:]), np.uint8)
    batch[order] = images[rows[order]]
    return torch.from_numpy(batch).to(device)


def _autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    wanted = precision == "bfloat16" or (precision == "auto" and _has_bfloat16(device))
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # older releases of torch cannot tell, and emulation would be slower than float32
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)() if device.type == "cpu" else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
