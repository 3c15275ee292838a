"""Writes copies of the notebooks that a reader may change and run: `make lab`.

python -m tools.lab_copies
"""

import sys
from pathlib import Path
from typing import Any

import nbformat

from biaslib import store
from biaslib.book import Project, execution, find_project, lab
from biaslib.store import fingerprint


def write(project: Project) -> Path:
    """Writes a copy of every notebook into the folder `lab`; one that a reader has changed stays as it is."""
    folder = project.root / "lab"
    folder.mkdir(exist_ok=True)
    for name in project.names():
        file = folder / f"{name}.ipynb"
        about = execution.about(file)
        # a copy that is as it was written gives its place to a newer one
        if not file.exists() or (about and about["cells"] == _fingerprint(nbformat.read(file, as_version=4).cells)):
            copied = lab.copy_of(project, name)
            copied.metadata["biaslib"] = {"cells": _fingerprint(copied.cells)}
            with store.replacing(file) as partial:
                nbformat.write(copied, partial)
    return folder


def _fingerprint(cells: list[Any]) -> str:
    return fingerprint.of_value([cell.source for cell in cells])


if __name__ == "__main__":
    print(f"the notebooks are in {write(find_project())}", file=sys.stderr)
