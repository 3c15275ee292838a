"""How often a report of an audit is wrong: models of the dial are audited by somebody who is told nothing of them.

Each model gets pictures of its own, in which target, cue and all else are independent. What its reports say is held
against what is true of it: the exact effect of the cue, and what the same tests say of many more pictures. The unit is
the model.
"""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import scipy.stats
from PIL import Image

from biaslib import audit, recipes, training
from biaslib.audit.findings import ALPHA
from biaslib.dial.measuring import probability
from biaslib.dial.trials import Trial
from biaslib.errors import check_known
from biaslib.samples import Samples
from biaslib.store import stored

# of each world, what an auditor asks about beside the cue: a picture turned round, or a thing far from the target
_OTHER: Final = {"birds": "facing", "digits": "top_right", "pets": "facing", "faces": "Smiling"}
_SEED: Final = 5_000_000  # of the audited pictures; those that truth is counted on have the one before
_PAIRS: Final = 1000  # pictures that are drawn with the cue and without it
_CLEAR: Final = 0.03  # a true gap decides about an outcome where it is further from the margin
# of what is tested: by which columns tests are told apart, and what the sign of is found
_TESTS: Final = {
    "gaps": (["group", "among"], "gap"),
    "amplification": (["group", "direction"], "shift"),
    "regions": (["region"], "excess"),
}
# of the size of the true effect of a cue, with the ends that no longer belong to them
BANDS: Final = {"less": 0.03, "about 0.05": 0.075, "about 0.1": 0.15, "about 0.2": 0.3, "more": 1.01}


def measured(trials: Sequence[Trial], *, checked: int) -> pd.DataFrame:
    """What the reports on each model say, and how far it is true by so many pictures (`checked`).

    A row a model and `report`, "maps" or "answers alone": `world`, `strength`, `seed`, `images` (audited), `effect` of
    the cue and the `band` of its size; `accused`, what is found, in words ("" for nothing), and whether it is `by_map`
    alone; of its corrected tests below 0.05 how many are `false`: many more pictures do not say so, at 0.05 alone and
    with the same sign; whether a gap or an amplification of the cue is `found`; of the gaps how many truth decides
    about (`decided`), how many of these are shown or excluded (`told`), and how many of those rightly (`right`); of
    discovery how many `slices` stand out, whether the cue is named for one of them (`named`), and whether any stands
    out where errors have nothing to do with the pictures (`by_chance`).
    """
    for trial in trials:
        check_known("a world whose reports are rated", trial.world, _OTHER)
    found = reports.many([(trial, checked) for trial in trials])
    models = pd.DataFrame([row for of_model in found for row in of_model])
    band = pd.cut(models["effect"].abs(), [0, *BANDS.values()], right=False, labels=list(BANDS))
    return models.assign(band=band.astype(str))


def error_rates(models: pd.DataFrame) -> pd.DataFrame:
    """The table that travels with `biaslib.audit` (`error_rates.csv`), from a table of `measured`.

    A row a report and world, all worlds first: `images`; in how many reports, of all models, any test was false
    (`false alarms`), with the ends of their share's 95 % interval; of how many unbiased models anything is found
    (`accused`), and how many `by map alone`; for each of `BANDS` but the first of how many biased models with such an
    effect it is found; `outcomes right` of those told, `outcomes told` of those that truth
    decides about; `slices by chance`, of all models; `slices of the cue`, of biased ones, and of unbiased ones.
    """
    rows, every = [], pd.concat([models.assign(world="all worlds"), models])
    for (report, world), of in every.groupby(["report", "world"], sort=False):
        unbiased, biased = of[of["strength"] == 0], of[of["strength"] > 0]
        false = int((of["false"] > 0).sum())
        ends = scipy.stats.binomtest(false, len(of)).proportion_ci()  # Clopper and Pearson's: never too narrow
        row = {"report": report, "world": world, "images": int(of["images"].max())}
        row |= {"false alarms": f"{false} of {len(of)}", "low": round(ends.low, 3), "high": round(ends.high, 3)}
        row["accused"] = f"{(unbiased['accused'] != '').sum()} of {len(unbiased)}"
        row["by map alone"] = int(unbiased["by_map"].sum())
        for band in [*BANDS][1:]:
            within = biased.loc[biased["band"] == band, "found"]
            row[band] = f"{within.sum()} of {len(within)}"
        row["outcomes right"] = f"{of['right'].sum()} of {of['told'].sum()}"
        row["outcomes told"] = f"{of['told'].sum()} of {of['decided'].sum()}"
        row["slices by chance"] = f"{of['by_chance'].sum()} of {len(of)}"
        for name, part in (("slices of the cue", biased), ("slices of the cue, unbiased", unbiased)):
            row[name] = f"{part['named'].sum()} of {len(part)}"
        rows.append(row)
    return pd.DataFrame(rows)


@stored("audit-reports", passes=lambda trial, checked: (trial.test_images, 5 + (checked + 2 * _PAIRS) / 1000))
def reports(trial: Trial, checked: int) -> list[dict[str, Any]]:
    """What `measured` asks of the store: the rows of one model."""
    model, known = recipes.load(trial.recipe), functools.partial(_known, trial.world, trial.size)
    pairs = [probability(trial.world, training.predict(model, known(_PAIRS, there)[1].images)) for there in (0, 1)]
    labels, many = known(checked, None)
    labels = labels.assign(file=[f"{row:05d}.png" for row in range(checked)])
    drawn = trial.tested(0.0, _SEED + 1000 * trial.seed + round(100 * trial.strength))
    told = _labels(trial, drawn.table()).assign(file=[f"{row:04d}.png" for row in range(trial.test_images)])
    asked = {"target": "target", "groups": ["cue", "other"]}
    with tempfile.TemporaryDirectory() as folder:
        seen = asked | {"model": model, "images": False}
        more = seen | _written(trial, many, list(labels["file"]), Path(folder) / "more")
        truth = audit.run(labels=labels, permutations=199, corrected=False, **more)
        seen |= _written(trial, drawn.with_masks(), list(told["file"]), Path(folder)) | {"discover": True}
        maps = audit.run(labels=told, **seen)
        answer = maps.answers["answer about target"].to_numpy()
        # which answers are wrong is drawn anew among pictures with the same answer: then there is no slice to find
        rng = np.random.default_rng(trial.seed)
        shuffled = told["target"].groupby(answer).transform(lambda of: rng.permutation(of.to_numpy()))
        chance = audit.run(labels=told.assign(target=shuffled), permutations=99, **seen)
    alone = audit.run(labels=told.assign(answer=answer), predictions="answer", **asked)
    row = {"world": trial.world, "strength": trial.strength, "seed": trial.seed, "images": trial.test_images}
    row |= {"effect": round(float((pairs[1] - pairs[0]).mean()), 4), "slices": len(maps.slices)}
    row |= {"named": any("cue 1:" in line for line in maps.discovered), "by_chance": len(chance.slices) > 0}
    both = {"maps": maps, "answers alone": alone}
    return [{"report": kind, **row, **_judged(report, truth)} for kind, report in both.items()]


def _judged(report: audit.Audit, truth: audit.Audit) -> dict[str, Any]:
    sizes = np.abs([gap.estimate for gap in truth.tables["gaps"]["gap"]])
    outcomes = report.tables["visible"]["outcome"]
    decided = np.abs(sizes - report.margin) > _CLEAR
    told = decided & (outcomes != "cannot be told")
    right = told & ((outcomes == "shown") == (sizes > report.margin))
    accused = sorted({f"{finding.kind} of {finding.of}" for finding in report.findings})
    found = {"accused": "; ".join(accused), "found": bool({"gap of cue", "amplification of cue"} & {*accused})}
    found["by_map"] = len(accused) > 0 and all(words.startswith("region") for words in accused)
    tests = [(report.tables[name], truth.tables[name], *of) for name, of in _TESTS.items() if name in report.tables]
    found["false"] = sum(_false(*of_table) for of_table in tests)
    return found | {"decided": int(decided.sum()), "told": int(told.sum()), "right": int(right.sum())}


def _false(tested: pd.DataFrame, truth: pd.DataFrame, told_apart: list[str], of: str) -> int:
    """How many tests find what is not so."""
    both = tested[tested["p corrected"] <= ALPHA].merge(truth, on=told_apart, suffixes=("", " in truth"))
    signs = [both[name].map(lambda size: np.sign(size.estimate)) for name in (of, f"{of} in truth")]
    return int(((signs[0] != signs[1]) | ~(both["p in truth"] <= ALPHA)).sum())


def _labels(trial: Trial, table: pd.DataFrame) -> pd.DataFrame:
    """What an auditor is told of each picture, 0 or 1."""
    other = table[_OTHER[trial.world]].to_numpy() > 0
    return pd.DataFrame({"target": trial.truth(table), "cue": trial.cue(table), "other": other}).astype(int)


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
        of = [place.outputs.index(name) for name in (trial.drawn_by.target, trial.drawn_by.cue, _OTHER[trial.world])]
        given |= {"output": of[0], "threshold": 0.0, "group_outputs": [] if place.beside else of[1:]}
    return given


@functools.lru_cache(maxsize=3)
def _known(world: str, size: int, n: int, there: int | None) -> tuple[pd.DataFrame, Samples]:
    """Labels and pictures that all models of a world are asked about: as drawn, or all with the cue or without it.

    Those that are as drawn have masks.
    """
    shared = Trial(world=world, strength=0.0, size=size, test_images=n, explained=1)
    table = shared.tested(0.0, _SEED - 1).table()
    table = table if there is None else shared.edited(table, there)
    regions = None if there is None else ()
    return _labels(shared, table), shared.drawn_by.render(table, size=shared.data.size, regions=regions)
