import functools
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile

import pytest

from biaslib import datasets
from biaslib.datasets import registry
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


def registry_of(tmp_path, *, archives="", files=""):
    path = tmp_path / "registry.toml"
    path.write_text(
        f"""[toy]
title = "Toy data"
papers = ["A"]
source = "https://toy.example/data"
licence = "CC0"
terms = "none"
by_hand = "ask the authors"
archives = [{archives}]
files = [{files}]
"""
    )
    return path


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.fixture
def toy(tmp_path, site):
    """A dataset of two files in one archive, to be fetched into an empty root."""
    folder, address = site
    digest = tarball(folder / "toy.tar.gz", **{"toy-main/a.txt": b"alpha", "toy-main/sub/b.txt": b"beta"})
    book = registry_of(
        tmp_path,
        archives=f'{{ url = "{address}/toy.tar.gz", to = "toy", strip = 1, hash = "sha256:{digest}" }}',
        files=f'{{ path = "toy/a.txt", size = 5, hash = "{sha256(b"alpha")}" }}, {{ path = "toy/sub/b.txt" }}',
    )
    return {"root": tmp_path / "raw", "registry_file": book}


def test_fetch_unpacks_checks_and_leaves_nothing_else(toy):
    assert datasets.fetch("toy", **toy) == toy["root"]
    assert (toy["root"] / "toy/sub/b.txt").read_bytes() == b"beta"
    assert [path.name for path in toy["root"].iterdir()] == ["toy"]
    assert datasets.check("toy", **toy)["state"].tolist() == ["ok", "present"]
    assert datasets.listing(**toy)["here"].tolist() == ["yes"]


def test_fetch_again_downloads_nothing_and_mends_what_is_damaged(toy, site):
    datasets.fetch("toy", **toy)
    served = site[0] / "toy.tar.gz"
    aside = served.rename(served.with_suffix(".aside"))
    datasets.fetch("toy", **toy)  # whole already, so the missing source does not matter
    aside.rename(served)
    (toy["root"] / "toy/a.txt").write_text("alphX")
    (toy["root"] / "toy/mine.txt").write_text("a reader's own note")
    assert datasets.check("toy", **toy)["state"].tolist() == ["damaged", "present"]
    datasets.fetch("toy", **toy)
    assert (toy["root"] / "toy/a.txt").read_text() == "alpha"
    assert (toy["root"] / "toy/mine.txt").exists()


def test_check_tells_missing_damaged_and_partial_apart(tmp_path):
    book = registry_of(
        tmp_path,
        files=f'{{ path = "none.txt" }}, {{ path = "short.txt", size = 9 }}, {{ path = "other.txt", '
        f'hash = "{sha256(b"right")}" }}, {{ path = "folder", count = 3 }}',
    )
    raw = tmp_path / "raw"
    (raw / "folder").mkdir(parents=True)
    (raw / "folder/1.jpg").touch()
    (raw / "short.txt").write_text("12345")
    (raw / "other.txt").write_text("wrong")
    found = datasets.check("toy", root=raw, registry_file=book).set_index("file")
    assert found["state"].to_dict() == {
        "none.txt": "missing",
        "short.txt": "damaged",
        "other.txt": "damaged",
        "folder": "partial",
    }
    assert found.loc["short.txt", "detail"] == "5 bytes instead of 9"
    assert found.loc["folder", "detail"] == "1 of 3 files"
    assert datasets.listing(root=raw, registry_file=book)["here"].tolist() == ["part"]


def test_folder_that_is_not_full_is_listed_as_part(tmp_path):
    book = registry_of(tmp_path, files='{ path = "pictures", count = 2 }')
    raw = tmp_path / "raw"
    for n, here in ((0, "part"), (1, "part"), (2, "yes")):
        (raw / "pictures").mkdir(parents=True, exist_ok=True)
        if n:
            (raw / f"pictures/{n}.jpg").touch()
        assert datasets.listing(root=raw, registry_file=book)["here"].tolist() == [here]


def test_wrong_checksum_is_refused_and_nothing_is_kept(toy, site):
    tarball(site[0] / "toy.tar.gz", **{"toy-main/a.txt": b"alphY"})
    with pytest.raises(BiaslibError, match=r"did not give the official file of Toy data"):
        datasets.fetch("toy", **toy)
    assert list(toy["root"].iterdir()) == []


def test_archive_without_a_listed_file_is_said(tmp_path, site):
    folder, address = site
    tarball(folder / "toy.tar.gz", **{"toy/a.txt": b"alpha"})
    book = registry_of(
        tmp_path,
        archives=f'{{ url = "{address}/toy.tar.gz", to = "." }}',
        files='{ path = "toy/a.txt" }, { path = "toy/b.txt" }',
    )
    with pytest.raises(BiaslibError, match=r"1 of its files are missing or not the official ones, toy/b.txt first"):
        datasets.fetch("toy", root=tmp_path / "raw", registry_file=book)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_archive_that_would_escape_writes_nothing(tmp_path, site, kind):
    folder, address = site
    if kind == "tar":
        tarball(folder / "bad.tar", **{"good.txt": b"1", "../../escaped.txt": b"2"})
    else:
        with zipfile.ZipFile(folder / "bad.zip", "w") as archive:
            archive.writestr("good.txt", b"1")
            archive.writestr("../../escaped.txt", b"2")
    book = registry_of(tmp_path, archives=f'{{ url = "{address}/bad.{kind}", to = "toy" }}')
    with pytest.raises(BiaslibError, match="outside its folder"):
        datasets.fetch("toy", root=tmp_path / "raw", registry_file=book)
    assert list((tmp_path / "raw").iterdir()) == []
    assert not (tmp_path / "escaped.txt").exists()


def test_single_file_is_kept_as_it_is(tmp_path, site):
    folder, address = site
    (folder / "digits.gz").write_bytes(b"not unpacked")
    book = registry_of(
        tmp_path,
        archives=f'{{ url = "{address}/digits.gz", to = "toy/raw/digits.gz", unpack = false, '
        f'hash = "{sha256(b"not unpacked")}" }}',
    )
    datasets.fetch("toy", root=tmp_path / "raw", registry_file=book)
    assert (tmp_path / "raw/toy/raw/digits.gz").read_bytes() == b"not unpacked"


def test_unreachable_source_and_missing_page_name_the_source(tmp_path, site):
    _, address = site
    for url in (f"{address}/nothing.zip", "http://127.0.0.1:9/nothing.zip"):
        book = registry_of(tmp_path, archives=f'{{ url = "{url}", to = "toy" }}')
        with pytest.raises(
            BiaslibError, match=r"cannot reach .*nothing\.zip.*https://toy\.example/data: ask the authors"
        ):
            datasets.fetch("toy", root=tmp_path / "raw", registry_file=book)


def test_dataset_behind_a_form_says_what_to_do(tmp_path):
    with pytest.raises(BiaslibError, match=r"cannot be fetched by a command: read the agreement"):
        datasets.fetch("celeba", root=tmp_path)


def test_unwritable_root_is_said(tmp_path, toy):
    (tmp_path / "file").touch()
    with pytest.raises(BiaslibError, match="cannot write"):
        datasets.fetch("toy", root=tmp_path / "file" / "raw", registry_file=toy["registry_file"])


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(BiaslibError, match=r"no dataset is called 'celebA'; the registry has .*celeba"):
        datasets.check("celebA")


def test_official_registry_is_complete(tmp_path):
    entries = registry.read()
    listed = datasets.listing(root=tmp_path)
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


def test_damaged_registry_is_said(tmp_path):
    (tmp_path / "registry.toml").write_text("[toy]\ntitle = 'no papers'\nunknown = 1\npapers = []\n")
    with pytest.raises(BiaslibError, match="is not a registry of datasets"):
        registry.read(tmp_path / "registry.toml")
