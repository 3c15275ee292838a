"""Figures on a page: ink that follows the theme, text for everybody, the same bytes every time."""

import base64
import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from biaslib import figures
from biaslib.errors import BiaslibError
from biaslib.figures import pieces, theme


def drawing(seed=0):
    fig, ax = figures.new()
    ax.plot([0, 1, 2], [0, 1, seed], color=figures.COLOURS["blue"])
    ax.set_title("A & B")
    ax.text(1, 1, "a plain word")
    ax.axhline(0.5, color="black")
    ax.set_xlabel("share (%)")
    return fig, ax


@pytest.mark.parametrize("caption", ["see [the page](page.md)", "one ` alone", "`a` and ` alone"])
def test_a_caption_with_raw_markup_is_refused(caption):
    assert figures.pieces.words("the world `birds` & its [0, 1]") == "the world <code>birds</code> &amp; its [0, 1]"
    with pytest.raises(BiaslibError, match=r"caption"):
        figures.show(drawing()[0], alt="a line", caption=caption)


@pytest.mark.parametrize("text", ["the parameter `further`", "see [the page](page.md)"])
def test_a_quoted_text_with_markup_is_refused(text):
    with pytest.raises(BiaslibError, match=r"quoted text"):
        figures.glue_number("name", text)


def test_new_has_the_asked_size_and_leaves_the_session_alone():
    before = dict(mpl.rcParams)
    fig, axes = figures.new(aspect=0.5, rows=2, cols=3)
    assert axes.shape == (2, 3)
    assert fig.get_figwidth() == pytest.approx(2 * fig.get_figheight())
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("aspect", [0, float("nan")])
def test_new_names_what_is_wrong(aspect):
    with pytest.raises(BiaslibError, match="aspect"):
        figures.new(aspect)


def test_the_palette_is_okabe_and_itos_and_every_colour_has_one_for_words():
    assert figures.COLOURS["vermillion"] == "#d55e00"
    assert set(theme.LABEL_COLOURS) == set(figures.COLOURS)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_words_in_colour_can_be_read_in_both_modes():
    css = figures.pieces.asset("figures.css")
    light, dark = css.split('html[data-theme="dark"] .biaslib-figure,')
    for block, background in ((light, "#ffffff"), (dark, "#14181e")):
        found = re.findall(r"--biaslib-[a-z]+-label: (#[0-9a-f]{6})", block)
        assert len(found) == len(figures.COLOURS)
        for colour in found:
            lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, colour
    assert dict(re.findall(r"--biaslib-([a-z]+): (#[0-9a-f]{6})", light)) == figures.COLOURS
    assert dict(re.findall(r"--biaslib-([a-z]+)-label: (#[0-9a-f]{6})", light)) == theme.LABEL_COLOURS


def test_no_colour_of_the_theme_is_left_hard_coded():
    html = figures.show(drawing()[0], alt="a line").html
    body = html.split("</style>")[1]
    assert "var(--biaslib-blue)" in body
    assert "var(--biaslib-ink)" in body
    assert not re.search(r"#0{6}|black|" + "|".join((theme.INK, theme.MUTED, theme.GRID, "#0072b2")), body)
    assert 'fill="currentColor"' in body
    assert "DejaVu" not in body


def test_the_svg_is_well_formed_and_scales_with_the_page():
    html = figures.show(drawing()[0], alt="a line").html
    root = ElementTree.fromstring(re.search(r"<svg.*</svg>", html, re.DOTALL).group())
    assert root.get("viewBox")
    assert root.get("width") is None
    assert root.get("height") is None
    assert "<style" not in ElementTree.tostring(root, encoding="unicode")
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", html)


def test_two_renders_are_the_same_to_the_byte():
    assert figures.show(drawing()[0], alt="a line").html == figures.show(drawing()[0], alt="a line").html


def test_two_figures_on_one_page_share_no_id():
    htmls = [figures.show(drawing(seed)[0], alt="a line", caption="c").html for seed in (1, 2)]
    first, second = (set(re.findall(r'\bid="([^"]+)"', html)) for html in htmls)
    assert first
    assert not first & second
    for html, ids in zip(htmls, (first, second), strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", html)) <= ids


def test_alt_caption_and_name_are_on_the_figure_escaped():
    piece = figures.show(drawing()[0], alt='a "line" <up>', caption="1 < 2", name="fig-line")
    assert '<figure class="biaslib-figure biaslib-drawing" id="fig-line"' in piece.html
    assert 'role="img" aria-label="a &quot;line&quot; &lt;up&gt;"' in piece.html
    assert ">1 &lt; 2</figcaption>" in piece.html
    assert piece._repr_html_() == piece.html
    assert repr(piece) == '[a "line" <up>]'


def test_backticks_in_a_caption_are_code():
    html = figures.show(drawing()[0], alt="a line", caption="the world `a<b>` is `small`").html
    assert "the world <code>a&lt;b&gt;</code> is <code>small</code></figcaption>" in html


def test_words_and_legends_added_later_keep_the_style():
    _, ax = drawing()
    legend = ax.legend(ax.lines[:1], ["a name"])
    assert not legend.get_frame_on()
    assert {text.get_color() for text in (*ax.texts, *legend.get_texts())} == {theme.INK}


@pytest.mark.parametrize("alt", ["", "  "])
def test_alt_is_required(alt):
    with pytest.raises(BiaslibError, match="alt"):
        figures.show(drawing()[0], alt=alt)


def test_a_name_that_is_no_anchor_is_refused():
    with pytest.raises(BiaslibError, match="two words"):
        figures.show(drawing()[0], alt="a", name="two words")


def test_show_closes_the_figure():
    fig, _ = drawing()
    figures.show(fig, alt="a line")
    assert not fig.axes


def test_tooltips_reach_the_svg_for_one_artist_and_for_every_point():
    fig, ax = drawing()
    figures.tooltip(ax.lines[0], "the <line>")
    for n in (2, 30):  # matplotlib writes few points and many points in different ways
        points = ax.scatter(np.arange(n), np.arange(n))
        figures.tooltip(points, [f"set {n} point {i}" for i in range(n)])
    html = figures.show(fig, alt="a line").html
    assert html.count("<title>") == 1 + 2 + 30
    assert "<title>the &lt;line&gt;</title>" in html
    assert "<title>set 30 point 29</title>" in html
    assert pieces._TOOLTIP not in html


def test_an_empty_tooltip_is_refused():
    _, ax = drawing()
    with pytest.raises(BiaslibError, match="tooltip"):
        figures.tooltip(ax.lines[0], "")


def test_images_are_inside_as_png():
    fig, ax = figures.new()
    ax.imshow(np.zeros((4, 4, 3), dtype=np.uint8), interpolation="none")
    html = figures.show(fig, alt="a picture").html
    assert 'href="data:image/png;base64,iVBOR' in html


def test_a_drawing_as_a_file_needs_nothing_of_a_page():
    file = pieces.svg_file(figures.show(drawing()[0], alt="a line").html)
    assert file.startswith("<svg ")
    assert "var(" not in file
    assert "currentColor" not in file
    ElementTree.fromstring(file)
    assert pieces.svg_file(figures.table(pd.DataFrame({"x": [1]}), caption="T", name="t").html) is None


def test_a_plot_offers_its_values_and_a_drawing_has_none():
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [0.25, 0.75]})
    html = figures.show(figures.line_plot(frame, x="x", y="y", y_label="score"), alt="a", name="line").html
    link = re.search(r'base64,([^"]+)" download="line.csv"', html)
    read = pd.read_csv(io.BytesIO(base64.b64decode(link[1])))
    assert list(read["y"]) == [0.25, 0.75]
    assert list(read["panel"]) == ["score", "score"]
    assert "download=" not in figures.show(drawing()[0], alt="a").html


def test_no_letter_of_a_drawing_is_smaller_than_nine_pixels_on_a_phone():
    figure, ax = figures.new()
    ax.text(0.5, 0.5, "small", fontsize=6.0)
    html = figures.show(figure, alt="a").html
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', html)[1])
    least = float(re.search(r"--biaslib-least:(\d+)px", html)[1])
    assert 6.0 * least / width == pytest.approx(9.0, abs=0.02)
