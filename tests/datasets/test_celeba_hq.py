"""CelebAMask-HQ, on drawn rectangles in the official layout and as pairs of an image and a label map."""

import numpy as np
import pytest
from PIL import Image

from biaslib import datasets, store
from biaslib.datasets import DatasetWarning, celeba, pictures
from biaslib.errors import BiaslibError
from tests import layouts
from tests.damage import DAMAGES

pytestmark = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
N = 20


def part(folder, number, name, box, shape=(32, 32)):
    """A part mask, white inside (top, bottom, left, right)."""
    path = folder / "CelebAMask-HQ/CelebAMask-HQ-mask-anno" / str(number // 2000) / f"{number:05d}_{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.zeros(shape, np.uint8)
    picture[box[0] : box[1], box[2] : box[3]] = 255
    Image.fromarray(picture).convert("RGB").save(path)


@pytest.fixture
def official(tmp_path):
    """Twenty images of their own brightness; every one has skin and a left eye, the even ones a hat."""
    folder = tmp_path / "CelebAMask-HQ"
    for number in range(N):
        path = folder / "CelebA-HQ-img" / f"{number}.jpg"
        layouts.picture(path, size=(40, 40), colour=(10 * number,) * 3)
        part(tmp_path, number, "skin", (8, 32, 0, 32))
        part(tmp_path, number, "l_eye", (8, 16, 0, 8))
        part(tmp_path, number, "r_eye", (8, 16, 24, 32))
        if number % 2 == 0:
            part(tmp_path, number, "hat", (0, 4, 0, 32))
    rows = [f"{number}.jpg {1 if number % 2 else -1} {1 if number > 9 else -1}" for number in range(N)]
    (folder / "CelebAMask-HQ-attribute-anno.txt").write_text("\n".join([str(N), "Male Young", *rows]) + "\n")
    return tmp_path


def test_images_come_with_their_own_labels_and_regions(official):
    order = np.random.RandomState(0).permutation(N)
    expected = {"train": order[:14], "val": order[14:17], "test": order[17:]}
    for split, numbers in expected.items():
        loaded = celeba.load_hq(split, size=16, root=official)
        numbers = np.sort(numbers)
        assert loaded.images[:, 8, 8, 0].tolist() == pytest.approx((10 * numbers).tolist(), abs=4)
        assert loaded.labels["Male"].tolist() == (numbers % 2 == 1).tolist()
        assert loaded.labels["Young"].tolist() == (numbers > 9).tolist()
        assert list(loaded.masks) == list(celeba.REGIONS)
        assert len(loaded.masks) == 14
        eyes, skin, hat, background = (loaded.masks[name] for name in ("eyes", "skin", "hat", "background"))
        assert eyes[:, 4:8, :4].all()
        assert eyes[:, 4:8, 12:].all()
        assert eyes.sum() == 32 * len(numbers)
        assert skin.sum() == 12 * 16 * len(numbers)
        np.testing.assert_array_equal(hat.any(axis=(1, 2)), numbers % 2 == 0)
        np.testing.assert_array_equal(background, ~(eyes | skin | hat))
        assert not loaded.masks["necklace"].any()


def test_a_second_load_reads_the_same_map(official):
    first = celeba.load_hq("val", size=8, root=official)
    again = celeba.load_hq("val", size=8, root=official)
    assert isinstance(again.masks["hair"], np.memmap)
    np.testing.assert_array_equal(first.masks["eyes"], again.masks["eyes"])
    number = int(np.sort(np.random.RandomState(0).permutation(N)[14:17])[0])
    part(official, number, "neck_l", (28, 32, 0, 32))  # a mask that was not there before
    assert celeba.load_hq("val", size=8, root=official).masks["necklace"][0].any()


def test_the_last_of_thirty_thousand_are_the_papers_test_images():
    numbers = {split: celeba.hq_numbers(30_000, split) for split in pictures.SPLITS}
    assert [len(numbers[split]) for split in pictures.SPLITS] == [21_000, 4_500, 4_500]
    assert len(np.unique(np.concatenate(list(numbers.values())))) == 30_000
    assert numbers["test"][:5].tolist() == [10, 19, 40, 43, 52]  # as in the authors' list of test images


@pytest.fixture
def pairs(tmp_path):
    """Thirty pairs for training and four for the test, with a part in each row of the map."""
    for folder, n in (("train", 30), ("test", 4)):
        for number in range(n):
            base = tmp_path / "CelebAMask-HQ/pairs" / folder
            layouts.picture(base / "images" / f"{number:03d}.jpg", size=(38, 38), colour=(8 * number,) * 3)
            (base / "masks").mkdir(exist_ok=True)
            picture = np.repeat(np.arange(19, dtype=np.uint8), 2)[:, None] * np.ones((1, 38), np.uint8)
            Image.fromarray(picture).save(base / "masks" / f"{number:03d}.png")
    return tmp_path


def test_label_maps_divide_the_picture_into_the_regions(pairs):
    loaded = celeba.load_hq_pairs("test", size=38, root=pairs)
    assert loaded.images[:, 19, 19, 0].tolist() == pytest.approx([0, 8, 16, 24], abs=4)
    assert loaded.labels.shape == (4, 0)
    np.testing.assert_array_equal(sum(mask.astype(int) for mask in loaded.masks.values()), 1)
    for region, parts in celeba.REGIONS.items():
        rows = [2 * celeba._PARTS.index(name) for name in parts or ("background",)]
        rows = sorted([*rows, *(row + 1 for row in rows)])
        assert np.flatnonzero(loaded.masks[region][0].all(axis=1)).tolist() == rows, region


def test_the_front_door_knows_the_pairs(pairs):
    loaded = datasets.load("celebamask-pairs", "test", size=8, root=pairs)
    np.testing.assert_array_equal(loaded.images, celeba.load_hq_pairs("test", size=8, root=pairs).images)
    assert loaded.labels.shape == (4, 0)


def test_validation_pairs_are_kept_from_training(pairs):
    counts = {split: len(celeba.load_hq_pairs(split, size=8, root=pairs)) for split in ("train", "val", "test")}
    assert counts["train"] + counts["val"] == 30
    assert 0 < counts["val"] < 12
    assert counts["test"] == 4


def test_a_copy_that_is_not_whole_is_refused(official):
    for split in ("trian", "all"):
        with pytest.raises(BiaslibError, match="a split of celebamask must be one of train, val, test, not"):
            datasets.load("celebamask", split, size=8, root=official)
    number = int(np.random.RandomState(0).permutation(N)[17:].min())
    part(official, number, "l_eye", (0, 4, 0, 4), shape=(16, 16))
    with pytest.raises(BiaslibError, match=r"_l_eye.png.*not of the size of the image's other masks"):
        celeba.load_hq("test", size=8, root=official)
    (official / f"CelebAMask-HQ/CelebA-HQ-img/{number}.jpg").unlink()
    with pytest.raises(BiaslibError, match=rf"{number}.jpg"):
        celeba.load_hq("test", size=8, root=official)


def test_missing_masks_pairs_and_lists_are_named(tmp_path):
    with pytest.raises(BiaslibError, match=r"CelebAMask-HQ-attribute-anno.txt"):
        celeba.load_hq("test", size=8, root=tmp_path)
    with pytest.raises(BiaslibError, match=r"pairs/test/images"):
        celeba.load_hq_pairs("test", size=8, root=tmp_path)


@pytest.mark.parametrize("change", [("-1 1", "-1 2"), ("3.jpg", "33.jpg"), ("20\n", "21\n"), ("20\n", "many\n")])
def test_a_damaged_list_is_named(official, change):
    path = official / "CelebAMask-HQ/CelebAMask-HQ-attribute-anno.txt"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(BiaslibError, match=r"attribute-anno\.txt"):
        celeba.load_hq("test", size=8, root=official)


def test_numbers_that_no_part_has_are_refused(pairs):
    Image.fromarray(np.full((8, 8), 19, np.uint8)).save(pairs / "CelebAMask-HQ/pairs/test/masks/000.png")
    with pytest.raises(BiaslibError, match="numbers above 18"):
        celeba.load_hq_pairs("test", size=8, root=pairs)


def test_it_warns_of_its_terms(official):
    celeba.registry.warn.cache_clear()
    with pytest.warns(DatasetWarning, match="CelebA's terms"):
        celeba.load_hq("test", size=8, root=official)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_masks_are_said_and_drawn_anew(official, damage):
    before = celeba.load_hq("test", size=32, root=official)
    expected = {region: np.array(mask) for region, mask in before.masks.items()}
    (file,) = (store.root() / "decoded").glob("*-parts-*")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.warns(store.DamagedEntryWarning, match=f"{file.name} .* again"):
        after = celeba.load_hq("test", size=32, root=official)
    for region, mask in expected.items():
        np.testing.assert_array_equal(after.masks[region], mask)
