"""Trained models of the board from a zoo: weights that are read in place of being trained."""

import csv
import hashlib
import sys
import zipfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import safetensors.torch

from biaslib import recipes
from biaslib.dial.board import PROTOCOL
from biaslib.dial.trials import Trial
from biaslib.errors import refused
from biaslib.store import files, results

PUBLISHED = files.beside(__file__).get(PROTOCOL, {})  # world -> SHA-256 of models.csv in its zoo


def settings(trial: Trial) -> dict[str, str]:
    """What a model was trained with, in words, as models.csv has it beside a file and its SHA-256."""
    said = {"protocol": PROTOCOL, "targets": trial.recipe.targets} | asdict(trial.data)
    return {name: str(value) for name, value in (said | asdict(trial.recipe.training)).items()}


def put(trials: Sequence[Trial], places: Sequence[Path] = ()) -> int:
    """How many of the models a zoo has; those that the store lacks are put there, so that nobody trains them.

    `places` are wheels, or the folders in them; without any, what is installed. A `BiaslibError` is raised where a file
    is missing, or not what was published for this protocol.
    """
    installed = [Path(entry, f"biaslib_zoo_{world}") for entry in sys.path for world in PUBLISHED]
    asked, found = [(trial.recipe, settings(trial).items()) for trial in trials], set[recipes.Recipe]()
    for place in places or filter(Path.is_dir, installed):
        for row in csv.DictReader(_checked(place, "models.csv", PUBLISHED.values()).decode().splitlines()):
            for recipe in [recipe for recipe, said in asked if all(row.get(name, of) == of for name, of in said)]:
                load = partial(safetensors.torch.load, _checked(place, row["file"], [row["sha256"]]))
                results.under_key(recipes.train.kind, recipes.train.stored_at(recipe).name, recipe, load)
                found.add(recipe)
    return len(found)


def _checked(place: Path, name: str, digests: Collection[str]) -> bytes:
    """What a file of a zoo holds, whose SHA-256 has to be one of these."""
    with suppress(Exception):  # whatever a damaged wheel raises
        folder = zipfile.Path(place, place.name.partition("-")[0] + "/") if place.suffix == ".whl" else place
        if hashlib.sha256(data := (folder / name).read_bytes()).hexdigest() in digests:
            return data
    raise refused("file that is not the zoo's", file=place / name, protocol=PROTOCOL)
