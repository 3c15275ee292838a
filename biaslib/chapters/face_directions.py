"""What the counterfactual pages share: judges of faces, directions, leakage, and the looks no label tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit
from torch import nn

from biaslib import store, training
from biaslib.chapters import attribute_models
from biaslib.errors import BiaslibError
from biaslib.gan.directions import Direction, attribute_direction
from biaslib.statistics import Interval
from biaslib.store import parallel
from biaslib.worlds.faces import STRENGTH, Faces

# the attribute that classifiers are audited for, and the protected one: the paper balances on both
BALANCED_ON: Final = ("Smiling", "Clan")
# what the pages move: on both of the book's generators a plane parts their codes with an accuracy well above .7, the
# judges tell them on rendered faces with a balanced accuracy above .9 and see them in generated ones a third as often
# or more; features of eyes and noses are left alone
MANIPULATED: Final = (
    "Eyeglasses", "Wearing_Hat", "Black_Hair", "Blond_Hair", "Gray_Hair", "Mouth_Slightly_Open", "Smiling",
)  # fmt: skip
LEAST_ACCURACY: Final = 0.7  # of the plane
LEAST_JUDGED: Final = 0.9  # balanced accuracy of the judges
LEAST_DRAWN: Final = 1 / 3  # of the share among rendered faces
# columns of the world's table that no label tells; "backdrop" is how light the background is
UNLABELLED: Final = (
    "skin", "undertone", "backdrop", "light", "x", "y", "zoom", "roll", "turn", "hair_length", "face_width",
)  # fmt: skip
LEAST_R2: Final = 0.5
_PENALTY: Final = 30.0
_SHARE_TESTED: Final = 0.2
# drawn judges have other faces than the models they are asked about; there are no other photographs
_JUDGES_SEED: Final = 6_000_000


def classifiers(
    count: int = 3, seed: int = 0, *, source: str = "generated", images: int = 6000, epochs: int = 7, size: int = 32
) -> list[attribute_models.Experiment]:
    """The judges: models of all attributes, trained on real or rendered faces as they come, never on generated ones.

    Rendered faces are other ones than those of the models under audit. On photographs judges and audited models learn
    from the same photographs, the first ones of the training split, so that they may share an error.

    Args:
        count: how many.
        seed: of the first; each has its own faces.
        source: "generated" (the faces world) or "celeba".
        images: that each is trained on.
        epochs: passes over them.
        size: of the faces, in pixels.
    """
    return [
        attribute_models.Experiment(
            source=source, images=images, epochs=epochs, size=size, seed=_JUDGES_SEED + seed + number,
            detail=1.0 if source == "generated" else 0.0,
        )
        for number in range(count)
    ]  # fmt: skip


def answers(
    networks: Sequence[nn.Module], images: np.ndarray, *, attributes: Sequence[str] = Faces.attributes
) -> pd.DataFrame:
    """What judges say of images: the mean of their probabilities.

    Args:
        networks: as `attribute_models.trained` gives them.
        images: (N, size, size, 3) uint8.
        attributes: what each output tells.

    Returns:
        N rows, one column an attribute, in [0, 1].

    Raises:
        BiaslibError: where the networks have another number of outputs, or there are none.
    """
    if not networks:
        raise BiaslibError("There are no judges to ask: train at least one.")
    found = np.mean([expit(training.predict(network, images)) for network in networks], axis=0)
    if found.shape[1] != len(attributes):
        raise BiaslibError(f"The judges have {found.shape[1]} outputs, not the {len(attributes)} named in attributes.")
    return pd.DataFrame(found, columns=list(attributes))


def directions(
    codes: np.ndarray,
    labels: pd.DataFrame,
    attributes: Sequence[str],
    *,
    balanced_on: tuple[str, ...] = BALANCED_ON,
    each: int = 800,
    seed: int = 0,
) -> dict[str, Direction]:
    """The direction of each attribute, see `gan.directions.attribute_direction`, which also says what is refused."""
    return {
        attribute: attribute_direction(codes, labels, attribute, balanced_on=balanced_on, each=each, seed=seed)
        for attribute in attributes
    }


def askable(accuracy: pd.DataFrame, judged: pd.Series, drawn: pd.DataFrame, rendered: pd.Series) -> pd.Series:
    """Which attributes generators can be asked about: a plane parts their codes, judges know them, and they are drawn.

    Args:
        accuracy: of the linear classifier of codes: a row an attribute, a column a generator; NaN where none was
            fitted.
        judged: balanced accuracy of the judges on rendered faces.
        drawn: a row an attribute, a column a generator: share of its faces in which judges see the attribute.
        rendered: the same of rendered faces; of what judges never see there nothing can be said.

    Returns:
        A bool an attribute: accuracy above .7, judged above .9, and drawn at least a third as often as rendered, with
        every generator.
    """
    often = drawn.div(rendered.where(rendered > 0), axis=0).min(axis=1) >= LEAST_DRAWN
    return (accuracy.min(axis=1, skipna=False) > LEAST_ACCURACY) & (judged > LEAST_JUDGED) & often


@dataclass(frozen=True)
class Looks:
    """Reads factors that no label tells from images of one size: a linear regression on the pixels.

    Attributes:
        size: of the images, in pixels.
        r2: of each factor, on rendered faces that the regression was not fitted on.
        weights: (factors, size · size · 3), for pixels in [-1, 1] and factors in standard deviations.
        offset: (factors,).
    """

    size: int
    r2: pd.Series
    weights: np.ndarray
    offset: np.ndarray

    @property
    def readable(self) -> list[str]:
        """The factors with an R² of at least .5; the others are not told by the pixels."""
        return [str(name) for name in self.r2.index[self.r2 >= LEAST_R2]]

    def __call__(self, images: np.ndarray) -> pd.DataFrame:
        """The readable factors of images (N, size, size, 3) uint8, in standard deviations over rendered faces.

        Raises:
            BiaslibError: for images of another size.
        """
        if images.shape[1:] != (self.size, self.size, 3):
            raise BiaslibError(f"These looks are read from {self.size} px, not from images {images.shape[1:]}.")
        found = _flat(images) @ self.weights.T + self.offset
        return pd.DataFrame(found, columns=list(self.r2.index))[self.readable]


def leaked(changes: np.ndarray, *, resamples: int = 1000, seed: int = 0) -> tuple[Interval, Interval, Interval]:
    """How much directions change what they are named after, and how much the others of these attributes.

    Args:
        changes: (A, A, N): along the direction of attribute a, the change of each attribute b on N codes.
        resamples: of the bootstrap over codes.
        seed: of the bootstrap.

    Returns:
        The mean over attributes of the mean change of the own one; the mean over all pairs of the size of the mean
        change of another one; and the second over the first, so that a shorter way is not taken for a cleaner one
        (NaN where the first is not positive). With 95 % intervals over codes.

    Raises:
        BiaslibError: for fewer than two attributes, or changes that are not of each by each.
    """
    if changes.ndim != 3 or changes.shape[0] != changes.shape[1] or len(changes) < 2:
        raise BiaslibError(f"changes must be (A, A, N) of at least two attributes, not {changes.shape}.")
    count = changes.shape[2]
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples) / count
    # the first column is the estimate itself
    means = changes @ np.concatenate([np.full((1, count), 1 / count), drawn]).T
    own = np.einsum("aar->ar", means).mean(axis=0)
    others = np.abs(means)[~np.eye(len(changes), dtype=bool)].mean(axis=0)
    share = np.divide(others, own, out=np.full_like(own, np.nan), where=own > 0)
    return _over_codes(own, count), _over_codes(others, count), _over_codes(share, count)


def looks(*, size: int = 32, count: int = 6000, seed: int = 5_000_000) -> Looks:
    """The regressions for `UNLABELLED`, fitted on rendered faces; through the store.

    Args:
        size: of the faces, in pixels.
        count: how many, of which a fifth are kept back for R².
        seed: of these faces.
    """
    found = store.get_or_compute(
        "face-looks", (size, count, seed), lambda: parallel.single_threaded(_fitted, size, count, seed), code=_fitted
    )
    return Looks(size, pd.Series(found["r2"], index=list(UNLABELLED)), found["weights"], found["offset"])


def _fitted(size: int, count: int, seed: int) -> dict[str, np.ndarray]:
    from sklearn.linear_model import Ridge

    table = Faces().factors(count, strength=STRENGTH, seed=seed, detail=1.0)
    faces = Faces().render(table, size=size, regions=("background",))
    behind = faces.masks["background"]
    table["backdrop"] = (faces.images.mean(axis=3) * behind).sum((1, 2)) / np.maximum(behind.sum((1, 2)), 1)
    factors = table[list(UNLABELLED)].to_numpy(float)
    factors = (factors - factors.mean(0)) / factors.std(0)
    pixels, kept = _flat(faces.images), round((1 - _SHARE_TESTED) * count)
    model = Ridge(alpha=_PENALTY).fit(pixels[:kept], factors[:kept])
    missed = np.square(model.predict(pixels[kept:]) - factors[kept:]).mean(0) / factors[kept:].var(0)
    return {"r2": 1 - missed, "weights": model.coef_.astype(np.float32), "offset": model.intercept_.astype(np.float32)}


def _over_codes(values: np.ndarray, count: int) -> Interval:
    """The first value with the middle 95 % of the others, which are resamples."""
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Interval(float(values[0]), float(low), float(high), count)


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1).astype(np.float32) / 127.5 - 1
