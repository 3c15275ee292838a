"""The blind audit, a game for a class: unnamed models, the cues they may lean on, guessed effects and their score."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from biaslib import recipes, training
from biaslib.dial.measuring import Case, balanced, probability
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError, refused
from biaslib.statistics import Interval, holm, interval
from biaslib.statistics.detection import winkler
from biaslib.statistics.proportions import compare_shares
from biaslib.store import stored
from biaslib.store.files import beside

# of each world: what a picture shows -> the column of its table that draws it
CANDIDATES: Final[dict[str, dict[str, str]]] = beside(__file__)
SAID_NOTHING: Final = (-0.02, 0.02)  # the effect of a candidate that a guess does not name
_EDITED: Final = 100  # balanced images that each candidate is put into and taken out of


def assign(trials: Sequence[Trial], envelopes: Sequence[int], *, seed: int = 0) -> list[Trial]:
    """The models of the game in the envelopes: the same number is the same model, other numbers are others."""
    if any(not 0 <= number < len(trials) for number in envelopes) or len(set(envelopes)) < len(envelopes):
        raise refused("wrong envelopes", last=len(trials) - 1, envelopes=list(envelopes))
    order = np.random.default_rng([seed, 20_101]).permutation(len(trials))
    return [trials[order[number]] for number in envelopes]


def cue_dependence(model: Case) -> pd.DataFrame:
    """How far the answers follow each candidate: what an auditor sees who has its labels, one forward pass an image.

    A row a candidate: `gap` (the accuracy on balanced images where it agrees with the target less that where it does
    not, Newcombe's interval), `p` and `p_holm` of the gap, over the candidates. Where target and candidate are
    independent and each is there in half of the images, the gap estimates the candidate's effect on the answers.
    """
    rows = []
    factors = balanced(model.trial)
    for candidate, column in CANDIDATES[model.trial.world].items():
        values = factors[column].to_numpy()
        there = values.astype(bool) if len(np.unique(values)) <= 2 else values > np.median(values)
        agree = there == model.truth
        gap = compare_shares(model.correct[agree], model.correct[~agree])
        span = Interval(gap.difference, gap.low, gap.high, sum(gap.n))
        rows.append({"candidate": candidate, "gap": span, "p": gap.p})
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm(table["p"]))


def effects(trials: Sequence[Trial]) -> list[pd.DataFrame]:
    """What is in the envelopes: for each model a table of `candidate` and `effect`, the true one on balanced images."""
    tables = []
    for trial, probabilities in zip(trials, _probabilities.many(trials), strict=True):
        effect = [interval(pair[:, 1] - pair[:, 0], bounds=(-1, 1)) for pair in probabilities]
        tables.append(pd.DataFrame({"candidate": list(CANDIDATES[trial.world]), "effect": effect}))
    return tables


def score(guess: Mapping[str, tuple[float, float]], effects: pd.DataFrame) -> np.ndarray:
    """What each candidate's guessed interval is worth, as in `effects` (candidates,), by `winkler`: 0 is best."""
    if unknown := set(guess) - set(effects["candidate"]):
        raise BiaslibError(f"A guess is about {', '.join(effects['candidate'])}, not about {', '.join(unknown)}.")
    low, high = np.array([guess.get(candidate, SAID_NOTHING) for candidate in effects["candidate"]], dtype=float).T
    return np.asarray(winkler(low, high, [effect.estimate for effect in effects["effect"]]))


def cue_of(trial: Trial) -> str:
    """The candidate that is tied to the target in the training images, where their strength is above 0."""
    return next(words for words, column in CANDIDATES[trial.world].items() if column == trial.drawn_by.cue)


@stored("dial-candidates", passes=lambda trial: (2 * _EDITED * len(CANDIDATES[trial.world]), 1))
def _probabilities(trial: Trial) -> np.ndarray:
    """(candidates, images, 2) probability of the target with little and with much of each."""
    model, factors = recipes.load(trial.recipe), balanced(trial)
    table = factors.head(_EDITED)
    probabilities = []
    for column in CANDIDATES[trial.world].values():
        values = table[column].to_numpy()
        # quartiles, the means of both halves into which `cue_dependence` cuts
        ends = (0, 1) if len(np.unique(values)) <= 2 else np.quantile(factors[column], (0.25, 0.75))
        edited = [table.assign(**{column: np.full(len(table), end).astype(values.dtype)}) for end in ends]
        images = [trial.drawn_by.render(rows, size=trial.size).images for rows in edited]
        probabilities.append([probability(trial.world, training.predict(model, some)) for some in images])
    return np.array(probabilities).transpose(0, 2, 1)
