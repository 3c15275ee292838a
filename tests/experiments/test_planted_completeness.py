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
    found = completeness(settings, FEW, steps=24, many=48)
    assert len(found) == 2 * 2 * 6
    (model,) = trained(settings[1:])
    images = models.to_tensor(FEW.samples(QUICK).images)
    targets = model(images).argmax(1, keepdim=True)
    many = attribution.integrated_gradients(model, images, targets, steps=48, rule="trapezoid")[:, 0].flatten(1)
    for rule in ("adaptive", "trapezoid"):
        shares = attribution.integrated_gradients(model, images, targets, steps=24, rule=rule, signed=True)
        wanted = attribution.completeness_gap(model, images, targets, shares)[:, 0]
        part = found[(found["model"] == 1) & (found["rule"] == rule)]
        np.testing.assert_allclose(part["gap"], wanted, rtol=1e-3, atol=1e-5)
        few = shares[:, 0].square().sum(1).flatten(1)
        elsewhere = (few / few.sum(1, keepdim=True) - many / many.sum(1, keepdim=True)).clamp(min=0).sum(1)
        np.testing.assert_allclose(part["moved"], elsewhere, rtol=1e-3, atol=1e-5)


def test_many_steps_are_right_by_definition():
    found = completeness([QUICK], FEW, steps=24, many=24)
    assert (found[found["rule"] == "trapezoid"]["moved"] == 0).all()
    assert (found[found["rule"] == "adaptive"]["moved"] > 0).all()


def test_only_the_usual_rule_leaves_something():
    gaps = completeness([QUICK], FEW, steps=24, many=24).groupby("rule")["gap"].median()
    assert gaps["adaptive"] < 0.01
    assert gaps["adaptive"] < gaps["trapezoid"]
