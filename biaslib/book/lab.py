"""Copies of the notebooks that any program shows as a person reads them; `make lab` opens them in JupyterLab.

The book's pages say in directives and roles what plain Markdown has no words for. In a copy an exercise is a heading,
its solution folds, a citation is the authors' names, a link to another page is its words, and a number in the text is
that of the page as last built. A page's arrow gives such a copy, too, and the course hands such copies out.

A lab is a notebook with exercises between `exercise-start` and `exercise-end`, and one text, so that nothing can drift
apart. The cell tagged `answer` holds the solution between nbgrader's marks, from which the stub is made; the cell
tagged `check` tries what was written. Cells tagged `wrong`, and with the name of a misconception, are answers that have
to fail with the sentence of that name; no build runs them. A block `:::{instructor}` is for the teacher alone.
"""

import copy
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from pybtex.database import BibliographyData, parse_file

from biaslib import store
from biaslib.book import Project, execution
from biaslib.book.course import checks
from biaslib.errors import BiaslibError, check_known

# an answer of a quiz and its reason; the question of a prediction and its answer
_REASON = re.compile(r"^- \[[ x]\] (.+?) \*(.+)\*$", re.MULTILINE)
_PREDICTION = re.compile(r"(^:class: predict\n(?::.*\n)*\n.+\n\n)(.+)\n(?=:{3,}$)", re.MULTILINE)
_BLOCK = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?P<kind>[\w-]+)\} *(?P<title>.*)\n(?P<options>(?::[\w-]+:.*\n)*)(?P<body>(?s:.*?))"
    r"(?:^(?P=fence)|^:{3,}) *$\n?",
    re.MULTILINE,
)
_PAGE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:book/)?[\w-]+\.(?:md|ipynb)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"`biaslib run lab_\d` takes [^.]+\.")  # in the head of a lab; it makes the solved page
_INSTALL = 'This notebook needs biaslib: `pip install ".[book]"` in the folder of biaslib installs it.'
_SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n(.*?)^ *### END SOLUTION$\n?", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^`{3,}\{exercise-start\}.*\n:label: *(\S+)", re.MULTILINE)
_END = re.compile(r"^(`{3,})\{exercise-end\}\n\1$\n?", re.MULTILINE)
_NOTE = re.compile(r"^:::\{instructor\}\n(.*?)^:::$\n?", re.MULTILINE | re.DOTALL)
_FOLDED = "\n````{{solution}} {label}\n:class: dropdown\n\n```python\n{code}\n```\n````\n"
_WRONG = "A wrong answer:\n\n```python\n{code}\n```\n\n> {sentence}"


def copy_of(project: Project, notebook: str) -> nbformat.NotebookNode:
    """A notebook as a reader may change and run it: not run yet, and with stubs where a lab has answers."""
    page, source = project.page(notebook), for_readers(execution.read(project, notebook), answer=stub)
    built = execution.about(page) is not None
    return flattened(project, source, nbformat.read(page, as_version=4) if built else source)


@functools.cache  # it takes a twentieth of a second, and there are some forty notebooks
def _literature(file: Path) -> BibliographyData:
    return parse_file(str(file)) if file.exists() else BibliographyData()


def flattened(project: Project, notebook: nbformat.NotebookNode, page: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook, its text made plain Markdown with the numbers of a page that was run; what pages hide is folded."""
    numbers, literature = _numbers(page), _literature(project.book / "references.bib")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _plain(cell.source, numbers, literature)
        else:
            tags = set(cell.metadata.get("tags", ()))
            cell.metadata["jupyter"] = {"source_hidden": bool(tags & {"hide-input", "remove-cell", "remove-input"})}
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]  # an exercise may have ended here
    notebook.metadata.pop("jupytext", None)
    return notebook


def write_downloads(project: Project, folder: Path) -> None:
    """Puts copies in the place of the notebooks that the pages' arrows give: with outputs, or of a lab with stubs."""
    for file in folder.glob("*.ipynb"):
        page = nbformat.read(project.page(file.stem), as_version=4)
        plain = copy_of(project, file.stem) if tagged(page, "answer") else flattened(project, page, page)
        nbformat.write(plain, file)


def hand_out(project: Project, version: str, out: Path) -> list[Path]:
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


def _handout(project: Project, name: str, version: str) -> nbformat.NotebookNode:
    if version == "student":
        return copy_of(project, name)
    source = execution.read(project, name)
    with store.scratch(project.root) as folder:
        execution.run(project, name, folder / "page.ipynb")
        page = nbformat.read(folder / "page.ipynb", as_version=4)
    notebook = for_readers(source, answer=solved) if version == "solution" else _for_teacher(source)
    code = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, page))
    for cell, run in zip(*code, strict=True):
        cell.outputs, cell.execution_count = run.outputs, run.execution_count
    return flattened(project, notebook, page)


def _for_teacher(source: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """With nbgrader's marks around the answers, notes, and wrong answers with the sentences that they hear."""
    for label, cell in tagged(source, "wrong"):
        sentence = re.sub(r"\{[^}]*\}", "…", checks.TEXTS[label][cell.metadata.tags[1]])  # its numbers come of a run
        text = nbformat.v4.new_markdown_cell(_WRONG.format(code=cell.source, sentence=sentence))
        cell.clear()
        cell.update(text)
    for cell in source.cells:
        cell.source = cell.source.replace(":::{instructor}", ":::{note} For the teacher")
    return for_readers(source)


def _plain(text: str, numbers: dict[str, str], literature: BibliographyData) -> str:
    text = _REASON.sub(r"<details><summary>\1</summary>\2</details>", _COMMAND.sub(_INSTALL, text))
    text = _PREDICTION.sub(r"\1<details><summary>Answer</summary>\n\n\2\n\n</details>\n", text)
    while _BLOCK.search(text):  # a block may hold another
        text = _BLOCK.sub(_block, text)
    text = re.sub(r"\{glue:text\}`([^`]+)`", lambda match: numbers.get(match[1], "…"), text)
    text = re.sub(r"\{cite(:t)?\}`([^`]+)`", lambda match: _cited(match[2], bool(match[1]), literature), text)
    text = re.sub(r"\{figure\}`([^`]+)`", r"[the figure](#\1)", text)
    text = _PAGE_LINK.sub(r"\1", text)
    text = re.sub(r"\{(?:ref|term|doc)\}`([^`<]+?) *(?:<[^`]*>)?`", r"\1", text)
    return re.sub(r"^\([\w-]+\)=\n", "", text, flags=re.MULTILINE)


def _block(match: re.Match[str]) -> str:
    title, body = match["title"].strip(), match["body"].strip()
    match match["kind"]:
        case "exercise" | "exercise-start":
            return f"#### Exercise{f': {title}' if title else ''}\n\n{body}".rstrip() + "\n\n"
        case "exercise-end":
            return ""
        case "solution":
            return f"<details><summary>Solution</summary>\n\n{body}\n\n</details>\n"
        case _:
            lines = [*([f"**{title}**", ""] if title else []), *body.splitlines()]
            return "\n".join(f"> {line}".rstrip() for line in lines) + "\n"


def _cited(keys: str, in_the_sentence: bool, literature: BibliographyData) -> str:
    """The authors and the year of each: "(Sagawa et al., 2020)", or in a sentence "Sagawa et al. (2020)"."""
    works = []
    for key in keys.split(","):
        entry = literature.entries[key.strip()]
        names = [re.sub("[{}]", "", " ".join(person.last_names)) for person in entry.persons["author"]]
        who = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
        works.append(f"{who} ({entry.fields['year']})" if in_the_sentence else f"{who}, {entry.fields['year']}")
    return ", ".join(works) if in_the_sentence else f"({'; '.join(works)})"


def _numbers(page: nbformat.NotebookNode) -> dict[str, str]:
    """The numbers in the text of a page that was run."""
    numbers: dict[str, str] = {}
    for output in execution.outputs(page):
        mark = output.get("metadata", {}).get("scrapbook")
        if mark and (text := output["data"].get(f"{mark['mime_prefix']}text/plain")):
            numbers[mark["name"]] = text.strip("'\"")
    return numbers


def stub(answer: str, label: str) -> str:
    """The code of an answer as a reader finds it."""
    return _SOLUTION.sub(rf'\1raise NotImplementedError("{label}: write your answer here")\n', answer).rstrip()


def solved(answer: str, label: str) -> str:
    """The code of an answer without the marks around the solution."""
    return _SOLUTION.sub(r"\2", answer).rstrip()


def tagged(notebook: NotebookNode, tag: str) -> list[tuple[str, NotebookNode]]:
    """The cells with a tag, each with the label of its exercise."""
    return [(label, cell) for label, cell in _labelled(notebook) if tag in cell.metadata.get("tags", ())]


def for_readers(source: NotebookNode, *, answer: Callable[[str, str], str] = lambda code, label: code) -> NotebookNode:
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
