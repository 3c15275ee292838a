import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from biaslib import models, store, training
from biaslib.errors import BiaslibError
from biaslib.samples import Samples
from biaslib.training import TrainingConfig, loop, reading
from biaslib.training import config as training_config
from tests.damage import DAMAGES


def bright_or_dark(n=96, size=16, seed=0):
    """Images whose class is their brightness."""
    rng = np.random.default_rng(seed)
    target = rng.integers(2, size=n)
    images = rng.integers(0, 60, size=(n, size, size, 3)) + 120 * target[:, None, None, None]
    return Samples(images.astype(np.uint8), pd.DataFrame({"bright": target == 1}))


def config(**changes):
    return TrainingConfig(**{"epochs": 3, "batch": 16, **changes})


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize("optimiser", training_config._CHOICES["optimiser"])
def test_every_optimiser_learns_brightness(optimiser):
    samples = bright_or_dark()
    rate = {"sgd": 0.05, "rmsprop": 1e-3}.get(optimiser, 4e-3)
    model = training.fit(samples, samples.labels["bright"], config(optimiser=optimiser, learning_rate=rate, epochs=6))
    unseen = bright_or_dark(seed=1)
    correct = training.predict(model, unseen.images).argmax(1) == unseen.labels["bright"]
    assert correct.mean() > 0.95


def test_binary_loss_learns_several_attributes():
    samples = bright_or_dark(n=200)
    bright = samples.labels["bright"].to_numpy()
    red = np.random.default_rng(1).random(200) < 0.3
    images = samples.images.copy()
    images[red, :, :, 1:] = 0
    model = training.fit(
        Samples(images, samples.labels),
        np.stack([bright, red], 1),
        config(loss="binary", epochs=8, precision="float32"),
    )
    assert ((training.predict(model, images) > 0) == np.stack([bright, red], 1)).mean() > 0.9


def test_one_seed_one_set_of_weights_and_another_seed_another():
    samples = bright_or_dark(n=32)

    def fit(seed):
        return training.fit(samples, samples.labels["bright"], config(seed=seed, augmentation=("flip", "crop")))

    first = fit(0)
    assert same_weights(first, fit(0))
    assert not same_weights(first, fit(1))


def test_training_leaves_the_global_random_state_alone():
    samples = bright_or_dark(n=32)
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    training.fit(samples, samples.labels["bright"], config(epochs=1))
    assert torch.equal(torch.rand(1), expected)


def test_a_last_batch_of_one_image_is_not_trained_on_alone():
    samples = bright_or_dark(n=33)
    training.fit(samples, samples.labels["bright"], config(epochs=1))
    sizes = [len(rows) for rows in reading.batches(samples.images, 16, np.random.default_rng(0))]
    assert sizes == [16, 17]


def test_a_finished_training_leaves_no_checkpoint():
    samples = bright_or_dark(n=32)
    training.fit(samples, samples.labels["bright"], config())
    assert list((store.root() / "checkpoints").glob("*")) == []


PROGRAM = """
import sys, time
sys.path.insert(0, {root!r})
import torch
from tests.training.test_loop import bright_or_dark, config
from biaslib import training
from biaslib.training import loop
torch.set_num_threads(1)
slow = loop._Run.train_epoch
def train_epoch(self, *arguments):
    slow(self, *arguments)
    time.sleep(float(sys.argv[1]))
loop._Run.train_epoch = train_epoch
samples = bright_or_dark()
model = training.fit(samples, samples.labels["bright"], config(epochs=4, augmentation=("flip", "crop")))
torch.save(model.state_dict(), sys.argv[2])
"""


@pytest.mark.slow  # `test_a_training_killed_within_an_epoch_goes_on_to_the_same_weights` has it in one process
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(root=str(Path(__file__).parents[2])))

    def start(name, seconds):
        monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / name))
        return subprocess.Popen([sys.executable, str(program), str(seconds), str(tmp_path / f"{name}.pt")])

    victim = start("killed", 2)
    checkpoints = tmp_path / "killed" / "checkpoints"
    while not list(checkpoints.glob("[!.]*.pt")):
        assert victim.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # into the second epoch's pause: killed between two checkpoints
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert not (tmp_path / "killed.pt").exists()
    assert start("killed", 0).wait(timeout=120) == 0
    assert start("unbroken", 0).wait(timeout=120) == 0
    resumed, unbroken = (torch.load(tmp_path / f"{n}.pt", weights_only=True) for n in ("killed", "unbroken"))
    assert all(torch.equal(resumed[name], unbroken[name]) for name in unbroken)


def test_a_damaged_checkpoint_is_said_and_the_training_starts_anew(monkeypatch):
    samples = bright_or_dark(n=32)
    expected = training.fit(samples, samples.labels["bright"], config())
    path = store.root() / "damaged.pt"
    path.write_bytes(b"no checkpoint")
    monkeypatch.setattr(loop, "_checkpoint_path", lambda *_: path)
    with pytest.warns(training.DamagedCheckpointWarning, match="starts anew"):
        found = training.fit(samples, samples.labels["bright"], config())
    assert same_weights(found, expected)


LONGER = {"epochs": 3, "augmentation": ("flip", "crop"), "precision": "float32"}


def fitted():
    samples = bright_or_dark(n=32)
    return training.fit(samples, samples.labels["bright"], config(**LONGER))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(tmp_path_factory.mktemp("unbroken")))
        return fitted()


def kill_after_two_epochs():
    """The checkpoint that a training leaves which ends in the last of its three epochs."""
    original = loop._Run.train_epoch

    def train_epoch(self, *arguments):
        if self.epoch == 2:
            raise KeyboardInterrupt
        original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop._Run, "train_epoch", train_epoch)
        with pytest.raises(KeyboardInterrupt):
            fitted()
    (checkpoint,) = (store.root() / "checkpoints").iterdir()
    return checkpoint


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The name of such a checkpoint, and what is in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(tmp_path_factory.mktemp("killed")))
        checkpoint = kill_after_two_epochs()
        return checkpoint.name, checkpoint.read_bytes()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_training_with_a_damaged_checkpoint_ends_with_the_same_weights_and_says_so(damage, left, unbroken):
    name, content = left
    checkpoint = store.root() / "checkpoints" / name
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(DAMAGES[damage](content))
    with pytest.warns(training.DamagedCheckpointWarning, match=f"{checkpoint.name} .* starts anew"):
        again = fitted()
    assert same_weights(again, unbroken)
    assert not checkpoint.exists()


def test_a_sound_checkpoint_is_gone_on_from_without_a_word(unbroken, monkeypatch, recwarn):
    kill_after_two_epochs()
    epochs = []
    original = loop._Run.train_epoch
    monkeypatch.setattr(loop._Run, "train_epoch", lambda self, *a: (epochs.append(self.epoch), original(self, *a)))
    assert same_weights(fitted(), unbroken)
    assert epochs == [2]
    assert not [each for each in recwarn if issubclass(each.category, training.DamagedCheckpointWarning)]


def renamed(state):
    state["model"] = {name.replace("fc.bias", "fc.bios"): value for name, value in state["model"].items()}
    return state


@pytest.mark.parametrize(
    "written",
    [renamed, lambda state: [1, 2], lambda state: None, lambda state: {"model": state["model"]}],
    ids=["renamed", "list", "None", "part"],
)
def test_a_checkpoint_that_does_not_fit_the_run_is_said_and_the_training_starts_anew(written, unbroken, monkeypatch):
    save = torch.save
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", lambda state, file: save(written(state), file))
        kill_after_two_epochs()
    with pytest.warns(training.DamagedCheckpointWarning, match="starts anew"):
        again = fitted()
    assert same_weights(again, unbroken)


def test_a_checkpoint_that_cannot_be_opened_is_said_and_the_training_starts_anew(unbroken, monkeypatch):
    checkpoint = kill_after_two_epochs()
    checkpoint.unlink()
    checkpoint.symlink_to("/proc/self/mem")  # opens, and every read of it is an OSError
    with pytest.warns(training.DamagedCheckpointWarning, match="starts anew"):
        again = fitted()
    assert same_weights(again, unbroken)


def test_the_best_epoch_is_kept():
    samples, unseen = bright_or_dark(), bright_or_dark(n=32, seed=1)
    backwards = ~unseen.labels["bright"].to_numpy()  # a validation set that gets worse with every epoch
    best = config(epochs=4, keep="best", schedule="constant")
    kept = training.fit(samples, samples.labels["bright"], best, validation=(unseen, backwards))
    first = training.fit(samples, samples.labels["bright"], config(epochs=1, schedule="constant"))
    assert same_weights(kept, first)


def test_prediction_keeps_the_mode_and_takes_pixels_or_tensors():
    samples = bright_or_dark()
    model = training.fit(samples, samples.labels["bright"], config(epochs=1)).train()
    logits = training.predict(model, samples.images, batch=7)
    assert model.training
    assert logits.shape == (96, 2)
    assert logits.dtype == np.float32
    from biaslib.models import to_tensor

    assert np.allclose(logits, training.predict(model, to_tensor(samples.images)), atol=1e-5)


@pytest.mark.parametrize(("size", "sizes"), [(64, [48, 48, 4]), (224, [8] * 12 + [4])])
def test_prediction_asks_about_as_many_images_at_once_as_stay_in_a_cache(size, sizes):
    model = models.build("small", 2)
    asked = []
    model.register_forward_pre_hook(lambda _, given: asked.append(len(given[0])))
    training.predict(model, np.zeros((100, size, size, 3), np.uint8))
    assert asked == sizes


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda s: training.fit(s.take(slice(0, 0)), [], config()), "nothing to train on"),
        (lambda s: training.fit(s, np.ones(len(s), int), config()), "Every training image has class 1"),
        (lambda s: training.fit(s, np.arange(len(s)) % 3, config()), "from 0 to 2 but the model has 2 outputs"),
        (lambda s: training.fit(s, np.arange(5), config()), "96 images but 5 targets"),
        (lambda s: training.fit(s, np.ones(len(s)), config()), "class numbers, not float64"),
        (lambda s: training.fit(s, np.ones((96, 2), bool), config(loss="binary")), "column 0, 1 has one value only"),
        (lambda s: training.fit(s, s.labels["bright"], config(loss="binary")), "takes .N, 2. booleans"),
        (lambda s: training.fit(s, s.labels["bright"], config(keep="best")), "give `validation="),
        (
            lambda s: training.fit(s, s.labels["bright"], config(), validation=(s, s.labels["bright"][:6])),
            "96 images but 6 targets",
        ),
        (lambda s: config(optimiser="adamx"), "optimiser must be one of adamw"),
        (lambda s: config(augmentation=("spin",)), "augmentation knows flip, crop, not spin"),
        (lambda s: config(epochs=0), "epochs must be a whole number of at least 1"),
        (lambda s: training.predict(torch.nn.Conv2d(3, 1, 1), s.images[:0]), "no images to predict"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises(BiaslibError, match=sentence):
        call(bright_or_dark())


def test_an_objective_sees_channels_first_whatever_the_architecture_has():
    class ChannelsLast(torch.nn.Module):
        output_fmt = "NHWC"

        def forward_features(self, images):
            return images.permute(0, 2, 3, 1)

        def forward_head(self, maps):
            return maps.mean((1, 2))

    images = torch.rand(2, 3, 4, 5)
    maps, logits = loop._forward(ChannelsLast(), images)
    torch.testing.assert_close(maps, images)
    assert logits.shape == (2, 3)


def test_auto_precision_learns_as_float32_does():
    samples = bright_or_dark()
    for precision in training_config._CHOICES["precision"]:
        model = training.fit(samples, samples.labels["bright"], config(precision=precision, epochs=6))
        assert (training.predict(model, samples.images).argmax(1) == samples.labels["bright"]).mean() > 0.95
        assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize(("architecture", "gains"), [("small", True), ("small_mobilenet", False)])
def test_auto_precision_spares_a_cpu_what_it_has_no_fast_kernels_for(monkeypatch, architecture, gains):
    monkeypatch.setattr(training_config, "_has_bfloat16", lambda device: True)
    network = models.build(architecture, 2)
    for precision, wanted in (("auto", gains), ("bfloat16", True), ("float32", False)):
        with training_config.autocast(network, precision, torch.device("cpu")):
            assert torch.is_autocast_enabled("cpu") == wanted, precision


def test_frozen_layers_keep_weights_and_statistics_and_the_rest_learns():
    samples = bright_or_dark(n=32)
    settings = config(architecture="small", frozen=2)
    torch.manual_seed(settings.seed)
    start = models.build("small", 2).state_dict()
    model = training.fit(samples, samples.labels["bright"], settings)
    for name, value in model.state_dict().items():
        kept = name.startswith(("features.0", "features.1"))
        assert torch.equal(value, start[name]) == kept, name
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_freezing_every_convolution_is_refused():
    samples = bright_or_dark()
    with pytest.raises(BiaslibError, match="the model has 5 convolutions: 5 of them cannot be its first"):
        training.fit(samples, samples.labels["bright"], config(frozen=5))
    with pytest.raises(BiaslibError, match="frozen, a number of convolutions, must be"):
        config(frozen=-1)


def streamed_from(folder, patch):
    """Samples in a memory map, which is as large as one that is streamed: blocks of 8 images, stretches of 48."""
    patch.setattr(reading, "_STREAMED", 10_000)
    patch.setattr(reading, "_BLOCK", 8 * 16 * 16 * 3)
    patch.setattr(reading, "_STRETCH", 48 * 16 * 16 * 3)
    samples = bright_or_dark(n=200)
    np.save(folder / "images.npy", samples.images)
    return Samples(np.load(folder / "images.npy", mmap_mode="r"), samples.labels)


@pytest.fixture
def streamed(tmp_path, monkeypatch):
    return streamed_from(tmp_path, monkeypatch)


@pytest.mark.parametrize("chosen", [slice(None), np.random.default_rng(0).permutation(200)[:145]])
def test_a_large_map_is_read_in_stretches_of_whole_blocks(streamed, chosen):
    samples = streamed.take(chosen) if isinstance(chosen, np.ndarray) else streamed
    orders = [reading.batches(samples.images, 16, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(np.concatenate(orders[0]), np.concatenate(orders[1]))
    assert not np.array_equal(np.concatenate(orders[0])[:48], np.concatenate(orders[2])[:48])
    assert sorted(np.concatenate(orders[0])) == list(range(len(samples)))
    assert [len(rows) for rows in orders[0][:-1]] == [16] * (len(orders[0]) - 1)
    places = np.arange(200)[chosen]
    first = np.sort(places[np.concatenate(orders[0][:3])])
    every = np.searchsorted(np.sort(places), first)
    assert (np.diff(every) > 1).sum() < 6  # runs of neighbours: six blocks at most
    assert (np.diff(np.concatenate(orders[0][:3])) == 1).mean() < 0.1  # but not in their order


def test_what_is_read_ahead_are_the_rows_that_were_asked_for(streamed):
    chosen = reading.batches(streamed.images, 16, np.random.default_rng(0))[2:]
    parts = list(reading.pixels(streamed.images, chosen, torch.device("cpu")))
    assert [rows.tolist() for rows, _ in parts] == [rows.tolist() for rows in chosen]
    for rows, pixels in parts:
        np.testing.assert_array_equal(pixels.numpy(), streamed.images[rows])
    reader = reading.pixels(streamed.images, [np.array([0, 1]), np.array([500])], torch.device("cpu"))
    with pytest.raises(IndexError):  # of the thread that reads
        list(reader)


def test_small_maps_are_trained_on_as_arrays_are(streamed, monkeypatch):
    monkeypatch.setattr(reading, "_STREAMED", 2**32)
    near = Samples(np.array(streamed.images), streamed.labels)
    alike = (near, streamed, streamed.take(slice(200)))
    first, *others = [training.fit(each, each.labels["bright"], config(epochs=1)) for each in alike]
    assert all(same_weights(first, other) for other in others)


def stop_after(steps):
    """A patch of `_Run.save`: the run dies after so many checkpoints within an epoch."""
    original, count = loop._Run.save, iter(range(steps))

    def save(run, path):
        if run.step and next(count, None) is None:
            raise KeyboardInterrupt
        original(run, path)

    return save


def fitted_to(samples):
    settings = config(epochs=2, hidden=8, architecture="small_efficientnet", augmentation=("flip", "crop"))
    return training.fit(samples, samples.labels["bright"], settings)


@pytest.fixture(scope="module")
def unbroken_stream(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streamed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(folder / "store"))
        return fitted_to(streamed_from(folder, patch))


@pytest.mark.parametrize("steps", [1, 5, 12, 13, 14, 17])
def test_a_training_killed_within_an_epoch_goes_on_to_the_same_weights(streamed, unbroken_stream, monkeypatch, steps):
    monkeypatch.setattr(loop, "_BETWEEN_SAVES", 0)
    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "save", stop_after(steps))
        with pytest.raises(KeyboardInterrupt):
            fitted_to(streamed)
    shown, original = [], reading.pixels
    monkeypatch.setattr(reading, "pixels", lambda i, chosen, d: (shown.append(len(chosen)), original(i, chosen, d))[1])
    assert same_weights(fitted_to(streamed), unbroken_stream)
    assert sum(shown) == 2 * 13 - steps  # 13 steps an epoch, of which none is repeated
    assert list((store.root() / "checkpoints").iterdir()) == []


def test_short_epochs_have_one_checkpoint_each(monkeypatch):
    saved = []
    monkeypatch.setattr(loop._Run, "save", lambda self, path: saved.append((self.epoch, self.step)))
    samples = bright_or_dark(n=32)
    training.fit(samples, samples.labels["bright"], config())
    assert saved == [(1, 0), (2, 0), (3, 0)]
