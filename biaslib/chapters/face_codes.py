"""Codes of faces with labels, on which directions are fitted; through the store, so that pages have the same."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from torch import nn

from biaslib import store
from biaslib.chapters import attribute_models, face_generators
from biaslib.chapters.attribute_models import Experiment, Key, keyed, known, known_attributes
from biaslib.chapters.face_directions import UNLABELLED, Looks, answers, looks
from biaslib.chapters.face_generators import Trained
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import draw, latent_codes
from biaslib.gan.encoder import encoded
from biaslib.gan.networks import Generator
from biaslib.store import fingerprint, parallel
from biaslib.worlds.faces import STRENGTH, Faces

WAYS: Final = ("encoded", "generated")
# rendered faces that are encoded are others than those of models and judges, codes others than those of the audits
_FACES_SEED, _CODES_SEED = 7_000_000, 8_000_000


@dataclass(frozen=True)
class Request:
    """All that codes and their labels depend on; made by `request`.

    Attributes:
        generator: the name of one that comes with the book, or one to be trained.
        weights: a fingerprint of its weights and of its encoder's.
        judges: who label generated faces; () for encoded ones, which have labels of their own.
        way: "encoded" or "generated".
        count: how many codes.
        seed: of the faces or codes.
    """

    generator: str | face_generators.Experiment
    weights: str
    judges: tuple[Key, ...]
    way: str
    count: int
    seed: int


def request(
    generator: str | face_generators.Experiment,
    judges: Sequence[Experiment],
    *,
    way: str,
    count: int,
    seed: int = 0,
) -> Request:
    """What to ask `labelled` for; trains the generator and the judges where the store lacks them.

    Args:
        generator: see `Request`; so are the others.
        judges: models of all attributes.
        way: rendered faces as the encoder sees them, with their true labels, "encoded" (the paper's way), or
            "generated" faces with the judges' labels.
        count: how many codes.
        seed: of the faces or codes.

    Raises:
        BiaslibError: for an unknown generator or way, fewer than one code, or as training does.
    """
    if way not in WAYS:
        raise BiaslibError(f"way must be {' or '.join(WAYS)}, not {way!r}.")
    if count < 1:
        raise BiaslibError(f"count must be at least 1, not {count}.")
    if way == "generated":
        attribute_models.trained(judges)
    asked = tuple(keyed(judges)) if way == "generated" else ()
    return Request(generator, _weights(generator), asked, way, count, seed)


def labelled(asked: Request) -> tuple[np.ndarray, pd.DataFrame]:
    """(count, latent) codes and, as bool columns, the attributes and whether a look is above rendered faces' mean.

    Raises:
        BiaslibError: for generated faces without judges.
    """
    compute = functools.partial(parallel.single_threaded, _labelled, asked)
    found = dict(store.get_or_compute("face-codes", asked, compute, code=_labelled))
    return found.pop("codes"), pd.DataFrame(found)


def readable(labels: pd.DataFrame) -> list[str]:
    """The looks among the columns."""
    return [str(name) for name in labels if name in UNLABELLED]


def labelled_codes(
    generator: Generator, networks: Sequence[nn.Module], *, count: int, seed: int = 0, reader: Looks | None = None
) -> tuple[np.ndarray, pd.DataFrame]:
    """Codes drawn at random, and what judges say of their images: labels of generated faces.

    Args:
        generator: in evaluation mode.
        networks: the judges.
        count: how many codes.
        seed: of the codes.
        reader: adds a bool column for each look it can read: above the mean of rendered faces.

    Returns:
        (count, latent) codes, and a table of as many rows with one bool column an attribute.
    """
    codes = latent_codes(count, generator.latent, seed=seed)
    images = draw(generator, codes)
    return codes, _with_looks(answers(networks, images) >= 0.5, images, reader)


def encoded_codes(
    trained: Trained, *, count: int, seed: int = 0, strength: float = STRENGTH, reader: Looks | None = None
) -> tuple[np.ndarray, pd.DataFrame]:
    """Codes that the encoder gives rendered faces, with the faces' true labels (the way of Denton et al. 2019, 4.2).

    Args:
        trained: a generator with its encoder.
        count: how many faces.
        seed: of the faces.
        strength: of their world.
        reader: as in `labelled_codes`.

    Returns:
        (count, latent) codes, and a table of as many rows with one bool column an attribute.
    """
    table = Faces().factors(count, strength=strength, seed=seed, detail=1.0)
    size = 4 * 2 ** (len(trained.generator.widths) - 1)
    images = Faces().render(table, size=size, regions=()).images
    labels = table[list(known_attributes("generated"))].astype(bool)
    return encoded(trained.encoder, images), _with_looks(labels, images, reader)


def generator_of(generator: str | face_generators.Experiment) -> Trained:
    """A generator with its encoder: one that comes with the book, by its name, or one to be trained.

    Raises:
        BiaslibError: for an unknown name.
    """
    if isinstance(generator, str):
        return face_generators.kept(generator)[0]
    return face_generators.trained([generator])[0]


def _labelled(asked: Request) -> dict[str, np.ndarray]:
    one = generator_of(asked.generator)
    read = looks(size=4 * 2 ** (len(one.generator.widths) - 1))
    if asked.way == "encoded":
        codes, labels = encoded_codes(one, count=asked.count, seed=_FACES_SEED + asked.seed, reader=read)
    else:
        networks = [known(key) for key in asked.judges]
        codes, labels = labelled_codes(
            one.generator, networks, count=asked.count, seed=_CODES_SEED + asked.seed, reader=read
        )
    return {"codes": codes, **{str(name): labels[name].to_numpy() for name in labels}}


def _weights(generator: str | face_generators.Experiment) -> str:
    """Another training under the same name is another generator."""
    found = generator_of(generator)
    networks = (found.generator, found.encoder)
    return fingerprint.of_value([{k: v.numpy() for k, v in one.state_dict().items()} for one in networks])


def _with_looks(labels: pd.DataFrame, images: np.ndarray, reader: Looks | None) -> pd.DataFrame:
    return labels if reader is None else pd.concat([labels, reader(images) > 0], axis=1)
