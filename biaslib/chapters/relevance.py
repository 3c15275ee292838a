"""Where the maps of models with a planted bias lie, and whether biased and unbiased ones differ (Schaaf et al. 2021).

Tables here have a row a cell: use case, network, object, method and what the models were trained on. Intervals are
columns `estimate`, `low` and `high`, of 95 %, over models and images.
"""

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslib import metrics
from biaslib.attribution import METHODS
from biaslib.chapters.papers import reported
from biaslib.chapters.planted_models import WITH_TOOLBOX, EvaluationImages, PlantedSetup, maps, mean, pooled, regions
from biaslib.datasets import photos, registry
from biaslib.statistics import Interval, holm, kendall, welch
from biaslib.statistics.crossed import components, crossed_interval, crossed_welch
from biaslib.statistics.intervals import Comparison, percentile_ends
from biaslib.store import stored

BIASED, UNBIASED, SAW_BALLS = "biased", "unbiased", "saw balls"
_CELL: Final = ["use case", "network", "object", "trained", "method"]
_MEASURES: Final = ("rma", "rra")
_Cells = dict[tuple[str, ...], np.ndarray]  # of `_CELL` and a measure -> (models, images), NaN where there is no value


def scores(
    setups: Sequence[PlantedSetup], evaluation: EvaluationImages, boxes: bool | None, cells: int | None = None
) -> pd.DataFrame:
    """Relevance mass and rank accuracy, `rma` and `rra`, a row for each model, image, object and method.

    `boxes` as of `regions`. With `cells`, all maps are first averaged down to a grid of so many a side. `area` is the
    object's share of the image, which a map that knows nothing scores; `pixels` how many hold the map, as
    1 / sum(share^2) counts them; `correct`: the model is right.
    """
    maps(setups, evaluation)
    tables = _scores.many([(setup, evaluation, boxes, cells) for setup in setups])
    return pd.concat([table.assign(model=place) for place, table in enumerate(tables)], ignore_index=True)


def stand_ins() -> dict[str, str]:
    """Fruits that the photos do not show, with the words for what is there instead: {"Corn": "Lemon (for corn)"}."""
    there = photos.kinds(registry.root()).items()
    return {kind.capitalize(): f"{word} (for {kind})" for kind, word in there if word != photos.KINDS[kind][0]}


def compared(table: pd.DataFrame, *, seed: int) -> dict[str, pd.DataFrame]:
    """Everything that is recorded of `scores` with the columns `use case`, `network` and `trained`: of right answers.

    `means` of mass and rank; `pixels` that hold the maps of balls and apples; `tests` of biased less unbiased models,
    by Welch's test over images (the first model of each kind) and with models and images as samples; `contrasts`
    between methods on the same models and images; `alarms`, how often Welch's test tells unbiased models apart.
    """
    cells = _cells(table.assign(**{each: table[each].where(table["correct"]) for each in (*_MEASURES, "pixels")}))
    areas = table.groupby(["use case", "object"])["area"].mean()
    spans = pd.DataFrame(
        {**_row(key, crossed_interval(values, seed=seed, bounds=(0, bound))), "area": areas[key[0], key[2]]}
        for key, values in cells.items()
        for bound in [np.inf if key[-1] == "pixels" else 1]
        if key[-1] != "pixels" or key[2] in ("Ball", "Apple")
    )
    counted = spans["measure"] == "pixels"
    use_cases = dict.fromkeys(key[0] for key in cells)
    return {
        "means": spans[~counted].reset_index(drop=True),
        "pixels": spans[counted].drop(columns="area").reset_index(drop=True),
        "tests": _tests(cells, _cells(table)),
        "contrasts": pd.DataFrame([*_contrasts(cells, seed), *_between_fruits(cells, seed)]),
        "alarms": pd.DataFrame({"use case": each, **_alarms(cells, each, seed)} for each in use_cases),
    }


def _cells(table: pd.DataFrame) -> _Cells:
    return {
        (*map(str, key), measure): part.pivot_table(measure, "model", "image", dropna=False).to_numpy(float)
        for key, part in table.groupby(_CELL, sort=False)
        for measure in (*_MEASURES, "pixels")
    }


def _row(key: Sequence[str], span: Interval | Comparison, **more: Any) -> dict[str, Any]:
    """What a cell is, more about it, and an interval."""
    estimate = span.estimate if isinstance(span, Interval) else span.difference
    named = dict(zip([*_CELL, "measure"], key, strict=True))
    return named | more | {"estimate": estimate, "low": span.low, "high": span.high}


def _tests(cells: _Cells, answers: _Cells) -> pd.DataFrame:
    """Biased less unbiased models; `all answers`: the difference where wrong ones count as well."""
    printed = reported.printed("schaaf-p-values").set_index(["use_case", "network", "object", "method", "measure"])["p"]
    rows = []
    for key in (key for key in cells if key[3] == BIASED and key[-1] in _MEASURES):
        use_case, network, object_, _, method, measure = key
        other = (*key[:3], UNBIASED, *key[4:])
        crossed = crossed_welch(cells[key], cells[other])
        in_paper = object_.partition("(for ")[2].rstrip(")").capitalize() or object_  # another fruit may stand in
        p = {
            "paper's p": printed.get((use_case, reported.family(network), in_paper, method, measure), np.nan),
            "one model each, p": welch(cells[key][0], cells[other][0]).p,
        }
        without = mean(answers[key]) - mean(answers[other])
        rows.append({**_row(key, crossed, **p), "d": crossed.effect_size, "all answers": without, "p": crossed.p})
    tests = pd.DataFrame(rows)
    tests["p, corrected"] = tests.groupby("use case")["p"].transform(holm)
    return tests.drop(columns="p")


def _contrasts(cells: _Cells, seed: int) -> list[dict[str, Any]]:
    """Between methods; and the ball's mass in models that never saw one less that in those that saw them anywhere."""
    rows = []
    for *at, method, measure in cells:
        if at[3] == SAW_BALLS or method != "Grad-CAM" or measure not in _MEASURES:
            continue
        of = np.stack([cells[(*at, each, measure)] for each in METHODS])  # two with coarse maps, two with fine ones
        differences = {
            f"{each} less the others": of[place] - np.delete(of, place, axis=0).mean(axis=0)
            for place, each in enumerate(METHODS)
            if place < 2
        }
        differences["pixelwise less CAMs"] = of[2:].mean(axis=0) - of[:2].mean(axis=0)
        shared = np.where(np.isnan(of).any(axis=0), np.nan, of)
        if np.isfinite(shared).any():
            order = np.argsort(np.nanmean(shared, axis=(1, 2)))
            differences["range of the methods"] = shared[order[-1]] - shared[order[0]]
        for what, values in differences.items():
            rows.append(_row((*at, "", measure), crossed_interval(values, seed=seed, bounds=(-1, 1)), what=what))
        for each in METHODS if measure == "rma" else ():
            pair = [cells[(*at, each, name)] for name in _MEASURES]
            seen = ~np.isnan(pair).all(axis=1).any(axis=0)  # by both
            tau = kendall(*(np.nanmean(part[:, seen], axis=0) for part in pair), seed=seed, resamples=300)
            rows.append(_row((*at, each, "tau"), tau, what="RMA and RRA"))
    for key, saw in cells.items():
        if key[2:4] == ("Ball", SAW_BALLS) and key[-1] == "rma":
            never = (*key[:3], UNBIASED, *key[4:])
            rows.append(_row(never, crossed_welch(cells[never], saw), what="never saw less saw"))
    return rows


def _between_fruits(cells: _Cells, seed: int) -> list[dict[str, Any]]:
    """By how much mass differs more between fruits, as a standard deviation, in MobileNet than in EfficientNet."""
    of_family = {reported.family(key[1]): key[1] for key in cells if key[0] == "fruits"}
    networks = [of_family.get(family) for family in ("MobileNet", "EfficientNet")]
    rows = []
    for kind, method in product((BIASED, UNBIASED), METHODS if all(networks) else ()):
        wanted = [("fruits", network, kind, method, "rma") for network in networks]
        fruits = [[cells[key] for key in cells if (*key[:2], *key[3:]) == each] for each in wanted]
        rng, spreads = np.random.default_rng(seed), []
        for draw in range(301):
            # the same models see all fruits, each its own images
            models = _drawn([len(values[0]) for values in fruits], draw, rng)
            means = [
                [mean(values[np.ix_(rows, *_drawn(values.shape[1:], draw, rng))]) for values in each]
                for rows, each in zip(models, fruits, strict=True)
            ]
            spreads.append(np.subtract(*np.std(means, axis=1, ddof=1)))
        span = Interval(spreads[0], *percentile_ends(np.array(spreads[1:])), len(fruits))
        what = "spread between fruits, MobileNet less EfficientNet"
        rows.append(_row(("fruits", "", "", kind, method, "rma"), span, what=what))
    return rows


def _alarms(cells: _Cells, use_case: str, seed: int) -> dict[str, float]:
    """The share of p < 0.05 in Welch's tests over images of two unbiased models, with an interval over models.

    And the share that the components of variance of the middle test give for the paper's images of one object.
    """
    wanted, computed, images = reported.images_a_test()[use_case], [], []
    pairs: dict[str, Any] = {}  # of each network's models: how many tests are significant, of how many; (2, M, M)
    for key, values in cells.items():
        if key[0] != use_case or key[3] != UNBIASED or key[4] not in METHODS or key[-1] not in _MEASURES:
            continue
        p = np.full((len(values), len(values)), np.nan)  # a model is no pair with itself
        for a, b in combinations(range(len(values)), 2):
            p[a, b] = p[b, a] = welch(values[a], values[b]).p
        pairs[key[1]] = pairs.get(key[1], 0) + np.stack([p < 0.05, p <= 1])
        part = components(values)
        computed.append(alarm_rate(part.models, part.images, part.rest, wanted))
        images.append((~np.isnan(values)).any(axis=0).sum())
    rng, rates = np.random.default_rng(seed), []
    for draw in range(501):
        models = _drawn([table.shape[1] for table in pairs.values()], draw, rng)
        drawn = (table[:, rows[:, None], rows] for table, rows in zip(pairs.values(), models, strict=True))
        hits, tests = np.sum([table.sum(axis=(1, 2)) for table in drawn], axis=0)
        rates.append(hits / tests if tests else np.nan)
    low, high = percentile_ends(np.array(rates[1:]))
    middle = pd.Series(computed, dtype=float).dropna().median()  # each is noisy, and a mean of them too large
    n = sum(int(table[1].sum()) for table in pairs.values()) // 2
    counts = {"n": n, "images": int(np.median(images)), "paper's images": wanted}
    return {"estimate": rates[0], "low": low, "high": high, **counts, "at the paper's": middle}


def _drawn(sizes: Sequence[int], draw: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Which of so many models or images a resample of a bootstrap holds; the first, 0, holds each of them once."""
    return [rng.integers(0, n, n) if draw else np.arange(n) for n in sizes]


def alarm_rate(models: float, images: float, rest: float, n: int) -> float:
    """How often Welch's test over n images calls two models different that were trained alike, at a level of 0.05.

    By the components of variance of models, images and the rest, which `statistics.crossed.components` estimates; with
    many images. NaN where they are, 0 where the two models cannot differ.
    """
    between, within = models + rest / n, (images + rest) / n
    return float(2 * norm.sf(norm.isf(0.025) * np.sqrt(within / between))) if between != 0 else 0.0


@stored("planted-scores")
def _scores(setup: PlantedSetup, evaluation: EvaluationImages, boxes: bool | None, cells: int | None) -> pd.DataFrame:
    made, tables = maps([setup], evaluation)[0], []
    correct = made["logits"].argmax(axis=1) == made["truth"]
    for name, (rows, masks) in regions(setup.use_case, evaluation.samples(setup), boxes).items():
        for method in WITH_TOOLBOX:
            kept = made[method][rows]
            if cells is not None:  # pixels are repeated until each lies in one cell: `pooled` counts a shared one twice
                times = math.lcm(kept.shape[1], cells) // kept.shape[1]
                kept = pooled(kept.repeat(times, axis=1).repeat(times, axis=2), cells)
            fine = metrics.upsample_maps(kept, *masks.shape[1:])
            mass, rank = metrics.relevance_mass_accuracy(fine, masks), metrics.relevance_rank_accuracy(fine, masks)
            squares = np.sum(np.square(fine, dtype=float), axis=(1, 2))
            pixels = np.sum(fine, axis=(1, 2), dtype=float) ** 2 / np.where(squares > 0, squares, np.nan)
            scored = {"image": rows, "object": name, "method": method, "rma": mass, "rra": rank, "pixels": pixels}
            tables.append(pd.DataFrame(scored | {"area": masks.mean(axis=(1, 2)), "correct": correct[rows]}))
    return pd.concat(tables, ignore_index=True)
