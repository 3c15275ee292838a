"""The pointing game beside quantus', and what is undefined."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from biaslib.store.files import module_of

POINTING = module_of(Path(__file__).parents[2] / "data" / "submissions" / "biaslib" / "pointing.py")
SIZE = 16


@pytest.fixture
def theirs():
    import quantus

    game = quantus.PointingGame(disable_warnings=True)
    return lambda maps, masks: game.evaluate_batch(a_batch=maps[:, None], s_batch=masks[:, None])


def drawn(n=200):
    rng = np.random.default_rng(0)
    masks = np.zeros((n, SIZE, SIZE), bool)
    for mask, (y, x) in zip(masks, rng.integers(0, SIZE - 4, (n, 2)), strict=True):
        mask[y : y + 6, x : x + 5] = True
    return rng.random((n, SIZE, SIZE), np.float32), masks


@pytest.mark.filterwarnings("ignore")  # of quantus' own import
def test_equals_quantus_without_tolerance_where_there_is_one_maximum(theirs):
    maps, masks = drawn()
    hits = POINTING.hits(maps, masks, 0)
    np.testing.assert_array_equal(hits, theirs(maps, masks))
    assert 0 < hits.mean() < 0.5


@pytest.mark.parametrize("tolerance", [1, 2, 5])
def test_a_hit_is_at_most_the_tolerance_away(tolerance):
    maps, masks = drawn()
    for value, map_, mask in zip(POINTING.hits(maps, masks, tolerance), maps, masks, strict=True):
        y, x = np.unravel_index(map_.argmax(), map_.shape)
        distances = [np.hypot(y - down, x - right) for down, right in np.argwhere(mask)]
        assert value == (min(distances) <= tolerance)


@pytest.mark.filterwarnings("ignore")  # of quantus' own import
def test_what_points_nowhere_and_an_empty_mask_are_undefined_and_hits_to_quantus(theirs):
    maps, masks = drawn(3)
    maps[0], masks[1], maps[2] = 0, False, np.where(masks[2], 0.9, maps[2] / 2)
    np.testing.assert_array_equal(POINTING.hits(maps, masks, 0), [np.nan, np.nan, 1])
    np.testing.assert_array_equal(theirs(maps, masks), [True, True, True])
    maps[2] = np.nan
    assert np.isnan(POINTING.hits(maps, masks, 0)[2])


@pytest.mark.filterwarnings("ignore")  # of quantus' own import
def test_of_several_maxima_the_share_counts_that_hits_and_to_quantus_one_is_enough(theirs):
    maps, masks = np.zeros((1, SIZE, SIZE), np.float32), np.zeros((1, SIZE, SIZE), bool)
    maps[0, [2, 2, 9, 12], [3, 12, 9, 1]], masks[0, :4, :5] = 1, True
    assert POINTING.hits(maps, masks, 0)[0] == 0.25
    assert theirs(maps, masks)[0] == 1


@pytest.mark.parametrize(("size", "tolerance"), [(64, 2), (28, 1), (128, 4)])
def test_the_metric_enlarges_the_map_and_scales_the_tolerance(size, tolerance):
    maps, masks = np.zeros((3, 4, 4), np.float16), np.zeros((3, size, size), bool)
    maps[:, 1, 1], maps[:, 1, 2], maps[:, 2, 1] = 1, 0.5, 0.5
    middle = int(3 * size / 8)  # of that cell, towards the larger neighbours
    for number, gap in enumerate((0, tolerance, tolerance + 1)):
        masks[number, middle - gap, middle] = True
    asked = []
    case = SimpleNamespace(map=maps, mask=lambda part: asked.append(part) or masks)
    np.testing.assert_array_equal(POINTING.pointing(case), [1, 1, 0])
    assert asked == ["cue"]
