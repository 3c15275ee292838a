"""Whole notebooks with every process on the pretended device: no mismatch, and hardly anything computed elsewhere."""

import json
import os
from pathlib import Path

import pytest

from tests import pretended
from tests.book.conftest import NOTEBOOKS, ROOT, cli, copy_of_the_book

EVERYWHERE = Path(__file__).parent / "everywhere"
SAMPLE = ("waterbirds", "directions")  # maps of trained models; a generator's walks


def run_there(notebooks: tuple[str, ...], folder: Path) -> dict[str, float]:
    """The notebooks at their smallest, and the multiply-adds by device."""
    project, environment = copy_of_the_book(folder)
    counts = folder / "counts"
    counts.mkdir()
    environment |= {
        "BIASLIB_DEVICE": pretended.NAME,
        "PRETENDED_COUNTS": str(counts),
        "PYTHONPATH": os.pathsep.join([str(EVERYWHERE), str(ROOT)]),
    }
    only = [word for name in notebooks for word in ("--only", name)]
    done = cli(project, "build", "--preset", "smoke", *only, env=environment, timeout=3600)
    assert done.returncode == 0, done.stderr
    by_device: dict[str, float] = {}
    for file in counts.glob("*.json"):
        for kind, multiplications in json.loads(file.read_text()).items():
            by_device[kind] = by_device.get(kind, 0.0) + multiplications
    return by_device


def share_on_the_device(by_device: dict[str, float]) -> float:
    return by_device[pretended.NAME] / sum(by_device.values())


def test_a_sample_of_notebooks_computes_on_the_device(tmp_path):
    assert share_on_the_device(run_there(SAMPLE, tmp_path)) > 0.98


@pytest.mark.slow
def test_all_notebooks_compute_on_the_device(tmp_path):
    by_device = run_there(tuple(NOTEBOOKS), tmp_path)
    print({kind: f"{each / 1e9:.1f} GMAC" for kind, each in by_device.items()})
    assert share_on_the_device(by_device) > 0.98
