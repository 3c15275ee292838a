"""Every notebook runs, from its first cell to its last, with the smallest parameters and no data."""

import json

import pytest

from tests.book.conftest import NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs_with_the_smoke_preset_and_without_a_warning(smoke_book, name):
    assert f"{name}: done" in smoke_book.build.stdout, smoke_book.build.stderr
    executed = json.loads((smoke_book.project.executed / f"{name}.ipynb").read_text())
    outputs = [output for cell in executed["cells"] for output in cell.get("outputs", ())]
    assert outputs
    printed = ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"]
    assert [text for text in printed if "Warning" in text or "Error" in text] == []  # a progress bar is fine
    about = executed["metadata"]["biaslib"]
    assert about["preset"] == "smoke"
    assert about["seconds"] > 0


def test_the_pages_are_made_without_a_warning(smoke_book):
    assert smoke_book.build.returncode == 0, smoke_book.build.stderr
    assert "not run yet" not in smoke_book.build.stdout
