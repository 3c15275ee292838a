"""Unpacking what came from elsewhere: only plain files and folders, and only below the folder that was meant."""

import functools
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from biaslib.errors import BiaslibError

_CHUNK = 1 << 20
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)


@dataclass(frozen=True)
class _Member:
    name: str
    is_folder: bool
    is_file: bool
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, into: Path, *, strip: int = 0) -> None:
    """Unpacks a zip or tar archive into the folder `into`.

    All names are judged before the first byte is written, so a refused archive leaves nothing behind. Permissions and
    owners of the archive are not taken over.

    Args:
        archive: a zip, tar, tar.gz, tar.bz2 or tar.xz file.
        into: made where it is missing.
        strip: how many leading folders are dropped from every name; members above them are left out.

    Raises:
        BiaslibError: for a damaged archive, an unknown format, or a member that is a link or a device or that would
            be written outside `into`.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                _unpack(archive.name, _zip_members(opened), into, strip)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as opened_tar:
                _unpack(archive.name, _tar_members(opened_tar), into, strip)
                _read_to_the_end(opened_tar)
        else:
            raise BiaslibError(f"{archive.name} is neither a zip nor a tar archive; remove it and fetch it again.")
    except _DAMAGED as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno is not None:  # a full disk, a missing file; a broken gzip or bz2 stream carries no number
            raise
        raise _damaged(archive, error) from error


def _damaged(archive: Path, why: Exception) -> BiaslibError:
    return BiaslibError(f"{archive.name} is damaged ({why}); remove it and fetch it again.")


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """Reads what follows the last member: a compressed stream's checksum stands at its very end."""
    while archive.fileobj is not None and archive.fileobj.read(_CHUNK):
        pass


def _zip_members(archive: zipfile.ZipFile) -> list[_Member]:
    members = []
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where the archive was made on a system without kinds
        members.append(
            _Member(
                name=info.orig_filename,
                is_folder=info.is_dir(),
                is_file=not info.is_dir() and kind in (0, stat.S_IFREG),
                open=functools.partial(archive.open, info),
            )
        )
    return members


def _tar_members(archive: tarfile.TarFile) -> list[_Member]:
    return [
        _Member(
            name=info.name,
            is_folder=info.isdir(),
            is_file=info.isreg(),
            open=functools.partial(archive.extractfile, info),
        )
        for info in archive.getmembers()
    ]


def _unpack(archive: str, members: list[_Member], into: Path, strip: int) -> None:
    targets = [(member, _target(archive, member, into, strip)) for member in members]
    for member, target in targets:
        if target is None:
            continue
        (target if member.is_folder else target.parent).mkdir(parents=True, exist_ok=True)
        source = member.open() if member.is_file else None
        if source is not None:
            with source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)


def _target(archive: str, member: _Member, into: Path, strip: int) -> Path | None:
    """Where a member goes; None for one that `strip` leaves out."""
    if not (member.is_file or member.is_folder):
        raise BiaslibError(f"{archive} holds a link or a device, {member.name!r}; nothing of it was unpacked.")
    name = PurePosixPath(member.name)
    # a backslash or a drive letter would be a way out on Windows, a null byte ends a name early
    if name.is_absolute() or ".." in name.parts or any(sign in member.name for sign in "\\:\0"):
        raise BiaslibError(
            f"{archive} holds {member.name!r}, which would be written outside its folder; nothing of it was unpacked."
        )
    return into.joinpath(*name.parts[strip:]) if len(name.parts) > strip else None
