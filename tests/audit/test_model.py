"""The model under audit in every form, and how its outputs become a yes or a no."""

import pickle
import warnings

import numpy as np
import pytest
import safetensors.torch
import timm
import torch
from torch import nn

from biaslib import attribution, models
from biaslib.audit.model import _read_as, class_numbers, draw
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, Plain, Spots, both, honest, options, under_audit

PICTURES = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def asked(model, **given):
    return under_audit(model, preprocessing=PLAIN, **given)


@pytest.fixture
def small(tmp_path):
    """A small network and its weights file."""
    torch.manual_seed(0)
    model = models.build("small", 2).eval()
    safetensors.torch.save_file(model.state_dict(), tmp_path / "small.safetensors")
    return model, tmp_path / "small.safetensors"


def test_an_architecture_takes_its_outputs_from_the_weights(small):
    model, file = small
    found = asked("small", weights=file)
    with torch.inference_mode():
        logits = model(PICTURES)
        torch.testing.assert_close(found.outputs(PICTURES)[:, 0], logits[:, 1] - logits[:, 0])
    assert found.described["outputs"] == "2"
    assert len(found.described["sha256"]) == 64
    assert found.no_maps == ""


def test_timms_own_preprocessing_is_taken(tmp_path):
    model = models.build("resnet10t", 1)
    torch.save(model.state_dict(), tmp_path / "w.pt")
    steps = under_audit("resnet10t", weights=tmp_path / "w.pt", preprocessing={"size": 64}).preprocessing
    assert (steps.size, steps.crop) == (64, model.pretrained_cfg["crop_pct"])
    assert steps.mean == tuple(model.pretrained_cfg["mean"])


def test_torchscript_and_export_answer_as_the_module_and_have_no_map(tmp_path):
    model = Plain(honest())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # old files are still about
        torch.jit.trace(model, PICTURES).save(tmp_path / "scripted.pt")
    batch = torch.export.Dim("batch", min=2, max=512)
    program = torch.export.export(model, (PICTURES,), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "exported.pt2")
    expected = asked(model).outputs(PICTURES)
    for name in ("scripted.pt", "exported.pt2"):
        found = asked(tmp_path / name)
        torch.testing.assert_close(found.outputs(PICTURES), expected)
        assert found.no_maps.startswith("the model has no methods forward_features and forward_head")
        # no map unless somebody asks for one
        assert found.described["maps"] == "none"
        for way in ("occlusion", "integrated-gradients"):
            assert asked(tmp_path / name, attribution=way).described["maps"] == way


def test_a_function_that_gives_a_module_is_called(monkeypatch):
    found = asked("tests.audit.subjects:both", output=0, group_outputs=[1])
    with torch.inference_mode():
        torch.testing.assert_close(found.outputs(PICTURES), both()(PICTURES))


def test_outputs_are_chosen_and_cut():
    model = both()
    with torch.no_grad():
        logits = model(PICTURES)
        turned = asked(model, output=1, group_outputs=[0], threshold=2.0).outputs(PICTURES)
    torch.testing.assert_close(turned, logits[:, [1, 0]] - 2.0)


class Softmax(Spots):
    def forward(self, x):
        return super().forward(x).softmax(dim=1)


def test_outputs_that_add_up_to_one_are_probabilities():
    with pytest.raises(BiaslibError, match="2 outputs of the model are probabilities that add up to 1"):
        asked(Softmax(1.0, 1.0, outputs=2), output=1, group_outputs=[0])
    assert asked(Softmax(1.0, 1.0, outputs=3), output=2, threshold=0.5).described["outputs"] == "3"
    # of two classes the larger one is yes, with probabilities as with logits
    asked(Softmax(1.0, 1.0, outputs=2))


def test_the_same_model_has_the_same_key_and_any_change_another():
    key = asked(honest()).key
    assert asked(honest()).key == key
    others = [
        asked(Spots(1.0, 1000.0)),
        asked(Plain(honest())),
        asked(honest(), threshold=0.5),
        under_audit(honest(), preprocessing=PLAIN | {"crop": 0.9}),
    ]
    assert len({key, *(one.key for one in others)}) == 5


class Bare(nn.Module):
    def forward(self, x):
        return x.mean((1, 2, 3))


class Unused(Bare):
    def __init__(self):
        super().__init__()
        self.unused = nn.Conv2d(3, 1, 1)


class Tokens(Spots):
    """Features without places, as a transformer's."""

    def forward_features(self, x):
        return super().forward_features(x).flatten(2)

    def forward_head(self, features):
        return self.head(features.mean(2))


class Twice(Spots):
    def forward(self, x):
        return 2 * super().forward(x)


class Undifferentiable(Tokens):
    def forward(self, x):
        return super().forward(x).detach()


def test_maps_are_drawn_by_what_the_model_allows():
    assert asked(honest()).described["maps"] == "grad-cam"
    assert asked(Tokens(1.0, 1.0)).described["maps"] == "integrated-gradients"
    assert asked(Plain(honest())).described["maps"] == "integrated-gradients"
    none = asked(Undifferentiable(1.0, 1.0))
    assert none.described["maps"] == "none"
    # the reason names the user's model and no class of this package
    assert none.no_maps == (
        "The model has no map of channels x height x width (its features are (1, 2, 64)): a class activation map needs "
        "a convolutional architecture; --attribution occlusion needs the model's answers alone"
    )
    for way in ("integrated-gradients", "occlusion"):
        assert asked(honest(), attribution=way).described["maps"] == way
    assert asked(Undifferentiable(1.0, 1.0), attribution="occlusion").no_maps == ""
    assert asked(honest(), attribution="none").no_maps == "no maps were asked for"


def test_a_named_layer_takes_the_place_of_the_last_map():
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=2).eval()
    last, named, earlier = (asked(model, **given) for given in ({}, {"layer": "layer4"}, {"layer": "layer3.0"}))
    maps = [attribution.grad_cam(found.outputs, PICTURES, [0], absolute=True) for found in (last, named, earlier)]
    torch.testing.assert_close(maps[0], maps[1])
    assert [one.shape[2:] for one in maps] == [(1, 1), (1, 1), (2, 2)]
    assert len({last.key, named.key, earlier.key}) == 3
    # by hand, as the definition has it
    features = model.layer3[0](model.layer2(model.layer1(model.maxpool(model.act1(model.bn1(model.conv1(PICTURES)))))))
    features = features.detach().requires_grad_()
    logits = model.forward_head(model.layer4(features))
    answers = logits[:, 1] - logits[:, 0]
    (gradient,) = torch.autograd.grad(answers.abs().sum(), features)
    expected = (gradient.mean((2, 3), keepdim=True) * features).sum(1, keepdim=True).relu()
    torch.testing.assert_close(maps[2], expected.detach(), rtol=1e-4, atol=1e-6)


def test_rollout_is_taken_for_timms_transformers():
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=2, depth=1)
    found = under_audit(model)
    assert found.described["maps"] == "rollout"
    assert found.key != under_audit(model, attribution="integrated-gradients").key


@pytest.mark.parametrize(
    ("model", "way", "said"),
    [
        (honest(), "lime", "There is no attribution 'lime': take one of grad-cam, rollout, integrated-gradients, occ"),
        (honest(), "rollout", "Maps cannot be drawn by rollout: The attention of Spots cannot be rolled out"),
        (Tokens(1.0, 1.0), "grad-cam", "Maps cannot be drawn by grad-cam: The model has no map of channels"),
        (Plain(honest()), "grad-cam", "by grad-cam: the model has no methods forward_features and forward_head"),
        (Undifferentiable(1.0, 1.0), "integrated-gradients", "by integrated-gradients: .*does not require grad"),
    ],
)
def test_maps_that_cannot_be_drawn_as_was_asked_are_refused(model, way, said):
    with pytest.raises(BiaslibError, match=said):
        asked(model, attribution=way)


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (honest(), {"layer": "heads"}, r"There is no layer 'heads': the model has head, and what these hold \(A\.B\)"),
        (Bare(), {"layer": "any"}, "the model has none that has a name"),
        (honest(), {"layer": "head"}, r"layer head gives \(1, 1\), and a map is channels x rows x as many columns"),
        (honest(), {"layer": "head", "attribution": "occlusion"}, "A layer is for Grad-CAM, not for occlusion"),
        (Unused(), {"layer": "unused"}, r"layer unused gives \(\), and a map is"),
    ],
)
def test_a_layer_without_a_map_is_refused(model, given, said):
    with pytest.raises(BiaslibError, match=said):
        asked(model, **given)


def test_maps_explain_what_the_model_answers_and_are_its_attributions():
    pixels, model = PICTURES, Twice(300.0, 1000.0)
    whole = nn.Sequential(model)
    by_gradients = asked(model)
    assert by_gradients.described["maps"] == "integrated-gradients"
    shares = attribution.integrated_gradients(whole, pixels, [0], steps=16, baseline=torch.zeros(3, 32, 32))
    found = draw("integrated-gradients", by_gradients.outputs, pixels, [0])
    torch.testing.assert_close(found, nn.functional.avg_pool2d(shares, 2))
    covered = draw("occlusion", asked(model, attribution="occlusion").outputs, pixels, [0])
    torch.testing.assert_close(covered, attribution.occlusion(whole, pixels, [0], absolute=True))


def test_a_split_that_is_not_the_model_gives_no_map():
    with pytest.raises(BiaslibError, match="is not what it answers"):
        asked(Twice(1.0, 1.0), attribution="grad-cam")
    assert asked(Twice(1.0, 1.0)).outputs(PICTURES)[0, 0] == 2 * asked(Spots(1.0, 1.0)).outputs(PICTURES)[0, 0]


def test_weights_that_do_not_fit_are_refused(tmp_path, small):
    model, file = small
    with pytest.raises(BiaslibError, match=r"do not fit 'resnet18': 'fc.*'|do not fit the model"):
        asked("resnet18", weights=file)
    state = model.state_dict()
    safetensors.torch.save_file({k: v for k, v in state.items() if k != "fc.bias"}, tmp_path / "no_bias.safetensors")
    with pytest.raises(BiaslibError, match=r"'fc\.bias' is missing"):
        asked("small", weights=tmp_path / "no_bias.safetensors")
    safetensors.torch.save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(BiaslibError, match=r"'fc\.weight' is missing"):
        asked("small", weights=tmp_path / "other.safetensors")


def test_a_pickle_is_never_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    (tmp_path / "trap.pkl").write_bytes(pickle.dumps(Trap(), protocol=2))
    torch.save(Trap(), tmp_path / "trap.pt")
    for name in ("trap.pkl", "trap.pt"):
        with pytest.raises(BiaslibError, match=r"could run anything.*state_dict.* also runs its maker's code"):
            asked(tmp_path / name)
        with pytest.raises(BiaslibError, match=r"save `model\.state_dict\(\)` alone"):
            asked("small", weights=tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_weights_in_the_place_of_the_model_are_told_apart(tmp_path, small):
    torch.save(small[0].state_dict(), tmp_path / "w.pt")
    for file in (small[1], tmp_path / "w.pt"):
        with pytest.raises(BiaslibError, match="holds weights and no model"):
            asked(file)


class Dict(torch.nn.Module):
    def forward(self, x):
        return {"logits": x}


class Nan(torch.nn.Module):
    def forward(self, x):
        return x.mean((1, 2, 3)) * np.nan


class One(torch.nn.Module):
    def forward(self, x):
        assert len(x) == 1, "one at a time"
        return x.mean((1, 2, 3))


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("small", {}, "random weights are nothing to audit"),
        ("smal", {"weights": "none.pt"}, "no weights file"),
        ("none/model.pt", {}, "no model file none/model.pt"),
        ("tests.audit.subjects:nothing", {}, "does not give a model .*nothing"),
        ("tests.audit.subjects:no_model", {}, "returns a int, and a torch module is needed"),
        ("tests.audit.subjects:honest", {"weights": "w.pt"}, "brings its own"),
        (both(), {"output": 2}, "no output 2: the model has 2"),
        (both(), {"group_outputs": [1]}, "need the output of the target named"),
        (Spots(1.0, 1.0, outputs=3), {}, "has 3 outputs: name the classes that mean yes"),
        (Dict(), {}, "answers 2 images by dict"),
        (Nan(), {}, "NaN or infinity"),
        (One(), {}, "cannot take 2 images of 3 x 32 x 32 .one at a time."),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(model, given, said):
    with pytest.raises(BiaslibError, match=said):
        asked(model, **given)


def test_a_model_of_one_image_at_a_time_can_be_asked():
    assert asked(One(), batch=1).described["outputs"] == "1"


LOGITS = torch.tensor([[2.0, 1.0, 3.0, -1.0], [0.5, 4.0, 3.0, 1.0], [-3.0, -1.0, -2.0, -4.0]])


def test_one_output_two_classes_and_outputs_with_questions_of_their_own():
    assert _read_as(1, options())(LOGITS[:, 0]).tolist() == [[2.0], [0.5], [-3.0]]
    assert _read_as(1, options(threshold=0.5))(LOGITS[:, :1]).tolist() == [[1.5], [0.0], [-3.5]]
    assert _read_as(2, options())(LOGITS[:, :2]).tolist() == [[-1.0], [3.5], [2.0]]
    both = _read_as(4, options(output=2, group_outputs=[0], threshold=1.0))
    assert both(LOGITS).tolist() == [[2.0, 1.0], [2.0, -0.5], [-3.0, -4.0]]


def test_a_class_is_a_yes_only_where_it_is_the_largest():
    # every logit of the first two rows is above 0 for class 2, and it wins in the first alone
    assert _read_as(4, options(yes=[2]))(LOGITS).ravel().tolist() == [1.0, -1.0, -1.0]
    # a class below 0 can win
    assert (_read_as(4, options(yes=[1]))(LOGITS) > 0).ravel().tolist() == [False, True, True]
    assert (_read_as(4, options(yes=[0, 2]))(LOGITS) > 0).ravel().tolist() == [True, False, False]
    # only the classes that are named compete
    assert (_read_as(4, options(yes=[2], no=[0, 3]))(LOGITS) > 0).ravel().tolist() == [True, True, True]
    assert (
        _read_as(4, options(yes=[1])).words()
        == "yes where the largest of the outputs 1 is above the largest of 0, 2 to 3"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"has 4 outputs: name the classes that mean yes"),
        ({"output": 2}, r"Output 2 is one of 4: name it as a class .* or give its threshold"),
        ({"output": 4, "threshold": 0.0}, r"There is no output 4: the model has 4"),
        ({"yes": [4]}, r"There is no output 4"),
        ({"yes": [1], "no": [0, 1]}, r"Class 1 means yes and no at once"),
        ({"no": [1]}, r"classes that mean no and none that mean yes"),
        ({"yes": [0, 1, 2, 3]}, r"All 4 classes mean yes"),
        ({"yes": [1], "threshold": 0.5}, r"without an output, outputs for groups and a threshold"),
        ({"yes": [1], "output": 1}, r"without an output, outputs for groups and a threshold"),
        ({"group_outputs": [1]}, r"need the output of the target named"),
    ],
)
def test_what_is_not_clear_is_refused(given, said):
    with pytest.raises(BiaslibError, match=said):
        _read_as(4, options(**given))


def test_a_threshold_of_two_classes_is_refused():
    with pytest.raises(BiaslibError, match="Two outputs are read as two classes"):
        _read_as(2, options(threshold=0.5))


def test_numbers_and_ranges():
    assert class_numbers("281-285, 290") == [281, 282, 283, 284, 285, 290]
    for wrong in ("", "a", "3-1", "1,1", "1-", "-1", "1-2-3"):
        with pytest.raises(BiaslibError, match="Classes are"):
            class_numbers(wrong)


def test_one_output_of_many_is_never_read_above_zero_unless_that_is_said():
    many = Spots(1.0, 1.0, outputs=5)
    with pytest.raises(BiaslibError, match="Output 3 is one of 5"):
        under_audit(many, output=3, preprocessing=PLAIN)
    assert under_audit(many, yes=[3], preprocessing=PLAIN).described["answer"].startswith("yes where the largest")
    assert under_audit(many, output=3, threshold=0.0, preprocessing=PLAIN).described["answer"].endswith("above 0")
