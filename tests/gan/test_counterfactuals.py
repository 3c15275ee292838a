"""Walks through a latent space whose images show their codes."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from biaslib import gan, models
from biaslib.chapters import face_generators
from biaslib.errors import BiaslibError
from biaslib.gan.counterfactuals import (
    consistency,
    draw,
    features,
    frechet_distance,
    latent_codes,
    leakage,
    opened,
    traversal,
)
from biaslib.gan.networks import GeneratorNetwork
from biaslib.gan.training import as_pixels
from biaslib.store import parallel


class Painter(GeneratorNetwork):
    """Two numbers of the code are the shades of the upper and the lower half."""

    def __init__(self):
        super().__init__(latent=2, widths=(4,))

    def forward(self, codes, *, level=None, alpha=1.0):
        rows = (codes / 4).repeat_interleave(2, dim=1)
        return rows[:, None, :, None].expand(-1, 3, 4, 4)


def shades(images):
    """(M, 2): the two numbers again, in [0, 1]."""
    return images[:, [0, 3], 0, 0] / 255


@pytest.fixture
def painter():
    return Painter()


CODES = latent_codes(40, 2)


def test_a_step_along_a_direction_changes_what_it_stands_for(painter):
    images = traversal(painter, CODES, np.array([1.0, 0.0]), (-1, 0, 1))
    assert images.shape == (3, 40, 4, 4, 3)
    np.testing.assert_array_equal(images[1], draw(painter, CODES))
    np.testing.assert_array_equal(images[0][:, 2:], images[2][:, 2:])  # the lower half stays
    np.testing.assert_allclose(images[2][:, 0].astype(int) - images[0][:, 0], 127.5 / 2, atol=1)


def test_what_leaks_is_what_the_images_at_both_ends_differ_by(painter):
    ends = [shades(draw(painter, CODES + step * np.eye(2)[1])) for step in (-0.5, 0.5)]
    found = leakage(shades, painter, CODES, np.eye(2), step=0.5)
    assert found.shape == (2, 2, 40)
    np.testing.assert_array_equal(found[1], (ends[1] - ends[0]).T)


def test_a_pure_direction_does_not_leak_and_a_mixed_one_does(painter):
    mixed = np.array([1.0, 1.0]) / 2**0.5
    found = leakage(shades, painter, CODES * 0.1, np.stack([np.eye(2)[0], mixed]), step=1.0).mean(axis=2)
    np.testing.assert_allclose(found, [[0.25, 0], [0.25 / 2**0.5, 0.25 / 2**0.5]], atol=0.01)


def test_lines_within_a_half_space_stay_there_and_others_leave(painter):
    assert consistency(lambda images: shades(images)[:, 0], painter, CODES).all()

    def striped(images):
        return np.sin(40 * shades(images)[:, 0]) > 0

    found = consistency(striped, painter, CODES, between=3)
    assert found.shape[1] == 3
    assert 0.3 < found.mean() < 0.9


def test_codes_are_normal_and_seeded():
    many = latent_codes(5000, 4, seed=3)
    assert many.std() == pytest.approx(1, abs=0.02)
    np.testing.assert_array_equal(many, latent_codes(5000, 4, seed=3))


def test_batches_do_not_change_the_images():
    torch.manual_seed(0)
    generator, codes = GeneratorNetwork(latent=8, widths=(8, 8)), latent_codes(10, 8)
    whole, parts = draw(generator, codes).astype(int), draw(generator, codes, batch=3).astype(int)
    assert np.abs(whole - parts).max() <= 1


def test_what_does_not_fit_is_named(painter):
    with pytest.raises(BiaslibError, match=r"has 2 numbers, not the shape \(3,\)"):
        traversal(painter, CODES, np.ones(3), (1.0,))
    with pytest.raises(BiaslibError, match=r"Latent codes must be \(N, 8\)"):
        draw(GeneratorNetwork(latent=8, widths=(8,)), CODES)
    with pytest.raises(BiaslibError, match="Among 1 codes no two have the same answer"):
        consistency(lambda images: shades(images)[:, 0], painter, CODES[:1])


def test_images_do_not_depend_on_the_number_of_threads():
    generator = face_generators.load("faces-0").generator
    codes = latent_codes(37, generator.latent)  # no multiple of a batch
    one, two = (parallel.on_threads(threads, draw, generator, codes) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one[:5], draw(generator, codes[:5]))


# --- the Fréchet distance, against a case by hand and scipy's matrix root ---


def test_by_hand_in_one_dimension():
    # means 0 and 3, standard deviations 1 and 2: 3² + (2 - 1)²
    a, b = np.array([[-1.0], [0.0], [1.0]]), np.array([[1.0], [3.0], [5.0]])
    assert frechet_distance(a, b) == pytest.approx(10)


def test_equals_the_formula_with_scipys_root():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)), rng.normal(1, 2, size=(150, 6))
    of_a, of_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    apart = a.mean(0) - b.mean(0)
    wanted = apart @ apart + np.trace(of_a + of_b - 2 * np.real(sqrtm(of_a @ of_b)))
    assert frechet_distance(a, b) == pytest.approx(wanted)
    assert frechet_distance(b, a) == pytest.approx(wanted)


def test_a_turn_and_a_shift_of_both_sets_change_nothing():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(80, 4)), rng.normal(size=(90, 4)) * [1, 2, 3, 4]
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    assert frechet_distance(a @ turn + 5, b @ turn + 5) == pytest.approx(frechet_distance(a, b))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(a, a[::-1]) == pytest.approx(0, abs=1e-9)


def test_features_that_do_not_vary_have_a_distance():
    a = np.random.default_rng(2).normal(size=(30, 5))
    a[:, 2:] = 1.0  # a covariance without full rank, as dead channels give
    assert frechet_distance(a, a + np.array([0, 0, 1, 0, 0])) == pytest.approx(1)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (np.zeros((1, 3)), np.zeros((5, 3)), "at least 2 images"),
        (np.zeros((5, 3)), np.zeros((5, 4)), "of one d"),
        (np.zeros(5), np.zeros((5, 1)), "of one d"),
        (np.zeros((5, 3)), np.full((5, 3), np.nan), "must be finite"),
    ],
)
def test_what_has_no_distance_is_refused(a, b, said):
    with pytest.raises(BiaslibError, match=said):
        frechet_distance(a, b)


def test_features_are_what_the_last_layer_sees():
    torch.manual_seed(0)
    model = models.build("small", 5).eval()
    images = np.random.default_rng(3).integers(0, 256, (7, 32, 32, 3), np.uint8)
    found = features(model, images, batch=4)
    with torch.inference_mode():
        logits = model(models.to_tensor(images)).numpy()
        head = model.get_submodule(model.pretrained_cfg["classifier"])
        np.testing.assert_allclose(head(torch.from_numpy(found)).numpy(), logits, atol=1e-5)


class Shades:
    """A generator that is none of ours."""

    size = 4

    def sample(self, n, seed):
        return latent_codes(n, 2, seed=seed)

    def draw(self, codes):
        return as_pixels(Painter()(torch.from_numpy(np.asarray(codes, np.float32))))

    def encode(self, images):
        return (shades(images) * 2 - 1) * 4


def test_any_generator_is_walked_through_as_ours_is(painter):
    own, direction = opened(f"{__name__}:Shades"), np.array([0.6, 0.8])
    assert isinstance(own, gan.Generator)
    np.testing.assert_array_equal(draw(own, CODES), draw(painter, CODES))
    np.testing.assert_array_equal(
        traversal(own, CODES, direction, (-1, 2)), traversal(painter, CODES, direction, (-1, 2))
    )
    assert consistency(lambda images: shades(images)[:, 0], own, CODES).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{__name__}:CODES", "does not give a generator"),
        (f"{__name__}:missing", "does not give a generator"),
        ("no.such.module:own", "does not give a generator"),
        (f"{__name__}:dict", "is no generator: it needs size, sample"),
    ],
)
def test_what_is_no_generator_is_named(name, message, monkeypatch):
    monkeypatch.setitem(globals(), "dict", dict)
    with pytest.raises(BiaslibError, match=message):
        opened(name)


def test_images_of_another_kind_are_refused(monkeypatch):
    monkeypatch.setattr(Shades, "draw", lambda generator, codes: np.zeros((len(codes), 4, 4, 3)))
    with pytest.raises(BiaslibError, match=r"drew float64 \(40, 4, 4, 3\) of 40 codes: draw\(codes\) gives uint8"):
        draw(Shades(), CODES)
