"""Sealing in a second, for tests: few pictures, and models that are not trained."""

import torch

from biaslib import models, recipes
from biaslib.book.course import sealing

SECRET = "seven tall lamps by the sea"


def quickly(monkeypatch) -> list[recipes.Recipe]:
    """Makes sealing quick; the list that comes back fills with the recipes that are trained."""
    asked: list[recipes.Recipe] = []

    class Train:
        def __call__(self, recipe):
            torch.manual_seed(recipe.data.seed % 2**32)
            weights = models.build(sealing.TRAINING.architecture, sealing.TRAINING.outputs).state_dict()
            # an objective's own tensor, as `recipes.train` gives it
            return {**weights, f"{recipes.CRITERION}weight": torch.ones(2)}

        def many(self, wanted):
            asked.extend(wanted)

    monkeypatch.setattr(sealing, "PICTURES", 12)
    monkeypatch.setattr(recipes, "train", Train())
    return asked


def files(folder) -> dict[str, bytes]:
    """All files of a folder."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
