"""The labs as notebooks that open anywhere: with stubs, with answers, or with what a teacher needs beside them."""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from biaslib import store
from biaslib.book import Project, execution, lab
from biaslib.book.course import checks, labs
from biaslib.errors import BiaslibError, check_known

_WRONG = "A wrong answer:\n\n```python\n{code}\n```\n\n> {sentence}"


def write(project: Project, version: str, out: Path) -> list[Path]:
    """Writes all labs into a folder in one version, `student`, `solution` or `instructor`, and gives the files.

    Labs with answers are run first, and say so in their names. A `BiaslibError` is raised, and nothing is written, for
    another version, a book without labs, and a file that is there already; else as by `execution.run`.
    """
    check_known("the version of the course", version, ("student", "solution", "instructor"))
    ending = "" if version == "student" else f"_{version}"
    files = {name: out / f"{name}{ending}.ipynb" for name in project.names() if name.startswith("lab_")}
    if not files:
        raise BiaslibError("this book has no labs: they are the notebooks whose names begin with lab_.")
    if there := [file for file in files.values() if file.exists()]:
        raise BiaslibError(f"{there[0]} is there already, perhaps with somebody's work in it: name another folder.")
    notebooks = {file: _handout(project, name, version) for name, file in files.items()}
    for file, notebook in notebooks.items():
        with store.replacing(file) as partial:
            nbformat.write(notebook, partial)
    return list(files.values())


def _handout(project: Project, name: str, version: str) -> NotebookNode:
    if version == "student":
        return lab.copy_of(project, name)
    source = execution.read(project, name)
    with store.scratch(project.root) as folder:
        execution.run(project, name, folder / "page.ipynb")
        page = nbformat.read(folder / "page.ipynb", as_version=4)
    notebook = labs.version(source, answer=labs.solved) if version == "solution" else _for_teacher(source)
    code = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, page))
    for cell, run in zip(*code, strict=True):
        cell.outputs, cell.execution_count = run.outputs, run.execution_count
    return lab.flattened(project, notebook, page)


def _for_teacher(source: NotebookNode) -> NotebookNode:
    """With nbgrader's marks around the answers, notes, and wrong answers with the sentences that they hear."""
    for label, cell in labs.tagged(source, "wrong"):
        sentence = re.sub(r"\{[^}]*\}", "…", checks.TEXTS[label][cell.metadata.tags[1]])  # its numbers come of a run
        text = nbformat.v4.new_markdown_cell(_WRONG.format(code=cell.source, sentence=sentence))
        cell.clear()
        cell.update(text)
    for cell in source.cells:
        cell.source = cell.source.replace(":::{instructor}", ":::{note} For the teacher")
    return labs.version(source)
