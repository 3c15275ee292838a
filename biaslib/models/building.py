"""Image classifiers by name, split where attribution needs it: a feature map, then a head."""

import difflib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import nn

from biaslib.errors import BiaslibError, check_number, reason, refused
from biaslib.models.networks import IMAGENET_MEAN, IMAGENET_STD, OURS
from biaslib.samples import MappedRows

_IN_A_FOLDER = ("model.safetensors", "pytorch_model.bin")  # as Hugging Face names them
_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "state_dict_ema", "model_ema", "ema")
_PREFIXES = ("module.", "model.", "_orig_mod.")
TORCHVISION = "torchvision/"  # before torchvision's names, of which some are timm's for other networks


def build(
    architecture: str, outputs: int, *, weights: str | Path | None = None, hidden: int | None = None
) -> nn.Module:
    """An image classifier with timm's split: `forward_features` gives the map, `forward_head` the logits.

    It is on the CPU and in training mode. A new layer's initial values come from torch's global generator: call
    `torch.manual_seed` first where a run has to repeat.

    Args:
        architecture: one of ours ("small", "small_mobilenet" and "small_efficientnet" for quick runs, "lenet5" and
            "lenet5_unpadded" for digits of 28 pixels, "mobilenetv1_025" and "mobilenetv1_075"; "small_vit", a vision
            transformer for 64 pixels, others padded: patches of 8, three blocks of 48 numbers, 3 heads, no class token,
            the head on the mean of the last patches), any name that timm knows (`pinned`), or one of torchvision's,
            which lacks the split, after "torchvision/".
        outputs: the number of logits.
        weights: None (random), "imagenet" (downloaded by timm), or the path of a state dictionary (`.safetensors`, or a
            torch file without code in it) or of a folder with one. A last layer that differs stays as initialised.
        hidden: width of a hidden layer: Linear-ReLU-Dropout(0.5)-Linear takes the place of the last linear layer
            (Serianni et al. 2025, supplement C: 2,048).

    Unknown architectures, and weights that cannot be had or do not fit, are a `BiaslibError`.
    """
    check_number("outputs", outputs, 1, whole=True)
    if (architecture in OURS or architecture.startswith(TORCHVISION)) and weights == "imagenet":
        raise BiaslibError(f"There are no ImageNet weights for {architecture!r}: leave `weights` out, or name a file.")
    model = OURS[architecture](outputs) if architecture in OURS else _public_model(architecture, outputs, weights)
    if hidden is not None:
        _add_hidden_layer(model, architecture, hidden, outputs)
    if weights is not None and weights != "imagenet":
        _load(model, Path(weights))
    return model


def pinned(architecture: str, weights: str | None) -> str:
    """The architecture's name with the tag of the ImageNet weights that it starts from.

    The default tag of a name without one changes with timm's releases; the full name does not. Others stay as they are.
    """
    if weights != "imagenet" or architecture in OURS or "." in architecture:
        return architecture
    import timm

    default = timm.get_pretrained_cfg(architecture)
    return f"{architecture}.{default.tag}" if default is not None and default.tag else architecture


def cached_batch(height: int, width: int) -> int:
    """How many images of a size go through a small network at once while its maps stay in a CPU's cache, at least 1."""
    return max(1, 200_000 // (height * width))


def normalisation(model: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation that normalise a model's colours in [0, 1]: timm's `pretrained_cfg`, else ImageNet's."""
    own = getattr(model, "pretrained_cfg", None) or {}
    return tuple(own.get("mean", IMAGENET_MEAN)), tuple(own.get("std", IMAGENET_STD))


def to_tensor(
    images: np.ndarray | torch.Tensor, device: torch.device | str | None = None, *, model: nn.Module | None = None
) -> torch.Tensor:
    """Images as the models take them: (N, 3, H, W) float32, normalised.

    uint8 (N, H, W, 3) pixels are normalised as `model` wants it (None: ImageNet's, which all here but some of timm's
    have); floats (N, 3, H, W) keep their values; others are a `BiaslibError`. The result goes to `device`, if given.
    """
    # torch.tensor copies: a read-only memory map would warn, and must never be written to
    pixels = torch.tensor(np.asarray(images)) if isinstance(images, np.ndarray | MappedRows) else images
    if isinstance(pixels, torch.Tensor) and pixels.ndim == 4:
        pixels = pixels.to(device)
        if pixels.dtype == torch.uint8 and pixels.shape[3] == 3:
            values = (IMAGENET_MEAN, IMAGENET_STD) if model is None else normalisation(model)
            # as torchvision's `normalize` does, whose import takes about as long as torch's, in every page's process
            mean, std = (torch.tensor(each, device=pixels.device).view(3, 1, 1) * 255 for each in values)
            return pixels.permute(0, 3, 1, 2).float().contiguous().sub_(mean).div_(std)
        if pixels.is_floating_point() and pixels.shape[1] == 3:
            return pixels.float()
    kind = f"{images.dtype} of shape {tuple(images.shape)}" if hasattr(images, "shape") else type(images).__name__
    raise BiaslibError(f"images must be uint8 (N, H, W, 3) or normalised float (N, 3, H, W), not {kind}.")


def first_layers(model: nn.Module, convolutions: int) -> list[nn.Module]:
    """The layers with weights before the convolution after so many; a `BiaslibError` where there is none after."""
    layers = [each for each in model.modules() if next(each.parameters(recurse=False), None) is not None]
    places = [index for index, layer in enumerate(layers) if isinstance(layer, nn.Conv2d)]
    if convolutions and convolutions >= len(places):
        raise BiaslibError(f"the model has {len(places)} convolutions: {convolutions} of them cannot be its first.")
    return layers[: places[convolutions]] if convolutions else []


def _public_model(architecture: str, outputs: int, weights: str | Path | None) -> nn.Module:
    import timm  # takes as long to import as torch, and the small model does without
    from torchvision import models as known

    if architecture.startswith(TORCHVISION):
        name = architecture.removeprefix(TORCHVISION)
        nearest = difflib.get_close_matches(name, known.list_models(module=known), n=1, cutoff=0)
        if name not in nearest:
            raise BiaslibError(f"torchvision has no classifier {name!r}: did you mean {nearest[0]!r}?")
        model: Any = known.get_model(name, num_classes=outputs)
        model.pretrained_cfg = {"classifier": [key for key in model.state_dict() if key.endswith(".weight")][-1][:-7]}
        return model
    if not timm.is_model(architecture):
        near = " or ".join(map(repr, difflib.get_close_matches(architecture, [*OURS, *timm.list_models()], n=3)))
        hint = f"did you mean {near}?" if near else "take 'small', 'lenet5' or a name that timm lists."
        raise BiaslibError(f"There is no architecture {architecture!r}: {hint}")
    pretrained = weights == "imagenet"
    try:
        return timm.create_model(architecture, pretrained=pretrained, num_classes=outputs)
    except Exception as error:  # the hub's clients raise types of their own, which change with their versions
        if pretrained:
            raise refused("weights that cannot be had", architecture=architecture, reason=reason(error)) from error
        raise BiaslibError(f"timm cannot build {architecture!r}: {reason(error)}.") from error


def last_layer(model: Any) -> str:
    """Where the last layer is, as a module path."""
    return str(model.pretrained_cfg["classifier"])


def _add_hidden_layer(model: nn.Module, architecture: str, hidden: int, outputs: int) -> None:
    check_number("hidden, the units of a layer,", hidden, 1, whole=True)
    last = dict(model.named_modules()).get(last_layer(model))
    if not isinstance(last, nn.Linear):
        raise BiaslibError(f"{architecture!r} does not end in one linear layer: leave `hidden` out.")
    head = nn.Sequential(nn.Linear(last.in_features, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, outputs))
    model.set_submodule(last_layer(model), head)


def _load(model: nn.Module, path: Path) -> None:
    found, wanted = read_state(path)[0], model.state_dict()
    # a counter that nothing but momentum-less batch normalisation reads; older files lack it
    missing = {key for key in wanted.keys() - found.keys() if not key.endswith("num_batches_tracked")}
    misfits = {key for key in wanted.keys() & found.keys() if wanted[key].shape != found[key].shape}
    wrong = sorted(missing | misfits | (found.keys() - wanted.keys()))
    last = last_layer(model) + "."
    if all(key.startswith(last) for key in wrong):
        if wrong:
            found = {key: value for key, value in found.items() if not key.startswith(last)}
        model.load_state_dict(found, strict=False)
        return
    first = next(key for key in wrong if not key.startswith(last))
    problem = "is missing" if first in missing else "has another shape" if first in misfits else "is unknown"
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    raise refused("weights of another model", path=path, first=first, wrong=problem, others=others)


def read_state(path: Path) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors of a weights file or folder by name, taken out of what they may be wrapped in; and that in words."""
    file = weights_file(path)
    if not file.is_file():
        raise BiaslibError(f"There is no weights file {file}: give a .safetensors or .pt file, or 'imagenet'.")
    try:
        if file.suffix == ".safetensors":
            return _without_prefix(safetensors.torch.load_file(file), "")
        found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise refused("weights that are not opened", file=file) from error
    except Exception as error:  # the readers raise whatever a damaged file, or a text, leads them into
        raise BiaslibError(f"The weights file {file} cannot be read: it is damaged or of another kind.") from error
    return _without_prefix(*_unwrapped(found, file))


def weights_file(path: Path) -> Path:
    """The weights in a folder of Hugging Face; any other path as it is."""
    if not path.is_dir():
        return path
    inside = [path / name for name in _IN_A_FOLDER if (path / name).is_file()]
    if inside:
        return inside[0]
    if (path / "model.json").is_file():
        raise refused("weights of TensorFlow.js", path=path)
    raise BiaslibError(f"The folder {path} holds no {' and no '.join(_IN_A_FOLDER)}: give the weights file itself.")


def _unwrapped(found: Any, file: Path) -> tuple[dict[str, torch.Tensor], str]:
    """The state dictionary that a training framework keeps beside its epoch, its optimiser and so on."""
    if _is_state(found):
        return found, ""
    names = [name for name in _WRAPPERS if isinstance(found, dict) and _is_state(found.get(name))]
    if len(names) > 1:
        raise BiaslibError(f"{file} holds several sets of weights ({', '.join(names)}): save the one you use alone.")
    if not names:
        raise BiaslibError(f"The weights file {file} is not a state dictionary: save `model.state_dict()` alone.")
    return found[names[0]], f", its entry {names[0]!r}"


def _is_state(found: Any) -> bool:
    items = found.items() if isinstance(found, dict) else ()
    return len(items) > 0 and all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in items)


def _without_prefix(state: dict[str, torch.Tensor], words: str) -> tuple[dict[str, torch.Tensor], str]:
    """Without what wrappers of a module put before every name."""
    while prefix := next((prefix for prefix in _PREFIXES if state and all(n.startswith(prefix) for n in state)), ""):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
        words += f", {prefix!r} taken off every name"
    return state, words
