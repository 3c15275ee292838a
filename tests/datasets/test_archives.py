import io
import stat
import tarfile
import zipfile

import numpy as np
import pytest

from biaslib.datasets.archives import unpack
from biaslib.errors import BiaslibError


def zip_of(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def tar_of(path, *members):
    """Members are (name, type, link target or content)."""
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content
                archive.addfile(info)
    return path


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_zip_and_tar_give_the_same_tree(tmp_path):
    unpack(zip_of(tmp_path / "a.zip", **{"top/x.txt": b"1", "top/sub/y.txt": b"2"}), tmp_path / "zip")
    members = [("top/x.txt", tarfile.REGTYPE, b"1"), ("top/sub/y.txt", tarfile.REGTYPE, b"2")]
    unpack(tar_of(tmp_path / "a.tar.gz", *members), tmp_path / "tar")
    assert everything_below(tmp_path / "zip") == everything_below(tmp_path / "tar") == ["top/sub/y.txt", "top/x.txt"]
    assert (tmp_path / "tar/top/sub/y.txt").read_bytes() == b"2"


def test_strip_drops_leading_folders_and_what_lies_above_them(tmp_path):
    archive = zip_of(tmp_path / "a.zip", **{"top/x.txt": b"1", "notes.txt": b"0"})
    unpack(archive, tmp_path / "out", strip=1)
    assert everything_below(tmp_path / "out") == ["x.txt"]


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "C:evil.txt", "..\\evil.txt"])
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    hold = tmp_path / "hold"
    hold.mkdir()
    archives = [
        zip_of(tmp_path / "a.zip", **{"good.txt": b"1", name: b"2"}),
        tar_of(tmp_path / "a.tar.gz", ("good.txt", tarfile.REGTYPE, b"1"), (name, tarfile.REGTYPE, b"2")),
    ]
    for archive in archives:
        with pytest.raises(BiaslibError, match="outside its folder"):
            unpack(archive, hold / "out")
    assert everything_below(hold) == []  # not even the harmless member was written
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "good.txt"),
        (tarfile.CHRTYPE, ""),
        (tarfile.BLKTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind, target):
    archive = tar_of(tmp_path / "a.tar.gz", ("good.txt", tarfile.REGTYPE, b"1"), ("way_out", kind, target))
    with pytest.raises(BiaslibError, match="link or a device, 'way_out'"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_symbolic_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("way_out")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc")
    with pytest.raises(BiaslibError, match="link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_truncated_and_foreign_files_are_named(tmp_path):
    whole = tar_of(tmp_path / "a.tar.gz", ("x.bin", tarfile.REGTYPE, bytes(range(256)) * 400)).read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "page.zip").write_text("<html>Please log in</html>")
    with pytest.raises(BiaslibError, match=r"cut\.tar\.gz"):
        unpack(tmp_path / "cut.tar.gz", tmp_path / "out")
    with pytest.raises(BiaslibError, match=r"page\.zip is neither a zip nor a tar"):
        unpack(tmp_path / "page.zip", tmp_path / "out")


def test_a_flipped_byte_is_found_in_every_kind_of_archive(tmp_path):
    noise = np.random.default_rng(0).bytes(2_000_000)  # several blocks of bz2, and no compressor shortens it
    for kind in ("gz", "bz2", "xz"):
        archive = tmp_path / f"a.tar.{kind}"
        with tarfile.open(archive, f"w:{kind}") as opened:
            info = tarfile.TarInfo("x.bin")
            info.size = len(noise)
            opened.addfile(info, io.BytesIO(noise))
        refused(archive, 1_500_000, tmp_path)
    refused(zip_of(tmp_path / "a.zip", **{"x.bin": noise}), 50_000, tmp_path)
    # a checksum at the end of the stream, which unpacking alone never reads
    refused(tar_of(tmp_path / "b.tar.gz", ("x.bin", tarfile.REGTYPE, noise)), -6, tmp_path)


def refused(archive, place, folder):
    content = bytearray(archive.read_bytes())
    unpack(archive, folder / "whole")
    content[place] ^= 255
    archive.write_bytes(content)
    with pytest.raises(BiaslibError, match=f"{archive.name} is damaged"):
        unpack(archive, folder / "out")
