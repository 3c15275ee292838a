import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import audits, bare, epsilon_lrp, gan, on_gpu, workloads
from benchmarks.report import Figure, publish
from biaslib import models
from biaslib.metrics import bias_amplification


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("a", 1.2, "x", "<=", 1.25), True),
        (Figure("a", 1.3, "x", "<=", 1.25), False),
        (Figure("a", 100, "x", ">=", 100), True),
        (Figure("a", 99, "x", ">=", 100), False),
        (Figure("a", float("nan"), "x", ">=", 100), False),
        (Figure("a", 99), True),
    ],
)
def test_a_missed_target_is_said_and_written(
    figure: Figure, met: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made" / "bench.json"
    assert publish([[Figure("b", 0.0)], [figure]], path) is met
    assert ("MISSED" in capsys.readouterr().out) is not met
    rows = json.loads(path.read_text())["figures"]
    assert [row["target"] for row in rows] == [None, figure.target if figure.bound else None]
    assert list(path.parent.iterdir()) == [path]


def test_the_loop_that_is_compared_with_computes_the_same() -> None:
    maps = workloads.maps_of_a_test_set()[:3]
    np.testing.assert_allclose(workloads.all_pairs(maps), workloads.pair_by_pair(maps), rtol=1e-5)


def test_the_loop_over_sets_computes_the_same() -> None:
    for labels in (workloads.dense_labels(200, 5, 3), workloads.object_labels(200, 8, 2)):
        assert bias_amplification(*labels).mean == pytest.approx(workloads.set_by_set(*labels))


@pytest.mark.slow
def test_a_training_step_is_timed_beside_the_plain_loop() -> None:
    ours, plain, ratio = gan.run(steps=1, rounds=1)
    assert ratio.value == pytest.approx(plain.value / ours.value)
    assert ours.value > 0


def test_bare_passes_are_the_ones_that_grad_cam_needs() -> None:
    torch.manual_seed(0)
    model, images = models.build("small", 3).eval(), torch.randn(2, 3, 32, 32)
    gradients = bare.grad_cam(model, images, 3)
    assert gradients.shape == (3, 2, model.forward_features(images).shape[1], 1, 1)
    assert gradients.abs().max() > 0


@pytest.mark.slow
def test_relevance_is_timed_beside_its_bare_passes() -> None:
    figures = epsilon_lrp.run(size=32, images=2, rounds=1)
    assert [figure.target for figure in figures if figure.bound] == [bare.MOST] * 2


def test_without_a_gpu_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert publish([[Figure("b", 0.0)], on_gpu.run()], tmp_path / "bench.json")
    assert capsys.readouterr().out.count("need a GPU") == 1
    assert len(json.loads((tmp_path / "bench.json").read_text())["figures"]) == 1


@pytest.mark.slow
def test_what_a_gpu_would_be_timed_with_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIASLIB_DEVICE", "cpu")
    ours, plain, ratio = on_gpu.training("resnet10t", n=8, size=32, batch=4, rounds=1)
    assert ratio.value == pytest.approx(plain.value / ours.value)
    monkeypatch.setattr(workloads, "TARGETS", 2)
    figures = on_gpu.maps(torch.device("cpu"), size=32, batch=1, few=2, rounds=1)
    assert [figure.target for figure in figures if figure.bound] == [1] * 3


def test_what_integrated_gradients_are_timed_beside_on_a_gpu_computes_the_same() -> None:
    model, image = workloads.efficientnet(32)
    images = torch.cat([image, image.flip(3)])
    expected = on_gpu.captum(model, images).detach().float() * 64 / 63
    ours = on_gpu.integrated_gradients(model, images, [1], signed=True)[:, 0]
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.slow
def test_an_audit_of_many_predictions_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "peak_memory", lambda name: {"total": 5e8})
    monkeypatch.setattr(audits, "of_pictures", lambda few, many: [])
    time, memory = audits.run(images=300)
    assert time.value > 0
    assert memory.value == 0.5


def test_an_audit_of_pictures_is_timed_beside_its_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "peak_memory", lambda name: {"total": {"32 pictures": 4e8, "96 pictures": 5e8}[name]})
    further, ratio, memory = audits.of_pictures(32, 96, "small", 32)
    assert "64 further pictures, small, 32 px" in further.name
    assert ratio.value != 0
    assert (memory.value, memory.met) == (1.25, False)
