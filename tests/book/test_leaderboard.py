"""The leaderboard beside a folder that somebody sends: its row, and what is refused."""

import json
import shutil

import nbformat
import pandas as pd
import pytest

from biaslib.book import Project, execution
from biaslib.dial.catalogue import EXACT
from biaslib.errors import BiaslibError
from tests.book.conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def sent(tmp_path):
    """A folder about the same models with one metric, as good as the exact effect and with as few alarms."""
    folder = shutil.copytree(ROOT / "data" / "submissions" / "biaslib", tmp_path / "sent")
    about = json.loads((folder / "submission.json").read_text())
    about["metrics"] = [{"name": "Mine", "tier": 1, "side": "above", "passes": 2.0}]
    (folder / "submission.json").write_text(json.dumps(about))
    numbers = pd.read_csv(folder / "numbers.csv")
    numbers.assign(Mine=numbers[EXACT.name]).to_csv(folder / "numbers.csv", index=False)
    return folder


def page_beside(folder):
    out = folder.parent / "page.ipynb"
    execution.run(Project(ROOT), "leaderboard", out, parameters={"submissions": [str(folder)]}, preset="smoke")
    tables = [
        o["data"]["text/html"] for o in execution.outputs(nbformat.read(out, 4)) if "text/html" in o.get("data", {})
    ]
    return "".join("".join(table) for table in tables)


def test_a_folder_gets_its_row_however_good_its_metric_is(sent):
    page = page_beside(sent)
    assert "Mine" in page
    assert ">sent<" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"metrics": [{"name": "TCAV, size", "tier": 3, "side": "above", "passes": 1.0}]},
            "'TCAV, size', as biaslib has",
        ),
        ({"asked": {"models": 5, "references": 40, "images": 1200, "test_images": 1000}}, "is not about the models"),
        ({"protocol": "dial-0.0"}, "was made by dial-0.0"),
    ],
)
def test_another_protocol_other_models_and_a_taken_name_are_refused(sent, change, said):
    about = json.loads((sent / "submission.json").read_text())
    (sent / "submission.json").write_text(json.dumps(about | change))
    with pytest.raises(BiaslibError, match=said):
        page_beside(sent)


def test_other_numbers_of_the_same_models_are_refused(sent):
    numbers = pd.read_csv(sent / "numbers.csv")
    numbers.assign(effect=numbers["effect"] + 0.1).to_csv(sent / "numbers.csv", index=False)
    with pytest.raises(BiaslibError, match="is not about the models"):
        page_beside(sent)
