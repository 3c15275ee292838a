"""Pictures in folders: which are here, of which split, and decoded once into memory maps in the store."""

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image
from tqdm import tqdm

from biaslib import store
from biaslib.datasets.registry import Dataset, DatasetWarning
from biaslib.store import files as files_of_store
from biaslib.store import fingerprint

SPLITS = ("train", "val", "test")
TRAINING_PARTS = {"val": 0.2, "train": 0.8}  # of the official training pictures, by their names
# Pillow also knows formats that start another program to be read, as EPS does, and goes by the content, not the ending
_FORMATS: Final = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
# what Pillow raises for a file that is no picture, is cut off, or is suspiciously large
UNREADABLE: Final = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
_MOST_PIXELS = 50_000_000  # of a picture: 150 MB in memory, and again as much for each copy of it
_CHUNK = 256


def part(name: str, shares: Mapping[str, float]) -> str:
    """The split of a picture by its name alone, with its folder where names repeat; the `shares` of splits sum to 1."""
    at = int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) / 16**12
    for split, share in shares.items():
        at -= share
        if at < 0:
            return split
    return split


def listed(dataset: Dataset, folder: Path) -> list[Path]:
    """The photos in a folder (.jpg), in the order of their names; a BiaslibError where it is missing."""
    return sorted(path for path in dataset.require(folder).iterdir() if path.suffix.lower() == ".jpg")


def of_split(dataset: Dataset, folder: Path, split: str) -> list[Path]:
    """A folder's pictures of a split, "val" a fifth of the training ones by name; a `BiaslibError` where none are."""
    files = listed(dataset, folder) or [dataset.require(folder / "*.jpg")]
    return [file for file in files if split in ("test", part(f"{folder.name}/{file.name}", TRAINING_PARTS))]


def are_here(dataset: Dataset, folder: Path, names: Sequence[str], split: str) -> np.ndarray:
    """(n,) bool: which pictures of a split are in a folder; a warning where some are not, an error where none is."""
    there = set(os.listdir(dataset.require(folder)))
    here = np.array([name in there for name in names], bool)
    if not here.any():
        dataset.require(folder / names[0])
    if not here.all():
        warnings.warn(
            f"{dataset.title}: {here.sum():,} of the {len(here):,} pictures of {split} are in {folder}; the others are "
            "left out, so its numbers are not those of the whole set.",
            DatasetWarning,
            stacklevel=4,
        )
    return here


def open_picture(file: Path | str) -> Image.Image:
    """A picture of a format that reads nothing but itself; one of `UNREADABLE` is raised, here or when it is read."""
    picture = Image.open(file, formats=_FORMATS)
    if picture.width * picture.height > _MOST_PIXELS:
        picture.close()
        raise Image.DecompressionBombError(f"it has {picture.width} x {picture.height} pixels, more than 50 million")
    return picture


def photos(dataset: Dataset, files: Sequence[Path | str], *, size: int) -> np.ndarray:
    """N image files as (N, size, size, 3) uint8, a read-only memory map: resized as a whole (bilinear, antialiased)."""
    return once(dataset, "RGB", files, _photo, size, shape=(len(files), size, size, 3), dtype=np.uint8)


def segmentations(dataset: Dataset, files: Sequence[Path], *, size: int) -> np.ndarray:
    """(N, size, size) bool, a read-only memory map: True where the resized grey picture is at least half white."""
    return once(dataset, "L", files, _segmentation, size, shape=(len(files), size, size))


def regions(
    dataset: Dataset, files: Sequence[Path], inside: Callable[[np.ndarray], np.ndarray], *, size: int, mode: str = "L"
) -> np.ndarray:
    """Masks (N, size, size) that a module's `inside` finds in pictures ("L", "RGB"), of half of a pixel or more."""
    return once(dataset, "region", files, _region, size, inside, mode, shape=(len(files), size, size))


def once(
    dataset: Dataset,
    kind: str,
    files: Sequence[Path | str] | Sequence[Mapping[str, Path]],
    decode: Callable[..., np.ndarray],
    size: int,
    *options: Any,
    shape: tuple[int, ...],
    dtype: type = np.bool_,
    axis: int = 0,
) -> np.ndarray:
    """What a function makes of each picture, written to the store once, as a read-only memory map.

    A map's end is the SHA-256 of all before it, and stands for it in the keys of what is computed from it. It is
    compared when the map was written and whenever the file has changed since (`files.is_still_whole`); a
    `DamagedEntryWarning` says that the map was damaged and is written again.

    `files` are N files, or N times several of them by their names. `decode` makes an array of the dataset (whom to name
    where a file is missing or damaged), an entry of `files`, `size` in pixels and the `options`, functions and plain
    values. All functions count with their source, so that another way of decoding is another map. `kind` is a word for
    the map's name, `shape` that of all arrays together, `axis` the one along which the entries lie.
    """
    named = [entry if isinstance(entry, Mapping) else {"": entry} for entry in files]
    # one look at the folder entries keys the map, so a picture that was replaced is decoded anew
    looks = "\0\0".join("\0".join(f"{name} {_look(dataset, entry[name])}" for name in entry) for entry in named)
    code = [fingerprint.of_code(part) if callable(part) else part for part in (_write, decode, *options)]
    target = store.root() / "decoded" / f"{dataset.name}-{kind}-{size}-{fingerprint.of_value([size, looks, code])}.npy"
    files_of_store.tidy(target.parent)
    if not target.exists() or not files_of_store.is_still_whole(target):
        if target.exists():
            warnings.warn(
                f"the decoded file {target} is damaged; it is written again.", store.DamagedEntryWarning, stacklevel=2
            )
        with store.sealed(target) as partial:
            whole = np.lib.format.open_memmap(partial, mode="w+", dtype=dtype, shape=shape)
            _write(np.moveaxis(whole, axis, 0), files, lambda entry: decode(dataset, entry, size, *options), dataset)
            whole.flush()
        files_of_store.note_whole(target)  # `sealed` has just read it
    return np.load(target, mmap_mode="r", allow_pickle=False)


def read_picture(dataset: Dataset, file: Path | str, mode: str) -> Image.Image:
    """A picture in one of Pillow's modes; a BiaslibError where it cannot be read."""
    try:
        with open_picture(file) as opened:
            return opened.convert(mode)
    except UNREADABLE as error:
        raise dataset.damaged(Path(file), str(error)) from error


def shrunk(inside: np.ndarray, size: int) -> np.ndarray:
    """A mask (H, W) at another size: (size, size) bool, True where at least half of a pixel is inside."""
    return _resized(Image.fromarray(inside.astype(np.uint8) * 255), size) >= 128


def _write(rows: np.ndarray, files: Sequence[Any], decode: Callable[[Any], np.ndarray], dataset: Dataset) -> None:
    bar = tqdm(total=len(files), desc=f"decoding {dataset.name}", unit="image", disable=None)
    with bar, ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(files), _CHUNK):
            for row, array in enumerate(pool.map(decode, files[start : start + _CHUNK]), start):
                rows[row] = array
                bar.update()


def _photo(dataset: Dataset, file: Path | str, size: int) -> np.ndarray:
    return _resized(read_picture(dataset, file, "RGB"), size)


def _segmentation(dataset: Dataset, file: Path, size: int) -> np.ndarray:
    return _resized(read_picture(dataset, file, "L"), size) >= 128


def _region(dataset: Dataset, file: Path, size: int, inside: Callable, mode: str) -> np.ndarray:
    return shrunk(inside(np.asarray(read_picture(dataset, file, mode))), size)


def _resized(picture: Image.Image, size: int) -> np.ndarray:
    return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))


def _look(dataset: Dataset, file: Path | str) -> str:
    try:
        state = os.stat(file)  # half a second for all of CelebA, and as long again to ask first whether each is there
    except OSError:
        state = dataset.require(Path(file)).stat()
    return f"{file} {state.st_size} {state.st_mtime_ns}"
