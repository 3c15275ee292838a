"""Turns a MobileNetV1 published for TensorFlow.js into weights that `models.build` takes.

    python tools/tfjs_to_safetensors.py FOLDER

writes model.safetensors into the folder that holds model.json; `weights=FOLDER` then finds it there. Such a folder
holds raw numbers, and nothing that could run.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from biaslib import store
from biaslib.errors import BiaslibError
from biaslib.models.networks import IMAGENET_MEAN, IMAGENET_STD

_NORMALISATION = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
_REPEATS = (1, 2, 2, 6, 2)  # separable convolutions between two changes of resolution


def convert(folder: Path) -> Path:
    """Writes model.safetensors beside the folder's model.json and returns its path.

    Raises:
        BiaslibError: as `mobilenet_state`.
    """
    file = folder / "model.safetensors"
    with store.replacing(file) as partial:
        safetensors.torch.save_file(
            {name: each.contiguous() for name, each in mobilenet_state(folder).items()}, partial
        )
    return file


def mobilenet_state(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a Keras MobileNetV1 as `networks.mobilenetv1` takes them.

    Keras shows the network pixels in [-1, 1], this package shows it pixels normalised by ImageNet's mean and deviation:
    the first convolution and its normalisation absorb the difference. Only what lies outside the picture differs:
    there, zero is ImageNet's mean colour and no longer middle grey.

    Args:
        folder: with model.json and the files it names.

    Returns:
        The state dictionary; the classifier has 1,000 outputs.

    Raises:
        BiaslibError: a file is missing or damaged, or the network is not a MobileNetV1.
    """
    found = read(folder)
    try:
        state = {
            "conv_stem.weight": _kernel(found["conv1/kernel"]),
            **_normalised("bn1", "conv1", found),
            **{
                name: value
                for number, block in enumerate(_block_names(), start=1)
                for name, value in _separable(block, number, found).items()
            },
            "classifier.weight": torch.from_numpy(found["conv_preds/kernel"][0, 0].T.copy()),
            "classifier.bias": torch.from_numpy(found["conv_preds/bias"]),
        }
    except KeyError as error:
        raise BiaslibError(f"The weights in {folder} are not a MobileNetV1's: {error.args[0]!r} is missing.") from None
    _absorb_pixels(state)
    return state


def read(folder: Path) -> dict[str, np.ndarray]:
    """Every tensor of a TensorFlow.js model in float32, by its name.

    Raises:
        BiaslibError: where model.json is missing or cannot be read, names a file outside the folder or one that is
            missing or too short, or holds numbers of another type.
    """
    file = folder / "model.json"
    try:
        groups = json.loads(file.read_text(encoding="utf-8"))["weightsManifest"]
        named = [(group["paths"], [(w["name"], w["dtype"], w["shape"]) for w in group["weights"]]) for group in groups]
    except FileNotFoundError:
        raise BiaslibError(f"There is no {file}: give the folder of a TensorFlow.js model.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BiaslibError(f"{file} is damaged or no model of TensorFlow.js.") from error
    return {name: values for paths, weights in named for name, values in _group(folder, paths, weights).items()}


def _group(folder: Path, paths: list[str], weights: list[tuple[str, str, Any]]) -> dict[str, np.ndarray]:
    if wrong := [path for path in paths if Path(path).name != path]:
        raise BiaslibError(f"model.json in {folder} names the file {wrong[0]!r}: all must lie beside it.")
    if missing := [path for path in paths if not (folder / path).is_file()]:
        raise BiaslibError(f"{folder / missing[0]} is missing: fetch the model's folder again.")
    raw = b"".join((folder / path).read_bytes() for path in paths)
    found, start = {}, 0
    for name, dtype, shape in weights:
        if dtype != "float32":
            raise BiaslibError(f"{name!r} in {folder} holds {dtype}: take the model that was not quantised.")
        end = start + 4 * int(np.prod(shape))
        if end > len(raw):
            raise BiaslibError(f"{folder / paths[-1]} is too short for {name!r}: fetch the model's folder again.")
        found[name] = np.frombuffer(raw[start:end], "<f4").reshape(shape).astype(np.float32)
        start = end
    return found


def _block_names() -> list[str]:
    return [f"blocks.{stage}.{index}" for stage, repeats in enumerate(_REPEATS) for index in range(repeats)]


def _separable(block: str, number: int, found: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {
        f"{block}.conv_dw.weight": _kernel(found[f"conv_dw_{number}/depthwise_kernel"], depthwise=True),
        **_normalised(f"{block}.bn1", f"conv_dw_{number}", found),
        f"{block}.conv_pw.weight": _kernel(found[f"conv_pw_{number}/kernel"]),
        **_normalised(f"{block}.bn2", f"conv_pw_{number}", found),
    }


def _kernel(values: np.ndarray, *, depthwise: bool = False) -> torch.Tensor:
    """From (height, width, in, out), or (height, width, channel, 1), to torch's order."""
    order = (2, 3, 0, 1) if depthwise else (3, 2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(values.transpose(order)))


def _normalised(name: str, layer: str, found: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {f"{name}.{ours}": torch.from_numpy(found[f"{layer}_bn/{keras}"]) for keras, ours in _NORMALISATION.items()}


def _absorb_pixels(state: dict[str, torch.Tensor]) -> None:
    """From pixels 2 p - 1 to (p - mean) / std: 2 p - 1 = 2 std z + (2 mean - 1)."""
    weight = state["conv_stem.weight"]
    offset = 2 * torch.tensor(IMAGENET_MEAN) - 1
    state["bn1.running_mean"] = state["bn1.running_mean"] - (weight * offset.view(3, 1, 1)).sum((1, 2, 3))
    state["conv_stem.weight"] = weight * 2 * torch.tensor(IMAGENET_STD).view(3, 1, 1)


def main() -> None:
    """Converts the folder that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder that holds model.json")
    try:
        print(convert(parser.parse_args().folder))
    except BiaslibError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
