"""Where small classifiers of faces look, and what attributes do to their answers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy.special import expit

from biaslib import attribution, training
from biaslib.chapters import attribute_models
from biaslib.chapters.attribute_maps import Attended, Evaluation, attended, effects
from biaslib.chapters.attribute_models import Experiment
from biaslib.datasets import celebamask
from biaslib.errors import BiaslibError
from biaslib.metrics import attention_iou, mask_score
from biaslib.worlds.faces import Faces
from tests import layouts

pytestmark = pytest.mark.usefixtures("in_this_process")

QUICK = Experiment(attributes=("Bangs", "Clan", "Eyeglasses"), images=200, size=32, epochs=1)
FEW = Evaluation(images=40)


def made(maps: np.ndarray) -> Attended:
    """What a model says of faces, with the maps given (N, 3, h, w)."""
    labels = pd.DataFrame({name: [True] * len(maps) for name in QUICK.outputs})
    return Attended(QUICK, QUICK.outputs, labels, np.ones(maps.shape[:2], np.float32), maps)


def test_maps_and_answers_are_the_models():
    (found,) = attended([QUICK], FEW)
    (model,) = attribute_models.trained([QUICK])
    faces = FEW.samples(size=32)
    maps = attribution.grad_cam(model, faces.images, [0, 1, 2], absolute=True)
    np.testing.assert_allclose(found.maps, maps, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.logits, training.predict(model, faces.images), rtol=1e-4, atol=1e-5)
    pd.testing.assert_frame_equal(found.labels, faces.labels)
    np.testing.assert_array_equal(found.predicted["Clan"], found.logits[:, 1] > 0)


def test_scores_compare_with_the_group_and_with_regions():
    maps = np.random.default_rng(0).random((4, 3, 4, 4)).astype(np.float32)
    found = made(maps)
    for attribute in range(3):
        np.testing.assert_allclose(found.scores[:, attribute], attention_iou(maps[:, attribute], maps[:, 1]))
    np.testing.assert_allclose(found.scores[:, found.of("Clan")], 1, rtol=1e-6)
    region = np.zeros((4, 8, 8), bool)
    region[:3, :4] = True
    np.testing.assert_allclose(found.mask_scores(region)[:, 2], mask_score(maps[:, 2], region))
    assert np.isnan(found.mask_scores(region)[3]).all()  # the region is absent


def test_an_average_map_counts_every_image_alike_and_leaves_empty_maps_out():
    maps = np.zeros((3, 3, 2, 2), np.float32)
    maps[0, 0, 0, 0], maps[1, 0, 1, 1] = 1, 100
    found = made(maps)
    np.testing.assert_allclose(found.average_map("Bangs"), [[0.5, 0], [0, 0.5]])
    np.testing.assert_allclose(found.average_map("Bangs", np.array([True, False, True])), [[1, 0], [0, 0]])
    assert np.isnan(found.average_map("Clan")).all()
    with pytest.raises(BiaslibError, match="has no 'Wavy_Hair': it tells Bangs, Clan, Eyeglasses"):
        found.of("Wavy_Hair")


def test_effects_are_the_differences_of_two_worlds():
    experiments = [QUICK, replace(QUICK, seed=1)]
    several = effects(experiments, FEW, ["Eyeglasses", "Smiling"])
    table = FEW.factors()
    for cause, found in several.items():
        assert found.shape == (2, 40, 3)
        on, off = (Faces().render(table.assign(**{cause: value}), size=32).images for value in (True, False))
        for model, effect in zip(attribute_models.trained(experiments), found, strict=True):
            wanted = expit(training.predict(model, on)) - expit(training.predict(model, off))
            np.testing.assert_allclose(effect, wanted, atol=1e-5)


@pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
def test_faces_with_masks_are_asked_about_without_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path))
    folder = tmp_path / "CelebAMask-HQ" / "pairs" / "test"
    for number in range(3):
        layouts.picture(folder / "images" / f"{number}.jpg", size=(64, 64), colour=(90, 0, 0))
        (folder / "masks").mkdir(exist_ok=True)
        Image.fromarray(np.full((64, 64), 1 + number, np.uint8)).save(folder / "masks" / f"{number}.png")
    (found,) = attended([QUICK], Evaluation(source="celebamask-pairs", images=2))
    assert len(found.labels) == len(found.maps) == 2
    masks = Evaluation(source="celebamask-pairs").samples(size=32).masks
    assert set(masks) == set(celebamask.REGIONS)
    assert masks["skin"][0].all()
    assert masks["nose"][1].all()


def test_what_cannot_be_asked():
    with pytest.raises(BiaslibError, match="source must be generated, celeba or celebamask-pairs, not 'imagenet'"):
        Evaluation(source="imagenet")
    with pytest.raises(BiaslibError, match="Only generated faces have factors, not those of celeba"):
        Evaluation(source="celeba").factors()
    with pytest.raises(BiaslibError, match="one size with the same outputs"):
        effects([QUICK, replace(QUICK, size=16)], FEW, ["Clan"])
    with pytest.raises(BiaslibError, match="no factor 'Beard'"):
        effects([QUICK], FEW, ["Beard"])


def test_models_differ_and_share_their_test_faces():
    first, other = attended([QUICK, replace(QUICK, seed=1)], FEW)
    pd.testing.assert_frame_equal(first.labels, other.labels)
    assert not torch.equal(torch.from_numpy(first.maps), torch.from_numpy(other.maps))
