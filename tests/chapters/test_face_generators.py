"""Generators that are kept, and small ones trained here."""

import dataclasses
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import safetensors.torch
import torch

from biaslib import gan as gan_room
from biaslib import recipes, store
from biaslib.book import Project, find_project
from biaslib.chapters import face_generators
from biaslib.chapters.face_generators import SETUPS, GeneratorSetup, configured, load, record
from biaslib.errors import BiaslibError
from biaslib.gan import training as gan
from biaslib.gan.counterfactuals import draw, latent_codes
from biaslib.gan.training import EncoderConfig, GanConfig, encoded
from biaslib.training import DamagedCheckpointWarning
from tests.damage import flipped
from tests.faults import kills

TINY = GeneratorSetup(
    images=40,
    gan=GanConfig(latent=8, widths=(8, 8), growth=((0.0, 0.5), (0.2, 0.3)), images=64, batch=4, chunks=4),
    encoder=EncoderConfig(widths=(8,), images=64, batch=16),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(tmp_path_factory.mktemp("trained")))
        return face_generators.train.compute(TINY)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book with one recipe, and nothing kept yet."""
    here = Project(tmp_path)
    monkeypatch.setattr(face_generators, "find_project", lambda: here)
    monkeypatch.setattr(face_generators, "SETUPS", {"tiny": TINY})
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "store"))
    return here


def test_what_is_kept_draws_and_reads_as_what_was_trained(book, trained):
    whole = face_generators._restored(TINY, trained)
    weights = face_generators.train_for_book("tiny")
    assert face_generators._names() == ["tiny"]
    assert [path.name for path in sorted(weights.parent.iterdir())] == ["tiny.json", "tiny.safetensors"]
    found, kept = load("tiny"), record("tiny")
    codes = latent_codes(20, 8)
    exact, near = (draw(one.generator, codes) for one in (whole, found))
    assert np.abs(exact.astype(int) - near.astype(int)).mean() < 2
    np.testing.assert_allclose(encoded(found.encoder, exact), encoded(whole.encoder, exact), atol=0.15)
    assert kept["command"] == "biaslib grow tiny"
    assert kept["experiment"]["gan"]["images"] == 64
    assert {"preset", "device", "date", "commit", "seconds"} < set(kept)


class Killed(BaseException):
    """Nothing catches it."""


def kill_while_the_encoder_trains(start):
    calls = []
    original = gan.pixel_norm

    def pixel_norm(codes):
        calls.append(1)
        if len(calls) == 3:  # in the third step of four
            raise Killed
        return original(codes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gan, "pixel_norm", pixel_norm)
        with pytest.raises(Killed):
            start()


@pytest.mark.parametrize(
    "start",
    [lambda: load(TINY), lambda: face_generators.train_for_book("tiny")],
    ids=["load", "train_for_book"],
)
def test_a_training_killed_while_the_encoder_trains_does_not_train_the_generator_again(
    book, tmp_path, monkeypatch, in_this_process, start
):
    def state():
        (entry,) = store.entries()
        return safetensors.torch.load_file(entry.path / "tensors.safetensors")

    start()
    unbroken = state()
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "another"))
    kill_while_the_encoder_trains(start)
    assert store.entries() == []
    chunks, codes = [], []
    train_chunk, read = gan._Run.train_chunk, gan.Encoder.forward
    monkeypatch.setattr(gan._Run, "train_chunk", lambda *given: (chunks.append(1), train_chunk(*given)))
    monkeypatch.setattr(gan.Encoder, "forward", lambda *given: (codes.append(1), read(*given))[1])
    start()
    assert chunks == []
    assert len(codes) == 2 + 4  # two steps of four were in the checkpoint; four parts measure what was learnt
    again = state()
    assert again.keys() == unbroken.keys()
    assert all(torch.equal(again[name], unbroken[name]) for name in unbroken)
    assert list((store.root() / "checkpoints").iterdir()) == []


@pytest.mark.slow
def test_a_training_killed_at_ten_random_moments_ends_with_the_same_weights(book, tmp_path, monkeypatch):
    unbroken = face_generators.train.compute(TINY)
    steps, moment = [], [0]

    def counted(step):
        def counting(*given):
            steps.append(1)
            if len(steps) == moment[0]:
                raise Killed
            return step(*given)

        return counting

    monkeypatch.setattr(gan._Run, "_step", counted(gan._Run._step))
    monkeypatch.setattr(gan._EncoderRun, "train_step", counted(gan._EncoderRun.train_step))
    # of the 16 steps of the generator and the 4 of the encoder
    moments = [*np.random.default_rng(0).choice(np.arange(1, 17), 8, replace=False), 18, 20]
    for number, moment[0] in enumerate(moments):
        monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / f"store-{number}"))
        steps.clear()
        with pytest.raises(Killed):
            face_generators.train.compute(TINY)
        again = face_generators.train.compute(TINY)
        assert all(torch.equal(again[name], unbroken[name]) for name in unbroken), moment[0]


def test_a_damaged_checkpoint_of_either_part_is_said_and_that_part_trained_anew(book, trained, tmp_path, monkeypatch):
    for part in ("generator", "encoder"):
        monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / part))
        kill_while_the_encoder_trains(lambda: face_generators.train.compute(TINY))
        (file,) = (store.root() / "checkpoints").rglob(f"{part}.pt")
        file.write_bytes(flipped(0)(file.read_bytes()))
        with pytest.warns(DamagedCheckpointWarning, match=f"{part}.pt is damaged"):
            again = face_generators.train.compute(TINY)
        assert all(torch.equal(again[name], trained[name]) for name in trained)


def test_the_books_generators_are_there_with_their_records_and_within_four_megabytes():
    assert face_generators._names() == sorted(SETUPS)
    assert len(face_generators._names()) >= 2
    folder = find_project().book / "generators"
    assert sum(path.stat().st_size for path in folder.glob("*.safetensors")) <= 4_000_000
    for name in face_generators._names():
        found = load(name)
        assert record(name)["experiment"] == json.loads(json.dumps(dataclasses.asdict(SETUPS[name])))
        images = draw(found.generator, latent_codes(50, 128))
        assert images.shape == (50, 32, 32, 3)
        assert images.astype(float).std(axis=0).mean() > 20  # faces differ
        assert found.latent_correlation.mean() > 0.5


def test_the_generator_and_its_encoder_have_one_size():
    with pytest.raises(BiaslibError, match="draws 8 px, the encoder reads 16: give the encoder 1 widths"):
        replace(TINY, encoder=EncoderConfig(widths=(8, 8)))
    with pytest.raises(BiaslibError, match="source must be one of generated, celeba, celeba-cropped, not"):
        replace(TINY, source="photos")


def test_what_is_not_there_is_said(book):
    with pytest.raises(BiaslibError, match="no generator 'tiny' in book/generators, which holds none"):
        load("tiny")
    with pytest.raises(BiaslibError, match="generators must be one of tiny, not 'tiniest'"):
        face_generators.train_for_book("tiniest")


def test_a_damaged_generator_is_named(book):
    weights = face_generators.train_for_book("tiny")
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(BiaslibError, match="tiny is damaged"):
        load("tiny")


def test_a_generator_of_ones_own_is_a_file_that_says_how_it_was_grown(book, tmp_path):
    setup = configured("generated", size=32, images=480, options=["images=40", "encoder.images=64", "gan.loss=wgan-gp"])
    assert (setup.images, setup.gan.images, setup.encoder.images, setup.gan.loss) == (40, 480, 64, "wgan-gp")
    file = face_generators.train_to(TINY, tmp_path / "deep" / "mine.safetensors")
    found = load(str(file))
    assert isinstance(found, gan_room.Generator)
    assert found.setup == TINY == face_generators.setup_of(str(file))
    codes = found.sample(5, 0)
    assert found.draw(codes).shape == (5, 8, 8, 3)
    assert found.encode(found.draw(codes)).shape == codes.shape
    with pytest.raises(BiaslibError, match=r"ends in \.safetensors, not to .*mine\.pt"):
        face_generators.train_to(TINY, tmp_path / "mine.pt")


def test_a_set_up_is_as_the_recipe_of_its_size_but_for_its_options():
    for size, recipe in (
        (32, partial(face_generators.by_recipe, "quick")),
        (64, partial(face_generators.by_recipe, "celeba")),
        (128, face_generators.progressive),
    ):
        found = configured("celeba", size=size, images=48_000)
        assert found == replace(recipe(48_000), source="celeba", images=162_770)
    widths = configured("celeba", size=32, images=48_000, options=["gan.widths=(8, 8, 8, 8)", "threads=1"])
    assert (widths.gan.widths, widths.threads) == ((8, 8, 8, 8), 1)
    with pytest.raises(BiaslibError, match="size, in pixels, must be one of 32, 64, 128, not 48"):
        configured("celeba", size=48, images=48_000)


@pytest.mark.parametrize("option", ["gan.speed=3", "critic.images=3", "gan.images=many", "gan", "gan.widths=3"])
def test_what_is_no_option_is_said(option):
    with pytest.raises(BiaslibError, match="is no option"):
        configured("celeba", size=32, images=48_000, options=[option])


@pytest.mark.slow
def test_a_generator_killed_at_ten_random_moments_ends_with_the_same_weights(tmp_path):
    faults, total = kills.elsewhere(tmp_path, kills=10, works=["generator and encoder"], timeout=3600)
    assert faults == ""
    assert total >= 3


def test_the_pictures_are_the_worlds():
    pictures = TINY.data.samples().images
    assert pictures.shape == (40, 8, 8, 3)
    assert not np.array_equal(pictures, replace(TINY, gan=replace(TINY.gan, seed=1)).data.samples().images)


def test_the_quick_recipe_is_half_as_long_for_its_encoder():
    found = face_generators.by_recipe("quick", 1000, seed=3)
    assert (found.gan.size, found.gan.images, found.encoder.images) == (32, 1000, 500)
    assert (found.gan.seed, found.encoder.seed) == (3, 3)
    assert found.gan.penalty_every > 1


def test_generators_of_photographs_see_cropped_and_mirrored_faces():
    squares = face_generators.by_recipe("celeba", seed=3)
    for found, size in ((squares, 64), (face_generators.progressive(), 128)):
        assert found.data == recipes.Loaded(name="celeba-cropped", size=size, images=162_770)
        assert (found.gan.size, found.gan.average, found.gan.mirror) == (size, 0.999, True)
    assert face_generators.by_recipe("celeba", 1000).encoder.images == 500
    assert (squares.gan.seed, squares.gan.loss) == (3, "r1")
    assert face_generators.progressive().gan.loss == "wgan-gp"


def test_a_generator_is_trained_on_its_own_number_of_threads(monkeypatch):
    seen = []
    monkeypatch.setattr(face_generators, "_train", lambda experiment: seen.append(torch.get_num_threads()))
    for threads in (1, 2):
        face_generators.train.compute(replace(TINY, threads=threads))
    assert seen == [1, 2]
    with pytest.raises(BiaslibError, match="threads must be a whole number of at least 1, not 0"):
        replace(TINY, threads=0)


def test_the_generators_of_a_page_are_the_books(monkeypatch):
    assert face_generators.named_generators() == {"generator 1": "faces-0", "generator 2": "faces-1"}
    monkeypatch.setattr(face_generators, "_names", list)
    with pytest.raises(BiaslibError, match="restore them from git"):
        face_generators.named_generators()
