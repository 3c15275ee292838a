"""A small project to build, and the real book built at the smoke scale."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock

import biaslib.cli
from biaslib.book import Project

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


@dataclass(frozen=True)
class SmokeBook:
    """The real book, built in a folder of its own with the smallest parameters and no data."""

    project: Project
    build: subprocess.CompletedProcess = field(repr=False)


def copy_of_the_book(root: Path) -> tuple[Project, dict[str, str]]:
    """A copy of what the book is made from, and an environment with an empty store and no data."""
    unwanted = shutil.ignore_patterns("_executed", "_generated", "__pycache__", ".ipynb_checkpoints")
    for name in ("book", "notebooks", "data/datasheets"):
        shutil.copytree(ROOT / name, root / name, ignore=unwanted)
    shutil.copy(ROOT / "_config.yml", root)
    environment = {name: value for name, value in os.environ.items() if name != "BIASLIB_DATA"}
    return Project(root), environment | {"BIASLIB_STORE": str(root / "store")}


@pytest.fixture(scope="session")
def smoke_book(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> SmokeBook:
    """What `biaslib build --preset smoke` makes of a copy of this checkout; all processes of a test run share it."""
    own = tmp_path_factory.getbasetemp()
    root = (own if worker_id == "master" else own.parent) / "smoke-book"
    result = root / "build.json"
    with FileLock(root.with_suffix(".lock")):
        if not result.exists():
            root.mkdir()
            project, environment = copy_of_the_book(root)
            built = cli(project, "build", "--preset", "smoke", env=environment, timeout=2400)
            result.write_text(json.dumps([built.args, built.returncode, built.stdout, built.stderr]))
    return SmokeBook(Project(root), subprocess.CompletedProcess(*json.loads(result.read_text())))
