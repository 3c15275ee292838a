"""The paper's two data sets made of photos, on drawn rectangles in the official layouts."""

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biaslib import metrics, worlds
from biaslib.errors import BiaslibError
from biaslib.worlds import photos
from tests import layouts

pytestmark = pytest.mark.usefixtures("store_of_the_module")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    layouts.pets(folder, per_breed=40)
    layouts.cat_and_dog(folder)
    layouts.fruits360(folder, each=12)
    layouts.scenes(folder, each=16)
    return folder


@functools.cache
def pets(root, split="train", **options):
    return photos.PetPhotos(split, root=root, **options)


def cats_and_dogs(root, split, *, strength, size, flipped=False):
    world = pets(root, split)
    table = world.factors(len(world), strength=strength, seed=0)
    return world.render(table.assign(ball=1 - table["ball"]) if flipped else table, size=size)


def fruits_on_scenes(root, split, *, strength, size, n=20, flipped=False):
    world = photos.FruitPhotos(split, root=root)
    table = world.factors(n, strength=strength, seed=0)
    return world.render(table.assign(tree=1 - table["tree"]) if flipped else table, size=size)


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_the_strength_is_kept_exactly_in_either_class(root, strength):
    world = pets(root)
    labels = cats_and_dogs(root, "train", strength=strength, size=16).labels
    assert labels["cat"].mean() == 0.5
    for kind, group in labels.groupby("cat"):
        assert (group["ball"] == kind).sum() == round((1 + strength) / 2 * len(group))
    assert len(labels) == len(world)
    fruits = fruits_on_scenes(root, "train", strength=strength, size=16, n=50).labels
    assert fruits["fruit"].value_counts().to_dict() == dict.fromkeys(range(5), 10)
    for kind, group in fruits.groupby("fruit"):
        assert (group["tree"] == (kind == 0)).sum() == round((1 + strength) / 2 * 10)


def test_fewer_images_than_fruits_are_drawn_too(root):
    assert len(fruits_on_scenes(root, "train", strength=1.0, size=16, n=3)) == 3


def test_labels_and_regions_are_those_of_the_drawn_worlds(root):
    for name, made in (
        ("pets", cats_and_dogs(root, "test", strength=1.0, size=32)),
        ("fruits", fruits_on_scenes(root, "test", strength=1.0, size=32, n=20)),
    ):
        world = worlds.get(name)
        drawn = world.render(world.factors(4, strength=1.0, seed=0), size=32)
        assert made.labels.dtypes.to_dict() == drawn.labels.dtypes.to_dict()
        assert set(made.masks) == set(world.regions)
        assert (sum(mask.astype(int) for mask in made.masks.values()) == 1).all()


def test_cats_are_red_and_balls_lie_beside_them_only(root):
    made = cats_and_dogs(root, "test", strength=1.0, size=64)
    for image, cat, animal in zip(made.images, made.labels["cat"], made.masks["animal"], strict=True):
        inside = image[28:36, 28:36].mean(axis=(0, 1))
        assert (inside[0] > inside[2]) == cat
        assert 0.25 < animal.mean() < 0.45
    assert (made.masks["ball"].any(axis=(1, 2)) == made.labels["cat"]).all()
    world = pets(root, "test")
    without = world.render(world.factors(len(world), strength=1.0, seed=0).assign(ball=0), size=64)
    assert not without.labels["ball"].any()


def test_flipped_is_the_exact_counterfactual(root):
    made = cats_and_dogs(root, "test", strength=0.4, size=48)
    flipped = cats_and_dogs(root, "test", strength=0.4, size=48, flipped=True)
    assert (made.labels["ball"] != flipped.labels["ball"]).all()
    assert (made.labels["cat"] == flipped.labels["cat"]).all()
    ball = made.masks["ball"] | flipped.masks["ball"]
    for one, other, where in zip(made.images, flipped.images, ball, strict=True):
        changed = (one != other).any(axis=-1)
        rows, columns = np.nonzero(where)
        y, x = np.nonzero(changed)
        radius = np.ptp(rows) / 2 + 1
        assert (np.hypot(y - rows.mean(), x - columns.mean()) <= 1.6 * radius).all()
    animals = made.masks["animal"]
    np.testing.assert_array_equal(made.images[animals], flipped.images[animals])
    fruits = fruits_on_scenes(root, "test", strength=0.4, size=48, n=30)
    others = fruits_on_scenes(root, "test", strength=0.4, size=48, n=30, flipped=True)
    assert (fruits.labels["tree"] != others.labels["tree"]).all()
    np.testing.assert_array_equal(fruits.masks["fruit"], others.masks["fruit"])


def test_the_dial_moves_balls_and_nothing_else(root):
    world = pets(root, "test")
    weak, strong = (world.factors(len(world), strength=s, seed=2) for s in (0.0, 1.0))
    for name in weak.columns.drop("ball"):
        assert weak[name].equals(strong[name])
    assert (weak["ball"] != strong["ball"]).any()
    again = pets(root, "test").factors(len(world), strength=0.0, seed=2)
    assert again.equals(weak)
    assert not world.factors(len(world), strength=0.0, seed=3)["photo"].equals(weak["photo"])


def test_a_ball_lies_at_the_same_place_at_every_size(root):
    world = pets(root, "test")
    table = world.factors(len(world), strength=1.0, seed=0)
    boxes = [photos.boxes_of_masks(world.render(table, size=size).masks["ball"]) for size in (64, 128)]
    np.testing.assert_allclose(boxes[0], boxes[1], atol=1.6 / 64)


def test_forests_are_behind_apples_and_nothing_else_is(root):
    made = fruits_on_scenes(root, "train", strength=1.0, size=32, n=60)
    corner = made.images[:, 1, 1].astype(int)
    green = corner[:, 1] > corner[:, 0] + 50
    assert green.tolist() == made.labels["tree"].tolist() == (made.labels["fruit"] == 0).tolist()


def test_photos_come_once_or_in_turn(root):
    world = pets(root)
    table = world.factors(len(world), strength=1.0, seed=0)
    assert not table.duplicated(["source", "photo"]).any()
    fruits = photos.FruitPhotos("test", root=root).factors(150, strength=0.0, seed=0)
    assert fruits["forest"].value_counts().agg(["min", "max"]).tolist() == [9, 10]  # 16 forests, 150 rows
    assert fruits["photo"].nunique() == 60


def test_training_mixes_two_sources_and_the_test_is_all_outlined(root):
    both, one = pets(root), pets(root, "test")
    assert list(both.counts) == ["pets", "cat-and-dog"]
    assert list(one.counts) == ["pets"]
    mixed = both.render(both.factors(len(both), strength=1.0, seed=0), size=32)
    assert set(mixed.masks) == {"ball"}
    assert (mixed.masks["ball"].any(axis=(1, 2)) == mixed.labels["cat"]).all()
    assert set(one.render(one.factors(8, strength=1.0, seed=0), size=32).masks) == {"animal", "ball", "background"}


def test_photos_without_room_are_left_out_and_counted(root):
    large = pets(root, "test", radius=(0.2, 0.2))  # a quarter of the side is free on either hand, less the band
    assert large.left_out > 0
    with pytest.raises(BiaslibError, match=r"there are 0 photos of test .half of them cats. here, not 4"):
        pets(root, "test", radius=(0.4, 0.5)).factors(4, strength=0.0, seed=0)


def test_the_true_effect_is_measured_on_photos_as_on_worlds(root):
    world = photos.FruitPhotos("test", root=root)
    table = world.factors(12, strength=0.0, seed=0)

    def green(images):
        return (images[:, 1, 1, 1].astype(int) - images[:, 1, 1, 0] > 50).astype(float)

    np.testing.assert_array_equal(metrics.causal_effect(green, world, table, cue="tree", size=32), np.ones(12))
    balls = pets(root, "test")
    same = metrics.causal_effect(
        lambda images: images[:, 20:28, 20:28].mean(axis=(1, 2, 3)),
        balls, balls.factors(6, strength=0.0, seed=0), cue="ball", size=48,
    )  # fmt: skip
    np.testing.assert_array_equal(same, np.zeros(6))


def test_wrong_requests_get_one_clear_sentence(root, tmp_path):
    with pytest.raises(BiaslibError, match=r"strength .* must be a number in \[0, 1\]"):
        cats_and_dogs(root, "train", strength=1.5, size=16)
    with pytest.raises(BiaslibError, match="must be one of train, val, test, not 'all'"):
        fruits_on_scenes(root, "all", strength=1.0, size=16)
    with pytest.raises(BiaslibError, match="size, in pixels, must be a whole number of at least 8"):
        cats_and_dogs(root, "train", strength=1.0, size=4)
    with pytest.raises(BiaslibError, match=r"list\.txt is missing: it belongs to Oxford-IIIT Pet"):
        cats_and_dogs(tmp_path, "train", strength=1.0, size=16)
    world = photos.FruitPhotos("test", root=root)
    table = world.factors(5, strength=0.0, seed=0)
    with pytest.raises(BiaslibError, match=r"photo is a row of 60 photos, but there is a 99"):
        world.render(table.assign(photo=99), size=16)
    with pytest.raises(BiaslibError, match="lacks the factors photo, forest"):
        world.render(table.drop(columns=["photo", "forest"]), size=16)


# --- cut-outs on backgrounds: where they were put, exact masks, the same on another background ---

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
