import re

import nbformat
import pytest

from biaslib.book import Project, execution, lab
from tests.book.conftest import NOTEBOOKS, ROOT, write_notebook
from tools import lab_copies

LIVE = [name for name in NOTEBOOKS if "page.live_dial(" in (ROOT / "notebooks" / f"{name}.md").read_text()]
BIBLIOGRAPHY = """
@book{one, author = {Ada Alpha}, title = {A}, year = 2001, publisher = {P}}
@book{two, author = {Ada Alpha and Bob {Beta}}, title = {B}, year = 2002, publisher = {P}}
@book{three, author = {Ada Alpha and Bob Beta and Cy Gamma}, title = {C}, year = 2003, publisher = {P}}
"""
EXERCISE = """
::::{exercise}
:label: ex-one

How many?

```{margin}
A *note*.
```
::::

:::{solution} ex-one
:class: dropdown

Three.
:::
"""


@pytest.fixture
def literate(project):
    """The small project with a bibliography."""
    (project.book / "references.bib").write_text(BIBLIOGRAPHY)
    return project


def copied(project, text):
    file = write_notebook(project, "one")
    file.write_text(file.read_text().replace("A first paragraph.", text))
    return "\n".join(cell.source for cell in lab.copy_of(project, "one").cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_copy_holds_no_directive_and_no_role_and_all_of_the_code(name):
    copy = lab.copy_of(Project(ROOT), name)
    source = lab.for_readers(execution.read(Project(ROOT), name), answer=lab.stub)
    text = "\n".join(cell.source for cell in copy.cells if cell.cell_type == "markdown")
    assert re.findall(r"\]\([^)]*\.(?:md|ipynb)\b", text) == []
    assert re.findall(r"\{[\w:-]+\}`|^(?:```|:::)\{.*|^:\w+:.*|\)=$", text, re.MULTILINE) == []
    codes = [[cell.source for cell in book.cells if cell.cell_type == "code"] for book in (source, copy)]
    assert codes[0] == codes[1]


def test_what_a_page_hides_is_folded(literate):
    write_notebook(literate, "one", ":tags: [hide-input]\n\nprint(n)", "print(2 * n)")
    cells = [cell for cell in lab.copy_of(literate, "one").cells if cell.cell_type == "code"]
    assert [cell.metadata["jupyter"]["source_hidden"] for cell in cells] == [False, True, False]


def test_answers_of_quizzes_and_predictions_do_not_show_before_they_are_opened(literate):
    quiz = (
        ":::{exercise}\n:label: quiz-a\n:class: quiz\n\nWhich?\n\n- [ ] One. *No: 1 < 2.*\n- [x] Two. *Right.*\n:::\n"
    )
    asked = ":::{exercise}\n:label: predict-b\n:class: predict\n\nHow many?\n\nIn all `7`.\n:::\n"
    text = copied(literate, quiz + "\n" + asked)
    assert (
        "<details><summary>One.</summary>No: 1 < 2.</details>\n<details><summary>Two.</summary>Right.</details>" in text
    )
    assert "How many?\n\n<details><summary>Answer</summary>\n\nIn all `7`.\n\n</details>" in text
    assert "[x]" not in text


def test_exercises_notes_and_citations_are_plain_text(literate):
    text = copied(literate, EXERCISE + "\nSee {cite:t}`three`, {cite}`one,two` and {ref}`the end <sec-end>`.")
    assert "#### Exercise\n\nHow many?\n\n> A *note*." in text
    assert "<details><summary>Solution</summary>\n\nThree.\n\n</details>" in text
    assert "See Alpha et al. (2003), (Alpha, 2001; Alpha and Beta, 2002) and the end." in text


def test_a_link_to_another_page_is_its_words():
    words = (
        "[Birds](waterbirds.md), [how we talk](../book/talking.md#words), [here](#part), [there](https://a.org/b.md)"
    )
    plain = lab._plain(words, {}, lab.BibliographyData())
    assert plain == "Birds, how we talk, [here](#part), [there](https://a.org/b.md)"


def test_what_a_pages_arrow_gives_has_its_outputs_and_plain_text(literate, tmp_path):
    sentence = "Of {glue:text}`many` birds, see [two](two.md)."
    file = write_notebook(literate, "one", "from biaslib import figures\nfigures.glue_number('many', n)", "print(n)")
    file.write_text(file.read_text().replace("A first paragraph.", sentence))
    execution.run(literate, "one", literate.executed / "one.ipynb")
    (tmp_path / "one.ipynb").touch()
    lab.write_downloads(literate, tmp_path)
    given = nbformat.read(tmp_path / "one.ipynb", as_version=4)
    assert "Of 3 birds, see two." in given.cells[0].source
    assert given.cells[-1].outputs[0].text == "3\n"


def test_numbers_in_the_text_are_those_of_the_page_as_last_built(literate):
    sentence = "Of {glue:text}`many` birds {glue:text}`unknown`."
    assert "Of … birds …." in copied(literate, sentence)
    file = write_notebook(literate, "one", "from biaslib import figures\nfigures.glue_number('many', n)")
    file.write_text(file.read_text().replace("A first paragraph.", sentence))
    execution.run(literate, "one", literate.executed / "one.ipynb")
    assert "Of 3 birds …." in lab.copy_of(literate, "one").cells[0].source


def test_a_copy_that_a_reader_has_changed_stays(literate):
    write_notebook(literate, "mine", "print(n)")
    write_notebook(literate, "ours", "print(n)")
    folder = lab_copies.write(literate)
    changed = nbformat.read(folder / "mine.ipynb", as_version=4)
    changed.cells[-1].source = "print('changed')"
    nbformat.write(changed, folder / "mine.ipynb")
    for name in ("mine", "ours"):
        write_notebook(literate, name, "print(n + 1)")
    lab_copies.write(literate)
    assert "print('changed')" in (folder / "mine.ipynb").read_text()
    assert "print(n + 1)" in (folder / "ours.ipynb").read_text()


ALL_STOPS = """
def asked(show, **stops):
    for place in (0, -1):
        shown = show(**{name: list(values)[place] for name, values in stops.items()})
    return shown


"""


@pytest.mark.slow
@pytest.mark.parametrize("name", LIVE)
def test_a_live_dial_shows_its_first_and_its_last_stop(name, tmp_path, monkeypatch):
    def read(project, notebook):
        source = in_the_book(project, notebook)
        for cell in source.cells:
            if "page.live_dial(" in cell.source:
                cell.source = ALL_STOPS + cell.source.replace("page.live_dial(", "asked(")
        return source

    in_the_book = execution.read
    monkeypatch.setattr(execution, "read", read)
    executed = execution.run(Project(ROOT), name, tmp_path / "live.ipynb", preset="smoke")
    assert executed["seconds"] > 0
    cells = [cell for cell in nbformat.read(tmp_path / "live.ipynb", as_version=4).cells if "asked(" in cell.source]
    assert [output.output_type for output in cells[0].outputs][-1:] == ["execute_result"]
