"""The detection matrix: for every metric and world, how often it notices the bias at each strength."""

from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biaslib.dial.catalogue import METRICS
from biaslib.dial.trials import PLACES, Trial
from biaslib.figures import plots, theme

_TRUTH: Final = "True causal effect"

_GAP, _LEFT, _HEAD, _ROW = 0.9, 0.42, 6.0, 0.0255  # columns, names by blocks, rows, a row's height by the page's width


def detection_matrix(
    powers: pd.DataFrame, false_positives: pd.DataFrame, effects: pd.DataFrame, *, images: int
) -> Figure:
    """Rows of metrics, blocks of worlds, columns of strengths: the fuller a square, the surer the bias is noticed.

    Over each block an image without its cue and with it; the first row is the truth; strength 0 holds false positives.
    The tables: `verdicts.powers` and `false_positive_counts` for one architecture a world; world, strength and effect.
    """
    shown = [world for world in PLACES if world in set(powers["world"])]
    steps = {world: [0.0, *sorted(part["strength"].unique())] for world, part in powers.groupby("world")}
    starts = {world: sum(len(steps[each]) + _GAP for each in shown[:place]) for place, world in enumerate(shown)}
    rows = _rows(set(powers["metric"]))
    foot = max(rows.values())
    figure, ax = theme.new(aspect=_ROW * (_HEAD + foot + 2))
    right = starts[shown[-1]] + len(steps[shown[-1]])
    ax.set(xlim=(-_LEFT * right, right - 0.4), ylim=(foot + 1.4, -_HEAD))
    theme.bare(ax)
    audits = powers[(powers["images"] == images) & (powers["models"] == 1) & powers["power"].notna()]
    for world, start in starts.items():
        strengths = steps[world]
        _pictures(ax, world, start, len(strengths), both=right < 35)
        squares: list[tuple[float, float, str, float, str]] = []  # x, y, colour, how full and words
        true = effects[effects["world"] == world].set_index("strength")["effect"]
        for place, s in enumerate(strengths):
            if s in true:
                words = f"{world}, strength {s:g}: true effect {true[s]:.2f}"
                squares.append((start + place, 0.0, "green", abs(float(true[s])), words))
        counts = false_positives[(false_positives["world"] == world) & false_positives["metric"].isin(rows)]
        for metric, flagged, of in zip(counts["metric"], counts["false_positives"], counts["audits"], strict=True):
            words = f"{metric}, {world}: {flagged} of {of} unbiased models accused"
            squares.append((start, rows[metric], "orange", flagged / of, words))
        noticed = audits[audits["world"] == world]
        for metric, s, power in zip(noticed["metric"], noticed["strength"], noticed["power"], strict=True):
            words = f"{metric}, {world}, strength {s:g}: noticed in {power:.0%} of audits"
            squares.append((start + strengths.index(s), rows[metric], "blue", power, words))
        x, y, *filled = map(list, zip(*squares, strict=True))
        at = list(zip(x, y, strict=True))  # a pale square for all that was measured, filled as far as the value says
        plots.squares(ax, at, [theme.GRID] * len(at), [0.55] * len(at), height=0.86)
        plots.squares(ax, at, *filled, height=0.86)
        for place in sorted({0, len(strengths) // 2, len(strengths) - 1}):  # there is no room for more
            _write(ax, start + place, foot + 0.7, f"{strengths[place]:g}", ha="center", va="top", fontsize=6.5)
    for name, height in rows.items():
        _write(ax, -0.9, height, name, ha="right", va="center", fontsize=7.2, color=theme.INK)
    _write(ax, -0.9, foot + 0.7, "strength of the bias", ha="right", va="top", fontsize=6.5)
    return figure


def _rows(known: set[str]) -> dict[str, float]:
    """Where the truth and every metric that was measured stand, with a gap between families."""
    rows, place, last = {_TRUTH: 0.0}, 0.0, ""
    for metric in METRICS.values():
        if metric.name in known:
            place += 1.0 if metric.family == last else 1.5
            rows[metric.name], last = place, metric.family
    return rows


def _pictures(ax: Axes, world: str, start: float, columns: int, *, both: bool) -> None:
    """One image of the world with the cue, and without it where there is room, over its block."""
    place, width = PLACES[world], min(columns / 2, 3.0) if both else columns
    limits = ax.get_xlim(), ax.get_ylim()
    # photographs of animals are not ours to print
    for at, cue in enumerate(() if place.photos else (0, 1) if both else (1,)):
        trial = Trial(world=world, strength=0.0)
        table = trial.drawn_by.factors(40, strength=0.0, seed=11)
        row = trial.edited(table[trial.truth(table)].head(1), cue)
        left = start - 0.5 + at * width
        ax.imshow(
            trial.drawn_by.render(row, size=128).images[0], aspect="auto",
            extent=(left + 0.04, left + width - 0.04, -1.0, -_HEAD + 1.3),
        )  # fmt: skip
    ax.set(xlim=limits[0], ylim=limits[1])
    _write(ax, start - 0.46, -_HEAD + 0.2, world, va="bottom", fontsize=8.5, fontweight="bold", color=theme.INK)
    _write(ax, start - 0.46, -_HEAD + 1.15, place.kind, va="bottom", fontsize=6.0)


def _write(ax: Axes, x: float, y: float, text: str, **style: Any) -> None:
    ax.text(x, y, text, **{"color": theme.MUTED, **style})
