"""What every generated world promises; what is a world's own is tested beside it."""

import functools

import numpy as np
import pytest

from biaslib import worlds
from biaslib.errors import BiaslibError
from biaslib.worlds import backdrops, fruits, pets, rooms, scenes

ROWS = 24
# Labels that are classes or kinds; the other ones are true or false. A world that is not here may have either.
NUMBERS = {
    "birds": {"background"}, "digits": set(), "scenes": {"maker"}, "pets": set(), "fruits": {"fruit"}, "faces": set(),
}  # fmt: skip
# How far a large picture, made small, may be from the small one: at most, in grey levels; on average, as a share of the
# difference to another picture; and by how much the area of the first region may differ (a robot may be tiny).
ALIKE = {"scenes": (10, 0.25, 0.16), "pets": (8, 0.2, 0.07), "fruits": (10, 0.2, 0.05)}
USUALLY_ALIKE = (8, 0.2, 0.05)
# What follows the target besides labels.
FOLLOWS = {"faces": {"eye_shadow"}}


@pytest.fixture(params=worlds.names())
def world(request):
    return worlds.get(request.param)


@functools.cache
def table(name):
    drawn = worlds.get(name).factors(ROWS, strength=0.0, seed=7)
    if name == "digits":  # its scans are blurred only on request
        drawn = drawn.assign(blur=np.resize(np.float32([0, 2, 5]), ROWS))
    return drawn


def test_the_front_door_knows_its_worlds(world):
    assert worlds.get(world.name) is world
    assert {world.target, world.cue} <= set(world.attributes)
    with pytest.raises(BiaslibError, match=f"a world must be one of {', '.join(worlds.names())}, not 'bats'"):
        worlds.get("bats")


def test_a_table_may_hold_every_kind_that_is_drawn_and_no_other():
    kinds = [
        (pets._BALL["ball_kind"], rooms.BALLS), (fruits._SCENE["backdrop"], backdrops.BACKDROPS),
        (fruits._ATTRIBUTES["fruit"], fruits.NAMES), (scenes._NUISANCES["table_top"], backdrops.TABLE_TOPS),
    ]  # fmt: skip
    assert [(factor.low, factor.high) for factor, _ in kinds] == [(0, len(drawn) - 1) for _, drawn in kinds]


def test_seeds_repeat_and_differ(world):
    assert world.factors(50, strength=0.3, seed=1).equals(world.factors(50, strength=0.3, seed=1))
    assert not world.factors(50, strength=0.3, seed=1).equals(world.factors(50, strength=0.3, seed=2))


def test_another_strength_gives_the_same_pictures_but_for_what_is_tied_to_the_target(world):
    weak, strong = (world.factors(301, strength=s, seed=5) for s in (0.2, 0.8))
    changed = {name for name in weak if not weak[name].equals(strong[name])}
    assert world.cue in changed
    assert changed <= (set(world.attributes) | FOLLOWS.get(world.name, set())) - {world.target}
    assert 0 < (weak[world.cue] != strong[world.cue]).sum() < 301


@pytest.mark.parametrize("size", [32, 64, 224])
def test_shapes_labels_and_masks_that_divide_the_picture(world, size):
    rows = table(world.name).head(6)
    samples = world.render(rows, size=size)
    assert samples.images.shape == (6, size, size, 3)
    assert tuple(samples.labels) == world.attributes
    for name, values in samples.labels.items():
        assert values.dtype in (bool, np.int8), name
        assert world.name not in NUMBERS or (values.dtype == np.int8) == (name in NUMBERS[world.name]), name
        np.testing.assert_array_equal(values.astype(int), rows[name].astype(int), err_msg=name)
    assert tuple(samples.masks) == world.regions
    np.testing.assert_array_equal(sum(mask.astype(int) for mask in samples.masks.values()), 1)
    assert samples.masks[world.regions[0]].any(axis=(1, 2)).all()


def test_only_the_chosen_masks_are_made_and_they_change_no_pixel(world):
    rows, whole = table(world.name).head(4), world.render(table(world.name).head(4))
    without = world.render(rows, regions=())
    assert without.masks == {}
    np.testing.assert_array_equal(without.images, whole.images)
    last, first = world.regions[-1], world.regions[0]
    chosen = world.render(rows, regions=(last, first)).masks
    assert list(chosen) == [last, first]
    for region, mask in chosen.items():
        np.testing.assert_array_equal(mask, whole.masks[region])
    with pytest.raises(BiaslibError, match=f"a region must be one of {first}, .* not 'sky'"):
        world.render(rows, regions=("sky",))


def test_an_empty_table_gives_no_pictures(world):
    assert len(world.render(table(world.name).head(0))) == 0


def test_every_size_shows_the_same_composition(world):
    worst, share, area = ALIKE.get(world.name, USUALLY_ALIKE)
    small, large = world.render(table(world.name), size=64), world.render(table(world.name), size=192)
    reduced = large.images.reshape(ROWS, 64, 3, 64, 3, 3).mean(axis=(2, 4))
    difference = np.abs(reduced - small.images).mean(axis=(1, 2, 3))
    unrelated = np.abs(np.roll(reduced, 1, axis=0) - small.images).mean(axis=(1, 2, 3))
    assert difference.max() < worst
    assert difference.mean() < share * unrelated.mean()
    areas = [samples.masks[world.regions[0]].mean(axis=(1, 2)) for samples in (small, large)]
    np.testing.assert_allclose(*areas, rtol=area)


def test_a_row_gives_the_same_pixels_in_whatever_table_it_stands(world):
    size, rows = 160, table(world.name).head(13)  # three chunks
    whole = world.render(rows, size=size)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = world.render(rows.iloc[order], size=size)
    np.testing.assert_array_equal(shuffled.images, whole.images[order])
    for region in world.regions:
        np.testing.assert_array_equal(shuffled.masks[region], whole.masks[region][order])
    for row in (0, 7, 12):
        alone = world.render(rows.iloc[[row]], size=size)
        np.testing.assert_array_equal(alone.images[0], whole.images[row])
        for region in world.regions:
            np.testing.assert_array_equal(alone.masks[region][0], whole.masks[region][row])


def test_a_wrong_size_or_strength_is_refused(world):
    for size in (4, 64.0):
        with pytest.raises(BiaslibError, match=f"size, in pixels, must be a whole number of at least 8, not {size}"):
            world.render(table(world.name), size=size)
    with pytest.raises(BiaslibError, match=r"strength .* must be a number in \[0, 1\]"):
        world.factors(10, strength=2, seed=0)
