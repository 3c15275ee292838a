import numpy as np
import pandas as pd
import pytest

from biaslib.errors import BiaslibError
from biaslib.samples import Samples


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
