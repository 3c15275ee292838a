"""Every kind of file at rest, damaged: the same result comes back, or one sentence says why not."""

import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from biaslib import datasets, store
from biaslib.book import recorded
from biaslib.datasets.celeba import ATTRIBUTES
from biaslib.errors import BiaslibError
from biaslib.models import building
from biaslib.training import loop
from tests import layouts
from tests.damage import Damage, cut, flipped, zeroed
from tests.faults.outcome import Outcomes

_RESULTS: dict[str, Any] = {
    "an array": np.arange(5000.0).reshape(50, 100),
    "several arrays": {"a": np.arange(3000), "b": np.ones((20, 30), bool)},
    "a table": pd.DataFrame({"x": np.arange(2000) / 7, "word": ["one", "two"] * 1000}),
    "tensors": {"weight": torch.linspace(-1, 1, 4000).reshape(40, 100), "bias": torch.zeros(40)},
    "values": {"numbers": list(range(300)), "text": "words " * 50},
}

_BOOK = Path(__file__).parents[2] / "book"
_RECORDS = sorted((_BOOK / "recorded").glob("*.json"), key=lambda file: file.stat().st_size)[:6]


class Planted:
    """A pickle that runs a command where somebody loads it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


class _Training:
    """What `loop.resumed` restores."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.weights = torch.zeros(1)

    def restore(self, state: dict[str, Any]) -> None:
        self.weights = state["weights"]


def campaign(folder: Path, outcomes: Outcomes, *, count: int, seed: int) -> None:
    """So many damaged files, of all kinds in turn."""
    rng = np.random.default_rng(seed)
    parts = (_entry, _checkpoint, _decoded, _weights, _record)
    for trial in range(count):
        part = parts[trial % len(parts)]
        marker = folder / "executed"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                kind, detail = part(folder, _damage(rng, marker), rng, said)
            except BiaslibError:
                kind, detail = "survived", ""
            except BaseException as error:
                kind, detail = "raw", f"{type(error).__name__}: {error}, trial {trial} of seed {seed}"
        if marker.exists():
            kind, detail = "executed", f"trial {trial} of seed {seed}"
            marker.unlink()
        outcomes.add(f"damage: {part.__name__.strip('_').replace('_', ' ')}", kind, detail)


def _damage(rng: np.random.Generator, marker: Path) -> Damage:
    number = int(rng.integers(2**31))
    choices: tuple[Damage, ...] = (
        flipped(number),
        zeroed(number),
        cut(float(rng.random())),
        lambda content: content + rng.bytes(20),
        lambda content: rng.bytes(len(content)),
        lambda content: b"",
        lambda content: b"hello\n",
        lambda content: pickle.dumps(Planted(marker)),
        lambda content: b"[" * 100_000,
    )
    return choices[int(rng.integers(len(choices)))]


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, pd.DataFrame):
        return found.equals(expected)
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[key], expected[key]) for key in expected)
    return bool(np.array_equal(found, expected))


def _damaged(file: Path, damage: Damage) -> bool:
    """Whether that changed anything."""
    before = file.read_bytes()
    file.write_bytes(damage(before) if before else b"more")
    return file.read_bytes() != before


def _entry(folder: Path, damage: Damage, rng: np.random.Generator, said: list) -> tuple[str, str]:
    """One file of an entry of the store: its data, or the record beside it."""
    name = list(_RESULTS)[int(rng.integers(len(_RESULTS)))]

    def fetched() -> Any:
        return store.get_or_compute("faults", {"name": name}, lambda: _RESULTS[name], code="none")

    fetched()
    files = sorted((store.root() / "faults").glob("*/*"))
    _damaged(files[int(rng.integers(len(files)))], damage)
    store.verify(), store.entries()
    same = _same(fetched(), _RESULTS[name])
    store.remove("faults")
    return ("survived", "") if same else ("silent" if not said else "different", f"an entry, {name}")


def _checkpoint(folder: Path, damage: Damage, rng: np.random.Generator, said: list) -> tuple[str, str]:
    file, weights = folder / "checkpoint.pt", torch.linspace(0, 1, 3000)
    loop.save_checkpoint({"weights": weights}, file)
    changed = _damaged(file, damage)
    found = loop.resumed(_Training, file).weights
    anew = torch.equal(found, torch.zeros(1)) and any("starts anew" in str(one.message) for one in said)
    return ("survived", "") if anew or (torch.equal(found, weights) and not changed) else ("silent", "a checkpoint")


def _decoded(folder: Path, damage: Damage, rng: np.random.Generator, said: list) -> tuple[str, str]:
    root = folder / "celeba-data"
    if not root.exists():
        layouts.celeba(root, pd.DataFrame({name: np.arange(60) % 2 == 0 for name in ATTRIBUTES}), pictures=True)
    expected = np.array(datasets.load("celeba", "train", size=24, root=root).images)
    (file,) = (store.root() / "decoded").glob("*.npy")
    changed = _damaged(file, damage)
    found = datasets.load("celeba", "train", size=24, root=root).images
    told = not changed or any("is damaged" in str(one.message) for one in said)
    return ("survived", "") if np.array_equal(found, expected) and told else ("silent", "a decoded map")


def _weights(folder: Path, damage: Damage, rng: np.random.Generator, said: list) -> tuple[str, str]:
    """Somebody else's weights carry no checksum: they are read or refused, and nothing in them is run."""
    import safetensors.torch

    state = {"weight": torch.linspace(-1, 1, 4000).reshape(40, 100), "bias": torch.zeros(40)}
    file = folder / ("weights.safetensors" if rng.random() < 0.5 else "weights.pt")
    if file.suffix == ".pt":
        torch.save(state, file)
    else:
        safetensors.torch.save_file(state, file)
    _damaged(file, damage)
    building.read_state(file)
    return "survived", ""


def _record(folder: Path, damage: Damage, rng: np.random.Generator, said: list) -> tuple[str, str]:
    """Records lie in git, which knows what they were: they are read or refused."""
    file = folder / "book" / "recorded" / "one-real.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_RECORDS[int(rng.integers(len(_RECORDS)))].read_bytes())
    _damaged(file, damage)
    record = recorded.get("one", "real")
    assert record is not None
    recorded.described(record)
    return "survived", ""
