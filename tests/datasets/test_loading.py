import os

import numpy as np
import pandas as pd
import pytest

from biaslib import datasets, store
from biaslib.datasets import celeba, pictures, registry, waterbirds
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.store import files, fingerprint
from tests import layouts
from tests.damage import DAMAGES


def test_waterbirds_images_labels_and_masks_fit_together(tmp_path):
    table = layouts.waterbirds(tmp_path)
    loaded = datasets.load("waterbirds", "test", size=24, root=tmp_path)
    expected = table[table["split"] == 2].reset_index(drop=True)
    assert loaded.images.shape == (len(expected), 24, 24, 3)
    assert isinstance(loaded.images, np.memmap)
    assert loaded.labels["waterbird"].tolist() == (expected["y"] == 1).tolist()
    assert loaded.labels["background"].tolist() == (expected["place"] == 1).tolist()
    for image, is_water, bird in zip(loaded.images, loaded.labels["waterbird"], loaded.masks["bird"], strict=True):
        inside = image[bird].mean(axis=0)
        assert inside[2 if is_water else 0] > inside[0 if is_water else 2] + 80  # blue waterbirds, red landbirds
        assert 0.15 < bird.mean() < 0.35  # the rectangle covers a quarter
    np.testing.assert_array_equal(loaded.masks["background"], ~loaded.masks["bird"])


def test_splits_are_disjoint_and_cover_everything(tmp_path):
    table = layouts.waterbirds(tmp_path)
    parts = [datasets.load("waterbirds", split, size=8, root=tmp_path) for split in ("train", "val", "test")]
    assert sum(len(part) for part in parts) == len(table)


def test_other_biases_and_no_segmentations(tmp_path, monkeypatch):
    layouts.waterbirds(tmp_path, bias=80, segmentations=False)
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    loaded = datasets.load("waterbirds-80", "train", size=8)
    assert len(loaded) == 8
    assert loaded.masks == {}


def test_second_load_decodes_nothing(tmp_path, monkeypatch):
    layouts.waterbirds(tmp_path)
    first = datasets.load("waterbirds", "val", size=16, root=tmp_path)

    def refuse(*arguments, **options):
        raise AssertionError("decoded again")

    monkeypatch.setattr(pictures, "read_picture", refuse)
    second = datasets.load("waterbirds", "val", size=16, root=tmp_path)
    np.testing.assert_array_equal(first.images, second.images)
    with pytest.raises(AssertionError, match="decoded again"):  # another size is another map
        datasets.load("waterbirds", "val", size=12, root=tmp_path)


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("birds")
    layouts.waterbirds(folder)
    return folder


@pytest.mark.parametrize("kind", ["RGB", "L"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.usefixtures("store_of_the_module")
def test_a_damaged_map_is_said_and_decoded_anew(birds, damage, kind):
    before = datasets.load("waterbirds", "val", size=64, root=birds)
    expected = np.array(before.images), np.array(before.masks["bird"])
    (file,) = (store.root() / "decoded").glob(f"*-{kind}-*")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.warns(store.DamagedEntryWarning, match=f"{file.name} .* again"):
        after = datasets.load("waterbirds", "val", size=64, root=birds)
    np.testing.assert_array_equal(after.images, expected[0])
    np.testing.assert_array_equal(after.masks["bird"], expected[1])
    again = datasets.load("waterbirds", "val", size=64, root=birds)  # without a warning, which would be an error
    np.testing.assert_array_equal(again.images, expected[0])
    assert isinstance(again.images, np.memmap)


@pytest.fixture
def decoded(tmp_path, monkeypatch):
    """The file of a map, and a list of the files that have been read to check them since it was decoded."""
    layouts.waterbirds(tmp_path, segmentations=False)
    datasets.load("waterbirds", "val", size=16, root=tmp_path)
    (file,) = (store.root() / "decoded").iterdir()
    checked, original = [], files.is_whole
    monkeypatch.setattr(files, "is_whole", lambda path: (checked.append(path), original(path))[1])
    return file, checked


def opened_by_a_new_process(root):
    files._whole_as.cache_clear()
    return datasets.load("waterbirds", "val", size=16, root=root).images


def test_a_map_is_read_to_check_it_only_when_its_file_has_changed_since(tmp_path, decoded):
    file, checked = decoded
    for _ in range(3):
        opened_by_a_new_process(tmp_path)
    assert checked == []
    os.utime(file)
    for _ in range(3):
        opened_by_a_new_process(tmp_path)
    assert checked == [file]


def test_a_map_that_changes_at_the_very_moment_it_is_sealed_is_noticed(tmp_path, decoded):
    file, _ = decoded
    before = np.array(opened_by_a_new_process(tmp_path))
    files.note_whole(file)
    file.write_bytes(DAMAGES["bit 0"](file.read_bytes()))  # of the same length, within a tick of the clock
    with pytest.warns(store.DamagedEntryWarning, match="is damaged"):
        np.testing.assert_array_equal(opened_by_a_new_process(tmp_path), before)


def test_bits_that_flip_by_themselves_are_for_verify_which_makes_the_next_load_notice(tmp_path, decoded):
    file, checked = decoded
    state = file.stat()
    file.write_bytes(DAMAGES["bit 0"](file.read_bytes()))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    opened_by_a_new_process(tmp_path)
    assert checked == []
    assert store.verify() == [f"decoded/{file.name} is damaged"]
    with pytest.warns(store.DamagedEntryWarning, match="is damaged"):
        opened_by_a_new_process(tmp_path)
    assert store.verify() == []


def test_where_no_note_can_be_written_a_map_is_checked_once_in_a_process(tmp_path, decoded, monkeypatch):
    file, checked = decoded
    files.forget_whole(file)
    monkeypatch.setattr(files, "note_whole", lambda path: None)
    opened_by_a_new_process(tmp_path)
    for _ in range(3):
        datasets.load("waterbirds", "val", size=16, root=tmp_path)
    assert checked == [file]


def test_pixels_are_not_read_for_a_key(tmp_path, decoded, monkeypatch):
    file, _ = decoded
    images = opened_by_a_new_process(tmp_path)
    samples = Samples(images, pd.DataFrame(index=range(len(images))))
    few, others = samples.take([0, 2]).images, samples.take([2, 0]).images
    keys = [fingerprint.of_value(each) for each in (images, images[1:], images[..., :1], few, others)]
    assert len(set(keys)) == 5
    again = samples.take(slice(None)).take([0, 2]).images
    with monkeypatch.context() as patch:
        patch.setattr(np, "ascontiguousarray", lambda part: pytest.fail("read") if part.ndim == 4 else part)
        assert [fingerprint.of_value(each) for each in (images, again)] == [keys[0], keys[3]]
    # an array in memory, a map of somebody else's, and one that is written to have no such checksum
    own = tmp_path / "own.npy"
    np.save(own, images)
    theirs = [np.array(images), np.load(own, mmap_mode="r"), np.load(file, mmap_mode="c")]
    assert len({fingerprint.of_value(each) for each in theirs}) == 1


def test_another_way_of_decoding_is_another_map(tmp_path, monkeypatch):
    layouts.waterbirds(tmp_path)
    datasets.load("waterbirds", "val", size=16, root=tmp_path)
    kept = sorted((store.root() / "decoded").iterdir())
    monkeypatch.setattr(pictures.fingerprint, "of_code", lambda function: "edited")
    datasets.load("waterbirds", "val", size=16, root=tmp_path)
    assert len(sorted((store.root() / "decoded").iterdir())) == 2 * len(kept)


def test_replaced_picture_is_decoded_anew(tmp_path):
    table = layouts.waterbirds(tmp_path)
    before = np.array(datasets.load("waterbirds", "train", size=16, root=tmp_path).images[0])
    name = table[table["split"] == 0]["img_filename"].iloc[0]
    layouts.picture(tmp_path / "waterbird_complete95_forest2water2" / name, size=(60, 60), colour=(0, 255, 0))
    after = datasets.load("waterbirds", "train", size=16, root=tmp_path).images[0]
    assert np.abs(before.astype(int) - after.astype(int)).max() > 50


def test_truncated_picture_is_named_and_leaves_no_map(tmp_path):
    table = layouts.waterbirds(tmp_path)
    name = table[table["split"] == 0]["img_filename"].iloc[1]
    picture = tmp_path / "waterbird_complete95_forest2water2" / name
    picture.write_bytes(picture.read_bytes()[:400])
    with pytest.raises(
        BiaslibError, match=rf"{picture.name} is damaged .*github.com/kohpangwei.*data fetch waterbirds"
    ):
        datasets.load("waterbirds", "train", size=16, root=tmp_path)
    assert [path for path in (store.root() / "decoded").glob("**/*") if path.is_file()] == []


def test_missing_files_name_source_licence_and_command(tmp_path):
    with pytest.raises(
        BiaslibError, match=r"metadata\.csv is missing.*group_DRO.*licence.*biaslib data fetch waterbirds"
    ):
        datasets.load("waterbirds", "train", size=16, root=tmp_path)
    table = layouts.waterbirds(tmp_path)
    (tmp_path / "waterbird_complete95_forest2water2" / table["img_filename"].iloc[0]).unlink()
    with pytest.raises(BiaslibError, match=r"Albatross_0000_0\.jpg is missing"):
        datasets.load("waterbirds", "train", size=16, root=tmp_path)


def test_damaged_metadata_is_named(tmp_path):
    layouts.waterbirds(tmp_path)
    (tmp_path / "waterbird_complete95_forest2water2/metadata.csv").write_text("img_id,y\n1,0\n")
    with pytest.raises(BiaslibError, match=r"metadata\.csv is damaged"):
        datasets.load("waterbirds", "train", size=16, root=tmp_path)


@pytest.mark.parametrize(
    ("name", "split", "size", "message"),
    [
        ("imagenet", "train", 16, "a data set whose images are loaded.* not 'imagenet'"),
        ("waterbirds", "testing", 16, "must be one of train, val, test, not 'testing'"),
        ("waterbirds-many", "train", 16, "bias in percent, not 'waterbirds-many'"),
        ("waterbirds", "train", 0, "must be a whole number of at least 1, not 0"),
    ],
)
def test_wrong_requests_get_one_clear_sentence(tmp_path, name, split, size, message):
    with pytest.raises(BiaslibError, match=message):
        datasets.load(name, split, size=size, root=tmp_path)


def test_cub_test_labels_follow_images_txt(tmp_path):
    layouts.cub(tmp_path, per_species=4, pictures=False)
    # of each species the even-numbered two are test images; albatross and grebe are waterbirds
    assert waterbirds.cub_test_labels(tmp_path).tolist() == [True] * 4 + [False] * 4
    (tmp_path / "CUB_200_2011/train_test_split.txt").write_text("1 0\n")
    with pytest.raises(BiaslibError, match="differ in length"):
        waterbirds.cub_test_labels(tmp_path)


@pytest.fixture
def small_celeba(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).random((7, 3)) < 0.5, columns=["Bald", "Male", "Young"])
    layouts.celeba(tmp_path, table)
    layouts.celebamask_hq(tmp_path, [5, 0, 3])
    return tmp_path, table


def test_attributes_come_back_as_written_with_a_warning_about_them(small_celeba):
    root, table = small_celeba
    registry.warn.cache_clear()
    with pytest.warns(datasets.DatasetWarning, match="as annotated in CelebA"):
        read = celeba.attributes(root)
    assert read.equals(table)
    assert celeba.attributes(root).equals(table)  # a second time it does not warn, or this would be an error


@pytest.mark.parametrize("header", [True, False])
def test_mapping_with_and_without_its_heading(small_celeba, header):
    root, _ = small_celeba
    layouts.celebamask_hq(root, [5, 0, 3], header=header)
    assert celeba.hq_to_celeba(root).tolist() == [5, 0, 3]


@pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
def test_damaged_list_files_are_named(small_celeba):
    root, _ = small_celeba
    listed = root / "celeba/list_attr_celeba.txt"
    whole = listed.read_text()
    for broken in (whole[: len(whole) // 2], "", whole.replace(" 1", " 7"), "<html>sign in</html>"):
        listed.write_text(broken)
        with pytest.raises(BiaslibError, match=r"list_attr_celeba\.txt is damaged"):
            celeba.attributes(root)
    mapping = root / "CelebAMask-HQ/CelebA-HQ-to-CelebA-mapping.txt"
    for broken in ("0 5 000006.jpg\n2 0 000001.jpg\n", "0 5 000009.jpg\n", "0 5\n", ""):
        mapping.write_text(broken)
        with pytest.raises(BiaslibError, match=r"mapping\.txt is damaged"):
            celeba.hq_to_celeba(root)


def test_missing_list_file_says_how_to_get_it_by_hand(tmp_path):
    with pytest.raises(BiaslibError, match=r"list_attr_celeba\.txt is missing.*read the agreement on the source page"):
        celeba.attributes(tmp_path)


def test_root_prefers_argument_then_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", "/somewhere")
    assert datasets.root(tmp_path) == tmp_path
    assert str(datasets.root()) == "/somewhere"
    monkeypatch.delenv("BIASLIB_DATA")
    assert datasets.root() == registry.CHECKOUT / "data" / "raw"


def test_generated_celebamask_hq_has_the_official_names(tmp_path):
    layouts.celebamask_hq(tmp_path, [4, 2], pictures=True)
    parts = sorted(path.name for path in (tmp_path / "CelebAMask-HQ/CelebAMask-HQ-mask-anno/0").iterdir())
    assert parts == ["00000_nose.png", "00000_skin.png", "00001_eye_g.png", "00001_nose.png", "00001_skin.png"]
