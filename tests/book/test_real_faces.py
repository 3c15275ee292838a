"""The page on real faces, with the paper's preset on a tiny copy of the official layouts."""

import json

import numpy as np
import pandas as pd
import pytest

from biaslib.book import Project, execution
from biaslib.datasets.celeba import ATTRIBUTES
from tests import layouts
from tests.book.conftest import ROOT

# a machine without the hub has no ImageNet weights, and a test no hours; everything else is the preset's
SMALLER = {"models": 2, "epochs": 1, "architecture": "resnet18", "weights": "", "size": 64}


def official_layout(root):
    """CelebA of 90 pictures, a third a split, and CelebAMask-HQ of 20 with their part masks and attributes."""
    rng = np.random.default_rng(0)
    labels = pd.DataFrame({name: rng.random(90) < 0.5 for name in ATTRIBUTES})
    layouts.celeba(root, labels, pictures=True)
    layouts.celebamask_hq(root, list(range(20)), pictures=True)
    values = [" ".join("1" if flag else "-1" for flag in row) for row in labels.to_numpy()[:20]]
    lines = ["20", " ".join(ATTRIBUTES), *(f"{number}.jpg {row}" for number, row in enumerate(values))]
    (root / "CelebAMask-HQ" / "CelebAMask-HQ-attribute-anno.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_the_papers_preset_runs_on_the_official_layout(tmp_path, monkeypatch):
    official_layout(tmp_path / "data")
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BIASLIB_CORES", "1")  # each worker would take longer to start than to work
    out = tmp_path / "page.ipynb"
    about = execution.run(Project(ROOT), "real_faces", out, preset="paper", parameters=SMALLER)
    counts = about["recorded"]["values"]["run"]["counts"]
    assert counts == {"models": 2, "training": 30, "test": 30, "masked": 3, "epochs": 1, "grid": 2, "size": 64}
    assert about["recorded"]["values"]["run"]["group"] == "Male"
    cells = json.loads(out.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    tables = "".join(text for output in outputs for text in output.get("data", {}).get("text/html", ""))
    assert 'scope="col">this run</th>' in tables  # of the claims
    printed = ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"]
    assert [text for text in printed if "Warning" in text] == []
