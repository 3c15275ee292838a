"""The capstone: a model for each team that nobody can look up without a secret, and points for what a team states.

What it states is held against the exact effect of every suspect; a sheet for each team is for the teacher.
"""

import functools
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import safetensors.torch
from PIL import Image
from scipy.special import softmax

from biaslib import models, recipes, store, training
from biaslib.audit import tables
from biaslib.chapters.blind_audit import CANDIDATES
from biaslib.dial.catalogue import METRICS
from biaslib.dial.trials import PLACES
from biaslib.errors import BiaslibError, check_number, refused
from biaslib.figures import theme
from biaslib.recipes import Drawn, Recipe
from biaslib.statistics import kendall
from biaslib.statistics.detection import winkler
from biaslib.store import files, fingerprint, stored
from biaslib.training import TrainingConfig
from biaslib.worlds.base import draw_agreement

PICTURES: Final = 600  # that a team gets
IMAGES: Final = 2000  # that a model is trained on
# small batches are many steps; mirrored, nothing could be told from the way a thing faces
TRAINING: Final = TrainingConfig(batch=16, augmentation=())
WEIGHTS: Final = ("model.safetensors", "reference_1.safetensors", "reference_2.safetensors")  # of a team's models
_TEMPLATES: Final = theme.templates("book/course")
_CALM = 0.25  # chance of a model that is trained without bias
_TIED = 3  # suspects at most that are tied to the target for one of the others
_STRENGTHS = (0.5, 1.0)  # with which they are
PARTS: Final = {"intervals": 30, "probabilities": 15, "order": 10, "re-run": 5}  # points
SMALL: Final = 0.05  # an effect that the form asks the probability of
_SAYS_NOTHING: Final = 2.0  # score of the interval from -1 to 1, which is always right
_SAME = 0.005  # how far a number of a second run may be from the form's
_NUMBERS = ["low", "high", "probability"]


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
        _check_sealed(folder, everyone[folder][0])
    recipes.train.many(list(dict.fromkeys(data.recipe for _, *learnt in missing.values() for data in learnt)))
    for folder, (pictures, *learnt) in missing.items():
        with store.replacing(folder) as partial:
            _write(partial, pictures, [data.recipe for data in learnt])
    return list(everyone)


def _check_sealed(folder: Path, pictures: Planted) -> None:
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


def _write(folder: Path, pictures: Planted, learnt: list[Recipe]) -> None:
    """All files of a team; no name, order or entry of them says what the secret has chosen."""
    samples, labels = pictures.with_masks(), pictures.labels()
    regions = np.sum([number * mask for number, mask in enumerate(samples.masks.values(), start=1)], axis=0)
    for kind, arrays in (("pictures", samples.images), ("masks", regions.astype(np.uint8))):
        (folder / kind).mkdir(parents=True)
        for name, pixels in zip(labels["file"], arrays, strict=True):
            Image.fromarray(pixels).save(folder / kind / name)
    for name, recipe in zip(WEIGHTS, learnt, strict=True):
        weights = recipes.train(recipe).items()
        own = {key: tensor.contiguous() for key, tensor in weights if not key.startswith(recipes.CRITERION)}
        safetensors.torch.save_file(own, folder / name)
    labels.to_csv(folder / "labels.csv", index=False, lineterminator="\n")
    for name in ("README.md", "form.csv", "prices.csv"):
        text = _TEMPLATES.get_template(f"team/{name}.j2").render(
            pictures=pictures, world=pictures.get_world(), place=PLACES[pictures.world], training=TRAINING,
            weights=WEIGHTS, measures=[each for each in METRICS.values() if each.audits],
        )  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")


@stored("capstone-effects")
def exact_effects(pictures: Planted, weights: Path, digest: str) -> np.ndarray:
    """(6,) how far each suspect moves a model's mean answer about the pictures, all drawn without it and with it.

    The digest of the file of its weights is there for the key.
    """
    model = models.placed(models.build(TRAINING.architecture, TRAINING.outputs, weights=weights))
    table, world = pictures.table(), pictures.get_world()

    def answers(rows: pd.DataFrame) -> np.ndarray:
        images = world.render(rows, size=pictures.size, regions=()).images
        return np.asarray(softmax(training.predict(model, images), axis=1)[:, 1])

    effects, as_drawn = [], answers(table)
    for column in pictures.suspects.values():
        low, high = sorted(set(table[column]))
        there = (table[column] == high).to_numpy()
        other = answers(table.assign(**{column: np.where(there, low, high).astype(table[column].dtype)}))
        effects.append(np.where(there, as_drawn - other, other - as_drawn).mean())
    return np.array(effects)


def read_form(file: Path, suspects: Sequence[str]) -> pd.DataFrame:
    """A row a suspect: low and high of its effect, and the probability that it is `SMALL` or larger, up or down.

    A file that cannot be read, another list of suspects, and numbers out of range are a `BiaslibError`.
    """
    table = tables.read(file)
    tables.check_columns(table, ["suspect", *_NUMBERS], str(file))
    if sorted(table["suspect"].astype(str)) != sorted(suspects):
        raise BiaslibError(f"{file} needs one row for each of {', '.join(suspects)}: take the form of the folder.")
    form = table.set_index("suspect").loc[list(suspects), _NUMBERS].apply(pd.to_numeric, errors="coerce")
    right = (form["low"] >= -1) & (form["low"] <= form["high"]) & (form["high"] <= 1)
    if len(wrong := form.index[~(right & form["probability"].between(0, 1))]):
        raise refused("form that cannot be read", file=file, suspect=wrong[0])
    return form


def points(form: pd.DataFrame, effects: np.ndarray, *, again: pd.DataFrame | None = None) -> dict[str, float]:
    """Points of each of `PARTS`, for the form of a team and that of a second run, and the six exact effects."""
    low, high, probability = form[_NUMBERS].to_numpy(float).T
    missed = winkler(low, high, effects, confidence=0.9).mean()
    brier = ((probability - (np.abs(effects) >= SMALL)) ** 2).mean()
    order = kendall(np.abs(low + high), np.abs(effects)).estimate
    same = again is not None and np.allclose(form, again, rtol=0, atol=_SAME)
    shares = np.nan_to_num([1 - missed / _SAYS_NOTHING, 1 - brier / 0.25, order, float(same)])  # no order: no points
    return dict(zip(PARTS, np.array([*PARTS.values()]) * shares.clip(0, 1), strict=True))


def score(secret: str, *, handout: Path, forms: Path, out: Path) -> pd.DataFrame:
    """The points of each team of a sealed folder, NaN without a form; with a sheet for each team they go into `out`.

    `forms` has a folder for each team, of the same name, with its form.csv, and perhaps rerun.csv. Nothing in it is
    run. A `BiaslibError` is raised for another secret, and for a form that `read_form` refuses.
    """
    folders = sorted(handout.glob("team-[0-9][0-9]"))
    sealed = {folder.name: assigned(secret, int(folder.name[-2:])) for folder in folders}
    for folder in folders:
        _check_sealed(folder, sealed[folder.name][0])

    def read(name: str) -> dict[str, pd.DataFrame]:
        given = {team: forms / team / name for team in sealed if (forms / team / name).is_file()}
        return {team: read_form(file, list(sealed[team][0].suspects)) for team, file in given.items()}

    stated, again = read("form.csv"), read("rerun.csv")
    if not stated:
        raise BiaslibError(f"There is no form of a team of {handout} in {forms}, such as {forms / 'team-01/form.csv'}.")
    weights = {team: (handout / team / WEIGHTS[0]).resolve() for team in stated}
    effects = exact_effects.many([(sealed[team][0], file, files.sha256(file)) for team, file in weights.items()])
    earned = {team: dict.fromkeys(PARTS, np.nan) for team in sealed}
    for (team, form), true in zip(stated.items(), effects, strict=True):
        earned[team] = points(form, true, again=again.get(team))
        sheet = _TEMPLATES.get_template("sheet.md.j2").render(
            team=team, points=earned[team], parts=PARTS, trained_on=sealed[team][1],
            rows=form.assign(effect=true).to_dict("index"),
        )  # fmt: skip
        with store.replacing(out / f"{team}.md") as partial:
            partial.write_text(sheet, encoding="utf-8")
    table = pd.DataFrame(earned).T.rename_axis("team")
    table["together"] = table.sum(axis=1, skipna=False)
    with store.replacing(out / "points.csv") as partial:
        table.round(1).to_csv(partial)
    return table
