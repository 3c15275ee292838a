"""Every notebook runs, from its first cell to its last, with the smallest parameters and no data."""

import ast
import inspect
import json
from pathlib import Path

import pytest

from biaslib import figures
from biaslib.book import Project, execution, parameters
from tests.book.conftest import NOTEBOOKS, OF_THE_BOOK, RUN

CHECKOUT = Project(Path(__file__).parents[2])
# recorded when 0 stood for each world's own numbers; the preset now writes them out
WRITTEN_OUT = {"training_images", "epochs"}
# parameters of recorded runs that are gone: nothing that a page still shows depended on them, or they had one value
JUDGES = {"judges", "judge_images", "judge_epochs"}
GONE = {
    "mitigation": {"common"},
    "perception": {"labels_from"},
    "sensitivity": {"retrain", "retrain_images", "test_images", *JUDGES},
    "counterfactual_truth": {"retrain", "retrain_images", *JUDGES},
    "real_sensitivity": {"weights", "batch"},
    "mass_and_rank": {"explained", "enlarged", "correct_only", "extension", "added_up", "evaluated_strength"},
    "perturbation": {"output", "repeats"},
    "audit": {"repeats"},
}
# what Jupyter shows only as the last thing of a cell
PIECES = {
    f"figures.{name}"
    for name, function in inspect.getmembers(figures, inspect.isfunction)
    if inspect.signature(function).return_annotation in (figures.HtmlFigure, "HtmlFigure")
}


@pytest.mark.parametrize("name", RUN)
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


@OF_THE_BOOK
def test_the_pages_are_made_without_a_warning(smoke_book, pages):
    assert {*pages} <= {*smoke_book.pages}
    assert smoke_book.build.returncode == 0, smoke_book.build.stderr
    assert "not run yet" not in smoke_book.build.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nothing_to_be_shown_is_dropped_amid_a_cell(name):
    assert "figures.table" in PIECES
    cells = [cell.source for cell in execution.read(CHECKOUT, name).cells if cell.cell_type == "code"]
    amid = [statement for source in cells for statement in ast.parse(source).body[:-1]]
    alone = [one.value for one in amid if isinstance(one, ast.Expr)]
    chosen = [part for one in alone for part in ((one.body, one.orelse) if isinstance(one, ast.IfExp) else (one,))]
    called = [ast.unparse(part.func) for part in chosen if isinstance(part, ast.Call)]
    assert [function for function in called if function in {*PIECES, "Markdown", "HTML"}] == []


@pytest.mark.parametrize("file", sorted(CHECKOUT.recorded.glob("*.json")), ids=lambda file: file.stem)
def test_a_preset_still_says_what_its_record_was_run_with(file):
    record = json.loads(file.read_text(encoding="utf-8"))
    name, preset = record["notebook"], record["preset"]
    defaults = parameters.declared(execution.read(CHECKOUT, name), name=name)
    today = {**defaults, **parameters.of_preset(CHECKOUT, preset, name)}
    ran = {key: value for key, value in record["parameters"].items() if not (key in WRITTEN_OUT and value == 0)}
    ran = {key: value for key, value in ran.items() if key not in GONE.get(name, ())}
    assert {key: today.get(key) for key in ran} == ran
