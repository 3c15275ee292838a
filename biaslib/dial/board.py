"""The board of the dial: for every metric and world, how often it notices the bias at each strength."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from biaslib import worlds
from biaslib.dial.catalogue import METRICS
from biaslib.dial.trials import PLACES
from biaslib.figures import theme, tooltip

TRUTH: Final = "True causal effect"
_SQUARE: Final = np.array([(-0.46, -0.43), (0.46, -0.43), (0.46, 0.43), (-0.46, 0.43)])
_GAP, _LEFT, _HEAD, _ROW = 0.9, 11.5, 6.0, 0.0255  # columns, columns, rows, and a row's height by the page's width
_EXAMPLE: Final = 11  # seed of the pictures over the blocks

Square = tuple[float, float, float, str]  # x, y, value in [0, 1], colour


def board(powers: pd.DataFrame, alarms: pd.DataFrame, effects: pd.DataFrame, *, images: int, models: int = 1) -> Figure:
    """Rows of metrics, blocks of worlds, columns of strengths: the fuller a square, the surer the bias is noticed.

    Over each block an image without its cue and with it; the first row is the truth that metrics are tried against; the
    column of strength 0 holds false alarms.

    Args:
        powers: of `verdicts.powers`, for one architecture a world.
        alarms: of `verdicts.alarms`, likewise.
        effects: columns world, strength and effect (mean true effect).
        images: test images that the auditor has.
        models: that the auditor has.
    """
    places = [world for world in PLACES if world in set(powers["world"])]
    dial = [0.0, *sorted(powers["strength"].unique())]
    starts = {world: at * (len(dial) + _GAP) for at, world in enumerate(places)}
    rows = _rows(set(powers["metric"]))
    foot = max(rows.values())
    figure, ax = theme.new(aspect=_ROW * (_HEAD + foot + 2))
    ax.set(xlim=(-_LEFT, max(starts.values()) + len(dial) - 0.4), ylim=(foot + 1.4, -_HEAD))
    theme.bare(ax)
    chosen = powers[(powers["images"] == images) & (powers["models"] == models)]
    for world, start in starts.items():
        _pictures(ax, world, start, len(dial))
        squares = [
            *_truths(world, start, dial, effects),
            *_alarms(world, start, rows, alarms),
            *_noticed(world, start, dial, rows, chosen),
        ]
        _draw(ax, squares)
        for at in sorted({0, len(dial) // 2, len(dial) - 1}):  # there is no room for more
            _say(ax, start + at, foot + 0.7, f"{dial[at]:g}", ha="center", va="top", fontsize=6.5)
    for name, place in rows.items():
        _say(ax, -0.9, place, name, ha="right", va="center", fontsize=7.2, color=theme.INK)
    _say(ax, -0.9, foot + 0.7, "strength of the bias", ha="right", va="top", fontsize=6.5)
    return figure


def _rows(known: set[str]) -> dict[str, float]:
    """Where the truth and every metric that was measured stand, with a gap between families."""
    rows, place, last = {TRUTH: 0.0}, 0.0, ""
    for metric in METRICS:
        if metric.name in known:
            place += 1.0 if metric.family == last else 1.5
            rows[metric.name], last = place, metric.family
    return rows


def _truths(world: str, start: float, dial: Sequence[float], effects: pd.DataFrame) -> list[tuple[Square, str]]:
    own = effects[effects["world"] == world].set_index("strength")["effect"]
    return [
        ((start + at, 0.0, abs(float(own[s])), "green"), f"{world}, strength {s:g}: true effect {own[s]:.2f}")
        for at, s in enumerate(dial)
        if s in own
    ]


def _alarms(world: str, start: float, rows: dict[str, float], alarms: pd.DataFrame) -> list[tuple[Square, str]]:
    own = alarms[(alarms["world"] == world) & alarms["metric"].isin(rows)]
    return [
        (
            (start, rows[row["metric"]], row["alarms"] / row["audits"], "orange"),
            f"{row['metric']}, {world}: {row['alarms']} of {row['audits']} unbiased models accused",
        )
        for row in own.to_dict("records")
    ]


def _noticed(
    world: str, start: float, dial: Sequence[float], rows: dict[str, float], powers: pd.DataFrame
) -> list[tuple[Square, str]]:
    own = powers[(powers["world"] == world) & powers["power"].notna()]
    return [
        (
            (start + dial.index(row["strength"]), rows[row["metric"]], row["power"], "blue"),
            f"{row['metric']}, {world}, strength {row['strength']:g}: noticed in {row['power']:.0%} of audits",
        )
        for row in own.to_dict("records")
    ]


def _draw(ax: Axes, squares: Sequence[tuple[Square, str]]) -> None:
    """A pale square for all that was measured, filled as far as the value says."""
    corners = [_SQUARE + np.array([x, y]) for (x, y, _, _), _ in squares]
    ax.add_collection(PolyCollection(corners, facecolors=[(*to_rgb(theme.GRID), 0.55)], linewidths=0))
    hues = [(*to_rgb(theme.COLOURS[colour]), float(np.clip(value, 0, 1))) for (_, _, value, colour), _ in squares]
    filled = ax.add_collection(PolyCollection(corners, facecolors=hues, linewidths=0))
    tooltip(filled, [words for _, words in squares])


def _pictures(ax: Axes, world: str, start: float, columns: int) -> None:
    """One image of the world without the cue and with it, over its block."""
    drawn_by, width = worlds.get(world), min(columns / 2, 3.0)
    table = drawn_by.factors(40, strength=0.0, seed=_EXAMPLE)
    row = table[table[drawn_by.target].astype(bool)].head(1)
    limits = ax.get_xlim(), ax.get_ylim()
    for at, cue in enumerate((0, 1)):
        value = np.full(1, cue).astype(table[drawn_by.cue].to_numpy().dtype)
        picture = drawn_by.render(row.assign(**{drawn_by.cue: value}), size=128).images[0]
        left = start - 0.5 + at * width
        ax.imshow(picture, extent=(left + 0.04, left + width - 0.04, -1.0, -_HEAD + 1.3), aspect="auto")
    ax.set(xlim=limits[0], ylim=limits[1])
    place = PLACES[world]
    _say(ax, start - 0.46, -_HEAD + 0.2, world, va="bottom", fontsize=8.5, fontweight="bold", color=theme.INK)
    _say(ax, start - 0.46, -_HEAD + 1.15, place.kind, va="bottom", fontsize=6.8)


def _say(ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
    ax.text(x, y, text, **{"color": theme.MUTED, **style})
