"""Whether integrated gradients add up, on small models."""

from dataclasses import replace

import numpy as np
import pytest

from biaslib import attribution, models
from biaslib.experiments.planted_completeness import completeness
from biaslib.experiments.planted_maps import Evaluation
from biaslib.experiments.planted_models import Setting, trained

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = Setting(architecture="small", images=80, size=32, epochs=1)
FEW = Evaluation(images=6)


def test_gaps_are_those_of_the_predicted_class():
    settings = [QUICK, replace(QUICK, seed=1)]
    found = completeness(settings, FEW, steps=(8, 64))
    assert len(found) == 2 * 2 * 6
    (model,) = trained(settings[1:])
    images = models.to_tensor(FEW.samples(QUICK).images)
    targets = model(images).argmax(1, keepdim=True)
    shares = attribution.integrated_gradients(model, images, targets, steps=8, signed=True)
    wanted = attribution.completeness_gap(model, images, targets, shares)[:, 0]
    part = found[(found["model"] == 1) & (found["steps"] == 8)]
    np.testing.assert_allclose(part["gap"], wanted, rtol=1e-3, atol=1e-5)
    many = attribution.integrated_gradients(model, images, targets, steps=64)[:, 0].flatten(1)
    few = attribution.integrated_gradients(model, images, targets, steps=8)[:, 0].flatten(1)
    elsewhere = (few / few.sum(1, keepdim=True) - many / many.sum(1, keepdim=True)).clamp(min=0).sum(1)
    np.testing.assert_allclose(part["moved"], elsewhere, rtol=1e-3, atol=1e-5)
    assert (found[found["steps"] == 64]["moved"] == 0).all()


def test_more_steps_close_the_gap():
    means = completeness([QUICK], FEW, steps=(2, 64)).groupby("steps")["gap"].mean()
    assert means[64] < means[2]
