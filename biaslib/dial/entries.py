"""Metrics of others: how they are entered, and what each may see of a model, by its tier of information."""

import functools
import importlib.metadata
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from biaslib import recipes
from biaslib.dial.catalogue import Metric
from biaslib.dial.measuring import Case, pictures, probability
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError, check_known, check_number, reason, refused
from biaslib.statistics.detection import Side
from biaslib.store.files import module_of

GROUP: Final = "biaslib.dial"  # of entry points: a package's metrics are found without an edit of ours
# what each tier adds, in words, and the names by which a metric finds it
TIERS: Final = (
    ("answers and labels of the target", ("truth", "answer", "score")),
    ("labels of the cue", ("cue",)),
    ("masks", ("mask",)),
    ("the network and its pictures", ("map", "pictures", "network", "score_of")),
    ("unbiased reference models", ("references",)),
    ("labels of the training images", ("train",)),
)
_TIER_OF: Final = {name: tier for tier, (_, names) in enumerate(TIERS) for name in names}
Function = Callable[["Seen"], Any]
entered: list[Any] = []  # by the files that are being read: metrics, or repairs


@dataclass(frozen=True, eq=False)
class Seen:
    """What a metric may see of one model on N test images, half of which have the cue in either class.

    Of tier 0 `truth` and `answer` (N,) bool, and `score` (N,), the probability of the target; from 1 on `cue` (N,)
    bool; from 2 on `mask(part)` (N, H, W) bool of the "object" or the "cue"; from 3 on `map` (N, h, w), Grad-CAM of the
    answer, `pictures` (N, H, W, 3) uint8, `network`, a torch module in evaluation mode, and `score_of(logits)`, the
    score (N,) that its logits (N, outputs) mean; from 4 on `references`, the same of the other unbiased models of its
    world; of tier 5 `train`, the `Labels` of its training images. What is of a higher tier is a `BiaslibError`.
    """

    _case: Case
    _tier: int
    _references: Sequence[Case] = ()

    def __getattr__(self, name: str) -> Any:
        if name not in _TIER_OF:
            raise AttributeError(f"A case has no {name!r}: it has {', '.join(_TIER_OF)}.")
        if _TIER_OF[name] > self._tier:
            words = TIERS[_TIER_OF[name]][0]
            raise refused("beyond the tier", name=name, words=words, own=self._tier, needed=_TIER_OF[name])
        case = self._case
        match name:
            case "score":
                return np.where(case.cue, case.probability[:, 1], case.probability[:, 0])
            case "pictures":
                return pictures(case.trial).images
            case "network":
                return recipes.load(case.trial.recipe)
            case "score_of":
                return functools.partial(probability, case.trial.world)
            case "references":
                return [Seen(other, self._tier) for other in self._references if other.trial != case.trial]
        return getattr(case, name)


@dataclass(frozen=True)
class Entry:
    """A metric of somebody else, as `metric` was told of it."""

    name: str
    tier: int
    side: Side
    passes: float
    function: Function
    seconds: list[float] = field(default_factory=list)  # that it took for each model it was asked about

    def of(self, case: Case, references: Sequence[Case] = ()) -> np.ndarray:
        """What it gives for a model, (1,) or a number an image, (N,); anything else is a `BiaslibError`."""
        began = time.perf_counter()
        try:
            value = np.asarray(self.function(Seen(case, self.tier, references)), dtype=float)
        except BiaslibError:
            raise
        except Exception as error:  # whatever somebody else's function raises
            raise refused("metric that stopped", name=self.name, kind=type(error), why=reason(error)) from error
        self.seconds.append(time.perf_counter() - began)
        if value.size != 1 and value.shape != case.truth.shape:
            raise refused("neither one number nor one an image", name=self.name, given=value.shape, n=len(case.truth))
        return value.reshape(-1)

    def as_metric(self, cases: Sequence[Case]) -> Metric:
        """As the dial's own are; the unbiased models among these are what it may see from tier 4 on."""
        kept: dict[Trial, np.ndarray] = {}

        def value(case: Case, rows: np.ndarray) -> float:
            if case.trial not in kept:
                alike = [other for other in cases if other.trial.world == case.trial.world and not other.trial.strength]
                kept[case.trial] = self.of(case, alike)
            drawn = kept[case.trial][rows % len(kept[case.trial])]
            return float(np.nanmean(drawn)) if np.isfinite(drawn).any() else float("nan")

        return Metric(self.name, f"tier {self.tier}", "", self.side, TIERS[self.tier][0], self.passes, value)


def metric(*, name: str, tier: int, side: Side, passes: float = 1.0) -> Callable[[Function], Function]:
    """Enters a function of a case (`Seen`) that gives a model's number, or a number for each test image, (N,).

    Args:
        name: words for it, on the board.
        tier: what it may see, 0 to 5, as `TIERS` has it: metrics are ranked within a tier.
        side: "above" or "below": where a biased model is expected. Say it before you measure.
        passes: forward passes an image, a backward pass counted as two.

    A `BiaslibError` is raised for another tier or side.
    """
    check_number("tier", tier, 0, len(TIERS) - 1, whole=True)
    check_known("side", side, get_args(Side))

    def enter(function: Function) -> Function:
        entered.append(Entry(str(name), int(tier), side, float(passes), function))
        return function

    return enter


def read(files: Sequence[Path], *, what: str = "metric") -> list[Any]:
    """Runs files, and gives what they enter, with what installed packages offer under the entry points `GROUP`.

    These are each an `Entry`, or where `what` is "repair" each a `repairing.Repair`. A `BiaslibError` is raised where a
    file cannot be run or enters none, and where two of them or two files have one name.
    """
    if len({file.name for file in files}) < len(files):
        raise BiaslibError("Two of the files have one name: rename one, as all are kept in one folder.")
    entered.clear()
    for file in files:
        before = len(entered)
        module_of(file)
        if not any(isinstance(each, Entry) == (what == "metric") for each in entered[before:]):
            raise BiaslibError(f"{file} enters no {what}: put @dial.{what}(...) over its function.")
    for point in importlib.metadata.entry_points(group=GROUP):
        point.load()
    found = [each for each in entered if isinstance(each, Entry) == (what == "metric")]
    names = [each.name for each in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BiaslibError(f"{twice[0]!r} is the name of two {what}s: give each its own.")
    return found
