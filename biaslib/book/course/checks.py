"""What the exercises of the labs are checked by: the same question about other data, and what misconceptions give.

The data are drawn from an exercise's name, so that no page holds them. The sentences lie in `checks.toml`, by exercise
and misconception: `right` is what a right answer hears, and those of `any` fit every exercise.
"""

import tomllib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import special, stats

from biaslib import worlds
from biaslib.errors import BiaslibError, check_known
from biaslib.metrics import attention_iou
from biaslib.statistics import gap_power, holm, minimum_detectable_gap, welch

TEXTS: Final = tomllib.loads(Path(__file__).with_name("checks.toml").read_text(encoding="utf-8"))
_Answer = Callable[..., Any]
_Steps = Iterator[tuple[Any, str, dict[str, Any]]]  # what has to hold, the misconception if it does not, words about it


class NotYet(BiaslibError):
    """An answer that is not right: one sentence says what it does, `misconception` names it."""

    def __init__(self, sentence: str, misconception: str) -> None:
        super().__init__(sentence)
        self.misconception = misconception

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows in place of a traceback."""
        return [f"Not yet. {self}"]


def check(label: str, answer: _Answer) -> None:
    """Tries a reader's function on data of the exercise's own, and says so if it is right.

    A `NotYet` says in one sentence what a wrong one does; an exercise that there is not is a `BiaslibError`.
    """
    check_known("the exercise", label, _CHECKS)
    sentences = TEXTS["any"] | TEXTS[label]
    words: dict[str, Any] = {}
    for holds, misconception, more in _CHECKS[label](answer, np.random.default_rng(zlib.crc32(label.encode()))):
        words |= more
        if not holds:
            raise NotYet(sentences[misconception].format(**words), misconception)
    print(f"{label}: right. {sentences['right'].format(**words)}")


def _equal(got: Any, wanted: Any, *, within: float = 1e-9, **misconceptions: Any) -> _Steps:
    """An answer is the right one; else it is held against what each misconception gives."""
    yield from _shaped(got, np.shape(wanted))
    if not _same(got, wanted, within):
        values = {"got": got, "wanted": wanted}
        words = {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in values.items()}
        for name, value in misconceptions.items():
            yield not _same(got, value, within), name, words
        yield False, "value", words


def _shaped(got: Any, shape: tuple[int, ...]) -> _Steps:
    yield got is not None, "nothing", {}
    yield np.shape(got) == shape, "shape", {"got": np.shape(got), "wanted": shape}


def _probabilities(got: Any, n: int) -> _Steps:
    yield from _shaped(got, (n,))
    yield np.all((got >= 0) & (got <= 1)), "no_probability", {"low": np.min(got), "high": np.max(got)}


def _same(a: Any, b: Any, within: float) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=0, atol=within)


def _birds(rng: np.random.Generator, n: int, strength: float) -> pd.DataFrame:
    return worlds.get("birds").factors(n, strength=strength, seed=int(rng.integers(1000)))


def _effect(answer: _Answer, rng: np.random.Generator) -> _Steps:
    table, (base, slope) = _birds(rng, 200, 0.7), rng.uniform([0.3, 2.0], [0.6, 4.0])

    def model(rows: pd.DataFrame) -> pd.Series:
        return special.expit(2.0 * rows["waterbird"] - 1 + rows["background"] * (base + slope * rows["tilt"]))

    effect = model(table.assign(background=1)) - model(table.assign(background=0))
    land, water = model(table).groupby(table["background"]).mean()
    wrong = {"other_birds": water - land, "reversed": -effect.mean(), "absolute": effect.abs().mean()}
    given = table.copy()
    yield from _equal(answer(model, given), effect.mean(), **wrong)
    yield given.equals(table), "table_changed", {}


def _gap(answer: _Answer, rng: np.random.Generator) -> _Steps:
    table, scale = _birds(rng, 400, 0.6), rng.uniform(0, 0.4, 400)
    # from far away in their unusual place
    table = table.assign(scale=scale + 0.6 * (table["waterbird"] == table["background"]))
    answers, elsewhere = answer(table), answer(table.assign(background=1 - table["background"]))
    yield from _probabilities(answers, 400)
    moved = np.mean(np.asarray(answers) != np.asarray(elsewhere))
    yield moved == 0, "uses_background", {"moved": moved}
    right = (answers > 0.5) == table["waterbird"]
    yield right.mean() > 0.7, "guess", {"right": right.mean()}
    accuracies = right.groupby([table["waterbird"], table["background"]]).mean()
    yield accuracies.max() - accuracies.min() > 0.2, "no_gap", {"worst": accuracies.min(), "best": accuracies.max()}


def _cancel(answer: _Answer, rng: np.random.Generator) -> _Steps:
    table = _birds(rng, 1000, 0.0)
    water, again, land = (answer(table.assign(background=place)) for place in (1, 1, 0))
    for answers in (water, land):
        yield from _probabilities(answers, 1000)
    yield np.array_equal(water, again), "by_chance", {}
    changed, mean = np.mean((water > 0.5) != (land > 0.5)), np.mean(water - land)
    yield changed > 0.45, "unmoved", {"changed": changed}
    yield abs(mean) < 0.1, "one_way", {"mean": mean}


def _flat(answer: _Answer, rng: np.random.Generator) -> _Steps:
    heat, mask = rng.exponential(size=(7, 7)) ** 2, np.zeros((7, 7), bool)
    mask[1:4, 2 : rng.integers(4, 7)] = True
    inside = heat[mask].sum() / heat.sum()
    yield from _equal(answer(heat, mask), inside / mask.mean(), no_baseline=inside, per_cell=inside / mask.sum())


def _reason(answer: _Answer, rng: np.random.Generator) -> _Steps:
    mouth = np.pad(np.ones((2, 4)), ((5, 1), (2, 2)))
    full = np.stack([1 - np.eye(65, 64).reshape(65, 8, 8)] * 2, axis=-1)
    lipstick, *smiles = rng.random((3, 60, 1, 1))
    faces, other_smiles = (np.stack([mouth * lipstick, mouth * smile], axis=-1) for smile in smiles)
    yield from _shaped(answer(faces), (60,))
    *without, whole = answer(full)  # the last one has lost no cell
    score = np.nan_to_num(attention_iou(np.abs(whole - without).reshape(8, 8), mouth))
    yield score > 0.99, "other_place", {"score": score}
    yield np.corrcoef(answer(faces), lipstick.ravel())[0, 1] < 0.9, "same_reason", {}
    yield not _same(answer(faces), answer(other_smiles), within=1e-9), "lipstick_alone", {}


def _unit(answer: _Answer, rng: np.random.Generator) -> _Steps:
    first, second = rng.normal(size=(2, 4, 1)) + rng.normal(size=(2, 4, 50))
    networks, images = ((first.mean(axis=axis), second.mean(axis=axis)) for axis in (1, 0))
    wrong = {"all_images": welch(first.ravel(), second.ravel()).p, "over_networks": welch(*images).p}
    yield from _equal(answer(first, second), welch(*networks).p, **wrong, paired=stats.ttest_rel(*networks).pvalue)


def _share(answer: _Answer, rng: np.random.Generator) -> _Steps:
    attributes, groups = rng.choice([True, True, False], (200, 4)), rng.integers(0, 3, 200)
    members, group = [0, int(rng.integers(1, 4))], int(rng.integers(3))
    every, some = (np.array(of(attributes[:, members], axis=1)) for of in (np.all, np.any))
    wrong = {"any_member": (groups[some] == group).mean(), "reversed": every[groups == group].mean()}
    yield from _equal(answer(attributes, groups, members, group), (groups[every] == group).mean(), **wrong)


def _permute(answer: _Answer, rng: np.random.Generator) -> _Steps:
    true, groups = rng.random(2000) < 0.4, rng.integers(0, 2, 2000)
    predicted = np.where(groups == 1, rng.random(2000) < 0.5, true)  # all errors are about one group
    after = answer(true, predicted.copy(), groups, rng)
    yield from _shaped(after, (2000,))
    yield not np.array_equal(after, predicted), "unchanged", {}
    before, now = ([said[true == value].mean() for value in (False, True)] for said in (predicted, after))
    yield np.allclose(before, now), "rates_change", {"before": before[0], "now": now[0]}
    first, second = ((after != true)[groups == group].mean() for group in (0, 1))
    yield abs(first - second) < 0.1, "keeps_group", {"first": first, "second": second}


def _wins(answer: _Answer, rng: np.random.Generator) -> _Steps:
    groups = rng.integers(0, 2, 1000)
    true = rng.random(1000) < np.where(groups == 1, 0.3, 0.7)
    predicted = true ^ (rng.random(1000) < 0.1)
    after = answer(predicted.copy(), groups)
    yield from _shaped(after, (1000,))
    before, now = (abs(said[groups == 0].mean() - said[groups == 1].mean()) for said in (predicted, after))
    words = {"before": before, "now": now, "right": (predicted == true).mean(), "left": (after == true).mean()}
    yield now < before + 0.05, "gap_grows", words
    yield now < before / 2, "gap_stays", words


def _power(answer: _Answer, rng: np.random.Generator) -> _Steps:
    for n in (60, 200):
        accuracy = float(rng.uniform(0.85, 0.95))
        gap = minimum_detectable_gap(accuracy, n, n)
        right, no_gap = (gap_power(accuracy, n, accuracy - each, n) for each in (gap, 0))
        yield from _equal(answer(accuracy, gap, n, rng), right, within=0.05, misses=1 - right, no_gap=no_gap)


def _holm(answer: _Answer, rng: np.random.Generator) -> _Steps:
    n = int(rng.integers(12, 20))
    limits, order = 0.05 / np.arange(n, 0, -1), rng.permutation(n)
    p = np.sort(rng.uniform(limits[-3], limits[-1], n))
    p[:2] = limits[0] / 10, limits[1] * 0.99  # the second lies above Bonferroni's limit
    found = {"uncorrected": p <= 0.05, "bonferroni": p <= limits[0], "no_stop": p <= limits}
    yield from _equal(answer(p[order]), holm(p[order]) <= 0.05, **{name: said[order] for name, said in found.items()})


def _verdict(answer: _Answer, rng: np.random.Generator) -> _Steps:
    margin = float(rng.uniform(0.04, 0.06))
    for right, low, high in _SPANS:
        by_zero, by_middle = "smaller" if low < 0 < high else "larger", "larger" if low + high > 2 else "smaller"
        got = answer(low * margin, high * margin, margin)
        yield from _equal(got, right, not_significant=by_zero, middle_only=by_middle)


# verdicts and intervals, in margins
_SPANS = [("larger", 1.5, 4.0), ("larger", 1.1, 9.0), ("smaller", -0.4, 0.6), ("smaller", 0.1, 0.8)]
_SPANS += [("cannot tell", -1.0, 3.2), ("cannot tell", 0.2, 1.4)]
_LABS = ((_effect, _gap, _cancel), (_flat, _reason, _unit), (_share, _permute, _wins), (_power, _holm, _verdict))
_CHECKS = {f"lab-{at}-{each.__name__[1:]}": each for at, part in enumerate(_LABS, start=1) for each in part}
