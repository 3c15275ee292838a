"""In which order an epoch shows its images, and how they are read: also from a map that is larger than the memory."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import torch

from biaslib.samples import MappedRows

# bytes: of a memory map from which size on it is streamed, of what is then read together, and of each piece of that
_STREAMED, _STRETCH, _BLOCK = 2**32, 2**26, 2**20
_AT_ONCE: Final = 256  # images that are in memory twice while they are read
_AHEAD: Final = 8  # batches that wait while the next stretch is read

_Batch = tuple[np.ndarray, torch.Tensor]


def batches(images: Any, batch: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of an epoch in random order, in batches; of a large map, blocks are read and shuffled together."""
    n, stretch = len(images), batch * _batches_together(images, batch)
    if stretch == batch:
        order = rng.permutation(n)
    else:
        by_place = np.argsort(images.rows, kind="stable") if isinstance(images, MappedRows) else np.arange(n)
        blocks = np.array_split(by_place, max(1, images.nbytes // _BLOCK))
        order = np.concatenate([blocks[block] for block in rng.permutation(len(blocks))])
        order = np.concatenate([rng.permutation(order[start : start + stretch]) for start in range(0, n, stretch)])
    # a last batch of one image has no variance for batch normalisation
    return np.split(order, [i for i in range(batch, len(order), batch) if len(order) - i > 1])


def pixels(images: Any, chosen: list[np.ndarray], device: torch.device) -> Iterator[_Batch]:
    """The rows of each batch with its pixels, on the CPU; a thread reads ahead what is streamed or goes to a card."""
    read = _read(images, chosen, _batches_together(images, len(chosen[0]) if chosen else 1))
    if device.type == "cuda":
        return _ahead((rows, part.pin_memory()) for rows, part in read)
    return read if _batches_together(images, 1) == 1 else _ahead(read)


def _batches_together(images: Any, batch: int) -> int:
    """How many batches a stretch of a large map has; 1 of all else."""
    if not isinstance(images, np.memmap | MappedRows) or images.nbytes <= _STREAMED:
        return 1
    return max(2, _STRETCH * len(images) // (images.nbytes * batch))


def _read(images: Any, chosen: list[np.ndarray], together: int) -> Iterator[_Batch]:
    for start in range(0, len(chosen), together):
        stretch = chosen[start : start + together]
        everything = _pixels(images, np.concatenate(stretch))
        for rows, part in zip(stretch, everything.split([len(rows) for rows in stretch]), strict=True):
            # a part would keep all of a stretch in memory while the next one is read
            yield rows, part if together == 1 else part.clone()
        del everything, part


def _ahead(parts: Iterator[_Batch]) -> Iterator[_Batch]:
    """The same batches; a thread reads the next ones while the caller is at work."""
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(next, parts, None) for _ in range(_AHEAD))
        while (part := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, parts, None))
            yield part


def _pixels(images: Any, rows: np.ndarray) -> torch.Tensor:
    # sorted rows make reading a memory map sequential; the targets are picked by `rows`, so the pixels go back
    pixels = np.empty((len(rows), *images.shape[1:]), np.uint8)
    order = np.argsort(rows)
    for start in range(0, len(order), _AT_ONCE):
        part = order[start : start + _AT_ONCE]
        pixels[part] = images[rows[part]]
    return torch.from_numpy(pixels)
