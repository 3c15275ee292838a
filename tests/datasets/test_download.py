import functools
import hashlib
import http.server
import io
import stat
import tarfile
import threading
import zipfile

import numpy as np
import pytest

from biaslib import datasets
from biaslib.datasets import registry
from biaslib.datasets.registry import _unpack
from biaslib.errors import BiaslibError


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def site(tmp_path):
    """A folder served on this machine, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def tarball(path, **files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """The folder of all datasets, which is not there yet."""
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path / "raw"))
    return tmp_path / "raw"


@pytest.fixture
def registry_of(tmp_path, monkeypatch, raw):
    """Puts a registry of one dataset in the place of the checkout's."""

    def write(archives="", files=""):
        monkeypatch.setattr(registry, "CHECKOUT", tmp_path / "checkout")
        path = tmp_path / "checkout" / "data" / "registry.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_toy(archives, files))

    return write


def _toy(archives, files):
    return f"""[toy]
title = "Toy data"
papers = ["A"]
source = "https://toy.example/data"
licence = "CC0"
terms = "none"
by_hand = "ask the authors"
archives = [{archives}]
files = [{files}]
"""


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def toy(site, registry_of, raw):
    """A dataset of two files in one archive, to be fetched into an empty root."""
    folder, address = site
    digest = tarball(folder / "toy.tar.gz", **{"toy-main/a.txt": b"alpha", "toy-main/sub/b.txt": b"beta", "notes": b""})
    registry_of(
        archives=f'{{ url = "{address}/toy.tar.gz", to = "toy", strip = 1, hash = "sha256:{digest}" }}',
        files=f'{{ path = "toy/a.txt", size = 5, hash = "{sha256(b"alpha")}" }}, {{ path = "toy/sub/b.txt" }}',
    )
    return raw


def test_fetch_unpacks_checks_and_leaves_nothing_else(toy):
    assert datasets.fetch("toy") == toy
    assert (toy / "toy/sub/b.txt").read_bytes() == b"beta"
    assert [path.name for path in toy.iterdir()] == ["toy"]
    assert not list(toy.rglob("notes"))  # it lies above the folder that is stripped
    assert datasets.check("toy")["state"].tolist() == ["ok", "present"]
    assert datasets.listing()["here"].tolist() == ["yes"]


def test_fetch_again_downloads_nothing_and_mends_what_is_damaged(toy, site):
    datasets.fetch("toy")
    served = site[0] / "toy.tar.gz"
    aside = served.rename(served.with_suffix(".aside"))
    datasets.fetch("toy")  # whole already, so the missing source does not matter
    aside.rename(served)
    (toy / "toy/a.txt").write_text("alphX")
    (toy / "toy/mine.txt").write_text("a reader's own note")
    assert datasets.check("toy")["state"].tolist() == ["damaged", "present"]
    datasets.fetch("toy")
    assert (toy / "toy/a.txt").read_text() == "alpha"
    assert (toy / "toy/mine.txt").exists()


def test_check_tells_missing_damaged_and_partial_apart(registry_of, raw):
    registry_of(
        files=f'{{ path = "none.txt" }}, {{ path = "short.txt", size = 9 }}, {{ path = "other.txt", '
        f'hash = "{sha256(b"right")}" }}, {{ path = "folder", count = 3 }}',
    )
    (raw / "folder").mkdir(parents=True)
    (raw / "folder/1.jpg").touch()
    (raw / "short.txt").write_text("12345")
    (raw / "other.txt").write_text("wrong")
    found = datasets.check("toy").set_index("file")
    assert found["state"].to_dict() == {
        "none.txt": "missing",
        "short.txt": "damaged",
        "other.txt": "damaged",
        "folder": "partial",
    }
    assert found.loc["short.txt", "detail"] == "5 bytes instead of 9"
    assert found.loc["folder", "detail"] == "1 of 3 files"
    assert datasets.listing()["here"].tolist() == ["part"]


def test_folder_that_is_not_full_is_listed_as_part(registry_of, raw):
    registry_of(files='{ path = "pictures", count = 2 }')
    for n, here in ((0, "part"), (1, "part"), (2, "yes")):
        (raw / "pictures").mkdir(parents=True, exist_ok=True)
        if n:
            (raw / f"pictures/{n}.jpg").touch()
        assert datasets.listing()["here"].tolist() == [here]


def test_wrong_checksum_is_refused_and_nothing_is_kept(toy, site):
    tarball(site[0] / "toy.tar.gz", **{"toy-main/a.txt": b"alphY"})
    with pytest.raises(BiaslibError, match=r"did not give the official file of Toy data"):
        datasets.fetch("toy")
    assert list(toy.iterdir()) == []


def test_archive_without_a_listed_file_is_said(registry_of, site):
    folder, address = site
    tarball(folder / "toy.tar.gz", **{"toy/a.txt": b"alpha"})
    registry_of(
        archives=f'{{ url = "{address}/toy.tar.gz", to = "." }}',
        files='{ path = "toy/a.txt" }, { path = "toy/b.txt" }',
    )
    with pytest.raises(BiaslibError, match=r"1 of its files are missing or not the official ones, toy/b.txt first"):
        datasets.fetch("toy")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_archive_that_would_escape_writes_nothing(registry_of, tmp_path, raw, site, kind):
    folder, address = site
    if kind == "tar":
        tarball(folder / "bad.tar", **{"good.txt": b"1", "../../escaped.txt": b"2"})
    else:
        with zipfile.ZipFile(folder / "bad.zip", "w") as archive:
            archive.writestr("good.txt", b"1")
            archive.writestr("../../escaped.txt", b"2")
    registry_of(archives=f'{{ url = "{address}/bad.{kind}", to = "toy" }}')
    with pytest.raises(BiaslibError, match="outside its folder"):
        datasets.fetch("toy")
    assert list(raw.iterdir()) == []
    assert not (tmp_path / "escaped.txt").exists()


def test_single_file_is_kept_as_it_is(registry_of, raw, site):
    folder, address = site
    (folder / "digits.gz").write_bytes(b"not unpacked")
    registry_of(
        archives=f'{{ url = "{address}/digits.gz", to = "toy/raw/digits.gz", unpack = false, '
        f'hash = "{sha256(b"not unpacked")}" }}',
    )
    datasets.fetch("toy")
    assert (raw / "toy/raw/digits.gz").read_bytes() == b"not unpacked"


def test_unreachable_source_and_missing_page_name_the_source(registry_of, site):
    _, address = site
    for url in (f"{address}/nothing.zip", "http://127.0.0.1:9/nothing.zip"):
        registry_of(archives=f'{{ url = "{url}", to = "toy" }}')
        with pytest.raises(
            BiaslibError, match=r"cannot reach .*nothing\.zip.*https://toy\.example/data: ask the authors"
        ):
            datasets.fetch("toy")


def test_dataset_behind_a_form_says_what_to_do(raw):
    with pytest.raises(BiaslibError, match=r"cannot be fetched by a command: read the agreement"):
        datasets.fetch("celeba")


def test_unwritable_root_is_said(tmp_path, monkeypatch, toy):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path / "file" / "raw"))
    with pytest.raises(BiaslibError, match="cannot write"):
        datasets.fetch("toy")


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(BiaslibError, match=r"a data set of the registry must be one of .*celeba.*, not 'celebA'"):
        datasets.check("celebA")


def test_official_registry_is_complete(raw):
    entries = registry.read()
    listed = datasets.listing()
    assert set(listed["here"]) == {"no"}
    assert {"A", "B", "C", "D"} == {paper for entry in entries.values() for paper in entry.papers}
    for entry in entries.values():
        assert entry.source.startswith("http")
        assert entry.archives or entry.by_hand, f"{entry.name}: no way to get it"
        assert entry.files, f"{entry.name}: nothing to check"
        assert entry.licence
        assert entry.terms
        for file in entry.files:
            assert not file.path.startswith("/")
            assert file.hash is None or file.hash.split(":")[0] in ("sha256", "md5")
        for archive in entry.archives:
            assert archive.url.startswith("https://")


def test_damaged_registry_is_said(registry_of):
    registry_of(files="{ path = 'a.txt', unknown = 1 }")
    with pytest.raises(BiaslibError, match="is not a registry of datasets"):
        registry.read()


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
    _unpack(zip_of(tmp_path / "a.zip", **{"top/x.txt": b"1", "top/sub/y.txt": b"2"}), tmp_path / "zip")
    members = [("top/x.txt", tarfile.REGTYPE, b"1"), ("top/sub/y.txt", tarfile.REGTYPE, b"2")]
    _unpack(tar_of(tmp_path / "a.tar.gz", *members), tmp_path / "tar")
    assert everything_below(tmp_path / "zip") == everything_below(tmp_path / "tar") == ["top/sub/y.txt", "top/x.txt"]
    assert (tmp_path / "tar/top/sub/y.txt").read_bytes() == b"2"


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
            _unpack(archive, hold / "out")
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
        _unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_symbolic_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("way_out")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc")
    with pytest.raises(BiaslibError, match="link or a device"):
        _unpack(tmp_path / "a.zip", tmp_path / "out")


def test_truncated_and_foreign_files_are_named(tmp_path):
    whole = tar_of(tmp_path / "a.tar.gz", ("x.bin", tarfile.REGTYPE, bytes(range(256)) * 400)).read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "page.zip").write_text("<html>Please log in</html>")
    with pytest.raises(BiaslibError, match=r"cut\.tar\.gz"):
        _unpack(tmp_path / "cut.tar.gz", tmp_path / "out")
    with pytest.raises(BiaslibError, match=r"page\.zip is neither a zip nor a tar"):
        _unpack(tmp_path / "page.zip", tmp_path / "out")


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
    _unpack(archive, folder / "whole")
    content[place] ^= 255
    archive.write_bytes(content)
    with pytest.raises(BiaslibError, match=f"{archive.name} is damaged"):
        _unpack(archive, folder / "out")
