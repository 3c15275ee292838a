"""Kaggle's cat-and-dog photos: one folder a split and a kind."""

from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import decoded, pictures, registry
from biaslib.samples import Samples

FOLDERS = {"train": "training_set", "val": "training_set", "test": "test_set"}
VALIDATION = 0.2  # of the official training pictures, by their names


def load(split: str, *, size: int, root: Path) -> Samples:
    """Cats and dogs in the official layout, cat-and-dog/training_set and test_set, in each cats/ and dogs/.

    Args:
        split: "train", "val" (a fifth of the official training pictures, by their names) or "test".
        size: side of the pictures in pixels; each is resized as a whole.
        root: folder of all datasets.

    Returns:
        label `cat` (bool; else a dog); no masks: nobody has outlined these animals.

    Raises:
        BiaslibError: for an unknown split, a missing or a damaged file.
    """
    dataset = registry.get("cat-and-dog")
    pictures.check_split("cat-and-dog", split, list(FOLDERS))
    folder = root / "cat-and-dog" / FOLDERS[split]
    files = [file for kind in ("cats", "dogs") for file in pictures.kept(dataset, folder / kind, split, VALIDATION)]
    cat = np.array([file.parent.name == "cats" for file in files])
    return Samples(decoded.photos(dataset, files, size=size), pd.DataFrame({"cat": cat}))
