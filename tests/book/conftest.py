"""A small project to build, and the real book built at the smoke scale."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from filelock import FileLock

import biaslib.cli
from biaslib.book import Project, execution, lab

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

"""
CONFIG = """
title: A small book
only_build_toc_files: true
execute:
  execute_notebooks: "off"
"""


def cli(project: Project, *arguments: str, timeout: float = 900, **options) -> subprocess.CompletedProcess:
    """Runs `biaslib` in the project, as a reader would."""
    command = [sys.executable, "-c", "from biaslib.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, timeout=timeout, **options)


def write_notebook(project: Project, name: str, *cells: str, parameters: str = "n = 3") -> Path:
    """A text notebook of code cells below a title."""
    blocks = [f"```{{code-cell}} ipython3\n:tags: [parameters]\n\n{parameters}\n```"]
    blocks += [f"```{{code-cell}} ipython3\n{cell}\n```" for cell in cells]
    file = project.notebooks / f"{name}.md"
    file.write_text(HEADER + f"# The page {name}\n\nA first paragraph.\n\n" + "\n\n".join(blocks) + "\n")
    write_contents(project)
    return file


def write_contents(project: Project) -> None:
    """The table of contents: the front page and every notebook."""
    pages = "".join(f"  - file: _executed/{file.stem}\n" for file in sorted(project.notebooks.glob("*.md")))
    chapters = f"chapters:\n{pages}" if pages else ""
    (project.book / "_toc.yml").write_text(f"format: jb-book\nroot: index\n{chapters}")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty book with its settings and a front page."""
    project = Project(tmp_path)
    project.presets.mkdir(parents=True)
    project.book.mkdir()
    (tmp_path / "_config.yml").write_text(CONFIG)
    (project.book / "index.md").write_text("# A small book\n\nHello.\n")
    write_contents(project)
    return project


@pytest.fixture
def command(project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    """As `cli` in the project, without the seconds that a process of its own takes to import all that it needs."""

    def run(*arguments: str) -> subprocess.CompletedProcess:
        monkeypatch.chdir(project.root)
        monkeypatch.setattr(sys, "argv", ["biaslib", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            biaslib.cli.main()
        return subprocess.CompletedProcess(arguments, stopped.value.code or 0, *capsys.readouterr())

    return run


ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(file.stem for file in (ROOT / "notebooks").glob("*.md"))
# of each part one or two, all that have no record, and those whose numbers the narrative pages quote
ONE_OF_A_KIND = (
    "what_is_bias", "attention_iou", "waterbirds", "faces", "amplification", "mass_and_rank", "perception",
    "dial", "leaderboard", "audit", "lab_1",
)  # fmt: skip


def slow_but_for(chosen, names) -> list:
    """Names to test: of those that are not chosen only `make check-slow` tests what they have run."""
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in names]


RUN = slow_but_for(ONE_OF_A_KIND, NOTEBOOKS)
# of a test about all pages together; `smoke_book` has run at least those that it is asked about
OF_THE_BOOK = pytest.mark.parametrize(
    "pages", [ONE_OF_A_KIND, pytest.param(NOTEBOOKS, marks=pytest.mark.slow)], ids=["one of a kind", "all"]
)


@dataclass(frozen=True)
class SmokeBook:
    """The real book, built in a folder of its own with the smallest parameters and no data.

    Run are the pages `ONE_OF_A_KIND`, and those that the chosen tests which are slow by nature ask for; of the others
    it has the text, which Sphinx reads with the rest.
    """

    project: Project
    build: subprocess.CompletedProcess = field(repr=False)
    pages: list[str]


def pages_for(items: list[pytest.Item]) -> list[str]:
    """The pages that the smoke book runs for these tests."""
    asked = {*ONE_OF_A_KIND}
    for item in items:
        if "smoke_book" in item.fixturenames and item.get_closest_marker("slow"):
            given = item.callspec.params
            asked |= {*given.get("pages", ())} | {given.get("name", given.get("page", "")).removeprefix("_executed/")}
    return sorted(asked & {*NOTEBOOKS})


def write_text(project: Project, name: str) -> None:
    """For a page that is not run its text, with 1 for each number, and empty files for its pictures elsewhere."""
    page = lab.for_readers(execution.read(project, name))
    lab.as_page(page)
    page.cells = [cell for cell in page.cells if cell.cell_type == "markdown"]
    for cell in page.cells:
        cell.source = re.sub(r"\{(?:glue:text|figure)\}`[^`]*`", "1", cell.source)
    execution._relink(page, project)
    page.metadata["biaslib"] = {"key": "its text"}
    project.executed.mkdir(parents=True, exist_ok=True)
    nbformat.write(page, project.page(name))
    pictures = project.generated / "gallery" / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    for narrative in project.book.glob("*.md"):
        for picture in re.findall(rf"gallery/({name}-[\w-]+\.svg)", narrative.read_text()):
            (pictures / picture).write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 4"/>')


def copy_of_the_book(root: Path) -> tuple[Project, dict[str, str]]:
    """A copy of what the book is made from, and an environment with an empty store and no data."""
    unwanted = shutil.ignore_patterns("_executed", "_generated", "__pycache__", ".ipynb_checkpoints")
    own = ("submissions", "transformers", "repairs")
    for name in ("book", "notebooks", "data/datasheets", *(f"data/{folder}" for folder in own)):
        shutil.copytree(ROOT / name, root / name, ignore=unwanted)
    shutil.copy(ROOT / "_config.yml", root)
    environment = {name: value for name, value in os.environ.items() if name != "BIASLIB_DATA"}
    return Project(root), environment | {"BIASLIB_STORE": str(root / "store")}


@pytest.fixture(scope="session")
def smoke_book(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> SmokeBook:
    """What `biaslib build --preset smoke` makes of a copy of this checkout; all processes of a test run share it."""
    pages = pages_for(request.session.items)
    own = tmp_path_factory.getbasetemp()
    root = (own if worker_id == "master" else own.parent) / "smoke-book"
    result = root / "build.json"
    with FileLock(root.with_suffix(".lock")):
        if not result.exists():
            root.mkdir()
            project, environment = copy_of_the_book(root)
            for name in {*NOTEBOOKS} - {*pages}:
                write_text(project, name)
            only = [word for name in pages for word in ("--only", name)]
            built = cli(project, "build", "--preset", "smoke", *only, env=environment, timeout=2400)
            result.write_text(json.dumps([built.args, built.returncode, built.stdout, built.stderr]))
    built = subprocess.CompletedProcess(*json.loads(result.read_text()))
    return SmokeBook(Project(root), built, pages)
