"""The page of an audit: one file that needs no network, no script and nothing beside it."""

import html
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd

from biaslib import figures
from biaslib.audit.measures import GAP, POWER, RATES
from biaslib.audit.reliability import IMAGES
from biaslib.audit.result import VALUES, Audit, Shown
from biaslib.figures import p_value, theme
from biaslib.figures.table import number as printed
from biaslib.statistics import Interval

# nothing may be loaded and nothing may run, whatever a file name or a column holds
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

CANNOT_SHOW = (
    "Why. A gap may come from few training images, from worse pictures or labels of one group, or from a cue that goes "
    "with the group; no number here tells these apart. Only images in which nothing but the group changes would.",
    "Groups that have no column. Whoever is not annotated is not audited, and a column holds what somebody saw in a "
    "picture, not what a person is.",
    "Other images. Intervals are about images collected as these were, and about this one model: another training run "
    "of the same recipe may differ.",
    "Right answers for wrong reasons, where they are right everywhere. A cue that goes with the label in these "
    "images, too, leaves no gap.",
    "That attention is use. A map shows where the features lie that speak for an answer; a part of the image may be "
    "looked at and not matter, or matter and be spread too thin to be seen.",
    "That all is well. A report without findings says what these images could not show, and the table of smallest "
    "gaps says how much that is.",
)


def page(audit: Audit) -> str:
    """The whole HTML document."""
    with warnings.catch_warnings():
        # names may hold signs that matplotlib's own font lacks; the browser's has them
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        body = "\n".join(_body(audit))
    title = f"Audit: {audit.target.name} by {', '.join(group.name for group in audit.groups)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_sheet()}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def pieces(audit: Audit) -> dict[str, figures.Piece]:
    """The figures and tables of the page by name, as a notebook can show them."""
    made = {"accuracies-figure": _dots(audit)}
    known = {"correction": audit.settings["correction"], "power": POWER, "gap": _GAP, "images": IMAGES}
    captions = {name: words.format(**known) for name, words in _CAPTIONS.items()}
    made |= {
        name: _table(table, name, captions[name])
        for name, table in audit.tables.items()
        if name in captions and len(table)
    }
    for number, (group, maps) in enumerate(audit.average_maps.items(), start=1):
        name = "average-maps" if number == 1 else f"average-maps-{number}"
        made[name] = _averages(maps, audit.target.name, group, name)
    for number, one in enumerate(audit.shown, start=1):
        if one.images is not None:
            made[f"mistakes-{number}"] = _mistakes(one, one.images, number)
        made[f"mistakes-{number}-files"] = _mistakes_table(one, number, audit.target.name)
    return made


def _body(audit: Audit) -> Iterator[str]:
    made = pieces(audit)
    asked = audit.subject.get("model", "given predictions")
    yield _p(
        f"{audit.numbers['images']:,} images. Model: {asked}. Target: {audit.target.words[1]} or "
        f"{audit.target.words[0]}. Groups: {'; '.join(' or '.join(reversed(g.words)) for g in audit.groups)}.",
        "lead",
    )
    yield _headline(audit)
    yield from _found(audit)
    yield _h("The data", "data")
    yield from (_p(note) for note in audit.notes)
    yield from _all(made, "counts", "correlations")
    yield _h("How often it is right, and for whom", "accuracy")
    yield _p(
        f"A gap of {_GAP} is one wrong answer more in every {1 / GAP:.0f} images "
        "of the worse group. Gaps are taken among images with the target and among those without, for one of the two "
        "may hide the other."
    )
    yield from _all(made, "accuracies-figure", "gaps", "visible")
    yield _h("Does it exaggerate?", "amplification")
    yield from map(_p, _amplification(audit))
    yield from _all(made, "amplification")
    if audit.average_maps:
        yield _h("Where it looks", "attention")
        yield from (made[name].html for name in made if name.startswith("average-maps"))
        yield from _all(made, "regions", "regions_by_cell", "attention")
    if audit.shown:
        yield _h("Images to look at", "images")
        yield _p(
            "The mistakes that the model is surest of, in the cell with the lowest accuracy. Look before you count."
        )
        if all(one.images is None for one in audit.shown):
            yield _p("This report holds no pictures, as was asked for: open the files that are named here.")
        yield from (made[name].html for name in made if name.startswith("mistakes"))
    if "trust" in made:
        yield _h("How far these measures can be trusted", "trusted")
        yield _p(
            "On drawn pictures whose bias is known, the same measures were asked of many models, biased and not. A "
            "measure that notices a bias only from .8 on is silent about most of what there is to see."
        )
        yield from _all(made, "trust")
    yield _h("What could not be measured, and why", "unmeasured")
    yield _list(audit.unmeasured)
    yield _h("What these numbers cannot show", "limits")
    yield _list(CANNOT_SHOW)
    yield _h("How this report was made", "made")
    yield _p(f"All numbers of this page, unrounded, are in {VALUES} beside it.")
    versions = audit.about.get("versions", {})
    yield _definitions({
        **audit.subject, **audit.settings, "date": str(audit.about.get("date", "")),
        "computed on": str(audit.about.get("device", "")),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()), "fingerprint": audit.key,
    })  # fmt: skip


def _headline(audit: Audit) -> str:
    """The performance over all images: one card a number, with its interval and its n."""
    outside, yes = audit.target.words
    labels = {
        "accuracy": "of all answers are right (accuracy)",
        "sensitivity": f"are right for images labelled {yes} (sensitivity)",
        "specificity": f"are right for images labelled {outside} (specificity)",
        "share said yes": f"of the images the model calls {yes}",
        "share labelled yes": f"of the images are labelled {yes}",
    }
    cards = "".join(
        f"<div><dt>{html.escape(labels[row['measure']])}</dt><dd>{printed(row['value'].estimate, '.1%')}"
        f"<small>{_ends_of(row['value'])}<br>{row['value'].n:,} images</small></dd></div>"
        for row in audit.tables["overall"].to_dict("records")
    )
    return f'<dl class="headline" aria-label="Over all images">{cards}</dl>'


def _ends_of(value: Interval) -> str:
    return f"[{printed(value.low, '.1%')}, {printed(value.high, '.1%')}]"


def _found(audit: Audit) -> Iterator[str]:
    yield _h("What was found", "found")
    if audit.warnings:
        yield f'<div class="warning"><p><strong>Know this first.</strong></p>{_list(audit.warnings)}</div>'
    count, correction = audit.numbers["tests"], audit.settings["correction"]
    tests = f"{count} tests; correction of p-values: {correction}."
    if correction == "none":
        tests += f" Of so many, {0.05 * count:.1f} on average would find something where there is nothing."
    if audit.findings:
        yield f'<div class="found">{_list([finding.sentence for finding in audit.findings])}</div>'
        yield _p(tests, "lead")
        return
    seen = audit.tables["visible"]["smallest"].dropna()
    low, high = (f"{100 * value:.1f}" for value in (seen.min(), seen.max()))
    smallest = (
        f"A gap would have had to be {low if low == high else f'{low} to {high}'} points to be seen with a "
        f"probability of {POWER:.0%} (the table of smallest gaps has each)."
        if len(seen)
        else "No gap could have been seen in so few images."
    )
    yield f'<div class="quiet">{_p("Nothing that these images can tell from chance. " + smallest)}</div>'
    yield _p(tests, "lead")


def _amplification(audit: Audit) -> Iterator[str]:
    yes, inside = audit.target.words[1], audit.groups[0].words[1]
    yield (
        f"Say that 60 % of the images with {inside} are labelled {yes} and 40 % of the others, and the model says "
        f"{yes} of 80 % and of 20 %: its answers are 20 points off, and tie the two more closely than the labels do. "
        "That is amplification. Mistakes move such shares even where they have nothing to do with the group, so the "
        "model's mistakes are also shuffled among the "
        "images of equal labels. Only what it is off more, or less, than its shuffled mistakes has to do with the "
        "group. Signed: above 0 the answers tie the two more closely than the labels do, below 0 less closely; it is "
        "measured only where the labels tie them at all."
    )
    if len(audit.tables["amplification"]) > len(audit.groups):
        yield (
            "Group → target: how often the model says the target, of images in the group and of the others. Target → "
            "group: how often it says the group, of images labelled as the target. Both predicted: how often it says "
            "the group of images that it calls the target itself."
        )


def _dots(audit: Audit) -> figures.Piece:
    rows = [
        {"cell": _plain(row["cell"]), "group": row["group"], **_ends(row["accuracy"])}
        for row in audit.tables["accuracies"].to_dict("records")
    ]
    frame = pd.DataFrame(rows)
    said = "; ".join(f"{row['cell']} {row['accuracy']:.2f}" for row in rows)
    drawn = figures.dots(
        frame, label="cell", value="accuracy", low="low", high="high", n="n", sort=False, x_label="accuracy", digits=3
    )
    return figures.show(
        drawn,
        alt=f"Accuracy of each cell of target and group with its interval: {said}.",
        caption="Share of right answers in each cell, with Wilson's 95 % interval.",
        name="accuracies",
    )


def _averages(maps: Mapping[str, np.ndarray], target: str, group: str, name: str) -> figures.Piece:
    cells = list(maps)
    return figures.show(
        figures.strip(
            {f"{_plain(target)}: mean share of the map": np.stack(list(maps.values()))},
            labels=[_plain(cell) for cell in cells],
        ),
        alt=f"Mean attention maps for the cells {'; '.join(cells)}.",
        caption=f"Where Grad-CAM of the answer lies on average, by {group}, cell by cell, one scale: bright is much.",
        name=name,
    )


def _mistakes(one: Shown, images: np.ndarray, number: int) -> figures.Piece:
    titles = [f"{value:+.1f}".replace("-", "−") for value in one.answers]
    if one.maps is None:
        figure = figures.contact_sheet(images, columns=max(3, len(images)), titles=titles)
    else:
        both = np.concatenate([images, images])
        heat = np.concatenate([np.zeros_like(one.maps), _shares(one.maps)])
        columns = max(3, len(images))
        figure = figures.maps_over_images(
            _padded(both, len(images), columns),
            _padded(heat, len(images), columns),
            columns=columns,
            titles=[title for row in (titles, [""] * len(titles)) for title in row + [""] * (columns - len(row))],
            label="share of the map",
        )
    below = "" if one.maps is None else " and, below, where the map lies"
    return figures.show(
        figure,
        alt=f"{len(images)} images of {one.cell}, all answered wrongly{below}.",
        caption=f"{one.cell}: the surest wrong answers{below}. Above each: the answer, 0 being undecided.",
        name=f"mistakes-{number}",
    )  # fmt: skip


def _padded(values: np.ndarray, row: int, columns: int) -> np.ndarray:
    """Rows of so many columns: a sheet of few pictures would show them very large."""
    if row == columns:
        return values
    blank = np.full((columns - row, *values.shape[1:]), 253 if values.dtype == np.uint8 else 0, values.dtype)
    return np.concatenate([values[:row], blank, values[row:], blank])


def _shares(maps: np.ndarray) -> np.ndarray:
    totals = maps.sum((1, 2), keepdims=True)
    return np.divide(maps, totals, out=np.zeros_like(maps), where=totals > 0)


def _mistakes_table(one: Shown, number: int, target: str) -> figures.Piece:
    frame = pd.DataFrame({"file": one.files, f"answer about {target}": one.answers})
    return figures.table(frame, caption=f"The files of these images ({one.cell}).", name=f"mistakes-{number}-files")


_GAP = f"{100 * GAP:.0f} points"
_CAPTIONS: Mapping[str, str] = {
    "counts": "How many images each cell of target and group has; one of fewer than 30 is marked.",
    "correlations": "Correlation (MCC) of target and group, with 95 % intervals: in the labels, of the answers with "
    "the group as labelled, and in the training labels.",
    "gaps": "Accuracy in the group less that of the others, with Newcombe's 95 % interval. Each interval is about its "
    "gap alone, whatever else was tested; correction of p: {correction}. So an interval without 0 may stand beside a p "
    "above 0.05, and such a gap is not counted as found.",
    "visible": "The smallest gap that {power:.0%} of such audits would find (correction for other tests: "
    "{correction}), and how many images of that kind a gap of {gap} would need.",
    "amplification": "How often the model says it and how often it is labelled so, how far these are apart on average "
    "with 95 % bootstrap intervals, and how far mistakes alone would bring them apart.",
    "attention": "Attention-IoU of the target's map with the group's, and with the group's map of another image.",
    "regions": "How much of the target's map lies in each region, beside the region's share of the image.",
    "regions_by_cell": "The same, cell by cell.",
    "trust": "From which strength of a planted bias on (0 to 1) one model and {images:,} pictures were enough in "
    "{power:.0%} of audits, for a background (birds), a small object (pets), a group of people (faces) and one of many "
    "objects (scenes); and how many unbiased models were accused. From the book's chapter The dial, whose auditor "
    "compares the model with unbiased ones trained the same way. This audit has none to compare with: read the order "
    "of the measures, not the strengths.",
}
# columns as the page shows them
_NAMES: Mapping[str, str] = {
    "small": "few",
    "n_in": "n, in group",
    "n_out": "n, others",
    "right_in": "right, in group",
    "right_out": "right, others",
    "size": "apart",
    "unrelated errors": "by mistakes alone",
    "among": "images with",
    "smallest": "smallest gap seen",
    "needed": f"needed for {_GAP}",
    "images": "images now",
    "mass": "share of the map",
    "area": "share of the image",
    "excess": "map less image",
    "score": "Attention-IoU",
}


def _table(frame: pd.DataFrame, name: str, caption: str) -> figures.Piece:
    mute = ("small", "in the training labels", "signed", "p corrected")
    idle = [column for column in mute if column in frame and not _says(frame[column])]
    shown = (
        _paired(frame).drop(columns=[*idle, *({"p"} & set(frame))]).rename(columns=dict(_NAMES) | {"p corrected": "p"})
    )
    formats: dict[str, str | Callable[[float], str]] = {
        str(column): p_value if column == "p" else ".3f"
        for column in shown
        if shown[column].map(lambda value: not isinstance(value, (str, bool, int))).any()
    }
    if "few" in shown:
        shown = shown.assign(few=shown["few"].map({True: "few", False: ""}))
    if _NAMES["needed"] in shown:
        formats[_NAMES["needed"]] = ",.0f"
    return figures.table(shown, caption=caption, name=name.replace("_", "-"), formats=formats)


def _paired(frame: pd.DataFrame) -> pd.DataFrame:
    """Two rates in one column, "0.500 (0.470)": one each would be wider than a screen."""
    if "said_in" not in frame:
        return frame
    pairs = {
        f"said (labelled), {words}": [
            f"{printed(said, '.3f')} ({printed(labelled, '.3f')})"
            for said, labelled in zip(frame[f"said_{side}"], frame[f"labelled_{side}"], strict=True)
        ]
        for side, words in (("in", "in group"), ("out", "others"))
    }
    rest = frame.drop(columns=["group", "direction", *RATES])
    return pd.concat([frame[["group", "direction"]], pd.DataFrame(pairs, index=frame.index), rest], axis=1)


def _says(column: pd.Series) -> bool:
    """Whether any of it is worth a column: a flag that is set, a value that is defined."""
    return bool(column.any() if column.dtype == bool else column.notna().any())


def _all(made: Mapping[str, figures.Piece], *names: str) -> Iterator[str]:
    yield from (made[name].html for name in names if name in made)


def _ends(value: Interval) -> dict[str, float]:
    return {"accuracy": value.estimate, "low": value.low, "high": value.high, "n": value.n}


def _plain(text: str) -> str:
    """A text that matplotlib takes as it is: dollars would start a formula."""
    return text.replace("$", r"\$")


def _h(text: str, name: str) -> str:
    return f'<h2 id="section-{name}">{html.escape(text)}</h2>'


def _p(text: str, kind: str = "") -> str:
    return f"<p{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{html.escape(text)}</p>"


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>"


def _definitions(items: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in items.items() if text)
    return f"<dl>{rows}</dl>"


@cache
def _sheet() -> str:
    return theme.report_css() + resources.files("biaslib.audit").joinpath("report.css").read_text(encoding="utf-8")
