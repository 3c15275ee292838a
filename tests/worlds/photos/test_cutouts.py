"""Cut-outs on backgrounds: where they were put, exact masks, the same on another background."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biaslib.errors import BiaslibError
from biaslib.worlds import photos

ROW = {"x": 0.5, "y": 0.5, "scale": 0.25, "turn": 0.0, "mirror": 0}


def square(n=1, colour=(200, 30, 30)):
    """A coloured square of 20 pixels before white, its left half brighter."""
    pictures = np.full((n, 40, 40, 3), 255, np.uint8)
    pictures[:, 10:30, 10:30] = colour
    pictures[:, 10:30, 10:20, 1] += 60
    masks = np.zeros((n, 40, 40), bool)
    masks[:, 10:30, 10:30] = True
    return pictures, masks


def background(n=1, size=80, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def test_a_square_lies_where_it_was_put_in_the_size_it_was_given():
    pictures, masks = square()
    images, covered = photos.paste(pictures, masks, background(), pd.DataFrame([ROW | {"x": 0.4, "y": 0.6}]))
    box = photos.boxes_of_masks(covered)[0]
    np.testing.assert_allclose(box, [0.15, 0.35, 0.65, 0.85], atol=1.5 / 80)
    inside = images[0, 40:60, 20:30]  # far from the edge: its own colours
    assert np.abs(inside.astype(int) - [200, 90, 30]).max() <= 4


def test_mirrored_and_turned():
    pictures, masks = square()
    plain = np.full((1, 80, 80, 3), 128, np.uint8)
    images, _ = photos.paste(pictures, masks, plain, pd.DataFrame([ROW | {"mirror": 1}]))
    assert images[0, 40, 28, 1] == pytest.approx(30, abs=4)
    assert images[0, 40, 52, 1] == pytest.approx(90, abs=4)
    quarter, covered = photos.paste(pictures, masks, plain, pd.DataFrame([ROW | {"turn": np.pi / 2}]))
    assert quarter[0, 28, 40, 1] == pytest.approx(90, abs=4)  # clockwise: the left half is now above
    assert quarter[0, 52, 40, 1] == pytest.approx(30, abs=4)
    assert covered.sum() == pytest.approx(40 * 40, rel=0.06)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.floats(0.05, 0.3), st.floats(-0.6, 0.6))
def test_another_background_changes_nothing_that_the_cut_out_covers_fully(seed, scale, turn):
    pictures, masks = square()
    rng = np.random.default_rng(seed)
    row = ROW | {"scale": scale, "turn": turn, "x": rng.uniform(0.45, 0.55), "y": rng.uniform(0.45, 0.55)}
    one, covered = photos.paste(pictures, masks, background(seed=1), pd.DataFrame([row]))
    two, again = photos.paste(pictures, masks, background(seed=2), pd.DataFrame([row]))
    np.testing.assert_array_equal(covered, again)
    deep = covered.copy()
    for axis in (1, 2):
        for step in (-3, 3):
            deep &= np.roll(covered, step, axis)
    np.testing.assert_array_equal(one[deep], two[deep])
    far = np.ones_like(covered[0])
    x, y = (np.arange(80) + 0.5)[None] / 80, (np.arange(80) + 0.5)[:, None] / 80
    far &= np.hypot(x - row["x"], y - row["y"]) > 2.2 * scale + 0.06
    np.testing.assert_array_equal(one[0][far], background(seed=1)[0][far])


def test_no_rim_of_the_old_background():
    pictures, masks = square(colour=(40, 10, 10))
    dark = np.zeros((1, 80, 80, 3), np.uint8)
    images, _ = photos.paste(pictures, masks, dark, pd.DataFrame([ROW | {"turn": 0.3}]))
    assert images[..., 2].max() <= 14  # white would be 255, the square is 10


def test_each_row_stands_for_itself_and_inputs_stay_as_they_are():
    pictures, masks = square(3)
    behind = background(3)
    table = pd.DataFrame([ROW, ROW | {"scale": 0.1}, ROW | {"turn": 1.0}])
    kept = behind.copy()
    images, covered = photos.paste(pictures, masks, behind, table)
    np.testing.assert_array_equal(behind, kept)
    alone, mask = photos.paste(pictures[1:2], masks[1:2], behind[1:2], table.iloc[1:2])
    np.testing.assert_array_equal(alone[0], images[1])
    np.testing.assert_array_equal(mask[0], covered[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0.5, "turn": 0.5}, "the cut-out of row 0 is larger than its background"),
        ({"x": 0.1}, "too near to its border"),
        ({"scale": 0.8}, r"'scale' must be a number in \[0.01, 0.5\]"),
        ({"turn": np.nan}, "'turn' must be a number"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(BiaslibError, match=message):
        photos.paste(*square(), background(), pd.DataFrame([ROW | change]))


def test_parts_that_do_not_belong_together_are_refused():
    pictures, masks = square()
    table = pd.DataFrame([ROW])
    with pytest.raises(BiaslibError, match="mask of row 0 is empty"):
        photos.paste(pictures, np.zeros_like(masks), background(), table)
    with pytest.raises(BiaslibError, match=r"masks must be bool of shape \(1, 40, 40\)"):
        photos.paste(pictures, masks[:, :20], background(), table)
    with pytest.raises(BiaslibError, match="1 cut-outs, 2 backgrounds and 1 rows"):
        photos.paste(pictures, masks, background(2), table)
    with pytest.raises(BiaslibError, match="these are 60 x 80"):
        photos.paste(pictures, masks, background()[:, :60], table)
