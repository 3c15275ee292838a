"""What surrounds a checkpoint: the name of its architecture, and the configuration that lies beside its weights."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biaslib.audit.pictures import FILTERS
from biaslib.audit.tables import listed
from biaslib.errors import BiaslibError
from biaslib.models.networks import OURS

HUBS = ("hf-hub", "hf_hub")
_RESAMPLING = ("nearest", "lanczos", "bilinear", "bicubic")  # as Pillow, and so Hugging Face, numbers them
# what timm keeps of how a model was built and what its answers do not depend on, or its weights would not fit
_HARMLESS = {"num_classes", "img_size", "in_chans", "drop_rate", "drop_path_rate"}
_FOREIGN = {".onnx": "ONNX", ".h5": "Keras", ".hdf5": "Keras", ".keras": "Keras", ".tflite": "TensorFlow Lite"}


@dataclass(frozen=True)
class Beside:
    """A configuration that lies beside weights.

    Attributes:
        name: of its file; "" where there is none.
        architecture: that it names; "" where it names none.
        steps: of the preprocessing, by timm's names for them.
    """

    name: str = ""
    architecture: str = ""
    steps: Mapping[str, Any] | None = None


def architecture(name: str) -> str | None:
    """The name by which `models.build` knows an architecture, with timm's tag; None where there is none."""
    plain = name.removeprefix("timm/")
    if plain in OURS:
        return plain
    import timm  # takes seconds, and our own networks do without

    _, dot, _ = plain.partition(".")
    known = timm.is_model(plain) and (not dot or plain in timm.list_pretrained(f"{plain}*"))
    return plain if known else None


def beside(place: Path) -> Beside:
    """What the configuration beside weights says: timm's config.json, else Hugging Face's preprocessor_config.json.

    Args:
        place: the weights file, or the folder that holds it.

    Raises:
        BiaslibError: for one that cannot be read, or whose settings cannot be followed.
    """
    folder = place if place.is_dir() else place.parent
    config = _read(folder / "config.json")
    inner = config.get("pretrained_cfg", config)
    if not isinstance(inner, dict):
        raise _unusable("config.json", "pretrained_cfg", inner)
    steps = {key: _checked("config.json", key, inner[key]) for key in _USABLE if inner.get(key) is not None}
    named = config.get("architecture", inner.get("architecture", ""))
    if named:
        _check_arguments(config.get("model_args"))
    if steps or named:
        return Beside("config.json", str(named).removeprefix("timm/"), steps)
    hugging = _of_hugging_face(_read(folder / "preprocessor_config.json"))
    name = "preprocessor_config.json"
    return (
        Beside(name, "", {key: _checked(name, key, value) for key, value in hugging.items()}) if hugging else Beside()
    )


def refuse_foreign(path: Path) -> None:
    """Refuses files of other frameworks.

    Raises:
        BiaslibError: for one of them, by its ending.
    """
    kind = _FOREIGN.get(path.suffix.lower())
    if kind:
        raise BiaslibError(
            f"{path}: {kind} is not read: ask the model yourself and give its answers as --predictions, or give a "
            "function that returns a torch module as module:function."
        )


def is_torchvisions(name: str) -> bool:
    """Whether torchvision has a model of this name."""
    from torchvision.models import list_models

    return name in list_models()


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(file) from error
    if not isinstance(found, dict):
        raise _unreadable(file)
    return found


def _unreadable(file: Path) -> BiaslibError:
    return BiaslibError(
        f"{file.name} beside the weights cannot be read as settings in JSON ({file}): get it again, or move it "
        "elsewhere."
    )


def _unusable(name: str, key: str, value: Any) -> BiaslibError:
    return BiaslibError(
        f"{name} beside the weights has no usable {key} ({str(value)[:60]!r}): mend it, or move the file elsewhere and "
        "give --mean, --std, --size and --crop."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_colour(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))


def _is_square(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and isinstance(value[2], int) and value[1] == value[2]


_USABLE: dict[str, Callable[[Any], bool]] = {
    "mean": _is_colour,
    "std": _is_colour,
    "input_size": _is_square,
    "crop_pct": _is_number,
    "interpolation": lambda value: value in FILTERS,
    "crop_mode": lambda value: isinstance(value, str),
}


def _checked(name: str, key: str, value: Any) -> Any:
    if not _USABLE[key](value):
        raise _unusable(name, key, value)
    return tuple(value) if isinstance(value, list) else value


def _check_arguments(arguments: Any) -> None:
    """Refuses what timm would build the model with and `models.build` does not."""
    others = sorted(set(arguments or {}) - _HARMLESS)
    if others:
        raise BiaslibError(
            f"config.json beside the weights asks for model_args ({listed(others)}), which an audit does not pass on: "
            "write a function that builds the model with them and give module:function."
        )


def _of_hugging_face(config: Mapping[str, Any]) -> dict[str, Any]:
    """By timm's names; a size that is not a square stays out, and a picture is not squashed into one."""
    plain = config.get("do_normalize") is False
    resized, kept = _side(config.get("size")), _side(config.get("crop_size"))
    cut = kept if kept and config.get("do_center_crop", True) else resized
    number = config.get("resample")
    found = {
        "mean": [0, 0, 0] if plain else config.get("image_mean"),
        "std": [1, 1, 1] if plain else config.get("image_std"),
        "input_size": [3, cut, cut] if cut else None,
        "crop_pct": config.get("crop_pct", min(1.0, cut / resized) if cut and resized else None),
        "interpolation": _RESAMPLING[number] if isinstance(number, int) and 0 <= number < 4 else number,
    }
    return {key: value for key, value in found.items() if value is not None}


def _side(size: Any) -> int | None:
    """Of `224`, `{"shortest_edge": 224}`, or `{"height": 224, "width": 224}`."""
    if isinstance(size, dict):
        size = size.get("shortest_edge", size.get("height") if size.get("height") == size.get("width") else None)
    return size if isinstance(size, int) and size > 0 else None
