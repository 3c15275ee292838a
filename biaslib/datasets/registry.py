"""What data/registry.toml says: the official source, licence, terms and files of every dataset; where they lie here."""

import functools
import os
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biaslib.errors import BiaslibError

CHECKOUT = Path(__file__).resolve().parents[2]


class DatasetWarning(UserWarning):
    """A dataset is used that has known problems in its labels or its terms."""


@dataclass(frozen=True)
class File:
    """One file, or a folder of `count` files, of a dataset."""

    path: str  # relative to the root of all datasets
    size: int | None = None  # bytes, where known
    hash: str | None = None  # "sha256:..." or "md5:..." (the only one some sources publish), where known
    count: int | None = None  # for a folder, how many files the official distribution puts there


@dataclass(frozen=True)
class Archive:
    """What `fetch` downloads."""

    url: str  # official address
    to: str  # folder it is unpacked into, or, for a single file, the file's path; relative to the root
    hash: str | None = None  # as for `File`; None where the source publishes none (the files inside are checked)
    strip: int = 0  # how many leading folders of the members' names are dropped
    unpack: bool = True  # False for a file that is kept as it is


@dataclass(frozen=True)
class Dataset:
    """One entry of the registry; see data/README.md for what each field is for."""

    name: str
    title: str
    papers: tuple[str, ...]
    source: str
    licence: str
    terms: str
    by_hand: str = ""
    warning: str = ""
    files: tuple[File, ...] = ()
    archives: tuple[Archive, ...] = ()

    def how_to_get(self) -> str:
        """The command that fetches it, or what to do by hand."""
        return f"run `biaslib data fetch {self.name}`" if self.archives else self.by_hand

    def require(self, path: Path) -> Path:
        """`path` itself; where nothing lies there, a BiaslibError with the official source and how to get it."""
        if path.exists():
            return path
        raise BiaslibError(
            f"{path} is missing: it belongs to {self.title} (official source: {self.source}; licence: "
            f"{self.licence}); {self.how_to_get()}, or point BIASLIB_DATA at the folder that holds it."
        )

    def damaged(self, path: Path, why: str) -> BiaslibError:
        """The error to raise for a file that is there but cannot be used."""
        return BiaslibError(
            f"{path} is damaged ({why}): remove it and get it again from {self.source}; {self.how_to_get()}."
        )


def root(chosen: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds all datasets: `chosen`, else $BIASLIB_DATA, else data/raw of the checkout."""
    return Path(chosen or os.environ.get("BIASLIB_DATA") or CHECKOUT / "data" / "raw").expanduser()


def read() -> dict[str, Dataset]:
    """All entries by name; a BiaslibError where the file is missing, is no TOML or lacks a field."""
    path = CHECKOUT / "data" / "registry.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: _dataset(name, entry, path.parent) for name, entry in entries.items()}
    except FileNotFoundError as error:
        raise BiaslibError(f"{error.filename} is missing: use biaslib from a checkout of its repository.") from error
    except (tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise BiaslibError(
            f"{path} is not a registry of datasets ({error}); restore it from the repository."
        ) from error


def get(name: str) -> Dataset:
    """One entry; a BiaslibError for a name that is not in the registry."""
    known = read()
    if name not in known:
        raise BiaslibError(f"no dataset is called {name!r}; the registry has {', '.join(sorted(known))}.")
    return known[name]


def missing(*paths: str) -> list[str]:
    """Those of some paths, relative to the folder of all datasets, at which nothing lies."""
    return [path for path in paths if not (root() / path).exists()]


@functools.cache  # once for each dataset; Python's own "once" is forgotten whenever a library touches its filters
def warn(dataset: Dataset) -> None:
    """Says what is known to be wrong with a dataset, once in a session."""
    if dataset.warning:
        warnings.warn(f"{dataset.title}: {dataset.warning}", DatasetWarning, stacklevel=2)


def _dataset(name: str, entry: dict[str, Any], folder: Path) -> Dataset:
    fields = dict(entry)
    files = [File(**file) for file in fields.pop("files", ())]
    if manifest := fields.pop("manifest", None):
        files += _manifest(folder / manifest)
    archives = tuple(Archive(**archive) for archive in fields.pop("archives", ()))
    return Dataset(name, papers=tuple(fields.pop("papers")), files=tuple(files), archives=archives, **fields)


def _manifest(path: Path) -> Iterator[File]:
    """Lines as `sha256sum` writes them: 64 hexadecimal digits, two spaces, a path relative to the root."""
    for line in path.read_text(encoding="utf-8").splitlines():
        digest, name = line.split("  ", maxsplit=1)
        yield File(path=name, hash=f"sha256:{digest}")
