"""Tables and numbers in prose."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from biaslib import figures
from biaslib.errors import BiaslibError
from biaslib.figures.table import number
from biaslib.statistics import Interval

NAN = float("nan")


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "who <b>": ["a & b", "c"],
            "n": [12_000, 3],
            "score": [Interval(0.831, 0.8123, 0.85, 12), Interval(NAN, NAN, NAN, 0)],
            "gap": [-0.25, NAN],
            "kept": [True, False],
        }
    )


def parse(piece):
    table = re.search(r"<table>.*</table>", piece.html, re.DOTALL).group()
    return ElementTree.fromstring(table.replace("&nbsp;", " "))


def cells(piece):
    return [["".join(cell.itertext()) for cell in row] for row in parse(piece).findall("./tbody/tr")]


def test_cells_read_as_printed_numbers(frame):
    assert cells(figures.table(frame, caption="Scores", name="scores")) == [
        ["a & b", "12,000", "0.83 [0.81, 0.85]", "−0.25", "yes"],
        ["c", "3", "n/a", "n/a", "no"],
    ]


def test_formats_apply_to_their_column(frame):
    rows = cells(figures.table(frame, caption="S", name="s", formats={"gap": "+.1%", "n": lambda v: f"{v} images"}))
    assert rows[0][1] == "12000 images"
    assert rows[0][3] == "−25.0%"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.0, 3, "< 0.001"), (0.00099, 3, "< 0.001"), (0.001, 3, "0.001"), (0.0314, 3, "0.031"), (1.0, 3, "1.000"),
     (0.0, 2, "< 0.01"), (0.01, 2, "0.01"), (NAN, 3, "n/a")],
)  # fmt: skip
def test_a_small_p_value_is_not_said_to_be_zero(value, digits, text):
    assert figures.p_value(value, digits) == text


def test_p_value_is_a_format_of_a_table():
    frame = pd.DataFrame({"test": ["a", "b"], "p": [1e-9, NAN]})
    piece = figures.table(frame, caption="P", name="p", formats={"p": figures.p_value})
    assert cells(piece) == [["a", "< 0.001"], ["b", "n/a"]]
    assert parse(piece).find("./tbody/tr/td").get("class") == "biaslib-number"


def test_numbers_stand_right_and_words_left(frame):
    head = parse(figures.table(frame, caption="S", name="s")).findall("./thead/tr/th")
    assert [cell.get("class") for cell in head] == [None, "biaslib-number", "biaslib-number", "biaslib-number", None]


def test_the_table_is_accessible(frame):
    piece = figures.table(frame, caption="Scores of <all>", name="scores", missing="no such image")
    table = parse(piece)
    assert table.findtext("caption/span") == "Scores of <all>"
    assert all(cell.get("scope") == "col" for cell in table.findall("./thead/tr/th"))
    assert [cell.get("scope") for cell in table.findall("./tbody/tr/th")] == ["row", "row"]
    assert table.find(".//abbr").get("title") == "no such image"
    assert 'tabindex="0" role="region" aria-label="Scores of &lt;all&gt;"' in piece.html


def test_the_csv_holds_the_raw_values(frame):
    html = figures.table(frame, caption="S", name="scores").html
    link = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)" download="scores.csv"', html)
    read = pd.read_csv(io.BytesIO(base64.b64decode(link.group(1))))
    assert list(read.columns) == ["who <b>", "n", "score", "score low", "score high", "score n", "gap", "kept"]
    assert read["score low"][0] == 0.8123
    assert np.isnan(read["gap"][1])


def test_a_named_index_becomes_the_first_column_and_the_row_heads():
    frame = pd.DataFrame({"x": [1.0]}, index=pd.Index(["hair"], name="region"))
    assert cells(figures.table(frame, caption="S", name="s")) == [["hair", "1.00"]]


def test_an_empty_frame_is_an_empty_table():
    assert cells(figures.table(pd.DataFrame({"x": []}), caption="S", name="s")) == []


def test_a_note_stands_under_the_name_of_its_row_and_in_the_file():
    frame = pd.DataFrame({"metric": ["gap"], "value": [0.5], "needs": ["labels"]})
    piece = figures.table(frame, caption="S", name="s", note="needs")
    table = parse(piece)
    assert [cell.text for cell in table.findall("./thead/tr/th")] == ["metric", "value"]
    assert table.findtext("./tbody/tr/th/small") == "labels"
    link = re.search(r'base64,([^"]+)" download', piece.html)
    assert "labels" in base64.b64decode(link[1]).decode()


def test_heat_is_how_much_and_nothing_where_it_is_undefined():
    frame = pd.DataFrame({"metric": ["a", "b"], "strength": [0.2, NAN]})
    piece = figures.table(frame, caption="S", name="s", heat={"strength": lambda value: 1 - value})
    assert [cell.get("style") for cell in parse(piece).findall("./tbody/tr/td")] == ["--biaslib-heat:80%", None]


def test_intervals_are_drawn_on_the_scale_of_their_column_and_only_where_they_are_few():
    spans = [Interval(0.0, -1.0, 1.0, 5), Interval(0.5, 0.0, 1.0, 5)]
    frame = pd.DataFrame({"who": ["a", "b"], "x": spans})
    drawn = re.findall(r'<svg class="biaslib-span".*?</svg>', figures.table(frame, caption="S", name="s").html)
    lines = [re.findall(r'x1="([\d.]+)" x2="([\d.]+)" y1="7"', each)[0] for each in drawn]
    assert lines == [("3.0", "61.0"), ("32.0", "61.0")]
    assert all('class="biaslib-zero" x1="32.0"' in each for each in drawn)
    many = frame.assign(y=spans, z=spans)
    assert "<svg" not in figures.table(many, caption="S", name="s").html


@pytest.mark.parametrize(
    ("change", "message"),
    [({"caption": " "}, "caption"), ({"name": "a b"}, "a b"), ({"formats": {"nope": ".1f"}}, "nope")],
)
def test_a_wrong_argument_is_named(frame, change, message):
    with pytest.raises(BiaslibError, match=message):
        figures.table(frame, **{"caption": "S", "name": "s", **change})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.835, "0.83"),
        (-1.5, "−1.50"),
        (-0.0001, "0.00"),
        (2000, "2,000"),
        (np.int64(-7), "−7"),
        (np.float32(0.5), "0.50"),
        (NAN, "n/a"),
        (None, "n/a"),
        (np.True_, "yes"),
        ("words", "words"),
        (Interval(0.5, 0.4, 0.6, 9), "0.50 [0.40, 0.60]"),
        (Interval(NAN, NAN, NAN, 0), "n/a"),
        (Interval(0.588, NAN, NAN, 20), "0.59 (no interval)"),
    ],
)
def test_number(value, text):
    assert number(value) == text


def test_quote_writes_what_myst_nb_writes(monkeypatch):
    import IPython.display
    from myst_nb.ext import glue

    written = []
    record = lambda data, raw, metadata: written.append((data, raw, metadata))  # noqa: E731
    monkeypatch.setattr(IPython.display, "display", record)
    monkeypatch.setattr(glue, "ipy_display", record)
    figures.glue_number("wga", Interval(0.8351, 0.8, 0.9, 5), digits=3)
    glue.glue("wga", "0.835 [0.800, 0.900]", display=False)
    assert written[0] == written[1]
    figures.glue_number("share", 0.835, ".0%")
    assert written[2][0] == {"application/papermill.record/text/plain": "'84%'"}
