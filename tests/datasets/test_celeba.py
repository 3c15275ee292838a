"""CelebA's faces, on drawn rectangles in the official layout."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslib import datasets
from biaslib.datasets import registry
from biaslib.errors import BiaslibError
from tests import layouts

quiet = pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")


@pytest.fixture
def faces(tmp_path):
    """Nine pictures, each of its own brightness, in splits 0, 1, 2, 0, ..."""
    table = pd.DataFrame(np.random.default_rng(0).random((9, 3)) < 0.5, columns=["Bald", "Male", "Young"])
    layouts.celeba(tmp_path, table)
    for row in range(9):
        path = tmp_path / "celeba" / "img_align_celeba" / f"{row + 1:06d}.jpg"
        layouts.picture(path, size=(178, 218), colour=(20 * row,) * 3)
    return tmp_path, table


@quiet
def test_each_picture_comes_with_its_own_labels(faces):
    root, table = faces
    for first, split in enumerate(("train", "val", "test")):
        loaded = datasets.load("celeba", split, size=16, root=root)
        assert loaded.images.shape == (3, 16, 16, 3)
        assert isinstance(loaded.images, np.memmap)
        rows = [first, first + 3, first + 6]
        assert loaded.labels.equals(table.iloc[rows].reset_index(drop=True))
        assert loaded.images[:, 8, 8, 0].tolist() == pytest.approx([20 * row for row in rows], abs=4)
        assert loaded.masks == {}


@quiet
@pytest.mark.parametrize(("width", "height"), [(178, 218), (89, 109)])
def test_the_square_of_a_face_is_cut_out_at_its_own_pixels(faces, width, height):
    root, _ = faces
    rows, columns = np.mgrid[:height, :width]
    picture = np.stack([rows, columns, 0 * rows], axis=2).astype(np.uint8)
    Image.fromarray(picture).save(root / "celeba/img_align_celeba/000001.png")
    (root / "celeba/img_align_celeba/000001.png").rename(root / "celeba/img_align_celeba/000001.jpg")
    side = round(128 * width / 178)
    cut = datasets.load("celeba-cropped", "train", size=side, root=root)
    top, left = (121 - 64) * width // 178, (89 - 64) * width // 178
    np.testing.assert_array_equal(cut.images[0], picture[top : top + side, left : left + side])
    assert cut.labels.equals(datasets.load("celeba", "train", size=8, root=root).labels)
    half = datasets.load("celeba-cropped", "train", size=side // 2, root=root).images[0]
    assert half[0, 0].tolist() == pytest.approx([top + 0.5, left + 0.5, 0], abs=1)


def test_it_warns_of_its_labels_once_and_of_missing_pictures(faces):
    root, table = faces
    registry.warn.cache_clear()
    with pytest.warns(datasets.DatasetWarning, match="how a face is perceived"):
        datasets.load("celeba", "test", size=8, root=root)
    (root / "celeba/img_align_celeba/000004.jpg").unlink()
    with pytest.warns(datasets.DatasetWarning, match=r"2 of the 3 pictures of train are in .*img_align_celeba"):
        loaded = datasets.load("celeba", "train", size=8, root=root)
    assert loaded.labels.equals(table.iloc[[0, 6]].reset_index(drop=True))
    assert loaded.images[:, 4, 4, 0].tolist() == pytest.approx([0, 120], abs=4)


@quiet
@pytest.mark.parametrize("missing", ["list_attr_celeba.txt", "list_eval_partition.txt", "img_align_celeba"])
def test_a_missing_file_names_itself_its_source_its_licence_and_the_way_to_it(faces, missing):
    root, _ = faces
    (root / "celeba" / missing).rename(root / "elsewhere")
    said = rf"{missing} is missing: .*mmlab\.ie\.cuhk\.edu\.hk.*non-commercial.*read the agreement"
    with pytest.raises(BiaslibError, match=said):
        datasets.load("celeba", "train", size=8, root=root)


@quiet
def test_a_split_without_any_picture_names_its_first(faces):
    root, _ = faces
    for row in (1, 4, 7):
        (root / f"celeba/img_align_celeba/{row + 1:06d}.jpg").unlink()
    with pytest.raises(BiaslibError, match=r"000002\.jpg is missing"):
        datasets.load("celeba", "val", size=8, root=root)


@quiet
def test_damaged_files_are_named(faces):
    root, _ = faces
    partition = root / "celeba/list_eval_partition.txt"
    whole = partition.read_text()
    for broken in (whole[:40], "", whole.replace(" 2", " 3"), whole.replace(" 2", " 1"), whole.replace("7.", "8.")):
        partition.write_text(broken)
        with pytest.raises(BiaslibError, match=r"list_eval_partition\.txt is damaged"):
            datasets.load("celeba", "train", size=8, root=root)
    partition.write_text(whole)
    (root / "celeba/img_align_celeba/000001.jpg").write_bytes(b"no picture")
    with pytest.raises(BiaslibError, match=r"000001\.jpg is damaged"):
        datasets.load("celeba", "train", size=8, root=root)
    with pytest.raises(BiaslibError, match="a split of celeba must be one of train, val, test, not 'valid'"):
        datasets.load("celeba", "valid", size=8, root=root)
