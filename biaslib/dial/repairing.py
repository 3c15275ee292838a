"""Repairs of others: a better network with few labels of the cue, judged by the exact effect of the cue."""

import functools
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import torch
from torch import nn

from biaslib import recipes, training
from biaslib.dial import entries
from biaslib.dial.measuring import balanced, probability
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError, check_number, reason, refused
from biaslib.metrics import worst_group_accuracy
from biaslib.statistics import interval
from biaslib.store import stored
from biaslib.store.files import module_of, sha256

MEASURES: Final = ("effect", "answers changed", "accuracy", "worst group")
_MODEL: Final = ["world", "strength", "seed"]
_SEED: Final = 5_000_000  # of the training images whose cue is told
_Function = Callable[["Trained"], nn.Module]
_functions: dict[str, _Function] = {}  # by the names of repairs


@dataclass(frozen=True, eq=False)
class Trained:
    """What a repair is told of one model, biased or not: what it was trained on, and a few labels of the cue."""

    network: nn.Module  #: a copy, in evaluation mode; `models.to_tensor` makes of pixels what it takes
    pictures: np.ndarray  #: (N, H, W, 3) uint8, its training images
    target: np.ndarray  #: (N,) int, the class of each, a number for each of its outputs
    rows: np.ndarray  #: (labels,) int, training images drawn at random, of which the cue is known
    cue: np.ndarray  #: (labels,) bool, whether these have the cue
    seed: int  #: torch's own random numbers start from it


@dataclass(frozen=True)
class Repair:
    """A repair by its name and file; `labels` is how many labels of the cue it can use, or is given."""

    name: str = ""  # of none
    labels: int = 0
    file: str = ""

    def fingerprint(self) -> str:
        """Of its source."""
        return sha256(Path(self.file)) if self.file else ""


def repair(*, name: str, labels: int) -> Callable[[_Function], _Function]:
    """Enters a function of a model (`Trained`) that gives a torch module with the same outputs.

    `labels` is how many labels of the cue it can use at most, 0 for none; another number is a `BiaslibError`.
    """
    check_number("labels", labels, 0, whole=True)

    def enter(function: _Function) -> _Function:
        file = Path(inspect.unwrap(function).__code__.co_filename).resolve()  # and not that of another decorator
        entries.entered.append(Repair(name, int(labels), str(file)))
        _functions[name] = function
        return function

    return enter


def calls(repairs: Sequence[Repair], trials: Sequence[Trial], budgets: Sequence[int]) -> list[tuple[Trial, Repair]]:
    """What `outcome` is asked: of each trial without a repair, and with each at each budget, or with all it can use."""
    if several := [trial.world for trial in trials if trial.place.outputs]:
        raise BiaslibError(f"Models of {several[0]} answer more than one question: repair those of another world.")
    given = dict.fromkeys(replace(each, labels=min(each.labels, most)) for each in repairs for most in sorted(budgets))
    return [(trial, each) for trial in trials for each in (Repair(), *given)]


@stored("repair", passes=lambda trial, repair: (trial.data.images + 2 * trial.test_images, 3))
def outcome(trial: Trial, repair: Repair) -> dict[str, float]:
    """`MEASURES` of a model after a repair, and the `seconds` that it took; see `numbers`."""
    table, tested, seconds = trial.recipe.table(), balanced(trial), 0.0
    network, truth, cue = recipes.load(trial.recipe), trial.truth(tested), trial.cue(tested)
    with torch.random.fork_rng():
        torch.manual_seed(trial.seed)
        try:
            if repair.file:
                module_of(Path(repair.file))
                rows = np.random.default_rng([_SEED, trial.seed]).permutation(len(table))[: repair.labels]
                pictures, target = trial.data.samples().images.copy(), table[trial.recipe.targets].to_numpy(int)
                told = Trained(network, pictures, target, rows, trial.cue(table)[rows], trial.seed)
                began = time.perf_counter()
                network = _functions[repair.name](told)
                seconds = time.perf_counter() - began
            logits = [
                training.predict(network, pixels) for pixels in _without_and_with(replace(trial, strength=0.0, seed=0))
            ]
        except Exception as error:  # whatever somebody else's function, or its module, raises
            raise refused("repair that stopped", name=repair.name, kind=type(error), why=reason(error)) from error
    shape = (trial.test_images, trial.recipe.training.outputs)
    if any(each.shape != shape or not np.isfinite(each).all() for each in logits):
        raise refused("repair with other outputs", name=repair.name, n=shape[0], outputs=shape[1])
    without, with_cue = (probability(trial.world, each) for each in logits)
    correct = (np.where(cue, with_cue, without) > 0.5) == truth
    changed = ((with_cue > 0.5) != (without > 0.5)).mean()
    worst = worst_group_accuracy(correct, 2 * truth + cue)
    measured = ((with_cue - without).mean(), changed, correct.mean(), worst)
    return dict(zip((*MEASURES, "seconds"), map(float, (*measured, seconds)), strict=True))


def numbers(repairs: Sequence[Repair], trials: Sequence[Trial], budgets: Sequence[int]) -> pd.DataFrame:
    """A row a model and repair: `world`, `strength`, `seed`, `repair` ("" for none), `labels`, `MEASURES`, `seconds`.

    On the balanced test images `effect` is the mean true effect of the cue on the probability of the target, in
    [-1, 1], as everywhere on the dial; `answers changed` the share of images whose answer changes with the cue;
    `accuracy` that of all, `worst group` that of the worst of the four groups of target and cue.
    """
    asked = calls(repairs, trials, budgets)
    recipes.train.many([trial.recipe for trial in trials])
    told = [(trial.world, trial.strength, trial.seed, each.name, each.labels) for trial, each in asked]
    return pd.DataFrame(told, columns=[*_MODEL, "repair", "labels"]).join(pd.DataFrame(outcome.many(asked)))


def summary(numbers: pd.DataFrame) -> pd.DataFrame:
    """A row a repair, budget and kind of models (`models`), with intervals over the `n` models; `seconds` are a mean.

    Kinds are a strength of a world, and the biased and the unbiased models of all worlds. Of each of `MEASURES` there
    is what it is after the repair and the paired `change of` it.
    """
    models = numbers.sort_values("repair", kind="stable").groupby(_MODEL)  # the first is without a repair
    changes = (numbers[[*MEASURES]] - models[[*MEASURES]].transform("first")).add_prefix("change of ")
    kinds = numbers["strength"].gt(0).map({True: "biased", False: "unbiased"})
    table, rows = numbers.join(changes).assign(models=numbers["strength"].map("strength {:g}".format)), []
    both = pd.concat([table.assign(world="all", models=kinds), table])
    for of, part in both.groupby(["repair", "labels", "world", "models"], sort=False):
        ends = {"effect": (-1, 1)} | dict.fromkeys(MEASURES[1:], (0, 1))  # of changes they are farther
        spans = {name: interval(part[name], bounds=ends.get(name, (-2, 2))) for name in (*MEASURES, *changes)}
        rows.append([*of, len(part), *spans.values(), part["seconds"].mean()])
    return pd.DataFrame(rows, columns=["repair", "labels", "world", "models", "n", *spans, "seconds"])


@functools.lru_cache(maxsize=2)
def _without_and_with(trial: Trial) -> list[np.ndarray]:
    """The balanced test images, all without the cue and all with it; kept for the next model of the world."""
    tables = [trial.edited(balanced(trial), there) for there in (0, 1)]
    return [trial.drawn_by.render(table, size=trial.data.size, regions=()).images for table in tables]
