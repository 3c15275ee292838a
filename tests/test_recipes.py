import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import biaslib
from biaslib import recipes, store
from biaslib.errors import BiaslibError
from biaslib.mitigation import Adversarial
from biaslib.mitigation.resampling import Resampled, Subset, group_shares
from biaslib.recipes import Drawn, Recipe
from biaslib.training import TrainingConfig
from biaslib.worlds.scenes import OBJECTS
from tests.store.test_parallel import free_port

BIRDS = Drawn(world="birds", strength=0.8, images=80, size=16)
RECIPE = recipes.target_of_world(BIRDS, TrainingConfig(epochs=2, batch=20))
THREE = [replace(RECIPE, training=replace(RECIPE.training, seed=seed)) for seed in range(3)]
SCENES = Drawn(world="scenes", strength=0.5, images=240, size=16)


def weights(model):
    return torch.cat([value.flatten().float() for value in model.state_dict().values()])


@pytest.fixture
def one_core(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")


@pytest.mark.usefixtures("one_core")
def test_models_come_in_order_and_from_the_store_the_second_time():
    first = recipes.load_many(THREE)
    assert [entry.kind for entry in store.entries()] == ["model"] * 3
    created = [entry.path.stat().st_mtime_ns for entry in store.entries()]
    again = recipes.load_many(THREE[::-1])
    assert [entry.path.stat().st_mtime_ns for entry in store.entries()] == created
    for one, other in zip(first, again[::-1], strict=True):
        assert torch.equal(weights(one), weights(other))
        assert not one.training
    assert not torch.equal(weights(first[0]), weights(first[1]))


def test_weights_do_not_depend_on_the_number_of_threads():
    torch.set_num_threads(2)
    two = recipes.train.compute(RECIPE)
    torch.set_num_threads(1)
    one = recipes.train.compute(RECIPE)
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


@pytest.mark.slow
def test_a_dask_cluster_trains_the_same_models(cluster, monkeypatch, tmp_path):
    assert len(workers_of(cluster)) == 2
    with monkeypatch.context() as patch:
        patch.setenv("BIASLIB_SCHEDULER", cluster)
        far = recipes.load_many(THREE)
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "another"))
    near = [recipes.train(recipe) for recipe in THREE]
    for model, state in zip(far, near, strict=True):
        assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_an_objectives_own_layers_are_kept_apart_from_the_models():
    against = Adversarial(attributes=len(OBJECTS), groups=2)
    recipe = Recipe(
        data=SCENES, targets=(*OBJECTS, "maker"), objective=against,
        training=TrainingConfig(outputs=against.outputs, epochs=1, batch=32),
    )  # fmt: skip
    own = {name for name in recipes.train(recipe) if name.startswith(recipes.CRITERION)}
    assert own
    assert recipes.load(recipe)(torch.zeros(1, 3, 16, 16)).shape == (1, against.outputs)


def test_rows_are_chosen_before_training():
    table = SCENES.table()
    resampled = {eps: Resampled(attributes=OBJECTS[:2], group="maker", eps=eps).chosen(table) for eps in (0.1, None)}
    objects, makers = table[list(OBJECTS[:2])].to_numpy(bool), table["maker"].to_numpy()
    assert abs(group_shares(objects[resampled[0.1]], makers[resampled[0.1]], 2) - 0.5).max() <= 0.1
    assert len(resampled[None]) == 120
    few = replace(RECIPE, rows=Subset(only=("background", True)))
    assert few.table()["background"].all()
    np.testing.assert_array_equal(BIRDS.samples(np.arange(5)).images, BIRDS.samples().images[:5])
    with pytest.raises(BiaslibError, match="No image is left to train on among 80: take more images"):
        Subset(only=("waterbird", True)).chosen(BIRDS.table().assign(waterbird=False))


def test_without_a_strength_no_image_has_the_cue():
    assert not replace(BIRDS, strength=None).samples().labels["background"].any()


EDITS = (
    "training/loop.py", "worlds/birds.py", "worlds/fruits.py", "datasets/celeba.py", "datasets/mnist.py",
    "metrics/attention_iou.py", "store/results.py", "chapters/scene_models.py", "mitigation/resampling.py",
    "recipes.py",
)  # fmt: skip
KEYS = """
import json, sys
from pathlib import Path
from biaslib.dial import measuring
from biaslib.mitigation.resampling import Resampled
from biaslib.recipes import Drawn, Recipe, target_of_world
from biaslib.store import fingerprint
from biaslib.training import TrainingConfig

def keys():
    fingerprint._read.cache_clear()
    made = {world: target_of_world(Drawn(world=world, strength=0.5, images=80), TrainingConfig())
            for world in ("birds", "fruits", "pets")}
    made["photographs"] = Recipe(data=Drawn(world="fruits", strength=0.5, images=80, photos="train"), targets="fruit",
                            training=TrainingConfig())
    made["resampled"] = Recipe(data=Drawn(world="scenes", strength=0.5, images=80), targets="maker",
                               training=TrainingConfig(), rows=Resampled(attributes=("mug",), group="maker"))
    return {name: fingerprint.of_value(recipe) for name, recipe in made.items()} | {"measured": measuring._run._hash()}

before, changed = keys(), {}
for edit in sys.argv[2:]:
    file = Path(sys.argv[1], edit)
    text = file.read_text()
    file.write_text(text + "EDITED = True")
    after = keys()
    changed[edit] = [name for name in before if before[name] != after[name]]
    file.write_text(text)
assert keys() == before
print(json.dumps(changed))
"""


@pytest.mark.slow
def test_an_edit_trains_again_what_depends_on_it_and_nothing_else(tmp_path):
    package = tmp_path / "biaslib"
    shutil.copytree(Path(biaslib.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-c", KEYS, package, *EDITS], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    changed = json.loads(done.stdout)
    assert "measured" in changed["metrics/attention_iou.py"]
    trained = {edit: [name for name in names if name != "measured"] for edit, names in changed.items()}
    assert len(trained.pop("training/loop.py")) == len(trained.pop("recipes.py")) == 5
    assert trained.pop("worlds/birds.py") == ["birds"]
    assert trained.pop("worlds/fruits.py") == ["fruits", "photographs"]
    assert trained.pop("mitigation/resampling.py") == ["resampled"]
    assert not any(trained.values()), trained
