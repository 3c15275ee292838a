"""A game for a class: models without their names, the cues they may lean on, and what is in the envelopes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from biaslib import metrics, training
from biaslib.dial.measuring import Measured, balanced, pictures, probability
from biaslib.dial.trials import Trial, network
from biaslib.errors import BiaslibError
from biaslib.metrics.correlation import matthews_correlation
from biaslib.statistics import Comparison, Interval, holm, interval
from biaslib.statistics.proportions import compare_shares, share_interval
from biaslib.store import parallel

# what a picture shows -> the column of the world's table that draws it; the world's own cue is one of them
CANDIDATES: Final[Mapping[str, Mapping[str, str]]] = {
    "birds": {
        "water behind the bird": "background",
        "a warm plumage": "tone",
        "facing right": "facing",
        "a long bill": "bill",
        "a large bird": "scale",
        "bright light": "light",
    },
    "pets": {
        "a ball beside it": "ball",
        "a bright coat": "shade",
        "a garden": "garden",
        "facing right": "facing",
        "a plump animal": "plump",
        "bright light": "light",
    },
    "faces": {
        "the clan's face": "Clan",
        "glasses": "Eyeglasses",
        "lipstick": "Wearing_Lipstick",
        "earrings": "Wearing_Earrings",
        "a wide face": "face_width",
        "bright light": "light",
    },
    "scenes": {
        "a mug": "mug",
        "a book": "book",
        "a pair of glasses": "glasses",
        "a ball": "ball",
        "a large robot": "robot_size",
        "bright light": "light",
    },
}
NONE: Final = "none of them"
EDITED: Final = 200  # balanced images that each candidate is put into and taken out of
_ENDS: Final = (0.1, 0.9)  # the shares of the world's own values that stand for little and much
_RESAMPLES: Final = 500
_SHUFFLE: Final = 20_101


@dataclass(frozen=True)
class Guess:
    """What a player writes down before an envelope is opened.

    Attributes:
        cue: one of the world's candidates, or `NONE`.
        strength: of the bias in the training images, in [0, 1]; 0 with `NONE`.
    """

    cue: str
    strength: float


def deal(trials: Sequence[Trial], envelopes: Sequence[int], *, seed: int = 0) -> list[Trial]:
    """The models in the envelopes: the same number is the same model, other numbers are others.

    Args:
        trials: the zoo.
        envelopes: whole numbers >= 0, below the number of models.
        seed: of the shuffle.

    Raises:
        BiaslibError: for a number that has no model, or one given twice.
    """
    if any(not 0 <= number < len(trials) for number in envelopes) or len(set(envelopes)) < len(envelopes):
        raise BiaslibError(
            f"envelopes must be different whole numbers from 0 to {len(trials) - 1}, one for each model, "
            f"not {list(envelopes)}."
        )
    order = np.random.default_rng([seed, _SHUFFLE]).permutation(len(trials))
    return [trials[order[number]] for number in envelopes]


def candidates(trial: Trial) -> dict[str, np.ndarray]:
    """(N,) bool of each candidate on the balanced test images: there or not, or above the middle of all images."""
    table = balanced(trial)
    return {words: _much(table[column].to_numpy()) for words, column in CANDIDATES[trial.world].items()}


def followed(one: Measured, *, seed: int = 0) -> pd.DataFrame:
    """How far the answers follow each candidate: what an auditor sees who has its labels, one forward pass an image.

    On balanced images no candidate says anything of the target, so that a model that leans on none is as often right
    where a candidate agrees with the target (both there, or neither) as where it does not.

    Args:
        one: the model.
        seed: of the bootstrap over images.

    Returns:
        A row a candidate: `candidate`, `agree` and `oppose` (accuracy there, Wilson intervals), `gap` (their
        difference, Newcombe's interval), `worst` (accuracy of the worst of the four groups of target and candidate,
        Wilson's interval), `mcc` (of answers and candidate, percentile interval), `p` and `p_holm` of the gap,
        corrected over the candidates.
    """
    rows = []
    rng = np.random.default_rng(seed)
    for words, there in candidates(one.trial).items():
        agree = there == one.truth
        gap = compare_shares(one.correct[agree], one.correct[~agree])
        sides = [share_interval(int(one.correct[rows_].sum()), int(rows_.sum())) for rows_ in (agree, ~agree)]
        rows.append(
            {
                "candidate": words,
                "agree": sides[0],
                "oppose": sides[1],
                "gap": _interval_of(gap),
                "worst": _worst(one, there),
                "mcc": _mcc(one.answer, there, rng),
                "p": gap.p,
            }
        )
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm(table["p"]))


def effects(trials: Sequence[Trial], *, scheduler: str | None = None) -> list[pd.DataFrame]:
    """What is in the envelopes: the true effect of every candidate on each model's answer.

    Each of some balanced images is drawn with little and with much of the candidate, and all else the same.

    Args:
        trials: the models.
        scheduler: see `parallel.workers`.

    Returns:
        For each model a row a candidate: `candidate` and `effect`, mean of P(target | much) - P(target | little), an
        Interval over images.
    """
    found = parallel.stored("dial-candidates", list(trials), run, scheduler=scheduler)
    return [
        pd.DataFrame(
            {
                "candidate": list(CANDIDATES[trial.world]),
                "effect": [interval(row[:, 1] - row[:, 0], bounds=(-1, 1)) for row in values],
            }
        )
        for trial, values in zip(trials, found, strict=True)
    ]


def run(trial: Trial) -> np.ndarray:
    """(candidates, images, 2) probability of the target with little and with much of each; on one thread."""
    return np.asarray(parallel.single_threaded(_run, trial))


def attention(one: Measured, regions: Sequence[str] | None = None) -> dict[str, float]:
    """Mean mask score of the model's maps with each region of its world; NaN where no image has region and map."""
    samples = pictures(one.trial)
    scores = {region: metrics.mask_score(one.map, samples.masks[region]) for region in regions or samples.masks}
    return {
        region: float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
        for region, values in scores.items()
    }


def points(guess: Guess, trial: Trial) -> dict[str, float]:
    """What a guess is worth: 2 points for whether the model was biased, 2 for the cue, 2 for the strength.

    The last are 2 (1 - 2 |guess - strength|), none where it is off by a half or more. Who says `NONE` gets all six
    where that is true and nothing where it is not, but what the strength 0 is worth.

    Args:
        guess: as it was written down.
        trial: what was in the envelope.

    Returns:
        `biased`, `cue`, `strength` and `total`.

    Raises:
        BiaslibError: for a cue that is no candidate of the world, or a strength out of range.
    """
    known = (*CANDIDATES[trial.world], NONE)
    if guess.cue not in known or not 0 <= guess.strength <= 1:
        raise BiaslibError(
            f"A guess is one of {', '.join(known)} and a strength from 0 to 1, not {guess.cue!r} and {guess.strength}."
        )
    cue = answer(trial).cue
    found = {
        "biased": 2.0 * ((guess.cue == NONE) == (cue == NONE)),
        "cue": 2.0 * (guess.cue == cue),
        "strength": 2.0 * max(0.0, 1 - 2 * abs(guess.strength - trial.strength)),
    }
    return found | {"total": sum(found.values())}


def answer(trial: Trial) -> Guess:
    """The guess that is right."""
    own = next(words for words, column in CANDIDATES[trial.world].items() if column == trial.drawn_by.cue)
    return Guess(own if trial.strength > 0 else NONE, trial.strength)


def by_answers(table: pd.DataFrame, *, level: float = 0.05) -> Guess:
    """The guess of a player who reads nothing but `followed`.

    The candidate with the widest gap, where the corrected test reports it, with the size of its correlation with the
    answers as the strength.
    """
    widest = table.iloc[int(np.argmax([abs(gap.estimate) for gap in table["gap"]]))]
    if not widest["p_holm"] < level:
        return Guess(NONE, 0.0)
    return Guess(widest["candidate"], min(1.0, abs(widest["mcc"].estimate)))


def _run(trial: Trial) -> np.ndarray:
    model, table = network(trial), balanced(trial).head(EDITED)
    found = []
    for column in CANDIDATES[trial.world].values():
        values = table[column].to_numpy()
        ends = (0, 1) if len(np.unique(values)) <= 2 else np.quantile(balanced(trial)[column], _ENDS)
        edited = [table.assign(**{column: np.full(len(table), end).astype(values.dtype)}) for end in ends]
        images = [trial.drawn_by.render(one, size=trial.size).images for one in edited]
        found.append([probability(trial.world, training.predict(model, some)) for some in images])
    return np.array(found).transpose(0, 2, 1)


def _much(values: np.ndarray) -> np.ndarray:
    return values.astype(bool) if len(np.unique(values)) <= 2 else values > np.median(values)


def _interval_of(compared: Comparison) -> Interval:
    return Interval(compared.difference, compared.low, compared.high, sum(compared.n))


def _worst(one: Measured, there: np.ndarray) -> Interval:
    found = metrics.group_accuracy(one.correct, 2 * one.truth + there)
    lowest = found.iloc[int(found["accuracy"].to_numpy().argmin())]
    return Interval(float(lowest["accuracy"]), float(lowest["low"]), float(lowest["high"]), int(lowest["n"]))


def _mcc(answers: np.ndarray, there: np.ndarray, rng: np.random.Generator) -> Interval:
    drawn = rng.integers(len(answers), size=(_RESAMPLES, len(answers)))
    values = matthews_correlation(answers[drawn], there[drawn])
    some = values[np.isfinite(values)]
    low, high = np.quantile(some, (0.025, 0.975)) if len(some) else (np.nan, np.nan)
    return Interval(float(matthews_correlation(answers, there)), float(low), float(high), len(answers))
