"""Results by content: the same configuration and code give the same entry; and what they were computed with.

An entry is a folder `<root>/<kind>/<key>` with the result in one file and `record.json` beside it. It is written under
a temporary name and renamed, so another process, or a later run after a kill, sees a whole entry or none.
"""

import contextlib
import datetime
import functools
import importlib.metadata
import json
import math
import os
import platform
import re
import secrets
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, refused
from biaslib.store import files, fingerprint
from biaslib.store.files import replacing

_KIND = re.compile(r"[A-Za-z0-9][\w-]*")
CONFIG_LENGTH = 2000  # characters of a configuration, in words, that a record keeps
_SEALED = ("decoded", "checkpoints")  # folders of files that carry their checksum themselves
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError)  # what a damaged record may raise
_LIBRARIES = ("biaslib", "torch", "torchvision", "timm", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")
_version = functools.cache(importlib.metadata.version)
_waited = ContextVar("waited", default=0.0)  # seconds so far, of each thread


class _Timed(NamedTuple):
    result: Any
    seconds: float


class DamagedEntryWarning(UserWarning):
    """An entry or another file of the store could not be trusted and is made again."""


@dataclass(frozen=True)
class Entry:
    """One result in the store, as its record describes it."""

    kind: str  # the folder of the store
    key: str  # hash of configuration and code
    created: str  # in UTC
    seconds: float  # of computing it and what it needed first, without waiting for others; NaN where nobody counted
    bytes: int
    config: str  # the beginning of what it depends on, in words
    path: Path


def root() -> Path:
    """The store's folder: $BIASLIB_STORE, else data/store in the checkout, else below the user's cache folder."""
    if chosen := os.environ.get("BIASLIB_STORE"):
        return Path(chosen).expanduser()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").exists():
        return checkout / "data" / "store"
    return Path.home() / ".cache" / "biaslib" / "store"


def mark(*, make: bool = True) -> str:
    """What tells one store from another: a word drawn when it is first asked for; "" where there is none."""
    file = root() / ".mark"
    with contextlib.suppress(OSError, BiaslibError):
        if make:
            with files.locked(root() / ".locks" / "mark"):
                if not file.exists():
                    with replacing(file) as partial:
                        partial.write_text(secrets.token_hex(8), encoding="utf-8")
        return file.read_text(encoding="utf-8")
    return ""


def get_or_compute(
    kind: str, config: Any, compute: Callable[[], Any], *, code: Callable[..., Any] | str | None = None
) -> Any:
    """The result stored for this configuration and code, computed and stored first where it is missing.

    It is read back from the store, so that a first and a later call give the same. A second process that asks for the
    same entry waits for the first instead of computing it again. A damaged entry is reported by a
    `DamagedEntryWarning` and computed again; a store that cannot be written is a `BiaslibError`.

    Args:
        kind: what the result is, such as "model"; a folder of the store.
        config: everything the result depends on, as plain values (see `fingerprint.of_value`).
        compute: gives the result: an array or a mapping of arrays, a DataFrame, a mapping of tensors, or JSON values.
        code: the function whose source the result depends on, or a hash of that source; None: `compute`.
    """
    return under_key(kind, key_of(config, code or compute), config, compute)


def under_key(kind: str, key: str, config: Any, compute: Callable[[], Any]) -> Any:
    """As `get_or_compute`, for a key that `key_of` has made: of many results, keys are made once."""
    if not _KIND.fullmatch(kind):
        raise BiaslibError(f"{kind!r} is no kind of result: give a word of letters, digits, - and _.")
    entry = root() / kind / key
    if _problem(entry) is None:  # also in a store that cannot be written
        return _read(entry)
    with contextlib.ExitStack() as held:
        try:
            _tidied(root())
            with waiting():
                held.enter_context(files.locked(root() / ".locks" / f"{kind}-{key}"))
        except OSError as error:
            raise refused("store that cannot be written", store=root(), reason=error.strerror) from error
        problem = _problem(entry)
        if problem is None:
            return _read(entry)
        if os.path.lexists(entry):
            warnings.warn(f"store entry {kind}/{key} {problem}; it is computed again.", DamagedEntryWarning, 2)
            _discard(entry)
        computed = timed(compute)
        if isinstance(computed.result, _Timed):  # by a worker, which did not wait for its turn
            computed = computed.result
        _write(entry, computed.result, config=config, seconds=computed.seconds)
        return _read(entry)


def timed(compute: Callable[..., Any], *arguments: Any) -> _Timed:
    """The result of a function with the seconds it took; `get_or_compute` keeps those that a worker measured."""
    started, before = time.perf_counter(), _waited.get()
    result = compute(*arguments)
    return _Timed(result, time.perf_counter() - started - (_waited.get() - before))


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """What happens inside is waiting for others: `timed` leaves it out of a result's computing time."""
    started = time.perf_counter()
    try:
        yield
    finally:
        _waited.set(_waited.get() + time.perf_counter() - started)


def key_of(config: Any, code: Callable[..., Any] | str) -> str:
    """The key of a configuration and of a function's code, or of a hash of code."""
    return fingerprint.of_value([config, code if isinstance(code, str) else fingerprint.of_code(code)])


def device() -> str:
    """What this machine computes on, in words."""
    import torch  # imported here, as it takes seconds and reading a record needs no device

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{os.cpu_count()} cores ({platform.machine()})"


def now() -> str:
    """The time of day in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def commit(folder: Path) -> str:
    """The commit checked out in a folder, with "-dirty" where files differ from it; "unknown" without git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that the book's numbers depend on."""
    found = {"python": platform.python_version(), **dict.fromkeys(_LIBRARIES, "not installed")}
    for library in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[library] = _version(library)
    return found


def entries() -> list[Entry]:
    """Every readable entry, oldest first, with decoded pictures and checkpoints; damaged ones are left to `verify`."""
    found = []
    for path in _folders():
        with contextlib.suppress(*_UNREADABLE):
            record = json.loads((path / "record.json").read_text(encoding="utf-8"))
            size = sum(file.stat().st_size for file in path.iterdir())
            created, seconds, config = str(record["created"]), float(record["seconds"]), str(record["config"])
            found.append(Entry(path.parent.name, path.name, created, seconds, size, config, path))
    for path in _sealed_files():
        state = path.stat()
        created = datetime.datetime.fromtimestamp(state.st_mtime, datetime.UTC).isoformat(timespec="seconds")
        found.append(Entry(path.parent.name, path.name, created, math.nan, state.st_size, "", path))
    return sorted(found, key=lambda entry: entry.created)


def verify() -> list[str]:
    """One sentence for every damaged entry, decoded file or checkpoint; empty where all is well. Reads all of them."""
    problems = [(path, _problem(path)) for path in _folders()]
    damaged = [path for path in _sealed_files() if not files.is_whole(path)]
    for path in damaged:
        files.forget_whole(path)  # so that whoever opens it next notices, too
    problems += [(path, "is damaged") for path in damaged]
    return [f"{path.parent.name}/{path.name} {problem}" for path, problem in problems if problem is not None]


def remove(prefix: str) -> int:
    """Removes the entries of the kind `prefix`, else those whose key or kind/key starts with it; returns how many."""
    if not prefix:
        raise BiaslibError("say which entries to remove: a kind, a key or its beginning, or kind/key.")
    paths = [*_folders(), *_sealed_files()]
    chosen = [path for path in paths if path.parent.name == prefix] or [
        path for path in paths if f"{path.parent.name}/{path.name}".startswith(prefix) or path.name.startswith(prefix)
    ]
    for path in chosen:
        _discard(path)
    return len(chosen)


@functools.lru_cache(maxsize=16)  # once in a process
def _tidied(store: Path) -> None:
    for folder in store.glob("[!.]*"):
        files.tidy(folder)


def _folders() -> list[Path]:
    return sorted(path for path in root().glob("[!.]*/[!.]*") if len(path.name) == 32 and not path.suffix)


def _sealed_files() -> list[Path]:
    return sorted(file for folder in _SEALED for file in (root() / folder).glob("[!.]*") if file.is_file())


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
        files.forget_whole(path)


def _write(entry: Path, result: Any, *, config: Any, seconds: float) -> None:
    with replacing(entry) as folder:
        folder.mkdir()
        data = _write_result(folder, result)
        record: dict[str, Any] = {"file": data.name, "sha256": files.sha256(data), "created": now()}
        record |= {"seconds": round(seconds, 3), "config": repr(config)[:CONFIG_LENGTH]}
        (folder / "record.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def _write_result(folder: Path, result: Any) -> Path:
    if isinstance(result, pd.DataFrame):
        file = folder / "table.parquet"
        result.to_parquet(file)
    elif isinstance(result, np.ndarray):
        file = folder / "array.npy"
        np.save(file, result, allow_pickle=False)
    elif _is_mapping_of("torch.Tensor", result):
        file = folder / "tensors.safetensors"
        import safetensors.torch  # imported here, as torch takes seconds and a listing of the store does not need it

        # a tensor may be a view of another one, which the format refuses
        own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in result.items()}
        file.write_bytes(safetensors.torch.save(own))  # its own writer hides the reason where the disk is full
    elif _is_mapping_of("numpy.ndarray", result):
        file = folder / "arrays.npz"
        np.savez(file, allow_pickle=False, **dict(result))
    else:
        file = folder / "value.json"
        file.write_text(json.dumps(result), encoding="utf-8")
    return file


def _is_mapping_of(type_name: str, result: Any) -> bool:
    values = result.values() if isinstance(result, Mapping) else ()
    return {f"{type(value).__module__}.{type(value).__qualname__}" for value in values} == {type_name}


def _read(entry: Path) -> Any:
    file = entry / json.loads((entry / "record.json").read_text(encoding="utf-8"))["file"]
    match file.suffix:
        case ".parquet":
            return pd.read_parquet(file)
        case ".npy":
            return np.load(file, allow_pickle=False)
        case ".safetensors":
            import safetensors.torch

            return safetensors.torch.load_file(file)
        case ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        case _:
            return json.loads(file.read_text(encoding="utf-8"))


def _problem(entry: Path) -> str | None:
    """What is wrong with an entry, in words; also where there is none."""
    try:
        record = json.loads((entry / "record.json").read_text(encoding="utf-8"))
        file, expected = entry / record["file"], record["sha256"]
    except _UNREADABLE:
        return "has no readable record"
    if entry.is_symlink() or file.parent != entry or not os.path.isfile(file):
        return f"has lost {file.name}"
    return None if files.sha256(file) == expected else f"is damaged: {file.name} is not what was written"
