import functools
import itertools

import numpy as np
import pytest
from scipy.ndimage import binary_dilation
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef

from biaslib import worlds
from biaslib.errors import BiaslibError
from biaslib.worlds.faces import _LOOKS, _POSE, FACE_ATTRIBUTES, HAIR_COLOURS, STRENGTH, where_drawn

WORLD = worlds.get("faces")
TABLE = WORLD.factors(24, seed=7)
SIZE = 96
# What each attribute draws: it may change these regions, as they are before and after, and no others.
DRAWS = {
    "Clan": {"eyebrows", "eyes", "mouth"},
    "Arched_Eyebrows": {"eyebrows"},
    "Bangs": {"hair"},
    "Big_Lips": {"mouth"},
    "Big_Nose": {"nose"},
    "Black_Hair": {"hair"},
    "Blond_Hair": {"hair"},
    "Brown_Hair": {"hair"},
    "Bushy_Eyebrows": {"eyebrows"},
    "Eyeglasses": {"eyeglasses", "eyes", "eyebrows"},  # glass is clear: what is seen through it has its glare
    "Goatee": {"skin"},
    "Gray_Hair": {"hair"},
    "Mouth_Slightly_Open": {"mouth"},
    "Mustache": {"skin"},
    "Narrow_Eyes": {"eyes"},
    "Receding_Hairline": {"hair"},
    "Rosy_Cheeks": {"skin"},
    "Smiling": {"mouth"},
    "Wavy_Hair": {"hair"},
    "Wearing_Earrings": {"earrings"},
    "Wearing_Hat": {"hat"},
    "Wearing_Lipstick": {"mouth"},
    "Wearing_Necklace": {"necklace"},
    "Wearing_Necktie": {"cloth"},
    "eye_shadow": {"skin"},
}
# Parts that lie on the skin without a region of their own: where in the face they may be, (u0, u1, v0, v1).
PLACES = {
    "Goatee": (-0.24, 0.24, 0.48, 0.86),
    "Mustache": (-0.34, 0.34, 0.27, 0.50),
    "Rosy_Cheeks": (-0.60, 0.60, 0.02, 0.40),
    "eye_shadow": (-0.58, 0.58, -0.42, 0.10),
    "Wearing_Necktie": (-0.48, 0.48, 0.84, 2.0),
}
# How far its soft shadow, or a part that covers less than half of a pixel, lies from its mask, in pixels; else 2.
SHADOW = dict.fromkeys((*HAIR_COLOURS, "Bangs", "Receding_Hairline", "Wavy_Hair", "Wearing_Necklace"), 4)
SHADOW |= {"Clan": 3, "Smiling": 4, "Wearing_Hat": 5, "Wearing_Lipstick": 3}


def bare():
    """Faces on which every part can be seen."""
    table = WORLD.factors(10, seed=3)
    for name in WORLD.attributes:
        table[name] = False
    return table.assign(eye_shadow=0)


@functools.cache
def original():
    return WORLD.render(bare(), size=SIZE)


@functools.cache
def toggled(name):
    """Those faces with another value of one attribute."""
    table = bare()
    other = np.resize([1, 2], len(table)) if name == "eye_shadow" else ~table[name]
    return WORLD.render(table.assign(**{name: other}), size=SIZE)


@functools.cache
def usual(regions):
    return WORLD.render(TABLE, regions=regions)


def in_the_face(table, box):
    """Pixels inside a box of the face's own coordinates."""
    at = (np.arange(SIZE) + 0.5) / SIZE
    scale, roll = (np.asarray(v)[:, None, None] for v in (0.409 + 0.011 * table.zoom, 0.10 * table.roll))
    x, y = (np.asarray(v)[:, None, None] for v in (0.5 + 0.018 * table.x, 0.470 + 0.012 * table.y))
    dx, dy = (at[None, None, :] - x) / scale, (at[None, :, None] - y) / scale
    u, v = dx * np.cos(roll) + dy * np.sin(roll), dy * np.cos(roll) - dx * np.sin(roll)
    return (u > box[0]) & (u < box[1]) & (v > box[2]) & (v < box[3])


def grown(mask, pixels):
    return binary_dilation(mask, np.ones((1, 3, 3)), iterations=pixels)


def test_the_planted_correlations_and_rates_are_met():
    table = WORLD.factors(20_000, seed=1)
    for name, planted in FACE_ATTRIBUTES.items():
        assert matthews_corrcoef(table.Clan, table[name]) == pytest.approx(planted.mcc, abs=0.002), name
        assert table[name].mean() == pytest.approx(planted.rate, abs=0.001), name
        if name != "Eyeglasses":
            assert planted.mcc == -planted.celeba
    assert FACE_ATTRIBUTES["Eyeglasses"].mcc == 0
    assert table[list(HAIR_COLOURS)].sum(axis=1).max() == 1
    assert not table[~table.Clan].empty
    assert table.Mustache[table.Clan].sum() <= 2  # one way only


@pytest.mark.parametrize("strength", [0.0, 0.15, STRENGTH, 0.6, 1.0])
def test_the_dial_is_exact_for_the_cue_and_moves_all_the_others(strength):
    table = WORLD.factors(4000, strength=strength, seed=2)
    assert table.Wavy_Hair.mean() == 0.5
    for half in (table[table.Wavy_Hair], table[~table.Wavy_Hair]):
        assert (half.Clan == half.Wavy_Hair).mean() == pytest.approx((1 + strength) / 2, abs=1 / 4000)
    assert matthews_corrcoef(table.Wavy_Hair, table.Clan) == pytest.approx(strength, abs=0.001)
    for name, planted in FACE_ATTRIBUTES.items():
        value = matthews_corrcoef(table.Clan, table[name])
        reach = np.sqrt(min(planted.rate, 1 - planted.rate) / max(planted.rate, 1 - planted.rate))
        expected = np.clip(planted.mcc * strength / STRENGTH, -reach, reach)
        assert value == pytest.approx(expected, abs=0.005), name


def test_the_confounder_ties_blond_hair_to_the_clan_whatever_the_labels_and_can_be_removed():
    for strength in (0.0, 0.6):
        table = WORLD.factors(20_000, strength=strength, seed=4)
        shadow = table.eye_shadow > 0
        assert balanced_accuracy_score(table.Blond_Hair, shadow) > 0.95
        assert ((table.eye_shadow[shadow] == 2) == table.Clan[shadow]).mean() == pytest.approx(0.95, abs=0.01)
        free = WORLD.factors(20_000, strength=strength, seed=4, confounder=False)
        assert free.drop(columns="eye_shadow").equals(table.drop(columns="eye_shadow"))
        assert (free.eye_shadow > 0).mean() == pytest.approx(shadow.mean(), abs=0.02)
        for name in WORLD.attributes:
            assert abs(np.corrcoef(free.eye_shadow > 0, free[name])[0, 1]) < 0.025, name
            assert abs(np.corrcoef(free.eye_shadow == 2, free[name])[0, 1]) < 0.025, name


def test_skin_and_all_other_looks_are_independent_of_every_label():
    table = WORLD.factors(20_000, seed=5)
    for name, attribute in itertools.product([*_LOOKS], [*WORLD.attributes, "eye_shadow"]):
        assert abs(np.corrcoef(table[name], table[attribute])[0, 1]) < 0.03, (name, attribute)


def test_given_the_clan_attributes_are_independent():
    table = WORLD.factors(20_000, seed=6)
    for _, part in table.groupby("Clan"):
        for a, b in itertools.combinations([name for name in FACE_ATTRIBUTES if name not in HAIR_COLOURS], 2):
            if {a, b}.isdisjoint({"Mustache", "Goatee"}):
                assert abs(np.corrcoef(part[a], part[b])[0, 1]) < 0.045, (a, b)


def test_detail_takes_pose_away_and_makes_smiles_larger():
    plain, clear = (WORLD.factors(12, seed=8, detail=detail) for detail in (0.0, 1.0))
    for name in _POSE:
        np.testing.assert_allclose(clear[name], 0.2 * plain[name], rtol=1e-5, err_msg=name)
    smiling = plain.assign(Smiling=True, Mouth_Slightly_Open=True, Eyeglasses=True)
    masks = [WORLD.render(smiling.assign(detail=detail), size=SIZE).masks for detail in (0.0, 1.0)]
    for region in ("mouth", "eyeglasses"):
        small, large = (mask[region].sum() for mask in masks)
        assert large > 1.1 * small, region


@pytest.mark.parametrize("name", list(DRAWS))
def test_an_attribute_changes_what_it_draws_and_nothing_else(name):
    before, after = original(), toggled(name)
    touched = (before.images != after.images).any(axis=-1)
    assert touched.any(axis=(1, 2)).all()
    regions = DRAWS[name]
    allowed = np.zeros_like(touched)
    for region in regions:
        allowed |= before.masks[region] | after.masks[region]
    if name in PLACES:
        allowed &= in_the_face(bare(), PLACES[name])
    assert not touched[~grown(allowed, SHADOW.get(name, 2))].any()
    moved = np.zeros_like(touched)
    for region in WORLD.regions:
        moved |= before.masks[region] != after.masks[region]
    assert not moved[~grown(allowed, 1)].any()


@pytest.mark.parametrize("name", ["Eyeglasses", "Wearing_Hat", "Wearing_Earrings", "Wearing_Necklace"])
def test_a_thing_has_its_region_only_where_it_is_worn(name):
    (region,) = DRAWS[name] - {"eyes", "eyebrows"}
    assert not original().masks[region].any()
    assert toggled(name).masks[region].any(axis=(1, 2)).all()


def test_colours_and_make_up_leave_all_masks_as_they_are():
    for name in (*HAIR_COLOURS, "eye_shadow", "Rosy_Cheeks", "Wearing_Lipstick"):
        after = toggled(name)
        for region in WORLD.regions:
            np.testing.assert_array_equal(original().masks[region], after.masks[region], err_msg=name)


def test_glasses_lie_over_the_features_of_the_clan_but_hide_none():
    table = bare().assign(Eyeglasses=True)
    with_glasses, clan = WORLD.render(table, size=SIZE), WORLD.render(table.assign(Clan=True), size=SIZE)
    features = original().masks["eyes"]
    around = grown(with_glasses.masks["eyeglasses"], 8)
    assert around[features].mean() > 0.95
    assert (with_glasses.masks["eyes"] & features).sum() > 0.8 * features.sum()
    assert (with_glasses.images != clan.images).any(axis=(1, 2, 3)).all()


def test_hats_and_heads_lie_in_the_picture():
    corners = list(itertools.product((-1.0, 1.0), repeat=4))
    table = WORLD.factors(len(corners) * 6, seed=9).assign(Wearing_Hat=True)
    table[["x", "y", "zoom", "roll"]] = np.tile(corners, (6, 1))
    masks = WORLD.render(table, size=SIZE).masks
    head = masks["hat"] | masks["skin"] | masks["hair"]
    assert not head[:, 0].any()
    assert not (head[:, :, 0] | head[:, :, -1]).any()
    assert masks["background"][:, 0].mean() > 0.9


@pytest.mark.parametrize("name", ["skin", "undertone", "light", "scene_seed", "brow_tone", "eye_colour", "lip_tone"])
def test_colours_leave_the_masks_alone(name):
    column = TABLE[name]
    changed = TABLE.assign(**{name: 5 - column if name == "eye_colour" else np.roll(column, 1)})
    before, after = usual(None), WORLD.render(changed)
    assert (before.images != after.images).any()
    for region in WORLD.regions:
        np.testing.assert_array_equal(before.masks[region], after.masks[region])


@pytest.mark.parametrize("name", list(_LOOKS))
def test_every_column_can_be_seen(name):
    changed = TABLE.assign(**{name: np.roll(TABLE[name], 1)})
    differ = (usual(()).images != WORLD.render(changed, regions=()).images).any(axis=(1, 2, 3))
    assert differ.mean() > 0.4


def test_only_the_regions_that_are_asked_for():
    assert WORLD.render(TABLE.head(2), regions=()).masks == {}
    assert list(WORLD.render(TABLE.head(2), regions=("hair", "eyes")).masks) == ["hair", "eyes"]
    with pytest.raises(BiaslibError, match=r"a region must be one of skin, nose, .* not 'beard'"):
        WORLD.render(TABLE.head(2), regions=("beard",))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns=["Smiling", "gaze"]), "lacks the factors Smiling, gaze"),
        (lambda t: t.assign(Clan=2), r"factor 'Clan' must be a whole number in \[0, 1\]"),
        (lambda t: t.assign(eye_shadow=3), r"factor 'eye_shadow' must be a whole number in \[0, 2\]"),
        (lambda t: t.assign(skin=1.5), r"factor 'skin' must be a number in \[0, 1\]"),
    ],
)
def test_a_wrong_table_is_refused(change, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        WORLD.render(change(TABLE))


def test_a_wrong_detail_is_refused():
    with pytest.raises(BiaslibError, match=r"detail must be a number in \[0, 1\], not 2"):
        WORLD.factors(10, seed=0, detail=2)


SIX = WORLD.factors(6, seed=0)


def test_where_an_attribute_is_drawn_is_the_difference_of_two_pictures():
    found = where_drawn(SIX, ["Wearing_Hat", "Clan"], size=32)
    assert found.shape == (6, 2, 32, 32)
    for at, name in enumerate(("Wearing_Hat", "Clan")):
        images = [WORLD.render(SIX.assign(**{name: value}), size=32).images.astype(int) for value in (False, True)]
        np.testing.assert_allclose(found[:, at], abs(images[1] - images[0]).mean(-1) / 255, atol=1e-6)


def test_a_hat_is_above_a_mouth_and_the_value_that_is_drawn_does_not_matter():
    found = where_drawn(SIX, ["Wearing_Hat", "Wearing_Lipstick"], size=32)
    rows = (found.sum(3) * np.arange(32)).sum(2) / found.sum((2, 3))
    assert (rows[:, 0] < 12).all()
    assert (rows[:, 1] > 18).all()
    np.testing.assert_array_equal(where_drawn(SIX.assign(Wearing_Hat=True), ["Wearing_Hat"], size=32), found[:, :1])


def test_a_coarse_grid_holds_the_means_of_its_cells():
    fine, coarse = (where_drawn(SIX, ["Eyeglasses"], size=32, grid=grid) for grid in (None, 8))
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
        where_drawn(SIX, attributes, size=32, grid=grid)
