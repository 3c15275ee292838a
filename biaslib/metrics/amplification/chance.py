"""What errors that know nothing of the other side would give: the baseline of an amplification."""

import numpy as np

from biaslib.errors import BiaslibError
from biaslib.metrics.amplification.labels import Labels


def independent_errors(test: Labels, predicted: Labels, *, rng: np.random.Generator, together: bool = True) -> Labels:
    r"""The same predictions dealt anew, so that errors about attributes and errors about groups are unrelated.

    Predicted attributes change places among the images of exactly the same true attributes, predicted groups among
    those of the same true group. Every $P(\hat m \mid m)$ and $P(\hat g \mid g)$ stays as it was, while the predicted
    attributes no longer depend on the group given the true attributes, nor the predicted group on the attributes given
    the true group. Amplification that is left is that of mere errors: they wash associations out, and absolute changes
    count that. Attributes are predicted of one image together, so which errors go with which is kept.

    Where there are many attributes, hardly two images have exactly the same ones, and nothing could change places. Then
    deal each attribute for itself (`together=False`) among the images that agree in it: every attribute keeps its rates
    of misses and false alarms, and errors about different attributes become unrelated, too.

    Args:
        test: labels of the test images.
        predicted: what the model says of them, in their order.
        rng: deals.
        together: deal all attributes of an image at once.

    Returns:
        Predictions for the same images.

    Raises:
        BiaslibError: for predictions of another number of images.
    """
    if len(predicted) != len(test):
        raise BiaslibError(f"{len(predicted)} predictions for {len(test)} test images: predict every test image once.")
    if together:
        patterns = np.unique(test.attributes, axis=0, return_inverse=True)[1].ravel()
        attributes = predicted.attributes[_dealt(patterns, rng)]
    else:
        pairs = zip(test.attributes.T, predicted.attributes.T, strict=True)
        attributes = np.column_stack([said[_dealt(true, rng)] for true, said in pairs])
    return Labels(attributes, predicted.groups[_dealt(test.groups, rng)], predicted.names)


def _dealt(kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random permutation of the rows that takes each to one of its own kind."""
    source = np.empty(len(kinds), np.intp)
    source[np.argsort(kinds, kind="stable")] = np.lexsort((rng.random(len(kinds)), kinds))
    return source
