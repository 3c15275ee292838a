"""What a generator's counterfactuals and concept vectors say of drawn faces, beside the truth of the same faces."""

import functools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import nn

from biaslib import models
from biaslib.chapters import face_generators, latent
from biaslib.chapters.attribute_models import EvaluationFaces, Experiment
from biaslib.chapters.latent_audit import STEP, DirectionAudit, pixels_apart, smiles
from biaslib.gan.counterfactuals import draw, traversal
from biaslib.gan.encoder import encoded
from biaslib.recipes import load
from biaslib.store import Calls, stored
from biaslib.worlds.faces import HAIR_COLOURS, Faces

_LAYER = 4  # how many of the small network's layers lie before a concept's maps
_CONCEPT_SEED = 9_000_000  # faces that nothing else is fitted on or asked about


def with_attribute(table: pd.DataFrame, attribute: str, value: bool) -> pd.DataFrame:
    """A table of faces with an attribute or without; any other colour of the hair gives way to the one asked for."""
    cleared = dict.fromkeys(HAIR_COLOURS, False) if attribute in HAIR_COLOURS else {}
    return table.assign(**cleared | {attribute: value}).astype(table.dtypes)


def planned(audits: Sequence[DirectionAudit], evaluation: EvaluationFaces) -> list[Calls]:
    """What `face_by_face` asks of the store."""
    return [_faces.calls([(audit, evaluation) for audit in audits])]


def face_by_face(audits: Sequence[DirectionAudit], evaluation: EvaluationFaces) -> list[dict[str, np.ndarray]]:
    """Drawn faces x, of each audit's M classifiers, A directions and generator G with its encoder E.

    `exact` (M, A, N): the score of the face with the attribute less that of the same face without; `generated`
    (M, A, N): that of G(E(x) + `STEP` d) less that of G(E(x) - `STEP` d); `scores` (2, M, N): of x and of G(E(x)).
    `pixels` (A, 4), mean absolute differences in [0, 255]: of x and G(E(x)); of the exact pair; of the generated pair;
    of the face with the attribute and G(E(x) + `STEP` d).
    """
    return planned(audits, evaluation)[0].results()


def tcav(model: nn.Module, images: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Of each concept's vector the share of images whose first logit rises along it (Kim et al. 2018, section 3.3).

    `vectors` (V, D) are in the flattened space of `concept_maps`, images (N, size, size, 3) uint8; the shares are (V,)
    in [0, 1]. A slope of 0 is no rise.
    """
    network, maps = cast(Any, model), concept_maps(model, images).requires_grad_()
    answers = network.forward_head(network.features[_LAYER:](maps))[:, 0]
    (slopes,) = torch.autograd.grad(answers.sum(), maps)
    return (slopes.flatten(1).cpu().numpy() @ vectors.T > 0).mean(axis=0)


@torch.no_grad()
def concept_maps(model: nn.Module, images: np.ndarray) -> torch.Tensor:
    """The maps (N, C, h, w) before the last layer of the small network: behind it, slopes are alike on all images."""
    network, place = cast(Any, model), next(model.parameters()).device
    parts = [models.to_tensor(images[start : start + 256], place, model=model) for start in range(0, len(images), 256)]
    return torch.cat([network.features[:_LAYER](part) for part in parts]).float()


def concepts(
    experiments: Sequence[Experiment], attributes: Sequence[str], *, images: int, random: int
) -> tuple[np.ndarray, np.ndarray]:
    """TCAV of each model's answer to smiling faces: (M, A) of attributes, (M, random) of halves of faces by lot.

    A concept's vector is the normal of the plane (ridge regression) between maps of the same drawn faces with the
    attribute and without: no label that goes with it can mislead.
    """
    found = _concepts.many([(experiment, tuple(attributes), images, random) for experiment in experiments])
    return np.stack([arrays["concepts"] for arrays in found]), np.stack([arrays["random"] for arrays in found])


@functools.lru_cache(maxsize=8)
def _rendered(images: int, size: int, attribute: str = "", value: bool = False) -> np.ndarray:
    """Kept in memory for the next model."""
    table = EvaluationFaces(images=images, detail=1.0, seed=_CONCEPT_SEED).factors()
    edited = with_attribute(table, attribute, value) if attribute else table
    return Faces().render(edited, size=size, regions=()).images


@stored("face-concepts", passes=lambda _, attributes, images, random: ((2 * len(attributes) + 4) * images, 1))
def _concepts(experiment: Experiment, attributes: tuple[str, ...], images: int, random: int) -> dict[str, np.ndarray]:
    from sklearn.linear_model import RidgeClassifier

    model, size = load(experiment.recipe), experiment.size

    def normal(maps: np.ndarray, sides: np.ndarray) -> np.ndarray:
        return np.ravel(RidgeClassifier().fit(maps, sides).coef_)

    vectors = []
    for name in attributes:
        pair = [concept_maps(model, _rendered(images, size, name, value)).flatten(1) for value in (True, False)]
        vectors.append(normal(torch.cat(pair).cpu().numpy(), np.arange(2 * images) < images))
    faces, smiles = _rendered(images, size), EvaluationFaces(images=images, detail=1.0, seed=_CONCEPT_SEED).factors()
    maps = concept_maps(model, faces).flatten(1).cpu().numpy()
    lots = np.random.default_rng(_CONCEPT_SEED).random((random, images))
    vectors += [normal(maps, lot < np.median(lot)) for lot in lots]
    found = tcav(model, faces[smiles["Smiling"].to_numpy(bool)], np.stack(vectors))
    return {"concepts": found[: len(attributes)], "random": found[len(attributes) :]}


@stored(
    "face-by-face",
    passes=lambda audit, evaluation: (4 * evaluation.images * len(audit.attributes), len(audit.target_classifiers)),
)
def _faces(audit: DirectionAudit, evaluation: EvaluationFaces) -> dict[str, np.ndarray]:
    networks, table, predict = face_generators.load(audit.generator), evaluation.factors(), smiles(audit)

    def rendered(factors: pd.DataFrame) -> np.ndarray:
        return Faces().render(factors, size=networks.size, regions=()).images

    faces = rendered(table)
    codes = encoded(networks.encoder, faces)
    again = draw(networks.generator, codes)
    exact, generated, pixels = [], [], []
    vectors = latent.audit_directions(audit.request, audit.attributes, orthogonal=audit.orthogonal).vectors
    for attribute, vector in zip(audit.attributes, vectors, strict=True):
        without, having = (rendered(with_attribute(table, attribute, value)) for value in (False, True))
        low, high = traversal(networks.generator, codes, vector, (-STEP, STEP))
        exact.append(predict(having) - predict(without))
        generated.append(predict(high) - predict(low))
        pairs = ((again, faces), (having, without), (high, low), (high, having))
        pixels.append([pixels_apart(*pair) for pair in pairs])
    return {
        "exact": np.stack(exact, axis=1), "generated": np.stack(generated, axis=1),
        "scores": np.stack([predict(faces), predict(again)]), "pixels": np.array(pixels),
    }  # fmt: skip
