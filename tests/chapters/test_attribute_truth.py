"""Where attributes are drawn."""

import numpy as np
import pytest

from biaslib.chapters.attribute_truth import where_drawn
from biaslib.errors import BiaslibError
from biaslib.worlds.faces import Faces

TABLE = Faces().factors(6, seed=0)


def test_it_is_the_difference_of_two_pictures():
    found = where_drawn(TABLE, ["Wearing_Hat", "Clan"], size=32)
    assert found.shape == (6, 2, 32, 32)
    for at, name in enumerate(("Wearing_Hat", "Clan")):
        images = [Faces().render(TABLE.assign(**{name: value}), size=32).images.astype(int) for value in (False, True)]
        np.testing.assert_allclose(found[:, at], abs(images[1] - images[0]).mean(-1) / 255, atol=1e-6)


def test_a_hat_is_above_a_mouth_and_the_value_that_is_drawn_does_not_matter():
    found = where_drawn(TABLE, ["Wearing_Hat", "Wearing_Lipstick"], size=32)
    rows = (found.sum(3) * np.arange(32)).sum(2) / found.sum((2, 3))
    assert (rows[:, 0] < 12).all()
    assert (rows[:, 1] > 18).all()
    np.testing.assert_array_equal(where_drawn(TABLE.assign(Wearing_Hat=True), ["Wearing_Hat"], size=32), found[:, :1])


def test_a_coarse_grid_holds_the_means_of_its_cells():
    fine, coarse = (where_drawn(TABLE, ["Eyeglasses"], size=32, grid=grid) for grid in (None, 8))
    assert coarse.shape == (6, 1, 8, 8)
    np.testing.assert_allclose(coarse[2, 0, 3, 5], fine[2, 0, 12:16, 20:24].mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "grid", "sentence"),
    [
        (["Hat"], None, "'Hat' is no binary column"),
        (["skin"], None, "'skin' is no"),
        (["Clan"], 5, "divide the size, 32"),
    ],
)
def test_what_cannot_be_drawn_is_refused(attributes, grid, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        where_drawn(TABLE, attributes, size=32, grid=grid)
