import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from biaslib import store
from biaslib.attribution import grad_cam
from biaslib.audit import predictions
from biaslib.audit.predictions import file_digests, predict
from biaslib.errors import BiaslibError
from biaslib.metrics import mask_score
from tests.audit.subjects import PLAIN, Plain, Spots, biased, both, under_audit

FILES = [f"{i:03d}.png" for i in range(40)]


@pytest.fixture
def asked():
    return under_audit(both(), output=0, group_outputs=[1], preprocessing=PLAIN)


def answers(model, folder, files, masks, **given):
    return predict(model, folder, files, masks, digests=file_digests(folder, files, [*masks.values()]), **given)


def test_answers_and_maps_are_those_of_the_model(spots, asked):
    masks = {"spot": [spots / "masks" / "spot" / name for name in FILES]}
    predicted = answers(asked, spots / "images", FILES, masks, batch=7)
    pictures = np.stack([np.asarray(Image.open(spots / "images" / name)) for name in FILES])
    pixels = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        np.testing.assert_allclose(predicted.outputs, both()(pixels).numpy(), rtol=1e-4, atol=1e-4)
    maps = grad_cam(both(), pixels, [0, 1], absolute=True).numpy()
    np.testing.assert_allclose(predicted.maps, maps, rtol=1e-3, atol=1e-5)
    outlines = np.stack([np.asarray(Image.open(path)) for path in masks["spot"]]).astype(bool)
    there = outlines.any((1, 2))
    np.testing.assert_allclose(predicted.score["spot"], mask_score(maps[:, 0], outlines), rtol=1e-3)
    np.testing.assert_allclose(predicted.area["spot"], outlines.mean((1, 2)))
    assert there.sum() == 20
    assert np.isnan(predicted.mass["spot"][~there]).all()


def test_memory_is_kept_before_the_first_batch_is_asked(spots, asked, monkeypatch):
    done, real = [], predictions.attribution.grad_cam
    monkeypatch.setattr("biaslib.store.parallel.keep_memory", lambda: done.append("kept"))
    monkeypatch.setattr(predictions.attribution, "grad_cam", lambda *a, **k: (done.append("asked"), real(*a, **k))[1])
    answers(asked, spots / "images", FILES[:8], {}, batch=4)
    assert done == ["kept", "asked", "asked"]


def test_a_killed_audit_asks_only_what_is_missing(spots, asked, monkeypatch):
    monkeypatch.setattr(predictions, "_PIECE", 10)
    calls = []
    real = predictions.attribution.grad_cam
    stop = {"at": 3}

    def explained(*arguments, **keywords):
        if len(calls) == stop["at"]:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*arguments, **keywords)

    monkeypatch.setattr(predictions.attribution, "grad_cam", explained)
    with pytest.raises(KeyboardInterrupt):
        answers(asked, spots / "images", FILES, {}, batch=10)
    assert len(store.entries()) == 3
    stop["at"] = None
    resumed = answers(asked, spots / "images", FILES, {}, batch=10)
    assert len(calls) == 4
    again = answers(asked, spots / "images", FILES, {}, batch=10)
    assert len(calls) == 4
    np.testing.assert_array_equal(again.outputs, resumed.outputs)


def test_another_model_or_another_picture_is_asked_anew(spots, asked, tmp_path):
    first = answers(asked, spots / "images", FILES[:4], {})
    other = answers(under_audit(biased(), preprocessing=PLAIN), spots / "images", FILES[:4], {})
    assert not np.array_equal(first.outputs[:, 0], other.outputs[:, 0])
    for name in FILES[:4]:
        Image.new("RGB", (32, 32), (0, 255, 0)).save(tmp_path / name)
    assert (answers(asked, tmp_path, FILES[:4], {}).outputs[:, 0] > first.outputs[:, 0].max()).all()


def test_unreadable_pictures_are_left_out_and_known(spots, asked, tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "_PIECE", 4)
    for name in FILES[:12]:
        (tmp_path / name).write_bytes((spots / "images" / name).read_bytes())
    for name in (*FILES[4:8], FILES[0]):
        (tmp_path / name).write_bytes(b"no picture")
    masks = {"spot": [spots / "masks" / "spot" / name for name in FILES[:12]]}
    predicted = answers(asked, tmp_path, FILES[:12], masks, batch=2)
    assert np.flatnonzero(~predicted.readable).tolist() == [0, 4, 5, 6, 7]
    whole = answers(asked, spots / "images", FILES[:12], masks, batch=2)
    np.testing.assert_allclose(predicted.outputs, whole.outputs[predicted.readable], rtol=1e-5)
    np.testing.assert_allclose(predicted.mass["spot"], whole.mass["spot"][predicted.readable], rtol=1e-5)


def test_nothing_readable_is_refused(asked, tmp_path):
    (tmp_path / "a.png").write_bytes(b"no")
    with pytest.raises(BiaslibError, match="None of the 1 images can be read"):
        answers(asked, tmp_path, ["a.png"], {})


def test_a_model_without_maps_is_asked_for_its_answers_alone(spots):
    asked_plainly = under_audit(Plain(biased()), preprocessing=PLAIN, attribution="none")
    predicted = answers(asked_plainly, spots / "images", FILES[:8], {})
    assert predicted.maps is None
    assert predicted.outputs.shape == (8, 1)


class Probability(Spots):
    def forward(self, x):
        return super().forward(x).sigmoid()


@pytest.mark.parametrize("n", [3, 60])
def test_probabilities_need_a_threshold(spots, n):
    files = [f"{i:03d}.png" for i in range(n)]
    with pytest.raises(BiaslibError, match=f"first {n} answers .* as probabilities do: give the threshold"):
        answers(under_audit(Probability(0.0, 1000.0), preprocessing=PLAIN), spots / "images", files, {})
    cut = under_audit(Probability(0.0, 1000.0), preprocessing=PLAIN, threshold=0.5)
    predicted = answers(cut, spots / "images", files, {})
    np.testing.assert_array_equal(predicted.outputs[:, 0] > 0, np.arange(n) % 2 == 0)


def test_probabilities_are_known_behind_a_piece_that_cannot_be_read(spots, tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "_PIECE", 4)
    shutil.copytree(spots / "images", tmp_path / "images")
    for name in FILES[:4]:
        (tmp_path / "images" / name).write_bytes(b"no picture")
    with pytest.raises(BiaslibError, match="first 4 answers"):
        answers(under_audit(Probability(0.0, 1000.0), preprocessing=PLAIN), tmp_path / "images", FILES[:12], {})
