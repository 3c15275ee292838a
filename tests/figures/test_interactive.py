"""Interactive pieces: what they embed, what they show without scripts, and the formula they compute."""

import base64
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from biaslib import figures
from biaslib.errors import BiaslibError
from biaslib.metrics import attention_iou

S, N = 3, 4
IMAGES = np.random.default_rng(0).integers(0, 256, (N, 16, 16, 3), dtype=np.uint8)
MAPS = np.random.default_rng(1).random((S, N, 5, 5))
MASKS = np.random.default_rng(2).random((N, 16, 16)) > 0.5
SETTINGS = ["50 %", "90 %", "100 %"]
FRAMES = np.stack([IMAGES] * S)


def explorer(**changes):
    keywords = {"settings": SETTINGS, "masks": MASKS, "alt": "four birds", "caption": "Move it."}
    return figures.explorer(IMAGES, MAPS, **{**keywords, **changes})


def data_of(piece):
    text = re.search(r'<script type="application/json" class="biaslib-data">(.*?)</script>', piece.html).group(1)
    return json.loads(text)


def picture_of(uri):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))))


def test_the_explorer_embeds_images_maps_and_masks_without_loss():
    data = data_of(explorer())
    assert np.array_equal(picture_of(data["images"]).reshape(IMAGES.shape), IMAGES)
    levels = np.frombuffer(base64.b64decode(data["maps"]), np.uint8).reshape(MAPS.shape)
    assert np.abs(levels / 255 - MAPS / MAPS.max((2, 3), keepdims=True)).max() <= 0.5 / 255 + 1e-9
    bits = np.unpackbits(np.frombuffer(base64.b64decode(data["masks"]), np.uint8)).astype(bool)
    assert np.array_equal(bits.reshape(MASKS.shape), MASKS)


def test_the_readout_has_each_number_and_null_for_nan():
    values = np.arange(S * N, dtype=float).reshape(S, N) / 20
    values[1, 2] = np.nan
    data = data_of(explorer(table={"bird score": values, "effect": values - 1}))
    assert [row["name"] for row in data["table"]] == ["bird score", "effect"]
    assert data["table"][0]["values"][1] == [0.2, 0.25, None, 0.35]
    assert data["table"][0]["range"] == [0, 1]
    assert data["table"][1]["range"] == [-1, pytest.approx(-0.45)]


@pytest.mark.parametrize(
    "piece",
    [
        explorer(),
        figures.dial(FRAMES, SETTINGS, alt="four birds", caption="Move it."),
        figures.map_editor(),
    ],
    ids=["explorer", "dial", "map_editor"],
)
def test_every_piece_is_self_sufficient_and_has_a_picture_without_scripts(piece):
    assert f'role="group" aria-label="{piece.alt}"' in piece.html
    fallback = re.search(
        r'<div class="biaslib-fallback"><img class="dark-light" src="([^"]+)" alt="([^"]+)"', piece.html
    )
    assert picture_of(fallback.group(1)).size > 0
    assert fallback.group(2)
    assert not re.search(r"(src|href)=\"(?!data:)|https?://|import\(", piece.html)


def test_a_piece_is_the_same_to_the_byte_every_time():
    assert explorer().html == explorer().html


def test_words_cannot_end_the_script_they_travel_in():
    piece = explorer(titles=["</script><b>", "b", "c", "d"])
    assert "</script><b>" not in piece.html
    assert data_of(piece)["titles"][0] == "</script><b>"


def test_the_size_stays_below_600_kb_for_24_images_and_7_settings():
    rng = np.random.default_rng(3)
    images = rng.integers(0, 256, (24, 64, 64, 3), dtype=np.uint8)  # noise: nothing compresses worse
    piece = figures.explorer(images, rng.random((7, 24, 8, 8)), settings=list("abcdefg"), alt="noise")
    assert len(piece.html) < 600_000


def test_the_dial_embeds_one_sheet_a_setting():
    eight = np.concatenate([FRAMES, FRAMES], axis=1)
    piece = figures.dial(eight, SETTINGS, notes=list("abc"), alt="birds")
    data = data_of(piece)
    assert [picture_of(sheet).shape for sheet in data["sheets"]] == [(32, 96, 3)] * S  # six in a row
    assert (data["columns"], data["pictures"]) == (6, 8)
    assert data["notes"] == ["a", "b", "c"]
    # without scripts the first picture is shown
    assert f'src="{data["sheets"][0]}" alt="birds bias: {SETTINGS[0]}."' in piece.html


def test_the_editor_starts_with_a_blob_and_the_same_one_cell_beside_it():
    data = data_of(figures.map_editor())
    a, m = np.reshape(data["a"], (7, 7)), np.reshape(data["m"], (7, 7))
    assert a.max() == a[3, 3] == 1
    np.testing.assert_array_equal(m[:, 1:], a[:, :-1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: explorer(alt=""), "alt"),
        (lambda: explorer(settings=["a"]), r"maps must have shape \(1, 4, h, w\)"),
        (lambda: figures.explorer(IMAGES, MAPS - 1, settings=SETTINGS, alt="a"), ">= 0"),
        (lambda: explorer(masks=MASKS[:2]), "masks"),
        (lambda: explorer(titles=["a"]), "titles"),
        (lambda: explorer(table={"score": np.zeros((N, S))}), "'score'"),
        (lambda: figures.dial(FRAMES, ["a"], alt="a"), "images_by_setting"),
        (lambda: figures.dial(FRAMES, SETTINGS, notes=["a"], alt="a"), "notes"),
        (lambda: figures.dial(FRAMES / 255, SETTINGS, alt="a"), "uint8"),
        (lambda: figures.dial(FRAMES, SETTINGS, alt=" "), "alt"),
    ],
)
def test_a_wrong_input_is_named(call, message):
    with pytest.raises(BiaslibError, match=message):
        call()


@pytest.mark.skipif(shutil.which("node") is None, reason="the script's formula is run by node, which is not installed")
def test_the_scripts_formula_is_the_librarys():
    rng = np.random.default_rng(4)
    maps = rng.random((60, 2, 7, 7)) ** 3
    maps[:20] *= rng.random((20, 2, 7, 7)) > 0.7  # sparse ones
    maps[20] = np.stack([maps[20, 0]] * 2)
    maps[21, 1] = 0
    maps[22] = 0
    source = (Path(figures.__file__).parent / "attention_iou.js").read_text()
    pairs = json.dumps(maps.reshape(60, 2, 49).tolist())
    program = f"{source}\nconsole.log(JSON.stringify({pairs}.map(([a, b]) => globalThis.biaslibAttentionIou(a, b))));"
    run = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True)
    found = np.array(json.loads(run.stdout), dtype=float)  # JSON writes NaN as null
    expected = attention_iou(maps[:, 0], maps[:, 1])
    assert np.isnan(found[[21, 22]]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-12, equal_nan=True)
