"""Faces beside their exact counterfactuals, and TCAV beside captum's."""

import numpy as np
import pytest
import torch
from captum.attr import LayerGradientXActivation
from captum.concept import TCAV, Concept
from captum.concept._utils.classifier import Classifier
from torch.utils.data import DataLoader

from biaslib import models
from biaslib.chapters import face_generators, latent, latent_audit
from biaslib.chapters.attribute_models import EvaluationFaces
from biaslib.chapters.latent_audit import STEP, pixels_apart, smiles
from biaslib.gan.counterfactuals import draw, traversal
from biaslib.gan.training import encoded
from biaslib.metrics import causal_effect
from biaslib.worlds.faces import HAIR_COLOURS, Faces
from tests.chapters.test_latent_audit import AUDIT, TINY
from tests.of_pages import functions

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")

EVALUATION = EvaluationFaces(images=12, detail=1.0, seed=77)


def test_another_colour_of_hair_gives_way():
    table = EVALUATION.factors()
    for value in (True, False):
        edited = latent.with_attribute(table, "Black_Hair", value)
        assert (edited["Black_Hair"] == value).all()
        assert not edited[[name for name in HAIR_COLOURS if name != "Black_Hair"]].to_numpy().any()
    glasses = latent.with_attribute(table, "Eyeglasses", True)
    np.testing.assert_array_equal(glasses[list(HAIR_COLOURS)], table[list(HAIR_COLOURS)])
    assert (glasses.dtypes == table.dtypes).all()


def test_a_face_is_held_against_its_own_counterfactual():
    found = latent_audit.face_by_face(AUDIT, EVALUATION)
    table, predict = EVALUATION.factors(), smiles(AUDIT)
    assert found["exact"].shape == found["generated"].shape == (2, 2, 12)
    effect = causal_effect(predict, Faces(), table, cue="Eyeglasses", size=16)
    np.testing.assert_allclose(found["exact"][:, 0], effect, atol=1e-6)
    networks, faces = face_generators.load(TINY), Faces().render(table, size=16).images
    codes = encoded(networks.encoder, faces)
    again = draw(networks.generator, codes)
    np.testing.assert_allclose(found["pixels"][:, 0], pixels_apart(again, faces))
    from biaslib.chapters.latent import audit_directions

    vector = audit_directions(AUDIT.request, AUDIT.attributes).vectors[0]
    low, high = traversal(networks.generator, codes, vector, (-STEP, STEP))
    np.testing.assert_allclose(found["generated"][:, 0], predict(high) - predict(low), atol=1e-6)
    having = Faces().render(table.assign(Eyeglasses=True), size=16).images
    assert found["pixels"][0, 3] == pytest.approx(pixels_apart(high, having))


class _Known(Classifier):
    """captum's classifier of concepts, with a vector that is known already."""

    def __init__(self, vector: np.ndarray) -> None:
        self.vector = torch.from_numpy(vector)

    def train_and_eval(self, dataloader, **_):
        return {"accs": 1.0}

    def weights(self):
        return torch.stack([self.vector, -self.vector])

    def classes(self):
        return [0, 1]


@pytest.mark.filterwarnings("ignore:numpy.core is deprecated")  # captum reads its own files so
def test_tcav_is_captums(tmp_path):
    torch.manual_seed(0)
    model = models.build("small", 1).eval()
    images = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3)).astype(np.uint8)
    page = functions("counterfactual_truth")
    maps = page["concept_maps"](model, images).flatten(1)
    layer = "features.3"
    vectors = np.random.default_rng(1).normal(size=(4, maps.shape[1])).astype(np.float32)
    ours = page["tcav"](model, images, vectors)
    inputs = models.to_tensor(images, torch.device("cpu"), model=model)
    pair = [Concept(number, str(number), DataLoader(inputs, batch_size=5)) for number in range(2)]
    for vector, share in zip(vectors, ours, strict=True):
        method = LayerGradientXActivation(model, None, multiply_by_inputs=False)
        theirs = TCAV(
            model, [layer], classifier=_Known(vector), layer_attr_method=method, save_path=str(tmp_path / str(share))
        ).interpret(inputs, experimental_sets=[pair], target=0)
        assert float(theirs["0-1"][layer]["sign_count"][0]) == pytest.approx(share)
    np.testing.assert_allclose(page["tcav"](model, images, -vectors), 1 - ours)
    assert 0 < ours.mean() < 1
