"""The capstone's points: what a team stated, against the exact effect of every suspect; and a sheet for the teacher."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import softmax

from biaslib import models, store, training
from biaslib.audit import tables
from biaslib.book.course.sealing import TEMPLATES, TRAINING, WEIGHTS, Planted, assigned, check_sealed
from biaslib.errors import BiaslibError, refused
from biaslib.statistics import kendall
from biaslib.statistics.detection import winkler
from biaslib.store import files, stored

PARTS: Final = {"intervals": 30, "probabilities": 15, "order": 10, "re-run": 5}  # points
SMALL: Final = 0.05  # an effect that the form asks the probability of
_SAYS_NOTHING: Final = 2.0  # score of the interval from -1 to 1, which is always right
_SAME = 0.005  # how far a number of a second run may be from the form's
_NUMBERS = ["low", "high", "probability"]


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
        check_sealed(folder, sealed[folder.name][0])

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
        sheet = TEMPLATES.get_template("sheet.md.j2").render(
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
