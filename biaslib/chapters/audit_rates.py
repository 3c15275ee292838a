"""How often a report of an audit is wrong: models of the dial are audited by somebody who is told nothing of them.

Each model gets pictures of its own, in which target, cue and all else are independent. What its reports say is held
against what is true of it: the exact effect of the cue, and gaps in accuracy among many more pictures. The unit is the
model: none is audited on a second set of pictures.
"""

import functools
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import scipy.stats
from PIL import Image

from biaslib import audit, recipes, training
from biaslib.dial.measuring import probability
from biaslib.dial.trials import Trial
from biaslib.errors import check_known
from biaslib.samples import Samples
from biaslib.statistics import Interval
from biaslib.store import stored

# of each world, what an auditor asks about beside the cue: no model is taught to lean on it
_OTHERS: Final = {
    "birds": ("facing", "light"),
    "digits": ("top_right",),
    "pets": ("facing", "light"),
    "faces": ("Smiling", "Eyeglasses"),
}
_SEED: Final = 5_000_000  # of the audited pictures; those that truth is counted on have the one before
_PAIRS: Final = 1000  # pictures that are drawn with the cue and without it
_CLEAR: Final = 0.03  # a true gap decides about an outcome where it is further from the margin
BANDS: Final = ("less", "about 0.05", "about 0.1", "about 0.2", "more")  # of the size of the true effect of a cue
_EDGES: Final = (0.0, 0.03, 0.075, 0.15, 0.3, 1.01)
_EVERYWHERE: Final = "all worlds"


def measured(trials: Sequence[Trial], *, checked: int) -> pd.DataFrame:
    """What the reports on each model say, and how far it is true by so many pictures (`checked`).

    A row a model and `report`, "maps" or "answers alone": `world`, `strength`, `seed`, `images` (audited), `effect` of
    the cue and the `band` of its size; `accused`, what is found, in words ("" for nothing), and `found`, whether the
    cue is among it; of the gaps how many truth decides about (`decided`), how many of those are shown or excluded
    (`told`), and how many of these rightly (`right`). Of discovery, in both rows: how many `slices` it finds, whether
    the cue is named for one of them (`named`), and whether it finds any where errors are drawn anew (`by_chance`).
    """
    for trial in trials:
        check_known("a world whose reports are rated", trial.world, _OTHERS)
    recipes.train.many([trial.recipe for trial in trials])
    found = reports.many([(trial, checked) for trial in trials])
    models = pd.DataFrame([row for of_model in found for row in of_model])
    return models.assign(band=pd.cut(models["effect"].abs(), _EDGES, right=False, labels=BANDS).astype(str))


def error_rates(models: pd.DataFrame) -> pd.DataFrame:
    """The table that travels with `biaslib.audit` (`error_rates.csv`), from a table of `measured`.

    A row a report and world, all worlds first: `images`; `accused`, `low`, `high` and `n`: the share of unbiased models
    of which anything is found; for each of `BANDS` but the first, of how many biased models with such an effect the cue
    is accused; outcomes that are `right` of those told, and `told` of those that truth decides about; and discovery.
    """
    rows, every = [], pd.concat([models.assign(world=_EVERYWHERE), models])
    for (report, world), of in every.groupby(["report", "world"], sort=False):
        unbiased, biased = of[of["strength"] == 0], of[of["strength"] > 0]
        accused = exact_share(int((unbiased["accused"] != "").sum()), len(unbiased))
        row = {"report": report, "world": world, "images": int(of["images"].max()), "accused": accused.estimate}
        row |= {"low": accused.low, "high": accused.high, "n": accused.n}
        for band in BANDS[1:]:
            within = biased.loc[biased["band"] == band, "found"]
            row[band] = f"{within.sum()} of {len(within)}"
        row["right"] = f"{of['right'].sum()} of {of['told'].sum()}"
        row["told"] = f"{of['told'].sum()} of {of['decided'].sum()}"
        row["slices by chance"] = f"{of['by_chance'].sum()} of {len(of)}"
        row["slices of the cue"] = f"{biased['named'].sum()} of {len(biased)}"
        rows.append(row)
    return pd.DataFrame(rows)


def exact_share(hits: int, n: int) -> Interval:
    """A share with the 95 % interval of Clopper and Pearson, which is never too narrow; NaN where n is 0."""
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    ends = scipy.stats.binomtest(hits, n).proportion_ci()
    return Interval(hits / n, ends.low, ends.high, n)


# maps take three passes an image, and features one in each of two reports
@stored("audit-reports", passes=lambda trial, checked: (trial.test_images, 5 + (checked + 2 * _PAIRS) / 1000))
def reports(trial: Trial, checked: int) -> list[dict[str, Any]]:
    """What `measured` asks of the store: the rows of one model."""
    model, rng = recipes.load(trial.recipe), np.random.default_rng(trial.seed)
    without, with_cue = (_known(trial.world, trial.size, _PAIRS, there)[1] for there in (0, 1))
    effect = float((_answers(trial, model, with_cue) - _answers(trial, model, without)).mean())
    labels, images = _known(trial.world, trial.size, checked, None)
    true_gaps = _gaps(labels, _answers(trial, model, images) > 0.5)
    drawn = trial.tested(0.0, _SEED + 1000 * trial.seed + round(100 * trial.strength))
    told = _labels(trial, drawn.table()).assign(file=[f"{row:04d}.png" for row in range(trial.test_images)])
    asked = {"target": "target", "groups": list(labels.columns.drop("target"))}
    with tempfile.TemporaryDirectory() as folder:
        seen = asked | _written(trial, drawn.with_masks(), told["file"], Path(folder))
        seen |= {"model": model, "discover": True, "images": False}
        maps = audit.run(labels=told, **seen)
        answer = maps.answers["answer about target"].to_numpy()
        # which answers are wrong is drawn anew among pictures with the same answer: then there is no slice to find
        shuffled = told["target"].groupby(answer).transform(lambda of: rng.permutation(of.to_numpy()))
        chance = audit.run(labels=told.assign(target=shuffled), permutations=99, **seen)
    alone = audit.run(labels=told.assign(answer=answer), predictions="answer", **asked)
    row = {"world": trial.world, "strength": trial.strength, "seed": trial.seed, "images": trial.test_images}
    row |= {"effect": round(effect, 4), "slices": len(maps.slices), "by_chance": len(chance.slices) > 0}
    row["named"] = any("cue 1:" in sentence for sentence in maps.discovered)
    both = {"maps": maps, "answers alone": alone}
    return [{"report": kind, **row, **_judged(report, true_gaps)} for kind, report in both.items()]


def _judged(report: audit.Audit, true_gaps: np.ndarray) -> dict[str, Any]:
    outcomes, sizes = report.tables["visible"]["outcome"], np.abs(true_gaps)
    decided = np.abs(sizes - report.margin) > _CLEAR
    told = decided & (outcomes != "cannot be told")
    right = told & ((outcomes == "shown") == (sizes > report.margin))
    found = dict.fromkeys(f"{finding.kind} of {finding.of}" for finding in report.findings)
    counts = {"decided": int(decided.sum()), "told": int(told.sum()), "right": int(right.sum())}
    return {"accused": "; ".join(found), "found": any(words.endswith(" of cue") for words in found), **counts}


def _gaps(labels: pd.DataFrame, answers: np.ndarray) -> np.ndarray:
    """Accuracy in each group less that outside, with the target and then without: the order of a report's table."""
    right, gaps = answers == labels["target"], []
    for group in labels.columns.drop("target"):
        shares = right.groupby([labels["target"], labels[group]]).mean()
        gaps += [shares[value, 1] - shares[value, 0] for value in (1, 0)]
    return np.array(gaps)


def _answers(trial: Trial, model: Any, images: np.ndarray) -> np.ndarray:
    return probability(trial.world, training.predict(model, images))


def _labels(trial: Trial, table: pd.DataFrame) -> pd.DataFrame:
    """What an auditor is told of each picture, 0 or 1; what comes in degrees is cut at the middle."""
    columns = {"target": trial.truth(table), "cue": trial.cue(table)}
    for number, name in enumerate(_OTHERS[trial.world], start=1):
        values = table[name].to_numpy(float)
        columns[f"other {number}"] = values > (0 if set(values) <= {0, 1} else np.median(values))
    return pd.DataFrame(columns).astype(int)


def _written(trial: Trial, samples: Samples, names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Pictures and masks in a folder, as a user has them, and how `audit.run` is asked about them."""
    place, shown = trial.place, {"images": samples.images}
    for region, parts in (("object", place.regions), ("cue", place.cue_regions)):
        if parts != ("background",):  # which is all but the object: the same statistic under another name
            masks = np.any([samples.masks[part] for part in parts], axis=0)
            shown[f"masks/{region}"] = 255 * masks.astype(np.uint8)
    for part, pictures in shown.items():
        (folder / part).mkdir(parents=True)
        for name, picture in zip(names, pictures, strict=True):
            Image.fromarray(picture).save(folder / part / name, compress_level=1)
    given = {"data": folder / "images", "masks": folder / "masks", "size": trial.data.size, "wanted": ["object"]}
    given["unwanted"] = ["cue"] if "masks/cue" in shown else []
    if place.outputs:  # of which each answers a question of its own
        of = [place.outputs.index(name) for name in (trial.drawn_by.target, trial.drawn_by.cue, *_OTHERS[trial.world])]
        given |= {"output": of[0], "threshold": 0.0, "group_outputs": [] if place.beside else of[1:]}
    return given


@functools.lru_cache(maxsize=3)
def _known(world: str, size: int, n: int, there: int | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Labels and pictures that all models of a world are asked about: as drawn, or all with the cue or without it."""
    shared = Trial(world=world, strength=0.0, size=size, test_images=n, explained=1)
    table = shared.tested(0.0, _SEED - 1).table()
    table = table if there is None else shared.edited(table, there)
    return _labels(shared, table), shared.drawn_by.render(table, size=shared.data.size, regions=()).images
