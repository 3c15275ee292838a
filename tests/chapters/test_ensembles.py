import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from biaslib import store
from biaslib.chapters import ensembles
from biaslib.chapters.ensembles import Recipe
from biaslib.training import TrainingConfig
from tests.store.test_parallel import free_port

RECIPE = Recipe(world="birds", strength=0.8, images=80, size=16, config=TrainingConfig(epochs=2, batch=20))
THREE = [replace(RECIPE, config=replace(RECIPE.config, seed=seed)) for seed in range(3)]


def weights(model):
    return torch.cat([value.flatten().float() for value in model.state_dict().values()])


@pytest.fixture
def one_core(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")


@pytest.mark.usefixtures("one_core")
def test_models_come_in_order_and_from_the_store_the_second_time():
    first = ensembles.trained(THREE)
    assert [entry.kind for entry in store.entries()] == ["model"] * 3
    created = [entry.path.stat().st_mtime_ns for entry in store.entries()]
    again = ensembles.trained(THREE[::-1])
    assert [entry.path.stat().st_mtime_ns for entry in store.entries()] == created
    for one, other in zip(first, again[::-1], strict=True):
        assert torch.equal(weights(one), weights(other))
        assert not one.training
    assert not torch.equal(weights(first[0]), weights(first[1]))


def test_weights_do_not_depend_on_the_number_of_threads():
    torch.set_num_threads(2)
    two = ensembles.train(RECIPE)
    torch.set_num_threads(1)
    one = ensembles.train(RECIPE)
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture
def cluster(tmp_path):
    """A real scheduler and two worker processes on this machine."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    processes = [
        subprocess.Popen([*scheduler, "--no-dashboard"], **quiet),
        *(subprocess.Popen(worker, **quiet) for _ in range(2)),
    ]
    try:
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def workers_of(address):
    from distributed import Client

    with Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        return list(client.scheduler_info()["workers"])


def test_a_dask_cluster_trains_the_same_models(cluster, monkeypatch, tmp_path):
    assert len(workers_of(cluster)) == 2
    far = ensembles.trained(THREE, scheduler=cluster)
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "another"))
    near = [ensembles.train(recipe) for recipe in THREE]
    for model, state in zip(far, near, strict=True):
        assert all(torch.equal(model.state_dict()[name], state[name]) for name in state)
