"""CelebA in its official size, from few distinct pictures: decoded, loaded, named and trained on, in little memory."""

import multiprocessing
import os
import shutil
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from biaslib import datasets, training
from biaslib.datasets.celeba import ATTRIBUTES
from biaslib.models import networks
from biaslib.store import fingerprint, parallel
from biaslib.training import TrainingConfig, reading
from tests import layouts

# all of CelebA is 202,599 at 128 px: BIASLIB_PICTURES=202599 takes about 9 GB of disk and half an hour
PICTURES = int(os.environ.get("BIASLIB_PICTURES", "20000"))
LOAD, KEY, MEMORY = 10.0, 0.2, 1.5e9  # seconds, seconds, bytes of two workers together


class Tiny(nn.Module):
    """Almost nothing is computed, so that reading is what takes time."""

    def __init__(self, outputs):
        super().__init__()
        self.features, self.fc = nn.Conv2d(3, 8, 8, stride=8), nn.Linear(8, outputs)
        self.pretrained_cfg = {"classifier": "fc"}

    def forward_features(self, images):
        return self.features(images)

    def forward_head(self, maps):
        return self.fc(maps.relu().mean((2, 3)))


class Memory(threading.Thread):
    """The most anonymous memory that this process has had since it was asked, in bytes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ended = 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.05):
            lines = Path("/proc/self/status").read_text().splitlines()
            self.most = max(self.most, *(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")))

    def end(self):
        self.ended.set()
        self.join()
        return self.most


def timed(results, name, work):
    started = time.perf_counter()
    result = work()
    results[name] = time.perf_counter() - started
    return result


def epoch(root, size, seed):
    """Seconds and memory of a worker that loads the faces and trains on them for one epoch, in stretches."""
    torch.set_num_threads(1)
    parallel.keep_memory()
    networks.OURS["tiny"] = Tiny
    warnings.simplefilter("ignore", datasets.DatasetWarning)
    memory, results = Memory(), {}
    faces = timed(results, "load", lambda: datasets.load("celeba", "train", size=size, root=root))
    results["key"] = min(_seconds_of_a_key(faces.images) for _ in range(3))
    half = timed(results, "take", lambda: faces.take(np.flatnonzero(faces.labels["Male"])))
    assert half.images.shape[1:] == (size, size, 3)
    reading._STREAMED = min(reading._STREAMED, faces.images.nbytes // 2)
    config = TrainingConfig(
        architecture="tiny", outputs=40, loss="binary", epochs=1, batch=min(64, len(faces) // 8), seed=seed
    )
    timed(results, "epoch", lambda: training.fit(faces, faces.labels.to_numpy(), config))
    return results | {"images": len(faces), "memory": memory.end()}


def _seconds_of_a_key(images):
    started = time.perf_counter()
    fingerprint.of_value(images)
    return time.perf_counter() - started


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.filterwarnings("ignore::biaslib.datasets.DatasetWarning")
@pytest.mark.parametrize(
    ("pictures", "size"), [(400, 32), pytest.param(PICTURES, 128, marks=pytest.mark.slow)], ids=["few", "full"]
)
def test_official_sizes_fit_a_small_machine(tmp_path, monkeypatch, pictures, size):
    monkeypatch.setattr(reading, "_STREAMED", reading._STREAMED)  # which the worker in this process changes
    monkeypatch.setitem(networks.OURS, "tiny", Tiny)
    few = pictures < 1000
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((pictures, 40)) < rng.uniform(0.05, 0.5, 40), columns=list(ATTRIBUTES))
    layouts.celeba_in_full(tmp_path / "data", table, distinct=60 if few else 6000)
    results = {}
    faces = timed(results, "decode", lambda: datasets.load("celeba", "train", size=size, root=tmp_path / "data"))
    spawn = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(1) if few else ProcessPoolExecutor(2, mp_context=spawn) as pool:
        workers = [pool.submit(epoch, tmp_path / "data", size, seed) for seed in range(1 if few else 2)]
        table = pd.DataFrame([worker.result() for worker in workers])
    rates = {"decoded a second": len(faces) / results["decode"], "trained a second": len(faces) / table["epoch"].max()}
    print(f"\n{len(faces):,} pictures of {size} px:", pd.Series(rates).round().to_string(), table.to_string(), sep="\n")
    del faces
    shutil.rmtree(tmp_path)  # gigabytes, of which pytest would keep three
    tmp_path.mkdir()
    assert table["images"].eq(round(pictures * 162770 / 202599)).all()
    assert table["load"].max() < LOAD
    assert table["key"].max() < KEY
    assert few or table["memory"].sum() < MEMORY  # this process has more in it than a worker
