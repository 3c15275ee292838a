"""The model that an audit is given, whatever form it comes in, behind one front."""

import copy
import hashlib
import importlib
import os
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from biaslib import attribution, fingerprint, models
from biaslib.audit.checkpoints import HUBS, Beside, architecture, beside, is_torchvisions, refuse_foreign
from biaslib.audit.outputs import are_shares, check_outputs, read_for_itself, said
from biaslib.audit.pictures import Preprocessing
from biaslib.errors import BiaslibError

Asked = Callable[[torch.Tensor], torch.Tensor]
IMAGENET_CLASSES = 1000
_OTHERWISE = "; for a model of torchvision or of your own give module:function, or its answers as --predictions"


class Answers(nn.Module):
    """A model's answers about the target, and about groups where it has outputs for them; above 0 is yes.

    Args:
        model: maps (N, 3, H, W) to (N, K), or to (N,) for one output.
        outputs: the number of its outputs, K.
        target: which of them tells the target. None: the only one; of two classes, the second less the first.
        groups: which outputs tell the groups.
        threshold: of the outputs.
    """

    def __init__(
        self, model: Any, outputs: int, *, target: int | None, groups: Sequence[int] = (), threshold: float = 0.0
    ) -> None:
        super().__init__()
        # what asks for a model's device asks its parameters, and an exported program may have none
        self.anchor = nn.Parameter(torch.zeros(()), requires_grad=False)
        # not a child: an exported program refuses to change its mode
        self._asked = (model,)
        self._classes = target is None and outputs == 2
        self._columns = [0 if target is None else target, *groups]
        self.threshold = threshold
        self.output_fmt = getattr(model, "output_fmt", "NCHW")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> (N, 1 + groups), the target's first."""
        return self._chosen(self._asked[0](images))

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> the model's last map."""
        return self._asked[0].forward_features(images)

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> (N, 1 + groups)."""
        return self._chosen(self._asked[0].forward_head(features))

    def _chosen(self, outputs: torch.Tensor) -> torch.Tensor:
        outputs = outputs.reshape(len(outputs), -1)
        if self._classes:
            return outputs[:, 1:] - outputs[:, :1] - self.threshold
        return outputs[:, self._columns] - self.threshold


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
        note: what a reader should know of how its outputs, or the images, were read; "" where there is nothing.
    """

    answers: Answers
    preprocessing: Preprocessing
    described: dict[str, str]
    no_maps: str
    key: str
    checked_for_probabilities: bool
    note: str


def subject(
    model: str | Path | nn.Module,
    *,
    weights: str | Path | None = None,
    output: int | None = None,
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
        group_outputs: which outputs tell the groups, in their order.
        threshold: an output above it says yes; None: 0, that of logits.
        batch: how many images will be asked at once.
        preprocessing: size, mean, std, crop and interpolation, where they are not the model's own.

    Raises:
        BiaslibError: for a model that cannot be opened or asked, in one sentence with the remedy.
    """
    found = _opened(model, weights)
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
    check_outputs(outputs, output, group_outputs)
    logit = output is not None or outputs == 1
    if logit and threshold is None and are_shares(raw):
        raise BiaslibError(
            f"The {outputs} outputs of the model are probabilities that add up to 1: give the threshold 0.5, or let it "
            "return logits."
        )
    answers = Answers(opened, outputs, target=output, groups=group_outputs, threshold=threshold or 0.0).to(device)
    described = described | {"outputs": str(outputs), "answer": said(output, outputs)}
    asked = {"output": output, "groups": list(group_outputs), "threshold": threshold, "steps": steps}
    # the code of a user's own function is not known, so what it answers to noise stands for it
    key = fingerprint.of_value([described, found.state, asked, np.round(raw.cpu().double().numpy(), 4)])
    return Subject(
        answers,
        steps,
        described,
        _why_no_maps(answers, opened, pictures[:1]),
        key,
        checked_for_probabilities=logit and threshold is None,
        note=read_for_itself(outputs, output, group_outputs, threshold or 0.0),
    )


class _Opened(NamedTuple):
    """A model, words for it, a fingerprint of its weights, and what lies beside them."""

    model: Any
    described: dict[str, str]
    state: str
    beside: Beside = Beside()


def _opened(model: str | Path | nn.Module, weights: str | Path | None) -> _Opened:
    if isinstance(model, nn.Module):
        _no_weights(weights)
        return _Opened(model, {"model": type(model).__name__, "kind": "module in memory"}, _state(model))
    name = str(model)
    source, colon, rest = name.partition(":")
    local = colon and source == "local-dir"
    path = Path(rest if local else name)
    if path.is_file():
        _no_weights(weights)
        return _from_file(path)
    if path.is_dir() and (weights is None or architecture(name) is None):
        _no_weights(weights)
        return _from_folder(path)
    if local:
        raise BiaslibError(f"There is no folder {path}: mend its path.")
    if colon and source in HUBS:
        return _from_hub(name, rest, weights)
    if colon:
        _no_weights(weights)
        return _from_function(name)
    return _from_name(_known(name), weights)


def _known(name: str) -> str:
    """A name that `models.build` may know, or has better words for."""
    known = architecture(name)
    if known is not None:
        return known
    if Path(name).suffix and os.sep not in name and architecture(name.partition(".")[0]) is not None:
        raise BiaslibError(
            f"{name!r} is neither a file nor weights that timm knows: mend its path, or name "
            f"{name.partition('.')[0]!r} as the architecture."
        )
    if Path(name).suffix or os.sep in name:
        raise BiaslibError(f"There is no model file {name}: mend its path.")
    if is_torchvisions(name):
        raise BiaslibError(
            f"{name!r} is torchvision's name, and architectures are timm's here: write a function that returns your "
            "torchvision model and give module:function, or give the model's answers as --predictions."
        )
    return name


def _from_hub(name: str, rest: str, weights: str | Path | None) -> _Opened:
    known = architecture(rest)
    if known is None or weights is None:
        raise BiaslibError(
            f"{name} is on the Hugging Face hub, and an audit fetches no model: download it (hf download {rest} "
            "--local-dir FOLDER) and give the folder as the model."
        )
    return _from_name(known, weights)


def _from_folder(path: Path) -> _Opened:
    named = beside(path).architecture
    if not named:
        raise BiaslibError(
            f"The folder {path} is no model: it has no config.json that names an architecture of timm; for another "
            "model write a function that returns it and give module:function."
        )
    return _from_name(_known(named), path)


def _from_name(name: str, weights: str | Path | None) -> _Opened:
    if weights is None:
        raise BiaslibError(
            f"{name!r} is an architecture, and with random weights there is nothing to audit: give its weights file."
        )
    described = {"model": name, "kind": "architecture with weights"}
    if weights == "imagenet":
        built = models.build(name, IMAGENET_CLASSES, weights="imagenet")
        return _Opened(built, described | {"weights": "imagenet"}, "imagenet")
    refuse_foreign(Path(weights))
    path = models._weights_file(Path(weights))
    # takes the file apart as `models.build` does, so that both refuse the same files
    found: dict[str, torch.Tensor] = models._read_state(path)
    near = beside(path)
    if near.architecture and near.architecture.partition(".")[0] != name.partition(".")[0]:
        raise BiaslibError(
            f"{near.name} beside the weights says that they are of {near.architecture!r}, not {name!r}: name that one, "
            "or move the file elsewhere if it is of other weights."
        )
    last = models._classifier(models.build(name, 1))
    layer = found.get(f"{last}.weight")
    if layer is None:
        raise BiaslibError(
            f"The weights in {path} do not fit {name!r}: {last + '.weight'!r} is missing; name the architecture that "
            f"was saved{_OTHERWISE}."
        )
    try:
        built = models.build(name, len(layer), weights=path)
    except BiaslibError as error:  # file and name are in order by now, so they do not fit each other
        raise BiaslibError(f"{str(error).rstrip('.')}{_OTHERWISE}.") from error
    # `models.build` leaves a last layer that does not fit as initialised, for training; here it would be noise
    unfit = [key for key in built.state_dict() if key.startswith(f"{last}.") and key not in found]
    if unfit:
        raise BiaslibError(f"The weights in {path} do not fit {name!r}: {unfit[0]!r} is missing.")
    sum_ = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return _Opened(built, described | {"weights": path.name, "sha256": sum_}, _state(built), near)


def _from_file(path: Path) -> _Opened:
    refuse_foreign(path)
    sum_ = hashlib.sha256(path.read_bytes()).hexdigest()
    described = {"model": path.name, "sha256": sum_}
    inside = _names_inside(path)
    try:
        if path.suffix == ".pt2":
            return _Opened(torch.export.load(path).module(), described | {"kind": "torch.export file"}, sum_)
        if any(name.endswith("constants.pkl") for name in inside):
            with warnings.catch_warnings():
                # the maker of the file is told to move to torch.export, not its reader
                warnings.simplefilter("ignore", FutureWarning)
                loaded = torch.jit.load(str(path), map_location="cpu")
            return _Opened(loaded, described | {"kind": "TorchScript file"}, sum_)
    except Exception as error:  # both loaders raise whatever their code raises
        raise BiaslibError(f"The model file {path} cannot be opened: {_reason(error)}") from error
    if path.suffix == ".safetensors" or _is_state(path):
        raise BiaslibError(
            f"{path} holds weights and no model: give the architecture's name as the model and this file as its "
            "weights."
        )
    raise BiaslibError(
        f"{path} is not a TorchScript or torch.export file; if it is a pickled module, opening it could run anything, "
        "so it is refused: save `model.state_dict()` and give the architecture's name with it (a TorchScript or "
        "torch.export file is taken, too, but opening one also runs its maker's code, so take only one that you made "
        "or whose maker you trust)."
    )


def _from_function(name: str) -> _Opened:
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        found = function()
    except Exception as error:  # it is the user's own code
        raise BiaslibError(
            f"{name} does not give a model ({_reason(error)[:-1]}): name a function without arguments in a module that "
            "can be imported from here."
        ) from error
    if not isinstance(found, nn.Module):
        raise BiaslibError(f"{name} returns a {type(found).__name__}, and a torch module is needed.")
    return _Opened(found, {"model": name, "kind": "the user's own function"}, _state(found))


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
            f"The model cannot take {len(several)} images of {shape} ({_reason(error)[:-1]}): give the size it was "
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


def _no_weights(weights: str | Path | None) -> None:
    if weights is not None:
        raise BiaslibError("Weights go with an architecture's name only: this model brings its own.")


def _state(model: nn.Module) -> str:
    tensors = {name: _bytes(value) for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    return fingerprint.of_value([type(model).__qualname__, tensors])


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    # NumPy knows no bfloat16
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _names_inside(path: Path) -> list[str]:
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def _is_state(path: Path) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on what kind of pickle it is that is refused
            models._read_state(path)
    except BiaslibError:
        return False
    return True


def _reason(error: Exception) -> str:
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return lines[0].rstrip(".:") + "."
