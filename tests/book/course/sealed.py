"""Sealing in a second, for tests: few pictures, and models that are not trained.

`python -m tests.book.course.sealed` seals a class with an empty store, minutes of work, and writes what the page says
of it.
"""

import os
import tempfile
import time
from pathlib import Path

import torch

from biaslib import models, recipes
from biaslib.book.course import capstone
from biaslib.store import parallel
from tests.book.course import players

SECRET = "nine tall lamps by the sea"
CLASS = 12


def quickly(monkeypatch) -> list[recipes.Recipe]:
    """Makes sealing quick; the list that comes back fills with the recipes that are trained."""
    asked: list[recipes.Recipe] = []

    class Train:
        def __call__(self, recipe):
            torch.manual_seed(recipe.data.seed % 2**32)
            weights = models.build(capstone.TRAINING.architecture, capstone.TRAINING.outputs).state_dict()
            # an objective's own tensor, as `recipes.train` gives it
            return {**weights, f"{recipes.CRITERION}weight": torch.ones(2)}

        def many(self, wanted):
            asked.extend(wanted)

    monkeypatch.setattr(capstone, "PICTURES", 12)
    monkeypatch.setattr(recipes, "train", Train())
    return asked


def files(folder) -> dict[str, bytes]:
    """All files of a folder."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def measured(teams: int) -> list[tuple[str, str]]:
    """What the page says of sealing a class: minutes on the cores of this process, and the size of the folders."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BIASLIB_STORE"] = f"{folder}/store"
        start = time.monotonic()
        capstone.seal(SECRET, teams=teams, out=Path(folder) / "handout")
        minutes = (time.monotonic() - start) / 60
        size = sum(len(content) for content in files(Path(folder) / "handout").values())
    return [
        (f"sealing {teams} teams", ""),
        (f"minutes on {parallel.cores()} cores", f"{minutes:.0f}"),
        ("megabytes of their folders", f"{size / 1e6:.0f}"),
    ]


if __name__ == "__main__":
    players.write("sealing", measured(CLASS))
