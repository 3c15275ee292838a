"""Weights as people have them: timm's names, folders of Hugging Face, wrapped checkpoints, and what is beside them."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.torch
import timm
import torch
import torchvision

from biaslib import models
from biaslib.errors import BiaslibError
from biaslib.models import building
from tests.audit.subjects import PLAIN, draw, honest, under_audit

PICTURES = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
NAME, TIMMS = "small", "resnet10t"
HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return models.build(NAME, 2).eval()


@pytest.fixture
def small_set(tmp_path):
    draw(tmp_path / "set", n=24)
    return tmp_path / "set"


@pytest.fixture
def folder(tmp_path, network):
    """A folder as timm saves one for the hub."""
    place = tmp_path / "hub"
    place.mkdir()
    safetensors.torch.save_file(network.state_dict(), place / "model.safetensors")
    write(place, {"architecture": NAME, "num_classes": 2, "pretrained_cfg": HALF | {"input_size": [3, 32, 32]}})
    return place


def write(place: Path, config: object, *, name: str = "config.json") -> None:
    (place / name).write_text(config if isinstance(config, str) else json.dumps(config))


def same_answers(found, network):
    with torch.inference_mode():
        logits = network(PICTURES)
        torch.testing.assert_close(found.outputs(PICTURES)[:, 0], logits[:, 1] - logits[:, 0])


@pytest.mark.parametrize(
    "name",
    ["resnet18.a1_in1k", "timm/resnet18.a1_in1k", "hf_hub:timm/resnet18.a1_in1k"],
)
def test_timms_names_with_a_tag_are_architectures(tmp_path, name):
    built = models.build("resnet18", 2).eval()
    safetensors.torch.save_file(built.state_dict(), tmp_path / "w.safetensors")
    found = under_audit(name, weights=tmp_path / "w.safetensors", preprocessing={"size": 32})
    same_answers(found, built)
    assert found.described["model"] == "resnet18.a1_in1k"


def test_a_folder_of_hugging_face_is_a_model_and_its_file_weights(folder, network, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for model in (folder, str(folder), "hub", f"local-dir:{folder}"):
        found = under_audit(model)
        same_answers(found, network)
        assert found.preprocessing.mean == (0.5, 0.5, 0.5)
        assert found.preprocessing.size == 32
        assert len(found.described["sha256"]) == 64
    for weights in (folder, folder / "model.safetensors"):
        found = under_audit(NAME, weights=weights)
        same_answers(found, network)
        assert found.preprocessing.std == (0.25, 0.25, 0.25)


def test_what_is_given_wins_over_config_json_and_that_over_timm(folder):
    own = models.build(TIMMS, 1)
    safetensors.torch.save_file(own.state_dict(), folder / "model.safetensors")
    write(folder, {"architecture": TIMMS, "pretrained_cfg": HALF | {"input_size": [3, 32, 32]}})
    found = under_audit(TIMMS, weights=folder, preprocessing={"std": (1.0, 1.0, 1.0)}).preprocessing
    assert (found.mean, found.std, found.size) == ((0.5, 0.5, 0.5), (1.0, 1.0, 1.0), 32)
    assert (found.crop, found.interpolation) == (own.pretrained_cfg["crop_pct"], own.pretrained_cfg["interpolation"])
    assert found.source == (
        "config.json beside the weights: mean, size, std; "
        "crop, interpolation by timm's defaults for this architecture; given: std"
    )


def test_settings_of_config_json_may_lie_at_its_top(folder):
    write(
        folder, HALF | {"architecture": NAME, "input_size": [3, 48, 48], "crop_pct": 0.5, "interpolation": "bilinear"}
    )
    found = under_audit(NAME, weights=folder / "model.safetensors").preprocessing
    assert (found.size, found.mean, found.crop, found.interpolation) == (48, (0.5, 0.5, 0.5), 0.5, "bilinear")
    assert found.source == "config.json beside the weights: crop, interpolation, mean, size, std"


def test_hugging_faces_own_preprocessing_is_taken_where_timms_is_not_there(folder):
    (folder / "config.json").unlink()
    hugging = {
        "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3,
        "size": {"shortest_edge": 40},
        "crop_size": 32,
        "resample": 2,
    }
    write(folder, hugging, name="preprocessor_config.json")
    found = under_audit(NAME, weights=folder).preprocessing
    assert (found.size, found.crop, found.mean, found.interpolation) == (32, 0.8, (0.5, 0.5, 0.5), "bilinear")
    assert found.source.startswith("preprocessor_config.json beside the weights: ")


@pytest.mark.parametrize(
    ("hugging", "squash", "size", "crop"),
    [
        ({"size": {"height": 48, "width": 48}, "do_center_crop": False, "crop_size": 32}, True, 48, 1.0),
        ({"size": {"height": 40, "width": 40}, "crop_size": {"height": 32, "width": 32}}, True, 32, 0.8),
        ({"size": {"shortest_edge": 40}, "do_center_crop": False}, False, 40, 1.0),
        ({"size": 40}, False, 40, 1.0),
        ({"size": {"height": 40, "width": 48}}, False, 224, 1.0),
    ],
)
def test_hugging_faces_height_and_width_are_squashed_into(folder, hugging, squash, size, crop):
    (folder / "config.json").unlink()
    write(folder, hugging | {"image_mean": [0.5] * 3}, name="preprocessor_config.json")
    found = under_audit(NAME, weights=folder).preprocessing
    assert (found.squash, found.size, found.crop) == (squash, size, crop)
    assert ("squash" in found.source) == squash


def test_timms_squash_beside_the_weights_is_taken(folder):
    write(folder, HALF | {"architecture": NAME, "input_size": [3, 48, 48], "crop_mode": "squash"})
    found = under_audit(NAME, weights=folder / "model.safetensors").preprocessing
    assert found.squash
    assert found.source.startswith("config.json beside the weights: mean, size, squash, std")


def test_local_weights_are_never_said_to_have_timms_own_preprocessing(tmp_path, monkeypatch):
    built = models.build(TIMMS, 2)
    torch.save(built.state_dict(), tmp_path / "w.pt")
    steps = under_audit(TIMMS, weights=tmp_path / "w.pt", preprocessing={"size": 32}).preprocessing
    assert steps.assumed == "crop, interpolation, mean, std by timm's defaults for this architecture"
    assert steps.source == f"{steps.assumed}; given: size"
    all_given = under_audit(TIMMS, weights=tmp_path / "w.pt", preprocessing=PLAIN | {"crop": 1.0}).preprocessing
    assert all_given.source == "interpolation by timm's defaults for this architecture; given: crop, mean, size, std"
    assert all_given.assumed == ""
    # those that timm publishes do have timm's own
    monkeypatch.setattr(models, "build", lambda *_, **__: built)
    steps = under_audit(TIMMS, weights="imagenet", preprocessing={"size": 32}).preprocessing
    assert steps.source == "crop, interpolation, mean, std by timm's own values for this architecture; given: size"
    assert steps.assumed == ""


def test_what_nobody_gave_is_said_of_files_and_functions_and_not_of_a_module_with_its_configuration(tmp_path):
    spots = honest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is old, and still about
        torch.jit.trace(spots, torch.rand(2, 3, 32, 32)).save(tmp_path / "scripted.pt")
    of_nobody = "crop, interpolation, mean, std as usual for ImageNet"
    for model in (tmp_path / "scripted.pt", "tests.audit.subjects:honest", spots):
        assert under_audit(model, preprocessing={"size": 32}).preprocessing.assumed == of_nobody
        assert under_audit(model, preprocessing=PLAIN).preprocessing.assumed == ""
    with_configuration = timm.create_model(TIMMS, num_classes=2)
    assert under_audit(with_configuration, preprocessing={"size": 32}).preprocessing.assumed == ""


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "config.json beside the weights cannot be read"),
        ("[1]", "config.json beside the weights cannot be read"),
        ({"architecture": "resnet50"}, f"says that they are of 'resnet50', not '{NAME}'"),
        ({"architecture": NAME, "mean": "half"}, "has no usable mean ('half')"),
        ({"architecture": NAME, "mean": [0.5, 0.5]}, "has no usable mean"),
        ({"architecture": NAME, "std": [[1], [1], [1]]}, "has no usable std"),
        ({"architecture": NAME, "input_size": [3, 64, 96]}, "has no usable input_size"),
        ({"architecture": NAME, "input_size": 64}, "has no usable input_size"),
        ({"architecture": NAME, "crop_pct": "all"}, "has no usable crop_pct"),
        ({"architecture": NAME, "interpolation": "cubic"}, "has no usable interpolation ('cubic')"),
        ({"architecture": NAME, "interpolation": ["bicubic"]}, "has no usable interpolation"),
        ({"architecture": NAME, "pretrained_cfg": 3}, "has no usable pretrained_cfg"),
        ({"architecture": NAME, "mean": [123, 117, 104]}, "of pixels in [0, 1]"),
        ({"architecture": NAME, "model_args": {"global_pool": "max"}}, "model_args (global_pool)"),
    ],
)
def test_a_config_that_cannot_be_followed_is_one_sentence(folder, small_set, refusal, config, said):
    write(folder, config)
    assert said in refusal(small_set, model=NAME, weights=folder / "model.safetensors", size=None)


def test_a_config_of_something_else_changes_nothing(folder, network):
    write(folder, {"learning_rate": 0.1, "epochs": 3})
    found = under_audit(NAME, weights=folder, preprocessing={"size": 32})
    same_answers(found, network)
    assert found.preprocessing.source == "crop, interpolation, mean, std as usual for ImageNet; given: size"
    assert found.preprocessing.assumed


def wrapped(kind, state):
    return {
        "lightning": {
            "epoch": 3,
            "global_step": 10,
            "state_dict": {f"model.{name}": value for name, value in state.items()},
        },
        "model": {
            "model": state,
            "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 0.1}]},
        },
        "model_state_dict": {"model_state_dict": state, "epoch": 3, "loss": 0.5},
        "parallel": {f"module.{name}": value for name, value in state.items()},
        "compiled": {f"_orig_mod.{name}": value for name, value in state.items()},
        "all": {"state_dict": {f"module._orig_mod.model.{name}": value for name, value in state.items()}},
    }[kind]


@pytest.mark.parametrize("kind", ["lightning", "model", "model_state_dict", "parallel", "compiled", "all"])
def test_wrapped_checkpoints_answer_as_the_plain_one_and_the_report_says_so(tmp_path, network, kind):
    torch.save(wrapped(kind, network.state_dict()), tmp_path / "w.ckpt")
    found = under_audit(NAME, weights=tmp_path / "w.ckpt", preprocessing={"size": 32})
    same_answers(found, network)
    assert (
        found.described["weights"]
        == {
            "lightning": "w.ckpt, its entry 'state_dict', 'model.' taken off every name",
            "model": "w.ckpt, its entry 'model'",
            "model_state_dict": "w.ckpt, its entry 'model_state_dict'",
            "parallel": "w.ckpt, 'module.' taken off every name",
            "compiled": "w.ckpt, '_orig_mod.' taken off every name",
            "all": "w.ckpt, its entry 'state_dict', 'module.' taken off every name, '_orig_mod.' taken off every name, "
            "'model.' taken off every name",
        }[kind]
    )


def test_a_prefix_in_safetensors_is_taken_off(tmp_path, network):
    safetensors.torch.save_file(wrapped("parallel", network.state_dict()), tmp_path / "w.safetensors")
    same_answers(under_audit(NAME, weights=tmp_path / "w.safetensors", preprocessing={"size": 32}), network)


def test_a_wrapped_checkpoint_in_the_place_of_the_model_holds_weights(tmp_path, network, small_set, refusal):
    torch.save(wrapped("lightning", network.state_dict()), tmp_path / "w.pt")
    assert "holds weights and no model" in refusal(small_set, model=tmp_path / "w.pt")


def test_code_in_a_wrapped_checkpoint_is_not_run(tmp_path, network, small_set, refusal):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    torch.save({"state_dict": network.state_dict(), "hyper_parameters": Trap()}, tmp_path / "w.ckpt")
    assert "not opened for safety" in refusal(small_set, model=NAME, weights=tmp_path / "w.ckpt")
    assert not (tmp_path / "sprung").exists()


def test_two_sets_of_weights_in_one_file_are_not_chosen_between(tmp_path, network, small_set, refusal):
    state = network.state_dict()
    torch.save({"state_dict": state, "state_dict_ema": state}, tmp_path / "w.pt")
    said = refusal(small_set, model=NAME, weights=tmp_path / "w.pt")
    assert "holds several sets of weights (state_dict, state_dict_ema)" in said


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("torchvision/mobilenet_v3_small", "mobilenet_v3_small"),
        ("mobilenet_v3_small", "mobilenet_v3_small"),  # timm has another name for it
        ("torchvision/resnet18", "resnet18"),
        ("torchvision/squeezenet1_1", "squeezenet1_1"),  # ends in a convolution
    ],
)
def test_torchvisions_models_are_named_as_there(tmp_path, name, architecture):
    torch.manual_seed(0)
    built = torchvision.models.get_model(architecture, num_classes=2).eval()
    torch.save({"model": built.state_dict()}, tmp_path / "w.pth")
    found = under_audit(name, weights=tmp_path / "w.pth", preprocessing={"size": 64}, attribution="none")
    pictures = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        logits = built(pictures)
        torch.testing.assert_close(found.outputs(pictures)[:, 0], logits[:, 1] - logits[:, 0])
    assert found.described["model"] == f"torchvision/{architecture}"
    assert found.described["weights"] == "w.pth, its entry 'model'"
    assert found.preprocessing.mean == models.networks.IMAGENET_MEAN
    assert "mean, std as usual for ImageNet" in found.preprocessing.source


@pytest.fixture
def onnx_file(tmp_path):
    """The means of red and of green, ten times as large and less 5, for any number of pictures."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = np.array([[10, 0, 0], [0, 10, 0]], np.float32).T
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["images"], ["means"]),
            helper.make_node("Flatten", ["means"], ["colours"]),
            helper.make_node("Gemm", ["colours", "weights", "bias"], ["logits"]),
        ],
        "colours",
        [helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(np.full(2, -5, np.float32), "bias")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_an_onnx_file_answers_and_has_maps_where_they_are_asked_for(onnx_file):
    found = under_audit(onnx_file, output=1, threshold=0.0, preprocessing=PLAIN)
    expected = 10 * PICTURES.mean((2, 3))[:, 1:2] - 5
    torch.testing.assert_close(found.outputs(PICTURES), expected)
    assert (found.described["kind"], found.described["maps"]) == ("ONNX file", "none")
    assert found.no_maps.endswith("; --attribution occlusion needs the model's answers alone")
    covered = under_audit(onnx_file, output=1, threshold=0.0, preprocessing=PLAIN, attribution="occlusion")
    assert covered.no_maps == ""
    with pytest.raises(BiaslibError, match=r"cannot be drawn by integrated-gradients: .*does not require grad"):
        under_audit(onnx_file, preprocessing=PLAIN, attribution="integrated-gradients")


def test_an_onnx_file_without_onnxruntime_names_the_extra(onnx_file, small_set, refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    said = refusal(small_set, model=onnx_file, size=32)
    assert said.endswith("net.onnx cannot be opened: it takes onnxruntime, so run pip install 'biaslib[onnx]'.")


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """Files of other kinds, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("net.onnx", "net.h5", "net.keras", "net.tflite"):
        (tmp_path / name).write_bytes(b"\x08\x07\x12\x07pytorch")
    for name, text in (
        ("hello.pt", "hello"),
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n"),
        ("words.pth", "a\nb\nc\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    (tmp_path / "transformers").mkdir()
    write(tmp_path / "transformers", {"architectures": ["ResNetForImageClassification"], "model_type": "resnet"})
    state = {"features.0.0.weight": torch.zeros(16, 3, 3, 3), "classifier.3.weight": torch.zeros(2, 1024)}
    torch.save(state, tmp_path / "torchvision.pt")


def unreachable(*_, **__):
    raise OSError("no way to the hub")


@pytest.mark.parametrize(
    ("model", "weights", "said"),
    [
        ("net.onnx", None, "The model file net.onnx cannot be opened: "),
        ("net.h5", None, "Keras is not read: ask the model yourself"),
        ("net.keras", None, "Keras is not read: ask the model yourself"),
        ("net.tflite", None, "TensorFlow Lite is not read: ask the model yourself"),
        (NAME, "net.onnx", "ONNX is not read: ask the model yourself and give its answers as --predictions"),
        (NAME, "net.h5", "Keras is not read: ask the model yourself"),
        ("passwd", None, "is not a TorchScript or torch.export file"),
        (NAME, "passwd", "passwd cannot be read: it is damaged or of another kind"),
        (NAME, "hello.pt", "hello.pt cannot be read: it is damaged or of another kind"),
        (NAME, "words.pth", "words.pth cannot be read: it is damaged or of another kind"),
        ("hello.pt", None, "is not a TorchScript or torch.export file"),
        ("hf-hub:someone/skin", None, "fetched from the Hugging Face hub through timm (OSError: no way to the hub)"),
        ("hf_hub:timm/resnet18.a1_in1k", None, "download it (hf download timm/resnet18.a1_in1k --local-dir FOLDER)"),
        ("hf-hub:someone/skin", "torchvision.pt", "Weights go with an architecture's name only"),
        ("local-dir:nowhere", None, "There is no folder nowhere"),
        ("empty", None, "The folder empty is no model: it has no config.json that names an architecture of timm"),
        ("transformers", None, "The folder transformers is no model: it has no config.json that names an architecture"),
        ("transformers", "torchvision.pt", "brings its own"),
        (NAME, "empty", "The folder empty holds no model.safetensors"),
        ("resnet18.nonsense", "torchvision.pt", "There is no model file resnet18.nonsense: mend its path, or name the"),
        ("resnet18.pt", None, "There is no model file resnet18.pt: mend its path, or name the architecture without an"),
        ("other.pt", None, "There is no model file other.pt"),
        ("mobilenet_v3_small", None, "'torchvision/mobilenet_v3_small' is an architecture, and random weights"),
        ("mobilenet_v3_small", "torchvision.pt", "do not fit 'torchvision/mobilenet_v3_small'"),
        ("mobilenet_v3_large", "imagenet", "There are no ImageNet weights for 'torchvision/mobilenet_v3_large'"),
        ("torchvision/mobilenet_v3_smal", "torchvision.pt", "did you mean 'mobilenet_v3_small'?"),
        ("torchvision/fcn_resnet50", "torchvision.pt", "torchvision has no classifier 'fcn_resnet50': did you mean"),
        ("mobilenetv3_small_100", "torchvision.pt", "torchvision's are torchvision/NAME; for one of your own give mod"),
        ("resnet18", "torchvision.pt", "module:function"),
    ],
)
def test_what_is_no_model_here_is_refused_for_the_right_reason(
    strange, small_set, refusal, monkeypatch, model, weights, said
):
    monkeypatch.setattr(timm.models._hub, "hf_hub_download", unreachable)
    assert said in refusal(small_set, model=model, weights=weights)


def test_random_bytes_as_weights_are_always_one_sentence(tmp_path):
    rng = np.random.default_rng(0)
    torch.save(models.build("small", 2).state_dict(), tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    whole = (tmp_path / "w.pt").read_bytes()
    for number in range(60):
        changed = bytearray(whole)
        changed[rng.integers(min(len(whole), 600))] ^= 1 << rng.integers(8)
        (tmp_path / f"{number}.pt").write_bytes(bytes(changed))
        try:
            building.read_state(tmp_path / f"{number}.pt")
        except BiaslibError:
            continue


def test_a_model_of_the_hub_is_what_timm_makes_of_what_the_hub_answers(tmp_path, monkeypatch):
    """With a reply as the hub gives one for a model of timm: config.json and weights, by repository and file name."""
    torch.manual_seed(0)
    published = timm.create_model(TIMMS, num_classes=2).eval()
    safetensors.torch.save_file(published.state_dict(), tmp_path / "model.safetensors")
    kept = {"input_size": [3, 40, 40], "crop_pct": 0.8, "interpolation": "bilinear", "fixed_input_size": False}
    kept |= HALF | {"num_classes": 2, "pool_size": [2, 2], "first_conv": "conv1.0", "classifier": "fc", "tag": "skin"}
    write(tmp_path, {"architecture": TIMMS, "num_classes": 2, "num_features": 512, "pretrained_cfg": kept})
    asked = []

    def replied(repo_id, filename, **_):
        asked.append((repo_id, filename))
        return str(tmp_path / filename)

    monkeypatch.setattr(timm.models._hub, "hf_hub_download", replied)
    found = under_audit("hf-hub:clinic/skin")
    assert set(asked) == {("clinic/skin", "config.json"), ("clinic/skin", "model.safetensors")}
    same_answers(found, published)
    steps = found.preprocessing
    assert (steps.size, steps.crop, steps.mean, steps.std) == (40, 0.8, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    assert steps.interpolation == "bilinear"
    assert steps.assumed == ""
    assert found.described["model"] == "clinic/skin"
