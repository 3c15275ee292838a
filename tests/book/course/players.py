"""Five players who audit the models of `pool.csv`: `python -m tests.book.course.players` writes what the page shows.

Each player maps the rows of a model to the low, the high and the probability of its form.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import scipy.stats

from biaslib.book.course.capstone import PARTS, SMALL, points
from tests.book.course import pool

PAGE_DATA: Final = Path(__file__).parents[3] / "book" / "capstone"
NOT_KNOWN: Final = "not measured yet"
_SEEN = [part for part in PARTS if part != "re-run"]  # nobody runs a player's notebook


def careful(model: pd.DataFrame) -> tuple[pd.Series, pd.Series, np.ndarray]:
    """What a careful auditor believes, who has measured each effect with an error: normal values."""
    seen, error = model["seen"], model["error"]
    beyond = scipy.stats.norm.sf(SMALL, seen, error) + scipy.stats.norm.cdf(-SMALL, seen, error)
    half = scipy.stats.norm.ppf(0.95) * error
    return (seen - half).clip(-1, 1), (seen + half).clip(-1, 1), beyond


def ends(models: pd.DataFrame) -> tuple[float, float]:
    """The interval that is the best of those that are the same for all suspects of all models."""
    low, high = models["effect"].quantile([0.05, 0.95])
    return low, high


def players(models: pd.DataFrame) -> dict[str, Callable[[pd.DataFrame], Sequence]]:
    """The players in the order in which they should rank; who knows nothing of a model knows what is usual."""
    usual = (*ends(models), (models["effect"].abs() >= SMALL).mean())
    return {
        "knows the exact effects": lambda model: (model["effect"], model["effect"], model["effect"].abs() >= SMALL),
        "compares the answers with and without each suspect, and states intervals": careful,
        "knows nothing, and says so with wide intervals": lambda model: usual,
        "always says “no effect”": lambda model: (-0.02, 0.02, 0.0),
        "looks where the maps lie, and is sure": lambda model: (
            model["share"] - 0.02,
            model["share"] + 0.02,
            model["share"] >= SMALL,
        ),
    }


def form(low, high, probability) -> pd.DataFrame:
    """Of six suspects, a to f."""
    columns = {"low": low, "high": high, "probability": probability}
    return pd.DataFrame(
        {name: np.broadcast_to(np.asarray(values, float), 6) for name, values in columns.items()}, index=list("abcdef")
    )


def played(models: pd.DataFrame) -> np.ndarray:
    """(models, players, parts) points of each player for each model; without a second run."""
    return np.array(
        [
            [[points(form(*play(model)), model["effect"].to_numpy())[part] for part in _SEEN] for play in everyone]
            for _, model in models.groupby("model")
            for everyone in [players(models).values()]
        ]
    )


def tables(models: pd.DataFrame) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the page's tables of players and of facts, by the names of their files."""
    heads = [f"{part} (of {PARTS[part]})" for part in _SEEN]
    rows: list[tuple[object, ...]] = [("player", *heads, "together")]
    for player, mean in zip(players(models), played(models).mean(axis=0), strict=True):
        rows.append((player, *(f"{value:.0f}" for value in (*mean, mean.sum()))))
    many = (models["effect"].abs() >= SMALL).mean()
    facts = [
        ("of the pool", ""),
        ("models", f"{models['model'].nunique()}"),
        (f"suspects with an effect of {SMALL} or more", f"{many:.0%}".replace("%", " %")),
    ]
    return {"players": rows, "pool": facts}


def write(name: str, rows: Sequence[Sequence[object]]) -> None:
    """Writes a table of the page."""
    with (PAGE_DATA / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    stored = pd.read_csv(pool.FILE)
    for name, rows in tables(stored).items():
        write(name, rows)
