import gzip
import hashlib
import struct

import numpy as np
import pytest

from biaslib import datasets
from biaslib.datasets import registry
from biaslib.errors import BiaslibError


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(root, *, n=7, side=28):
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    made = {}
    for split, part in (("train", "train"), ("test", "t10k")):
        images = rng.integers(0, 256, (n, side, side), dtype=np.uint8)
        digits = rng.integers(0, 10, n, dtype=np.uint8)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(digits)))
        made[split] = images, digits
    return made


def test_the_official_layout_is_read_back_as_it_was_written(tmp_path):
    made = write(tmp_path)
    for split, (images, digits) in made.items():
        loaded = datasets.load("mnist", split, size=28, root=tmp_path)
        assert loaded.labels["digit"].tolist() == digits.tolist()
        for channel in range(3):
            np.testing.assert_array_equal(loaded.images[..., channel], images)


def test_other_sizes_are_resized(tmp_path):
    made = write(tmp_path)
    loaded = datasets.load("mnist", "test", size=14, root=tmp_path)
    assert loaded.images.shape == (7, 14, 14, 3)
    assert loaded.images.mean() == pytest.approx(made["test"][0].mean(), abs=3)


def test_a_missing_file_names_itself_its_source_and_the_command(tmp_path):
    write(tmp_path)
    (tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(BiaslibError, match=r"t10k-labels-idx1-ubyte.gz is missing: .*MNIST.*yann.*data fetch mnist"):
        datasets.load("mnist", "test", size=28, root=tmp_path)
    assert len(datasets.load("mnist", "train", size=28, root=tmp_path)) == 7


def zipped(content):
    """Without the hour, which the names of these cases would carry: two processes have to collect the same ones."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no gzip", "is damaged"),
        (zipped(b"\0\0\x08\x01\0\0\0\x07")[:-9], "is damaged"),
        (zipped(b"<html>not found</html>"), "no IDX file of bytes in 1 dimensions"),
        (zipped(idx(np.zeros((7, 2), np.uint8))), "no IDX file of bytes in 1 dimensions"),
        (zipped(idx(np.zeros(7, np.uint8))[:-1]), r"says \(7,\) and holds 6 bytes"),
        (zipped(idx(np.zeros(6, np.uint8))), "has 6 labels for 7 images"),
        (zipped(idx(np.full(7, 10, np.uint8))), "has the label 10"),
    ],
)
def test_a_damaged_file_is_named_with_the_reason(tmp_path, content, why):
    write(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(BiaslibError, match=why) as error:
        datasets.load("mnist", "train", size=28, root=tmp_path)
    assert str(path) in str(error.value)


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(BiaslibError, match="a split of mnist must be one of train, test, not 'val'"):
        datasets.load("mnist", "val", size=28, root=tmp_path)


def test_the_registry_checks_every_file_that_is_read():
    files = {file.path: file.hash for file in registry.get("mnist").files}
    assert len(files) == 4
    assert all(hash_.startswith("md5:") and len(hash_) == 4 + 2 * hashlib.md5().digest_size for hash_ in files.values())
