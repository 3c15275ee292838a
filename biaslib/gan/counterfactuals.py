"""Images drawn along directions of a latent space, and what classifiers say of them."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch

from biaslib.errors import BiaslibError
from biaslib.gan.networks import Generator
from biaslib.gan.training import as_pixels

Predict = Callable[[np.ndarray], np.ndarray]

_BATCH: Final = 32  # more images at once leave a CPU's cache
_WHOLE: Final = 16  # a batch of no multiple of it is rounded differently by another number of threads


def latent_codes(count: int, latent: int, *, seed: int = 0) -> np.ndarray:
    """(count, latent) codes from the normal distribution that generators are trained on, float32."""
    return np.random.default_rng(seed).normal(size=(count, latent)).astype(np.float32)


@torch.inference_mode()
def draw(generator: Generator, codes: np.ndarray, *, batch: int = _BATCH) -> np.ndarray:
    """Images (N, size, size, 3) uint8 of codes (N, latent).

    Raises:
        BiaslibError: for codes of another length than the generator's.
    """
    place = next(generator.parameters()).device
    given = torch.from_numpy(np.ascontiguousarray(codes, np.float32))
    parts = given.split(batch)
    filled = [torch.cat([part, part[:1].expand(-len(part) % _WHOLE, -1)]) for part in parts]
    drawn = [as_pixels(generator(part.to(place))) for part in filled]
    return np.concatenate([images[: len(part)] for images, part in zip(drawn, parts, strict=True)])


def traversal(generator: Generator, codes: np.ndarray, direction: np.ndarray, steps: Sequence[float]) -> np.ndarray:
    """The images of codes moved along a direction: G(z + step · d) (Denton et al. 2019, section 4.2).

    Args:
        generator: in evaluation mode.
        codes: (N, latent).
        direction: (latent,), of length 1. A step of 1 turns a code of 128 normal numbers by about 5 degrees.
        steps: lambda, how far.

    Returns:
        (steps, N, size, size, 3) uint8.

    Raises:
        BiaslibError: for codes or a direction of another length than the generator's.
    """
    if np.shape(direction) != (generator.latent,):
        raise BiaslibError(
            f"A direction for this generator has {generator.latent} numbers, not the shape {np.shape(direction)}."
        )
    moved = np.concatenate([codes + step * np.asarray(direction) for step in steps])
    images = draw(generator, moved)
    return images.reshape(len(steps), len(codes), *images.shape[1:])


def scores_along(
    predict: Predict, generator: Generator, codes: np.ndarray, directions: np.ndarray, steps: Sequence[float]
) -> np.ndarray:
    """What classifiers say along each direction.

    Args:
        predict: uint8 images (M, size, size, 3) -> scores (M,) or (M, T).
        generator: in evaluation mode.
        codes: (N, latent).
        directions: (A, latent), of length 1.
        steps: lambda, how far along each.

    Returns:
        (A, steps, N) or (A, steps, N, T) scores.
    """
    found = []
    for direction in directions:
        images = traversal(generator, codes, direction, steps)
        scores = np.asarray(predict(images.reshape(-1, *images.shape[2:])))
        found.append(scores.reshape(len(steps), len(codes), *scores.shape[1:]))
    return np.stack(found)


def leakage(
    predict: Predict, generator: Generator, codes: np.ndarray, directions: np.ndarray, *, step: float = 3.0
) -> np.ndarray:
    """What changes along each direction, as attribute classifiers see it, from -step to +step.

    Args:
        predict: uint8 images (M, size, size, 3) -> probabilities (M, T) of T attributes.
        generator: in evaluation mode.
        codes: (N, latent).
        directions: (A, latent), of length 1.
        step: how far to either side.

    Returns:
        (A, T, N) change of each probability on each code, in [-1, 1]. A direction that changes its own attribute alone
        has one column that is not about 0.
    """
    along = scores_along(predict, generator, codes, directions, (-step, step))
    return np.moveaxis(along[:, 1] - along[:, 0], 2, 1)


def consistency(
    predict: Predict, generator: Generator, codes: np.ndarray, *, between: int = 5, seed: int = 0
) -> np.ndarray:
    """Whether images between two of one class are of that class too (Denton et al. 2019, section 5).

    Args:
        predict: uint8 images (M, size, size, 3) -> probabilities (M,), of which 0.5 is a yes.
        generator: in evaluation mode.
        codes: (N, latent); pairs are drawn among those of one predicted class.
        between: codes on each line, evenly spaced, without its ends.
        seed: of the pairs.

    Returns:
        (pairs, between) bool: whether the answer is that of the ends.

    Raises:
        BiaslibError: where no class has two codes.
    """
    answers = np.asarray(predict(draw(generator, codes))) >= 0.5
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(np.flatnonzero(answers == value)) for value in (False, True)]
    pairs = np.concatenate([rows[: len(rows) // 2 * 2].reshape(-1, 2) for rows in shuffled])
    if len(pairs) == 0:
        raise BiaslibError(f"Among {len(codes)} codes no two have the same answer: draw more of them.")
    shares = np.arange(1, between + 1)[:, None] / (between + 1)
    first, last = codes[pairs[:, 0]], codes[pairs[:, 1]]
    inside = first[:, None] + shares * (last - first)[:, None]
    found = np.asarray(predict(draw(generator, inside.reshape(-1, codes.shape[1])))) >= 0.5
    return np.asarray(found.reshape(len(pairs), between) == answers[pairs[:, :1]])
