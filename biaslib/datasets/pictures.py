"""Folders of pictures: which are here, which split each belongs to, and the two sets that are a folder a kind."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from biaslib.datasets import decoded, registry
from biaslib.errors import BiaslibError
from biaslib.samples import Samples

SPLITS = ("train", "val", "test")
SCENES = ("buildings", "forest", "glacier", "mountain", "sea", "street")
_VALIDATION = 0.2  # of the official training pictures, by their names


def load_cats_and_dogs(split: str, *, size: int, root: Path) -> Samples:
    """Kaggle's cats and dogs in the official layout, cat-and-dog/training_set and test_set, in each cats/ and dogs/.

    Returns:
        label `cat` (bool; else a dog); no masks: nobody has outlined these animals.
    """
    check_split("cat-and-dog", split, SPLITS)
    folder = root / "cat-and-dog" / ("test_set" if split == "test" else "training_set")
    images, kind = _kinds(registry.get("cat-and-dog"), folder, ("cats", "dogs"), split, size)
    return Samples(images, pd.DataFrame({"cat": kind == 0}))


def load_scenes(split: str, *, size: int, root: Path) -> Samples:
    """Intel's six kinds of landscapes and streets, intel-scenes/train and test, in each a folder a kind.

    Returns:
        label `kind` (int8), its place in `SCENES`; no masks.
    """
    check_split("Intel's scenes", split, SPLITS)
    folder = root / "intel-scenes" / ("test" if split == "test" else "train")
    images, kind = _kinds(registry.get("intel-scenes"), folder, SCENES, split, size)
    return Samples(images, pd.DataFrame({"kind": kind}))


def check_split(title: str, split: str, known: Sequence[str]) -> None:
    """Refuses a split that a dataset does not have.

    Raises:
        BiaslibError: naming those it has.
    """
    if split not in known:
        raise BiaslibError(f"{title} has the splits {', '.join(known)}, not {split!r}.")


def part(name: str, shares: Mapping[str, float]) -> str:
    """The split that a picture belongs to, by its name alone: the same whatever other pictures are there.

    Args:
        name: of the picture, with its folder where names repeat.
        shares: of every split, in a fixed order, summing to 1.
    """
    at = int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) / 16**12
    for split, share in shares.items():
        at -= share
        if at < 0:
            return split
    return split


def listed(dataset: registry.Dataset, folder: Path) -> list[Path]:
    """The photos in a folder (.jpg), in the order of their names.

    Raises:
        BiaslibError: where the folder is missing.
    """
    return sorted(path for path in registry.require(dataset, folder).iterdir() if path.suffix.lower() == ".jpg")


def of_split(dataset: registry.Dataset, folder: Path, split: str) -> list[Path]:
    """A folder's pictures for a split, where "val" is a fifth of the official training pictures, by their names.

    Raises:
        BiaslibError: where the folder is missing or empty.
    """
    files = listed(dataset, folder)
    if not files:
        registry.require(dataset, folder / "*.jpg")
    if split == "test":
        return files
    shares = {"val": _VALIDATION, "train": 1 - _VALIDATION}
    return [file for file in files if part(f"{folder.name}/{file.name}", shares) == split]


def warn_of_a_part(dataset: registry.Dataset, here: int, all_of_them: int, folder: Path, split: str) -> None:
    """Says, where it is so, that some pictures of a split are missing."""
    if here < all_of_them:
        warnings.warn(
            f"{dataset.title}: {here:,} of the {all_of_them:,} pictures of {split} are in {folder}; the others are "
            "left out, so its numbers are not those of the whole set.",
            registry.DatasetWarning,
            stacklevel=4,
        )


def _kinds(
    dataset: registry.Dataset, folder: Path, kinds: Sequence[str], split: str, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pictures of a folder a kind, (N, size, size, 3) uint8, and the number of each one's kind, (N,) int8."""
    files = [file for kind in kinds for file in of_split(dataset, folder / kind, split)]
    number = np.array([kinds.index(file.parent.name) for file in files], np.int8)
    return decoded.photos(dataset, files, size=size), number
