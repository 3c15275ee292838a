"""Where the maps of models with a planted bias lie, and whether biased and unbiased ones differ (Schaaf et al. 2021).

Tables here have a row a cell: use case, network, object, method and what the models were trained on. Intervals are
columns `estimate`, `low` and `high`, of 95 %, over models and images.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslib import metrics
from biaslib.attribution import METHODS
from biaslib.chapters.papers import reported
from biaslib.chapters.planted_models import (
    WITH_TOOLBOX,
    EvaluationImages,
    Outline,
    PlantedSetup,
    maps,
    regions,
)
from biaslib.datasets import photos, registry
from biaslib.statistics import Interval, holm, kendall, welch
from biaslib.statistics.crossed import components, crossed_interval, crossed_welch
from biaslib.statistics.intervals import Comparison, percentile_ends
from biaslib.store import stored

BIASED, UNBIASED, SAW_BALLS = KINDS = "biased", "unbiased", "saw balls"
CAMS, PIXELWISE = ["Grad-CAM", "Score-CAM"], ["Integrated gradients", "ε-LRP"]
_CELL: Final = ["use case", "network", "object", "trained", "method"]
_MEASURES: Final = ("rma", "rra")
_Cells = dict[tuple[str, ...], np.ndarray]  # of `_CELL` and a measure -> (models, images), NaN where there is no value


def scores(setups: Sequence[PlantedSetup], evaluation: EvaluationImages, outline: Outline) -> pd.DataFrame:
    """Relevance mass and rank accuracy, `rma` and `rra`, a row for each model, image, object and method.

    `area` is the object's share of the image, which a map that knows nothing scores; `pixels` how many hold the map, as
    1 / sum(share^2) counts them; `correct`: the model is right.
    """
    maps(setups, evaluation)
    tables = _scores.many([(setup, evaluation, outline) for setup in setups])
    return pd.concat([table.assign(model=place) for place, table in enumerate(tables)], ignore_index=True)


def stand_ins(source: str) -> dict[str, str]:
    """Fruits that the photos do not show, with the words for what is there instead: {"Corn": "Lemon (for corn)"}."""
    if source == "generated":
        return {}
    with warnings.catch_warnings(action="ignore", category=registry.DatasetWarning):  # loading the photos gives it
        there = photos.kinds(registry.root()).items()
    return {kind.capitalize(): f"{word} (for {kind})" for kind, word in there if word != photos.KINDS[kind][0]}


def compared(table: pd.DataFrame, *, correct_only: bool, seed: int) -> dict[str, pd.DataFrame]:
    """Everything that is recorded of `scores` with the columns `use case`, `network` and `trained` (of `KINDS`).

    `means` of mass and rank; `pixels` that hold the maps of balls and apples; `tests` of biased less unbiased models,
    by Welch's test over images (the first model of each kind) and with models and images as samples; `contrasts`
    between methods on the same models and images; `alarms`, how often Welch's test tells unbiased models apart.
    """
    known = [*_MEASURES, "pixels"]
    answers = _cells(table)
    cells = _cells(table.assign(**{each: table[each].where(table["correct"]) for each in known}))
    cells = cells if correct_only else answers
    areas = table.groupby(["use case", "object"])["area"].mean()
    means = [
        {**_named(key), **_over_both(values, seed), "area": areas[key[0], key[2]]}
        for key, values in cells.items()
        if key[-1] != "pixels"
    ]
    pixels = [
        {**_named(key), **_over_both(values, seed, (0, np.inf))}
        for key, values in cells.items()
        if key[-1] == "pixels" and key[2] in ("Ball", "Apple")
    ]
    printed = reported.printed("schaaf-p-values").set_index(["use_case", "network", "object", "method", "measure"])["p"]
    biased = [key for key in cells if key[3] == BIASED and key[-1] in _MEASURES]
    tests = pd.DataFrame(_test(cells, answers, printed, key) for key in biased)
    tests["p, corrected"] = tests.groupby("use case")["p"].transform(holm)
    contrasts = [*_between_methods(cells, seed), *_novelty(cells), *_between_fruits(cells, seed)]
    use_cases = dict.fromkeys(key[0] for key in cells)
    return {
        "means": pd.DataFrame(means),
        "pixels": pd.DataFrame(pixels),
        "tests": tests.drop(columns="p"),
        "contrasts": pd.DataFrame(contrasts).fillna({name: "" for name in _CELL}),
        "alarms": pd.DataFrame({"use case": each, **_alarms(cells, each, seed)} for each in use_cases),
    }


def _cells(table: pd.DataFrame) -> _Cells:
    found = {}
    for key, part in table.groupby(_CELL, sort=False):
        for measure in (*_MEASURES, "pixels"):
            found[(*key, measure)] = part.pivot_table(measure, "model", "image", dropna=False).to_numpy(float)
    return found


def _named(key: Sequence[str]) -> dict[str, str]:
    return dict(zip([*_CELL, "measure"], key, strict=True))


def _ends(span: Interval | Comparison) -> dict[str, float]:
    estimate = span.estimate if isinstance(span, Interval) else span.difference
    return {"estimate": estimate, "low": span.low, "high": span.high}


def _over_both(values: np.ndarray, seed: int, bounds: tuple[float, float] = (0, 1)) -> dict[str, float]:
    return _ends(crossed_interval(values, seed=seed, bounds=bounds))


def _test(cells: _Cells, answers: _Cells, printed: pd.Series, key: tuple[str, ...]) -> dict[str, Any]:
    """Biased less unbiased models; `all answers`: the difference where wrong ones count as well."""
    use_case, network, object_, _, method, measure = key
    other = (*key[:3], UNBIASED, *key[4:])
    crossed = crossed_welch(cells[key], cells[other])
    in_paper = object_.partition("(for ")[2].rstrip(")").capitalize() or object_  # a fruit that stands in for another
    return {
        **_named(key),
        "paper's p": printed.get((use_case, reported.family(network), in_paper, method, measure), np.nan),
        "one model each, p": welch(cells[key][0], cells[other][0]).p,
        **_ends(crossed),
        "d": crossed.effect_size,
        "p": crossed.p,
        "all answers": _mean(answers[key]) - _mean(answers[other]),
    }


def _between_methods(cells: _Cells, seed: int) -> list[dict[str, Any]]:
    rows = []
    for key in (key for key in cells if key[3] != SAW_BALLS and key[4] == "Grad-CAM" and key[-1] in _MEASURES):
        of = {method: cells[(*key[:4], method, key[-1])] for method in METHODS}
        at = {name: value for name, value in _named(key).items() if name != "method"}
        differences = {
            f"{method} less the others": of[method]
            - np.mean([of[other] for other in METHODS if other != method], axis=0)
            for method in CAMS
        }
        sides = [np.mean([of[method] for method in side], axis=0) for side in (PIXELWISE, CAMS)]
        differences["pixelwise less CAMs"] = sides[0] - sides[1]
        shared = np.stack(list(of.values()))
        shared[:, np.isnan(shared).any(axis=0)] = np.nan
        if np.isfinite(shared).any():
            order = np.argsort(np.nanmean(shared, axis=(1, 2)))
            differences["range of the methods"] = shared[order[-1]] - shared[order[0]]
        rows += [{"what": what, **at, **_over_both(each, seed, (-1, 1))} for what, each in differences.items()]
        if key[-1] == "rma":
            for method, mass in of.items():
                seen = ~np.isnan(mass).all(axis=0)
                pair = [np.nanmean(each[:, seen], axis=0) for each in (mass, cells[(*key[:4], method, "rra")])]
                span = kendall(*pair, seed=seed, resamples=300)
                rows.append({"what": "RMA and RRA", **at, "measure": "tau", "method": method, **_ends(span)})
    return rows


def _novelty(cells: _Cells) -> list[dict[str, Any]]:
    """Mass on the ball of models that never saw one less that of models that saw them beside half of the pets."""
    return [
        {
            **_named((*key[:3], UNBIASED, *key[4:])),
            "what": "never saw less saw",
            **_ends(crossed_welch(cells[(*key[:3], UNBIASED, *key[4:])], values)),
        }
        for key, values in cells.items()
        if key[2:4] == ("Ball", SAW_BALLS) and key[-1] == "rma"
    ]


def _between_fruits(cells: _Cells, seed: int) -> list[dict[str, Any]]:
    """By how much mass differs more between fruits, as a standard deviation, in MobileNet than in EfficientNet."""
    of_family = {reported.family(key[1]): key[1] for key in cells if key[0] == "fruits"}
    if not {"MobileNet", "EfficientNet"} <= set(of_family):
        return []

    def spread(network: str, kind: str, method: str, draw: Callable[[np.ndarray], np.ndarray]) -> float:
        wanted = ("fruits", network, kind, method, "rma")
        parts = [draw(values) for key, values in cells.items() if (*key[:2], *key[3:]) == wanted]
        known = [part[np.isfinite(part)] for part in parts]
        return float(np.std([part.mean() if len(part) else np.nan for part in known], ddof=1))

    rows = []
    for kind, method in ((kind, method) for kind in (BIASED, UNBIASED) for method in METHODS):
        rng = np.random.default_rng(seed)

        def again(values: np.ndarray, rng: np.random.Generator = rng) -> np.ndarray:
            return np.asarray(values[np.ix_(*(rng.integers(0, n, n) for n in values.shape))])

        draws = np.array(
            [
                spread(of_family["MobileNet"], kind, method, draw)
                - spread(of_family["EfficientNet"], kind, method, draw)
                for draw in (np.asarray, *[again] * 300)
            ]
        )
        low, high = _percentiles(draws[1:])
        at = {"use case": "fruits", "trained": kind, "method": method, "measure": "rma"}
        what = "spread between fruits, MobileNet less EfficientNet"
        rows.append({"what": what, **at, "estimate": draws[0], "low": low, "high": high})
    return rows


def _alarms(cells: _Cells, use_case: str, seed: int) -> dict[str, float]:
    """The share of p < 0.05 in Welch's tests over images of two unbiased models, with an interval over models.

    And the share that the components of variance of the middle test give for the paper's images of one object.
    """
    tried = {
        key: values
        for key, values in cells.items()
        if key[0] == use_case and key[3] == UNBIASED and key[4] in METHODS and key[-1] in _MEASURES
    }
    wanted = reported.images_a_test()[use_case]
    tables: dict[str, list[np.ndarray]] = {}
    computed = []
    for key, values in tried.items():
        p = np.full((len(values), len(values)), np.nan)  # a model is no pair with itself
        for a, b in combinations(range(len(values)), 2):
            p[a, b] = p[b, a] = welch(values[a], values[b]).p
        tables.setdefault(key[1], []).append(np.where(np.isnan(p), np.nan, p < 0.05))
        part = components(values)
        computed.append(alarm_rate(part.models, part.images, part.rest, wanted))
    rng = np.random.default_rng(seed)
    rates = []
    for draw in range(501):
        drawn = []
        for of_network in tables.values():
            n = len(of_network[0])
            rows = rng.integers(0, n, n) if draw else np.arange(n)
            drawn += [part[np.ix_(rows, rows)].ravel() for part in of_network]
        rates.append(_mean(np.concatenate(drawn)))
    low, high = _percentiles(np.array(rates[1:]))
    pairs = sum(int(np.isfinite(part).sum()) for of_network in tables.values() for part in of_network) // 2
    images = np.median([(~np.isnan(values)).any(axis=0).sum() for values in tried.values()])
    known = [rate for rate in computed if np.isfinite(rate)]  # each is noisy, and a mean of them too large
    middle = float(np.median(known)) if known else np.nan
    counts = {"n": pairs, "images": int(images), "paper's images": wanted}
    return {"estimate": rates[0], "low": low, "high": high, **counts, "at the paper's": middle}


def alarm_rate(models: float, images: float, rest: float, n: int) -> float:
    """How often Welch's test over n images calls two models different that were trained alike, at a level of 0.05.

    By the components of variance of models, images and the rest, which `statistics.crossed.components` estimates; with
    many images. NaN where they are, 0 where the two models cannot differ.
    """
    between, within = models + rest / n, (images + rest) / n
    return float(2 * norm.sf(norm.isf(0.025) * np.sqrt(within / between))) if between != 0 else 0.0


def _percentiles(draws: np.ndarray) -> tuple[float, float]:
    finite = draws[np.isfinite(draws)]
    return percentile_ends(finite) if len(finite) else (np.nan, np.nan)


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


@stored("planted-scores")
def _scores(setup: PlantedSetup, evaluation: EvaluationImages, outline: Outline) -> pd.DataFrame:
    """The rows of one model."""
    made, tables = maps([setup], evaluation)[0], []
    correct = made["logits"].argmax(axis=1) == made["truth"]
    for name, (rows, masks) in regions(setup.use_case, evaluation.samples(setup), outline).items():
        for method in WITH_TOOLBOX:
            fine = _enlarged(made[method][rows], masks.shape[1:], cells=outline.cells)
            mass, rank = metrics.relevance_mass_accuracy(fine, masks), metrics.relevance_rank_accuracy(fine, masks)
            scored = {"image": rows, "object": name, "method": method, "rma": mass, "rra": rank}
            scored |= {"pixels": _effective_pixels(fine), "area": masks.mean(axis=(1, 2)), "correct": correct[rows]}
            tables.append(pd.DataFrame(scored))
    return pd.concat(tables, ignore_index=True)


def _effective_pixels(maps: np.ndarray) -> np.ndarray:
    """(N,) how many pixels would hold as much of each other's relevance; NaN for a map of nothing."""
    sums = np.sum(maps, axis=(1, 2), dtype=float)
    shares = maps / np.where(sums > 0, sums, np.nan)[:, None, None]
    return np.asarray(1 / np.sum(shares**2, axis=(1, 2)))


def _enlarged(coarse: np.ndarray, size: tuple[int, ...], *, cells: bool) -> np.ndarray:
    times = size[0] // coarse.shape[1]
    if not cells or times * coarse.shape[1] != size[0]:
        return metrics.upsample_maps(coarse, *size)
    return coarse.repeat(times, axis=1).repeat(times, axis=2)
