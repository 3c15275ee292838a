"""How far generated images are from real ones, in the features of a classifier."""

from typing import Any

import numpy as np
import torch

from biaslib import models
from biaslib.errors import BiaslibError


def frechet_distance(a: np.ndarray, b: np.ndarray) -> float:
    r"""The Fréchet distance between normal distributions fitted to two sets of features (Heusel et al. 2017, eq. 6).

    $$\lVert \mu_a - \mu_b \rVert^2
      + \operatorname{tr}\big(\Sigma_a + \Sigma_b - 2 (\Sigma_a \Sigma_b)^{1/2}\big)$$

    With features of Inception it is the FID; with others it has another unit and compares with itself alone. It falls
    with the number of images although nothing gets better, so only sets of one size are to be compared.

    Args:
        a: (N, d) features, N > 1.
        b: (M, d) features, M > 1.

    Returns:
        At least 0, in the squared unit of the features; 0 for equal means and covariances.

    Raises:
        BiaslibError: for sets of one image, other shapes, or features that are not finite.
    """
    for features in (a, b):
        if np.ndim(features) != 2 or len(features) < 2 or np.shape(features)[1] != np.shape(a)[1]:
            raise BiaslibError(
                f"Features must be (N, d) of at least 2 images and of one d, not {np.shape(a)} and {np.shape(b)}."
            )
        if not np.isfinite(features).all():
            raise BiaslibError("Features must be finite: leave images whose features are not out.")
    of_a, of_b = (np.cov(np.asarray(features, float), rowvar=False).reshape(np.shape(a)[1], -1) for features in (a, b))
    apart = np.mean(a, axis=0, dtype=float) - np.mean(b, axis=0, dtype=float)
    # the product's own root is that of a symmetric matrix with the same eigenvalues, which cannot turn complex
    half = _root(of_a)
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(half @ of_b @ half), 0, None)).sum()
    return float(max(0.0, apart @ apart + np.trace(of_a) + np.trace(of_b) - 2 * shared))


@torch.inference_mode()
def features(model: Any, images: np.ndarray, *, batch: int = 256) -> np.ndarray:
    """The features that a classifier's last layer sees: its map, averaged over the places.

    Args:
        model: with timm's `forward_features`, in evaluation mode.
        images: (N, size, size, 3) uint8.
        batch: images at once.

    Returns:
        (N, channels) float32.
    """
    place = next(model.parameters()).device
    starts = range(0, len(images), batch)
    parts = [models.to_tensor(images[start : start + batch], place, model=model) for start in starts]
    return torch.cat([model.forward_features(part).float().mean(dim=(2, 3)) for part in parts]).cpu().numpy()


def _root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric square root of a covariance."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)
