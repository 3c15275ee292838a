"""MNIST (LeCun, Cortes and Burges): handwritten digits, in the IDX files of the official source."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from biaslib.datasets import registry
from biaslib.samples import Samples

_SPLITS = {"train": "train", "test": "t10k"}
_UINT8 = 8  # IDX's code for the type of the numbers


def load(split: str, *, size: int, root: Path) -> Samples:
    """MNIST in its official layout, MNIST/raw/*-ubyte.gz, of 28 pixels: white on black; label `digit`; no masks."""
    dataset = registry.get("mnist")
    folder = root / "MNIST" / "raw"
    images_file = folder / f"{_SPLITS[split]}-images-idx3-ubyte.gz"
    labels_file = folder / f"{_SPLITS[split]}-labels-idx1-ubyte.gz"
    pages = _idx(dataset, images_file, dimensions=3)
    digits = _idx(dataset, labels_file, dimensions=1)
    if len(pages) != len(digits):
        raise dataset.damaged(labels_file, f"it has {len(digits)} labels for {len(pages)} images")
    if digits.max(initial=0) > 9:
        raise dataset.damaged(labels_file, f"it has the label {digits.max()}")
    if pages.shape[1:] != (size, size):
        resized = (Image.fromarray(page).resize((size, size), Image.Resampling.BILINEAR) for page in pages)
        pages = np.stack([np.asarray(page) for page in resized])
    return Samples(np.repeat(pages[..., None], 3, axis=-1), pd.DataFrame({"digit": digits.astype(np.int8)}))


def _idx(dataset: registry.Dataset, path: Path, *, dimensions: int) -> np.ndarray:
    """An IDX file: two zero bytes, the type, the number of dimensions, each dimension in four bytes, the numbers."""
    with dataset.reading(path):
        content = gzip.decompress(path.read_bytes())
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, _UINT8, dimensions]) or len(content) < head:
        raise dataset.damaged(path, f"it is no IDX file of bytes in {dimensions} dimensions")
    shape = tuple(int(side) for side in np.frombuffer(content, ">u4", dimensions, offset=4))
    if len(content) - head != np.prod(shape, dtype=np.int64) or shape[0] == 0:
        raise dataset.damaged(path, f"it says {shape} and holds {len(content) - head} bytes")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
