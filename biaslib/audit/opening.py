"""Opens the model that an audit is given: a module, a file, a function, a folder, or a name with weights."""

import hashlib
import importlib
import os
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from biaslib import models
from biaslib.audit.checkpoints import HUBS, Beside, architecture, beside, is_torchvisions, refuse_foreign
from biaslib.errors import BiaslibError
from biaslib.models import building
from biaslib.store import fingerprint

IMAGENET_CLASSES = 1000
_OTHERWISE = "; for a model of torchvision or of your own give module:function, or its answers as --predictions"


class Opened(NamedTuple):
    """A model, words for it, a fingerprint of its weights, and what lies beside them."""

    model: Any
    described: dict[str, str]
    state: str
    beside: Beside = Beside()


def open_model(model: str | Path | nn.Module, weights: str | Path | None) -> Opened:
    """Opens what `subjects.subject` is given as a model.

    Raises:
        BiaslibError: for a model that cannot be opened, in one sentence with the remedy.
    """
    if isinstance(model, nn.Module):
        _no_weights(weights)
        return Opened(model, {"model": type(model).__name__, "kind": "module in memory"}, _state(model))
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


def _from_hub(name: str, rest: str, weights: str | Path | None) -> Opened:
    known = architecture(rest)
    if known is None or weights is None:
        raise BiaslibError(
            f"{name} is on the Hugging Face hub, and an audit fetches no model: download it (hf download {rest} "
            "--local-dir FOLDER) and give the folder as the model."
        )
    return _from_name(known, weights)


def _from_folder(path: Path) -> Opened:
    named = beside(path).architecture
    if not named:
        raise BiaslibError(
            f"The folder {path} is no model: it has no config.json that names an architecture of timm; for another "
            "model write a function that returns it and give module:function."
        )
    return _from_name(_known(named), path)


def _from_name(name: str, weights: str | Path | None) -> Opened:
    if weights is None:
        raise BiaslibError(
            f"{name!r} is an architecture, and with random weights there is nothing to audit: give its weights file."
        )
    described = {"model": name, "kind": "architecture with weights"}
    if weights == "imagenet":
        built = models.build(name, IMAGENET_CLASSES, weights="imagenet")
        return Opened(built, described | {"weights": "imagenet"}, "imagenet")
    refuse_foreign(Path(weights))
    path = building.weights_file(Path(weights))
    # takes the file apart as `models.build` does, so that both refuse the same files
    found: dict[str, torch.Tensor] = building.read_state(path)
    near = beside(path)
    if near.architecture and near.architecture.partition(".")[0] != name.partition(".")[0]:
        raise BiaslibError(
            f"{near.name} beside the weights says that they are of {near.architecture!r}, not {name!r}: name that one, "
            "or move the file elsewhere if it is of other weights."
        )
    last = building.last_layer(models.build(name, 1))
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
    return Opened(built, described | {"weights": path.name, "sha256": sum_}, _state(built), near)


def _from_file(path: Path) -> Opened:
    refuse_foreign(path)
    sum_ = hashlib.sha256(path.read_bytes()).hexdigest()
    described = {"model": path.name, "sha256": sum_}
    inside = _names_inside(path)
    try:
        if path.suffix == ".pt2":
            return Opened(torch.export.load(path).module(), described | {"kind": "torch.export file"}, sum_)
        if any(name.endswith("constants.pkl") for name in inside):
            with warnings.catch_warnings():
                # the maker of the file is told to move to torch.export, not its reader
                warnings.simplefilter("ignore", FutureWarning)
                loaded = torch.jit.load(str(path), map_location="cpu")
            return Opened(loaded, described | {"kind": "TorchScript file"}, sum_)
    except Exception as error:  # both loaders raise whatever their code raises
        raise BiaslibError(f"The model file {path} cannot be opened: {reason(error)}") from error
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


def _from_function(name: str) -> Opened:
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
        found = function()
    except Exception as error:  # it is the user's own code
        raise BiaslibError(
            f"{name} does not give a model ({reason(error)[:-1]}): name a function without arguments in a module that "
            "can be imported from here."
        ) from error
    if not isinstance(found, nn.Module):
        raise BiaslibError(f"{name} returns a {type(found).__name__}, and a torch module is needed.")
    return Opened(found, {"model": name, "kind": "the user's own function"}, _state(found))


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
            building.read_state(path)
    except BiaslibError:
        return False
    return True


def reason(error: Exception) -> str:
    """The first line of what an error says, as a sentence."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    return lines[0].rstrip(".:") + "."
