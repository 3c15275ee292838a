"""The notebooks of a small course: what is in each version, and what stops them."""

import re

import nbformat
import pytest

from biaslib.book import execution, lab
from biaslib.book.course import checks
from tests.book.conftest import HEADER

LAB = """# A lab

*40 minutes. Needs: nothing. `biaslib run lab_1` takes about ten seconds.*

Look at [Waterbirds](waterbirds.md).

```{code-cell} ipython3
:tags: [parameters]

n: int = 3
```

```{code-cell} ipython3
from biaslib.book.course.checks import check
```

```{exercise-start} A flat map
:label: lab-2-flat
```

*8 minutes. Predict first: what is it?*

```{code-cell} ipython3
:tags: [answer]

def times_flat(heat, mask):
    ### BEGIN SOLUTION
    inside = heat[mask].sum() / heat.sum()
    return inside / mask.mean()
    ### END SOLUTION
```

```{code-cell} ipython3
:tags: [check]

check("lab-2-flat", times_flat)
```

```{exercise-end}
```

```{code-cell} ipython3
:tags: [wrong, per_cell]

# divides by the cells
def times_flat(heat, mask):
    return heat[mask].sum() / heat.sum() / mask.sum()
```

:::{instructor}
Ask for a *flat* map.
:::

Well done, {glue:text}`nobody`.
"""


@pytest.fixture
def course(project):
    """The small project with one lab."""
    (project.notebooks / "lab_1.md").write_text(HEADER + LAB)
    (project.book / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - file: _executed/lab_1\n")
    return project


def test_the_students_notebook_is_open_and_plain(course, command):
    done = command("course", "student", "--out", "out")
    assert (done.returncode, done.stdout) == (0, "out/lab_1.ipynb\n")
    notebook = nbformat.read(course.root / "out" / "lab_1.ipynb", as_version=4)
    nbformat.validate(notebook)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert re.search(r"#### Exercise: A flat map\n+\*8 minutes\.", text)
    assert 'raise NotImplementedError("lab-2-flat: write your answer here")' in text
    assert 'check("lab-2-flat", times_flat)' in text
    assert "Look at Waterbirds." in text
    installs = 'This notebook needs biaslib: `pip install ".[book]"` in the folder of biaslib installs it.'
    assert f"*40 minutes. Needs: nothing. {installs}*" in text
    for hidden in ("biaslib run", "inside", "divides by the cells", "Ask for", "{exercise", "{glue", "SOLUTION"):
        assert hidden not in text


@pytest.fixture
def ran_before(course, monkeypatch):
    """Where a kernel would run the lab again, its page as it was run."""

    def run(project, notebook, out):
        code = nbformat.v4.new_output("stream", name="stdout", text="lab-2-flat: right. So it is.\n")
        page = lab.for_readers(execution.read(project, notebook))
        for _, cell in lab.tagged(page, "check"):
            cell.outputs = [code]
        nbformat.write(page, out)

    monkeypatch.setattr(execution, "run", run)


def written(course, command, version):
    """The notebook of a version, the outputs of its check, and all of its text."""
    done = command("course", version, "--out", "out")
    assert (done.returncode, done.stdout) == (0, f"out/lab_1_{version}.ipynb\n"), done.stderr
    notebook = nbformat.read(course.root / "out" / f"lab_1_{version}.ipynb", as_version=4)
    nbformat.validate(notebook)
    ((_, check),) = lab.tagged(notebook, "check")
    assert check.outputs[0].text.startswith("lab-2-flat: right. ")
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "return inside / mask.mean()" in text
    assert "NotImplementedError" not in text
    assert list(course.root.glob(".partial-*")) == []
    return text


def test_the_solution_has_been_run(course, command):
    text = written(course, command, "solution")
    for hidden in ("SOLUTION", "divides by the cells", "Ask for", "{solution}", "{exercise"):
        assert hidden not in text


def test_the_teachers_notebook_has_notes_and_wrong_answers_with_what_they_hear(course, command, ran_before):
    text = written(course, command, "instructor")
    assert "### BEGIN SOLUTION" in text
    assert "> **For the teacher**\n>\n> Ask for a *flat* map." in text
    assert "```python\n# divides by the cells" in text
    assert f"> {checks.TEXTS['lab-2-flat']['per_cell']}" in text


def test_the_page_of_a_lab_and_what_its_arrow_gives(course, tmp_path):
    execution.run(course, "lab_1", course.page("lab_1"))
    page = nbformat.read(course.page("lab_1"), as_version=4)
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert len(code) == 4
    assert "NotImplementedError" in code[2].source
    assert code[3].outputs[0].text.startswith("lab-2-flat: right. ")
    folded = "```{exercise-end}\n```\n\n````{solution} lab-2-flat\n:class: dropdown\n\n```python\ndef times_flat"
    assert [cell.source.startswith(folded) for cell in page.cells if "{solution}" in cell.source] == [True]
    (given := tmp_path / "given").mkdir()
    (given / "lab_1.ipynb").touch()
    lab.write_downloads(course, given)
    assert "inside" not in (given / "lab_1.ipynb").read_text()
    assert "NotImplementedError" in (given / "lab_1.ipynb").read_text()


def test_a_wrong_answer_in_the_place_of_the_right_one_stops_the_lab_and_leaves_no_file(course, command):
    file = course.notebooks / "lab_1.md"
    file.write_text(file.read_text().replace("inside / mask.mean()", "inside"))
    done = command("course", "solution", "--out", "out")
    assert done.returncode == 1
    assert "NotYet: You gave the share of the attention inside the region" in done.stderr
    assert not (course.root / "out").exists()


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("teacher", "the version of the course must be one of student, solution, instructor, not 'teacher'."),
        ("student", "lab_1.ipynb is there already, perhaps with somebody's work in it: name another folder."),
    ],
)
def test_what_cannot_be_written_is_one_sentence_and_nothing_is(course, command, version, sentence):
    (folder := course.root / "out").mkdir()
    (folder / "lab_1.ipynb").write_text("mine")
    done = command("course", version, "--out", "out")
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(sentence)
    assert len(done.stderr.splitlines()) == 1
    assert [file.read_text() for file in folder.iterdir()] == ["mine"]


def test_a_book_without_labs_has_no_course(project, command):
    done = command("course", "student", "--out", "out")
    assert done.returncode == 2
    assert "this book has no labs" in done.stderr
    assert not (project.root / "out").exists()
