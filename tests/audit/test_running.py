"""Whole audits: the planted spot is found, its honest twin is quiet, page and JSON agree."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from biaslib import audit, cli
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, biased, both, draw, honest

# fewer deals than in a real audit
QUICK = {"deals": 19}


def audited(spots, model=None, **given):
    asked = {"data": spots / "images", "labels": spots / "labels.csv", "target": "green", "groups": ["red"]} | QUICK
    asked |= {"masks": spots / "masks"} | PLAIN if model is not None else {}
    return audit.run(model=model, **(asked | given))


def test_a_planted_bias_is_found_in_the_right_group_and_the_right_region(spots):
    found = audited(spots, biased(), groups=["red", "random"])
    gaps = [finding for finding in found.findings if finding.kind == "gap"]
    assert {finding.of for finding in gaps} == {"red"}
    assert [finding.of for finding in found.findings if finding.kind == "region"] == ["spot"]
    table = found.tables["gaps"].set_index(["group", "among"])
    labels = pd.read_csv(spots / "labels.csv")
    right = labels["red"] == labels["green"]
    expected = (
        right[(labels.green == 1) & (labels.red == 1)].mean() - right[(labels.green == 1) & (labels.red == 0)].mean()
    )
    assert table.loc[("red", "green"), "gap"].estimate == pytest.approx(expected)
    assert table.loc[("red", "green"), "gap"].low > 0.85
    assert (table["p corrected"] >= table["p"]).all()
    assert found.shown[0].group == "red"
    assert len(found.shown[0].files) == 6


def test_its_honest_twin_is_quiet_and_the_page_says_what_could_have_been_seen(spots):
    found = audited(spots, honest(), groups=["red", "random"])
    assert found.findings == ()
    page = audit.page(found)
    assert "Nothing that these images can tell from chance" in page
    assert re.search(r"A gap would have had to be [\d.]+ to [\d.]+ points", page)


def test_correction_is_on_unless_turned_off(spots):
    on, off = (audited(spots, honest(), corrected=corrected, groups=["red", "random"]) for corrected in (True, False))
    np.testing.assert_array_equal(off.tables["gaps"]["p"], off.tables["gaps"]["p corrected"])
    corrected, plain = on.tables["gaps"]["p corrected"], off.tables["gaps"]["p"]
    assert ((corrected > plain) | (plain == 1)).all()
    assert on.tables["visible"]["smallest"].iloc[0] > off.tables["visible"]["smallest"].iloc[0]
    said = [audit.page(found) for found in (on, off)]
    assert ["correction for other tests: Holm" in page for page in said] == [True, False]
    assert ["correction for other tests: none" in page for page in said] == [False, True]
    assert ["would find something where there is nothing" in page for page in said] == [False, True]


def test_a_model_that_tells_the_group_is_measured_in_every_way(spots):
    found = audited(spots, both(), output=0, group_outputs=[1])
    assert len(found.tables["amplification"]) == 3
    assert found.tables["attention"]["score"].iloc[0].estimate == 0.0
    assert not any("no output" in reason for reason in found.unmeasured)


def test_predictions_need_neither_model_nor_images(spots):
    labels = pd.read_csv(spots / "labels.csv")
    told = audit.run(
        labels=labels.assign(said=labels["red"]), target="green", groups="red", predictions="said", **QUICK
    )
    asked = audited(spots, biased())
    for name in ("counts", "accuracies", "gaps"):
        columns = [column for column in told.tables[name] if not column.startswith("p")]
        pd.testing.assert_frame_equal(told.tables[name][columns], asked.tables[name][columns])
    assert any("neither model nor images" in reason for reason in told.unmeasured)
    assert "Images to look at" not in audit.page(told)


def test_what_is_odd_about_the_data_is_said(tmp_path):
    draw(tmp_path, n=60)
    images = tmp_path / "images"
    (images / "005.png").write_bytes(b"no picture")
    Image.new("RGB", (32, 32)).save(images / "extra.png")
    labels = pd.read_csv(tmp_path / "labels.csv")
    rare = labels.assign(rare=[1, 1] + [0] * 58).query("not (rare == 1 and green == 1)")
    rare = rare if rare["rare"].any() else labels.assign(rare=[0, 1] + [0] * 58)
    found = audited(tmp_path, honest(), labels=rare, groups=["rare"], target="green")
    assert found.numbers["unreadable"] == 1
    assert any("005.png" in note for note in found.notes)
    assert any("extra.png" in note for note in found.notes)
    assert any("no image, so nothing is known" in reason for reason in found.unmeasured)
    upside_down = audited(tmp_path, honest(), labels=labels.assign(green=1 - labels["green"]))
    assert any("wrong more often than right" in note for note in upside_down.notes)


class Page(html.parser.HTMLParser):
    """Rows of every table by its caption, and everything that would be loaded or run."""

    def __init__(self):
        super().__init__()
        self.tables, self.refers, self.tags = {}, [], set()
        self.cell = self.caption = None

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.refers += [value for name, value in attrs if name in ("src", "href") or name.startswith("on")]
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th", "caption"):
            self.cell = ""

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(self.cell)
        elif tag == "caption":
            self.caption = self.cell
        elif tag == "table":
            self.tables[self.caption] = self.rows
        if tag in ("td", "th", "caption"):
            self.cell = None


def read(page: str) -> Page:
    reader = Page()
    reader.feed(page)
    return reader


def shown(value, digits):
    if isinstance(value, dict):
        ends = " [" + ", ".join(shown(value[end], digits) for end in ("low", "high")) + "]"
        return shown(value["estimate"], digits) + ends
    return f"{value:.{digits}f}".replace("-", "−").replace("−0.000", "0.000")


def test_page_and_json_hold_the_same_numbers(spots, tmp_path):
    audited(spots, biased(), out=tmp_path / "out")
    values = json.loads((tmp_path / "out" / "audit.json").read_text())["tables"]
    tables = read((tmp_path / "out" / "report.html").read_text()).tables
    gaps = next(rows for caption, rows in tables.items() if caption.startswith("Accuracy in the group less"))
    assert gaps[0] == [
        "group",
        "images with",
        "n, in group",
        "n, others",
        "right, in group",
        "right, others",
        "gap",
        "p",
    ]
    for row, value in zip(gaps[1:], values["gaps"], strict=True):
        assert row[2:4] == [str(value["n_in"]), str(value["n_out"])]
        assert row[4:7] == [shown(value[name], 3) for name in ("right_in", "right_out", "gap")]
    seen = next(rows for caption, rows in tables.items() if caption.startswith("The smallest gap"))
    for row, value in zip(seen[1:], values["visible"], strict=True):
        assert row[3:] == [shown(value["smallest"], 3), f"{value['needed']:,.0f}"]
    amplified = next(rows for caption, rows in tables.items() if caption.startswith("How often the model says it"))
    assert amplified[0][:5] == ["group", "direction", "said (labelled), in group", "said (labelled), others", "apart"]
    for row, value in zip(amplified[1:], values["amplification"], strict=True):
        assert row[2] == f"{shown(value['said_in'], 3)} ({shown(value['labelled_in'], 3)})"
        assert row[3] == f"{shown(value['said_out'], 3)} ({shown(value['labelled_out'], 3)})"
        assert row[4:6] == [shown(value["size"], 3), shown(value["unrelated errors"], 3)]
    regions = next(rows for caption, rows in tables.items() if caption.startswith("How much of the target"))
    for row, value in zip(regions[1:], values["regions"], strict=True):
        assert row[1:6] == [str(value["n"]), *(shown(value[name], 3) for name in ("area", "mass", "excess", "score"))]


def test_names_are_escaped_and_nothing_can_be_loaded_or_run(tmp_path):
    draw(tmp_path, n=60)
    evil = '<script>alert(1)</script>"&$x$'
    labels = pd.read_csv(tmp_path / "labels.csv").rename(columns={"red": evil, "green": "<b>green$"})
    name = "<img src=x onerror=alert(1)>.png"
    (tmp_path / "images" / "000.png").rename(tmp_path / "images" / name)
    labels.loc[0, "file"] = name
    asked = {"labels": labels, "target": "<b>green$", "groups": [evil], "masks": None}
    page = audit.page(audited(tmp_path, biased(), **asked))
    reader = read(page)
    assert not reader.tags & {"script", "b", "img", "link", "iframe"}
    assert all(refers.startswith(("data:", "#")) for refers in reader.refers)
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page
    assert "http" not in re.sub(r'xmlns="http://www.w3.org/2000/svg"|http-equiv', "", page)


@pytest.fixture
def told(spots, tmp_path):
    """A quick audit of predictions, and the folder of its report."""
    labels = pd.read_csv(spots / "labels.csv")
    labels["said"] = labels["red"]
    return {
        "labels": labels,
        "target": "green",
        "groups": "red",
        "predictions": "said",
        "out": tmp_path / "out",
    } | QUICK


def test_a_report_on_something_else_is_kept_unless_forced(told, tmp_path):
    values = told["out"] / "audit.json"
    audit.run(**told)
    first = values.read_text()
    audit.run(**told)
    assert values.read_text() == first
    with pytest.raises(BiaslibError, match=r"with other settings.*--force"):
        audit.run(**(told | {"seed": 1}))
    assert values.read_text() == first
    audit.run(**(told | {"seed": 1}), force=True)
    assert values.read_text() != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_other_files_are_never_touched(told):
    out = told["out"]
    out.mkdir()
    (out / "diary.txt").write_text("mine")
    (out / ".partial-left").mkdir()
    with pytest.raises(BiaslibError, match=r"holds other files \(diary\.txt\)"):
        audit.run(**told)
    audit.run(**told, force=True)
    assert sorted(path.name for path in out.iterdir()) == [".partial-left", "audit.json", "diary.txt", "report.html"]
    audit.run(**told)
    assert (out / "diary.txt").read_text() == "mine"


def test_the_same_names_with_other_pictures_are_another_audit(spots, tmp_path):
    out = tmp_path / "out"
    audited(spots, honest(), out=out)
    first = (out / "audit.json").read_text()
    audited(spots, honest(), out=out)
    assert (out / "audit.json").read_text() == first
    for changed in ("images/000.png", "masks/spot/002.png"):
        shutil.copytree(spots, tmp_path / changed / spots.name)
        Image.new("RGB", (32, 32)).save(tmp_path / changed / spots.name / changed)
        with pytest.raises(BiaslibError, match="on other data"):
            audited(tmp_path / changed / spots.name, honest(), out=out)
    assert (out / "audit.json").read_text() == first


def test_a_report_may_be_called_as_the_column_of_predictions(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        audit.run(**(told | {"out": "said"}))
    assert (tmp_path / "said" / "report.html").is_file()


@pytest.mark.parametrize("force", [True, False])
def test_a_report_never_lies_over_what_it_is_made_of(spots, told, tmp_path, monkeypatch, force):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BiaslibError, match=r"\. is or holds the current folder: name a folder of its own"):
        audit.run(**(told | {"out": "."}), force=force)
    (tmp_path / "in").mkdir()
    with pytest.raises(BiaslibError, match=r"in/\.\. is or holds the current folder"):
        audit.run(**(told | {"out": "in/.."}), force=force)
    with pytest.raises(BiaslibError, match=r"is or holds .*images: name a folder of its own"):
        audit.run(**(told | {"out": spots, "data": spots / "images"}), force=force)
    with pytest.raises(BiaslibError, match=r"is or holds .*labels\.csv"):
        audit.run(**(told | {"out": spots, "labels": spots / "labels.csv"}), force=force)
    (tmp_path / "file").touch()
    with pytest.raises(BiaslibError, match=r"file is a file: name a folder"):
        audit.run(**(told | {"out": tmp_path / "file" / "out"}), force=force)
    assert not list(spots.glob("*.html"))


def test_a_place_that_cannot_be_used_is_found_before_any_picture_is_seen(spots, tmp_path, monkeypatch):
    def never(*arguments, **keywords):
        raise AssertionError

    monkeypatch.setattr("biaslib.audit.running.look", never)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BiaslibError, match="holds other files"):
        audited(spots, honest(), out=tmp_path)


def test_as_many_deals_as_the_corrected_test_needs(told):
    labels = told["labels"]
    rng = np.random.default_rng(0)
    groups = ["red", *(f"g{i}" for i in range(9))]
    labels = labels.assign(**{name: rng.integers(0, 2, len(labels)) for name in groups[1:]})
    given = told | {"labels": labels, "groups": groups, "out": None}
    found = audit.run(**(given | {"deals": None}))
    assert found.numbers["tests"] == 30
    assert int(found.settings["deals"]) == 600
    amplified = found.tables["amplification"].set_index("group")
    assert amplified.loc["red", "p corrected"] <= 0.05
    said = next(finding.sentence for finding in found.findings if finding.kind == "amplification")
    share = labels.groupby("red")["green"].mean()
    assert said.startswith(
        f"The model says green of 100.0% of the images marked red ({share[1]:.1%} are labelled so) and of 0.0% of "
        f"those marked not red ({share[0]:.1%}): "
    )
    few = audit.run(**(given | {"deals": 19}))
    assert few.numbers["tests"] == 20
    assert few.tables["amplification"]["p corrected"].isna().all()
    assert any("could not be tested: with 30 tests at once 600 deals" in reason for reason in few.unmeasured)
    alone = audit.run(**(given | {"deals": 20, "groups": ["red"]}), corrected=False)
    assert alone.numbers["tests"] == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either a model or its predictions"),
        ({"model": honest(), "predictions": "said"}, "either a model or its predictions"),
        ({"model": honest()}, "A model needs images"),
        ({"predictions": "said", "deals": 0}, "deals must be at least 1"),
        ({"model": honest(), "data": ".", "group_outputs": [0, 1]}, "1 groups but 2 outputs"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(given, said):
    labels = pd.DataFrame({"file": ["a", "b"], "green": [0, 1], "red": [1, 0], "said": [0, 1]})
    with pytest.raises(BiaslibError, match=said):
        audit.run(labels=labels, target="green", groups="red", **given)


def test_the_command_writes_the_report_and_prints_what_it_found(spots, tmp_path, monkeypatch, capsys):
    arguments = {
        "--model": "tests.audit.subjects:biased", "--data": spots / "images", "--labels": spots / "labels.csv",
        "--target": "green", "--group": "red", "--masks": spots / "masks", "--size": 32, "--out": tmp_path / "out",
    }  # fmt: skip
    command = ["biaslib", "audit", *(str(word) for pair in arguments.items() for word in pair)]
    command += ["--mean", "0", "0", "0", "--std", "1", "1", "1"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    said, beside = capsys.readouterr()
    assert "not measured: What the model amplifies of its training data" in beside
    assert "green: 100.0% of the answers are right for red" in said
    assert said.splitlines()[-1] == f"the report is at {tmp_path / 'out' / 'report.html'}"
    monkeypatch.setattr(sys, "argv", [*command, "--seed", "1"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("biaslib: ")


def test_help_loads_nothing_heavy():
    code = "import sys\nfrom biaslib.cli import main\ntry: main()\nfinally: print(sorted(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", code, "audit", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert "run their maker's code when they are opened" in re.sub(r"\s+", " ", done.stdout)
    assert not any(f"'{heavy}'" in done.stderr for heavy in ("torch", "pandas", "timm"))
