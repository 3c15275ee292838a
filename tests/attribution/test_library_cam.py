from typing import Any

import numpy as np
import pytest
import pytorch_grad_cam
import torch
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget
from torch import nn

from biaslib import models
from biaslib.attribution import grad_cam, library_cam, score_cam
from biaslib.attribution.class_activation import _LIBRARY
from biaslib.errors import BiaslibError
from tests.attribution.subjects import assert_close, lively, state, trained_halfway


def test_equals_our_own_methods() -> None:
    model = lively("small")
    images = torch.randn(2, 3, 32, 32)
    assert_close(library_cam("GradCAM")(model, images, [0, 2]), grad_cam(model, images, [0, 2]))
    assert_close(library_cam("ScoreCAM")(model, images, [0, 2]), score_cam(model, images, [0, 2]))


@pytest.mark.parametrize(
    "name",
    [
        "LayerCAM",
        "EigenCAM",
        "GradCAMPlusPlus",
        pytest.param("AblationCAM", marks=pytest.mark.slow),  # a pass a channel, twice
        "XGradCAM",
    ],
)
def test_scaled_and_resized_it_is_the_libraries_own_picture(name: str) -> None:
    model = lively("resnet10t")
    images = torch.randn(2, 3, 64, 64)
    with getattr(pytorch_grad_cam, name)(model, [model.get_submodule("layer4")]) as library:
        expected = library(images, [ClassifierOutputTarget(1)] * 2)
    maps = library_cam(name)(model, images, [1])
    assert maps.shape == (2, 1, 2, 2)
    scale = pytorch_grad_cam.utils.image.scale_cam_image
    pictures = scale(scale(maps[:, 0].numpy(), (64, 64)))  # the library scales before and after it resizes
    np.testing.assert_allclose(pictures, expected, atol=1e-4)


@pytest.mark.parametrize("name", _LIBRARY)
def test_every_name_has_maps_of_the_contract(name: str) -> None:
    model = lively("small")
    images = torch.randn(2, 3, 32, 32)
    maps = library_cam(name)(model, images, np.array([[0, 1], [3, 2]]))
    assert maps.shape == (2, 2, 4, 4)
    assert maps.dtype == torch.float32
    assert maps.min() >= 0
    assert maps.max() > 0


@pytest.mark.parametrize("name", ["LayerCAM", "GradCAMPlusPlus", "AblationCAM"])
def test_batches_and_targets_change_nothing(name: str) -> None:
    model = lively("small")
    images = torch.randn(3, 3, 32, 32)
    every = library_cam(name)(model, images, range(4))
    each = np.array([[0, 3], [2, 2], [1, 0]])
    expected = every[torch.arange(3)[:, None], torch.from_numpy(each)]
    assert_close(library_cam(name)(model, images, each, batch=2), expected)
    with torch.inference_mode():
        assert_close(library_cam(name)(model, images, each), expected)


@pytest.mark.parametrize("name", ["LayerCAM", "AblationCAM"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_as_it_was(name: str, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained_halfway()
    before = state(model)
    if fails:
        monkeypatch.setattr(getattr(pytorch_grad_cam, name), "get_cam_weights", lambda *_: 1 / 0)
        monkeypatch.setattr(getattr(pytorch_grad_cam, name), "get_cam_image", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            library_cam(name)(model, torch.randn(1, 3, 64, 64), [0, 1])
    else:
        library_cam(name)(model, torch.randn(1, 3, 64, 64), [0, 1])
    torch.testing.assert_close(state(model), before, rtol=0, atol=0)


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(BiaslibError, match=r"a class activation map must be one of AblationCAM, .*, not 'LayerCam'"):
        library_cam("LayerCam")


@pytest.mark.parametrize(
    ("model", "targets", "message"),
    [
        (models.build("small", 2), [5], "There is no target 5: the model has 2 outputs"),
        (models.build("small", 2), [0.5], "targets must be whole numbers"),
        (nn.Linear(2, 2), [0], "Linear cannot be split into a map and a head"),
    ],
)
def test_wrong_input_gets_one_sentence(model: nn.Module, targets: Any, message: str) -> None:
    with pytest.raises(BiaslibError, match=message):
        library_cam("LayerCAM")(model, torch.randn(1, 3, 32, 32), targets)
