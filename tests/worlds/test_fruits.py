import functools
import itertools

import numpy as np
import pytest

from biaslib import worlds
from biaslib.errors import BiaslibError
from biaslib.worlds import backdrops
from biaslib.worlds.base import validated
from biaslib.worlds.drawing import grid
from biaslib.worlds.fruits import _ATTRIBUTES, _FRUIT, _FRUITS, _SCENE, APPLE, NAMES, _lay_fruits
from biaslib.worlds.sketch import Surface

WORLD = worlds.get("fruits")
TABLE = WORLD.factors(30, strength=0.0, seed=7)
COLUMNS = _ATTRIBUTES | _FRUIT | _SCENE


@functools.cache
def original():
    return WORLD.render(TABLE)


@functools.cache
def covered(size=64):
    """The pixels that the fruits cover altogether, from the drawing alone."""
    black, white = (np.full((len(TABLE), size, size, 3), value, np.float32) for value in (0.0, 1.0))
    region_index = np.zeros((len(TABLE), size, size), np.uint8)
    for canvas in (black, white):
        _lay_fruits(validated(TABLE, COLUMNS), canvas, region_index, size)
    return np.abs(white - black).max(axis=-1) == 0


def other(name):
    """The table with every value of a column replaced by another one."""
    factor = COLUMNS[name]
    low, high = factor.drawn or (factor.low, factor.high)
    if factor.whole and high < 10:
        moved = int(low) + (TABLE[name].astype(int) - int(low) + 1) % int(high - low + 1)
        return TABLE.assign(**{name: moved.astype(TABLE[name].dtype)})
    return TABLE.assign(**{name: (low + high - TABLE[name].astype(float)).astype(TABLE[name].dtype)})


def test_the_classes_are_those_of_the_paper():
    assert NAMES == ("apple", "banana", "corn", "peach", "pineapple") == tuple(_FRUITS)
    assert (WORLD.target, WORLD.cue, APPLE) == ("fruit", "tree", 0)


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_dial_is_exact_in_all_five_classes(strength):
    table = WORLD.factors(1000, strength=strength, seed=3)
    assert table.fruit.value_counts().to_dict() == dict.fromkeys(range(5), 200)
    for fruit in range(5):
        trees = table.tree[table.fruit == fruit]
        agrees = trees if fruit == APPLE else 1 - trees
        assert agrees.mean() == pytest.approx((1 + strength) / 2, abs=1e-9)


def test_full_bias_puts_apples_and_nothing_else_on_apple_trees():
    table = WORLD.factors(333, strength=1.0, seed=0)
    np.testing.assert_array_equal(table.tree == 1, table.fruit == APPLE)


def test_nothing_hints_at_the_fruit_or_at_the_tree():
    table = WORLD.factors(6000, strength=0.0, seed=0)
    for name in [*_FRUIT, *_SCENE]:
        assert abs(np.corrcoef(table[name], table.tree)[0, 1]) < 0.05, name
        for fruit in range(5):
            assert abs(np.corrcoef(table[name], table.fruit == fruit)[0, 1]) < 0.05, name


def test_the_mask_is_what_no_background_shines_through():
    mask = original().masks["fruit"]
    assert (covered() & ~mask).sum() == 0
    inside = mask[:, 1:-1, 1:-1] & mask[:, 2:, 1:-1] & mask[:, :-2, 1:-1] & mask[:, 1:-1, 2:] & mask[:, 1:-1, :-2]
    assert covered()[:, 1:-1, 1:-1][inside].mean() > 0.95


def test_tree_or_elsewhere_leaves_the_fruit_and_its_mask_alone():
    before, after = original(), WORLD.render(TABLE.assign(tree=1 - TABLE.tree))
    np.testing.assert_array_equal(after.masks["fruit"], before.masks["fruit"])
    np.testing.assert_array_equal(after.images[covered()], before.images[covered()])
    assert covered().mean() > 0.10
    assert (after.images != before.images).any(axis=-1)[before.masks["background"]].mean() > 0.95


@pytest.mark.parametrize("name", ["fruit", *_FRUIT])
def test_every_column_of_the_fruit_can_be_seen(name):
    before, after = original(), WORLD.render(other(name))
    assert (before.masks["fruit"] != after.masks["fruit"]).any(axis=(1, 2)).mean() > 0.8


@pytest.mark.parametrize("name", list(_SCENE))
def test_one_change_of_the_scene_leaves_the_fruit_alone(name):
    before, after = original(), WORLD.render(other(name))
    np.testing.assert_array_equal(before.masks["fruit"], after.masks["fruit"])
    touched = (before.images != after.images).any(axis=-1)
    if name != "light":
        assert not touched[covered()].any()
    there = TABLE.tree == 0 if name in ("backdrop", "dish") else TABLE.tree >= 0
    np.testing.assert_array_equal(touched.any(axis=(1, 2)), there)


def test_fruits_are_of_a_size_that_can_be_learnt_and_lie_in_the_picture():
    table = WORLD.factors(400, strength=0.0, seed=11)
    mask = WORLD.render(table).masks["fruit"]
    area = mask.mean(axis=(1, 2))
    assert area.min() > 0.04
    assert area.max() < 0.45
    border = mask.sum(axis=(1, 2)) - mask[:, 1:-1, 1:-1].sum(axis=(1, 2))
    assert (border / mask.sum(axis=(1, 2))).max() < 0.05
    by_class = [area[table.fruit == fruit].mean() for fruit in range(5)]
    assert max(by_class) < 2.2 * min(by_class)


def test_one_to_three_fruits_are_drawn():
    table = TABLE.head(10).assign(scale=0.1, turn=0.0, x=0.5, y=0.5, fruit=3)
    areas = [WORLD.render(table.assign(count=count)).masks["fruit"].sum(axis=(1, 2)) for count in (1, 2, 3)]
    for one, two, three in zip(*areas, strict=True):
        assert one < two < three


def test_leaves_of_a_layer_do_not_touch_each_other_and_cover_a_part_of_it():
    s = Surface({"scene_seed": np.arange(4)}, *grid(96))
    distance, along, _, number = backdrops._scatter(s, 3, 6.0, 0.25, (0.0, 6.28))
    inside = distance < 0
    assert 0.15 < inside.mean() < 0.45
    assert (np.abs(along[inside]) <= 1).all()
    # Next to each other inside leaves, pixels belong to the same leaf.
    pairs = inside[:, :, 1:] & inside[:, :, :-1]
    assert (number[:, :, 1:] == number[:, :, :-1])[pairs].all()


def test_every_background_differs_and_dishes_lie_on_it():
    half = np.full(3, 0.5, np.float32)
    s = Surface({"scene_seed": np.arange(3), "tone": half, "dish": np.arange(3), "x": half, "y": half}, *grid(48))
    drawn = [draw(s) for draw in (*backdrops.BACKDROPS, backdrops._apple_tree)]
    for a, b in itertools.combinations(drawn, 2):
        assert np.abs(a - b).mean() > 0.02
    canvas = drawn[0].copy()
    backdrops._lay_dish(canvas, s)
    changed = (canvas != drawn[0]).any(axis=1).mean(axis=(1, 2))
    assert changed[0] == 0
    assert (changed[1:] > 0.3).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns=["turn", "scene_seed"]), "lacks the factors turn, scene_seed"),
        (lambda t: t.assign(fruit=5), r"factor 'fruit' must be a whole number in \[0, 4\]"),
        (lambda t: t.assign(scale=0.0), r"factor 'scale' must be a number in \[0.05, 0.5\]"),
        (lambda t: t.assign(count=0), r"factor 'count' must be a whole number in \[1, 3\]"),
    ],
)
def test_a_wrong_table_is_refused(change, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        WORLD.render(change(TABLE))
