"""Pictures and masks as users have them: each is read as it is meant, or refused in one sentence."""

import os
import shutil
import struct
import zlib

import numpy as np
import pandas as pd
import pytest
import timm.data
import torch
from PIL import Image
from torchvision import transforms

from biaslib import audit
from biaslib.audit.pictures import Preprocessing, find_masks
from biaslib.errors import BiaslibError
from biaslib.models import to_tensor
from tests.audit.subjects import PLAIN, draw, honest

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


@pytest.mark.parametrize(("height", "width"), [(300, 200), (150, 260), (224, 224), (20, 900)])
@pytest.mark.parametrize(("crop", "interpolation"), [(None, "bicubic"), (None, "bilinear"), (0.875, "bicubic")])
def test_a_squashed_picture_is_torchvisions_to_the_last_bit(tmp_path, height, width, crop, interpolation):
    saved(tmp_path / "a.png", height, width)
    steps = Preprocessing.of({"crop_pct": 0.5, "interpolation": interpolation}, squash=True, crop=crop)
    side = int(224 / (crop or 1))
    transform = transforms.Compose(
        [transforms.Resize((side, side), transforms.InterpolationMode(interpolation)), transforms.CenterCrop(224)]
    )
    with Image.open(tmp_path / "a.png") as image:
        expected = np.asarray(transform(image))
    np.testing.assert_array_equal(steps.picture(tmp_path / "a.png"), expected)
    assert steps.words().startswith(f"both sides to {side} px ({interpolation}), the middle 224 x 224; ")


def test_timms_own_squash_is_taken_where_its_configuration_says_it(tmp_path):
    saved(tmp_path / "a.png", 90, 150)
    own = {"input_size": (3, 64, 64), "crop_mode": "squash", "crop_pct": 0.9, "interpolation": "bicubic"}
    steps = Preprocessing.of(own, local=True)
    transform = timm.data.create_transform(**own, mean=steps.mean, std=steps.std)
    with Image.open(tmp_path / "a.png") as image:
        expected = transform(image)
    found = steps.normalised(steps.picture(tmp_path / "a.png")[None])
    torch.testing.assert_close(torch.from_numpy(found[0]), expected, rtol=0, atol=1e-5)
    assert "crop, interpolation, size, squash by timm's defaults for this architecture" in steps.assumed
    of_file = Preprocessing.of(own, beside={"crop_mode": "center"}, local=True)
    assert not of_file.squash
    assert "squash" not in of_file.source
    assert not Preprocessing.of(own, squash=False).squash


def test_a_mask_is_squashed_as_its_picture_is(tmp_path):
    mask = np.zeros((40, 20), np.uint8)
    mask[20:] = 255
    Image.fromarray(mask).save(tmp_path / "m.png")
    found = Preprocessing(size=20, squash=True).mask(tmp_path / "m.png")
    np.testing.assert_array_equal(found, mask[::2] > 0)


def test_a_picture_of_the_right_size_keeps_its_pixels(tmp_path):
    pixels = saved(tmp_path / "a.png", 64, 64)
    steps = Preprocessing(size=64)
    np.testing.assert_array_equal(steps.picture(tmp_path / "a.png"), pixels)
    np.testing.assert_allclose(steps.normalised(pixels[None]), to_tensor(pixels[None]).numpy(), atol=1e-5)


def test_the_models_own_configuration_gives_way_to_what_is_asked():
    own = {"input_size": (3, 96, 96), "mean": (0.5, 0.5, 0.5), "crop_pct": 0.9, "interpolation": "bilinear"}
    found = Preprocessing.of(own, size=None, crop=1.0)
    assert (found.size, found.mean, found.crop, found.interpolation) == (96, (0.5, 0.5, 0.5), 1.0, "bilinear")
    assert found.source == (
        "interpolation, mean, size by timm's own values for this architecture; std as usual for ImageNet; given: crop"
    )
    assert Preprocessing.of({}).size == 224
    assert Preprocessing.of({"crop_mode": "border"}).source.endswith("not crop_mode 'border', the middle is cut out")
    assert "border" not in Preprocessing.of({"crop_mode": "border"}, squash=True).source


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
    with pytest.raises(BiaslibError, match=r"There are no masks .*none: name their folder, or a file in COCO's JSON"):
        find_masks(tmp_path / "none", tmp_path / "images", ["a.png"])


MODEL = "tests.audit.subjects:honest"
ORIENTATION = 0x0112
# how a camera that was held so stores the upright picture: the inverse of what the number asks a viewer to do
STORED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.fixture
def small_set(tmp_path):
    """A small folder of pictures of its own, which a test may change."""
    draw(tmp_path / "set", n=24)
    return tmp_path / "set"


def asked(folder, **given):
    settings = {"data": folder / "images", "labels": folder / "labels.csv", "target": "green", "groups": "red"}
    return audit.run(model=honest(), **(settings | PLAIN | {"permutations": 19} | given))


def turned(picture, number, path):
    """Saves an upright picture as a camera does that was turned."""
    exif = Image.Exif()
    exif[ORIENTATION] = number
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.transpose(STORED[number]).save(path, exif=exif)


def photo(height=24, width=40):
    pixels = np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("number", STORED)
@pytest.mark.parametrize("ending", ["png", "tif", "webp"])
def test_a_turned_photo_is_the_upright_one(tmp_path, number, ending):
    lossless = {"lossless": True} if ending == "webp" else {}
    upright = photo()
    exif = Image.Exif()
    exif[ORIENTATION] = number
    upright.transpose(STORED[number]).save(tmp_path / f"turned.{ending}", exif=exif, **lossless)
    upright.save(tmp_path / f"upright.{ending}", **lossless)
    steps = Preprocessing(size=16)
    np.testing.assert_array_equal(
        steps.picture(tmp_path / f"turned.{ending}"), steps.picture(tmp_path / f"upright.{ending}")
    )


def test_a_turned_jpeg_is_the_upright_one(tmp_path):
    # blocks of 16 pixels: JPEG keeps flat ones
    blocks = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8).repeat(16, 0).repeat(16, 1)
    upright = Image.fromarray(blocks)
    turned(upright, 6, tmp_path / "turned.jpg")
    found = Preprocessing(size=64).picture(tmp_path / "turned.jpg").astype(int)
    assert np.abs(found - blocks[:, 16:80]).mean() < 6


def test_a_mask_drawn_for_the_upright_picture_is_taken(tmp_path):
    turned(photo(), 6, tmp_path / "images" / "a.jpg")
    (tmp_path / "masks").mkdir()
    Image.new("1", (40, 24)).save(tmp_path / "masks" / "a.png")
    find_masks(tmp_path / "masks", tmp_path / "images", ["a.jpg"])


@pytest.mark.parametrize(("number", "size"), [(6, (24, 40)), (3, (40, 24)), (2, (40, 24))])
def test_a_mask_whose_orientation_is_not_known_is_refused(tmp_path, number, size):
    turned(photo(), number, tmp_path / "images" / "a.jpg")
    (tmp_path / "masks").mkdir()
    Image.new("1", size).save(tmp_path / "masks" / "a.png")
    with pytest.raises(BiaslibError, match=r"1 of the images are turned .* \(a\.jpg\).* save these images upright"):
        find_masks(tmp_path / "masks", tmp_path / "images", ["a.jpg"])


def test_a_mask_with_the_orientation_of_its_picture_is_turned_with_it(tmp_path):
    upright = np.zeros((24, 24), np.uint8)
    upright[:6, :12] = 255
    turned(photo(24, 24), 6, tmp_path / "images" / "a.jpg")
    turned(Image.fromarray(upright), 6, tmp_path / "masks" / "a.png")
    found = find_masks(tmp_path / "masks", tmp_path / "images", ["a.jpg"])["masks"][0]
    np.testing.assert_array_equal(Preprocessing(size=24).mask(found), upright > 0)


def png16(path, values):
    """Writes a PNG of 16 bits a channel; Pillow writes grey ones only."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)), (b"IDAT", zlib.compress(rows))]
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in [*parts, (b"IEND", b"")]
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def test_a_picture_of_16_bits_is_scaled_and_not_clipped(tmp_path):
    eight = np.random.default_rng(1).integers(0, 256, (32, 32), np.uint8)
    sixteen = eight.astype(np.uint16) * 257
    Image.fromarray(sixteen).save(tmp_path / "grey.png")
    Image.fromarray(sixteen).save(tmp_path / "grey.tif")
    Image.fromarray(sixteen.astype(">u2")).save(tmp_path / "big_endian.tif")
    png16(tmp_path / "colour.png", np.repeat(sixteen[:, :, None], 3, axis=2))
    steps = Preprocessing(size=32)
    for name in ("grey.png", "grey.tif", "big_endian.tif", "colour.png"):
        np.testing.assert_array_equal(steps.picture(tmp_path / name), np.repeat(eight[:, :, None], 3, axis=2), name)


def in_16_bits(folder, factor):
    """Every picture of a folder in grey of 16 bits: its 8 bits times a factor."""
    for file in sorted((folder / "images").iterdir()):
        with Image.open(file) as image:
            grey = np.asarray(image.convert("L"))
        Image.fromarray(grey.astype(np.uint16) * factor).save(file)


def test_an_audit_says_that_pictures_of_16_bits_were_scaled(small_set):
    in_16_bits(small_set, 257)
    notes = asked(small_set).notes
    assert any(note.startswith("24 of the images have 16 bits") and "65,535" in note for note in notes)


def test_data_of_12_bits_in_16_is_refused_and_not_taken_for_black(small_set, refusal):
    in_16_bits(small_set, 16)
    first = small_set / "images" / "000.png"
    first.write_bytes(first.read_bytes()[:-400])  # one that is cut off does not hide the others
    said = refusal(small_set, model=MODEL, size=32)
    assert "24 images of 16 bits" in said
    assert "no value above 16,383 of 65,535" in said


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_a_picture_whose_range_is_not_known_is_refused(small_set, refusal, kind):
    file = small_set / "images" / "003.png"
    Image.fromarray(np.full((32, 32), 1000, kind)).save(file, format="TIFF")
    said = refusal(small_set, model=MODEL, size=32)
    assert "003.png" in said
    assert "the range of their values is not known" in said
    assert "save" in said


def test_one_picture_of_an_unknown_range_is_refused_without_an_audit_too(tmp_path):
    Image.fromarray(np.full((32, 32), 0.5, np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(BiaslibError, match=r"a\.tif.*the range of"):
        Preprocessing(size=32).picture(tmp_path / "a.tif")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mean": (123, 117, 104)}, "mean .* of pixels in [0, 1]"),
        ({"mean": (-0.5, 0.5, 0.5)}, "of pixels in [0, 1]"),
        ({"mean": ("nan", 0.5, 0.5)}, "of pixels in [0, 1]"),
        ({"std": (58, 57, 57)}, "divide"),
        ({"std": ("inf", "inf", "inf")}, "of pixels in [0, 1]"),
        ({"std": ("nan", "1", "1")}, "of pixels in [0, 1]"),
        ({"size": 1000000}, "at most 4,096 pixels"),
        ({"crop": 1e-9}, "at most 4,096 pixels"),
        ({"crop": "1e-320"}, "at most 4,096 pixels"),
        ({"crop": "nan"}, "share in (0, 1]"),
    ],
)
def test_impossible_preprocessing_is_one_sentence_of_the_command(small_set, refusal, options, said):
    found = refusal(small_set, model=MODEL, **({"size": 32} | options))
    assert all(part in found for part in said.split(" .* "))


def masked(folder, values, *, mode="L", name="m.png", palette=None, **saved):
    image = Image.fromarray(np.array(values, np.uint8).repeat(10, 0).repeat(10, 1), mode="L")
    if mode == "P":
        image = Image.frombytes("P", image.size, image.tobytes())
        image.putpalette(palette or [0, 0, 0, 200, 30, 30, 30, 200, 30])
    elif mode != "L":
        image = image.convert(mode)
    image.save(folder / name, **saved)
    return folder / name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("values", "mode", "expected"),
    [
        ([[0, 255], [0, 0]], "L", [[0, 1], [0, 0]]),
        ([[0, 1], [0, 0]], "L", [[0, 1], [0, 0]]),
        ([[0, 1], [0, 0]], "P", [[0, 1], [0, 0]]),
        ([[0, 2], [0, 0]], "P", [[0, 1], [0, 0]]),
        ([[0, 255], [0, 0]], "RGB", [[0, 1], [0, 0]]),
        ([[0, 255], [0, 0]], "RGBA", [[0, 1], [0, 0]]),
        ([[1, 1], [1, 1]], "L", [[1, 1], [1, 1]]),
        ([[255, 255], [255, 255]], "L", [[1, 1], [1, 1]]),
        ([[0, 0], [0, 0]], "L", [[0, 0], [0, 0]]),
    ],
)
def test_a_mask_of_two_values_is_the_region(tmp_path, values, mode, expected):
    found = Preprocessing(size=20).mask(masked(tmp_path, values, mode=mode))
    np.testing.assert_array_equal(found, np.array(expected, bool).repeat(10, 0).repeat(10, 1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("values", "given", "said"),
    [
        # Oxford's trimaps: 1 is the pet, 2 the background, 3 the border
        ([[1, 2], [3, 2]], {}, r"m\.png has 3 values \(1, 2, 3\).*one mask a region"),
        ([[0, 127], [255, 0]], {}, r"has 3 values \(0, 127, 255\)"),
        ([[0, 1], [2, 0]], {"mode": "P"}, r"has 3 values \(0, 1, 2\)"),
        ([[1, 2], [2, 2]], {}, r"\(1, 2\) and no 0"),
        ([[2, 2], [2, 2]], {}, r"\(2\) and no 0"),
        (
            [[0, 1], [0, 0]],
            {"mode": "P", "palette": [255, 255, 255, 0, 0, 0]},
            "number 0 of its palette is the lighter",
        ),
    ],
)
def test_what_is_no_mask_of_one_region_is_refused(tmp_path, values, given, said):
    with pytest.raises(BiaslibError, match=said):
        Preprocessing(size=20).mask(masked(tmp_path, values, **given))


def test_a_mask_of_16_bits_has_two_values_too(tmp_path):
    inside = np.zeros((20, 20), np.uint16)
    inside[:5] = 65_535
    Image.fromarray(inside).save(tmp_path / "m.png")
    np.testing.assert_array_equal(Preprocessing(size=20).mask(tmp_path / "m.png"), inside > 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", ["L", "P", "I;16"])
def test_the_named_value_of_a_label_map_is_the_region(tmp_path, mode):
    values = np.array([[1, 2], [3, 300 if mode == "I;16" else 4]])
    for value in (1, 3, values[1, 1]):
        file = masked(tmp_path, values, mode="L" if mode == "I;16" else mode, palette=list(range(15)))
        if mode == "I;16":
            Image.fromarray(values.astype(np.uint16).repeat(10, 0).repeat(10, 1)).save(file)
        found = Preprocessing(size=20, mask_value=int(value)).mask(file)
        np.testing.assert_array_equal(found, (values == value).repeat(10, 0).repeat(10, 1))
    # 0 is a value as any other, and one that is nowhere is no region
    assert not Preprocessing(size=20, mask_value=0).mask(file).any()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_value_of_a_coloured_mask_is_refused(tmp_path):
    with pytest.raises(BiaslibError, match=r"has 2 values .*where it holds one number a pixel.*--mask-value"):
        Preprocessing(size=20, mask_value=255).mask(masked(tmp_path, [[0, 255], [0, 0]], mode="RGB"))


def test_a_mask_in_the_transparency_is_not_taken_for_the_whole_picture(tmp_path):
    pixels = np.full((20, 20, 4), 255, np.uint8)
    pixels[:10, :, 3] = 0
    Image.fromarray(pixels).save(tmp_path / "m.png")
    with pytest.raises(BiaslibError, match=r"m\.png is partly transparent"):
        Preprocessing(size=20).mask(tmp_path / "m.png")


def test_a_mask_saved_as_jpeg_is_refused_with_the_remedy(tmp_path):
    disc = np.hypot(*np.mgrid[-20:20, -20:20]) < 13
    Image.fromarray(disc.astype(np.uint8) * 255).save(tmp_path / "m.jpg")
    with pytest.raises(BiaslibError, match=r"m\.jpg has \d+ values .*black-and-white PNG"):
        Preprocessing(size=20).mask(tmp_path / "m.jpg")


def test_label_maps_as_masks_are_refused_by_the_command(small_set, refusal):
    for number, file in enumerate(sorted((small_set / "masks" / "spot").iterdir())):
        Image.fromarray(np.random.default_rng(number).integers(1, 4, (32, 32), np.uint8)).save(file)
    said = refusal(small_set, model=MODEL, size=32, masks=small_set / "masks")
    assert "000.png has 3 values (1, 2, 3)" in said
    assert "name the region's with --mask-value" in said


def test_label_maps_with_a_value_are_the_same_masks(small_set, tmp_path):
    given = {"data": small_set / "images", "labels": small_set / "labels.csv", "target": "green", "groups": "red"}
    given |= {"model": honest(), "permutations": 19, **PLAIN}
    plain = audit.run(masks=small_set / "masks", **given)
    for file in (small_set / "masks" / "spot").iterdir():
        label_map = np.where(np.asarray(Image.open(file)), 7, np.indices((32, 32))[0] % 2 + 1)
        (tmp_path / "maps" / "spot").mkdir(parents=True, exist_ok=True)
        Image.fromarray(label_map.astype(np.uint8)).save(tmp_path / "maps" / "spot" / file.name)
    found = audit.run(masks=tmp_path / "maps", mask_value=7, **given)
    pd.testing.assert_frame_equal(found.tables["regions"], plain.tables["regions"])
    assert found.settings["mask value"] == "7"
    assert found.key != plain.key


def test_a_mask_value_goes_with_masks(small_set, refusal):
    assert refusal(small_set, model=MODEL, size=32, mask_value=1) == (
        "1 is to be a region, but there are no masks: name their folder."
    )


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
    """A `gs` on the path that leaves a mark where it is started."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\nexit 1\n")
    (place / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    return tmp_path / "started"


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 32\n%%EndComments\nshowpage\n%%EOF\n"


def test_a_program_called_a_picture_starts_nothing(small_set, ghostscript):
    (small_set / "images" / "005.png").write_bytes(EPS)
    found = asked(small_set)
    assert not ghostscript.exists()
    assert any("cannot be read" in note and "005.png" in note for note in found.notes)


def test_a_program_called_a_mask_starts_nothing(small_set, ghostscript):
    (small_set / "masks" / "spot" / "005.png").write_bytes(EPS)
    with pytest.raises(BiaslibError, match=r"005\.png unreadable"):
        asked(small_set, masks=small_set / "masks")
    with pytest.raises(BiaslibError, match=r"005\.png cannot be read"):
        Preprocessing(size=32).mask(small_set / "masks" / "spot" / "005.png")
    assert not ghostscript.exists()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_that_leads_out_of_the_folder_is_refused(small_set, refusal, tmp_path, what):
    (tmp_path / "elsewhere").mkdir()
    secret = tmp_path / "elsewhere" / "secret.png"
    shutil.copy(small_set / "images" / "003.png", secret)
    labels = pd.read_csv(small_set / "labels.csv")
    if what == "file":
        (small_set / "images" / "003.png").unlink()
        (small_set / "images" / "003.png").symlink_to(secret)
        name = "003.png"
    else:
        (small_set / "images" / "sub").symlink_to(secret.parent)
        name = labels.loc[3, "file"] = "sub/secret.png"
        labels.to_csv(small_set / "labels.csv", index=False)
    said = refusal(small_set, model=MODEL, size=32)
    assert f"({name})" in said
    assert "outside" in said


def test_a_mask_that_is_a_link_out_of_the_masks_is_refused(small_set, tmp_path, refusal):
    mask = small_set / "masks" / "spot" / "003.png"
    mask.rename(tmp_path / "mask.png")
    mask.symlink_to(tmp_path / "mask.png")
    said = refusal(small_set, model=MODEL, size=32, masks=small_set / "masks")
    assert said.startswith("1 of the masks are links to files outside")


def test_links_that_stay_inside_and_a_folder_that_is_a_link_are_read(small_set, tmp_path):
    images = small_set / "images"
    (images / "003.png").rename(images / "other.png")
    (images / "003.png").symlink_to("other.png")
    images.rename(tmp_path / "moved")
    images.symlink_to(tmp_path / "moved")
    assert asked(small_set).numbers["unreadable"] == 0
