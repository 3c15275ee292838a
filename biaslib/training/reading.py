"""In which order an epoch shows its images, and how they are read: also from a map that is larger than the memory."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import torch

from biaslib.samples import MappedRows

# bytes: of a memory map from which size on it is streamed, of what is then read together, and of each piece of that
_STREAMED, _STRETCH, _BLOCK = 2**32, 2**27, 2**21
_AT_ONCE: Final = 256  # images that are in memory twice while they are read


def batches(images: Any, batch: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of an epoch, N images in random order, in batches.

    A large memory map is cut into blocks. Those come in random order, so many at a time as fit into a stretch, and the
    rows of a stretch are shuffled.
    """
    order = _order(images, batch, rng)
    # a last batch of one image has no variance for batch normalisation
    return np.split(order, [i for i in range(batch, len(order), batch) if len(order) - i > 1])


def pixels(images: Any, chosen: list[np.ndarray], device: torch.device) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """The rows of each batch with its pixels, on the CPU; a thread reads ahead what is streamed or goes to a card."""
    together = _batches_together(images, len(chosen[0]) if chosen else 1)
    stretches = [chosen[start : start + together] for start in range(0, len(chosen), together)]
    parts: Iterator[torch.Tensor] = (_read(images, np.concatenate(stretch), device) for stretch in stretches)
    if together > 1 or device.type == "cuda":
        parts = _ahead(parts)
    for stretch, part in zip(stretches, parts, strict=True):
        yield from zip(stretch, part.split([len(rows) for rows in stretch]), strict=True)


def _order(images: Any, batch: int, rng: np.random.Generator) -> np.ndarray:
    n, stretch = len(images), batch * _batches_together(images, batch)
    if stretch == batch:
        return rng.permutation(n)
    by_place = np.argsort(images.rows, kind="stable") if isinstance(images, MappedRows) else np.arange(n)
    blocks = np.array_split(by_place, max(1, images.nbytes // _BLOCK))
    order = np.concatenate([blocks[block] for block in rng.permutation(len(blocks))])
    return np.concatenate([rng.permutation(order[start : start + stretch]) for start in range(0, n, stretch)])


def _batches_together(images: Any, batch: int) -> int:
    """How many batches a stretch of a large map has; 1 of all else."""
    if not isinstance(images, np.memmap | MappedRows) or images.nbytes <= _STREAMED:
        return 1
    return max(2, _STRETCH * len(images) // (images.nbytes * batch))


def _ahead(parts: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The same tensors; a thread makes the next one while the caller is at work."""
    with ThreadPoolExecutor(1) as thread:
        waiting = deque([thread.submit(next, parts, None)])
        while (part := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, parts, None))
            yield part
            del part


def _read(images: Any, rows: np.ndarray, device: torch.device) -> torch.Tensor:
    # sorted rows make reading a memory map sequential; the targets are picked by `rows`, so the pixels go back
    pixels = torch.empty((len(rows), *images.shape[1:]), dtype=torch.uint8, pin_memory=device.type == "cuda")
    order = np.argsort(rows)
    for start in range(0, len(order), _AT_ONCE):
        part = order[start : start + _AT_ONCE]
        pixels.numpy()[part] = images[rows[part]]
    return pixels
