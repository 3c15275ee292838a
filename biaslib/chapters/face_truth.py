"""What a generator's counterfactuals and concept vectors say of drawn faces, beside the truth of the same faces."""

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
from biaslib.gan.directions import attribute_direction
from biaslib.gan.encoder import encoded
from biaslib.recipes import load
from biaslib.store import Calls, stored
from biaslib.worlds.faces import HAIR_COLOURS, Faces

# faces that nothing else is fitted on or asked about
_CONCEPT_SEED = 9_000_000


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
    """Of each concept's vector the share of images whose first logit rises along it (Kim et al. 2018, eq. 2).

    `vectors` (V, D) are in the flattened space of the model's last map, images (N, size, size, 3) uint8; the shares are
    (V,) in [0, 1]. A slope of 0 is no rise.
    """
    features = _last_maps(model, images).requires_grad_()
    answers = cast(Any, model).forward_head(features)[:, 0]
    (slopes,) = torch.autograd.grad(answers.sum(), features)
    return (slopes.flatten(1).cpu().numpy() @ vectors.T > 0).mean(axis=0)


def concepts(
    experiments: Sequence[Experiment], attributes: Sequence[str], *, images: int, random: int
) -> tuple[np.ndarray, np.ndarray]:
    """TCAV of each model's answer to smiling faces: (M, A) of attributes, (M, random) of labels drawn by lot.

    A concept's vector is that of `gan.directions.attribute_direction` with the maps of this many drawn faces as codes.
    """
    found = _concepts.many([(experiment, tuple(attributes), images, random) for experiment in experiments])
    return np.stack([arrays["concepts"] for arrays in found]), np.stack([arrays["random"] for arrays in found])


@torch.no_grad()
def _last_maps(model: nn.Module, images: np.ndarray) -> torch.Tensor:
    place = next(model.parameters()).device
    parts = [
        cast(Any, model).forward_features(models.to_tensor(images[start : start + 256], place, model=model))
        for start in range(0, len(images), 256)
    ]
    return torch.cat(parts).float()


@stored("face-concepts", passes=lambda _, attributes, images, random: (3 * images, 1))
def _concepts(experiment: Experiment, attributes: tuple[str, ...], images: int, random: int) -> dict[str, np.ndarray]:
    model = load(experiment.recipe)
    faces = EvaluationFaces(images=images, detail=1.0, seed=_CONCEPT_SEED).samples(size=experiment.size)
    maps = _last_maps(model, faces.images).flatten(1).cpu().numpy()
    lots = np.random.default_rng(_CONCEPT_SEED).random((images, random)) < 0.5
    labels = faces.labels.assign(**{f"lot {number}": lots[:, number] for number in range(random)})
    asked = [*attributes, *(f"lot {number}" for number in range(random))]
    vectors = [attribute_direction(maps, labels, name, balanced_on=latent.BALANCED_ON).vector for name in asked]
    found = tcav(model, faces.images[faces.labels["Smiling"].to_numpy(bool)], np.stack(vectors))
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
