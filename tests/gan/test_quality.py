"""The Fréchet distance against a case by hand and scipy's matrix root."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from biaslib import models
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import features, frechet_distance


def test_by_hand_in_one_dimension():
    # means 0 and 3, standard deviations 1 and 2: 3² + (2 - 1)²
    a, b = np.array([[-1.0], [0.0], [1.0]]), np.array([[1.0], [3.0], [5.0]])
    assert frechet_distance(a, b) == pytest.approx(10)


def test_equals_the_formula_with_scipys_root():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)), rng.normal(1, 2, size=(150, 6))
    of_a, of_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    apart = a.mean(0) - b.mean(0)
    wanted = apart @ apart + np.trace(of_a + of_b - 2 * np.real(sqrtm(of_a @ of_b)))
    assert frechet_distance(a, b) == pytest.approx(wanted)
    assert frechet_distance(b, a) == pytest.approx(wanted)


def test_a_turn_and_a_shift_of_both_sets_change_nothing():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(80, 4)), rng.normal(size=(90, 4)) * [1, 2, 3, 4]
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    assert frechet_distance(a @ turn + 5, b @ turn + 5) == pytest.approx(frechet_distance(a, b))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(a, a[::-1]) == pytest.approx(0, abs=1e-9)


def test_features_that_do_not_vary_have_a_distance():
    a = np.random.default_rng(2).normal(size=(30, 5))
    a[:, 2:] = 1.0  # a covariance without full rank, as dead channels give
    assert frechet_distance(a, a + np.array([0, 0, 1, 0, 0])) == pytest.approx(1)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (np.zeros((1, 3)), np.zeros((5, 3)), "at least 2 images"),
        (np.zeros((5, 3)), np.zeros((5, 4)), "of one d"),
        (np.zeros(5), np.zeros((5, 1)), "of one d"),
        (np.zeros((5, 3)), np.full((5, 3), np.nan), "must be finite"),
    ],
)
def test_what_has_no_distance_is_refused(a, b, said):
    with pytest.raises(BiaslibError, match=said):
        frechet_distance(a, b)


def test_features_are_what_the_last_layer_sees():
    torch.manual_seed(0)
    model = models.build("small", 5).eval()
    images = np.random.default_rng(3).integers(0, 256, (7, 32, 32, 3), np.uint8)
    found = features(model, images, batch=4)
    with torch.inference_mode():
        logits = model(models.to_tensor(images)).numpy()
        head = model.get_submodule(model.pretrained_cfg["classifier"])
        np.testing.assert_allclose(head(torch.from_numpy(found)).numpy(), logits, atol=1e-5)
