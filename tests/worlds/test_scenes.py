import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage

from biaslib import worlds
from biaslib.errors import BiaslibError
from biaslib.worlds.scenes import ASSOCIATIONS, OBJECTS, Scenes, _layout

WORLD = Scenes(3)
NUISANCES = ("robot_size", "robot_seed", "layout_seed", "things_seed", "table_top", "table_tone", "table_seed", "light")
DIALS = {"strength": 0.9, "singles": 0.7, "pairs": 0.8, "triples": 0.6}
TABLE = WORLD.factors(24, strength=0.5, seed=7)


@functools.cache
def drawn(groups):
    return Scenes(groups).factors(60_000, seed=1, **DIALS)


@functools.cache
def original():
    return WORLD.render(TABLE)


def expected(association, maker, dial):
    """The formula, one pattern at a time, straight from its definition."""
    tau = dial * association.weight * association.sign * (1, -1, 0)[maker]
    table = {}
    for pattern in itertools.product((0, 1), repeat=len(association.objects)):
        chance, product = 1.0, 1.0
        for x, p in zip(pattern, association.rates, strict=True):
            chance *= p if x else 1 - p
            product *= (x - p) / max(p, 1 - p)
        table[pattern] = chance * (1 + tau * product)
    return table


def test_the_front_door_has_the_world_of_two_makers():
    world = worlds.get("scenes")
    assert isinstance(world, Scenes)
    assert (world.groups, world.target, world.cue) == (2, "maker", "mug")
    assert world.attributes == ("maker", *OBJECTS)
    assert len(set(OBJECTS)) == 15


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("association", ASSOCIATIONS, ids=lambda association: "-".join(association.objects))
def test_every_set_has_the_joint_table_of_the_formula(groups, association):
    table = drawn(groups)
    for maker in range(groups):
        rows = table[table.maker == maker]
        seen = rows.groupby(list(association.objects)).size() / len(rows)
        for pattern, chance in expected(
            association, maker, DIALS[association.dial] if association.dial else 0.0
        ).items():
            found = seen.get(pattern if len(pattern) > 1 else pattern[0], 0.0)
            error = np.sqrt(chance * (1 - chance) / len(rows))
            assert found == pytest.approx(chance, abs=4.5 * error + 1e-4), (maker, pattern)


@pytest.mark.parametrize("association", ASSOCIATIONS, ids=lambda association: "-".join(association.objects))
def test_in_the_formula_smaller_sets_are_independent_and_chances_are_chances(association):
    for maker in range(3):
        table = expected(association, maker, 1.0)
        assert sum(table.values()) == pytest.approx(1)
        assert min(table.values()) >= 0
        for size in range(1, len(association.objects)):
            for some in itertools.combinations(range(len(association.objects)), size):
                both = sum(chance for pattern, chance in table.items() if all(pattern[i] for i in some))
                assert both == pytest.approx(np.prod([association.rates[i] for i in some]))


@pytest.mark.parametrize("groups", [2, 3])
def test_sets_are_independent_of_each_other_given_the_maker(groups):
    table = drawn(groups)
    of = {name: i for i, association in enumerate(ASSOCIATIONS) for name in association.objects}
    for maker in range(groups):
        rows = table[table.maker == maker]
        correlation = rows[list(OBJECTS)].corr()
        for a, b in itertools.combinations(OBJECTS, 2):
            if of[a] != of[b]:
                assert abs(correlation.loc[a, b]) < 4.5 / np.sqrt(len(rows)), (maker, a, b)


@pytest.mark.parametrize("groups", [2, 3])
def test_frequencies_stay_whatever_the_dials(groups):
    table = drawn(groups)
    for association in ASSOCIATIONS:
        for name, rate in zip(association.objects, association.rates, strict=True):
            assert table[name].mean() == pytest.approx(rate, abs=0.01)
    assert 5 < table[list(OBJECTS)].sum(axis=1).mean() < 7


@pytest.mark.parametrize(("n", "groups", "counts"), [(101, 2, [51, 50]), (100, 3, [34, 33, 33])])
def test_makers_are_equally_frequent(n, groups, counts):
    table = Scenes(groups).factors(n, strength=0.3, seed=4)
    assert table.maker.value_counts().sort_index().tolist() == counts


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_the_cue_agrees_exactly_as_often_as_the_dial_says(strength):
    two, three = (Scenes(groups).factors(1200, strength=strength, seed=3) for groups in (2, 3))
    for table in (two, three):
        for maker in (0, 1):
            rows = table[table.maker == maker]
            assert (rows.mug == rows.maker).mean() == pytest.approx((1 + strength) / 2, abs=1e-9)
    assert three.mug[three.maker == 2].mean() == 0.5


@pytest.mark.parametrize("dial", ["strength", "singles", "pairs", "triples"])
def test_a_dial_changes_the_last_objects_of_its_sets_one_way_and_nothing_else(dial):
    world = Scenes(3)
    off = dict.fromkeys(DIALS, 0.0)
    last = {association.objects[-1] for association in ASSOCIATIONS if association.dial == dial}
    tables = [world.factors(900, seed=5, **(off | {dial: value})) for value in (0.0, 0.3, 0.6, 1.0)]
    for before, after in itertools.pairwise(tables):
        changed = {name for name in before if not before[name].equals(after[name])}
        assert changed <= last
    assert {name for name in tables[0] if not tables[0][name].equals(tables[-1][name])} == last
    for name in last:
        steps = np.stack([table[name] for table in tables]).astype(int)
        assert (np.abs(np.diff(steps, axis=0)).sum(axis=0) <= 1).all()


def test_the_other_dials_follow_the_strength_unless_told():
    table = WORLD.factors(50, strength=0.4, seed=2)
    assert table.equals(WORLD.factors(50, strength=0.4, seed=2, singles=0.4, pairs=0.4, triples=0.4))
    assert not table.equals(WORLD.factors(50, strength=0.4, seed=3))


def test_a_given_robot_size_changes_that_column_only():
    free, fixed = (WORLD.factors(50, strength=0.4, seed=2, robot_size=size) for size in (None, 0.3))
    assert free.drop(columns="robot_size").equals(fixed.drop(columns="robot_size"))
    assert (fixed.robot_size == np.float32(0.3)).all()
    assert free.robot_size.between(0.12, 0.5).all()


def test_nuisances_say_nothing_of_makers_or_objects():
    table = drawn(2)
    for name in NUISANCES:
        for attribute in WORLD.attributes:
            assert abs(np.corrcoef(table[name], table[attribute])[0, 1]) < 4.5 / np.sqrt(len(table)), (name, attribute)


def test_things_have_slots_of_their_own_inside_the_picture_and_beside_the_robot():
    sizes = np.full(300, 0.5, np.float32)
    places, robot = _layout(np.arange(300, dtype=np.uint32), sizes)
    apart = np.abs(places[:, :, None, :2] - places[:, None, :, :2]) + np.eye(15)[None, :, :, None]
    assert (apart > [0.14, 0.19]).any(axis=-1).all()
    assert places[..., :2].min() > 0.12
    assert places[..., :2].max() < 0.88
    beside = np.abs(places[..., :2] - np.stack([robot.x, robot.y], axis=-1)[:, None])
    assert (beside > [0.23, 0.3]).any(axis=-1).all()
    np.testing.assert_array_equal(_layout(np.arange(300, dtype=np.uint32), sizes / 4)[0], places)


@pytest.mark.parametrize("size", [32, 64, 150])
def test_a_mask_of_every_thing_that_is_there(size):
    table = TABLE.head(6)
    masks = WORLD.render(table, size=size).masks
    for name in OBJECTS:
        np.testing.assert_array_equal(masks[name].any(axis=(1, 2)), table[name] == 1)


def test_only_the_masks_that_are_asked_for():
    assert dict(WORLD.render(TABLE, regions=()).masks) == {}
    some = WORLD.render(TABLE, regions=("table", "mug"))
    assert tuple(some.masks) == ("table", "mug")
    np.testing.assert_array_equal(some.masks["mug"], original().masks["mug"])
    np.testing.assert_array_equal(some.images, original().images)


def around(mask, pixels=5):
    """The mask and what lies so near that a soft edge or a shadow reaches it."""
    return ndimage.binary_dilation(mask, np.ones((1, 3, 3), bool), iterations=pixels)


BASES = {"as drawn": TABLE, "crowded": TABLE.assign(**dict.fromkeys(OBJECTS, 1))}


@functools.cache
def drawn_as(base):
    return WORLD.render(BASES[base])


@functools.cache
def alone(name):
    """Where one thing is, with nothing before it."""
    table = TABLE.assign(**dict.fromkeys(OBJECTS, 0)).assign(**{name: 1}, robot_size=0.08)
    return WORLD.render(table, regions=(name,)).masks[name]


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("base", BASES)
def test_an_edited_object_changes_only_its_own_pixels_and_its_shadow(name, base):
    before, after = drawn_as(base), WORLD.render(BASES[base].assign(**{name: 1 - BASES[base][name]}))
    own = alone(name)
    changed = (before.images != after.images).any(axis=-1)
    assert not changed[~around(own)].any()
    assert changed[own & (before.masks[name] | after.masks[name])].mean() > 0.9
    for other in set(WORLD.regions) - {name}:
        # What another thing gains or loses is what this one covers.
        assert not ((before.masks[other] != after.masks[other]) & ~own).any()


@pytest.mark.parametrize("size", [0.12, 0.3, 0.5])
def test_another_maker_changes_only_the_robot(size):
    base = TABLE.assign(robot_size=size)
    pictures = [WORLD.render(base.assign(maker=maker)) for maker in range(3)]
    for before, after in itertools.combinations(pictures, 2):
        changed = (before.images != after.images).any(axis=-1)
        assert not changed[~around(before.masks["robot"] | after.masks["robot"])].any()
        assert changed.any(axis=(1, 2)).all()


def test_another_size_of_the_robot_moves_no_other_thing():
    small, large = (WORLD.render(TABLE.assign(robot_size=size)) for size in (0.15, 0.5))
    changed = (small.images != large.images).any(axis=-1)
    assert not changed[~around(small.masks["robot"] | large.masks["robot"])].any()
    ratio = large.masks["robot"].sum(axis=(1, 2)) / small.masks["robot"].sum(axis=(1, 2))
    assert ratio.mean() == pytest.approx((0.5 / 0.15) ** 2, rel=0.12)


@pytest.mark.parametrize("name", ["table_top", "table_tone", "table_seed", "light"])
def test_another_table_or_light_moves_nothing(name):
    high = {"table_top": 4, "table_seed": 2**32 - 1}.get(name, 1.0)
    after = WORLD.render(TABLE.assign(**{name: (high - TABLE[name].astype(float)).astype(TABLE[name].dtype)}))
    for region in WORLD.regions:
        np.testing.assert_array_equal(after.masks[region], original().masks[region])
    if name != "table_top":
        assert (after.images != original().images).any(axis=(1, 2, 3)).all()


def test_makers_hardly_differ_in_colour_and_robots_of_one_maker_do():
    base = WORLD.factors(90, strength=0.0, seed=2, robot_size=0.5)
    pictures = [WORLD.render(base.assign(maker=maker), regions=("robot",)) for maker in range(3)]
    means = np.array([[i[m].mean(axis=0) for i, m in zip(p.images, p.masks["robot"], strict=True)] for p in pictures])
    assert np.ptp(means.mean(axis=1), axis=0).max() < 0.4 * means.std(axis=1).min()


def test_things_are_large_enough_and_hardly_hidden():
    whole = WORLD.render(BASES["crowded"].assign(robot_size=0.08))
    for name in OBJECTS:
        area = alone(name).sum(axis=(1, 2))
        assert area.min() > 0.004 * 64**2, name
        assert (whole.masks[name].sum(axis=(1, 2)) / area).mean() > 0.7, name


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Scenes(4), "groups is the number of makers, 2 or 3, not 4"),
        (lambda: WORLD.factors(0, strength=0.5, seed=0), "n, the number of rows, must be"),
        (
            lambda: WORLD.factors(5, strength=0, seed=0, pairs=1.5),
            r"pairs, .* must be a number in \[0, 1\], not 1.5",
        ),
        (lambda: WORLD.factors(5, strength=0, seed=0, triples="all"), "triples, .* must be a number in .* not 'all'"),
        (lambda: WORLD.factors(5, strength=0, seed=0, robot_size=0.9), r"robot_size must be a number in \[0.08, 0.5\]"),
        (lambda: WORLD.render(TABLE, regions=("cup",)), "a region must be one of robot, mug, .* not 'cup'"),
        (lambda: WORLD.render(TABLE.drop(columns=["mug", "light"])), "lacks the factors mug, light"),
        (lambda: WORLD.render(TABLE.assign(book=2)), r"factor 'book' must be a whole number in \[0, 1\]"),
        (lambda: Scenes(2).render(TABLE.assign(maker=2)), r"factor 'maker' must be a whole number in \[0, 1\]"),
        (lambda: WORLD.render(TABLE.assign(table_top=5)), r"factor 'table_top' must be a whole number in \[0, 4\]"),
    ],
)
def test_wrong_input_is_named(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call()


def test_the_structure_can_be_shown_as_a_table():
    shown = pd.DataFrame(ASSOCIATIONS)
    assert list(shown.columns) == ["objects", "rates", "dial", "weight", "sign"]
    assert [len(objects) for objects in shown["objects"]] == [1, 1, 1, 1, 1, 2, 2, 3, 1, 1, 1]
