"""Whole notebooks with every process on the pretended device: no mismatch, and hardly anything computed elsewhere."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from tests import pretended
from tests.book.conftest import ROOT, cli, copy_of_the_book

EVERYWHERE = Path(__file__).parent / "everywhere"
LIMIT = 3600  # seconds


@pytest.mark.slow
def test_all_notebooks_compute_on_the_device(tmp_path):
    assert share_on_the_device(tmp_path) > 0.98


def share_on_the_device(folder: Path) -> float:
    """Of the multiply-adds of a build of a copy of the book."""
    project, environment = copy_of_the_book(folder)
    counts = folder / "counts"
    counts.mkdir()
    environment |= {
        "BIASLIB_DEVICE": pretended.NAME,
        "PRETENDED_COUNTS": str(counts),
        "PYTHONPATH": os.pathsep.join([str(EVERYWHERE), str(ROOT)]),
    }
    done = cli(project, "build", "--preset", "smoke", env=environment, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    by_device = pd.DataFrame([json.loads(file.read_text()) for file in counts.glob("*.json")]).sum()
    print((by_device / 1e9).round(2).to_string())
    return float(by_device[pretended.NAME] / by_device.sum())
