"""What the folders of pictures have in common: which are here, and which of them are kept for which split."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from biaslib.datasets import registry
from biaslib.errors import BiaslibError


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


def listed(dataset: registry.Dataset, folder: Path, suffix: str = ".jpg") -> list[Path]:
    """The pictures in a folder, in the order of their names.

    Raises:
        BiaslibError: where the folder is missing.
    """
    return sorted(path for path in registry.require(dataset, folder).iterdir() if path.suffix.lower() == suffix)


def kept(dataset: registry.Dataset, folder: Path, split: str, validation: float) -> list[Path]:
    """A folder's pictures for a split, where "val" is a share of the official training pictures, by their names.

    Raises:
        BiaslibError: where the folder is missing or empty.
    """
    files = listed(dataset, folder)
    if not files:
        registry.require(dataset, folder / "*.jpg")
    if split == "test":
        return files
    shares = {"val": validation, "train": 1 - validation}
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
