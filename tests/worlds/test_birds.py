import functools

import numpy as np
import pytest

from biaslib import worlds
from biaslib.errors import BiaslibError
from biaslib.worlds.base import validated
from biaslib.worlds.birds import _ATTRIBUTES, _BIRD, _SCENE, _TYPICAL_PLUMAGE, _draw_birds
from biaslib.worlds.drawing import grid

WORLD = worlds.get("birds")
TABLE = WORLD.factors(24, strength=0.0, seed=7)


@functools.cache
def original():
    return WORLD.render(TABLE), cover(TABLE)


def cover(table, size=64):
    return _draw_birds(validated(table, _ATTRIBUTES | _BIRD | _SCENE), *grid(size))[1]


@pytest.mark.parametrize("bias", [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
def test_the_dial_is_exact_in_both_classes(bias):
    table = WORLD.factors(400, strength=2 * bias - 1, seed=3)
    assert table.waterbird.sum() == 200
    for value in (False, True):
        birds = table[table.waterbird == value]
        assert (birds.background == birds.waterbird).mean() == pytest.approx(bias, abs=1e-9)


def test_only_the_plumage_hints_at_the_bird_and_nothing_hints_at_the_background():
    table = WORLD.factors(6000, strength=0.0, seed=0)
    assert ((table.plumage >= 4) == table.waterbird).mean() == pytest.approx(_TYPICAL_PLUMAGE, abs=0.02)
    for name in [*_BIRD, *_SCENE]:
        assert abs(np.corrcoef(table[name], table.background)[0, 1]) < 0.04, name
        if name != "plumage":
            assert abs(np.corrcoef(table[name], table.waterbird)[0, 1]) < 0.04, name


@pytest.mark.parametrize("size", [32, 64, 224])
def test_the_bird_is_what_it_covers_by_more_than_half(size):
    table = TABLE.head(6)
    np.testing.assert_array_equal(WORLD.render(table, size=size).masks["bird"], cover(table, size) > 0.5)


def test_the_other_background_leaves_the_bird_and_its_mask_alone():
    before, covered = original()
    after = WORLD.render(TABLE.assign(background=1 - TABLE.background))
    np.testing.assert_array_equal(after.masks["bird"], before.masks["bird"])
    np.testing.assert_array_equal(after.images[covered == 1], before.images[covered == 1])
    assert (covered == 1).mean() > 0.05
    assert (after.images != before.images).any(axis=-1)[covered == 0].mean() > 0.95


@pytest.mark.parametrize("name", ["waterbird", *_BIRD])
def test_one_change_of_the_bird_changes_nothing_outside_it(name):
    factor = (_ATTRIBUTES | _BIRD)[name]
    low, high = factor.drawn or (factor.low, factor.high)
    changed = TABLE.assign(**{name: (low + high - TABLE[name].astype(float)).astype(TABLE[name].dtype)})
    (before, covered), after = original(), WORLD.render(changed)
    touched = (before.images != after.images).any(axis=-1)
    outside = (covered == 0) & (cover(changed) == 0)
    assert not touched[outside].any()
    assert touched.any(axis=(1, 2)).mean() > 0.9


@pytest.mark.parametrize("name", list(_SCENE))
def test_one_change_of_the_scene_leaves_the_bird_alone(name):
    changed = TABLE.assign(**{name: (_SCENE[name].high - TABLE[name].astype(float)).astype(TABLE[name].dtype)})
    (before, covered), after = original(), WORLD.render(changed)
    touched = (before.images != after.images).any(axis=-1)
    assert not touched[covered == 1].any()
    assert touched.any(axis=(1, 2)).all()


def test_birds_are_of_a_size_that_can_be_learnt_and_lie_in_the_picture():
    table = WORLD.factors(400, strength=0.0, seed=11)
    covered = cover(table)
    area = covered.mean(axis=(1, 2))
    assert area.min() > 0.04
    assert area.max() < 0.25
    border = covered.sum(axis=(1, 2)) - covered[:, 1:-1, 1:-1].sum(axis=(1, 2))
    assert (border / covered.sum(axis=(1, 2))).max() < 0.05
    by_class = [area[table.waterbird == value].mean() for value in (False, True)]
    assert by_class[0] == pytest.approx(by_class[1], rel=0.25)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns=["tilt", "scene_seed"]), "lacks the factors tilt, scene_seed"),
        (lambda t: t.assign(background=2), r"factor 'background' must be a whole number in \[0, 1\]"),
        (lambda t: t.assign(scale=0.0), r"factor 'scale' must be a number in \[0.1, 1\]"),
        (lambda t: t.assign(plumage=8), r"factor 'plumage' must be a whole number in \[0, 7\]"),
    ],
)
def test_a_wrong_table_is_refused(change, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        WORLD.render(change(TABLE))
