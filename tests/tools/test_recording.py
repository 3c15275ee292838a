import subprocess

import pytest

from biaslib.book import Project, execution, recorded
from biaslib.errors import BiaslibError
from tests.book.conftest import write_notebook
from tools import recording

CELL = "from biaslib.book import recorded\nrecorded.put('numbers', {'n': n})\nrecorded.data('nothing', images=n)"


def git(book, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    return subprocess.run(
        ["git", "-C", str(book.root), *identity, *arguments], check=True, capture_output=True, text=True
    )


@pytest.fixture
def book(tmp_path, monkeypatch):
    found = Project(tmp_path / "book")
    for place in (found.notebooks, found.book, found.presets):
        place.mkdir(parents=True)
    (found.root / "_config.yml").touch()
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@b.c")
    write_notebook(found, "page", CELL)
    write_notebook(found, "words", "print(n)")
    for preset in recording.MADE_WITH:
        (found.presets / f"{preset}.yml").write_text("{}\n")
    (found.presets / "standard.yml").write_text("page: {n: 7}\nwords: {n: 7}\n")
    git(found, "init", "--quiet")
    git(found, "add", ".")
    git(found, "commit", "--quiet", "-m", "all")
    monkeypatch.chdir(found.root)
    return found


@pytest.mark.slow
def test_what_is_missing_is_made_and_committed_and_then_current(book, capsys):
    assert recording.stale(book) == [("page", "standard")]
    recording.make(book, [])
    assert recorded.get("page", "standard")["values"] == {"numbers": {"n": 7}}
    assert git(book, "status", "--porcelain", "--untracked-files=no").stdout == ""
    assert "Record of page, preset standard" in git(book, "log", "-1", "--format=%s").stdout
    assert recording.stale(book) == []
    (book.presets / "standard.yml").write_text("page: {n: 8}\n")
    assert recording.stale(book) == [("page", "standard")]
    assert "1 to record: page (standard)" in capsys.readouterr().out


def test_a_tree_with_edits_is_refused_before_anything_runs(book, monkeypatch):
    write_notebook(book, "page", CELL, "print(1)")
    monkeypatch.setattr(execution, "run", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(BiaslibError, match=r"1 tracked files differ from the last commit \(notebooks/page.md\)"):
        recording.make(book, [])


def test_a_name_without_a_preset_is_one_sentence(book):
    with pytest.raises(BiaslibError, match="pages is recorded with no preset: choose page, words"):
        recording.make(book, ["pages"])
