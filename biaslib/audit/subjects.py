"""The model that an audit is given, whatever form it comes in, behind one front."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from biaslib import attribution, models
from biaslib.audit.opening import open_model, reason
from biaslib.audit.outputs import Reading, are_shares, reading
from biaslib.audit.pictures import Preprocessing
from biaslib.errors import BiaslibError
from biaslib.store import fingerprint

Asked = Callable[[torch.Tensor], torch.Tensor]


class Answers(nn.Module):
    """A model's answers about the target, and about groups where it has outputs for them; above 0 is yes.

    Args:
        model: maps (N, 3, H, W) to (N, K), or to (N,) for one output.
        read: how its outputs are read.
    """

    def __init__(self, model: Any, read: Reading) -> None:
        super().__init__()
        # what asks for a model's device asks its parameters, and an exported program may have none
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)
        # not a child: an exported program refuses to change its mode
        self._asked = (model,)
        self._read = read
        self.output_fmt = getattr(model, "output_fmt", "NCHW")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> (N, 1 + groups), the target's first."""
        return self._read(self._asked[0](images))

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> the model's last map."""
        return self._asked[0].forward_features(images)

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> (N, 1 + groups)."""
        return self._read(self._asked[0].forward_head(features))


@dataclass(frozen=True)
class Subject:
    """A model that can be asked.

    Attributes:
        answers: the model.
        preprocessing: of its images.
        described: for the report: its name, where it comes from, its outputs.
        no_maps: why it has no attention map; "" where it has.
        key: a fingerprint of everything that its answers depend on.
        checked_for_probabilities: whether outputs that all lie in [0, 1] are to be refused, as no threshold was given.
    """

    answers: Answers
    preprocessing: Preprocessing
    described: dict[str, str]
    no_maps: str
    key: str
    checked_for_probabilities: bool


def subject(
    model: str | Path | nn.Module,
    *,
    weights: str | Path | None = None,
    output: int | None = None,
    yes: Sequence[int] = (),
    no: Sequence[int] = (),
    group_outputs: Sequence[int] = (),
    threshold: float | None = None,
    batch: int = 32,
    preprocessing: Mapping[str, Any] | None = None,
) -> Subject:
    """Opens a model and tries it on two pictures of noise.

    Args:
        model: a module; a TorchScript or `torch.export` file; `module:function`, a function without arguments that
            returns a module, found from the current folder; an architecture that `models.build` knows, also by timm's
            name for the hub (`timm/resnet18.a1_in1k`); or a folder with timm's config.json and model.safetensors.
            **The first three run their maker's code as soon as they are opened**; an architecture with its weights,
            and a folder, run none.
        weights: of an architecture: a file or folder (see `models.build`), whose preprocessing is taken from the
            config.json beside it; or "imagenet".
        output: which output tells the target; None where there is one, or two classes.
        yes: which outputs are the classes that mean yes, where the largest output wins.
        no: which mean no; empty: all others.
        group_outputs: which outputs tell the groups, in their order.
        threshold: an output above it says yes; None: 0, that of logits (see `outputs.reading`).
        batch: how many images will be asked at once.
        preprocessing: size, mean, std, crop and interpolation, where they are not the model's own.

    Raises:
        BiaslibError: for a model that cannot be opened or asked, in one sentence with the remedy.
    """
    found = open_model(model, weights)
    opened, described = found.model, found.described
    steps = Preprocessing.of(
        dict(getattr(opened, "pretrained_cfg", None) or {}),
        beside=found.beside.steps,
        name=found.beside.name,
        local=weights != "imagenet",
        **(preprocessing or {}),
    )
    fixed = described["kind"] == "torch.export file"  # such a program stays where it was made
    device = torch.device("cpu") if fixed else models.device()
    if isinstance(opened, nn.Module) and not fixed:
        # a model that was handed over stays as it was
        opened = (copy.deepcopy(opened) if opened is model else opened).to(device).eval()
        for parameter in opened.parameters():
            parameter.requires_grad_(False)
    noise = np.random.default_rng(0).integers(0, 256, (2, steps.size, steps.size, 3), dtype=np.uint8)
    pictures = torch.from_numpy(steps.normalised(noise))
    raw = _tried(opened, pictures.to(device), batch)
    outputs = 1 if raw.ndim == 1 else raw.shape[1]
    read = reading(outputs, output=output, yes=yes, no=no, groups=group_outputs, threshold=threshold)
    unsure = not read.no and threshold is None
    if unsure and are_shares(raw):
        raise BiaslibError(
            f"The {outputs} outputs of the model are probabilities that add up to 1: give the threshold 0.5, or let it "
            "return logits."
        )
    answers = Answers(opened, read).to(device)
    described = described | {"outputs": str(outputs), "answer": read.words()}
    # the code of a user's own function is not known, so what it answers to noise stands for it
    key = fingerprint.of_value([described, found.state, read, steps, np.round(raw.cpu().double().numpy(), 4)])
    return Subject(
        answers,
        steps,
        described,
        _why_no_maps(answers, opened, pictures[:1]),
        key,
        checked_for_probabilities=unsure,
    )


def _tried(model: Any, pictures: torch.Tensor, batch: int) -> torch.Tensor:
    """What the model says of two pictures of noise, where it can say anything.

    Raises:
        BiaslibError: where it cannot.
    """
    shape = " x ".join(map(str, pictures.shape[1:]))
    several = pictures[:1] if batch == 1 else pictures
    try:
        with torch.inference_mode():
            answered = model(several)
    except Exception as error:  # whatever the user's model raises
        raise BiaslibError(
            f"The model cannot take {len(several)} images of {shape} ({reason(error)[:-1]}): give the size it was "
            "made for, and a batch of 1 if it was exported with one image at a time."
        ) from error
    if not isinstance(answered, torch.Tensor) or answered.ndim not in (1, 2) or len(answered) != len(several):
        kind = tuple(answered.shape) if isinstance(answered, torch.Tensor) else type(answered).__name__
        raise BiaslibError(
            f"The model answers {len(several)} images by {kind}, and a row of numbers for each image is needed: wrap "
            "it in a module that returns its logits (N, outputs)."
        )
    if not torch.isfinite(answered).all():
        raise BiaslibError("The model answers pictures of noise by NaN or infinity: check its weights.")
    return answered


def _why_no_maps(answers: Answers, model: Any, picture: torch.Tensor) -> str:
    if not (hasattr(model, "forward_features") and hasattr(model, "forward_head")):
        return (
            "the model has no methods forward_features and forward_head, as timm's models have; without them its last "
            "map cannot be reached"
        )
    try:
        attribution.grad_cam(answers, picture, [0])
    except BiaslibError as error:
        return str(error)
    picture = picture.to(answers.anchor.device)
    with torch.inference_mode():
        whole, split = answers(picture), answers.forward_head(answers.forward_features(picture))
    if not torch.allclose(whole, split, rtol=1e-3, atol=1e-4):
        return "the model's forward_head(forward_features(images)) is not what it answers"
    return ""
