"""What data/registry.toml says of every dataset, where they lie here, how to get them, and whether they are whole."""

import contextlib
import functools
import gzip
import hashlib
import lzma
import os
import shutil
import stat
import sys
import tarfile
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from biaslib import store
from biaslib.errors import BiaslibError, check_known, refused

CHECKOUT = Path(__file__).resolve().parents[2]
# what authors list by name, such as CelebA's attributes
WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
_CHUNK = 1 << 20
_MOST_TIMES, _ALWAYS = 100, 2**20  # of an archive's own size, and bytes that any may unpack to
_PLAIN = (0, stat.S_IFREG, stat.S_IFDIR)  # of a zip's members; 0 where it was made on a system without kinds
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, EOFError, gzip.BadGzipFile, zlib.error)
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)


class DatasetWarning(UserWarning):
    """A dataset is used that has known problems in its labels or its terms."""


@dataclass(frozen=True)
class _File:
    """One file, or a folder of `count` files, of a dataset."""

    path: str  # relative to the root of all datasets
    size: int | None = None  # bytes, where known
    hash: str | None = None  # "sha256:..." or "md5:..." (the only one some sources publish), where known
    count: int | None = None  # for a folder, how many files the official distribution puts there


@dataclass(frozen=True)
class _Archive:
    """What `fetch` downloads."""

    url: str  # official address
    to: str  # folder it is unpacked into, or, for a single file, the file's path; relative to the root
    hash: str | None = None  # as for `_File`; None where the source publishes none (the files inside are checked)
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
    files: tuple[_File, ...] = ()
    archives: tuple[_Archive, ...] = ()

    def how_to_get(self) -> str:
        """The command that fetches it, or what to do by hand."""
        return f"run `biaslib data fetch {self.name}`" if self.archives else self.by_hand

    def require(self, path: Path) -> Path:
        """`path` itself; where nothing lies there, a BiaslibError with the official source and how to get it."""
        if path.exists():
            return path
        raise refused("missing file of a data set", path=path, of=self, get=self.how_to_get())

    @contextlib.contextmanager
    def reading(self, path: Path, why: str = "") -> Iterator[None]:
        """Inside, `path` is read: it has to be there, and where it cannot be read, it is damaged."""
        self.require(path)
        try:
            yield
        except _UNREADABLE as error:
            raise self.damaged(path, f"{why}: {error}" if why else str(error)) from error

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
        return dict(_parsed(path.read_text(encoding="utf-8"), path.parent))
    except FileNotFoundError as error:
        raise BiaslibError(f"{error.filename} is missing: use biaslib from a checkout of its repository.") from error
    except (tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise refused("damaged registry", path=path, error=error) from error


@functools.lru_cache(maxsize=1)  # a plan asks for it once a model
def _parsed(text: str, folder: Path) -> dict[str, Dataset]:
    return {name: _dataset(name, entry, folder) for name, entry in tomllib.loads(text).items()}


def get(name: str) -> Dataset:
    """One entry; a BiaslibError for a name that is not in the registry."""
    known = read()
    check_known("a data set of the registry", name, sorted(known))
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
    files = [_File(**file) for file in fields.pop("files", ())]
    if manifest := fields.pop("manifest", None):  # as `sha256sum` writes it: a line is a digest, two spaces, a path
        lines = (folder / manifest).read_text(encoding="utf-8").splitlines()
        pairs = (line.split("  ", maxsplit=1) for line in lines)
        files += [_File(path=name, hash=f"sha256:{digest}") for digest, name in pairs]
    archives = tuple(_Archive(**archive) for archive in fields.pop("archives", ()))
    return Dataset(name, papers=tuple(fields.pop("papers")), files=tuple(files), archives=archives, **fields)


def fetch(name: str) -> Path:
    """Downloads a dataset from its official source, checks and unpacks it; returns the folder of all datasets.

    Files appear under their final names only when they are whole; what is there already and whole stays. A
    `BiaslibError` is raised for a name that is not in `listing`, a dataset that has to be got by hand (with what to
    do), an unreachable source, a wrong checksum, an archive that would write outside its folder, an unwritable folder.
    """
    dataset = get(name)
    folder = root()
    if not dataset.archives:
        raise refused("data set to get by hand", title=dataset.title, by_hand=dataset.by_hand, licence=dataset.licence)
    if dataset.files and check(name)["state"].isin(("ok", "present")).all():
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with store.scratch(folder) as scratch:
            for archive in dataset.archives:
                _fetch_archive(dataset, archive, folder, scratch)
    except OSError as error:
        raise refused("folder that cannot be written", folder=folder, error=error) from error
    files = check(name).set_index("file")["state"]
    if wrong := list(files.index[files.isin(("missing", "damaged"))]):
        raise refused("fetched files that are wrong", title=dataset.title, n=len(wrong), first=wrong[0], name=name)
    return folder


def check(name: str) -> pd.DataFrame:
    """Which files of a dataset are there and whole.

    Returns one row a file: `file` (relative to the root), `state` and `detail` (what is wrong, or ""). The states: "ok"
    (size and checksum are the official ones), "present" (there; no checksum is known), "partial" (a folder with fewer
    files than the official one), "missing", "damaged" (size or checksum differ from the official ones).
    """
    rows = [(file.path, *_state(file, root() / file.path)) for file in get(name).files]
    return pd.DataFrame(rows, columns=["file", "state", "detail"])


def listing() -> pd.DataFrame:
    """Every dataset, a row each: what the registry says, `get` ("fetch", "by hand"), `here` ("yes", "part", "no")."""
    rows = []
    for dataset in read().values():
        # without sizes and checksums, which take long
        files = [replace(file, size=None, hash=None) for file in dataset.files]
        states = {_state(file, root() / file.path)[0] for file in files}
        here = "yes" if states == {"present"} else "no" if states <= {"missing"} else "part"
        how, papers = "fetch" if dataset.archives else "by hand", ", ".join(dataset.papers)
        rows.append((dataset.name, dataset.title, here, how, papers, dataset.licence, dataset.terms, dataset.source))
    return pd.DataFrame(rows, columns=["name", "title", "here", "get", "papers", "licence", "terms", "source"])


def _unpack(archive: Path, into: Path) -> None:
    """Unpacks a zip or tar file into a folder: plain files and folders below it, all judged before any is written."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                for info in opened.infolist():
                    _judge(archive, info.orig_filename, plain=stat.S_IFMT(info.external_attr >> 16) in _PLAIN)
                _judge_size(archive, sum(info.file_size for info in opened.infolist()))
                opened.extractall(into)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as opened_tar:
                for member in opened_tar.getmembers():
                    _judge(archive, member.name, plain=member.isreg() or member.isdir())
                    member.mode = 0o755 if member.isdir() else 0o644  # not the archive's, under any Python
                _judge_size(archive, sum(member.size for member in opened_tar.getmembers()))
                # owners of the archive are not taken over, where Python knows how
                opened_tar.extraction_filter = getattr(tarfile, "data_filter", None)
                opened_tar.extractall(into)
                # what follows the last member: a compressed stream's checksum stands at its very end
                while opened_tar.fileobj is not None and opened_tar.fileobj.read(_CHUNK):
                    pass
        else:
            raise BiaslibError(f"{archive.name} is neither a zip nor a tar archive; remove it and fetch it again.")
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a broken gzip or bz2 stream carries no number
            raise refused("archive that cannot be unpacked", archive=archive, into=into, error=error) from error
        raise BiaslibError(f"{archive.name} is damaged ({error}); remove it and fetch it again.") from error


def _fetch_archive(dataset: Dataset, archive: _Archive, folder: Path, scratch: Path) -> None:
    downloaded = _download(dataset, archive, scratch)
    target = folder / archive.to
    if not archive.unpack:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(downloaded, target)
        return
    unpacked = scratch / "unpacked"
    _unpack(downloaded, unpacked)
    for part in unpacked.glob("*/" * archive.strip) if archive.strip else [unpacked]:
        shutil.copytree(part, target, dirs_exist_ok=True, copy_function=os.replace)
    shutil.rmtree(unpacked)
    downloaded.unlink()


def _download(dataset: Dataset, archive: _Archive, scratch: Path) -> Path:
    import pooch
    import requests

    file, bar = archive.url.rsplit("/", 1)[-1], sys.stderr.isatty()
    if archive.hash is None:
        print(f"{archive.url}: its source publishes no checksum; only https vouches for it", file=sys.stderr)
    try:
        return Path(pooch.retrieve(archive.url, known_hash=archive.hash, fname=file, path=scratch, progressbar=bar))
    except ValueError as error:  # pooch's word for a wrong checksum
        raise refused("file that is not the official one", archive=archive, of=dataset, error=error) from error
    except requests.RequestException as error:
        by_hand = f": {dataset.by_hand}" if dataset.by_hand else ""
        raise refused(
            "source out of reach", archive=archive, of=dataset, kind=type(error).__name__, by_hand=by_hand
        ) from error


def _state(file: _File, path: Path) -> tuple[str, str]:
    if not path.exists():
        return "missing", ""
    if file.count is not None:
        n = len(os.listdir(path))
        return ("present", "") if n >= file.count else ("partial", f"{n} of {file.count} files")
    if file.size is not None and path.stat().st_size != file.size:
        return "damaged", f"{path.stat().st_size} bytes instead of {file.size}"
    if file.hash is None:
        return "present", ""
    algorithm, expected = file.hash.split(":")
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, algorithm).hexdigest()
    return ("ok", "") if digest == expected else ("damaged", f"{algorithm} differs from the official file's")


def _judge(archive: Path, member: str, *, plain: bool) -> None:
    """Refuses a member that is no plain file or folder, or whose name leads out of the folder."""
    if not plain:
        raise BiaslibError(f"{archive.name} holds a link or a device, {member!r}; nothing of it was unpacked.")
    # a backslash or a drive letter would be a way out on Windows, a null byte ends a name early
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or any(sign in member for sign in "\\:\0"):
        raise refused("member outside its folder", archive=archive.name, member=member)


def _judge_size(archive: Path, unpacked: int) -> None:
    if unpacked > _MOST_TIMES * archive.stat().st_size + _ALWAYS:
        raise refused("archive that grows", archive=archive.name, times=_MOST_TIMES)
