"""Pets, cats and dogs, fruits and scenes, on drawn rectangles in the official layouts."""

from pathlib import Path

import numpy as np
import pytest

from biaslib import datasets
from biaslib.datasets import photos, pictures
from biaslib.datasets.photos import SCENES
from biaslib.errors import BiaslibError
from tests import layouts

SPLITS = ("train", "val", "test")


def test_pets_come_with_their_own_labels_and_outlines(tmp_path):
    table = layouts.pets(tmp_path)
    seen = 0
    for split in SPLITS:
        loaded = datasets.load("pets", split, size=40, root=tmp_path)
        names = [name for name in table["image"] if pictures.part(name, photos._PET_SPLITS) == split]
        rows = table.set_index("image").loc[names]
        assert loaded.labels["cat"].tolist() == (rows["species"] == 1).tolist()
        assert loaded.labels["breed"].tolist() == rows["breed"].tolist()
        red = loaded.images[:, 20, 20, 0] > loaded.images[:, 20, 20, 2]
        assert red.tolist() == loaded.labels["cat"].tolist()
        for mask in loaded.masks["animal"]:  # the rectangle with its band of 2 pixels, not the rectangle alone
            assert 0.30 < mask.mean() < 0.40
            assert mask[20, 20]
            assert not mask[2, 2]
        seen += len(loaded)
    assert seen == len(table)


def test_a_part_of_the_pets_loads_in_the_same_splits_with_a_warning(tmp_path):
    layouts.pets(tmp_path)
    whole = datasets.load("pets", "train", size=16, root=tmp_path)
    names = [path.stem for path in sorted((tmp_path / "oxford-iiit-pet/images").iterdir())]
    gone = [name for name in names if pictures.part(name, photos._PET_SPLITS) == "train"][:3]
    for name in gone:
        (tmp_path / f"oxford-iiit-pet/images/{name}.jpg").unlink()
    with pytest.warns(datasets.DatasetWarning, match=rf"{len(whole) - 3} of the {len(whole)} pictures of train"):
        part = datasets.load("pets", "train", size=16, root=tmp_path)
    assert len(part) == len(whole) - 3
    for name in names:
        (tmp_path / f"oxford-iiit-pet/images/{name}.jpg").unlink(missing_ok=True)
    with pytest.raises(BiaslibError, match=r"_\d+\.jpg is missing: .*Oxford-IIIT Pet.*CC BY-SA 4.0.*data fetch oxford"):
        datasets.load("pets", "train", size=16, root=tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("annotations/list.txt", "a b c", r"list\.txt is damaged"),
        ("annotations/list.txt", "Abyssinian_1 99 1 1\n", r"list\.txt is damaged.*class"),
        ("annotations/trimaps/Bengal_2.png", "no picture", r"Bengal_2\.png is damaged"),
    ],
)
def test_damaged_pet_files_are_named(tmp_path, file, content, message):
    layouts.pets(tmp_path)
    (tmp_path / "oxford-iiit-pet" / file).write_text(content)
    split = pictures.part("Bengal_2", photos._PET_SPLITS)
    with pytest.raises(BiaslibError, match=message):
        datasets.load("pets", split, size=16, root=tmp_path)


def test_cats_and_dogs_by_their_folders(tmp_path):
    layouts.cat_and_dog(tmp_path)
    parts = {split: datasets.load("cat-and-dog", split, size=16, root=tmp_path) for split in SPLITS}
    assert len(parts["train"]) + len(parts["val"]) == len(parts["test"]) == 40
    assert 0 < len(parts["val"]) < 16
    for part in parts.values():
        red = part.images[:, 8, 8, 0] > part.images[:, 8, 8, 2]
        assert red.tolist() == part.labels["cat"].tolist()
        assert part.masks == {}


def test_fruits_are_cut_out_with_their_holes_and_without_their_spit(tmp_path):
    layouts.fruits360(tmp_path)
    part = datasets.load("fruits360", "test", size=100, root=tmp_path)
    assert part.labels["fruit"].value_counts().to_dict() == dict.fromkeys(range(5), 10)  # no walnuts
    x, y = np.arange(100)[None], np.arange(100)[:, None]
    away = np.hypot(x - 49.5, y - 49.5)
    for mask in part.masks["fruit"]:
        assert mask[away < 27].all()  # the white spot in the middle is fruit
        assert not mask[away > 32].any()  # the spit not
    reds = part.images[part.labels["fruit"] == 0][:, 30, 50]
    assert (reds[:, 0] > 150).all()
    assert (reds[:, 2] < 80).all()


def test_no_white_is_left_on_a_fruit_before_dark(tmp_path):
    layouts.fruits360(tmp_path)
    apples = datasets.load("fruits360", "test", size=100, root=tmp_path).take(slice(0, 10))
    spot = np.hypot(np.arange(100)[None] - 49.5, np.arange(100)[:, None] - 49.5) < 9
    shown = apples.images[apples.masks["fruit"] & ~spot]
    assert shown[:, 2].max() < 128  # blue is 20 on the fruit, 255 on the ground


def test_a_fruit_that_is_missing_has_a_stand_in_or_is_named(tmp_path):
    layouts.fruits360(tmp_path, without=("Corn 1",))
    for part in ("Training", "Test"):
        folder = tmp_path / "fruits-360" / part
        (folder / "Walnut 1").rename(folder / "Lemon Meyer 1")
    assert photos.kinds(tmp_path)["corn"] == "Lemon"
    with pytest.warns(datasets.DatasetWarning, match="Lemon for corn stand in"):
        assert (datasets.load("fruits360", "train", size=20, root=tmp_path).labels["fruit"] == 2).any()
    (tmp_path / "fruits-360/Training/Banana 1").rename(tmp_path / "fruits-360/Training/Date 1")
    with pytest.raises(BiaslibError, match=r"Training/Banana 1 is missing.*Fruits 360.*CC BY-SA.*Training and Test"):
        datasets.load("fruits360", "train", size=20, root=tmp_path)


@pytest.mark.filterwarnings("error")
def test_further_apples_are_apples(tmp_path):
    layouts.fruits360(tmp_path)
    before = len(datasets.load("fruits360", "test", size=20, root=tmp_path))
    extra = tmp_path / "fruits-360/extra_apples/test/Apple 10"
    extra.parent.mkdir(parents=True)
    (tmp_path / "fruits-360/Test/Walnut 1").rename(extra)
    after = datasets.load("fruits360", "test", size=20, root=tmp_path)
    assert len(after) == before + 10
    assert (after.labels["fruit"] == 0).sum() == 20


def test_an_all_white_picture_has_no_fruit():
    assert not photos._fruit_region(np.full((30, 30, 3), 255, np.uint8)).any()


def test_scenes_by_their_kinds(tmp_path):
    layouts.scenes(tmp_path)
    parts = {split: datasets.load("scenes", split, size=16, root=tmp_path) for split in SPLITS}
    assert len(parts["train"]) + len(parts["val"]) == len(parts["test"]) == 72
    for part in parts.values():
        green = part.images[:, 8, 8, 1].astype(int) > part.images[:, 8, 8, 0].astype(int) + 40
        assert green.tolist() == (part.labels["kind"] == SCENES.index("forest")).tolist()


@pytest.mark.parametrize("name", ["pets", "cat-and-dog", "fruits360", "scenes"])
def test_what_is_missing_and_what_is_unknown_is_named(tmp_path, name):
    with pytest.raises(BiaslibError, match=r"is missing: it belongs to .*official source: https.*licence"):
        datasets.load(name, "train", size=16, root=tmp_path)
    with pytest.raises(BiaslibError, match=r"splits train, val, test, not 'valid'"):
        datasets.load(name, "valid", size=16, root=tmp_path)


def test_splits_follow_the_shares_and_the_name_alone():
    names = [f"Bengal_{i}" for i in range(4000)]
    parts = [pictures.part(name, photos._PET_SPLITS) for name in names]
    for split, share in photos._PET_SPLITS.items():
        assert parts.count(split) / 4000 == pytest.approx(share, abs=0.03)
    assert pictures.part(names[0], photos._PET_SPLITS) == parts[0]


def test_a_folder_without_pictures_for_the_split_is_named(tmp_path):
    layouts.scenes(tmp_path)
    for path in (tmp_path / "intel-scenes/test/sea").iterdir():
        path.unlink()
    with pytest.raises(BiaslibError, match=r"test/sea/\*\.jpg is missing"):
        datasets.load("scenes", "test", size=16, root=Path(tmp_path))
