"""The model under audit: whatever form it comes in behind one front, and its outputs read as a yes or a no."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import adaptive_avg_pool2d

from biaslib import attribution, models
from biaslib.audit.opening import open_model
from biaslib.audit.pictures import Preprocessing
from biaslib.audit.records import AuditOptions
from biaslib.audit.tables import listed
from biaslib.errors import BiaslibError, reason, refused
from biaslib.store import fingerprint

WAYS = ("grad-cam", "rollout", "integrated-gradients", "occlusion", "none")  # of drawing maps


@dataclass(frozen=True)
class _Reading:
    """How a row of K outputs is read; a result above 0 is a yes."""

    yes: tuple[int, ...]  # what speaks for yes, of which the largest counts
    no: tuple[int, ...] = ()  # classes of which the largest is subtracted; empty where `yes` answers its own question
    groups: tuple[int, ...] = ()  # what answers the questions about the groups, in their order
    threshold: float = 0.0  # that is subtracted from every output that answers a question of its own

    def __call__(self, outputs: torch.Tensor) -> torch.Tensor:
        """(N, K), or (N,) for one output -> (N, 1 + groups), the target's first."""
        outputs = outputs.reshape(len(outputs), -1)
        if self.no:
            return outputs[:, self.yes].amax(1, keepdim=True) - outputs[:, self.no].amax(1, keepdim=True)
        return outputs[:, [*self.yes, *self.groups]] - self.threshold

    def words(self) -> str:
        if not self.no:
            return f"output {self.yes[0]}, counted from 0, above {self.threshold:g}"
        return f"yes where the largest of the outputs {_listed(self.yes)} is above the largest of {_listed(self.no)}"


def _read_as(outputs: int, options: AuditOptions) -> _Reading:
    """How a model with so many outputs is to be read.

    Outputs can be classes, of which the largest wins, or each of them can answer a question of its own. The numbers do
    not tell which, so a model with more outputs than are asked for is refused until somebody says it.
    """
    output: Any = options.output  # of one target
    yes, no, group_outputs, threshold = options.yes, options.no, options.group_outputs, options.threshold
    for number in (*(() if output is None else (output,)), *yes, *no, *group_outputs):
        if not 0 <= number < outputs:
            raise BiaslibError(f"There is no output {number}: the model has {outputs}, counted from 0.")
    if yes or no:
        if output is not None or group_outputs or threshold is not None:
            raise refused("classes beside an output")
        if not yes:
            raise BiaslibError("There are classes that mean no and none that mean yes: name those, too.")
        if both := sorted({*yes} & {*no}):
            raise BiaslibError(f"Class {both[0]} means yes and no at once: name it in one of the two.")
        others = tuple(no) or tuple(number for number in range(outputs) if number not in yes)
        if not others:
            raise BiaslibError(f"All {outputs} classes mean yes, so nothing can be a no: name fewer of them.")
        return _Reading(tuple(yes), others)
    if output is None and group_outputs:
        raise BiaslibError("Outputs for groups need the output of the target named, too.")
    if output is None and outputs == 2:
        if threshold is not None:
            raise refused("threshold beside two classes")
        return _Reading((1,), (0,))
    if output is None and outputs > 2:
        raise refused("outputs that nobody has named", outputs=outputs)
    named = (output or 0, *group_outputs)
    if threshold is None and outputs > len(set(named)):
        raise refused("output without a threshold", output=output, outputs=outputs)
    return _Reading(named[:1], (), named[1:], threshold or 0.0)


def class_numbers(text: str) -> list[int]:
    """The numbers of a list with ranges, such as "281-285,290", whose ends belong to it; else a BiaslibError."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or part.strip().endswith("-"):
            raise BiaslibError(f"Classes are numbers and ranges such as 281-285,290, not {text!r}.")
        numbers += range(int(first), int(last or first) + 1)
    if not numbers or len(set(numbers)) < len(numbers):
        raise BiaslibError(f"Classes are named once each, and a range begins with its smaller end, not {text!r}.")
    return numbers


class TargetOutputs(nn.Module):
    """A model whose outputs are those about the target and the groups, (N, 1 + groups); above 0 is yes."""

    def __init__(self, model: Any, reading: _Reading, features: torch.Tensor | None = None) -> None:
        super().__init__()
        # what asks for a model's device asks its parameters, and an exported program may have none
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)
        # not a child: an exported program refuses to change its mode
        self._model = (model,)
        self._reading, self._features = reading, features
        self.output_fmt = getattr(model, "output_fmt", "NCHW")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> (N, 1 + groups), the target's first."""
        return self._reading(self._model[0](images))

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> the model's last map."""
        if not (hasattr(self._model[0], "forward_features") and hasattr(self._model[0], "forward_head")):
            raise BiaslibError("the model has no methods forward_features and forward_head, as timm's models have")
        return self._model[0].forward_features(images) if self._features is None else self._features

    def knowing(self, features: torch.Tensor) -> "TargetOutputs":
        """The same, and its last map of the images that it is about to be asked about."""
        return TargetOutputs(self._model[0], self._reading, features).to(features.device)

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> (N, 1 + groups)."""
        return self._reading(self._model[0].forward_head(features))

    def last_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> (N, D) what the last linear layer reads, the mean over places; D is 0 where none is known."""
        read: list[torch.Tensor] = []
        layers = [each for each in self._model[0].modules() if isinstance(each, nn.Linear)]
        hooks = [each.register_forward_pre_hook(lambda _, given: read.extend(given[:1])) for each in layers]
        try:
            with torch.inference_mode():
                self._model[0](images.to(self.anchor.device))
        finally:
            for hook in hooks:
                hook.remove()
        if not read:  # as in a file of TorchScript, torch.export or ONNX
            return torch.zeros(len(images), 0)
        return read[-1].reshape(len(images), -1, read[-1].shape[-1]).mean(dim=1).float().cpu()


class _AtLayer(nn.Module):
    """A model divided at a layer, whose output is the map; what comes before it runs again with what comes after."""

    def __init__(self, model: Any, layer: str) -> None:
        super().__init__()
        layers = dict(model.named_modules())
        if layer not in layers:
            outer = listed([name for name, _ in model.named_children()], 20) or "none that has a name"
            raise BiaslibError(f"There is no layer {layer!r}: the model has {outer}, and what these hold (A.B).")
        self._model, self._layer, self._name, self._images = model, layers[layer], layer, torch.empty(0)

    def forward(self, images: torch.Tensor) -> Any:
        return self._model(images)

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """The output of the layer, of pictures that `forward_head` is asked about next."""
        self._images, found = images, list[torch.Tensor]()
        # a copy, as the next layer may change it in place
        with self._layer.register_forward_hook(lambda *given: found.append(torch.clone(given[-1]))):
            self._model(images)
        shape = tuple(found[0].shape) if found else ()
        if len(shape) != 4 or shape[2] != shape[3]:
            raise BiaslibError(f"layer {self._name} gives {shape}, and a map is channels x rows x as many columns")
        return found[0]

    def forward_head(self, features: torch.Tensor) -> Any:
        """What the model answers where its layer gives these."""
        with self._layer.register_forward_hook(lambda *_: features):
            return self._model(self._images)


@dataclass(frozen=True)
class ModelUnderAudit:
    """A model that can be asked."""

    outputs: TargetOutputs
    preprocessing: Preprocessing
    described: dict[str, str]  # for the report: its name, where it comes from, its outputs, how its maps are drawn
    no_maps: str  # why it has no attention map; "" where it has
    key: str  # a fingerprint of everything that its answers depend on
    checked_for_probabilities: bool  # whether outputs all in [0, 1] are to be refused, as no threshold was given


def model_under_audit(options: AuditOptions, opening: Callable[..., Any] = open_model) -> ModelUnderAudit:
    """Opens a model and tries it on two pictures of noise; `opening` may keep what it has opened.

    The model is a module; a TorchScript or `torch.export` file; `module:function`, a function without arguments that
    returns a module, found from the current folder; an architecture that `models.build` knows, also by timm's name for
    the hub (`timm/resnet18.a1_in1k`); a folder with timm's config.json and model.safetensors; or an ONNX file. **The
    first three run their maker's code as soon as they are opened**, the others, with weights, run none. The
    weights of an architecture are a file or folder (see `models.build`), whose preprocessing is taken from the
    config.json beside it; or "imagenet".
    """
    threshold, attribution = options.threshold, options.attribution
    source = opening(options.model, options.weights)
    opened, described = source.model, source.described
    brings_its_own = described["kind"] == "module in memory" and hasattr(opened, "pretrained_cfg")
    steps = Preprocessing.of(
        dict(getattr(opened, "pretrained_cfg", None) or {}),
        beside=source.steps,
        name=source.settings,
        local=options.weights != "imagenet" and not brings_its_own,
        **{name: getattr(options, name) for name in ("size", "mean", "std", "crop", "squash", "mask_value")},
    )
    fixed = described["kind"] == "torch.export file"  # such a program stays where it was made
    device = torch.device("cpu") if fixed else models.device()
    if isinstance(opened, nn.Module) and not fixed:
        # a model that was handed over stays as it was
        opened = (copy.deepcopy(opened) if opened is options.model else opened).to(device).eval()
        for parameter in opened.parameters():
            parameter.requires_grad_(False)
    noise = np.random.default_rng(0).integers(0, 256, (2, steps.size, steps.size, 3), dtype=np.uint8)
    pictures = torch.from_numpy(steps.normalised(noise))
    raw = _tried(opened, pictures.to(device), options.batch)
    outputs = 1 if raw.ndim == 1 else raw.shape[1]
    read = _read_as(outputs, options)
    unsure, sums = not read.no and threshold is None, raw.reshape(len(raw), -1).sum(dim=1)
    # as softmax gives them
    if unsure and outputs > 1 and (raw >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise refused("probabilities without a threshold", outputs=outputs)
    if (layer := options.layer) is not None:
        if attribution not in (None, "grad-cam"):
            raise BiaslibError(f"A layer is for Grad-CAM, not for {attribution}: leave one of the two out.")
        opened, attribution, described = _AtLayer(opened, layer), "grad-cam", described | {"layer of maps": layer}
    target_outputs = TargetOutputs(opened, read).to(device)
    way, no_maps = _way_of(attribution, target_outputs, pictures[:1], described["kind"])
    described = described | {"outputs": str(outputs), "answer": read.words(), "maps": way}
    # the code of a user's own function is not known, so what it answers to noise stands for it
    key = fingerprint.of_value([described, source.state, read, steps, np.round(raw.cpu().double().numpy(), 4)])
    return ModelUnderAudit(target_outputs, steps, described, no_maps, key, checked_for_probabilities=unsure)


def _tried(model: Any, pictures: torch.Tensor, batch: int | None) -> torch.Tensor:
    """What the model says of two pictures of noise; a BiaslibError where it cannot say anything."""
    shape = " x ".join(map(str, pictures.shape[1:]))
    several = pictures[:1] if batch == 1 else pictures
    try:
        with torch.inference_mode():
            outputs = model(several)
    except Exception as error:  # whatever the user's model raises
        raise refused("pictures that are not taken", n=len(several), shape=shape, reason=reason(error)) from error
    if not isinstance(outputs, torch.Tensor) or outputs.ndim not in (1, 2) or len(outputs) != len(several):
        kind = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise refused("answers of another shape", n=len(several), kind=kind)
    if not torch.isfinite(outputs).all():
        raise BiaslibError("The model answers pictures of noise by NaN or infinity: check its weights.")
    return outputs


def draw(way: str, outputs: TargetOutputs, pixels: torch.Tensor, targets: Sequence[int]) -> torch.Tensor:
    """(N, T, h, w) of the size of each output, without Grad-CAM; rollout draws one map, (N, 1, h, w), for all."""
    whole, batch = nn.Sequential(outputs), len(pixels)  # its halves need not say what it answers as a whole
    if way == "rollout":
        return attribution.attention_rollout(outputs._model[0], pixels, [0], batch=batch)
    if way == "integrated-gradients":
        options: Any = {"steps": 16, "baseline": torch.zeros(pixels.shape[1:]), "batch": batch}  # from the mean colour
        return adaptive_avg_pool2d(attribution.integrated_gradients(whole, pixels, targets, **options), 16)
    if way == "occlusion":
        return attribution.occlusion(whole, pixels, targets, absolute=True, batch=batch)
    return torch.zeros(batch, len(targets), 0, 0)


def _way_of(asked: str | None, outputs: TargetOutputs, picture: torch.Tensor, kind: str) -> tuple[str, str]:
    """How maps are drawn, and why there are none; a BiaslibError where they cannot be drawn as was asked."""
    if asked not in (None, *WAYS):
        raise BiaslibError(f"There is no attribution {asked!r}: take one of {', '.join(WAYS)}.")
    problems = []
    # what comes in a file is not differentiated unless somebody asks for that
    for way in [asked] if asked else WAYS[: 1 if "file" in kind else 3]:
        try:
            _check_grad_cam(outputs, picture) if way == "grad-cam" else draw(way, outputs, picture, [0])
            return way, "no maps were asked for" if way == "none" else ""
        except Exception as error:  # whatever the user's model raises
            problems.append(reason(error))
    if asked:
        raise BiaslibError(f"Maps cannot be drawn by {asked}: {problems[0]}.")
    return "none", f"{problems[0]}; --attribution occlusion needs the model's answers alone"


def _check_grad_cam(outputs: TargetOutputs, picture: torch.Tensor) -> None:
    attribution.grad_cam(outputs, picture, [0])
    picture = picture.to(outputs.anchor.device)
    with torch.inference_mode():
        whole, split = outputs(picture), outputs.forward_head(outputs.forward_features(picture))
    if not torch.allclose(whole, split, rtol=1e-3, atol=1e-4):
        raise BiaslibError("the model's forward_head(forward_features(images)) is not what it answers")


def _listed(classes: tuple[int, ...]) -> str:
    """Numbers with runs written as ranges."""
    # in a run all are as far beyond their places
    runs = [list(run) for _, run in groupby(enumerate(sorted(classes)), lambda placed: placed[1] - placed[0])]
    return ", ".join(f"{run[0][1]} to {run[-1][1]}" if len(run) > 1 else str(run[0][1]) for run in runs)
