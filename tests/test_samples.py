import pickle

import numpy as np
import pandas as pd
import pytest

from biaslib.errors import BiaslibError
from biaslib.samples import MappedRows, Samples


def make(n: int = 5) -> Samples:
    images = np.arange(n, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 6, 3), np.uint8)
    return Samples(images, pd.DataFrame({"a": np.arange(n)}), {"all": np.ones((n, 4, 6), bool)})


@pytest.mark.parametrize(
    "index", [slice(1, 4), [1, 2, 3], np.array([1, 2, 3]), np.array([False, True, True, True, False])]
)
def test_take_keeps_images_labels_and_masks_together(index):
    taken = make().take(index)
    assert len(taken) == 3
    assert taken.images[:, 0, 0, 0].tolist() == [1, 2, 3]
    assert taken.labels["a"].tolist() == [1, 2, 3]
    assert taken.labels.index.tolist() == [0, 1, 2]
    assert taken.masks["all"].shape == (3, 4, 6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"images": np.zeros((5, 4, 6, 3), np.float32)}, "images must be uint8"),
        ({"labels": pd.DataFrame({"a": [1]})}, "5 images but 1 rows of labels"),
        ({"masks": {"eyes": np.ones((5, 2, 2), bool)}}, "mask 'eyes' must be bool of shape"),
    ],
)
def test_parts_that_do_not_fit_are_named(change, sentence):
    good = make()
    parts = {"images": good.images, "labels": good.labels, "masks": good.masks} | change
    with pytest.raises(BiaslibError, match=sentence):
        Samples(**parts)


@pytest.fixture
def mapped(tmp_path):
    """Samples whose images and masks are memory maps, and the same in memory."""
    rng = np.random.default_rng(0)
    images, inside = rng.integers(0, 256, (6, 4, 5, 3), np.uint8), rng.random((6, 4, 5)) < 0.5
    for name, array in (("images", images), ("inside", inside)):
        np.save(tmp_path / f"{name}.npy", array)
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("images", "inside")]
    labels = pd.DataFrame({"a": np.arange(6)})
    return Samples(maps[0], labels, {"inside": maps[1]}), Samples(images, labels, {"inside": inside})


ROWS = np.array([4, 1, 1, 3])
USES = {
    "length": len,
    "shape": lambda images: [*images.shape, images.ndim, images.nbytes, images.dtype == np.uint8],
    "array": np.asarray,
    "other type": lambda images: np.asarray(images, np.float32),
    "number": lambda images: images[-1],
    "slice": lambda images: images[1:3],
    "list": lambda images: images[[0, 2]],
    "chosen": lambda images: images[np.array([True, False, True, True])],
    "columns": lambda images: images[:, 0, 1:3],
    "last axis": lambda images: images[..., 0],
    "pixels": lambda images: images[images[..., 0] > 100],
    "methods": lambda images: images.mean(axis=(1, 2)) + images.astype(float).sum() + images.copy().max(),
    "operators": lambda images: (images == images[:1]) | ~(images > 3),
    "into": lambda images: np.add(1.0, images, out=np.zeros(images.shape)),
    "together": lambda images: np.stack([images, np.concatenate([images[:2], images[2:]])]),
    "one by one": lambda images: [int(image.sum()) for image in images],
    "pickled": lambda images: pickle.loads(pickle.dumps(images)),
}


@pytest.mark.parametrize("use", USES)
def test_rows_of_a_map_are_as_good_as_an_array_and_hold_no_pixels(mapped, use):
    far, near = (samples.take(ROWS).take([True, True, False, True]).take([0, 1, 2, 1]) for samples in mapped)
    assert isinstance(far.images, MappedRows)
    np.testing.assert_array_equal(USES[use](far.images), USES[use](near.images))
    np.testing.assert_array_equal(~far.masks["inside"], ~near.masks["inside"])
    np.testing.assert_array_equal(far.images[far.masks["inside"]], near.images[near.masks["inside"]])
    assert len(pickle.dumps(far.images)) < 1000


def test_rows_of_a_map_have_no_more_attributes_than_an_array_and_end(mapped):
    rows = mapped[0].take(ROWS).images
    with pytest.raises(AttributeError, match="nor an array"):
        _ = rows.fingerprint
    with pytest.raises(IndexError):
        _ = rows[4]
    assert isinstance((mapped[0].take(ROWS).masks["inside"] ^ True), np.ndarray)


def test_what_was_computed_from_a_map_is_taken_as_an_array(mapped):
    samples = Samples(np.asanyarray(mapped[0].images).copy(), mapped[0].labels)
    assert isinstance(samples.take(ROWS).images, np.ndarray)
    np.testing.assert_array_equal(samples.take(ROWS).images, mapped[1].images[ROWS])
