"""Plots of numbers: the right marks, words that do not collide, and errors that name the column."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Annotation

from biaslib import figures
from biaslib.errors import BiaslibError
from biaslib.figures import theme


def marks(ax, kind):
    # FillBetweenPolyCollection and its like count as what they are made from
    return [artist for artist in ax.collections if isinstance(artist, kind)]


def words(ax):
    return [text.get_text() for text in ax.texts if isinstance(text, Annotation)]


@pytest.fixture
def dial():
    rows = [
        {"bias": bias, "kind": kind, "score": score, "low": score - 0.1, "high": score + 0.1, "n": 4}
        for kind, start in (("bird", 0.8), ("background", 0.3))
        for bias, score in zip((50, 75, 100), (start, start, 0.5), strict=True)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def attributes():
    score = np.linspace(0, 1, 6)
    return pd.DataFrame(
        {"name": list("abcdef"), "mcc": score**2, "score": score, "low": score - 0.1, "high": score + 0.1, "n": 20}
    )


def test_response_draws_a_line_a_band_and_dots_for_each_kind(dial):
    fig = figures.line_plot(dial, x="bias", y="score", low="low", high="high", by="kind", n="n", y_label="score")
    (ax,) = fig.axes
    assert len(ax.lines) == 2
    assert len(marks(ax, PolyCollection)) == 2
    assert [len(dots.get_offsets()) for dots in marks(ax, PathCollection)] == [3, 3]
    assert words(ax) == ["bird", "background"]
    assert list(ax.get_xticks()) == [50, 75, 100]
    assert "<title>bird, 50: 0.80 [0.70, 0.90], n = 4</title>" in figures.show(fig, alt="a").html


def test_response_sorts_the_dial_and_leaves_a_gap_at_nan(dial):
    dial = dial[dial.kind == "bird"].iloc[::-1].copy()
    dial.loc[dial.bias == 75, "score"] = np.nan
    fig = figures.line_plot(dial, x="bias", y="score")
    (ax,) = fig.axes
    assert [list(line.get_xdata()) for line in ax.lines] == [[50], [100]]
    assert len(marks(ax, PathCollection)[0].get_offsets()) == 2
    assert words(ax) == []


def test_plots_draw_on_the_axes_they_are_given(dial, attributes):
    fig, (left, right) = figures.new(cols=2)
    assert figures.line_plot(dial, x="bias", y="score", by="kind", ax=left) is fig
    assert figures.dot_plot(attributes, label="name", value="score", ax=right) is fig


def test_dots_puts_the_largest_on_top_and_marks_what_is_undefined(attributes):
    attributes.loc[0, "score"] = np.nan
    fig = figures.dot_plot(
        attributes, label="name", value="score", low="low", high="high", highlight=["b"], reference=0.5, n="n"
    )
    (ax,) = fig.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == list("fedcba")
    assert ax.get_yticklabels()[4].get_fontweight() == "bold"
    assert len(marks(ax, LineCollection)[0].get_segments()) == 5
    assert words(ax) == ["n/a"]
    top, bottom = ax.get_ylim()[1], ax.get_ylim()[0]
    assert top < bottom  # the first label stands highest


def test_dots_keeps_the_order_and_tells_kinds_apart(attributes):
    both = pd.concat([attributes.assign(who="paper"), attributes.assign(who="ours")])
    fig = figures.dot_plot(both, label="name", value="score", by="who", sort=False)
    (ax,) = fig.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == list("abcdef")
    first, second = (dots.get_offsets()[:, 1] for dots in marks(ax, PathCollection))
    assert np.all(first < second)
    assert words(ax) == ["● paper", "■ ours"]


def test_a_dot_alone_in_its_line_stands_on_it(attributes):
    kinds = attributes.assign(who=["paper", "ours"] * 3)
    (ax,) = figures.dot_plot(kinds, label="name", value="score", by="who", sort=False).axes
    heights = np.concatenate([dots.get_offsets()[:, 1] for dots in marks(ax, PathCollection)])
    assert set(heights) <= set(ax.get_yticks())


def test_a_mark_without_an_interval_says_none(attributes):
    rows = attributes.assign(low=np.nan, high=np.nan)
    svg = figures.show(figures.dot_plot(rows, label="name", value="score", low="low", high="high"), alt="Dots.").html
    assert "a: " in svg
    assert "[n/a" not in svg


def test_bold_names_have_room_for_a_phones_wider_letters(attributes):
    def left(highlight):
        svg = figures.show(
            figures.dot_plot(attributes, label="name", value="score", highlight=highlight), alt="Dots."
        ).html
        return max(float(x) for x in re.findall(r'text-anchor: end[^"]*" x="([0-9.]+)"', svg))

    assert left(["a"]) > left([]) + 10


def test_names_of_kinds_stay_inside_a_figure_whose_labels_are_long():
    kinds = ["own", "leaked into smiles", "leaked elsewhere", "rest"]
    rows = [{"label": "a label that takes half of the figure's width", "kind": kind, "value": 1.0} for kind in kinds]
    figure = figures.dot_plot(pd.DataFrame(rows), label="label", value="value", by="kind")
    figure.draw_without_rendering()
    texts = [text for text in figure.axes[0].texts if text.get_text()[2:] in kinds]
    boxes = [text.get_window_extent() for text in texts]
    assert [text.get_text()[2:] for text in texts] == ["leaked elsewhere", "rest", "own", "leaked into smiles"]
    assert boxes[0].y0 < boxes[2].y0
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_dots_marks_each_label_s_own_reference_with_a_tick(attributes):
    areas = {"a": 0.1, "c": 0.25}
    fig = figures.dot_plot(attributes, label="name", value="score", reference=areas, reference_name="area", sort=False)
    (ax,) = fig.axes
    ticks, points = marks(ax, PathCollection)
    np.testing.assert_allclose(ticks.get_offsets(), [[0.1, 0], [0.25, 2]])
    assert len(points.get_offsets()) == 6
    assert words(ax) == ["| area"]
    assert not ax.lines
    assert "<title>area, c: 0.25</title>" in figures.show(fig, alt="a").html


def test_scatter_names_the_highlighted_and_leaves_undefined_points_out(attributes):
    attributes.loc[1, "mcc"] = np.nan
    fig = figures.scatter(
        attributes, x="mcc", y="score", name="name", y_low="low", y_high="high", highlight={"a": "green", "f": "purple"}
    )
    (ax,) = fig.axes
    assert len(marks(ax, PathCollection)[0].get_offsets()) == 5
    assert len(marks(ax, LineCollection)[0].get_segments()) == 5
    assert words(ax) == ["a", "f"]
    assert figures.show(fig, alt="a").html.count("<title>") == 5


def boxes(ax):
    ax.figure.draw_without_rendering()
    return [text.get_window_extent() for text in ax.texts]


def test_names_beside_points_do_not_overlap():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"name": [f"Attribute {i}" for i in range(12)], "x": rng.random(12), "y": rng.random(12)})
    frame.loc[1, ["x", "y"]] = frame.loc[0, ["x", "y"]]  # two points in one place
    fig = figures.scatter(frame, x="x", y="y", name="name", highlight=list(frame.name))
    found = boxes(fig.axes[0])
    assert len(found) == 12
    assert not any(a.overlaps(b) for i, a in enumerate(found) for b in found[:i])


def test_names_at_line_ends_do_not_overlap(dial):
    fig = figures.line_plot(dial, x="bias", y="score", by="kind")  # both lines end at 0.5
    one, other = boxes(fig.axes[0])
    assert not one.overlaps(other)


def test_names_at_line_ends_stay_beside_the_plot(dial):
    dial["score"] = 0.0
    fig = figures.line_plot(dial, x="bias", y="score", by="kind", y_range=(0, 1))
    (ax,) = fig.axes
    found = boxes(ax)
    assert min((box.y0 + box.y1) / 2 for box in found) >= ax.get_window_extent().y0 - 1
    assert not found[0].overlaps(found[1])


def spread(positions, gap, low=-np.inf, high=np.inf):
    return theme._spread(np.array(positions, float), gap, low, high)


def test_spread_moves_only_what_is_out_of_the_ends_and_keeps_the_gap():
    assert spread([-0.5, 0.5, 4], 1, 0, 9).tolist() == [0, 1, 4]
    assert spread([9.5, 8.5, 4], 1, 0, 9).tolist() == [9, 8, 4]
    assert spread([1.0, 3.0], 1, 0, 9).tolist() == [1, 3]
    assert spread([1.0, 3.0, 2.0], 1, 0, 1).tolist() == [0, 2, 1]


def test_spread_by_hand():
    assert spread([0, 0], 1).tolist() == [-0.5, 0.5]
    assert spread([5, 0, 0.5], 1).tolist() == [5, -0.25, 0.75]
    assert spread([3, 1, 2], 1).tolist() == [3, 1, 2]
    assert spread([], 1).tolist() == []


def test_spread_keeps_order_gap_and_centre():
    rng = np.random.default_rng(1)
    for _ in range(50):
        wanted = rng.random(8)
        placed = spread(wanted, 0.1)
        assert np.all(np.diff(np.sort(placed)) >= 0.1 - 1e-12)
        assert placed[np.argsort(wanted)].tolist() == sorted(placed)
        assert placed.mean() == pytest.approx(wanted.mean())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: figures.line_plot(f, x="mcc", y="nope"), "nope"),
        (lambda f: figures.line_plot(f, x="name", y="score"), "name"),
        (lambda f: figures.line_plot(f, x="mcc", y="score", low="low"), "two ends"),
        (lambda f: figures.dot_plot(f, label="nope", value="score"), "nope"),
        (lambda f: figures.dot_plot(f, label="name", value="score", high="high"), "two ends"),
        (lambda f: figures.scatter(f, x="mcc", y="score", name="name", highlight=["z"]), "'z'"),
        (lambda f: figures.scatter(f, x="mcc", y="score", name="name", y_low="low"), "two ends"),
        (lambda f: figures.scatter(f, x="mcc", y="score", name="name", x_low="low"), "two ends"),
    ],
)
def test_a_wrong_column_is_named(attributes, call, message):
    with pytest.raises(BiaslibError, match=message):
        call(attributes)


def test_two_renders_of_a_plot_are_the_same_to_the_byte(attributes):
    htmls = {
        figures.show(
            figures.scatter(attributes, x="mcc", y="score", name="name", highlight=["c"]), alt="attributes"
        ).html
        for _ in range(2)
    }
    assert len(htmls) == 1


@pytest.fixture
def pairs():
    return pd.DataFrame([[1.0, -0.5], [0.0, np.nan]], index=["hat", "glasses"], columns=["smile", "skin"])


def squares(figure):
    return figure.axes[0].collections[0]


def test_sign_is_the_colour_and_size_the_strength(pairs):
    hues = squares(figures.matrix(pairs)).get_facecolors()
    assert len(hues) == 3  # the undefined one is empty
    np.testing.assert_allclose(hues[0], (*to_rgb(figures.COLOURS["vermillion"]), 1.0))
    np.testing.assert_allclose(hues[1], (*to_rgb(figures.COLOURS["blue"]), 0.5))
    assert hues[2, 3] == 0


def test_a_limit_makes_matrices_comparable(pairs):
    assert squares(figures.matrix(pairs, limit=2.0)).get_facecolors()[:, 3].tolist() == [0.5, 0.25, 0.0]
    assert squares(figures.matrix(pairs, limit=0.25)).get_facecolors()[:, 3].tolist() == [1.0, 1.0, 0.0]


def test_every_square_says_its_pair_and_number(pairs):
    page = figures.show(figures.matrix(pairs, digits=1), alt="a").html
    for text in ("hat, smile: 1.0", "hat, skin: −0.5", "glasses, smile: 0.0"):
        assert f"<title>{text}</title>" in page
    assert "nan" not in page


def test_numbers_are_written_where_asked_for(pairs):
    written = [text.get_text() for text in figures.matrix(pairs, numbers=True).axes[0].texts]
    assert written == ["1.00", "−0.50", "0.00"]
    assert not figures.matrix(pairs).axes[0].texts


def test_all_zero_and_all_undefined_are_drawn(pairs):
    assert squares(figures.matrix(pairs * 0)).get_facecolors()[:, 3].tolist() == [0, 0, 0]
    assert "<svg" in figures.show(figures.matrix(pairs * np.nan), alt="a").html


def test_nothing_and_words_are_refused(pairs):
    with pytest.raises(BiaslibError, match="at least one row"):
        figures.matrix(pairs[:0])
    with pytest.raises(BiaslibError, match="the matrix"):
        figures.matrix(pairs.astype(object).assign(smile="a"))


def test_kinds_differ_in_shape_as_well_as_in_colour(dial):
    ax = figures.line_plot(dial, x="bias", y="score", by="kind").axes[0]
    first, second = (dots.get_paths()[0].vertices for dots in marks(ax, PathCollection))
    assert first.shape != second.shape


def test_names_of_kinds_stand_once_a_figure():
    frame = pd.DataFrame({"map": ["a", "a"], "share": [0.2, 0.4], "kind": ["biased", "unbiased"]})
    panels = figures.new(0.5, 1, 3)[1]
    for axes, second in zip(panels, ["unbiased", "unbiased", "saw balls"], strict=True):
        figures.dot_plot(frame.assign(kind=["biased", second]), label="map", value="share", by="kind", ax=axes)
    assert [len(axes.texts) for axes in panels] == [2, 0, 2]
