"""What a generator's counterfactuals and concept vectors say of drawn faces, beside the truth of the same faces."""

from typing import Any, Final, cast

import numpy as np
import pandas as pd
import torch
from torch import nn

from biaslib import models
from biaslib.chapters import face_generators, latent
from biaslib.chapters.attribute_models import EvaluationFaces
from biaslib.chapters.latent_audit import STEP, DirectionAudit, pixels_apart, smiles
from biaslib.gan.counterfactuals import draw, traversal
from biaslib.gan.encoder import encoded
from biaslib.store import stored
from biaslib.worlds.faces import HAIR_COLOURS, Faces

_LAYER: Final = 4  # how many of the small network's layers lie before a concept's maps


def with_attribute(table: pd.DataFrame, attribute: str, value: bool) -> pd.DataFrame:
    """A table of faces with an attribute or without; any other colour of the hair gives way to the one asked for."""
    cleared = dict.fromkeys(HAIR_COLOURS, False) if attribute in HAIR_COLOURS else {}
    return table.assign(**cleared | {attribute: value}).astype(table.dtypes)


@stored(
    "face-by-face",
    passes=lambda audit, evaluation: (4 * evaluation.images * len(audit.attributes), len(audit.target_classifiers)),
)
def face_by_face(audit: DirectionAudit, evaluation: EvaluationFaces) -> dict[str, np.ndarray]:
    """Drawn faces x, of the audit's M classifiers, A directions and generator G with its encoder E.

    `exact` (M, A, N): the score of the face with the attribute less that of the same face without; `generated`
    (M, A, N): that of G(E(x) + `STEP` d) less that of G(E(x) - `STEP` d); `pixels` (A, 4), mean absolute differences in
    [0, 255]: of x and G(E(x)); of the exact pair; of the generated pair; of the face with the attribute and
    G(E(x) + `STEP` d).
    """
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
    return {"exact": np.stack(exact, axis=1), "generated": np.stack(generated, axis=1), "pixels": np.array(pixels)}


def tcav(model: nn.Module, images: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Of each concept's vector the share of images whose first logit rises along it (Kim et al. 2018, section 3.3).

    `vectors` (V, D) are in the space of `concept_maps`, images (N, size, size, 3) uint8; the shares are (V,) in [0, 1].
    A slope of 0 is no rise.
    """
    network, maps = cast(Any, model), _maps(model, images).requires_grad_()
    (slopes,) = torch.autograd.grad(network.forward_head(network.features[_LAYER:](maps))[:, 0].sum(), maps)
    return (slopes.flatten(1).cpu().numpy() @ vectors.T > 0).mean(axis=0)


def concept_maps(model: nn.Module, images: np.ndarray) -> np.ndarray:
    """(N, D), flattened: those before the small network's last layer, behind which slopes are alike on all images."""
    return _maps(model, images).flatten(1).cpu().numpy()


@torch.no_grad()
def _maps(model: nn.Module, images: np.ndarray) -> torch.Tensor:
    place = next(model.parameters()).device
    parts = [models.to_tensor(images[start : start + 256], place, model=model) for start in range(0, len(images), 256)]
    return torch.cat([cast(Any, model).features[:_LAYER](part) for part in parts]).float()
