"""What can happen to a file: bits that flip, blocks that are lost, ends that are missing, other files in its place."""

import pickle
from collections.abc import Callable
from typing import Final

import numpy as np

Damage = Callable[[bytes], bytes]


def flipped(seed: int) -> Damage:
    """One bit, somewhere."""

    def damage(content: bytes) -> bytes:
        rng = np.random.default_rng(seed)
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        return bytes(changed)

    return damage


def zeroed(seed: int) -> Damage:
    """A block of 4,096 bytes that was not all zeros, somewhere."""

    def damage(content: bytes) -> bytes:
        blocks = [at for at in range(0, len(content), 4096) if any(content[at : at + 4096])]
        at = blocks[np.random.default_rng(seed).integers(len(blocks))]
        length = len(content[at : at + 4096])
        return content[:at] + bytes(length) + content[at + length :]

    return damage


def cut(share: float) -> Damage:
    """The end is missing."""
    return lambda content: content[: int(share * len(content))]


DAMAGES: Final = (
    {f"bit {seed}": flipped(seed) for seed in range(12)}
    | {f"block {seed}": zeroed(seed) for seed in range(6)}
    | {f"cut at {share}": cut(share) for share in (0.0, 0.001, 0.3, 0.9, 0.99999)}
    | {
        "longer": lambda content: content + b"more",
        "first bit": lambda content: bytes([content[0] ^ 1]) + content[1:],
        "last bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        "text": lambda content: b"hello\n",
        "list": lambda content: pickle.dumps([1, 2]),
        "None": lambda content: pickle.dumps(None),
    }
)
