"""The paper's two data sets made of photos, on drawn rectangles in the official layouts."""

import numpy as np
import pytest

from biaslib import metrics, worlds
from biaslib.errors import BiaslibError
from biaslib.worlds import photos
from tests import layouts


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    layouts.pets(folder, per_breed=40)
    layouts.cat_and_dog(folder)
    layouts.fruits360(folder, each=12)
    layouts.scenes(folder, each=16)
    return folder


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
    with pytest.raises(BiaslibError, match=r"strength must lie in \[0, 1\]"):
        cats_and_dogs(root, "train", strength=1.5, size=16)
    with pytest.raises(BiaslibError, match="splits train, val, test, not 'all'"):
        fruits_on_scenes(root, "all", strength=1.0, size=16)
    with pytest.raises(BiaslibError, match="size must be a whole number of at least 8"):
        cats_and_dogs(root, "train", strength=1.0, size=4)
    with pytest.raises(BiaslibError, match=r"list\.txt is missing: it belongs to Oxford-IIIT Pet"):
        cats_and_dogs(tmp_path, "train", strength=1.0, size=16)
    world = photos.FruitPhotos("test", root=root)
    table = world.factors(5, strength=0.0, seed=0)
    with pytest.raises(BiaslibError, match=r"photo is a row of 60 photos, but there is a 99"):
        world.render(table.assign(photo=99), size=16)
    with pytest.raises(BiaslibError, match="lacks the factors photo, forest"):
        world.render(table.drop(columns=["photo", "forest"]), size=16)
