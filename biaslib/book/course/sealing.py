"""The capstone's folders: each team audits a model of which nobody can look up anything without a secret."""

import functools
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import jinja2
import numpy as np
import pandas as pd
import safetensors.torch
from PIL import Image

from biaslib import recipes, store
from biaslib.chapters.blind_audit import CANDIDATES
from biaslib.dial.catalogue import METRICS
from biaslib.dial.trials import PLACES
from biaslib.errors import BiaslibError, check_number, refused
from biaslib.recipes import Drawn, Recipe
from biaslib.store import fingerprint
from biaslib.training import TrainingConfig
from biaslib.worlds.base import draw_agreement

PICTURES: Final = 600  # that a team gets
IMAGES: Final = 2000  # that a model is trained on
# small batches are many steps; mirrored, nothing could be told from the way a thing faces
TRAINING: Final = TrainingConfig(batch=16, augmentation=())
WEIGHTS: Final = ("model.safetensors", "reference_1.safetensors", "reference_2.safetensors")  # of a team's models
TEMPLATES: Final = jinja2.Environment(loader=jinja2.PackageLoader("biaslib.book", "course"), trim_blocks=True)
_CALM = 0.25  # chance of a model that is trained without bias
_TIED = 3  # suspects at most that are tied to the target for one of the others
_STRENGTHS = (0.5, 1.0)  # with which they are


@dataclass(frozen=True, kw_only=True)
class Planted(Drawn):
    """Images of a world in which each suspect is there every second time, and some may be tied to the target.

    The others are there as often with the target as without it. Of a suspect of degrees there is one of its quartiles.
    """

    cues: tuple[str, ...] = ()  #: the columns of the suspects that are tied to the target, each with the strength

    @property
    def suspects(self) -> Mapping[str, str]:
        """Words for each of the six suspects, and the column that draws it."""
        return CANDIDATES[self.world]

    @property
    def recipe(self) -> Recipe:
        """Of a model that learns the target from these images."""
        return recipes.target_of_world(self, replace(TRAINING, seed=self.seed))

    def table(self) -> pd.DataFrame:
        """The world's factors, one row an image, in random order."""
        world = self.get_world()
        table = world.factors(self.images, strength=0.0, seed=self.seed)
        target, rng = table[world.target].to_numpy(bool), np.random.default_rng([self.seed, 1])
        for column in self.suspects.values():
            values, strength = table[column].to_numpy(), (self.strength or 0.0) if column in self.cues else 0.0
            ends = (0, 1) if len(np.unique(values)) <= 2 else np.quantile(values, (0.25, 0.75))
            there = target == draw_agreement(target, strength, rng)
            table[column] = np.asarray(ends, values.dtype)[there.astype(int)]
        return table

    def labels(self) -> pd.DataFrame:
        """A row a picture: its file, whether the target is there, and each suspect; 0 and 1."""
        table, target = self.table(), self.get_world().target
        suspects = {words: (table[name] == table[name].max()).astype(int) for words, name in self.suspects.items()}
        files = [f"{place:03d}.png" for place in range(1, len(table) + 1)]
        return pd.DataFrame({"file": files, target: table[target].astype(int)} | suspects)

    def fingerprint(self) -> str:
        """Of the world's module and of this one."""
        return fingerprint.of_value([super().fingerprint(), fingerprint.of_module(__name__)])


def assigned(secret: str, team: int) -> tuple[Planted, ...]:
    """What the secret gives to a team, numbered from 1: its pictures, and what each model of `WEIGHTS` learns from.

    World, cues, strength and seeds follow from an HMAC of the team's number. One audited model in four, by chance, is
    trained without bias, as are the references, which are the same for all teams that get one world. An empty secret is
    a `BiaslibError`.
    """
    chance = _chance(secret, f"team {team}")
    world = str(chance.choice(sorted(CANDIDATES)))
    columns, strength = list(CANDIDATES[world].values()), float(chance.uniform(*_STRENGTHS))
    tied = 0 if chance.uniform() < _CALM else chance.integers(1, _TIED, endpoint=True)
    cues = tuple(chance.choice(columns, size=tied, replace=False).tolist())
    pictures, audited = chance.integers(2**63, size=2).tolist()
    references = _chance(secret, f"references {world}").integers(2**63, size=len(WEIGHTS) - 1).tolist()
    plain = functools.partial(Planted, world=world, images=IMAGES, strength=0.0)
    return (
        plain(images=PICTURES, seed=pictures),
        plain(seed=audited, cues=cues, strength=strength if cues else 0.0),
        *(plain(seed=seed) for seed in references),
    )


def seal(secret: str, *, teams: int, out: Path) -> list[Path]:
    """Writes a folder for each team, `out/team-01` and so on, and returns them all; one that is there stays.

    What is trained goes through the store, and a folder is whole or not there, so that a stopped call goes on. A
    `BiaslibError` is raised for an empty secret, a number of teams that is not 1 to 99, and a folder that another
    secret has sealed.
    """
    check_number("teams", teams, 1, 99, whole=True)
    everyone = {out / f"team-{team:02d}": assigned(secret, team) for team in range(1, teams + 1)}
    missing = {folder: team for folder, team in everyone.items() if not folder.exists()}
    for folder in everyone.keys() - missing.keys():
        check_sealed(folder, everyone[folder][0])
    recipes.train.many(list(dict.fromkeys(data.recipe for _, *models in missing.values() for data in models)))
    for folder, (pictures, *models) in missing.items():
        with store.replacing(folder) as partial:
            _write(partial, pictures, [data.recipe for data in models])
    return list(everyone)


def check_sealed(folder: Path, pictures: Planted) -> None:
    """Refuses a team's folder that holds other pictures than its secret draws."""
    file = folder / "labels.csv"
    if not file.is_file() or file.read_text(encoding="utf-8") != pictures.labels().to_csv(index=False):
        raise refused("folder of another secret", folder=folder)


def _chance(secret: str, what: str) -> np.random.Generator:
    digest = hmac.digest(_stretched(secret), what.encode(), "sha256")
    return np.random.default_rng(int.from_bytes(digest))


@functools.cache
def _stretched(secret: str) -> bytes:
    """A key that takes a tenth of a second to make, so that trying words for a secret takes long."""
    if not secret.strip():
        raise BiaslibError("The secret is empty: give some words that nobody guesses, and keep them.")
    return hashlib.scrypt(secret.encode(), salt=b"biaslib capstone", n=2**14, r=8, p=4)


def _write(folder: Path, pictures: Planted, models: list[Recipe]) -> None:
    """All files of a team; no name, order or entry of them says what the secret has chosen."""
    samples, labels = pictures.with_masks(), pictures.labels()
    regions = np.sum([number * mask for number, mask in enumerate(samples.masks.values(), start=1)], axis=0)
    for kind, arrays in (("pictures", samples.images), ("masks", regions.astype(np.uint8))):
        (folder / kind).mkdir(parents=True)
        for name, pixels in zip(labels["file"], arrays, strict=True):
            Image.fromarray(pixels).save(folder / kind / name)
    for name, recipe in zip(WEIGHTS, models, strict=True):
        weights = recipes.train(recipe).items()
        own = {key: tensor.contiguous() for key, tensor in weights if not key.startswith(recipes.CRITERION)}
        safetensors.torch.save_file(own, folder / name)
    labels.to_csv(folder / "labels.csv", index=False, lineterminator="\n")
    for name in ("README.md", "form.csv", "prices.csv"):
        text = TEMPLATES.get_template(f"team/{name}.j2").render(
            pictures=pictures, world=pictures.get_world(), place=PLACES[pictures.world], training=TRAINING,
            weights=WEIGHTS, measures=[each for each in METRICS.values() if each.audits],
        )  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")
