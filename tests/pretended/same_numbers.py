"""What asks networks gives the CPU's numbers on another device, and finds every tensor where it belongs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from biaslib import attribution, metrics, models, recipes, training
from biaslib.gan.counterfactuals import draw, features, latent_codes
from biaslib.gan.networks import Encoder, GeneratorNetwork
from biaslib.gan.training import encoded, latent_correlation
from tests import golden
from tests.attribution.subjects import lively

# this device has few operators of its own, and says so
pytestmark = pytest.mark.filterwarnings("ignore:.*The operator aten")
# the fruits' network has offsets that the next normalisation takes away: their slope is rounding, of which Adam makes
# whole steps, so that it is trained by plain descent
ASKING = ("maps", "audit", *(f"training {name}" for name in golden.TRAININGS if name != "planted fruits"))
ARCHITECTURES = ("small", "small_mobilenet", "small_efficientnet", "resnet18")
METHODS = {
    "Grad-CAM": attribution.grad_cam,
    "Grad-CAM, absolute": lambda *asked: attribution.grad_cam(*asked, absolute=True),
    "Score-CAM": attribution.score_cam,
    "integrated gradients": lambda *asked: attribution.integrated_gradients(*asked, steps=12),
    "integrated gradients, signed": lambda *asked: attribution.integrated_gradients(*asked, steps=4, signed=True),
    "integrated gradients, a baseline each": lambda model, images, targets: attribution.integrated_gradients(
        model, images, targets, steps=4, baseline=torch.zeros(len(images), 3, 32, 32), signed=True
    ),
    "LRP": attribution.epsilon_lrp,
    "LRP, toolbox": lambda *asked: attribution.epsilon_lrp(*asked, rule="toolbox", eps=10.0, scaled=True),
    "LayerCAM": attribution.library_cam("LayerCAM"),
}
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)


def test_the_devices_do_not_mix(sim):
    with pytest.raises(RuntimeError, match="sim"):
        torch.ones(2, device=sim) + torch.ones(2)


@pytest.mark.parametrize("part", ASKING)
def test_a_part_of_the_golden_file_is_the_same(part, sim, monkeypatch, tmp_path):
    def computed(device):
        monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / str(device)))
        return golden.computed(part, device)

    here, there = computed("cpu"), computed(sim)
    assert here.keys() == there.keys()
    for name, values in here.items():
        np.testing.assert_allclose(there[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_network_with_offsets_to_spare_gets_the_same_weights(sim, monkeypatch):
    recipe = golden.FRUITS.recipe
    recipe = replace(recipe, training=replace(recipe.training, optimiser="sgd"))
    here, there = {}, {}
    for device, state in (("cpu", here), (sim, there)):
        monkeypatch.setattr(models, "device", lambda device=device: torch.device(device))
        state |= recipes.train.compute(recipe)
    for name, weights in here.items():
        assert torch.allclose(there[name], weights, rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("method", METHODS)
def test_maps_are_the_same(method, architecture, sim):
    here = METHODS[method](lively(architecture), IMAGES, [0, 2])
    there = METHODS[method](lively(architecture).to(sim), IMAGES, [0, 2])
    assert there.device.type == "cpu"
    assert there.dtype == torch.float32
    assert torch.allclose(there, here, rtol=1e-4, atol=1e-6 * float(here.abs().max()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_predictions_and_curves_are_the_same(architecture, sim):
    maps = np.random.default_rng(1).random((len(IMAGES), 32, 32))

    def asked(model):
        def predict(images):
            return softmax(training.predict(model, images), axis=1)

        logits = training.predict(model, IMAGES)
        return logits, metrics.perturbation_curves(predict, IMAGES, maps, [0] * len(IMAGES), steps=8)

    for there, here in zip(asked(lively(architecture).to(sim)), asked(lively(architecture)), strict=True):
        for a, b in zip(golden.numbers(there), golden.numbers(here), strict=True):
            assert a == pytest.approx(b, rel=1e-5, abs=1e-6, nan_ok=True)


def test_a_generators_walk_is_the_same(monkeypatch, sim):
    def walked(device):
        monkeypatch.setattr(models, "device", lambda: torch.device(device))
        torch.manual_seed(0)
        generator = models.placed(GeneratorNetwork(latent=8, widths=(8, 8)))
        encoder = models.placed(Encoder(latent=8, size=8, widths=(8,)))
        drawn = draw(generator, latent_codes(20, 8))
        asked = models.placed(lively("small"))
        return drawn, encoded(encoder, drawn), latent_correlation(encoder, generator), features(asked, IMAGES)

    for there, here in zip(walked(sim), walked("cpu"), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-6)
