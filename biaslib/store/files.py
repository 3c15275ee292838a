"""Files that are whole or not there: written under a temporary name, renamed, checked when they are read."""

import contextlib
import errno
import functools
import hashlib
import os
import pkgutil
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import filelock

from biaslib.errors import BiaslibError, reason, refused

SEAL = hashlib.sha256().digest_size  # bytes at the end of a file that `sealed` wrote
_PIECE = 2**20  # bytes
_PARTIAL = ".partial-"  # begins the names of folders in which something is being written
_ALIVE = ".alive"  # in such a folder: locked as long as the process that writes there lives
_FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up", errno.EFBIG: "the file is too large"}


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary path that takes the place of `target` at the end; what cannot be written is a `BiaslibError`."""
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = stack.enter_context(scratch(target.parent)) / target.name
        except OSError as error:
            raise _cannot_write(target, error) from error
        try:
            yield partial
            for written in (*(partial.iterdir() if partial.is_dir() else ()), partial):
                _flush(written)
            os.replace(partial, target)
            _flush(target.parent)
        except OSError as error:
            if error.errno is not None and error.errno not in _FULL:
                raise
            raise _cannot_write(target, error) from error


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A temporary folder in a folder, removed at the end; those that killed processes left are removed first."""
    tidy(folder)
    alive: filelock.BaseFileLock
    while True:
        inner = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
        alive = filelock.FileLock(inner / _ALIVE, thread_local=False)
        # another process may have tidied it away before it was locked
        with contextlib.suppress(FileNotFoundError):
            alive.acquire()
            if inner.is_dir():
                break
    try:
        yield inner
    finally:
        shutil.rmtree(inner, ignore_errors=True)
        alive.release()


def tidy(folder: Path) -> None:
    """Removes what processes that no longer live were writing in a folder; what cannot be removed stays."""
    for mark in folder.glob(f"{_PARTIAL}*/{_ALIVE}"):  # a folder without it is somebody else's
        with contextlib.suppress(OSError, filelock.Timeout), filelock.FileLock(mark, timeout=0):
            shutil.rmtree(mark.parent)


@contextlib.contextmanager
def sealed(target: Path) -> Iterator[Path]:
    """As `replacing`, for one file; behind what was written, in one with it, goes its SHA-256, for `is_whole`."""
    with replacing(target) as partial:
        yield partial
        digest = bytes.fromhex(sha256(partial))
        with partial.open("ab") as opened:
            opened.write(digest)


def is_whole(file: Path) -> bool:
    """Whether a file is, byte for byte, what `sealed` wrote, which takes a second a GiB; False if unreadable."""
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


def is_still_whole(file: Path) -> bool:
    """As `is_whole`, but a file that has not changed since it was last whole is not read again.

    Where and how long it was, and when it changed, is noted in the folder .checked beside its own, when it is sealed
    (`note_whole`) and whenever it is read. Whatever writes to the file changes one of them. A failing disk may not:
    bits that flip by themselves are noticed by `is_whole`, and so by `store.verify`, alone.
    """
    return _whole_as(file, _look(file))


@functools.lru_cache(maxsize=256)  # where no note can be written all of it is read, but once in a process
def _whole_as(file: Path, look: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        if _note(file).read_text(encoding="utf-8") == look:
            return True
    whole = is_whole(file)
    if whole:
        note_whole(file)
    return whole


def note_whole(file: Path) -> None:
    """Notes that a file is whole as it is now; in a folder that cannot be written nothing is noted."""
    with contextlib.suppress(OSError):
        state = file.stat()
        # a second back, or a change within this tick of the clock could not be told from none
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns - 10**9))
        _note(file).parent.mkdir(exist_ok=True)
        _note(file).write_text(_look(file), encoding="utf-8")


def forget_whole(file: Path) -> None:
    """Takes back what `note_whole` noted, if anything."""
    with contextlib.suppress(OSError):
        _note(file).unlink()


def _note(file: Path) -> Path:
    return file.parents[1] / ".checked" / file.name


def _look(file: Path) -> str:
    state = file.stat()
    return f"{state.st_ino} {state.st_size} {state.st_mtime_ns}"


def sha256(file: Path) -> str:
    """Of a file's content, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """One process at a time, and one thread of it; the file is there only as long, or an `OSError` is raised."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _tidy_locks(file.parent)
    lock = filelock.FileLock(file, thread_local=False)
    lock.acquire()
    try:
        yield
    finally:
        # while it is held: whoever waits for it sees that the name is gone, and makes a new file
        file.unlink(missing_ok=True)
        lock.release()


@functools.lru_cache(maxsize=64)  # once in a process
def _tidy_locks(folder: Path) -> None:
    for file in folder.iterdir():
        with contextlib.suppress(OSError, filelock.Timeout), filelock.FileLock(file, timeout=0):
            file.unlink(missing_ok=True)


def module_of(file: Path) -> ModuleType:
    """Runs a Python file and gives its module; what stops it is a `BiaslibError`."""
    if not file.is_file():
        raise BiaslibError(f"There is no file {file}: mend its path.")
    name = "biaslib_file_" + hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    spec = util.spec_from_file_location(name, file)
    try:
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        sys.modules[name] = module = util.module_from_spec(spec)  # so that what it defines can be sent to a worker
        spec.loader.exec_module(module)
    except BiaslibError:
        raise
    except Exception as error:  # whatever the file's own code raises
        raise refused("file that cannot be run", file=file, kind=type(error).__name__, why=reason(error)) from error
    return module


def named(name: str) -> Any:
    """What `module:object` names, found from the current folder, too; importing it runs its maker's code."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    return pkgutil.resolve_name(name)


def beside(module: str) -> dict[str, Any]:
    """What the TOML file of the same name says that lies beside a module, given its `__file__`; lists are tuples."""
    said: dict[str, Any] = tupled(tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8")))
    return said


def tupled(value: Any) -> Any:
    """What TOML or JSON says, with tuples in place of lists."""
    if isinstance(value, dict):
        return {name: tupled(each) for name, each in value.items()}
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def _cannot_write(target: Path, error: OSError) -> BiaslibError:
    # numpy says only how much of an array it could not write
    reason = _FULL.get(error.errno or 0, error.strerror or "there is no room for all of it")
    remedy = f"free the space or mend the permissions of {target.parent}"
    return BiaslibError(f"cannot write {target}: {reason}; {remedy}. What was there is as it was.")


def _flush(path: Path) -> None:
    """To the disk itself, so that a power cut leaves the old or the new."""
    with contextlib.suppress(PermissionError):  # some systems do not open a folder
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
