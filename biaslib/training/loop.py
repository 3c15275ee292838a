"""Training and prediction: one loop, resumable after every epoch."""

import io
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from biaslib import models, store
from biaslib.errors import BiaslibError, reason, refused
from biaslib.samples import Samples
from biaslib.store import fingerprint, parallel
from biaslib.store.files import SEAL, is_whole, sha256
from biaslib.training import objectives, reading
from biaslib.training.config import TrainingConfig, augmented, autocast
from biaslib.training.objectives import Objective, Targets

_HeldOut = tuple[Samples, torch.Tensor] | None
_BETWEEN_SAVES = 600.0  # seconds, in an epoch that takes longer


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint could not be trusted, and the training it belongs to starts anew."""


@dataclass
class Resumable:
    """A training between two steps: what changes in it, with torch's random states, is what a checkpoint holds."""

    device: torch.device
    saved: float = field(default_factory=time.monotonic, kw_only=True)  # when
    with_state: ClassVar[tuple[str, ...]]  # networks, optimisers and whatever else has a state of its own
    progress: ClassVar[tuple[str, ...]]  # numbers, tensors, and lists and dictionaries of them

    def save(self, path: Path) -> None:
        """Writes a checkpoint in place of an earlier one."""
        state = {name: getattr(self, name).state_dict() for name in self.with_state}
        state |= {name: getattr(self, name) for name in self.progress}
        save_checkpoint(state | {"random": _random_states(self.device)}, path)
        self.saved = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Takes up what a checkpoint holds."""
        for name in self.with_state:
            getattr(self, name).load_state_dict(state[name])
        for name in self.progress:
            setattr(self, name, state[name])
        _set_random_states(state["random"], self.device)


_R = TypeVar("_R", bound=Resumable)


def save_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Writes a state with its checksum, in place of an earlier one."""
    content = io.BytesIO()  # its own writer hides the reason where the disk is full
    torch.save(state, content)
    with store.sealed(path) as partial:
        partial.write_bytes(content.getbuffer())


def resumed(start: Callable[[], _R], path: Path) -> _R:
    """A training as it was when it was killed, or from its start where there is no checkpoint that can be trusted."""
    run = start()
    if not path.exists():
        return run
    try:
        if not is_whole(path):
            raise BiaslibError("the checksum differs")
        content = io.BytesIO(path.read_bytes()[:-SEAL])
        run.restore(torch.load(content, map_location=run.device, weights_only=True))
    except Exception as error:  # no checkpoint, whatever is wrong with it, may keep a training from its result
        words = f"checkpoint {path} is damaged; the training starts anew ({reason(error)})."
        warnings.warn(words, DamagedCheckpointWarning, 3)
        return start()  # the first one may be half changed
    return run


def fit(
    samples: Samples,
    targets: Targets,
    config: TrainingConfig,
    *,
    objective: Objective | None = None,
    validation: tuple[Samples, Targets] | None = None,
) -> nn.Module:
    """Trains a classifier on N images and returns it in evaluation mode, on the device that it was trained on.

    Targets are (N,) class numbers for cross-entropy, (N, outputs) booleans for the binary loss, or what the objective
    takes; without one the loss is the one that the configuration names. An objective with layers of its own, such as an
    adversary, trains them with the model. `validation` is what `keep="best"` chooses the epoch by.

    After every epoch, and every ten minutes of a longer one, a checkpoint goes to the store; a run that was killed and
    is started again with the same arguments goes on there and ends with the same weights. A finished run leaves none.

    A `BiaslibError` is raised where the targets do not fit the images, the objective or the configuration, or nothing
    can be learned from them; where every convolution is frozen; where a validation set is needed and missing.
    """
    return fit_with_criterion(samples, targets, config, objective=objective, validation=validation)[0]


def fit_with_criterion(
    samples: Samples,
    targets: Targets,
    config: TrainingConfig,
    *,
    objective: Objective | None = None,
    validation: tuple[Samples, Targets] | None = None,
) -> tuple[nn.Module, nn.Module]:
    """As `fit`, and the criterion of the last epoch with it: an objective's own layers, such as an adversary."""
    parallel.keep_memory()
    named = objectives.Binary if config.loss == "binary" else objectives.CrossEntropy
    objective = objective or named(outputs=config.outputs, balanced=config.balanced)
    answers = _checked_targets(samples, targets, config, objective)
    if validation is None and config.keep == "best":
        raise BiaslibError("keep='best' chooses by a validation set: give `validation=(samples, targets)`.")
    held_out = None if validation is None else (validation[0], _checked_targets(*validation, config, objective))
    checkpoint = _checkpoint_path(samples, answers, config, objective, held_out)
    with torch.random.fork_rng():
        run = resumed(lambda: _Run.start(samples, answers, config, objective), checkpoint)
        bar = tqdm(
            desc=f"training {config.architecture}, seed {config.seed}", total=run.steps, initial=run.steps_done(),
            unit="step", disable=not sys.stderr.isatty(),
        )  # fmt: skip

        def after_step() -> None:
            bar.update()
            if time.monotonic() - run.saved > _BETWEEN_SAVES:
                run.save(checkpoint)

        with bar:
            while run.epoch < config.epochs:
                run.train_epoch(samples, answers, after_step)
                run.validate(held_out)
                run.save(checkpoint)
        checkpoint.unlink(missing_ok=True)
        if config.keep == "best" and run.best is not None:
            run.model.load_state_dict(run.best)
    for parameter in run.model.parameters():
        parameter.requires_grad_(True)
    return run.model.to(memory_format=torch.contiguous_format).eval(), run.criterion.eval()


@torch.inference_mode()
def predict(model: nn.Module, images: np.ndarray | torch.Tensor, *, batch: int | None = None) -> np.ndarray:
    """Logits (N, outputs), float32, of uint8 (N, H, W, 3) pixels or normalised (N, 3, H, W) images.

    Pixels are normalised as the model's weights want it (`models.normalisation`). The model computes where it is, in
    evaluation mode, and is left in the mode it was in; `batch` images go through at once (None: 128, on a CPU as many
    as stay in its cache, at least 8). Images of another type or shape, or none, are a `BiaslibError`.
    """
    if len(images) == 0:
        raise BiaslibError("There are no images to predict: the set is empty.")
    place = next(model.parameters()).device
    if batch is None:
        # below 8 a large network loses more than the cache gives
        batch = max(8, models.cached_batch(*models.to_tensor(images[:1]).shape[2:])) if place.type == "cpu" else 128
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        starts = range(0, len(images), batch)
        tensors = (models.to_tensor(images[i : i + batch], place, model=model) for i in starts)
        # convolutions read this memory order faster
        parts = [model(tensor.contiguous(memory_format=torch.channels_last)).float() for tensor in tensors]
    finally:
        for module, mode in modes.items():
            module.training = mode
    return torch.cat(parts).cpu().numpy()


@dataclass
class _Run(Resumable):
    config: TrainingConfig
    model: nn.Module
    frozen: list[nn.Module]
    criterion: nn.Module
    optimiser: torch.optim.Optimizer
    steps: int
    epoch: int = 0
    step: int = 0  # of this epoch
    best: dict[str, torch.Tensor] | None = None
    best_loss: float = math.inf
    with_state = ("model", "criterion", "optimiser")
    progress = ("epoch", "step", "best", "best_loss")

    @classmethod
    def start(cls, samples: Samples, targets: torch.Tensor, config: TrainingConfig, objective: Objective) -> "_Run":
        device = models.device()
        torch.manual_seed(config.seed)
        model = models.build(config.architecture, config.outputs, weights=config.weights, hidden=config.hidden)
        model = models.placed(model)
        with torch.inference_mode():
            maps, _ = _forward(model, models.to_tensor(np.asarray(samples.images[:1]), device, model=model))
        criterion = objective.criterion(targets, maps.cpu().clone()).to(device)
        model = model.to(memory_format=torch.channels_last)
        frozen = models.first_layers(model, config.frozen)
        for module in frozen:
            module.requires_grad_(False)
        trained = (each for each in (*model.parameters(), *criterion.parameters()) if each.requires_grad)
        total = config.epochs * math.ceil(len(samples) / config.batch)
        return cls(device, config, model, frozen, criterion, _optimiser(trained, config), total)

    def train_epoch(self, samples: Samples, targets: torch.Tensor, after_step: Callable[[], None]) -> None:
        # one seed an epoch, so that a resumed run draws what an unbroken one would have drawn
        seed = int(np.random.SeedSequence([self.config.seed, self.epoch]).generate_state(1)[0])
        if self.step == 0:  # else the checkpoint's random states are taken up
            torch.manual_seed(seed)
        self.model.train()
        for module in self.frozen:
            module.eval()
        self.criterion.train()
        batches = reading.batches(samples.images, self.config.batch, np.random.default_rng(seed))
        for rows, pixels in reading.pixels(samples.images, batches[self.step :], self.device):
            for group in self.optimiser.param_groups:
                group["lr"] = _learning_rate(self.steps_done(), self.steps, self.config)
            pixels = pixels.to(self.device, non_blocking=self.device.type == "cuda")
            images = augmented(pixels, self.config.augmentation, model=self.model)
            with autocast(self.model, self.config.precision, self.device):
                maps, logits = _forward(self.model, images.contiguous(memory_format=torch.channels_last))
            loss = self.criterion(logits.float(), targets[rows].to(self.device), maps.float())
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            self.step += 1
            after_step()
        self.epoch, self.step = self.epoch + 1, 0

    def steps_done(self) -> int:
        return self.epoch * self.steps // self.config.epochs + self.step

    def validate(self, held_out: _HeldOut) -> None:
        if held_out is None:
            return
        logits = torch.from_numpy(predict(self.model, held_out[0].images)).to(self.device)
        with torch.inference_mode():
            loss = float(self.criterion.eval()(logits, held_out[1].to(self.device), None))
        if loss < self.best_loss:
            self.best_loss = loss
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}


def _optimiser(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    kinds: dict[str, Any] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    kind = kinds.get(config.optimiser, torch.optim.RMSprop)
    own = {"fused": True} if config.optimiser in ("adamw", "adam") else {"momentum": config.momentum}
    return kind(parameters, lr=config.learning_rate, weight_decay=config.weight_decay, **own)


def _learning_rate(step: int, steps: int, config: TrainingConfig) -> float:
    """Of one step: one_cycle rises linearly over the first 30 % and then follows a cosine to zero (Smith 2018)."""
    peak = config.learning_rate
    if config.schedule == "constant":
        return peak
    warm = 0.3 * steps if config.schedule == "one_cycle" else 0.0
    if step < warm:
        return peak * (0.04 + 0.96 * step / warm)
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(steps - warm, 1)))


def _forward(model: Any, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The last map, (N, C, h, w) where the architecture has one, and the logits."""
    maps = model.forward_features(images)
    logits = model.forward_head(maps)
    return maps.permute(0, 3, 1, 2) if getattr(model, "output_fmt", "NCHW") == "NHWC" else maps, logits


def _checked_targets(samples: Samples, targets: Targets, config: TrainingConfig, objective: Objective) -> torch.Tensor:
    if len(samples) == 0:
        raise BiaslibError("There is nothing to train on: the set is empty.")
    if objective.outputs != config.outputs:
        raise refused("outputs for another objective", needed=objective.outputs, outputs=config.outputs)
    if len(targets) != len(samples):
        raise BiaslibError(f"{len(samples)} images but {len(targets)} targets: give one target for every image.")
    return objective.checked(targets)


def _checkpoint_path(
    samples: Samples, targets: torch.Tensor, config: TrainingConfig, objective: Objective, held_out: _HeldOut
) -> Path:
    chosen_by = None if held_out is None else [held_out[0].images, held_out[1].numpy()]
    weights = Path("none" if config.weights in (None, "imagenet") else str(config.weights))
    files = sorted(weights.iterdir()) if weights.is_dir() else [weights] if weights.is_file() else []
    start = [(file.name, sha256(file)) for file in files]
    code = [fingerprint.of_code(fit), fingerprint.of_code(type(objective))]
    described = [config, objective, targets.numpy(), samples.images, chosen_by, start, code]
    return store.root() / "checkpoints" / f"{fingerprint.of_value(described)}.pt"


def _random_states(device: torch.device) -> list[torch.Tensor]:
    """Of torch on the CPU and, where that is another one, on the device."""
    named = [device] if device.type == "cuda" else []  # the others have one
    own = [] if device.type == "cpu" else [torch.get_device_module(device).get_rng_state(*named)]
    return [torch.get_rng_state(), *own]


def _set_random_states(states: list[torch.Tensor], device: torch.device) -> None:
    named = [device] if device.type == "cuda" else []
    torch.set_rng_state(states[0].cpu())
    for state in states[1:]:
        torch.get_device_module(device).set_rng_state(state.cpu(), *named)
