"""Pictures decoded once into memory maps in the store, so that a second load reads no JPEG."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError
from tqdm import tqdm

from biaslib import fingerprint, store
from biaslib.datasets.registry import Dataset, damaged, require

_CHUNK = 256


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


def _decoded(dataset: Dataset, files: Sequence[Path], size: int, *, mode: str) -> np.ndarray:
    # one look at the folder entries keys the map, so a picture that was replaced is decoded anew
    states = [require(dataset, file).stat() for file in files]
    seen = [(str(file), state.st_size, state.st_mtime_ns) for file, state in zip(files, states, strict=True)]
    key = fingerprint.of_value([mode, size, seen, fingerprint.of_code(_decode_all)])
    target = store.root() / "decoded" / f"{dataset.name}-{mode}-{size}-{key}.npy"
    if not target.exists():
        with store.replacing(target) as partial:
            _decode_all(dataset, files, size, mode, partial)
    return np.load(target, mmap_mode="r", allow_pickle=False)


def _decode_all(dataset: Dataset, files: Sequence[Path], size: int, mode: str, target: Path) -> None:
    shape = (len(files), size, size) + ((3,) if mode == "RGB" else ())
    decoded = np.lib.format.open_memmap(target, mode="w+", dtype=np.uint8 if mode == "RGB" else np.bool_, shape=shape)
    bar = tqdm(total=len(files), desc=f"decoding {dataset.name}", unit="image", disable=None)
    with bar, ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(files), _CHUNK):
            chunk = files[start : start + _CHUNK]
            pictures = list(pool.map(lambda file: _decode(dataset, file, size, mode), chunk))
            decoded[start : start + len(chunk)] = pictures if mode == "RGB" else np.stack(pictures) >= 128
            bar.update(len(chunk))
    decoded.flush()


def _decode(dataset: Dataset, file: Path, size: int, mode: str) -> np.ndarray:
    try:
        with Image.open(file) as opened:
            return np.asarray(opened.convert(mode).resize((size, size), Image.Resampling.BILINEAR))
    except (UnidentifiedImageError, OSError, SyntaxError) as error:  # Pillow's words for a broken picture
        raise damaged(dataset, file, str(error)) from error
