"""Cut-outs on scenes, on drawn rectangles in the official layouts; Waterbirds as it is written is as it is read."""

import numpy as np
import pandas as pd
import pytest

from biaslib import datasets, metrics
from biaslib.errors import BiaslibError
from biaslib.worlds import photos
from tests import layouts


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("composites")
    layouts.pets(folder, per_breed=30)
    layouts.scenes(folder, each=16)
    layouts.cub(folder, per_species=12)
    layouts.places365(folder)
    return folder


@pytest.fixture(params=[photos.BirdPhotos, photos.PetsOnScenes])
def kind(request):
    return request.param


def test_the_other_scene_changes_every_pixel_but_those_of_the_cut_out(root, kind):
    world = kind("test", root=root)
    table = world.factors(24, strength=0.3, seed=1)
    here, there = (world.render(rows, size=40) for rows in (table, table.assign(background=1 - table["background"])))
    assert (here.labels["background"] != there.labels["background"]).all()
    assert here.labels[world.target].equals(there.labels[world.target])
    thing = here.masks[world.regions[0]]
    assert thing.any(axis=(1, 2)).all()
    np.testing.assert_array_equal(thing, there.masks[world.regions[0]])
    np.testing.assert_array_equal((here.images != there.images).any(axis=-1), ~thing)


def test_the_cut_out_is_that_of_its_photo_and_all_around_it_is_one_scene(root):
    world = photos.BirdPhotos("test", root=root)
    table = world.factors(8, strength=0.0, seed=0)
    made, whole = world.render(table, size=32), datasets.load("cub", "test", size=32, root=root)
    scenes = datasets.load("places365", "test", size=32, root=root).images
    for row, image, bird, is_water in zip(
        table.itertuples(), made.images, made.masks["bird"], made.labels["background"], strict=True
    ):
        np.testing.assert_array_equal(image[bird], whole.images[row.photo][bird])
        np.testing.assert_array_equal(image[~bird], scenes[row.water if is_water else row.land][~bird])
        ground = image[~bird].mean(axis=0)
        assert (ground[2] > ground[1]) == is_water  # water is blue, land is green


def test_the_dial_ties_the_scene_to_the_class(root, kind):
    world = kind("train", root=root)
    for strength, share in ((0.0, 0.5), (0.6, 0.8), (1.0, 1.0)):
        labels = world.render(world.factors(40, strength=strength, seed=0), size=8, regions=()).labels
        assert labels[world.target].mean() == 0.5
        usual = labels["background"] == labels[world.target]
        assert usual.groupby(labels[world.target]).mean().eq(share).all()


def test_the_true_effect_of_a_scene_on_photographs_is_exact(root, kind):
    world = kind("test", root=root)
    table = world.factors(12, strength=0.0, seed=0)

    def of_the_thing(images):
        return images[:, 16:24, 16:24].mean(axis=(1, 2, 3))

    def of_the_ground(images):
        return (images[:, 0, 0, 1].astype(int) - images[:, 0, 0, 0] < 50).astype(float)  # not green

    for predict, effect in ((of_the_thing, 0.0), (of_the_ground, 1.0)):
        measured = metrics.causal_effect(predict, world, table, cue="background", size=40)
        np.testing.assert_array_equal(measured, np.full(12, effect))


def test_no_bird_and_no_place_is_in_two_splits(root):
    worlds = [photos.BirdPhotos(split, root=root) for split in ("train", "val", "test")]
    tables = [world.files(world.every_photo(strength=0.0, seed=0)) for world in worlds]
    together = pd.concat(tables)
    assert sorted(together["img_id"]) == list(range(1, 49))
    for column in ("img_filename", "place_filename"):
        assert together[column].nunique() == sum(table[column].nunique() for table in tables)
    assert len(tables[2]) == 24


def test_what_is_written_is_read_as_waterbirds(root):
    folder = photos.write_waterbirds(80, root=root, size=48)
    assert folder == root / "waterbird_complete80_forest2water2"
    table = pd.read_csv(folder / "metadata.csv")
    assert table.columns.tolist() == ["img_id", "img_filename", "y", "split", "place", "place_filename"]
    assert table["img_id"].tolist() == list(range(1, 49))
    assert table["y"].tolist() == [1] * 24 + [0] * 24  # albatross and grebe, blackbird and sparrow
    assert (table["place_filename"].str.match(r"/(o/ocean|l/lake/natural)/") == (table["place"] == 1)).all()
    usual = (table["y"] == table["place"]).groupby([table["split"], table["y"]]).agg(["sum", "count"])
    train = usual.loc[0]
    assert train["sum"].tolist() == (0.8 * train["count"]).round().tolist()
    assert (usual.loc[2, "sum"] == usual.loc[2, "count"] / 2).all()

    read = datasets.load("waterbirds-80", "test", size=48, root=root)
    world = photos.BirdPhotos("test", root=root)
    made = world.render(world.every_photo(strength=0.0, seed=0), size=48)
    pd.testing.assert_frame_equal(read.labels, made.labels)
    np.testing.assert_array_equal(read.masks["bird"], made.masks["bird"])
    assert np.abs(read.images.astype(int) - made.images).mean() < 4  # what JPEG loses
    with pytest.raises(BiaslibError, match="forest2water2 is there already: remove it"):
        photos.write_waterbirds(80, root=root)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    layouts.cub(tmp_path, per_species=8)
    layouts.places365(tmp_path, each=8)
    broken = next((tmp_path / "CUB_200_2011/images").glob("118*/*_0004_4.jpg"))  # of the test, the last to be made
    broken.write_bytes(broken.read_bytes()[:300])
    with pytest.raises(BiaslibError, match=r"_0004_4\.jpg is damaged"):
        photos.write_waterbirds(100, root=tmp_path, size=16)
    assert not list(tmp_path.glob("*waterbird*"))
    assert not list(tmp_path.rglob("metadata.csv"))


@pytest.mark.parametrize("bias", [49, 101, 0.95])
def test_an_impossible_bias_is_refused(tmp_path, bias):
    with pytest.raises(BiaslibError, match="a whole number from 50 to 100"):
        photos.write_waterbirds(bias, root=tmp_path)


def test_missing_photographs_are_named_with_their_source(tmp_path):
    with pytest.raises(BiaslibError, match=r"images\.txt is missing.*biaslib data fetch cub"):
        photos.write_waterbirds(95, root=tmp_path)
    layouts.cub(tmp_path)
    with pytest.raises(BiaslibError, match=r"bamboo_forest is missing: it belongs to Places365.*fill in the form"):
        photos.write_waterbirds(95, root=tmp_path)
    layouts.places365(tmp_path)
    (tmp_path / "CUB_200_2011/segmentations").rename(tmp_path / "elsewhere")
    with pytest.raises(BiaslibError, match="segmentations is missing: it belongs to Caltech"):
        photos.write_waterbirds(95, root=tmp_path)
