"""Growing: the schedule and the penalties by hand, and a training that is killed and goes on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from biaslib.errors import BiaslibError
from biaslib.gan import training
from biaslib.gan.training import GanConfig, _gradient_penalty, _r1_penalty, as_pixels, grow
from biaslib.training import DamagedCheckpointWarning
from tests.damage import DAMAGES

TINY = GanConfig(
    latent=8, widths=(8, 8), growth=((0.0, 0.5), (0.25, 0.25)), images=32, batch=4, chunks=4,
    precision="float32",
)  # fmt: skip


@pytest.fixture(scope="module")
def squares():
    """Images that are dark or light as a whole."""
    rng = np.random.default_rng(0)
    tone = rng.choice([40, 220], size=(20, 1, 1, 1))
    return np.broadcast_to(tone, (20, 8, 8, 3)).astype(np.uint8)


def weights(network):
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.fixture(scope="module")
def unbroken(squares, tmp_path_factory):
    """The weights of a training, its log, and the checkpoint that it leaves."""
    path = tmp_path_factory.mktemp("unbroken") / "deep" / "generator.pt"
    generator, log = grow(squares, TINY, checkpoint=path)
    return weights(generator), log, path.read_bytes()


def test_a_level_is_faded_in_and_then_stays():
    config = GanConfig(widths=(8, 8, 8), growth=((0.0, 0.2), (0.2, 0.2), (0.2, 0.2)), images=1000, batch=10, chunks=5)
    assert [config.stage(shown) for shown in (0, 199, 200, 300, 400, 599, 600, 700, 800, 1000)] == [
        (0, 1.0), (0, 1.0), (1, 0.0), (1, pytest.approx(0.5)), (1, 1.0), (1, 1.0), (2, pytest.approx(0.0)),
        (2, pytest.approx(0.5)), (2, 1.0), (2, 1.0),
    ]  # fmt: skip
    assert GanConfig().size == 32


def test_the_penalty_of_a_unit_slope_is_zero():
    direction = torch.randn(3 * 4 * 4, generator=torch.Generator().manual_seed(0))
    direction /= direction.norm()
    real, fake, shares = torch.randn(5, 3, 4, 4), torch.randn(5, 3, 4, 4), torch.rand(5)

    def linear(images, slope=1.0):
        return slope * images.flatten(1) @ direction

    assert _gradient_penalty(linear, real, fake, shares).item() == pytest.approx(0, abs=1e-6)
    steep = _gradient_penalty(lambda images: linear(images, 3.0), real, fake, shares)
    assert steep.item() == pytest.approx(4, rel=1e-4)
    assert _r1_penalty(lambda images: linear(images, 3.0), real).item() == pytest.approx(9, rel=1e-4)


def test_the_penalty_is_taken_between_real_and_generated_images():
    real, fake = torch.ones(2, 1, 1, 1), torch.zeros(2, 1, 1, 1)
    shares = torch.tensor([0.25, 1.0])
    # the slope of x² is 2x: 0.5 and 2
    found = _gradient_penalty(lambda images: images.flatten(1).square().sum(1), real, fake, shares)
    assert found.item() == pytest.approx(((0.5 - 1) ** 2 + (2 - 1) ** 2) / 2)


@pytest.mark.parametrize("loss", ["wgan-gp", "r1"])
def test_a_killed_training_ends_with_the_same_weights(squares, tmp_path, monkeypatch, loss):
    config, path = replace(TINY, loss=loss, decay=0.5), tmp_path / "killed.pt"
    unbroken, log = grow(squares, config, checkpoint=tmp_path / "unbroken.pt")
    step = training._Run.train_chunk

    def killed(run, images):
        if run.chunk == 2:
            raise KeyboardInterrupt
        step(run, images)

    with monkeypatch.context() as patch:
        patch.setattr(training._Run, "train_chunk", killed)
        with pytest.raises(KeyboardInterrupt):
            grow(squares, config, checkpoint=path)
    assert path.exists()
    resumed, log_of_resumed = grow(squares, config, checkpoint=path)
    assert torch.equal(weights(resumed), weights(unbroken))
    assert log_of_resumed == log


def test_a_checkpoint_stays_and_is_gone_on_from(squares, unbroken, tmp_path, monkeypatch):
    path = tmp_path / "generator.pt"
    path.write_bytes(unbroken[2])
    chunks = []
    monkeypatch.setattr(training._Run, "train_chunk", lambda *given: chunks.append(1))
    again, _ = grow(squares, TINY, checkpoint=path)
    assert chunks == []
    assert torch.equal(weights(again), unbroken[0])
    assert path.exists()


@pytest.mark.parametrize("damage", ["bit 0", "block 0", "cut at 0.3", "text"])  # all of them: tests/test_training.py
def test_a_damaged_checkpoint_is_said_and_started_anew(squares, unbroken, tmp_path, damage):
    path = tmp_path / "generator.pt"
    path.write_bytes(DAMAGES[damage](unbroken[2]))
    with pytest.warns(DamagedCheckpointWarning, match="is damaged; the training starts anew"):
        again, _ = grow(squares, TINY, checkpoint=path)
    assert torch.equal(weights(again), unbroken[0])


def test_the_result_is_the_average_and_the_levels_rise(squares, unbroken, tmp_path):
    assert [row["level"] for row in unbroken[1]] == [0, 0, 1, 1]
    still, _ = grow(squares, replace(TINY, average=1.0), checkpoint=tmp_path / "still.pt")
    torch.manual_seed(TINY.seed)
    torch.testing.assert_close(
        weights(still), weights(training.GeneratorNetwork(latent=8, widths=(8, 8))), rtol=0, atol=0
    )


@pytest.mark.slow
def test_it_learns_how_light_the_images_are(squares, tmp_path):
    config = replace(TINY, widths=(16, 8), images=2000, batch=20, chunks=2, learning_rate=5e-3, average=0.9)
    dark = np.full_like(squares, 40)
    generator, _ = grow(dark, config, checkpoint=tmp_path / "dark.pt")
    torch.manual_seed(0)
    drawn = as_pixels(generator(torch.randn(50, 8)))
    assert abs(drawn.mean() - 40) < 25


def test_half_of_the_faces_are_shown_mirrored(squares, tmp_path, monkeypatch):
    seen = []
    as_seen = training._Run._real
    monkeypatch.setattr(training._Run, "_real", lambda run, *of: (seen.append(of[0]), as_seen(run, *of))[1])
    sided = squares.copy()
    sided[:, :, :4] = 0
    for mirror in (False, True):
        seen.clear()
        grow(sided, replace(TINY, images=64, mirror=mirror), checkpoint=tmp_path / f"{mirror}.pt")
        left = np.concatenate(seen)[:, 0, 0, 0] == 0
        assert left.all() if not mirror else 0.25 < left.mean() < 0.75


def test_pixels_run_from_black_to_white():
    images = torch.tensor([-1.0, 0.0, 1.0, 2.0]).reshape(1, 1, 2, 2).expand(1, 3, 2, 2)
    np.testing.assert_array_equal(as_pixels(images)[0, :, :, 0], [[0, 128], [255, 255]])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss": "lsgan"}, "loss must be one of wgan-gp, r1, not 'lsgan'"),
        ({"growth": ((0.0, 1.0),)}, "one level each, but there are 1 and 2"),
        ({"growth": ((0.0, 0.5), (0.0, 0.6))}, "sum to 1, not to 1.1"),
        ({"images": 8}, "each of 4 chunks at least one batch"),
    ],
)
def test_configurations_that_cannot_be(changed, message):
    with pytest.raises(BiaslibError, match=message):
        replace(TINY, **changed)


def test_images_that_do_not_fit_are_named(squares, tmp_path):
    with pytest.raises(BiaslibError, match=r"images must be uint8 \(N, 8, 8, 3\) for these widths, not float32"):
        grow(squares.astype(np.float32), TINY, checkpoint=tmp_path / "none.pt")
    with pytest.raises(BiaslibError, match="There are 3 images and a batch of 4"):
        grow(squares[:3], TINY, checkpoint=tmp_path / "none.pt")
