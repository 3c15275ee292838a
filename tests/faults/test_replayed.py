"""What a hostile test of the first edition found, one case each; every one failed there."""

import contextlib
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from PIL import Image

from biaslib import figures, store
from biaslib.audit.pictures import Preprocessing
from biaslib.book import Project, execution, parameters, recorded
from biaslib.datasets import registry
from biaslib.datasets.pictures import UNREADABLE, open_picture
from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.store import files, parallel
from tests.book.conftest import write_notebook

ROOT = Path(__file__).parents[2]


def entry(value: int = 7) -> Path:
    """An entry of the store, made if need be."""
    store.get_or_compute("numbers", {"n": 1}, lambda: {"value": value}, code="none")
    (folder,) = (store.root() / "numbers").glob("[!.]*")
    return folder


def killed_while_writing(target: Path) -> None:
    program = "import os, signal, sys; from pathlib import Path; from biaslib import store\n"
    program += "with store.replacing(Path(sys.argv[1])) as partial:\n"
    program += "    partial.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", program, str(target)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL


def test_what_a_killed_process_was_writing_is_removed_by_the_next(tmp_path):
    killed_while_writing(tmp_path / "out" / "page.ipynb")
    assert len(list((tmp_path / "out").glob(".partial-*"))) == 1
    with store.replacing(tmp_path / "out" / "other") as partial:
        partial.write_text("whole")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["other"]


def test_what_a_living_process_is_writing_stays(tmp_path):
    with store.replacing(tmp_path / "one") as first:
        first.write_text("one")
        with store.replacing(tmp_path / "two") as second:
            second.write_text("two")
        files.tidy(tmp_path)
        assert first.read_text() == "one"
    assert (tmp_path / "one").read_text() == "one"


@pytest.mark.slow
def test_a_killed_run_leaves_neither_its_kernel_nor_a_connection_file(tmp_path):
    project = Project(tmp_path / "project")
    for place in (project.notebooks, project.book, project.executed):
        place.mkdir(parents=True)
    note = tmp_path / "kernel"
    code = f"import os, pathlib, signal\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
    write_notebook(project, "page", code + "os.kill(int(os.environ['BUILDER']), signal.SIGKILL)\nwhile True: pass")
    runtime = tmp_path / "runtime"
    program = "import os, sys; from pathlib import Path; from biaslib.book import Project, execution\n"
    program += "os.environ['BUILDER'] = str(os.getpid())\n"
    program += "place = Project(Path(sys.argv[1]))\n"
    program += "execution.run(place, 'page', place.page('page'))"
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(runtime)}
    done = subprocess.run([sys.executable, "-c", program, str(project.root)], cwd=ROOT, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert len(list(project.executed.glob(".partial-*/kernel.json"))) == 1
    files.tidy(project.executed)
    assert list(project.executed.iterdir()) == []
    assert list(runtime.glob("kernel*")) == []
    for _ in range(600):
        try:
            os.kill(int(note.read_text()), 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(int(note.read_text()), signal.SIGKILL)
    raise AssertionError("the kernel went on for a minute")


def test_a_process_that_starts_tidies_the_whole_store(monkeypatch, tmp_path):
    killed_while_writing(store.root() / "maps" / "0123")
    (store.root() / ".locks").mkdir(parents=True)
    (store.root() / ".locks" / "maps-0123").touch()
    entry()
    assert list(store.root().glob("**/.partial-*")) == []
    assert list((store.root() / ".locks").iterdir()) == []


def test_a_store_that_cannot_be_written_serves_what_it_has(monkeypatch):
    entry()

    def refuse(file):
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(files, "locked", refuse)
    assert store.get_or_compute("numbers", {"n": 1}, lambda: 1 / 0, code="none") == {"value": 7}
    with pytest.raises(BiaslibError, match="cannot write the store"):
        store.get_or_compute("numbers", {"n": 2}, lambda: {"value": 8}, code="none")


FULL = """
import resource, sys
import numpy as np, pandas as pd, torch
from biaslib import figures, store
from biaslib.training import loop
kinds = {
    "array": np.zeros(10**5), "arrays": {"a": np.zeros(10**5)}, "table": pd.DataFrame({"x": np.random.rand(10**5)}),
    "tensors": {"a": torch.zeros(10**5)}, "values": list(range(10**5)),
}
resource.setrlimit(resource.RLIMIT_FSIZE, (10**4, 10**4))
for name, value in kinds.items():
    try:
        store.get_or_compute("full", {"name": name}, lambda: value, code="none")
    except store.results.BiaslibError as error:
        print(name, error)
try:
    loop.save_checkpoint({"a": torch.zeros(10**5)}, store.root() / "checkpoints" / "one.pt")
except store.results.BiaslibError as error:
    print("checkpoint", error)
print(sorted(str(path) for path in store.root().rglob("*") if path.is_file()))
"""


@pytest.mark.slow
def test_a_disk_without_room_is_one_sentence_for_every_kind_of_result():
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    *sentences, left = done.stdout.splitlines()
    assert [line.split()[0] for line in sentences] == ["array", "arrays", "table", "tensors", "values", "checkpoint"]
    assert all("cannot write" in line and ("too large" in line or "no room" in line) for line in sentences)
    assert left == "[]"


@pytest.mark.parametrize("kind", ["../x", "/abs", "", "a/b", ".hidden"])
def test_a_kind_cannot_leave_the_store(kind):
    with pytest.raises(BiaslibError, match="no kind of result"):
        store.get_or_compute(kind, {}, lambda: {}, code="none")


@pytest.mark.parametrize("odd", ["file", "link", "dangling link"])
def test_something_else_in_an_entrys_place_is_computed_again(odd, tmp_path):
    folder = entry()
    folder.rename(tmp_path / "elsewhere")
    if odd == "file":
        folder.write_text("no entry")
    else:
        folder.symlink_to(tmp_path / ("elsewhere" if odd == "link" else "nowhere"))
    with pytest.warns(store.DamagedEntryWarning):
        entry()
    assert folder.is_dir()
    assert not folder.is_symlink()
    assert store.verify() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"created": 3},
        {"seconds": "long"},
        {"config": None},
        {"file": ""},
        {"file": "."},
        {"file": "x" * 300},
        {"file": []},
    ],
)
def test_a_record_of_other_types_stops_neither_the_list_nor_the_check(changed):
    record = entry() / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | changed))
    store.entries()
    store.verify()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry()


def test_decoded_files_and_checkpoints_are_listed_checked_and_removed():
    for folder in ("decoded", "checkpoints"):
        with store.sealed(store.root() / folder / "one.npy") as partial:
            partial.write_bytes(b"content")
    assert {(one.kind, one.key) for one in store.entries()} == {("decoded", "one.npy"), ("checkpoints", "one.npy")}
    assert store.verify() == []
    damaged = store.root() / "decoded" / "one.npy"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert store.verify() == ["decoded/one.npy is damaged"]
    assert store.remove("decoded") == 1
    assert not damaged.exists()


def test_a_killed_worker_is_one_sentence(monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")
    with pytest.raises(BiaslibError, match="a worker process ended before the work was done"), parallel.workers() as (
        executor, _,
    ):  # fmt: skip
        executor.submit(os._exit, 1).result()


@pytest.mark.parametrize(
    "text",
    ["{", "a: b: c", "\tone: {}", "--- {}\n--- {}", "one: {n: 2024-13-45}", "one: {1: 2}", "[" * 1000,
     "one: {n: 1, n: 2}", "one: {n: 1}\none: {n: 2}", "one: !!python/object/apply:os.system ['true']", "one: 3",
     "\x07"],
)  # fmt: skip
def test_a_preset_that_is_no_preset_is_one_sentence(tmp_path, text):
    project = Project(tmp_path)
    project.presets.mkdir(parents=True)
    (project.presets / "tried.yml").write_text(text)
    with pytest.raises(BiaslibError, match=r"the preset tried\.yml"):
        parameters.of_preset(project, "tried", "one")


@pytest.mark.parametrize(
    "changed", [{"data": None}, {"data": []}, {"date": 3}, {"seconds": "x"}, {"values": 3}, {"device": None, "data": 1}]
)
def test_a_record_without_its_parts_is_one_sentence(tmp_path, monkeypatch, changed):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_config.yml").touch()
    source = min((ROOT / "book" / "recorded").glob("*.json"), key=lambda file: file.stat().st_size)
    target = tmp_path / "book" / "recorded" / "one-real.json"
    target.parent.mkdir(parents=True)
    record = json.loads(source.read_text()) | changed
    target.write_text(json.dumps({key: value for key, value in record.items() if value is not None}))
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(BiaslibError):
        recorded.described(recorded.get("one", "real"))


def test_an_archive_that_grows_a_thousandfold_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("zeros", bytes(50_000_000))
    with pytest.raises(BiaslibError, match="more than 100 times its own size"):
        registry._unpack(tmp_path / "bomb.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [(9000, 9000), (1, 100_000)])
def test_a_picture_that_would_fill_the_memory_is_one_that_cannot_be_read(tmp_path, size):
    Image.fromarray(np.zeros(size[::-1], np.uint8)).save(tmp_path / "large.png")
    with pytest.raises(UNREADABLE):
        Preprocessing(size=224).picture(tmp_path / "large.png")
    if min(size) > 1:
        with pytest.raises(UNREADABLE, match="more than 50 million"):
            open_picture(tmp_path / "large.png")


HOSTILE = "</script><script>window.PWN=1</script><img src=x onerror=alert(1)>`\"'$\\frac{"


def test_the_pieces_of_a_page_show_hostile_labels_as_text():
    figure, axes = theme.new()
    axes.set_title(HOSTILE)
    axes.text(0.5, 0.5, HOSTILE)
    table = pd.DataFrame({HOSTILE: [HOSTILE, "b"], "n": [1.0, 2.0]})
    pictures = np.zeros((2, 1, 8, 8, 3), np.uint8)
    for piece in (
        figures.show(figure, alt=HOSTILE, caption="c"),
        figures.table(table, caption="c", name="t"),
        figures.dial(pictures, settings=[HOSTILE, "b"], setting_name=HOSTILE, alt=HOSTILE),
    ):
        assert "<script>window" not in piece.html
        assert "<img src=x" not in piece.html


@pytest.mark.parametrize("value", ["a` <script>window.PWN=1</script> `", "```{raw} html <b>", "``"])
def test_a_hostile_parameter_is_code_in_the_note_of_its_page(value):
    shown = MarkdownIt().render(execution._code(f"world = {value!r}"))
    assert html.unescape(re.fullmatch(r"<p><code>(.*)</code></p>\n", shown)[1]).strip() == f"world = {value!r}"
