"""Pictures: how they are opened, and decoded once into memory maps in the store, so that a second load reads none."""

import functools
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
from biaslib.datasets.registry import Dataset, damaged, require
from biaslib.store import fingerprint

# Pillow also knows formats that start another program to be read, as EPS does, and goes by the content, not the ending
_FORMATS: Final = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
# what Pillow raises for a file that is no picture, is cut off, or is suspiciously large
UNREADABLE: Final = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
_CHUNK = 256

# From a picture (H, W) or (H, W, 3) uint8 to the part of it that is meant, (H, W) bool.
Inside = Callable[[np.ndarray], np.ndarray]


def open_picture(file: Path) -> Image.Image:
    """A picture of a format that reads nothing but itself; its pixels are not read yet.

    Raises:
        OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError: where it cannot be read (`UNREADABLE`), here
            or when its pixels are read.
    """
    return Image.open(file, formats=_FORMATS)


def photos(dataset: Dataset, files: Sequence[Path], *, size: int) -> np.ndarray:
    """Photos as a read-only memory map.

    Args:
        dataset: whom to name where a file is missing or damaged.
        files: N image files of any format and size.
        size: each picture is resized to size x size as a whole (bilinear, antialiased); nothing is cropped.

    Returns:
        (N, size, size, 3) uint8, RGB.

    Raises:
        BiaslibError: for a missing or damaged file.
    """
    return once(dataset, "RGB", files, _photo, size, shape=(len(files), size, size, 3), dtype=np.uint8)


def segmentations(dataset: Dataset, files: Sequence[Path], *, size: int) -> np.ndarray:
    """(N, size, size) bool, a read-only memory map: True where the resized grey picture is at least half white.

    Raises:
        BiaslibError: for a missing or damaged file.
    """
    return once(dataset, "L", files, _segmentation, size, shape=(len(files), size, size))


def regions(dataset: Dataset, files: Sequence[Path], inside: Inside, *, size: int, mode: str = "L") -> np.ndarray:
    """Masks that a function finds in each picture at its own size, True where at least half of a resized pixel is.

    Args:
        dataset: whom to name where a file is missing or damaged.
        files: N image files of any format and size.
        inside: a function of a module (its source is a part of the map's key).
        size: height and width of the masks.
        mode: what the function is given: "L" (H, W) or "RGB" (H, W, 3), uint8.

    Returns:
        (N, size, size) bool, a read-only memory map.

    Raises:
        BiaslibError: for a missing or damaged file.
    """
    return once(dataset, "region", files, _region, size, inside, mode, shape=(len(files), size, size))


def once(
    dataset: Dataset,
    kind: str,
    files: Sequence[Path] | Sequence[Mapping[str, Path]],
    decode: Callable[..., np.ndarray],
    size: int,
    *options: Any,
    shape: tuple[int, ...],
    dtype: type = np.bool_,
    axis: int = 0,
) -> np.ndarray:
    """What a function makes of each picture, written to the store once, as a read-only memory map.

    Args:
        dataset: whom to name where a file is missing.
        kind: a word for the map's name.
        files: N files, or N times several of them by their names.
        decode: from dataset, an entry of `files`, `size` and `options` to that entry's array; functions count with
            their source, so that another way of decoding is another map.
        size: of the arrays, in pixels.
        options: functions and plain values.
        shape: of all arrays together.
        dtype: of the arrays.
        axis: along which the entries lie.

    Raises:
        BiaslibError: for a missing or damaged file.

    Warns:
        DamagedEntryWarning: the map was damaged and is written again.
    """
    named = [entry if isinstance(entry, Mapping) else {"": entry} for entry in files]
    # one look at the folder entries keys the map, so a picture that was replaced is decoded anew
    states = [[(name, str(file), require(dataset, file).stat()) for name, file in entry.items()] for entry in named]
    looks = [[(name, file, state.st_size, state.st_mtime_ns) for name, file, state in entry] for entry in states]
    code = [fingerprint.of_code(part) if callable(part) else part for part in (_write, decode, *options)]
    target = store.root() / "decoded" / f"{dataset.name}-{kind}-{size}-{fingerprint.of_value([size, looks, code])}.npy"
    if not target.exists() or not _is_whole(target, *_state(target)):
        if target.exists():
            warnings.warn(
                f"the decoded file {target} is damaged; it is written again.", store.DamagedEntryWarning, stacklevel=2
            )
        with store.sealed(target) as partial:
            whole = np.lib.format.open_memmap(partial, mode="w+", dtype=dtype, shape=shape)
            _write(np.moveaxis(whole, axis, 0), files, lambda entry: decode(dataset, entry, size, *options), dataset)
            whole.flush()
    return np.load(target, mmap_mode="r", allow_pickle=False)


def read_picture(dataset: Dataset, file: Path, mode: str) -> Image.Image:
    """A picture in one of Pillow's modes.

    Raises:
        BiaslibError: where it cannot be read.
    """
    try:
        with open_picture(file) as opened:
            return opened.convert(mode)
    except UNREADABLE as error:
        raise damaged(dataset, file, str(error)) from error


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


def _photo(dataset: Dataset, file: Path, size: int) -> np.ndarray:
    return _resized(read_picture(dataset, file, "RGB"), size)


def _segmentation(dataset: Dataset, file: Path, size: int) -> np.ndarray:
    return _resized(read_picture(dataset, file, "L"), size) >= 128


def _region(dataset: Dataset, file: Path, size: int, inside: Inside, mode: str) -> np.ndarray:
    return shrunk(inside(np.asarray(read_picture(dataset, file, mode))), size)


def _resized(picture: Image.Image, size: int) -> np.ndarray:
    return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))


def _state(file: Path) -> tuple[int, int, int]:
    state = file.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


@functools.lru_cache(maxsize=256)  # once in a process, and again where the file has changed since: all of it is read
def _is_whole(file: Path, *state: int) -> bool:
    return store.is_whole(file)
