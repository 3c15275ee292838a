"""Codes of faces, directions along which attributes come, and what says which attributes a generated face has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit
from torch import nn

from biaslib import training
from biaslib.chapters import face_generators
from biaslib.chapters.attribute_models import Experiment
from biaslib.chapters.face_generators import GeneratorSetup
from biaslib.errors import BiaslibError, check_number, refused
from biaslib.gan.directions import Direction, as_matrix, attribute_direction, orthogonalised
from biaslib.store import fingerprint, stored
from biaslib.store.files import beside
from biaslib.worlds.faces import HAIR_COLOURS, STRENGTH, Faces

_SAID: Final = beside(__file__)
BALANCED_ON, MANIPULATED = _SAID["balanced_on"], _SAID["manipulated"]
_UNLABELLED_FACTORS: Final = _SAID["unlabelled_factors"]
# accuracy of the plane, balanced accuracy of the attribute classifiers, and share of what is seen in rendered faces
TESTABLE_FROM: Final = {"accuracy": 0.7, "judged": 0.9, "drawn": 1 / 3}
# rendered faces of the regression, of attribute classifiers and of codes are others than those of the models under
# audit; there are no other photographs
_REGRESSION_SEED, _CLASSIFIERS_SEED, _FACES_SEED = 5_000_000, 6_000_000, 7_000_000


def attribute_classifiers(
    count: int = 3, *, source: str = "generated", images: int = 6000, epochs: int = 7, size: int = 32
) -> list[Experiment]:
    """Models of all attributes that judge generated faces; none saw the rendered faces of the models under audit.

    From "celeba" these and the audited models learn from the same photographs, so that they may share an error.
    """
    detail = 1.0 if source == "generated" else 0.0
    first = Experiment(source=source, images=images, epochs=epochs, size=size, seed=_CLASSIFIERS_SEED, detail=detail)
    return [replace(first, seed=first.seed + number) for number in range(count)]


def attribute_probabilities(
    networks: Sequence[nn.Module], images: np.ndarray, *, attributes: Sequence[str] = Faces.attributes
) -> pd.DataFrame:
    """Mean probabilities by attribute classifiers of images (N, size, size, 3) uint8: a column an output."""
    if not networks:
        raise BiaslibError("There are no attribute classifiers to ask: train at least one.")
    means = np.mean([expit(training.predict(network, images)) for network in networks], axis=0)
    if means.shape[1] != len(attributes):
        raise refused("attributes that are no outputs", outputs=means.shape[1], attributes=len(attributes))
    return pd.DataFrame(means, columns=list(attributes))


def testable_attributes(
    accuracy: pd.DataFrame, judged: pd.Series, drawn: pd.DataFrame, rendered: pd.Series
) -> pd.Series:
    """Which attributes generators can be asked about: more than `TESTABLE_FROM` with every one of them.

    A row an attribute: `accuracy` of the linear classifier of codes (NaN: none was fitted) and share of faces `drawn`
    in which the attribute classifiers see it, a column a generator; `judged`, their balanced accuracy on rendered
    faces, and the share of `rendered` faces in which they see it.
    """
    often = drawn.div(rendered.where(rendered > 0), axis=0).min(axis=1) >= TESTABLE_FROM["drawn"]
    return (accuracy.min(axis=1, skipna=False) > TESTABLE_FROM["accuracy"]) & (judged > TESTABLE_FROM["judged"]) & often


class NuisanceRegressor:
    """Reads factors that no label tells from images: a linear regression on the pixels of so many rendered faces."""

    def __init__(self, size: int = 32, *, count: int = 6000) -> None:
        fit = _regression(size, count)
        self.size = size
        self.r2 = pd.Series(fit["r2"], index=list(_UNLABELLED_FACTORS))  # of each factor, on faces left out
        self._weights, self._offset = fit["weights"], fit["offset"]

    @property
    def factors(self) -> list[str]:
        """Those with an R² of at least .5; the others cannot be read from the pixels."""
        return [str(name) for name in self.r2.index[self.r2 >= 0.5]]

    def __call__(self, images: np.ndarray) -> pd.DataFrame:
        """The factors of images (N, size, size, 3) uint8, in standard deviations over rendered faces."""
        if images.shape[1:] != (self.size, self.size, 3):
            raise BiaslibError(f"Factors are read from {self.size} px here, not from images {images.shape[1:]}.")
        values = _flat(images) @ self._weights.T + self._offset
        return pd.DataFrame(values, columns=list(self.r2.index))[self.factors]


def with_attribute(table: pd.DataFrame, attribute: str, value: bool) -> pd.DataFrame:
    """A table of faces with an attribute or without; any other colour of the hair gives way to the one asked for."""
    cleared = dict.fromkeys(HAIR_COLOURS, False) if attribute in HAIR_COLOURS else {}
    return table.assign(**cleared | {attribute: value}).astype(table.dtypes)


@dataclass(frozen=True)
class CodeRequest:
    """All that codes of rendered faces, as the encoder sees them, depend on (Denton et al. 2019, section 4.2)."""

    generator: str | GeneratorSetup  # as `face_generators.load` takes it
    count: int
    seed: int = 0  # of the faces

    def __post_init__(self) -> None:
        check_number("count", self.count, 1, whole=True)

    def fingerprint(self) -> str:
        """Of the generator's weights and its encoder's: another training under the same name is another generator."""
        networks = face_generators.load(self.generator)
        if not isinstance(networks, face_generators.FaceGenerator):  # somebody's own: by what it does
            images = networks.draw(codes := networks.sample(16, 0))
            return fingerprint.of_value([codes, images, networks.encode(images)])
        states = [network.state_dict().items() for network in (networks.generator, networks.encoder)]
        return fingerprint.of_value([{name: tensor.cpu().numpy() for name, tensor in state} for state in states])


def labelled_codes(request: CodeRequest) -> tuple[np.ndarray, pd.DataFrame]:
    """(count, latent) codes, and bool columns: attributes, and whether unlabelled factors are above their mean."""
    arrays = dict(labelled(request))
    return arrays.pop("codes"), pd.DataFrame(arrays)


@dataclass(frozen=True)
class _AuditDirections:
    fitted: dict[str, Direction]  # of each attribute, as fitted
    vectors: np.ndarray  # (A, latent), of length 1: what faces are moved along, in the same order
    named: np.ndarray  # (K, latent): projected out of random directions, so that a control is treated alike; or K is 0


def audit_directions(request: CodeRequest, attributes: Sequence[str], *, orthogonal: bool = True) -> _AuditDirections:
    """Directions of attributes; if `orthogonal`, without what they share with one another and all factors."""
    codes, labels = labelled_codes(request)
    names = (*BALANCED_ON, *(str(name) for name in labels if name in _UNLABELLED_FACTORS)) if orthogonal else ()
    # a factor that is the same on all faces has no direction
    others = [name for name in names if 0 < labels[name].mean() < 1 and name not in attributes]
    fitted = {
        name: attribute_direction(codes, labels, name, balanced_on=BALANCED_ON, seed=request.seed)
        for name in [*attributes, *others]
    }
    own, named = {name: fitted[name] for name in attributes}, as_matrix(fitted)
    vectors, projected = (orthogonalised(named)[: len(own)], named) if orthogonal else (named, named[:0])
    return _AuditDirections(own, vectors, projected)


@stored("face-looks")
def _regression(size: int, count: int) -> dict[str, np.ndarray]:
    from sklearn.linear_model import Ridge

    table = Faces().factors(count, strength=STRENGTH, seed=_REGRESSION_SEED, detail=1.0)
    faces = Faces().render(table, size=size, regions=("background",))
    behind = faces.masks["background"]
    table["backdrop"] = (faces.images.mean(axis=3) * behind).sum((1, 2)) / np.maximum(behind.sum((1, 2)), 1)
    factors = table[list(_UNLABELLED_FACTORS)].to_numpy(float)
    factors = (factors - factors.mean(0)) / factors.std(0)
    pixels, split = _flat(faces.images), round(0.8 * count)
    model = Ridge(alpha=30.0).fit(pixels[:split], factors[:split])
    missed = np.square(model.predict(pixels[split:]) - factors[split:]).mean(0) / factors[split:].var(0)
    return {"r2": 1 - missed, "weights": model.coef_.astype(np.float32), "offset": model.intercept_.astype(np.float32)}


@stored("face-codes", passes=lambda request: (request.count, 1))
def labelled(request: CodeRequest) -> dict[str, np.ndarray]:
    """What `labelled_codes` asks of the store, by name."""
    networks = face_generators.load(request.generator)
    table = Faces().factors(request.count, strength=STRENGTH, seed=_FACES_SEED + request.seed, detail=1.0)
    images = Faces().render(table, size=networks.size, regions=()).images
    attributes, factors = table[list(Faces.attributes)].astype(bool), NuisanceRegressor(networks.size)(images) > 0
    labels = pd.concat([attributes, factors], axis=1)
    return {"codes": networks.encode(images), **{str(name): labels[name].to_numpy() for name in labels}}


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1).astype(np.float32) / 127.5 - 1
