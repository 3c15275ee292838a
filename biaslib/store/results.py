"""Results by content: the same configuration and code give the same entry.

An entry is a folder `<root>/<kind>/<key>` with the result in one file and `record.json` beside it. It is written under
a temporary name and renamed, so another process, or a later run after a kill, sees a whole entry or none.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError
from biaslib.store import fingerprint, provenance

SEAL = hashlib.sha256().digest_size  # bytes at the end of a file that `sealed` wrote
_PIECE = 2**20  # bytes


class _Waited(threading.local):
    seconds = 0.0  # so far, of each thread


_waited = _Waited()


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
    seconds: float  # of computing it, with what it needed first and without waiting for a worker or a lock
    bytes: int
    config: str  # the beginning of what it depends on, in words
    path: Path


def root() -> Path:
    """The store's folder: $BIASLIB_STORE, else data/store in the checkout, else below the user's cache folder."""
    if chosen := os.environ.get("BIASLIB_STORE"):
        return Path(chosen)
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").exists():
        return checkout / "data" / "store"
    return Path.home() / ".cache" / "biaslib" / "store"


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
        code: the function whose source the result depends on, or a hash of that source; None: `compute`, which may
            also just fetch the result.
    """
    return under_key(kind, key_of(config, code or compute), config, compute)


def under_key(kind: str, key: str, config: Any, compute: Callable[[], Any]) -> Any:
    """As `get_or_compute`, for a key that `key_of` has made: of many results, keys are made once."""
    entry = root() / kind / key
    with _locked(kind, key):
        if entry.exists():
            problem = _problem(entry)
            if problem is None:
                return _read(entry)
            warnings.warn(f"store entry {kind}/{key} {problem}; it is computed again.", DamagedEntryWarning, 2)
            shutil.rmtree(entry)
        computed = timed(compute)
        if isinstance(computed.result, _Timed):  # by a worker, which did not wait for its turn
            computed = computed.result
        _write(entry, computed.result, config=config, seconds=computed.seconds)
        return _read(entry)


def timed(compute: Callable[..., Any], *arguments: Any) -> _Timed:
    """The result of a function with the seconds it took; `get_or_compute` keeps those that a worker measured."""
    started, before = time.perf_counter(), _waited.seconds
    result = compute(*arguments)
    return _Timed(result, time.perf_counter() - started - (_waited.seconds - before))


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """What happens inside is waiting for others: `timed` leaves it out of a result's computing time."""
    started = time.perf_counter()
    try:
        yield
    finally:
        _waited.seconds += time.perf_counter() - started


def key_of(config: Any, code: Callable[..., Any] | str) -> str:
    """The key of a configuration and of a function's code, or of a hash of code."""
    return fingerprint.of_value([config, code if isinstance(code, str) else fingerprint.of_code(code)])


def entries() -> list[Entry]:
    """Every readable entry, oldest first; damaged ones are left to `verify`."""
    found = []
    for path in _folders():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads((path / "record.json").read_text(encoding="utf-8"))
            described = {field: record[field] for field in ("created", "seconds", "config")}
            size = sum(file.stat().st_size for file in path.iterdir())
            found.append(Entry(kind=path.parent.name, key=path.name, bytes=size, path=path, **described))
    return sorted(found, key=lambda entry: entry.created)


def verify() -> list[str]:
    """One sentence for every damaged entry; empty where all is well."""
    return [f"{path.parent.name}/{path.name} {problem}" for path in _folders() if (problem := _problem(path))]


def remove(prefix: str) -> int:
    """Removes the entries of the kind `prefix`, else those whose key or kind/key starts with it; returns how many."""
    if not prefix:
        raise BiaslibError("say which entries to remove: a kind, a key or its beginning, or kind/key.")
    folders = _folders()
    chosen = [path for path in folders if path.parent.name == prefix] or [
        path for path in folders if f"{path.parent.name}/{path.name}".startswith(prefix) or path.name.startswith(prefix)
    ]
    for path in chosen:
        shutil.rmtree(path)
    return len(chosen)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path beside `target` that takes its place when the block ends without an error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parent))
    except OSError as error:
        raise BiaslibError(
            f"cannot write {target}: {error.strerror}; free the space or mend the permissions of {target.parent}."
        ) from error
    try:
        yield folder / target.name
        os.replace(folder / target.name, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def sealed(target: Path) -> Iterator[Path]:
    """As `replacing`, for one file; its SHA-256 goes behind what was written, where no kill can part the two."""
    with replacing(target) as partial:
        yield partial
        digest = bytes.fromhex(_sha256(partial))
        with partial.open("ab") as opened:
            opened.write(digest)


def is_whole(file: Path) -> bool:
    """Whether a file, read as a whole, is byte for byte what `sealed` wrote; False also where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            left = os.fstat(opened.fileno()).st_size - SEAL
            while left > 0 and (piece := opened.read(min(left, _PIECE))):
                digest.update(piece)
                left -= len(piece)
            return opened.read() == digest.digest()
    except OSError:
        return False


@contextlib.contextmanager
def _locked(kind: str, key: str) -> Iterator[None]:
    folder = root() / ".locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / f"{kind}-{key}", thread_local=False)
        with waiting():
            lock.acquire()
    except OSError as error:
        raise BiaslibError(
            f"cannot write the store {root()}: {error.strerror}; mend the permissions or point BIASLIB_STORE elsewhere."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _folders() -> list[Path]:
    return sorted(path for path in root().glob("[!.]*/[!.]*") if path.is_dir() and len(path.name) == 32)


def _write(entry: Path, result: Any, *, config: Any, seconds: float) -> None:
    with replacing(entry) as folder:
        folder.mkdir()
        data = _write_result(folder, result)
        record: dict[str, Any] = {"file": data.name, "sha256": _sha256(data), "created": provenance.now()}
        record |= {"seconds": round(seconds, 3), "config": repr(config)[:2000]}
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
        _save_tensors(result, file)
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


def _save_tensors(tensors: Mapping[str, Any], file: Path) -> None:
    import safetensors.torch  # imported here, as torch takes seconds and a listing of the store does not need it

    # a tensor may be a view of another one, which the format refuses
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    safetensors.torch.save_file(own, file)


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
    try:
        record = json.loads((entry / "record.json").read_text(encoding="utf-8"))
        file, expected = entry / record["file"], record["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return "has no readable record"
    if not file.exists():
        return f"has lost {file.name}"
    return None if _sha256(file) == expected else f"is damaged: {file.name} is not what was written"


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
