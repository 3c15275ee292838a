import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import timm
import timm.data
import torch
import yaml
from PIL import Image
from torch import nn

from biaslib import attribution, models, training
from biaslib.chapters import attribute_models, planted_models
from biaslib.errors import BiaslibError
from biaslib.samples import Samples


def same(first: nn.Module, second: nn.Module, *, but: str = "-") -> bool:
    other = second.state_dict()
    return all(torch.equal(value, other[key]) for key, value in first.state_dict().items() if not key.startswith(but))


def test_small_has_an_eight_by_eight_map_and_the_split_of_timm() -> None:
    torch.manual_seed(0)
    model = models.build("small", 5).eval()
    images = torch.randn(2, 3, 64, 64)
    features = model.forward_features(images)
    assert features.shape == (2, 128, 8, 8)
    assert model.forward_head(features).shape == (2, 5)
    torch.testing.assert_close(model.forward_head(features), model(images))


def test_small_sees_23_pixels() -> None:
    torch.manual_seed(0)
    model = models.build("small", 1).eval()
    images = torch.randn(1, 3, 64, 64, requires_grad=True)
    model.forward_features(images)[0, :, 4, 4].sum().backward()
    assert images.grad is not None
    rows = images.grad.abs().sum((0, 1, 3)).nonzero()
    assert rows.max() - rows.min() + 1 == 23


@pytest.mark.parametrize("architecture", ["small_mobilenet", "small_efficientnet"])
def test_the_small_relatives_have_the_same_map_and_few_weights(architecture: str) -> None:
    model = models.build(architecture, 5).eval()
    images = torch.randn(2, 3, 64, 64)
    features = model.forward_features(images)
    assert features.shape == (2, 128, 8, 8)
    torch.testing.assert_close(model.forward_head(features), model(images))
    assert sum(parameter.numel() for parameter in model.parameters()) < 50_000


def test_the_small_transformer_has_a_map_whose_mean_the_head_takes() -> None:
    model = models.build("small_vit", 5).eval()
    images = torch.randn(2, 3, 64, 64)
    features = model.forward_features(images)
    assert features.shape == (2, 48, 8, 8)
    torch.testing.assert_close(model.forward_head(features), model(images))
    torch.testing.assert_close(model.forward_head(features.mean((2, 3), keepdim=True)), model(images))
    # as timm's own class, which keeps patches in a row, row by row
    rows = type(model).__mro__[1].forward_features(model, images)
    torch.testing.assert_close(features[:, :, 2, 3], rows[:, 2 * 8 + 3])
    assert sum(parameter.numel() for parameter in model.parameters()) < 75_000


def test_the_small_transformer_takes_digits_padded_to_whole_patches() -> None:
    model = models.build("small_vit", 10).eval()
    digits = torch.randn(2, 3, 28, 28)
    assert model.forward_features(digits).shape == (2, 48, 4, 4)
    torch.testing.assert_close(model(digits), model(torch.nn.functional.pad(digits, (0, 4, 0, 4))))


def test_the_seed_decides_the_weights() -> None:
    def build() -> nn.Module:
        torch.manual_seed(3)
        return models.build("small", 2, hidden=7)

    assert same(build(), build())


@pytest.mark.parametrize("architecture", ["small", "resnet10t", "convnext_femto", "mobilenetv3_small_050"])
def test_hidden_replaces_the_last_layer_inside_the_head(architecture: str) -> None:
    model = models.build(architecture, 4, hidden=6).eval()
    head = model.get_submodule(model.pretrained_cfg["classifier"])
    assert [type(layer).__name__ for layer in head] == ["Linear", "ReLU", "Dropout", "Linear"]
    assert head[2].p == 0.5
    images = torch.randn(1, 3, 64, 64)
    assert model.forward_head(model.forward_features(images)).shape == (1, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet_18", 2), "There is no architecture 'resnet_18': did you mean .*'resnet18'"),
        (("§", 2), "There is no architecture '§': take 'small', 'lenet5' or a name that timm lists"),
        (("resnet18.no_such_tag", 2), "timm cannot build 'resnet18.no_such_tag'"),
        (("small", 0), "outputs must be a whole number of at least 1, not 0"),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments: tuple[str, int], message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        models.build(*arguments)


def test_hidden_is_checked() -> None:
    with pytest.raises(BiaslibError, match="hidden, the units of a layer, must be"):
        models.build("small", 2, hidden=0)
    with pytest.raises(BiaslibError, match="'efficientformer_l1' does not end in one linear layer"):
        models.build("efficientformer_l1", 2, hidden=3)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_weights_come_back_from_a_file(tmp_path: Path, suffix: str) -> None:
    saved = models.build("small", 3, hidden=5)
    path = save(saved, tmp_path / f"weights{suffix}")
    assert same(saved, models.build("small", 3, hidden=5, weights=path))
    assert same(saved, models.build("small", 3, hidden=5, weights=str(path)))


@pytest.mark.parametrize(("outputs", "hidden"), [(4, None), (3, 5)])
def test_another_last_layer_stays_as_initialised(tmp_path: Path, outputs: int, hidden: int | None) -> None:
    path = save(models.build("small", 3), tmp_path / "weights.safetensors")
    torch.manual_seed(1)
    fresh = models.build("small", outputs, hidden=hidden)
    torch.manual_seed(1)
    loaded = models.build("small", outputs, hidden=hidden, weights=path)
    assert same(fresh.fc, loaded.fc)
    assert same(loaded, models.build("small", 3, weights=path), but="fc.")


def test_a_file_without_batch_counters_loads(tmp_path: Path) -> None:
    saved = models.build("small", 2)
    state = {key: value for key, value in saved.state_dict().items() if not key.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth")
    assert same(saved, models.build("small", 2, weights=tmp_path / "old.pth"))


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    state = models.build("small", 2).state_dict()
    first = "features.0.0.weight"
    cases = {
        "is missing": {key: value for key, value in state.items() if key != first},
        "has another shape": {**state, first: torch.zeros(1)},
        "is unknown": {**state, "extra": torch.zeros(1)},
    }
    for problem, changed in cases.items():
        torch.save(changed, tmp_path / "other.pt")
        with pytest.raises(BiaslibError, match=f"(features.0.0.weight|extra)' {problem}; name the architecture"):
            models.build("small", 2, weights=tmp_path / "other.pt")


class Boom:
    def __reduce__(self):
        return (print, ("code ran",))


def test_unreadable_weights_get_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BiaslibError, match="There is no weights file"):
        models.build("small", 2, weights=tmp_path / "none.pt")
    for name in ("broken.safetensors", "broken.pt", "empty.pt"):
        (tmp_path / name).write_bytes(b"" if "empty" in name else hashlib.sha256(b"noise").digest() * 9)
        with pytest.raises(BiaslibError, match=f"{name} .*damaged"):
            models.build("small", 2, weights=tmp_path / name)
    torch.save({"fc.weight": Boom()}, tmp_path / "code.pt")
    with pytest.raises(BiaslibError, match="holds more than tensors, and is not opened for safety"):
        models.build("small", 2, weights=tmp_path / "code.pt")
    assert "code ran" not in capsys.readouterr().out
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(BiaslibError, match="is not a state dictionary"):
        models.build("small", 2, weights=tmp_path / "list.pt")


def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    for name in ("cut.safetensors", "cut.pt"):
        path = save(models.build("small", 2), tmp_path / name)
        path.write_bytes(path.read_bytes()[:-1000])
        with pytest.raises(BiaslibError, match="damaged"):
            models.build("small", 2, weights=path)


def test_imagenet_weights_come_through_timm_or_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def unreachable(name: str, **options: object) -> nn.Module:
        asked.append({"name": name, **options})
        raise ConnectionError("no route to the hub\nand a long story")

    monkeypatch.setattr("timm.create_model", unreachable)
    with pytest.raises(
        BiaslibError, match=r"ImageNet weights of 'resnet18' cannot .*\(no route to the hub\): download"
    ):
        models.build("resnet18", 2, weights="imagenet")
    assert asked == [{"name": "resnet18", "pretrained": True, "num_classes": 2}]
    with pytest.raises(BiaslibError, match="no ImageNet weights for 'small'"):
        models.build("small", 2, weights="imagenet")


def test_imagenet_weights_are_named_with_their_tag() -> None:
    tag = timm.get_pretrained_cfg("resnet18").tag
    assert models.pinned("resnet18", "imagenet") == f"resnet18.{tag}"
    assert models.pinned("resnet18.tv_in1k", "imagenet") == "resnet18.tv_in1k"
    for architecture, weights in (("resnet18", None), ("resnet18", "w.pt"), ("small", "imagenet"), ("?", "imagenet")):
        assert models.pinned(architecture, weights) == architecture
    for described in (
        training.TrainingConfig,
        attribute_models.Experiment,
        planted_models.PlantedSetup,
    ):
        assert described(architecture="resnet18", weights="imagenet").architecture == f"resnet18.{tag}"
        assert described(architecture="resnet18").architecture == "resnet18"


def test_a_name_with_its_tag_is_built() -> None:
    model: Any = models.build("resnet18.tv_in1k", 2)
    assert model.pretrained_cfg["tag"] == "tv_in1k"


def test_presets_name_imagenet_weights_with_tags_that_timm_has() -> None:
    named = []
    for file in (Path(__file__).parents[2] / "notebooks" / "presets").glob("*.yml"):
        for settings in yaml.safe_load(file.read_text(encoding="utf-8")).values():
            if settings.get("weights") == "imagenet":
                one, several = settings.get("architecture"), ("networks", "bird_networks")
                named += [one] * bool(one) + [name for key in several for name in settings.get(key, [])]
    assert named
    assert set(named) <= set(timm.list_models("*.*", pretrained=True))


def test_to_tensor_normalises_pixels() -> None:
    images = np.zeros((2, 4, 5, 3), np.uint8)
    images[1] = 255
    tensor = models.to_tensor(images)
    assert tensor.shape == (2, 3, 4, 5)
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
    # by hand: (0 - .485) / .229 and (1 - .406) / .225
    assert tensor[0, 0, 0, 0].item() == pytest.approx(-2.117904, abs=1e-5)
    assert tensor[1, 2, 3, 4].item() == pytest.approx(2.64, abs=1e-5)
    torch.testing.assert_close(models.to_tensor(torch.from_numpy(images), "cpu"), tensor, rtol=0, atol=0)


def test_to_tensor_gives_what_torchvision_gives_to_the_bit() -> None:
    from torchvision.transforms.v2.functional import normalize, to_dtype

    pixels = torch.arange(256, dtype=torch.uint8).view(1, 16, 16, 1).expand(1, 16, 16, 3)
    mean, std = ((torch.tensor(each) * 255).tolist() for each in models.normalisation(models.build("small", 1)))
    expected = normalize(to_dtype(pixels.permute(0, 3, 1, 2).contiguous()), mean, std)
    assert torch.equal(models.to_tensor(pixels), expected)


HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


def half() -> nn.Module:
    """A small model whose weights want every colour less a half, divided by a half."""
    torch.manual_seed(0)
    model: Any = models.build("small", 2).eval()
    model.pretrained_cfg = {**model.pretrained_cfg, **HALF}
    return cast(nn.Module, model)


def noise(n: int = 3, size: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, size, size, 3), np.uint8)


@pytest.mark.parametrize(
    ("architecture", "mean"),
    [("tf_efficientnet_lite0", 0.5), ("vit_tiny_patch16_224.augreg_in21k", 0.5), ("resnet10t", 0.485)],
)
def test_pixels_are_normalised_as_timm_does_for_the_weights(architecture: str, mean: float) -> None:
    torch.manual_seed(0)
    model: Any = models.build(architecture, 3).eval()
    size = 224 if "vit" in architecture else 64
    config = timm.data.resolve_model_data_config(model)
    assert config["mean"][0] == mean
    transform: Any = timm.data.create_transform(**{**config, "input_size": (3, size, size), "crop_pct": 1.0})
    pixels = noise(size=size)
    with torch.inference_mode():
        expected = model(torch.stack([transform(Image.fromarray(picture)) for picture in pixels])).numpy()
    np.testing.assert_allclose(training.predict(model, pixels), expected, rtol=1e-4, atol=1e-4)
    again = models.build(architecture, 3)  # as for weights out of the store, which are loaded after
    assert models.normalisation(again) == (config["mean"], config["std"])


def test_training_normalises_as_the_weights_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []
    build = models.build

    def watched(*arguments: Any, **options: Any) -> nn.Module:
        model = build(*arguments, **options)
        stem: Any = model.get_submodule("conv_stem")
        stem.register_forward_pre_hook(lambda _, given: seen.append((float(given[0].min()), float(given[0].max()))))
        return model

    monkeypatch.setattr(models, "build", watched)
    black_and_white = np.zeros((8, 32, 32, 3), np.uint8)
    black_and_white[::2] = 255
    samples = Samples(black_and_white, pd.DataFrame({"white": [True, False] * 4}))
    config = training.TrainingConfig(
        architecture="tf_efficientnet_lite0", epochs=1, batch=4, keep="best", precision="float32"
    )
    training.fit(samples, samples.labels["white"], config, validation=(samples, samples.labels["white"]))
    assert len(seen) == 1 + 2 + 1  # the first look at the map, two steps, the validation
    assert seen[0] == (1, 1)
    assert set(seen[1:]) == {(-1, 1)}


METHODS: dict[str, Callable[..., torch.Tensor]] = {
    "Grad-CAM": attribution.grad_cam,
    "Score-CAM": attribution.score_cam,
    "integrated gradients": partial(attribution.integrated_gradients, steps=4, signed=True),
    "LRP": partial(attribution.epsilon_lrp, signed=True),
    "LayerCAM": attribution.library_cam("LayerCAM"),
}


@pytest.mark.parametrize("method", METHODS)
def test_attribution_normalises_as_the_weights_want_it(method: str) -> None:
    model, pixels = half(), noise()
    own = torch.from_numpy(pixels).movedim(3, 1).float() / 127.5 - 1
    expected = METHODS[method](model, own, [0])
    found = METHODS[method](model, pixels, [0])
    assert expected.abs().max() > 0
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_black_is_black_by_the_weights_own_normalisation() -> None:
    """Integrated gradients start at black, so a black picture has no shares."""
    black = -torch.ones(1, 3, 16, 16)
    assert (attribution.integrated_gradients(half(), black, [0], steps=3, signed=True) == 0).all()
    assert (attribution.completeness_gap(half(), black, [0], torch.zeros(1, 1, 3, 16, 16))).isnan().all()


def test_imagenets_normalisation_stays_to_the_last_bit() -> None:
    for architecture in ("small", "small_efficientnet", "resnet10t", "mobilenetv1_025"):
        model = models.build(architecture, 2)
        assert torch.equal(models.to_tensor(noise(), model=model), models.to_tensor(noise()))


def test_to_tensor_reads_a_read_only_memory_map(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 3), np.uint8)
    np.save(tmp_path / "images.npy", images)
    stored = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert torch.equal(models.to_tensor(stored), models.to_tensor(images))


def test_to_tensor_leaves_floats_as_they_are() -> None:
    images = torch.randn(2, 3, 4, 4)
    assert models.to_tensor(images) is images
    assert torch.equal(models.to_tensor(images.numpy()), images)
    assert models.to_tensor(images.double()).dtype == torch.float32


@pytest.mark.parametrize(
    ("images", "kind"),
    [
        (np.zeros((2, 3, 4, 4), np.uint8), r"uint8 of shape \(2, 3, 4, 4\)"),
        (np.zeros((2, 4, 4, 3)), r"float64 of shape \(2, 4, 4, 3\)"),
        (np.zeros((4, 4, 3), np.uint8), "uint8 of shape"),
        (np.zeros((2, 4, 4, 3), np.int64), "int64"),
        ([[1.0]], "list"),
    ],
)
def test_to_tensor_refuses_everything_else(images: object, kind: str) -> None:
    with pytest.raises(BiaslibError, match=f"images must be uint8 .* not .*{kind}"):
        models.to_tensor(images)  # type: ignore[arg-type]


def test_device_is_one_that_is_here() -> None:
    assert torch.zeros(1, device=models.device()).device.type == models.device().type


def save(model: nn.Module, path: Path) -> Path:
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(model.state_dict(), path)
    else:
        torch.save(model.state_dict(), path)
    return path


def test_lenet5_splits_into_a_map_and_a_head_and_says_which_size_it_takes():
    model = models.build("lenet5", 4)
    images = torch.rand(3, 3, 28, 28)
    features = model.forward_features(images)
    assert features.shape == (3, 16, 10, 10)
    torch.testing.assert_close(model.forward_head(features), model(images))
    assert sum(weight.numel() for weight in model.parameters()) == 61_706 - 850 + 84 * 4 + 4  # LeCun's ten outputs
    torch.testing.assert_close(model(images), model(images.mean(1, keepdim=True).expand(-1, 3, -1, -1)))
    with pytest.raises(BiaslibError, match="'lenet5' takes pictures of 28 x 28 pixels, not 32 x 32"):
        model(torch.rand(1, 3, 32, 32))
    with pytest.raises(BiaslibError, match="no ImageNet weights for 'lenet5'"):
        models.build("lenet5", 4, weights="imagenet")
