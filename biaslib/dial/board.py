"""A metric of somebody else beside the book's, on the same models: a row each, with how surely it can be told apart."""

import csv
import hashlib
import json
import math
import shutil
import sys
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import safetensors.torch
import scipy.stats

from biaslib import recipes
from biaslib.dial import ranks, verdicts
from biaslib.dial.catalogue import EXACT, METRICS, NULL, Metric
from biaslib.dial.entries import TIERS, Entry
from biaslib.dial.measuring import measured
from biaslib.dial.trials import Trial, grid
from biaslib.errors import BiaslibError, refused
from biaslib.recipes import Recipe
from biaslib.statistics.intervals import percentile_ends
from biaslib.store import replacing, results
from biaslib.store.files import beside, sha256
from biaslib.worlds import is_file

PROTOCOL: Final = "dial-1.0"  # how rows are computed; those of two protocols do not belong into one table
HELD_OUT: Final = beside(str(Path(__file__).with_name("held_out")))  # worlds by name: the file says of each what
# world -> SHA-256 of models.csv in its zoo
PUBLISHED: Final = beside(str(Path(__file__).with_name("zoo"))).get(PROTOCOL, {})
_NUMBERS: Final = ("power", "low", "high", "smallest effect", "alarms' upper end", "tau", "tau, same strength")


def trials(
    worlds: Sequence[str],
    *,
    models: int,
    references: int,
    images: int,
    test_images: int,
    architecture: str | None = None,
) -> list[Trial]:
    """The models of a board, of its worlds' usual architectures or of another: biased ones and unbiased references."""
    worlds = [str(Path(name).resolve()) if is_file(name) else name for name in worlds]
    return grid(
        worlds, strengths=(0.6, 0.8, 1.0), models=models, references=references, images=[images] * len(worlds),
        test_images=test_images, explained=math.gcd(test_images, 100),  # for the methods that take many passes
        architecture=architecture,
    )  # fmt: skip


def settings(trial: Trial) -> dict[str, str]:
    """What a model was trained with, in words, as models.csv has it beside a file and its SHA-256."""
    said = {"protocol": PROTOCOL, "targets": trial.recipe.targets} | asdict(trial.data)
    return {name: str(value) for name, value in (said | asdict(trial.recipe.training)).items()}


def from_zoo(trials: Sequence[Trial], places: Sequence[Path] = ()) -> int:
    """How many of the models a zoo has; those that the store lacks are put there, so that nobody trains them.

    `places` are wheels, or the folders in them; without any, what is installed. A `BiaslibError` is raised where a file
    is missing, or not what was published for this protocol.
    """
    installed = [Path(entry, f"biaslib_zoo_{world}") for entry in sys.path for world in PUBLISHED]
    asked, found = [(trial.recipe, settings(trial).items()) for trial in trials], set[Recipe]()
    for place in places or filter(Path.is_dir, installed):
        for row in csv.DictReader(_of_zoo(place, "models.csv", PUBLISHED.values()).decode().splitlines()):
            for recipe in [recipe for recipe, said in asked if all(row.get(name, of) == of for name, of in said)]:
                load = partial(safetensors.torch.load, _of_zoo(place, row["file"], [row["sha256"]]))
                results.under_key(recipes.train.kind, recipes.train.stored_at(recipe).name, recipe, load)
                found.add(recipe)
    return len(found)


def run(entries: Sequence[Entry], trials: Sequence[Trial]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the board (see `rows`), and the numbers of every model that they are made of; trains what is missing.

    The entries of others beside the book's metrics. A name that the book has already is a `BiaslibError`.
    """
    if taken := [entry.name for entry in entries if entry.name in METRICS]:
        raise BiaslibError(f"{taken[0]!r} is a metric of the book: give yours another name.")
    cases = measured(trials)
    metrics = [entry.as_metric(cases) for entry in entries]
    numbers = verdicts.numbers(cases, metrics)
    return rows(numbers, metrics), numbers


def rows(numbers: pd.DataFrame, further: Sequence[Metric] = (), *, resamples: int = 500) -> pd.DataFrame:
    """A row a metric of a table of `verdicts.numbers`, tier by tier, the most powerful first.

    `power` of an audit of one model, the mean over worlds and strengths, with its 95 % interval (`low`, `high`) from a
    bootstrap over models; `rank` in its tier, shared by metrics whose powers cannot be told apart from that of the
    first of them, on the same draws of models; `smallest effect`, the least mean true effect of a world and strength
    whose power is at least `verdicts.POWER`; `alarms`, how many of the unbiased models it reports, with the upper end
    of Clopper and Pearson's 95 % interval; Kendall's `tau` with the true effect within worlds, and between models of
    the same strength; `passes`. NaN is what is not defined.
    """
    known = METRICS | {metric.name: metric for metric in further}
    powers, noticed = _powers(numbers, resamples)
    counts = verdicts.false_positive_counts(numbers).groupby("metric")[["audits", "false_positives"]].sum()
    taus = {kind: ranks.rank_agreement(numbers, kind=kind)[EXACT.name] for kind in ("all models", "same strength")}
    made = []
    for name, drawn in powers.items():
        low, high = percentile_ends(drawn[1:][~np.isnan(drawn[1:])]) if np.isfinite(drawn[0]) else (np.nan, np.nan)
        audits, hits = map(int, counts.loc[[name]].to_numpy()[0])
        upper = scipy.stats.binomtest(hits, audits).proportion_ci().high
        row = {"metric": name, "tier": tier(known[name]), "power": drawn[0], "low": low, "high": high}
        row |= {"smallest effect": noticed[name], "alarms": f"{hits} of {audits}", "alarms' upper end": upper}
        row |= {"tau": taus["all models"][name], "tau, same strength": taus["same strength"][name]}
        made.append(row | {"passes": known[name].passes})
    table = pd.DataFrame(made).sort_values(["tier", "power"], ascending=[True, False], ignore_index=True)
    shared = [rank for _, part in table.groupby("tier") for rank in _shared_ranks(part, powers)]
    table.insert(2, "rank", pd.Series(shared, dtype="Int64"))
    return table


def tier(metric: Metric) -> int:
    """What it must be told, as `entries.TIERS` has it; the exact effect, which nobody is told, is above them all."""
    if metric.family.startswith("tier "):
        return int(metric.family.removeprefix("tier "))
    of_family = {"answers": int(metric.needs != "nothing more"), "amplification": 5, NULL: 2, EXACT.family: len(TIERS)}
    return of_family.get(metric.family, 3)


def check(entries: Sequence[Entry]) -> list[str]:
    """A line for each entry that answers alike twice about two small models, and defined; else a `BiaslibError`."""
    small = Trial(world="birds", strength=0.0, images=200, epochs=1, test_images=60, explained=10)
    cases = measured([small, replace(small, seed=1)])
    lines = []
    for entry in entries:
        first, again = ([entry.of(case, cases) for case in cases] for _ in range(2))
        if not all(np.isfinite(values).any() for values in first):
            raise BiaslibError(f"{entry.name!r} gives no number of a model of birds: return one, or one an image.")
        if not all(np.array_equal(*pair, equal_nan=True) for pair in zip(first, again, strict=True)):
            raise BiaslibError(f"{entry.name!r} gives another number when it is asked again: fix its random seed.")
        each = "a number a model" if len(first[0]) == 1 else "a number an image"
        lines.append(f"{entry.name}: tier {entry.tier}, {each}, {np.mean(entry.seconds):.2g} s a model; all is well")
    return lines


def as_text(rows: pd.DataFrame, entries: Sequence[Entry]) -> str:
    """The rows of the entries' tiers for a terminal, the entries marked, and how long each took a model."""
    own = {entry.name: f"{entry.name}: {np.mean(entry.seconds):.2g} s a model" for entry in entries}
    table = rows[rows["tier"].isin([entry.tier for entry in entries])].round(dict.fromkeys(_NUMBERS, 2))
    table = table.assign(metric=["* " * (name in own) + name for name in table["metric"]])
    return f"{table.to_string(index=False, na_rep='')}\n{'; '.join(own.values())}"


def write(
    out: Path, files: list[Path], entries: list[Entry], rows: pd.DataFrame, numbers: pd.DataFrame, **asked: Any
) -> Path:
    """Puts board, numbers, sources and what `trials` was asked for into a folder: it is sent to who keeps a board."""
    told = [{name: getattr(entry, name) for name in ("name", "tier", "side", "passes")} for entry in entries]
    hashes = {world: sha256(Path(world)) for world in numbers["world"].unique() if is_file(world)}
    secret = {told["sha256"]: name for name, told in HELD_OUT.items() if "revealed" not in told}
    held_out = {at: secret[digest] for at, digest in hashes.items() if digest in secret}
    about = {"protocol": PROTOCOL, "metrics": told, "held_out": held_out}
    tables = {"board": rows, "numbers": verdicts.as_record(numbers, decimals=9)}
    return write_folder(out, "submission", files, tables, about, asked)


def write_folder(
    out: Path, name: str, files: list[Path], tables: dict[str, pd.DataFrame], about: dict[str, Any], asked: Any
) -> Path:
    """Puts tables, sources and, as `name`.json, what they are about into a folder."""
    about |= {"sources": {file.name: sha256(file) for file in files}}
    about |= {"asked": asked, "date": results.now(), "device": results.device(), "versions": results.versions()}
    with replacing(out) as partial:
        partial.mkdir()
        for table, values in tables.items():
            values.to_csv(partial / f"{table}.csv", index=False)
        for file in files:
            shutil.copyfile(file, partial / file.name)
        (partial / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return out


def _powers(numbers: pd.DataFrame, resamples: int) -> tuple[dict[str, np.ndarray], pd.Series]:
    """Each metric's mean power, (1 + resamples,): as it is, then of models drawn again, the same for all metrics.

    And the least effect of a setting in which it has the power `verdicts.POWER`.
    """
    rng, settings, noticed = np.random.default_rng(0), [], []
    for _, part in numbers.groupby(["world", "architecture"], sort=False):
        wide = part.pivot_table(index=["strength", "model"], columns="metric", values="risk_score")
        effects = part.groupby("strength")["effect"].mean()
        drawn: dict[Any, np.ndarray] = {}  # strength -> (1 + resamples, metrics, models)
        for strength, table in wide.groupby("strength"):
            rows = np.vstack([np.arange(len(table)), rng.integers(len(table), size=(resamples, len(table)))])
            drawn[strength] = np.moveaxis(table.to_numpy()[rows], 1, -1)
        reference = drawn.pop(0.0)
        for at, values in drawn.items():
            settings.append(pd.DataFrame(verdicts.power_of(values, reference), columns=wide.columns))
            noticed.append((settings[-1].iloc[0] >= verdicts.POWER).map({True: abs(effects[at]), False: np.nan}))
    means = pd.concat(settings).groupby(level=0).mean()  # over settings, of each draw
    return {str(name): means[name].to_numpy() for name in means}, pd.concat(noticed, axis=1).min(axis=1)


def _shared_ranks(part: pd.DataFrame, powers: Mapping[str, np.ndarray]) -> list[float]:
    """The rank of each row, that of the first of those that cannot be told apart from it; NaN without a power."""
    found, first = list[float](), ""
    for place, name in enumerate(part["metric"], start=1):
        apart = powers[first] - powers[name] if first else np.full(2, np.nan)
        if np.isnan(powers[name][0]):
            found.append(np.nan)
        elif not first or np.nanquantile(apart[1:], 0.025) > 0:
            first = name
            found.append(float(place))
        else:
            found.append(found[-1])
    return found


def _of_zoo(place: Path, name: str, digests: Collection[str]) -> bytes:
    """What a file of a zoo holds, whose SHA-256 has to be one of these."""
    with suppress(Exception):  # whatever a damaged wheel raises
        folder = zipfile.Path(place, place.name.partition("-")[0] + "/") if place.suffix == ".whl" else place
        if hashlib.sha256(data := (folder / name).read_bytes()).hexdigest() in digests:
            return data
    raise refused("file that is not the zoo's", file=place / name, protocol=PROTOCOL)
