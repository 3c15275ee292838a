"""Pictures decoded once into memory maps in the store, so that a second load reads no JPEG."""

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from biaslib import store
from biaslib.datasets.picture_files import UNREADABLE, open_picture
from biaslib.datasets.registry import Dataset, damaged, require
from biaslib.store import fingerprint

_CHUNK = 256

# From a picture (H, W) or (H, W, 3) uint8 to the part of it that is meant, (H, W) bool.
Inside = Callable[[np.ndarray], np.ndarray]


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
    return _decoded(dataset, files, size, mode="RGB")


def segmentations(dataset: Dataset, files: Sequence[Path], *, size: int) -> np.ndarray:
    """Masks from grey pictures, True where the resized picture is at least half white.

    Returns:
        (N, size, size) bool, a read-only memory map.

    Raises:
        BiaslibError: for a missing or damaged file.
    """
    return _decoded(dataset, files, size, mode="L")


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
    return _decoded(dataset, files, size, mode=mode, inside=inside)


def _decoded(
    dataset: Dataset, files: Sequence[Path], size: int, *, mode: str, inside: Inside | None = None
) -> np.ndarray:
    # one look at the folder entries keys the map, so a picture that was replaced is decoded anew
    states = [require(dataset, file).stat() for file in files]
    seen = [(str(file), state.st_size, state.st_mtime_ns) for file, state in zip(files, states, strict=True)]
    parts = [mode, size, seen, fingerprint.of_code(_decode_all), inside and fingerprint.of_code(inside)]
    kind = mode if inside is None else "region"
    target = store.root() / "decoded" / f"{dataset.name}-{kind}-{size}-{fingerprint.of_value(parts)}.npy"
    return mapped(target, lambda partial: _decode_all(dataset, files, size, mode, inside, partial))


def mapped(target: Path, write: Callable[[Path], None]) -> np.ndarray:
    """The array in a file of the store, as a read-only memory map.

    The file's SHA-256 is compared once in a process, and again where the file has changed since. That reads all of
    it: see `store.is_whole` for the cost.

    Args:
        target: the file.
        write: writes the array to a path in NumPy's format; called where the file is missing or damaged.

    Warns:
        DamagedEntryWarning: the file is damaged and is written again.
    """
    if not target.exists() or not _is_whole(target, *_state(target)):
        if target.exists():
            warnings.warn(
                f"the decoded file {target} is damaged; it is written again.", store.DamagedEntryWarning, stacklevel=2
            )
        with store.sealed(target) as partial:
            write(partial)
    return np.load(target, mmap_mode="r", allow_pickle=False)


def _state(file: Path) -> tuple[int, int, int]:
    state = file.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


@functools.lru_cache(maxsize=256)
def _is_whole(file: Path, *state: int) -> bool:
    return store.is_whole(file)


def _decode_all(
    dataset: Dataset, files: Sequence[Path], size: int, mode: str, inside: Inside | None, target: Path
) -> None:
    colour = mode == "RGB" and inside is None
    shape = (len(files), size, size) + ((3,) if colour else ())
    decoded = np.lib.format.open_memmap(target, mode="w+", dtype=np.uint8 if colour else np.bool_, shape=shape)
    bar = tqdm(total=len(files), desc=f"decoding {dataset.name}", unit="image", disable=None)
    with bar, ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(files), _CHUNK):
            chunk = files[start : start + _CHUNK]
            pictures = list(pool.map(lambda file: _decode(dataset, file, size, mode, inside), chunk))
            decoded[start : start + len(chunk)] = pictures if colour else np.stack(pictures) >= 128
            bar.update(len(chunk))
    decoded.flush()


def _decode(dataset: Dataset, file: Path, size: int, mode: str, inside: Inside | None) -> np.ndarray:
    try:
        with open_picture(file) as opened:
            picture = opened.convert(mode)
            if inside is not None:
                picture = Image.fromarray(inside(np.asarray(picture)).astype(np.uint8) * 255)
            return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))
    except UNREADABLE as error:
        raise damaged(dataset, file, str(error)) from error
