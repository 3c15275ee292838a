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
import timm
import torch
from PIL import Image

from biaslib import audit, cli
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, Plain, biased, both, draw, honest

# fewer permutations than in a real audit
QUICK = {"permutations": 19}


def audited(spots, model=None, **given):
    asked = {"data": spots / "images", "labels": spots / "labels.csv", "target": "green", "groups": ["red"]} | QUICK
    asked |= {"masks": spots / "masks", "unwanted": ["spot"]} | PLAIN if model is not None else {}
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
    # loudly, too: the gap that goes over the empty cell
    assert any("green could not be measured: there is no image in the cell" in warning for warning in found.warnings)
    upside_down = audited(tmp_path, honest(), labels=labels.assign(green=1 - labels["green"]))
    assert any("wrong more often than right" in warning for warning in upside_down.warnings)


def from_labels(columns, **given):
    """An audit of predictions `said` of the target `cat` for the group `old`."""
    labels = pd.DataFrame({"file": [f"{row}.png" for row in range(len(columns["cat"]))], **columns})
    return audit.run(labels=labels, target="cat", groups="old", predictions="said", **(QUICK | given))


def test_the_performance_over_all_images_stands_on_the_page_and_in_the_json(spots, tmp_path):
    found = audited(spots, honest(), out=tmp_path / "out")
    values = json.loads((tmp_path / "out" / "audit.json").read_text())["tables"]["overall"]
    labels = pd.read_csv(spots / "labels.csv")
    green = np.arange(len(labels)) % 2 == 0  # what this model sees
    by_hand = {
        "accuracy": (labels["green"] == green).mean(),
        "sensitivity": green[labels["green"] == 1].mean(),
        "specificity": (~green)[labels["green"] == 0].mean(),
        "share said yes": green.mean(),
        "share labelled yes": labels["green"].mean(),
    }
    assert {row["measure"]: row["value"]["estimate"] for row in values} == pytest.approx(by_hand)
    page = audit.page(found)
    headline = page[page.index('class="headline"') : page.index("What was found")]
    for row in values:
        assert f"{row['value']['estimate']:.1%}" in headline
        assert f"[{row['value']['low']:.1%}, {row['value']['high']:.1%}]<br>{row['value']['n']:,} images" in headline
    assert found.warnings == ()


def test_a_model_that_always_says_yes_gets_no_clean_bill():
    rng = np.random.default_rng(0)
    found = from_labels({"cat": (rng.random(600) < 0.67).astype(int), "old": rng.integers(0, 2, 600), "said": 1})
    assert found.warnings[0].startswith("The model gives the same answer, cat, for every image.")
    # the gap among images that are no cats is 0 however the groups are served: said, and not dropped
    assert any("labelled not cat could not have been seen, however large" in warning for warning in found.warnings)
    page = audit.page(found)
    assert page.index("gives the same answer") < page.index("Nothing that these images can tell from chance")
    # one gap is left that could have been seen, and it is one number
    assert re.search(r"A gap would have had to be [\d.]+ points to be seen", page)
    always_no = from_labels({"cat": [0, 1] * 30, "old": [0, 0, 1, 1] * 15, "said": [0] * 59 + [0]})
    assert "same answer, not cat" in always_no.warnings[0]


def test_a_model_worse_than_the_majority_is_said_to_be():
    cat, old = [1] * 30 + [0] * 70, [0, 1] * 50
    said = [1] * 30 + [1] * 40 + [0] * 30
    found = from_labels({"cat": cat, "old": old, "said": said})
    assert found.warnings == (
        "The model is right for 60.0% of the images. Always answering not cat would be right for 70.0%.",
    )
    good = from_labels({"cat": cat, "old": old, "said": [1] * 30 + [1] * 20 + [0] * 50})
    assert good.warnings == ()


def test_scores_with_a_threshold_are_audited_as_their_answers(tmp_path):
    rng = np.random.default_rng(1)
    columns = {"cat": rng.integers(0, 2, 200), "old": rng.integers(0, 2, 200)}
    scores = np.where(rng.random(200) < 0.8, columns["cat"], 1 - columns["cat"]) * 0.5 + rng.random(200) * 0.5
    cut, answered = (
        from_labels(columns | {"said": said}, threshold=threshold)
        for said, threshold in ((scores, 0.5), ((scores > 0.5).astype(int), None))
    )
    for name in answered.tables:
        pd.testing.assert_frame_equal(cut.tables[name], answered.tables[name])
    assert cut.settings["threshold"] == "0.5"
    with pytest.raises(BiaslibError, match="or give the threshold"):
        from_labels(columns | {"said": scores})
    with pytest.raises(BiaslibError, match="threshold must be a finite number, not nan"):
        from_labels(columns | {"said": scores}, threshold=np.nan)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weights": "nope.pt"}, "weights has no effect beside predictions"),
        ({"masks": "nope"}, "masks has no effect"),
        ({"output": 7, "size": -3}, "output and size have no effect beside predictions"),
        ({"mean": (0, 0, 0)}, "mean has no effect"),
        ({"crop": 0.9, "batch": 8}, "crop and batch have no effect"),
        ({"yes": [1], "no": [0]}, "yes and no have no effect"),
        ({"group_outputs": [0]}, "group_outputs has no effect"),
        ({"unwanted": ["spot"]}, "'spot' is to be a region, but there are no masks"),
    ],
)
def test_an_option_without_effect_beside_predictions_is_refused(given, said, tmp_path):
    with pytest.raises(BiaslibError, match=said):
        from_labels({"cat": [0, 1] * 4, "old": [0, 0, 1, 1] * 2, "said": [0, 1] * 4}, out=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_a_region_is_a_finding_only_against_its_role(spots):
    """The map of the biased model lies on the red spot; that of the honest one avoids it."""
    kinds = {"wanted": ["spot"], "unwanted": ["spot"]}
    for model, accused in ((biased(), "unwanted"), (honest(), "wanted")):
        for role, names in kinds.items():
            found = audited(spots, model, **({"wanted": (), "unwanted": ()} | {role: names}))
            regions = [finding for finding in found.findings if finding.kind == "region"]
            assert [finding.of for finding in regions] == (["spot"] if role == accused else [])
            if regions:
                assert f"spot, a region marked as {role}, holds" in regions[0].sentence
                assert ("more than its" if role == "unwanted" else "less than its") in regions[0].sentence
    neutral = audited(spots, biased(), unwanted=())
    assert [finding.kind for finding in neutral.findings if finding.kind == "region"] == []
    assert neutral.tables["regions"]["p"].isna().all()
    assert any("was not said, so it is described and not tested" in reason for reason in neutral.unmeasured)
    # a family is not enlarged by what is not tested
    assert neutral.numbers["tests"] == audited(spots, biased()).numbers["tests"] - 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"unwanted": ["ball"]}, "There is no region 'ball': the masks have spot"),
        ({"wanted": ["spot"], "unwanted": ["spot"]}, "'spot' cannot be wanted and unwanted at once"),
    ],
)
def test_roles_belong_to_regions(spots, given, said):
    with pytest.raises(BiaslibError, match=said):
        audited(spots, honest(), **given)


def test_less_amplification_than_mistakes_alone_give_is_no_finding():
    # in either group as many are wrongly called cats as are wrongly not: the shares stay as labelled
    cat = np.array(([1] * 80 + [0] * 20 + [1] * 20 + [0] * 80) * 3)
    wrong = np.array(([1] * 10 + [0] * 70 + [1] * 10 + [0] * 10 + [1] * 10 + [0] * 10 + [1] * 10 + [0] * 70) * 3)
    old = np.array(([1] * 100 + [0] * 100) * 3)
    found = from_labels({"cat": cat, "old": old, "said": cat ^ wrong}, permutations=99)
    row = found.tables["amplification"].iloc[0]
    assert row["size"].estimate == pytest.approx(0, abs=1e-9)
    assert row["unrelated errors"] > 0.1
    assert row["p corrected"] <= 0.05
    assert [finding for finding in found.findings if finding.kind == "amplification"] == []


def test_average_maps_are_of_the_group_with_the_finding(spots):
    found = audited(spots, biased(), groups=["random", "red"])
    assert {finding.of for finding in found.findings if finding.kind == "gap"} == {"red"}
    assert list(found.average_maps) == ["red"]
    # without a red spot this model's map is empty
    assert set(found.average_maps["red"]) == {"green, red", "not green, red"}
    assert "lies on average, by red," in audit.page(found)
    assert list(audited(spots, honest(), groups=["random", "red"]).average_maps) == ["random"]


def test_a_report_without_pictures_names_the_files_alone(spots, tmp_path):
    found, bare = (audited(spots, biased(), images=images, out=tmp_path / str(images)) for images in (True, False))
    assert [one.files for one in bare.shown] == [one.files for one in found.shown]
    assert all(one.images is None for one in bare.shown)
    with_pictures, without = ((tmp_path / str(images) / "report.html").read_text() for images in (True, False))
    assert 'id="mistakes-1"' in with_pictures
    assert 'id="mistakes-1"' not in without
    assert "holds no pictures" in without
    assert bare.shown[0].files[0] in without
    # what is left are the two average maps and their scale
    assert without.count("<image ") < with_pictures.count("<image ") - len(found.shown[0].files)


@pytest.fixture(scope="module")
def transformer():
    """A vision transformer of random weights with two outputs, in one block."""
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", num_classes=2, depth=1).eval()


def test_a_vision_transformer_has_maps_by_rollout(spots, transformer):
    plain = {"size": None, "labels": pd.read_csv(spots / "labels.csv")[:24]}
    found = audited(spots, transformer, output=0, group_outputs=[1], threshold=0.0, **plain)
    assert found.subject["maps"] == "rollout"
    assert found.average_maps["red"]["green, red"].shape == (14, 14)
    mass = found.tables["regions"].set_index("region").loc["spot", "mass"]
    assert 0 < mass.estimate < 0.1
    page = audit.page(found)
    assert "attention rollout" in page
    assert "It is the same for every answer of the model" in page
    assert "those of the table further down were made with Grad-CAM" in page
    assert "are Grad-CAM" not in page
    # one map for both: that they agree would say nothing
    assert "attention" not in found.tables
    assert "Whether green and the group share their attention: there is no map of an answer about the group." in (
        found.unmeasured
    )


@pytest.mark.parametrize("way", ["integrated-gradients", "occlusion"])
def test_maps_without_a_split_find_the_planted_spot(spots, way):
    found = audited(spots, Plain(biased()), attribution=way, labels=pd.read_csv(spots / "labels.csv")[:80])
    assert [finding.of for finding in found.findings if finding.kind == "region"] == ["spot"]
    assert ("integrated gradients" in audit.page(found)) == (way == "integrated-gradients")
    assert ("The maps are occlusion" in audit.page(found)) == (way == "occlusion")


def test_no_maps_are_drawn_where_none_are_asked_for(spots):
    found = audited(spots, biased(), attribution="none")
    assert "Where the model looks: no maps were asked for." in found.unmeasured
    assert "Where it looks" not in audit.page(found)
    assert found.average_maps == {}


def test_the_command_takes_an_attribution(spots, refusal):
    said = refusal(spots, model="tests.audit.subjects:both", output=0, threshold=0, attribution="lime", size=32)
    assert said.startswith("There is no attribution 'lime': take one of grad-cam, rollout")
    assert "attribution has no effect beside predictions" in refusal(
        spots, predictions="red", attribution="occlusion", data=None
    )


def test_the_page_says_that_intervals_are_not_corrected(spots):
    found = audited(spots, honest(), groups=["red", "random"])
    gaps = next(caption for caption in read(audit.page(found)).tables if caption.startswith("Accuracy in the group"))
    assert "Each interval is about its gap alone" in gaps
    assert "correction of p: Holm" in gaps


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
        assert row[1] == value["role"]
        assert row[2:7] == [str(value["n"]), *(shown(value[name], 3) for name in ("area", "mass", "excess", "score"))]


def test_names_are_escaped_and_nothing_can_be_loaded_or_run(tmp_path):
    draw(tmp_path, n=60)
    evil = '<script>alert(1)</script>"&$x$'
    labels = pd.read_csv(tmp_path / "labels.csv").rename(columns={"red": evil, "green": "<b>green$"})
    name = "<img src=x onerror=alert(1)>.png"
    (tmp_path / "images" / "000.png").rename(tmp_path / "images" / name)
    labels.loc[0, "file"] = name
    asked = {"labels": labels, "target": "<b>green$", "groups": [evil], "masks": None, "unwanted": ()}
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

    monkeypatch.setattr("biaslib.audit.running.predict", never)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BiaslibError, match="holds other files"):
        audited(spots, honest(), out=tmp_path)


def test_as_many_permutations_as_the_corrected_test_needs(told):
    labels = told["labels"]
    rng = np.random.default_rng(0)
    groups = ["red", *(f"g{i}" for i in range(9))]
    labels = labels.assign(**{name: rng.integers(0, 2, len(labels)) for name in groups[1:]})
    given = told | {"labels": labels, "groups": groups, "out": None}
    found = audit.run(**(given | {"permutations": None}))
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
    few = audit.run(**(given | {"permutations": 19}))
    assert few.numbers["tests"] == 20
    assert few.tables["amplification"]["p corrected"].isna().all()
    assert any("could not be tested: with 30 tests at once 600 permutations" in reason for reason in few.unmeasured)
    alone = audit.run(**(given | {"permutations": 20, "groups": ["red"]}), corrected=False)
    assert alone.numbers["tests"] == 3


def test_the_first_editions_name_of_permutations_is_still_taken(told):
    assert audit.run(**(told | {"permutations": None, "out": None}), deals=21).settings["deals"] == "21"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either a model or its predictions"),
        ({"model": honest(), "predictions": "said"}, "either a model or its predictions"),
        ({"model": honest()}, "A model needs images"),
        ({"predictions": "said", "permutations": 0}, "permutations must be from 1 to 1,000,000"),
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
        "--target": "green", "--group": "red", "--masks": spots / "masks", "--unwanted": "spot", "--size": 32,
        "--out": tmp_path / "out",
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
