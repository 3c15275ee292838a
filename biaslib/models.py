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

from biaslib.errors import BiaslibError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class SmallCNN(nn.Module):
    """A classifier for quick runs: 64 px in, an 8 x 8 map with a receptive field of 23 px, seconds to train.

    It has the two methods of a timm model that this package uses.

    Args:
        outputs: the number of logits.
    """

    pretrained_cfg = {"classifier": "fc"}  # noqa: RUF012 (timm's name for: where the last layer is)

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _conv(3, 16, stride=2),
            _conv(16, 32, stride=2),
            _conv(32, 64),
            _conv(64, 96, stride=2),
            _conv(96, 128, kernel=1),
        )
        self.fc = nn.Linear(128, outputs)

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> the last map (N, 128, H/8, W/8)."""
        return self.features(images)

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> logits (N, outputs)."""
        return self.fc(features.mean((2, 3)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) -> logits (N, outputs)."""
        return self.forward_head(self.forward_features(images))


class LeNet5(nn.Module):
    """LeNet-5 (LeCun et al. 1998) for pictures of 28 pixels, of which it sees the grey, in today's usual dress.

    Rectified units and maximum pooling stand for the original's sigmoids and averages, and full connections for its
    partial ones. It has the two methods of a timm model that this package uses.

    Args:
        outputs: the number of logits.
    """

    pretrained_cfg = {"classifier": "fc"}  # noqa: RUF012 (timm's name for: where the last layer is)

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()
        )
        self.hidden = nn.Sequential(
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()
        )
        self.fc = nn.Linear(84, outputs)

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, 28, 28) -> the last map (N, 16, 10, 10).

        Raises:
            BiaslibError: for pictures of another size.
        """
        if images.shape[2:] != (28, 28):
            raise BiaslibError(
                f"'lenet5' takes pictures of 28 x 28 pixels, not {images.shape[2]} x {images.shape[3]}: "
                "choose size 28, or the architecture 'small'."
            )
        return self.features(images.mean(1, keepdim=True))

    def forward_head(self, features: torch.Tensor) -> torch.Tensor:
        """The last map -> logits (N, outputs)."""
        return self.fc(self.hidden(features))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, 3, 28, 28) -> logits (N, outputs)."""
        return self.forward_head(self.forward_features(images))


_OURS: dict[str, type[nn.Module]] = {"small": SmallCNN, "lenet5": LeNet5}


def build(
    architecture: str, outputs: int, *, weights: str | Path | None = None, hidden: int | None = None
) -> nn.Module:
    """An image classifier with timm's split: `forward_features` gives the map, `forward_head` the logits.

    A new layer's initial values come from torch's global generator: call `torch.manual_seed` first where a run has
    to repeat.

    Args:
        architecture: "small" (ours, for quick runs), "lenet5" (for digits of 28 pixels) or any name that timm knows.
        outputs: the number of logits.
        weights: None (random), "imagenet" (downloaded by timm), or the path of a state dictionary
            (`.safetensors`, or a torch file without code in it). Where such a file differs from the model in the
            last layer only, everything else is taken from it and the last layer stays as initialised.
        hidden: width of a hidden layer: Linear-ReLU-Dropout(0.5)-Linear takes the place of the last linear layer
            (Serianni et al. 2025, supplement C: 2,048).

    Returns:
        The model, on the CPU and in training mode.

    Raises:
        BiaslibError: for an unknown architecture, fewer than one output, or weights that cannot be had or do not fit.
    """
    if outputs < 1:
        raise BiaslibError(f"A model needs at least one output, not {outputs}.")
    if architecture in _OURS and weights == "imagenet":
        raise BiaslibError(
            f"There are no ImageNet weights for {architecture!r}: leave `weights` out, or name a local file."
        )
    model = _OURS[architecture](outputs) if architecture in _OURS else _timm_model(architecture, outputs, weights)
    if hidden is not None:
        _add_hidden_layer(model, architecture, hidden, outputs)
    if weights is not None and weights != "imagenet":
        _load(model, Path(weights))
    return model


def device() -> torch.device:
    """The fastest device here: CUDA, then Apple's, then the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def to_tensor(images: np.ndarray | torch.Tensor, device: torch.device | str | None = None) -> torch.Tensor:
    """Images as the models take them: (N, 3, H, W) float32, normalised by ImageNet's mean and deviation.

    Args:
        images: uint8 (N, H, W, 3) pixels, which are normalised, or floats (N, 3, H, W), which are taken to be
            normalised already and keep their values.
        device: where the result goes; None leaves it where it is.

    Raises:
        BiaslibError: for any other type or shape.
    """
    # torch.tensor copies: a read-only memory map would warn, and must never be written to
    pixels = torch.tensor(images) if isinstance(images, np.ndarray) else images
    if isinstance(pixels, torch.Tensor) and pixels.ndim == 4:
        pixels = pixels.to(device)
        if pixels.dtype == torch.uint8 and pixels.shape[3] == 3:
            mean = torch.tensor(IMAGENET_MEAN, device=pixels.device).view(3, 1, 1) * 255
            std = torch.tensor(IMAGENET_STD, device=pixels.device).view(3, 1, 1) * 255
            return pixels.permute(0, 3, 1, 2).float().contiguous().sub_(mean).div_(std)
        if pixels.is_floating_point() and pixels.shape[1] == 3:
            return pixels.float()
    kind = f"{images.dtype} of shape {tuple(images.shape)}" if hasattr(images, "shape") else type(images).__name__
    raise BiaslibError(f"images must be uint8 (N, H, W, 3) or normalised float (N, 3, H, W), not {kind}.")


def _conv(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def _timm_model(architecture: str, outputs: int, weights: str | Path | None) -> nn.Module:
    import timm  # takes as long to import as torch, and the small model does without

    if not timm.is_model(architecture):
        near = difflib.get_close_matches(architecture, [*_OURS, *timm.list_models()], n=3)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else "take 'small', 'lenet5' or a name that timm lists."
        )
        raise BiaslibError(f"There is no architecture {architecture!r}: {hint}")
    pretrained = weights == "imagenet"
    try:
        return timm.create_model(architecture, pretrained=pretrained, num_classes=outputs)
    except Exception as error:  # the hub's clients raise types of their own, which change with their versions
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        if pretrained:
            raise BiaslibError(
                f"The ImageNet weights of {architecture!r} cannot be had from here ({reason}): "
                "download them elsewhere and give the file's path as `weights`."
            ) from error
        raise BiaslibError(f"timm cannot build {architecture!r}: {reason}.") from error


def _classifier(model: Any) -> str:
    """Where the last layer is, as a module path."""
    return str(model.pretrained_cfg["classifier"])


def _add_hidden_layer(model: nn.Module, architecture: str, hidden: int, outputs: int) -> None:
    if hidden < 1:
        raise BiaslibError(f"A hidden layer needs at least one unit, not {hidden}.")
    last = dict(model.named_modules()).get(_classifier(model))
    if not isinstance(last, nn.Linear):
        raise BiaslibError(f"{architecture!r} does not end in one linear layer: leave `hidden` out.")
    head = nn.Sequential(nn.Linear(last.in_features, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, outputs))
    model.set_submodule(_classifier(model), head)


def _load(model: nn.Module, path: Path) -> None:
    found = _read_state(path)
    wanted = model.state_dict()
    # a counter that nothing but momentum-less batch normalisation reads; older files lack it
    missing = {key for key in wanted.keys() - found.keys() if not key.endswith("num_batches_tracked")}
    misfits = {key for key in wanted.keys() & found.keys() if wanted[key].shape != found[key].shape}
    wrong = sorted(missing | misfits | (found.keys() - wanted.keys()))
    last_layer = _classifier(model) + "."
    if all(key.startswith(last_layer) for key in wrong):
        if wrong:
            found = {key: value for key, value in found.items() if not key.startswith(last_layer)}
        model.load_state_dict(found, strict=False)
        return
    first = next(key for key in wrong if not key.startswith(last_layer))
    problem = "is missing" if first in missing else "has another shape" if first in misfits else "is unknown"
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    raise BiaslibError(
        f"The weights in {path} do not fit the model: {first!r} {problem}{others}; "
        "name the architecture that was saved."
    )


def _read_state(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise BiaslibError(f"There is no weights file {path}: give a .safetensors or .pt file, or 'imagenet'.")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, safetensors.SafetensorError) as error:
        raise BiaslibError(f"The weights file {path} cannot be read: it is damaged or of another kind.") from error
    except pickle.UnpicklingError as error:
        raise BiaslibError(
            f"The weights file {path} is damaged or holds more than tensors, and is not opened for safety: "
            "save `model.state_dict()` alone."
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise BiaslibError(f"The weights file {path} is not a state dictionary: save `model.state_dict()` alone.")
    return state
