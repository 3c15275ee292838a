"""What the package computes is what it computed when golden.json was written (see tests/golden.py)."""

import json
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from tests import golden

KEPT = json.loads(golden.FILE.read_text(encoding="utf-8"))
# In units of a result's own size (mean or deviation). Measured with the CPU's newer vector instructions turned off:
# maps differ by 4e-5 at most; after a few steps of Adam the kept values of weights by 3e-6, and single others, whose
# gradients are next to nothing, by more. 5 % of the learning rate are more than this in every training.
NEARLY, TRAINED = 1e-4, 1e-3
# Two networks that work against each other drift apart sooner: by 3 % between two kinds of CPUs. Another seed: 100 %.
AGAINST_EACH_OTHER = 0.1
# Of a picture's sum: with random last bits of all sines and their like it moved by 60 in 60 million, 20 in 5 million.
PIXELS, SHARE = 30, 2e-6


def check(part, found):
    assert set(found) == set(KEPT[part])
    for name, values in found.items():
        now, kept, where = golden.summary(values), KEPT[part][name], f"{part}: {name}"
        if values.dtype.kind != "f" and not golden.pictures(values):
            assert now == kept, where
            continue
        now, kept = (np.array(text.split(), float) for text in (now, kept))
        relative, absolute = SHARE, PIXELS
        if values.dtype.kind == "f":
            np.testing.assert_array_equal(now[:2], kept[:2], err_msg=where)
            relative = TRAINED if part.startswith("training") else NEARLY
            relative = AGAINST_EACH_OTHER if part.endswith("adversarial") else relative
            absolute = relative * abs(kept[2:4]).max()
        np.testing.assert_allclose(now, kept, rtol=relative, atol=absolute, err_msg=where)


@pytest.mark.parametrize("part", golden.PARTS)
def test_nothing_has_changed(part):
    check(part, golden.computed(part))


def test_another_seed_of_a_training_is_noticed():
    other = replace(golden.RECIPE, training=replace(golden.RECIPE.training, seed=1))
    with mock.patch.object(golden, "RECIPE", other):
        found = golden.computed("training ensemble")
    with pytest.raises(AssertionError, match="ensemble: weights"):
        check("training ensemble", found)
