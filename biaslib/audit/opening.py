"""Opens the model that an audit is given: a module, a file, a function, a folder, or a name with weights."""

import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from biaslib import models
from biaslib.audit.pictures import FILTERS
from biaslib.audit.tables import listed
from biaslib.errors import BiaslibError, reason, refused
from biaslib.models import building
from biaslib.models.networks import OURS
from biaslib.store import files, fingerprint

_HUBS = ("hf-hub", "hf_hub")
# what timm keeps of how a model was built and what its answers do not depend on, or its weights would not fit
_HARMLESS = {"num_classes", "img_size", "in_chans", "drop_rate", "drop_path_rate"}
_FOREIGN = {".onnx": "ONNX", ".h5": "Keras", ".hdf5": "Keras", ".keras": "Keras", ".tflite": "TensorFlow Lite"}
_IMAGENET_CLASSES = 1000
_OTHERWISE = "; torchvision's are torchvision/NAME; for one of your own give module:function, or its --predictions"


class _Opened(NamedTuple):
    """A model, words for it, a fingerprint of its weights, and the settings beside them with their steps."""

    model: Any
    described: dict[str, str]
    state: str
    settings: str = ""
    steps: Mapping[str, Any] | None = None


def open_model(model: str | Path | nn.Module, weights: str | Path | None) -> _Opened:
    """Opens what `model.model_under_audit` is given; a BiaslibError where it cannot be opened."""
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
    if path.is_dir() and (weights is None or _architecture(name) is None):
        _no_weights(weights)
        _, named, _ = _beside(path)
        if not named:
            raise refused("folder without a model", path=path)
        return _from_name(_known(named), path)
    if local:
        raise BiaslibError(f"There is no folder {path}: mend its path.")
    if colon and source in _HUBS:
        if weights is not None and (known := _architecture(rest)) is not None:
            return _from_name(known, weights)
        _no_weights(weights)
        return _from_hub(name, rest)
    if colon:
        _no_weights(weights)
        return _from_function(name)
    return _from_name(_known(name), weights)


def _known(name: str) -> str:
    """A name that `models.build` may know, or has better words for."""
    if (known := _architecture(name)) is not None:
        return known
    if Path(name).suffix or os.sep in name:
        raise BiaslibError(f"There is no model file {name}: mend its path, or name the architecture without an ending.")
    from torchvision.models import list_models  # takes seconds

    return f"{building.TORCHVISION}{name}" if name in list_models() else name


def _from_name(name: str, weights: str | Path | None) -> _Opened:
    if weights is None:
        raise BiaslibError(f"{name!r} is an architecture, and random weights are nothing to audit: give its weights.")
    described = {"model": name, "kind": "architecture with weights"}
    if weights == "imagenet":
        built = models.build(name, _IMAGENET_CLASSES, weights="imagenet")
        return _Opened(built, described | {"weights": "imagenet"}, "imagenet")
    _refuse_foreign(Path(weights))
    path = building.weights_file(Path(weights))
    state, wrapping = building.read_state(path)
    settings, architecture, steps = _beside(path)
    if architecture and architecture.partition(".")[0] != name.partition(".")[0]:
        raise refused("weights of another architecture", settings=settings, architecture=architecture, name=name)
    last = building.last_layer(plain := models.build(name, 1))
    # `models.build` leaves a last layer that does not fit as initialised, for training; here it would be noise
    needed = [f"{last}.weight", *(key for key in plain.state_dict() if key.startswith(f"{last}."))]
    if missing := [key for key in needed if key not in state]:
        raise refused("weights that do not fit", path=path, name=name, first=missing[0], otherwise=_OTHERWISE)
    try:
        built = models.build(name, len(state[needed[0]]), weights=path)
    except BiaslibError as error:  # file and name are in order by now, so they do not fit each other
        raise BiaslibError(f"{str(error).rstrip('.')}{_OTHERWISE}.") from error
    sum_ = "" if path.is_dir() else files.sha256(path)
    return _Opened(built, described | {"weights": path.name + wrapping, "sha256": sum_}, _state(built), settings, steps)


def _from_hub(name: str, rest: str) -> _Opened:
    """What timm makes of a repository's config.json and weights, none of which is code."""
    import timm

    try:
        built = timm.create_model(f"hf-hub:{rest}", pretrained=True)
    except Exception as error:  # the hub's clients raise types of their own, which change with their versions
        raise refused("model on the hub", name=name, rest=rest, kind=type(error).__name__, why=reason(error)) from error
    said = {key: built.pretrained_cfg[key] for key in _STEPS if built.pretrained_cfg.get(key) is not None}
    steps = {key: _usable("config.json", key, value) for key, value in said.items()}
    return _Opened(built, {"model": rest, "kind": "from the Hugging Face hub"}, _state(built), "config.json", steps)


def _from_file(path: Path) -> _Opened:
    if path.suffix != ".onnx":
        _refuse_foreign(path)
    sum_ = files.sha256(path)
    described = {"model": path.name, "sha256": sum_}
    try:
        if path.suffix == ".onnx":
            return _Opened(_Onnx(path), described | {"kind": "ONNX file"}, sum_)
        if path.suffix == ".pt2":
            return _Opened(torch.export.load(path).module(), described | {"kind": "torch.export file"}, sum_)
        if _is_torchscript(path):
            with warnings.catch_warnings():
                # the maker of the file is told to move to torch.export, not its reader
                warnings.simplefilter("ignore", FutureWarning)
                loaded = torch.jit.load(str(path), map_location="cpu")
            return _Opened(loaded, described | {"kind": "TorchScript file"}, sum_)
    except Exception as error:  # both loaders raise whatever their code raises
        raise BiaslibError(f"The model file {path} cannot be opened: {reason(error)}.") from error
    if path.suffix == ".safetensors" or _is_state(path):
        raise BiaslibError(f"{path} holds weights and no model: give its architecture's name, and this as weights.")
    raise refused("file of another kind", path=path)


class _Onnx(nn.Module):
    """The first output of an ONNX file, which onnxruntime computes on the CPU."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            from onnxruntime import InferenceSession
        except ImportError as error:
            raise ImportError("it takes onnxruntime, so run pip install 'biaslib[onnx]'") from error
        self._session = InferenceSession(path, providers=["CPUExecutionProvider"])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        given = {self._session.get_inputs()[0].name: images.detach().cpu().numpy()}
        return torch.from_numpy(self._session.run(None, given)[0]).to(images.device)


def _from_function(name: str) -> _Opened:
    try:
        returned = files.named(name)()
    except Exception as error:  # it is the user's own code
        raise refused("function without a model", name=name, reason=reason(error)) from error
    if not isinstance(returned, nn.Module):
        raise BiaslibError(f"{name} returns a {type(returned).__name__}, and a torch module is needed.")
    return _Opened(returned, {"model": name, "kind": "the user's own function"}, _state(returned))


def _no_weights(weights: str | Path | None) -> None:
    if weights is not None:
        raise BiaslibError("Weights go with an architecture's name only: this model brings its own.")


def _state(model: nn.Module) -> str:
    state = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    # as bytes, for NumPy knows no bfloat16
    raw = {name: value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy() for name, value in state.items()}
    return fingerprint.of_value([type(model).__qualname__, raw])


def _is_torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


def _is_state(path: Path) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # on what kind of pickle it is that is refused
            building.read_state(path)
    except BiaslibError:
        return False
    return True


def _architecture(name: str) -> str | None:
    """The name by which `models.build` knows an architecture, with timm's tag; None where there is none."""
    plain = name.removeprefix("timm/")
    if plain in OURS or plain.startswith(building.TORCHVISION):
        return plain
    import timm  # takes seconds, and our own networks do without

    _, dot, _ = plain.partition(".")
    known = timm.is_model(plain) and (not dot or plain in timm.list_pretrained(f"{plain}*"))
    return plain if known else None


def _refuse_foreign(path: Path) -> None:
    if kind := _FOREIGN.get(path.suffix.lower()):
        raise refused("foreign file", path=path, kind=kind)


def _beside(place: Path) -> tuple[str, str, dict[str, Any]]:
    """The name of the settings beside weights, timm's or else Hugging Face's; their architecture and preprocessing."""
    folder = place if place.is_dir() else place.parent
    name = "config.json"
    config = _read(folder / name)
    inner = _usable(name, "pretrained_cfg", config.get("pretrained_cfg", config))
    steps = {key: _usable(name, key, inner[key]) for key in _STEPS if inner.get(key) is not None}
    architecture = config.get("architecture", inner.get("architecture", ""))
    # what timm would build the model with and `models.build` does not
    if architecture and (arguments := sorted(set(config.get("model_args") or {}) - _HARMLESS)):
        raise refused("arguments of timm", arguments=listed(arguments))
    if steps or architecture:
        return name, str(architecture).removeprefix("timm/"), steps
    name = "preprocessor_config.json"
    hugging = _of_hugging_face(_read(folder / name))
    return name, "", {key: _usable(name, key, value) for key, value in hugging.items()}


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise refused("settings that are no JSON", file=file)
    return config


def _usable(name: str, key: str, value: Any) -> Any:
    if not _USABLE[key](value):
        raise refused("unusable setting", name=name, key=key, value=str(value)[:60])
    return tuple(value) if isinstance(value, list) else value


def _is_colour(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(type(part) in (int, float) for part in value)


_STEPS = ("mean", "std", "input_size", "crop_pct", "interpolation", "crop_mode")
_USABLE: dict[str, Callable[[Any], bool]] = {
    "mean": _is_colour,
    "std": _is_colour,
    "input_size": lambda of: isinstance(of, list) and len(of) == 3 and of[1] == of[2] and type(of[2]) is int,
    "crop_pct": lambda value: type(value) in (int, float),
    "interpolation": lambda value: value in FILTERS,
    "crop_mode": lambda value: isinstance(value, str),
    "pretrained_cfg": lambda value: isinstance(value, dict),
}


def _of_hugging_face(config: Mapping[str, Any]) -> dict[str, Any]:
    """By timm's names; a size that is not a square stays out, and one of height and width is squashed into."""
    plain = config.get("do_normalize") is False
    resized, cropped = _side(config.get("size")), _side(config.get("crop_size"))
    cut = cropped if cropped and config.get("do_center_crop", True) else resized
    number, names = config.get("resample"), config["size"] if resized and isinstance(config["size"], dict) else ()
    steps = {
        "mean": [0, 0, 0] if plain else config.get("image_mean"),
        "std": [1, 1, 1] if plain else config.get("image_std"),
        "input_size": [3, cut, cut] if cut else None,
        "crop_pct": config.get("crop_pct", min(1.0, cut / resized) if cut and resized else None),
        "interpolation": FILTERS[number] if isinstance(number, int) and 0 <= number < 4 else number,
        "crop_mode": "center" if "shortest_edge" in names else "squash" if names else None,
    }
    return {key: value for key, value in steps.items() if value is not None}


def _side(size: Any) -> int | None:
    """Of `224`, `{"shortest_edge": 224}`, or `{"height": 224, "width": 224}`."""
    if isinstance(size, dict):
        size = size.get("shortest_edge", size.get("height") if size.get("height") == size.get("width") else None)
    return size if isinstance(size, int) and size > 0 else None
