import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d, pad

from biaslib import models
from biaslib.errors import BiaslibError
from biaslib.models import networks
from tools import tfjs_to_safetensors as tfjs

WIDTH = 0.25
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
CHANNELS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)


def keras_mobilenet() -> dict[str, np.ndarray]:
    """Random weights under Keras' names and in its shapes."""
    rng = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    def normalisation(layer: str, channels: int) -> dict[str, np.ndarray]:
        values = {"gamma": 1, "beta": 0.5, "moving_mean": 0, "moving_variance": 1}
        return {f"{layer}_bn/{name}": (v + 0.3 * rng.random(channels)).astype(np.float32) for name, v in values.items()}

    inputs = round(32 * WIDTH)
    found = {"conv1/kernel": normal(3, 3, 3, inputs, scale=0.3), **normalisation("conv1", inputs)}
    for number, channels in enumerate(CHANNELS, start=1):
        outputs = round(channels * WIDTH)
        found |= {f"conv_dw_{number}/depthwise_kernel": normal(3, 3, inputs, 1, scale=0.4)}
        found |= normalisation(f"conv_dw_{number}", inputs)
        found |= {f"conv_pw_{number}/kernel": normal(1, 1, inputs, outputs, scale=inputs**-0.5)}
        found |= normalisation(f"conv_pw_{number}", outputs)
        inputs = outputs
    return found | {"conv_preds/kernel": normal(1, 1, inputs, 1000, scale=0.1), "conv_preds/bias": normal(1000)}


def written(weights: dict[str, np.ndarray], folder: Path) -> Path:
    """In the official layout: a file a layer, listed in model.json."""
    groups: dict[str, list[str]] = {}
    for name in weights:
        groups.setdefault(name.split("/")[0], []).append(name)
    manifest = []
    for number, names in enumerate(groups.values(), start=1):
        file = f"group{number}-shard1of1"
        (folder / file).write_bytes(b"".join(weights[name].tobytes() for name in names))
        described = [{"name": name, "dtype": "float32", "shape": list(weights[name].shape)} for name in names]
        manifest.append({"paths": [file], "weights": described})
    (folder / "model.json").write_text(json.dumps({"modelTopology": None, "weightsManifest": manifest}))
    return folder


def as_keras_computes(weights: dict[str, np.ndarray], pixels: np.ndarray, outside: torch.Tensor) -> torch.Tensor:
    """Logits by the definition of the network, layer by layer; `outside` (3,) surrounds the picture."""

    def convolved(x: torch.Tensor, layer: str, stride: int, depthwise: bool = False) -> torch.Tensor:
        kernel = torch.from_numpy(weights[f"{layer}/{'depthwise_' * depthwise}kernel"])
        kernel = kernel.permute(2, 3, 0, 1) if depthwise else kernel.permute(3, 2, 0, 1)
        # TensorFlow pads an even picture at a stride of 2 below and on the right only
        border = (0, 1, 0, 1) if stride == 2 else (1, 1, 1, 1) if kernel.shape[2] == 3 else (0, 0, 0, 0)
        x = conv2d(pad(x, border), kernel, stride=stride, groups=x.shape[1] if depthwise else 1)
        gamma, beta, mean, variance = (
            torch.from_numpy(weights[f"{layer}_bn/{name}"]).view(-1, 1, 1)
            for name in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        return (gamma * (x - mean) / (variance + 1e-3).sqrt() + beta).clamp(0, 6)

    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    # what lies outside the picture is given as a colour, so that both pad the first layer alike
    surround = outside.view(1, 3, 1, 1).expand(len(x), 3, 66, 66).clone()
    surround[:, :, :64, :64] = x
    kernel = torch.from_numpy(weights["conv1/kernel"]).permute(3, 2, 0, 1)
    x = conv2d(surround, kernel, stride=2)[:, :, :32, :32]
    gamma, beta, mean, variance = (
        torch.from_numpy(weights[f"conv1_bn/{name}"]).view(-1, 1, 1)
        for name in ("gamma", "beta", "moving_mean", "moving_variance")
    )
    x = (gamma * (x - mean) / (variance + 1e-3).sqrt() + beta).clamp(0, 6)
    for number, stride in enumerate(STRIDES, start=1):
        x = convolved(x, f"conv_dw_{number}", stride, depthwise=True)
        x = convolved(x, f"conv_pw_{number}", 1)
    last = torch.from_numpy(weights["conv_preds/kernel"][0, 0])
    return x.mean((2, 3)) @ last + torch.from_numpy(weights["conv_preds/bias"])


def test_it_computes_what_keras_computes(tmp_path: Path) -> None:
    weights = keras_mobilenet()
    model = models.build("mobilenetv1_025", 1000, weights=tfjs.convert(written(weights, tmp_path))).eval()
    pixels = np.random.default_rng(1).integers(0, 256, (2, 64, 64, 3), np.uint8)
    mean_colour = 2 * torch.tensor(networks.IMAGENET_MEAN) - 1
    with torch.inference_mode():
        logits = model(models.to_tensor(pixels))
    torch.testing.assert_close(logits, as_keras_computes(weights, pixels, mean_colour), rtol=1e-3, atol=1e-3)


def test_another_number_of_classes_keeps_everything_but_the_classifier(tmp_path: Path) -> None:
    folder = written(keras_mobilenet(), tmp_path)
    tfjs.convert(folder)
    full, two = (models.build("mobilenetv1_025", n, weights=folder).state_dict() for n in (1000, 2))
    assert two["classifier.weight"].shape == (2, 256)
    assert all(torch.equal(full[name], two[name]) for name in full if not name.startswith("classifier."))


def test_a_folder_that_is_not_converted_yet_says_how(tmp_path: Path) -> None:
    folder = written(keras_mobilenet(), tmp_path)
    with pytest.raises(BiaslibError, match=r"python tools/tfjs_to_safetensors.py .*"):
        models.build("mobilenetv1_025", 2, weights=folder)


def test_wrong_folders_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BiaslibError, match=r"There is no .*model.json: give the folder of a TensorFlow.js model"):
        tfjs.read(tmp_path)
    weights = {"conv1/kernel": np.zeros((3, 3, 3, 8), np.float32)}
    folder = written(weights, tmp_path)
    with pytest.raises(BiaslibError, match="are not a MobileNetV1's: 'conv1_bn/gamma' is missing"):
        tfjs.mobilenet_state(folder)
    shard = folder / "group1-shard1of1"
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(BiaslibError, match="is too short for 'conv1/kernel'"):
        tfjs.read(folder)
    shard.unlink()
    with pytest.raises(BiaslibError, match="group1-shard1of1 is missing"):
        tfjs.read(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"paths": ["../outside"]}, "names the file '../outside': all must lie beside it"),
        ({"weights": [{"name": "a", "dtype": "uint8", "shape": [1]}]}, "'a' in .* holds uint8"),
        ({"weights": 3}, "is damaged or no model of TensorFlow.js"),
    ],
)
def test_a_manifest_is_not_trusted(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    written({"a": np.zeros(1, np.float32)}, tmp_path)
    file = tmp_path / "model.json"
    content = json.loads(file.read_text())
    content["weightsManifest"][0] |= change
    file.write_text(json.dumps(content))
    with pytest.raises(BiaslibError, match=sentence):
        tfjs.read(tmp_path)
