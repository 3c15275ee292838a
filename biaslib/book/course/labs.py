"""One text of a lab, and the notebooks that come of it: nothing is written twice, so that nothing can drift apart.

A lab is a notebook with exercises between `exercise-start` and `exercise-end`. The cell tagged `answer` holds the
solution between nbgrader's marks, from which the stub is made; the cell tagged `check` tries what was written. Cells
tagged `wrong`, and with the name of a misconception, are answers that have to fail with the sentence of that name; no
build runs them. A block `:::{instructor}` is for the teacher alone.
"""

import copy
import re
from collections.abc import Callable, Iterator

from nbformat import NotebookNode

_SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n(.*?)^ *### END SOLUTION$\n?", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^`{3,}\{exercise-start\}.*\n:label: *(\S+)", re.MULTILINE)
_END = re.compile(r"^(`{3,})\{exercise-end\}\n\1$\n?", re.MULTILINE)
_NOTE = re.compile(r"^:::\{instructor\}\n(.*?)^:::$\n?", re.MULTILINE | re.DOTALL)
_FOLDED = "\n````{{solution}} {label}\n:class: dropdown\n\n```python\n{code}\n```\n````\n"


def stub(answer: str, label: str) -> str:
    """The code of an answer as a reader finds it."""
    return _SOLUTION.sub(rf'\1raise NotImplementedError("{label}: write your answer here")\n', answer).rstrip()


def solved(answer: str, label: str) -> str:
    """The code of an answer without the marks around the solution."""
    return _SOLUTION.sub(r"\2", answer).rstrip()


def tagged(notebook: NotebookNode, tag: str) -> list[tuple[str, NotebookNode]]:
    """The cells with a tag, each with the label of its exercise."""
    return [(label, cell) for label, cell in _labelled(notebook) if tag in cell.metadata.get("tags", ())]


def version(source: NotebookNode, *, answer: Callable[[str, str], str] = lambda code, label: code) -> NotebookNode:
    """A copy without wrong answers and the teacher's notes; `answer` makes other code of an answer's and its label."""
    notebook = copy.deepcopy(source)
    notebook.cells = [cell for cell in notebook.cells if "wrong" not in cell.metadata.get("tags", ())]
    for label, cell in tagged(notebook, "answer"):
        cell.source = answer(cell.source, label)
    for cell in notebook.cells:
        cell.source = _NOTE.sub("", cell.source)
    return notebook


def as_page(executed: NotebookNode) -> None:
    """Makes a page of an executed notebook: each answer becomes its stub, and is folded away below its exercise."""
    answers = {label: cell.source for label, cell in tagged(executed, "answer")}
    for label, cell in _labelled(executed):
        if "answer" in cell.metadata.get("tags", ()):
            cell.source, cell.outputs = stub(cell.source, label), []
        elif label in answers and (end := _END.search(cell.source)):
            folded = _FOLDED.format(label=label, code=solved(answers[label], label))
            cell.source = cell.source[: end.end()].rstrip() + "\n" + folded + cell.source[end.end() :]


def _labelled(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Each cell with the label of the exercise that began last before it."""
    label = ""
    for cell in notebook.cells:
        yield label, cell
        if cell.cell_type == "markdown" and (starts := _START.findall(cell.source)):
            label = starts[-1]
