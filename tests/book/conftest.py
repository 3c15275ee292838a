"""A small project to build, and the real book built at the smoke scale."""

import subprocess
import sys
from pathlib import Path

import pytest

from biaslib.project import Project

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


def cli(project: Project, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Runs `biaslib` in the project, as a reader would."""
    command = [sys.executable, "-c", "from biaslib.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, timeout=300, **options)


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
