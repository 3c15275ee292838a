"""What the adapters give beside a direct call of captum, grad-cam, Quantus and fairlearn; and by the dial's door."""

import ast
import functools
import inspect
import sys
import warnings
from dataclasses import replace

import captum.attr
import numpy as np
import pytest
import torch
from fairlearn.metrics import MetricFrame, demographic_parity_difference, equalized_odds_difference
from sklearn.metrics import accuracy_score, recall_score

from biaslib import attribution, cli, metrics, models
from biaslib.dial import adapters
from biaslib.dial.entries import Entry, Seen
from biaslib.dial.measuring import measured
from biaslib.dial.trials import PLACES, Trial
from biaslib.errors import BiaslibError
from biaslib.worlds.digits import Digits

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what they import
    import pytorch_grad_cam
    import quantus

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")

TINY = {"strength": 1.0, "images": 64, "epochs": 1, "test_images": 40, "explained": 4}


@pytest.fixture
def case():
    """Of pets: half of the images have no ball, so that the cue has no mask there."""
    return Seen(measured([Trial(world="pets", size=32, **TINY)])[0], 3)


def subject(case):
    """The network with nothing in place, its normalised images, and the outputs that it answers by."""
    network = case.network
    for module in network.modules():
        if isinstance(module, torch.nn.ReLU | torch.nn.ReLU6):
            module.inplace = False
    pixels = models.to_tensor(case.pictures, model=network)
    with torch.no_grad():
        return network, pixels, network(pixels).argmax(dim=1)


def enlarged(case):
    return metrics.upsample_maps(case.map.astype(np.float32), *case.pictures.shape[1:3])


def with_map(case, rows):
    """Of the same model, but with maps of zeros in the other rows."""
    return Seen(replace(case._case, map=case.map * rows[:, None, None]), 3)


def maps_of(relevance, masks):
    """In place of a score."""
    return relevance


@pytest.mark.filterwarnings("ignore:Setting")  # which some methods are made of
@pytest.mark.parametrize("kind", ["Saliency", "InputXGradient", "DeepLift", "GuidedBackprop"])
def test_an_attribution_is_scored_as_a_direct_call_is(case, kind):
    method = getattr(captum.attr, kind)
    network, pixels, answers = subject(case)
    direct = method(network).attribute(pixels.requires_grad_(), target=answers).detach().abs().sum(dim=1).numpy()
    expected = metrics.relevance_mass_accuracy(direct, case.mask("cue"))
    found = adapters.captum(method)(case)
    assert 0 < np.isnan(found).sum() < len(found)  # no ball, no share of it
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    ranks = adapters.captum(method, region="object", score=metrics.relevance_rank_accuracy)(case)
    np.testing.assert_allclose(ranks, metrics.relevance_rank_accuracy(direct, case.mask("object")), atol=0.02)


def test_options_go_to_attribute_and_integrated_gradients_are_the_books(case):
    black = models.to_tensor(np.zeros((1, 32, 32, 3), np.uint8), model=case.network)
    options = {"n_steps": 8, "method": "riemann_trapezoid", "baselines": black, "score": maps_of}
    found = adapters.captum(captum.attr.IntegratedGradients, **options)(case)
    network, pixels, answers = subject(case)
    shares = attribution.integrated_gradients(network, pixels, answers[:, None].numpy(), steps=8, signed=True)[:, 0]
    # captum's weights add up to 7/8: it divides 7 intervals by their 8 ends
    np.testing.assert_allclose(found * 8 / 7, shares.abs().sum(dim=1).numpy(), rtol=1e-3, atol=1e-5)


def test_a_layer_of_the_network_and_its_last_map_can_be_looked_at(case):
    coarse = adapters.captum(lambda network: captum.attr.LayerGradCam(network, network.last_map), score=maps_of,
                             relu_attributions=True)(case)  # fmt: skip
    np.testing.assert_allclose(coarse, enlarged(case), atol=2e-3)
    named = adapters.grad_cam(pytorch_grad_cam.GradCAM, at="last_map", score=maps_of)(case)
    np.testing.assert_allclose(named, coarse, atol=1e-5)


@pytest.mark.parametrize("region", ["object", "cue"])
def test_grad_cam_of_the_library_is_the_cases_own(case, region):
    found = adapters.grad_cam(pytorch_grad_cam.GradCAM, region=region)(case)
    np.testing.assert_allclose(found, metrics.relevance_mass_accuracy(enlarged(case), case.mask(region)), atol=2e-3)
    # behind average pooling and a linear layer gradients are the same everywhere
    hires = adapters.grad_cam(pytorch_grad_cam.HiResCAM, region=region)(case)
    np.testing.assert_allclose(hires, found, atol=1e-4)


@pytest.mark.parametrize("kind", ["GradCAM", "LayerCAM", "GradCAMPlusPlus"])
def test_a_map_is_the_librarys_before_its_least_value_is_subtracted(case, kind):
    cam = getattr(pytorch_grad_cam, kind)
    found = adapters.grad_cam(cam, score=maps_of)(case)
    network, pixels, answers = subject(case)
    raw = attribution.library_cam(kind)(network, pixels, answers[:, None].numpy())[:, 0].numpy()
    np.testing.assert_allclose(found, metrics.upsample_maps(raw, 32, 32), atol=1e-5)
    layer = [module for module in network.modules() if isinstance(module, torch.nn.ReLU | torch.nn.ReLU6)][-1]
    shown = cam(network, [layer])(pixels, None)  # None: of the answer
    low, high = (end(raw, axis=(1, 2), keepdims=True) for end in (np.min, np.max))
    rows = (high > low + 1e-3)[:, 0, 0]
    assert rows.any()
    scaled = metrics.upsample_maps(((raw - low) / np.where(high > low, high - low, 1)), 32, 32)
    ends = scaled.min(axis=(1, 2), keepdims=True), scaled.max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(shown[rows], ((scaled - ends[0]) / (ends[1] - ends[0] + 1e-7))[rows], atol=1e-2)


def test_of_several_answers_the_target_is_explained():
    seen = Seen(measured([Trial(world="digits", **TINY)])[0], 3)
    output = PLACES["digits"].outputs.index(Digits.target)
    found = adapters.captum(captum.attr.Saliency, score=maps_of)(seen)
    network, pixels, _ = subject(seen)
    direct = captum.attr.Saliency(network).attribute(pixels.requires_grad_(), target=output)
    np.testing.assert_allclose(found, direct.sum(dim=1).numpy(), rtol=1e-4, atol=1e-6)


def test_a_metric_of_quantus_gives_what_a_direct_call_does(case):
    network, pixels, answers = subject(case)
    maps, masks = enlarged(case)[:, None], case.mask("cue")[:, None]
    given = {"x_batch": pixels.numpy(), "y_batch": answers.numpy(), "channel_first": True, "device": "cpu"}
    some = maps.any(axis=(1, 2, 3))
    assert some.any()
    sparse = quantus.Sparseness(disable_warnings=True)
    found = adapters.quantus(sparse)(case)
    np.testing.assert_allclose(found[some], np.array(sparse(network, **given, a_batch=maps.copy()))[some], rtol=1e-6)
    assert np.isnan(found[~some]).all()
    mass = adapters.quantus(quantus.RelevanceMassAccuracy(disable_warnings=True), region="cue")(case)
    assert 0 < np.isnan(mass).sum() < len(mass)
    np.testing.assert_allclose(mass, metrics.relevance_mass_accuracy(maps[:, 0], masks[:, 0]), rtol=1e-5)


def test_a_metric_of_quantus_that_asks_the_network_does_so_of_images_with_a_map(case):
    network, pixels, answers = subject(case)
    maps, rows = enlarged(case)[:, None], case.map.any(axis=(1, 2))
    rows[::2] = False
    estimate = quantus.FaithfulnessEstimate(features_in_step=64, disable_warnings=True)
    given = {"x_batch": pixels.numpy()[rows], "y_batch": answers.numpy()[rows], "a_batch": maps[rows]}
    direct = estimate(network, **given, channel_first=True, device="cpu", softmax=True)
    found = adapters.quantus(estimate, softmax=True)(with_map(case, rows))
    np.testing.assert_allclose(found[rows], direct, rtol=1e-4)
    assert np.isnan(found[~rows]).all()
    nothing = adapters.quantus(quantus.Sparseness(disable_warnings=True))(with_map(case, rows & False))
    assert np.isnan(nothing).all()


def test_a_number_of_fairlearn_has_the_cue_as_the_sensitive_feature(case):
    given = {"y_true": case.truth, "y_pred": case.answer, "sensitive_features": case.cue}
    for metric in (equalized_odds_difference, demographic_parity_difference):
        assert adapters.fairlearn(metric)(case) == metric(**given)
    for how in ("difference", "ratio", "group_min"):
        made = adapters.fairlearn(functools.partial(MetricFrame, metrics=accuracy_score), how=how)(case)
        assert made == getattr(MetricFrame(metrics=accuracy_score, **given), how)()
    recalls = [recall_score(case.truth[case.cue == cue], case.answer[case.cue == cue]) for cue in (False, True)]
    made = adapters.fairlearn(functools.partial(MetricFrame, metrics=recall_score))(case)
    assert made == pytest.approx(abs(recalls[1] - recalls[0]))


def test_all_images_of_one_group_have_no_difference(case):
    one = Seen(replace(case._case, cue=np.ones(40, bool)), 1)
    assert np.isnan(adapters.fairlearn(equalized_odds_difference)(one))


ENTRIES = {
    "captum": """
import captum.attr
from biaslib import dial
from biaslib.dial import adapters
dial.metric(name="Theirs", tier=3, side="above", passes=3)(adapters.captum(captum.attr.Saliency))
""",
    "grad_cam": """
import pytorch_grad_cam
from biaslib import dial
from biaslib.dial import adapters
dial.metric(name="Theirs", tier=3, side="above", passes=3)(adapters.grad_cam(pytorch_grad_cam.LayerCAM))
""",
    "quantus": """
import quantus
from biaslib import dial
from biaslib.dial import adapters
dial.metric(name="Theirs", tier=3, side="above", passes=3)(adapters.quantus(quantus.Sparseness()))
""",
    "fairlearn": """
import fairlearn.metrics
from biaslib import dial
from biaslib.dial import adapters
dial.metric(name="Theirs", tier=1, side="above")(adapters.fairlearn(fairlearn.metrics.equalized_odds_difference))
""",
}


@pytest.mark.parametrize("library", ENTRIES)
def test_an_entry_of_a_few_lines_goes_through_the_check(library, tmp_path, monkeypatch, capsys):
    file = tmp_path / "theirs.py"
    file.write_text(ENTRIES[library].lstrip())
    assert len(file.read_text().splitlines()) <= 5
    monkeypatch.setattr(sys, "argv", ["biaslib", "dial", "check", str(file)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert "Theirs: tier" in (said := capsys.readouterr().out)
    assert "all is well" in said


def test_a_layer_that_is_not_there_and_a_lower_tier_are_refused(case):
    for tier, made, said in (
        (3, adapters.grad_cam(pytorch_grad_cam.GradCAM, at="nowhere"), "stopped with AttributeError .*nowhere"),
        (2, adapters.captum(captum.attr.Saliency), "asks for 'network' .*: enter it with tier=3"),
        (0, adapters.fairlearn(equalized_odds_difference), "asks for 'cue'"),
    ):
        with pytest.raises(BiaslibError, match=said):
            Entry("Theirs", tier, "above", 1.0, made).of(case._case)


def test_the_package_imports_none_of_them():
    tree = ast.parse(inspect.getsource(adapters))
    names = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & {"captum", "pytorch_grad_cam", "quantus", "fairlearn"}
