"""The blind audit, a game for a class: unnamed models, the cues they may lean on, guesses and their score."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from biaslib import recipes, training
from biaslib.dial.measuring import Measured, balanced, probability
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from biaslib.metrics.groups import matthews_correlation
from biaslib.statistics import Interval, holm, interval
from biaslib.statistics.proportions import compare_shares
from biaslib.store import stored

# what a picture shows -> the column of the world's table that draws it; the world's own cue is one of them
_CANDIDATES: Final[Mapping[str, Mapping[str, str]]] = {
    "birds": {
        "water behind the bird": "background", "a warm plumage": "tone", "facing right": "facing",
        "a long bill": "bill", "a large bird": "scale", "bright light": "light",
    },
    "pets": {
        "a ball beside it": "ball", "a bright coat": "shade", "a garden": "garden",
        "facing right": "facing", "a plump animal": "plump", "bright light": "light",
    },
    "faces": {
        "the clan's face": "Clan", "glasses": "Eyeglasses", "lipstick": "Wearing_Lipstick",
        "earrings": "Wearing_Earrings", "a wide face": "face_width", "bright light": "light",
    },
    "scenes": {
        "a mug": "mug", "a book": "book", "a pair of glasses": "glasses",
        "a ball": "ball", "a large robot": "robot_size", "bright light": "light",
    },
}  # fmt: skip
NONE: Final = "none of them"
_EDITED: Final = 100  # balanced images that each candidate is put into and taken out of


class Guess(NamedTuple):
    """What a player writes down before an envelope is opened."""

    cue: str  # one of the world's candidates, or `NONE`
    strength: float  # of the bias in the training images, in [0, 1]; 0 with `NONE`


def assign(trials: Sequence[Trial], envelopes: Sequence[int], *, seed: int = 0) -> list[Trial]:
    """The models of the game in the envelopes: the same number is the same model, other numbers are others."""
    if any(not 0 <= number < len(trials) for number in envelopes) or len(set(envelopes)) < len(envelopes):
        raise BiaslibError(
            f"envelopes must be different whole numbers from 0 to {len(trials) - 1}, one for each model, "
            f"not {list(envelopes)}."
        )
    order = np.random.default_rng([seed, 20_101]).permutation(len(trials))
    return [trials[order[number]] for number in envelopes]


def cue_dependence(model: Measured) -> pd.DataFrame:
    """How far the answers follow each candidate: what an auditor sees who has its labels, one forward pass an image.

    A row a candidate: `gap` (the accuracy on balanced images where it agrees with the target less that where it does
    not, Newcombe's interval), `mcc` (of answers and candidate), `p` and `p_holm` of the gap, over the candidates.
    """
    rows = []
    factors = balanced(model.trial)
    for candidate, column in _CANDIDATES[model.trial.world].items():
        values = factors[column].to_numpy()
        there = values.astype(bool) if len(np.unique(values)) <= 2 else values > np.median(values)
        agree = there == model.truth
        gap = compare_shares(model.correct[agree], model.correct[~agree])
        span, mcc = Interval(gap.difference, gap.low, gap.high, sum(gap.n)), matthews_correlation(model.answer, there)
        rows.append({"candidate": candidate, "gap": span, "mcc": float(mcc), "p": gap.p})
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm(table["p"]))


def effects(trials: Sequence[Trial]) -> list[pd.DataFrame]:
    """What is in the envelopes: for each model a table of `candidate` and `effect`, the true one on balanced images."""
    tables = []
    for trial, probabilities in zip(trials, _probabilities.many(trials), strict=True):
        effect = [interval(pair[:, 1] - pair[:, 0], bounds=(-1, 1)) for pair in probabilities]
        tables.append(pd.DataFrame({"candidate": list(_CANDIDATES[trial.world]), "effect": effect}))
    return tables


def score(guess: Guess, trial: Trial) -> dict[str, float]:
    """What a guess is worth: 2 points for whether the model was biased, 2 for the cue, 2 for the strength; the `total`.

    The last are 2 (1 - 2 |guess - strength|), at least 0. A guess of `NONE` gets all six where that is true.
    """
    known = (*_CANDIDATES[trial.world], NONE)
    if guess.cue not in known or not 0 <= guess.strength <= 1:
        raise BiaslibError(
            f"A guess is one of {', '.join(known)} and a strength from 0 to 1, not {guess.cue!r} and {guess.strength}."
        )
    cue = answer(trial).cue
    points = {
        "biased": 2.0 * ((guess.cue == NONE) == (cue == NONE)),
        "cue": 2.0 * (guess.cue == cue),
        "strength": 2.0 * max(0.0, 1 - 2 * abs(guess.strength - trial.strength)),
    }
    return points | {"total": sum(points.values())}


def answer(trial: Trial) -> Guess:
    """The guess that is right."""
    own = next(words for words, column in _CANDIDATES[trial.world].items() if column == trial.drawn_by.cue)
    return Guess(own if trial.strength > 0 else NONE, trial.strength)


def guess_from_answers(table: pd.DataFrame, *, level: float = 0.05) -> Guess:
    """The guess of a player who reads the table of `cue_dependence` alone: the widest gap, where it is significant."""
    widest = table.iloc[int(np.argmax([abs(gap.estimate) for gap in table["gap"]]))]
    if not widest["p_holm"] < level:
        return Guess(NONE, 0.0)
    return Guess(widest["candidate"], min(1.0, abs(widest["mcc"])))


@stored("dial-candidates", passes=lambda trial: (2 * _EDITED * len(_CANDIDATES[trial.world]), 1))
def _probabilities(trial: Trial) -> np.ndarray:
    """(candidates, images, 2) probability of the target with little and with much of each."""
    model, factors = recipes.load(trial.recipe), balanced(trial)
    table = factors.head(_EDITED)
    probabilities = []
    for column in _CANDIDATES[trial.world].values():
        values = table[column].to_numpy()
        ends = (0, 1) if len(np.unique(values)) <= 2 else np.quantile(factors[column], (0.1, 0.9))
        edited = [table.assign(**{column: np.full(len(table), end).astype(values.dtype)}) for end in ends]
        images = [trial.drawn_by.render(rows, size=trial.size).images for rows in edited]
        probabilities.append([probability(trial.world, training.predict(model, some)) for some in images])
    return np.array(probabilities).transpose(0, 2, 1)
