import re

import pytest

from tests import notebook_style

TITLE = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A page

"""
CELL = "```{{code-cell}} ipython3\n:tags: [remove-cell]\n\n{code}\n```\n"


def test_notebooks_are_held_to_the_style_of_the_package():
    assert notebook_style.check(notebook_style.ROOT / "notebooks") == ""


@pytest.mark.parametrize("file", sorted((notebook_style.ROOT / "notebooks").glob("*.md")), ids=lambda file: file.stem)
def test_no_figure_has_the_name_of_a_heading(file):
    text = file.read_text(encoding="utf-8")
    headings = {re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") for words in re.findall(r"(?m)^#+ (.*)$", text)}
    assert headings.isdisjoint(re.findall(r'\bname="([a-z0-9-]+)"', text))  # a link to one would open the other


def test_a_line_that_is_too_long_is_found(tmp_path):
    (tmp_path / "long.md").write_text(TITLE + CELL.format(code=f'words = "{"x" * 120}"'), encoding="utf-8")
    assert "E501" in notebook_style.check(tmp_path)


def test_cells_are_mended_and_nothing_else(tmp_path):
    file = tmp_path / "page.md"
    prose = "\nIts prose has 'quotes' too: x=1.\n\n"
    file.write_text(TITLE + CELL.format(code="x='a'") + prose + CELL.format(code="y=x"), encoding="utf-8")
    assert notebook_style.check(tmp_path)
    notebook_style.fix(tmp_path)
    expected = TITLE + CELL.format(code='x = "a"') + prose + CELL.format(code="y = x")
    assert file.read_text(encoding="utf-8") == expected
    assert notebook_style.check(tmp_path) == ""
