import numpy as np
import pytest
import timm.data
import torch
from PIL import Image

from biaslib.audit.pictures import Preprocessing
from biaslib.audit.predictions import find_masks
from biaslib.errors import BiaslibError
from biaslib.models import to_tensor

RNG = np.random.default_rng(0)


def saved(path, height, width):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


@pytest.mark.parametrize(("height", "width"), [(300, 200), (150, 260), (224, 224), (231, 231)])
@pytest.mark.parametrize("crop", [1.0, 0.95, 0.875])
def test_it_is_timms_own_preprocessing(tmp_path, height, width, crop):
    saved(tmp_path / "a.png", height, width)
    steps = Preprocessing(crop=crop)
    found = steps.normalised(steps.picture(tmp_path / "a.png")[None])
    transform = timm.data.create_transform(
        (3, 224, 224), interpolation="bicubic", crop_pct=crop, mean=steps.mean, std=steps.std
    )
    with Image.open(tmp_path / "a.png") as image:
        expected = transform(image)
    torch.testing.assert_close(torch.from_numpy(found[0]), expected, rtol=0, atol=1e-5)


def test_a_picture_of_the_right_size_keeps_its_pixels(tmp_path):
    pixels = saved(tmp_path / "a.png", 64, 64)
    steps = Preprocessing(size=64)
    np.testing.assert_array_equal(steps.picture(tmp_path / "a.png"), pixels)
    np.testing.assert_allclose(steps.normalised(pixels[None]), to_tensor(pixels[None]).numpy(), atol=1e-5)


def test_the_models_own_configuration_gives_way_to_what_is_asked():
    own = {"input_size": (3, 96, 96), "mean": (0.5, 0.5, 0.5), "crop_pct": 0.9, "interpolation": "bilinear"}
    found = Preprocessing.of(own, size=None, crop=1.0)
    assert (found.size, found.mean, found.crop, found.interpolation) == (96, (0.5, 0.5, 0.5), 1.0, "bilinear")
    assert found.source == "timm's own for this architecture; given: crop"
    assert Preprocessing.of({}).size == 224
    assert Preprocessing.of({"crop_mode": "squash"}).source.endswith("not crop_mode 'squash', the middle is cut out")


@pytest.mark.parametrize(
    ("given", "said"),
    [({"size": 4}, "at least 8 pixels"), ({"std": (1.0, 0.0, 1.0)}, "std above 0"), ({"crop": 0.0}, "share in")],
)
def test_impossible_preprocessing_is_refused(given, said):
    with pytest.raises(BiaslibError, match=said):
        Preprocessing(**given)


@pytest.mark.parametrize("full", [1, 255])
def test_a_mask_is_cut_as_its_picture_is(tmp_path, full):
    mask = np.zeros((40, 20), np.uint8)
    mask[15:25, :5] = full
    Image.fromarray(mask).save(tmp_path / "m.png")
    found = Preprocessing(size=20).mask(tmp_path / "m.png")
    np.testing.assert_array_equal(found, mask[10:30] > 0)


def test_an_empty_mask_is_empty_and_a_broken_one_is_named(tmp_path):
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(tmp_path / "m.png")
    assert not Preprocessing(size=20).mask(tmp_path / "m.png").any()
    (tmp_path / "m.png").write_bytes(b"no")
    with pytest.raises(BiaslibError, match=r"m.png cannot be read"):
        Preprocessing(size=20).mask(tmp_path / "m.png")


def test_masks_are_found_in_one_folder_or_in_one_a_region(tmp_path):
    saved(tmp_path / "images" / "cats" / "a.jpg", 10, 12)
    saved(tmp_path / "images" / "b.png", 10, 12)
    files = ["cats/a.jpg", "b.png"]
    saved(tmp_path / "eyes" / "cats" / "a.png", 10, 12)
    assert find_masks(tmp_path / "eyes", tmp_path / "images", files) == {
        "eyes": [tmp_path / "eyes" / "cats" / "a.png", None]
    }
    saved(tmp_path / "all" / "ear" / "b.png", 10, 12)
    saved(tmp_path / "all" / "nose" / "cats" / "a.png", 10, 12)
    assert list(find_masks(tmp_path / "all", tmp_path / "images", files)) == ["ear", "nose"]


def test_masks_that_fit_no_image_are_refused(tmp_path):
    saved(tmp_path / "images" / "a.png", 10, 12)
    saved(tmp_path / "masks" / "z.png", 10, 12)
    with pytest.raises(BiaslibError, match=r"No mask in .* belongs to an image"):
        find_masks(tmp_path / "masks", tmp_path / "images", ["a.png"])
    saved(tmp_path / "masks" / "a.png", 12, 10)
    with pytest.raises(BiaslibError, match=r"1 of the masks are not as large .* \(a.png 10 x 12 for 12 x 10\)"):
        find_masks(tmp_path / "masks", tmp_path / "images", ["a.png"])
    with pytest.raises(BiaslibError, match="no folder of masks"):
        find_masks(tmp_path / "none", tmp_path / "images", ["a.png"])
