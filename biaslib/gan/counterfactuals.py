"""Images drawn along directions of a latent space: what classifiers say of them, how far they are from real ones.

Codes are (N, latent), directions (A, latent) of length 1, and `predict` is a classifier: uint8 images (M, size, size,
3) -> scores (M,) or (M, T). A generator is one of ours, in evaluation mode, or any other `Generator`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import torch

from biaslib import models
from biaslib.errors import BiaslibError, reason, refused
from biaslib.gan.networks import GeneratorNetwork
from biaslib.gan.training import as_pixels
from biaslib.store.files import named

_Predict = Callable[[np.ndarray], np.ndarray]

_BATCH: Final = 32  # more images at once leave a CPU's cache
_WHOLE: Final = 16  # a batch of no multiple of it is rounded differently by another number of threads


@runtime_checkable
class Generator(Protocol):
    """What draws images from codes: those of the book, a StyleGAN, a diffusion autoencoder, or your own."""

    size: int  #: height and width of its images, in pixels

    def sample(self, n: int, seed: int) -> np.ndarray:
        """Codes (n, latent) of images that it draws well; the same for the same seed."""

    def draw(self, codes: np.ndarray) -> np.ndarray:
        """Images (N, size, size, 3) uint8 of codes (N, latent)."""

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Codes (N, latent) of images, from which it draws something like them."""


_Drawer = GeneratorNetwork | Generator


def opened(name: str) -> Generator:
    """A generator of your own, `module:object` or a function without arguments; importing it runs its maker's code.

    A `BiaslibError` is raised where it cannot be imported from the working directory or is no `Generator`.
    """
    try:
        found = named(name)
        found = found() if isinstance(found, type) or not isinstance(found, Generator) else found
    except Exception as error:  # it is the user's own code
        raise BiaslibError(f"{name} does not give a generator ({reason(error)}): give module:object.") from error
    if not isinstance(found, Generator):
        raise BiaslibError(f"{name} is no generator: it needs size, sample(n, seed), draw(codes) and encode(images).")
    return found


def latent_codes(count: int, latent: int, *, seed: int = 0) -> np.ndarray:
    """Codes (count, latent) float32 from the normal distribution that generators are trained on."""
    return np.random.default_rng(seed).normal(size=(count, latent)).astype(np.float32)


@torch.inference_mode()
def draw(generator: _Drawer, codes: np.ndarray, *, batch: int = _BATCH) -> np.ndarray:
    """Images (N, size, size, 3) uint8 of codes (N, latent); a BiaslibError where these have another length."""
    if not isinstance(generator, GeneratorNetwork):
        images, wanted = np.asarray(generator.draw(codes)), (len(codes), generator.size, generator.size, 3)
        if images.dtype != np.uint8 or images.shape != wanted:
            found = f"{images.dtype} {images.shape} of {len(codes)} codes"
            raise BiaslibError(f"The generator drew {found}: draw(codes) gives uint8 {wanted}.")
        return images
    place = next(generator.parameters()).device
    parts = torch.from_numpy(np.ascontiguousarray(codes, np.float32)).split(batch)
    filled = [torch.cat([part, part[:1].expand(-len(part) % _WHOLE, -1)]) for part in parts]
    drawn = [as_pixels(generator(part.to(place))) for part in filled]
    return np.concatenate([images[: len(part)] for images, part in zip(drawn, parts, strict=True)])


def traversal(generator: _Drawer, codes: np.ndarray, direction: np.ndarray, steps: Sequence[float]) -> np.ndarray:
    """The images of codes moved along a direction: G(z + step · d) (Denton et al. 2019, section 4.2).

    They are (steps, N, size, size, 3) uint8. A step of 1 along a direction of length 1 turns a code of 128 normal
    numbers by about 5 degrees. A direction of another length than the codes' is a `BiaslibError`.
    """
    if np.shape(direction) != codes.shape[1:]:
        raise refused("direction of another length", n=codes.shape[1], shape=np.shape(direction))
    moved = np.concatenate([codes + step * np.asarray(direction) for step in steps])
    images = draw(generator, moved)
    return images.reshape(len(steps), len(codes), *images.shape[1:])


def leakage(
    predict: _Predict, generator: _Drawer, codes: np.ndarray, directions: np.ndarray, *, step: float = 3.0
) -> np.ndarray:
    """(A, T, N) changes, from -step to +step, of what classifiers of T attributes say: pure directions change one."""
    changes = []
    for direction in directions:
        images = traversal(generator, codes, direction, (-step, step))
        before, after = np.asarray(predict(np.concatenate(images))).reshape(2, len(codes), -1)
        changes.append(after - before)
    return np.moveaxis(np.stack(changes), 2, 1)


def consistency(
    predict: _Predict, generator: _Drawer, codes: np.ndarray, *, between: int = 5, seed: int = 0
) -> np.ndarray:
    """Whether images between two of one class are of that class too (Denton et al. 2019, section 5).

    Pairs are drawn, from the seed, among the codes of one predicted class: a probability of 0.5 is a yes. `between`
    codes lie evenly on the line of each pair, without its ends. Whether the answer there is that of the ends is
    (pairs, between) bool; a `BiaslibError` is raised where no class has two codes.
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


def frechet_distance(a: np.ndarray, b: np.ndarray) -> float:
    r"""The Fréchet distance between normal distributions fitted to two sets of features (Heusel et al. 2017, eq. 6).

    $$\lVert \mu_a - \mu_b \rVert^2
      + \operatorname{tr}\big(\Sigma_a + \Sigma_b - 2 (\Sigma_a \Sigma_b)^{1/2}\big)$$

    With features of Inception it is the FID; with others it has another unit and compares with itself alone. It falls
    with the number of images although nothing gets better, so only sets of one size are to be compared. The sets are
    (N, d) and (M, d), finite, N and M > 1; others are a `BiaslibError`. The distance is at least 0, in the squared unit
    of the features; it is 0 for equal means and covariances.
    """
    for features in (a, b):
        if np.ndim(features) != 2 or len(features) < 2 or np.shape(features)[1] != np.shape(a)[1]:
            raise refused("features that do not compare", a=np.shape(a), b=np.shape(b))
        if not np.isfinite(features).all():
            raise BiaslibError("Features must be finite: leave images whose features are not out.")
    of_a, of_b = (np.cov(np.asarray(features, float), rowvar=False).reshape(np.shape(a)[1], -1) for features in (a, b))
    apart = np.mean(a, axis=0, dtype=float) - np.mean(b, axis=0, dtype=float)
    # the product's own root is that of a symmetric matrix with the same eigenvalues, which cannot turn complex
    values, vectors = np.linalg.eigh(of_a)
    half = np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)  # the root of one of them
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(half @ of_b @ half), 0, None)).sum()
    return float(max(0.0, apart @ apart + np.trace(of_a) + np.trace(of_b) - 2 * shared))


@torch.inference_mode()
def features(model: Any, images: np.ndarray, *, batch: int = 256) -> np.ndarray:
    """What the last layer sees of uint8 images, (N, channels) float32: the mean of timm's `forward_features`."""
    place = next(model.parameters()).device
    starts = range(0, len(images), batch)
    parts = [models.to_tensor(images[start : start + batch], place, model=model) for start in starts]
    return torch.cat([model.forward_features(part).float().mean(dim=(2, 3)) for part in parts]).cpu().numpy()
