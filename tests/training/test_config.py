import torch

from biaslib import models
from biaslib.training import config


def test_every_image_is_kept_or_mirrored():
    pixels = torch.randint(0, 256, (40, 8, 8, 3), dtype=torch.uint8)
    model = models.build("small", 2)
    plain = config.augmented(pixels, (), model=model)
    found = config.augmented(pixels, ("flip",), model=model)
    kept = [torch.equal(a, b) for a, b in zip(found, plain, strict=True)]
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(found, plain, strict=True)]
    assert all(a or b for a, b in zip(kept, mirrored, strict=True))
    assert any(kept)
    assert any(mirrored)


def test_a_cropped_image_keeps_its_shape_and_range():
    images = torch.rand(8, 3, 16, 16)
    cropped = config._random_crop(images)
    assert cropped.shape == images.shape
    assert cropped.min() >= 0
    assert cropped.max() <= 1
    assert not torch.equal(cropped, images)
