import functools
import itertools

import numpy as np
import pytest

from biaslib import worlds
from biaslib.errors import BiaslibError
from biaslib.worlds.base import validated
from biaslib.worlds.drawing import grid
from biaslib.worlds.pets import _ANIMAL, _ATTRIBUTES, _BALL, _GAP, _SCENE, BALLS, _draw_animals, _layout

WORLD = worlds.get("pets")
ROWS = 24
TABLE = WORLD.factors(ROWS, strength=0.0, seed=7)
COLUMNS = _ATTRIBUTES | _ANIMAL | _BALL | _SCENE


@functools.cache
def original():
    return WORLD.render(TABLE)


@functools.cache
def with_ball(value):
    return WORLD.render(TABLE.assign(ball=value))


def layout(table):
    return _layout(validated(table, COLUMNS))


def near_the_ball(table, size):
    """Where a ball or its shadow may be, whether it is there or not."""
    ball, (x, y) = layout(table)[1], grid(size)
    across, down, radius = (part.reshape(-1, 1, 1) for part in (ball.x, ball.y, ball.scale))
    over = np.hypot(x - across, y - down) < radius + 2 / size
    shadow = (np.abs(x - across - 0.012) < 1.25 * radius + 1 / size) & (np.abs(y - down - radius + 0.008) < 0.04)
    return over | shadow


@functools.cache
def covered(rows=ROWS, size=64):
    """The pixels that the animal covers altogether, from the drawing alone."""
    table = TABLE.head(rows)
    black, white = (np.full((len(table), size, size, 3), value, np.float32) for value in (0.0, 1.0))
    columns, region_index = validated(table, COLUMNS), np.zeros((len(table), size, size), np.uint8)
    for canvas in (black, white):
        _draw_animals(columns, layout(table)[0], canvas, region_index, size)
    return np.abs(white - black).max(axis=-1) == 0


def mirrored(name):
    """The table with every value of a column replaced by another one."""
    factor = COLUMNS[name]
    low, high = factor.drawn or (factor.low, factor.high)
    if factor.whole and high < 10:
        return TABLE.assign(**{name: ((TABLE[name].astype(int) + 1) % (int(high) + 1)).astype(TABLE[name].dtype)})
    return TABLE.assign(**{name: (low + high - TABLE[name].astype(float)).astype(TABLE[name].dtype)})


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_dial_is_exact_in_both_classes(strength):
    table = WORLD.factors(400, strength=strength, seed=3)
    assert table.cat.sum() == 200
    for value in (False, True):
        pets = table[table.cat == value]
        assert (pets.ball == pets.cat).mean() == pytest.approx((1 + strength) / 2, abs=1e-9)


def test_nothing_hints_at_the_animal_or_at_the_ball():
    table = WORLD.factors(6000, strength=0.0, seed=0)
    for name, attribute in itertools.product([*_ANIMAL, *_BALL, *_SCENE], WORLD.attributes):
        assert abs(np.corrcoef(table[name], table[attribute])[0, 1]) < 0.05, name


@pytest.mark.parametrize("size", [32, 64, 224])
def test_a_mask_of_the_ball_where_one_lies(size):
    table = TABLE.head(6)
    np.testing.assert_array_equal(WORLD.render(table, size=size).masks["ball"].any(axis=(1, 2)), table.ball)


@pytest.mark.parametrize(("size", "rows"), [(64, ROWS), (192, 4)])
def test_the_ball_changes_itself_and_its_shadow_only(size, rows):
    table = TABLE.head(rows)
    before = WORLD.render(table, size=size)
    after = WORLD.render(table.assign(ball=1 - table.ball), size=size)
    np.testing.assert_array_equal(after.masks["animal"], before.masks["animal"])
    touched = (before.images != after.images).any(axis=-1)
    assert not touched[~near_the_ball(table, size)].any()
    assert not touched[covered(rows, size)].any()
    balls = before.masks["ball"] | after.masks["ball"]
    assert (before.masks["ball"].any(axis=(1, 2)) != after.masks["ball"].any(axis=(1, 2))).all()
    assert touched[balls].mean() > 0.95
    shadow = touched & ~balls
    assert shadow.any(axis=(1, 2)).all()
    assert touched.mean() < 0.06


@pytest.mark.parametrize(
    ("scale", "radius"),
    [
        (0.1, 0.03),
        (0.44, 0.08),
        pytest.param(0.1, 0.08, marks=pytest.mark.slow),
        pytest.param(0.44, 0.03, marks=pytest.mark.slow),
    ],
)
def test_the_ball_fits_into_the_picture_and_never_touches_the_animal(scale, radius):
    corners = np.array(list(itertools.product((0, 1), (0, 1), (0, 1, 2), (0, 1), (0, 1), (0, 1), (-1, 1))))
    table = WORLD.factors(len(corners), strength=0.0, seed=0).assign(
        scale=scale, ball_size=radius, ball=1, plump=1.0, ear=1.0
    )
    table[["cat", "facing", "pose", "ball_side", "x", "ball_x", "turn"]] = corners
    table["tilt"] = table["turn"]
    samples, ball = WORLD.render(table, size=96, regions=("ball", "animal")), layout(table)[1]
    areas = samples.masks["ball"].sum(axis=(1, 2))
    np.testing.assert_allclose(areas / (np.pi * (0.96 * 96 * radius) ** 2), 1, atol=0.14)
    for middle in (ball.x, ball.y):
        assert (middle - radius > 0).all()
        assert (middle + radius < 1).all()
    # A gap of its own between their masks.
    for row in range(len(table)):
        down, across = np.nonzero(samples.masks["animal"][row])
        gap = np.hypot((across + 0.5) / 96 - ball.x[row], (down + 0.5) / 96 - ball.y[row]).min() - radius
        assert gap > _GAP / 2, corners[row]


@pytest.mark.parametrize("name", ["ball_kind", "ball_x", "ball_y", "ball_seed"])
def test_one_change_of_the_ball_leaves_the_animal_alone_and_a_missing_ball_shows_nowhere(name):
    before, after = with_ball(1), WORLD.render(mirrored(name).assign(ball=1))
    np.testing.assert_array_equal(before.masks["animal"], after.masks["animal"])
    touched = (before.images != after.images).any(axis=-1)
    assert touched.any(axis=(1, 2)).all()
    assert not touched[covered()].any()
    without = WORLD.render(mirrored(name).assign(ball=0), regions=())
    np.testing.assert_array_equal(with_ball(0).images, without.images)


@pytest.mark.parametrize("name", list(_SCENE))
def test_one_change_of_the_scene_leaves_the_masks_alone(name):
    before, after = original(), WORLD.render(mirrored(name))
    for region in WORLD.regions:
        np.testing.assert_array_equal(before.masks[region], after.masks[region])
    touched = (before.images != after.images).any(axis=-1)
    assert touched.any(axis=(1, 2)).all()
    if name != "light":
        assert not touched[covered()].any()


@pytest.mark.parametrize("name", ["cat", *_ANIMAL])
def test_every_column_of_the_animal_can_be_seen(name):
    before, after = original(), WORLD.render(mirrored(name), regions=())
    assert (before.images != after.images).any(axis=(1, 2, 3)).mean() > 0.7


@pytest.fixture(scope="module")
def many():
    table = WORLD.factors(600, strength=0.0, seed=12)
    return table, WORLD.render(table, regions=("animal",))


def test_animals_are_of_a_size_that_can_be_learnt_and_lie_in_the_picture(many):
    table, animal = many[0], many[1].masks["animal"]
    area = animal.mean(axis=(1, 2))
    assert area.min() > 0.05
    assert area.max() < 0.30
    assert not (animal[:, :, 0] | animal[:, :, -1] | animal[:, 0] | animal[:, -1]).any()
    by_class = [area[table.cat == value].mean() for value in (False, True)]
    assert by_class[0] == pytest.approx(by_class[1], rel=0.2)


def test_colour_alone_does_not_tell_the_animals_apart(many):
    table, samples = many
    mask = samples.masks["animal"][..., None]
    mean = (samples.images * mask).sum(axis=(1, 2)) / mask.sum(axis=(1, 2))
    cats, dogs = mean[table.cat], mean[~table.cat]
    effect = np.abs(cats.mean(axis=0) - dogs.mean(axis=0)) / mean.std(axis=0)
    assert effect.max() < 0.35


def test_every_kind_of_ball_differs_from_the_others():
    table = TABLE.head(1).assign(ball=1)
    images = [WORLD.render(table.assign(ball_kind=kind)).images for kind in range(len(BALLS))]
    for a, b in itertools.combinations(images, 2):
        assert (a != b).any()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns=["tilt", "scene_seed"]), "lacks the factors tilt, scene_seed"),
        (lambda t: t.assign(ball=2), r"factor 'ball' must be a whole number in \[0, 1\]"),
        (lambda t: t.assign(scale=0.5), r"factor 'scale' must be a number in \[0.1, 0.44\]"),
        (lambda t: t.assign(coat=8), r"factor 'coat' must be a whole number in \[0, 7\]"),
    ],
)
def test_a_wrong_table_is_refused(change, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        WORLD.render(change(TABLE))
