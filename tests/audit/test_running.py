"""Whole audits: the planted spot is found, its honest twin is quiet, page and JSON agree."""

import csv
import html
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import timm
import torch
from PIL import Image
from torch import nn

from biaslib import audit, cli, models
from biaslib.audit import report
from biaslib.audit.inputs import Binary
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, Plain, Spots, biased, both, draw, honest

# what one test has asked a model, the others find
pytestmark = pytest.mark.usefixtures("store_of_the_module")

# fewer permutations than in a real audit
QUICK = {"permutations": 19}


def audited(spots, model=None, **given):
    asked = {"data": spots / "images", "labels": spots / "labels.csv", "target": "green", "groups": ["red"]} | QUICK
    asked |= {"masks": spots / "masks", "unwanted": ["spot"]} | PLAIN if model is not None else {}
    return audit.run(model=model, **(asked | given))


@cache
def of_biased(spots):
    """The biased model's audit; several tests read it, none changes it."""
    return audited(spots, biased())


@cache
def of_honest(spots, *, corrected=True):
    """The honest model's audit about two groups, and its page, likewise."""
    found = audited(spots, honest(), corrected=corrected, groups=["red", "random"])
    return found, audit.page(found)


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
    found, page = of_honest(spots)
    assert found.findings == ()
    assert "Nothing that these images can tell from chance" in page
    assert re.search(r"A gap would have had to be [\d.]+ to [\d.]+ points", page)


def test_correction_is_on_unless_turned_off(spots):
    (on, page), (off, plain_page) = (of_honest(spots, corrected=corrected) for corrected in (True, False))
    np.testing.assert_array_equal(off.tables["gaps"]["p"], off.tables["gaps"]["p corrected"])
    corrected, plain = on.tables["gaps"]["p corrected"], off.tables["gaps"]["p"]
    assert ((corrected > plain) | (plain == 1)).all()
    assert on.tables["visible"]["smallest"].iloc[0] > off.tables["visible"]["smallest"].iloc[0]
    said = [page, plain_page]
    levels = [found.settings["confidence of outcomes"] for found in (on, off)]
    assert levels == [f"{1 - 0.05 / on.numbers['tests']:.2%}", "95.00%"]
    for page, level in zip(said, levels, strict=True):
        assert f"else the {level} interval allows both" in page
        assert f"gaps in accuracy with their {level} intervals" in page
    assert ["correction of p-values: Holm" in page for page in said] == [True, False]
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
    asked = of_biased(spots)
    for name in ("counts", "accuracies", "gaps"):
        columns = [column for column in told.tables[name] if not column.startswith("p")]
        pd.testing.assert_frame_equal(told.tables[name][columns], asked.tables[name][columns])
    assert any("neither model nor images" in reason for reason in told.unmeasured)
    assert "Images to look at" not in audit.page(told)


def test_a_report_says_how_often_such_reports_were_wrong(spots):
    (maps, page), (plain, plain_page) = (of_honest(spots, corrected=corrected) for corrected in (True, False))
    first = maps.tables["error_rates"].iloc[0]
    sentence = (
        f"{first['false alarms']} reports like this one found something that many more pictures did not confirm: a "
        f"false alarm. About {first['accused']} models whose training pictures had no bias they found something, "
        f"about {first['by map alone']} of them by their maps alone. Such a model, too, may err more in one group: a "
        f"finding is about its answers, and no proof of what it was trained on. Where a cue moved the answers by about "
        f"0.1, they found that in {first['about 0.1']} models. Of the outcomes that they told, "
        f"{first['outcomes right']} were right."
    )
    assert sentence in page
    folded = page[page.index("<details><summary>How often reports like this one") :]
    assert 'id="error-rates"' in folded[: folded.index("</details>")]
    assert page.index(sentence) < page.index("<details><summary>How often") < page.index('id="trust"')
    # the rates are of corrected reports
    assert "error_rates" not in plain.tables
    assert "reports like this one" not in plain_page
    labels = pd.read_csv(spots / "labels.csv")
    alone = audit.run(labels=labels, target="green", groups="red", predictions="random", **QUICK)
    assert "of them by their maps alone" not in audit.page(alone)


def test_only_what_a_report_did_is_told_of():
    whole, maps, alone = (report.error_rates(tables) for tables in ({"regions", "slices"}, {"regions"}, set()))
    slices = ["slices by chance", "slices of the cue", "slices of the cue, unbiased"]
    assert list(whole.columns.difference(maps.columns)) == slices
    with resources.files("biaslib.audit").joinpath("error_rates.csv").open(encoding="utf-8") as file:
        shipped = pd.read_csv(file).drop(columns="images")
    for kind, table in {"maps": whole, "answers alone": alone}.items():
        rows = shipped[shipped["report"] == kind].reset_index(drop=True)[[*table]]
        pd.testing.assert_frame_equal(table, rows)


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
    assert found.warnings == ("The model is right for 60.0% of the images, always answering not cat for 70.0%.",)
    good = from_labels({"cat": cat, "old": old, "said": [1] * 30 + [1] * 20 + [0] * 50})
    assert good.warnings == ()


def test_pictures_prepared_by_a_guess_are_said_to_be_before_anything_else(spots, tmp_path, monkeypatch, capsys):
    torch.manual_seed(0)
    torch.save(timm.create_model("resnet10t", num_classes=2).state_dict(), tmp_path / "own.pth")
    asked = ["--model", "resnet10t", "--weights", tmp_path / "own.pth", "--data", spots / "images", "--size", 32]
    pd.read_csv(spots / "labels.csv")[:24].to_csv(tmp_path / "labels.csv", index=False)
    asked += ["--labels", tmp_path / "labels.csv", "--target", "green", "--group", "red", "--permutations", 19]
    colours = ["--mean", 0.5, 0.5, 0.5, "--std", 0.5, 0.5, 0.5]
    sentence = (
        "Pictures were prepared with mean 0.485 0.456 0.406, std 0.229 0.224 0.225, size 32 and crop 0.875 (crop, "
        "interpolation, mean, std by timm's defaults for this architecture), because nothing else was given. If the "
        "share of right answers in the report is not the one that you know, give --mean, --std, --size, and --crop or "
        "--squash."
    )
    for given, warned in (([], True), (colours, False)):
        out = tmp_path / f"out-{warned}"
        monkeypatch.setattr(sys, "argv", ["biaslib", "audit", *map(str, [*asked, *given, "--out", out])])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        page = html.unescape((out / "report.html").read_text())
        assert (f"warning: {sentence}" in capsys.readouterr().err) == warned
        assert (json.loads((out / "audit.json").read_text())["warnings"][:1] == [sentence]) == warned
        assert (sentence in page[page.index("<h1>") : page.index('class="headline"')]) == warned


@pytest.mark.parametrize(
    "colours",
    ["--mean 0.5,0.25,0 --std 1,1,0.5", "--mean=0.5,0.25,0 --std=1,1,0.5", "--mean 0.5, 0.25, 0 --std 1 1 0.5"],
)
def test_colours_are_written_with_commas_or_spaces(spots, tmp_path, monkeypatch, colours):
    out, labels = tmp_path / "out", tmp_path / "labels.csv"
    pd.read_csv(spots / "labels.csv")[:24].to_csv(labels, index=False)
    words = f"biaslib audit --model tests.audit.subjects:honest --data {spots / 'images'} --size 32 {colours} --squash"
    words += f" --labels {labels} --target green --group red --permutations 19 --out {out}"
    monkeypatch.setattr(sys, "argv", words.split())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    prepared = json.loads((out / "audit.json").read_text())["model"]["preprocessing"]
    assert prepared.startswith(
        "both sides to 32 px (bicubic), the middle 32 x 32; mean 0.5 0.25 0, deviation 1 1 0.5; "
    )
    assert prepared.endswith("given: crop, mean, size, squash, std")


@pytest.mark.parametrize(
    ("mean", "said"), [(0.5, "'0.5'"), ("0,5 0,5 0,5", "'0 5 0 5 0 5'"), ((0.5, 0.5), "'0.5 0.5'")]
)
def test_a_colour_that_is_not_three_numbers_is_one_sentence(spots, refusal, mean, said):
    found = refusal(spots, model="tests.audit.subjects:honest", mean=mean)
    assert found == f"--mean is three numbers, such as 0.5 0.5 0.5, not {said}."


def test_of_two_models_each_whose_preparation_was_a_guess_is_named(spots, tmp_path):
    for name in ("own", "other"):
        torch.save(models.build("small", 2).state_dict(), tmp_path / f"{name}.pt")
    asked = {"data": spots / "images", "labels": spots / "labels.csv", "target": "green", "groups": "red", **QUICK}
    two = {"model": "small", "weights": tmp_path / "own.pt", "against": tmp_path / "other.pt", "size": 32}
    found = audit.run(**asked, **two)
    assert [sentence.partition(" were prepared")[0] for sentence in found.warnings[:2]] == [
        "Pictures for the model that is audited (small with own.pt)",
        "Pictures for the model that it is compared with (small with other.pt)",
    ]
    (tmp_path / "sure").mkdir()
    shutil.copy(tmp_path / "own.pt", tmp_path / "sure" / "own.pt")
    prepared = {"mean": [0.5] * 3, "std": [0.5] * 3, "input_size": [3, 32, 32]}
    (tmp_path / "sure" / "config.json").write_text(json.dumps(prepared))
    found = audit.run(**asked, **(two | {"weights": tmp_path / "sure" / "own.pt"}))
    assert found.warnings[0].startswith("Pictures for the model that it is compared with (small with other.pt) were")
    assert not any(sentence.startswith("Pictures for") for sentence in found.warnings[1:])


def test_the_page_begins_with_plain_shares_and_says_which_way_a_gap_is_signed(spots):
    found = of_biased(spots)
    page, rows = audit.page(found), found.tables["gaps"].set_index("among")
    shares = [f"{of}: {rows['right_in'][of]:.1%} for red, {rows['right_out'][of]:.1%} for not red" for of in rows.index]
    assert page.index('class="headline"') < page.index("; ".join(shares)) < page.index("What was found")
    assert page.index("are signed: red minus not red.") < page.index('id="outcomes"')
    assert "Each gap is signed: red minus not red." in report.cards(found)["model_card.md"]
    many_groups = [Binary(f"g{at}", ("0", "1"), (f"not g{at}", f"g{at}")) for at in range(5)]
    wide = audit.page(replace(found, groups=tuple(many_groups)))
    assert "are signed: each group minus all others." in wide
    assert "; ".join(shares) not in wide


def test_maps_of_few_places_are_said_to_be(spots):
    def coarse(model, **given):
        said = audited(spots, model, masks=None, unwanted=(), images=False, **given).warnings
        return [warning for warning in said if warning.startswith("The maps have")]

    class Coarse(Spots):
        def forward_features(self, x):
            return nn.functional.avg_pool2d(super().forward_features(x), 4)

    assert coarse(Coarse(0.0, 1000.0)) == [
        "The maps have 2 x 2 places only, too few to tell which part of a picture counts: give a larger --size, or for "
        "Grad-CAM an earlier layer with --layer."
    ]
    assert coarse(Coarse(0.0, 1000.0), attribution="none") == []
    assert coarse(honest()) == []


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
    assert set(cut.tables) - set(answered.tables) == {"scores", "calibration"}
    assert cut.settings["threshold"] == "0.5"
    page = audit.page(cut)
    assert ["area under the ROC curve" in one for one in (page, audit.page(answered))] == [True, False]
    assert "Calibration, score by score" in page
    assert "Calibration error is the mean distance" in page
    # logits are no probabilities: there is no such column, and nothing that explains it
    logits = from_labels(columns | {"said": 10 * scores - 5}, threshold=0.0)
    assert logits.tables["scores"]["calibration error"].isna().all()
    assert "alibration" not in audit.page(logits)
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
    assert neutral.numbers["tests"] == of_biased(spots).numbers["tests"] - 1


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
    assert row["shift"].estimate == pytest.approx(0, abs=1e-9)
    assert row["unrelated errors"] < -0.1
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


def many(n=4000, seed=0):
    """Scores that are wrong about old cats more often than about others, by far more than the margin."""
    rng = np.random.default_rng(seed)
    cat, old = rng.integers(0, 2, n), rng.integers(0, 2, n)
    wrong = rng.random(n) < 0.05 + 0.3 * (cat & old)
    return {"cat": cat, "old": old, "said": np.where(cat ^ wrong, 0.75, 0.25) + rng.uniform(-0.2, 0.2, n)}


def test_three_outcomes_by_the_margin():
    columns = many()
    found = from_labels(columns, threshold=0.5)
    rows = found.tables["visible"].set_index("among")
    assert rows["outcome"].to_dict() == {"cat": "shown", "not cat": "excluded"}
    assert found.to_json()["tables"]["visible"][0]["outcome"] == "shown"
    assert found.settings["confidence of outcomes"] == f"{1 - 0.05 / found.numbers['tests']:.2%}"
    # corrected for as many tests as were made, and so wider than the gap's own interval
    assert rows.loc["cat", "gap"].confidence == pytest.approx(1 - 0.05 / found.numbers["tests"])
    own = found.tables["gaps"].set_index("among").loc["cat", "gap"]
    assert rows.loc["cat", "gap"].estimate == own.estimate
    assert rows.loc["cat", "gap"].low < own.low < own.high < rows.loc["cat", "gap"].high
    alone = from_labels(columns, threshold=0.5, corrected=False).tables["visible"].set_index("among")
    assert (alone.loc["cat", "gap"].low, alone.loc["cat", "gap"].high) == (own.low, own.high)
    wide = from_labels(columns, threshold=0.5, margin=0.3).tables["visible"].set_index("among")
    assert wide["outcome"].to_dict() == {"cat": "cannot be told", "not cat": "excluded"}
    few = from_labels({name: values[:200] for name, values in columns.items()}, threshold=0.5)
    assert few.tables["visible"]["outcome"].tolist()[1] == "cannot be told"


def test_the_page_says_what_the_outcomes_mean_and_which_intervals_are_corrected():
    columns = many(n=400)
    found = from_labels(columns, threshold=0.5, margin=0.1)
    page = audit.page(found)
    first = page[page.index("What was found") : page.index("The data")]
    assert 'id="outcomes"' in first
    assert "What cannot be told is no acquittal" in first
    assert "larger than the margin of 10 points" in first
    assert "intervals in the figure above and the table below are corrected" in first
    # a finding has the gap's own interval, which is not
    own = found.tables["gaps"].set_index("among").loc["cat", "gap"]
    assert f"[{-100 * own.high:.1f}, {-100 * own.low:.1f}]" in first[: first.index('id="outcomes"')]
    assert "The other intervals of this report, those in the findings above too, are not corrected" in first
    quiet = audit.page(from_labels({name: values[:40] for name, values in columns.items()}, threshold=0.5))
    assert "The other intervals of this report are not corrected" in quiet
    assert "needed for 10 points" in first
    assert "one wrong answer more in every 10 images" in page
    plain = audit.page(from_labels(columns, threshold=0.5, corrected=False))
    assert "No interval of this report is corrected" in plain
    assert "below are corrected" not in plain
    assert "1 point " in audit.page(from_labels(columns, threshold=0.5, margin=0.01))


def test_intervals_that_allow_for_many_tests_are_not_said_to_be_holms():
    found = from_labels(many(n=40), threshold=0.5)
    captions, level = report._words(found)["captions"], f"{1 - 0.05 / found.numbers['tests']:.2%}"
    for name in ("overview", "visible", "visible-figure"):
        assert f"{level} interval" in captions[name]
        assert "Holm" not in captions[name]
    card = report.cards(found)["model_card.md"]
    assert f"whether a gap is larger than 5 points is of {level}. Correction of p-values: Holm" in card


def test_captions_can_be_read():
    captions = report._words(from_labels(many(n=40), threshold=0.5))["captions"]
    new = (
        "visible",
        "visible-figure",
        "against",
        "retrained",
        "rates",
        "disparities",
        "scores",
        "calibration",
        "intersections",
        "overview",
        "error_rates",
    )
    assert [name for name in new if len(captions[name].split()) > 45] == []


@pytest.mark.parametrize("margin", [0, 1, 5, -0.1, np.nan])
def test_a_margin_is_a_share(margin):
    with pytest.raises(BiaslibError, match=f"margin must lie between 0 and 1, such as 0.05 .*, not be {margin}"):
        from_labels(many(n=40), threshold=0.5, margin=margin)


def test_answers_stand_a_row_an_image_beside_the_report(tmp_path):
    columns = many(n=200) | {"right": ["left", "right"] * 100}
    columns["cat"] = np.where(columns["cat"], "yes", "no")
    labels = pd.DataFrame({"file": [f"{row}.png" for row in range(200)], **columns})
    out = tmp_path / "out"
    asked = {"labels": labels, "target": "cat", "groups": ["old", "right"], "predictions": "said", "threshold": 0.5}
    audit.run(**asked, **QUICK, out=out)
    with (out / "answers.csv").open() as file:
        head, *rows = csv.reader(file)
    # a group's own column is kept, whatever it is called
    assert head == ["file", "cat", "old", "right", "score", "answer about cat", "right"]
    for row, label in zip(rows, labels.itertuples(), strict=True):
        assert row[:4] == [label.file, label.cat, str(label.old), label.right]
        assert float(row[4]) == label.said
        answer = "yes" if label.said > 0.5 else "no"
        assert row[5:] == [answer, str(int(answer == label.cat))]
    assert "answers.csv has the label and the answer of each image" in (out / "report.html").read_text()
    # without scores there are answers alone
    audit.run(**(asked | {"predictions": "answer", "threshold": None, "labels": labels.assign(answer="yes")}), **QUICK,
              out=out, force=True)  # fmt: skip
    table = pd.read_csv(out / "answers.csv")
    assert "score" not in table
    assert set(table["answer about cat"]) == {"yes"}


def test_answers_of_a_model_are_its_outputs(spots, tmp_path):
    found = audited(spots, both(), output=0, group_outputs=[1], out=tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "answers.csv")
    labels = pd.read_csv(spots / "labels.csv")
    assert list(table) == ["file", "green", "red", "score", "answer about green", "answer about red", "right"]
    pd.testing.assert_frame_equal(table[["file", "green", "red"]], labels[["file", "green", "red"]])
    assert ((table["score"] > 0) == table["answer about green"]).all()
    assert table["right"].mean() == found.tables["overall"].set_index("measure").loc["accuracy", "value"].estimate
    assert found.tables["scores"]["AUC"].map(lambda area: area.n).sum() == len(labels)
    # outputs with a threshold stand as the model gave them
    higher = audited(spots, both(), output=0, threshold=3.0)
    np.testing.assert_allclose(higher.answers["score"], table["score"], rtol=1e-5)
    assert ((higher.answers["score"] > 3) == higher.answers["answer about green"].astype(int)).all()


def test_files_of_a_report_are_written_together_or_not_at_all(told, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    audit.run(**told)
    kept = {path.name: path.read_bytes() for path in told["out"].iterdir()}
    monkeypatch.setattr(audit.Audit, "to_json", lambda self: {"key": "another"})
    monkeypatch.setattr("biaslib.audit.records.Path.write_text", full)
    with pytest.raises(BiaslibError, match=r"cannot write .*: the disk is full; free the space"):
        audit.run(**told, force=True)
    assert {path.name: path.read_bytes() for path in told["out"].iterdir()} == kept


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
    found = audited(spots, Plain(biased()), attribution=way, labels=pd.read_csv(spots / "labels.csv")[:40])
    assert [finding.of for finding in found.findings if finding.kind == "region"] == ["spot"]
    assert ("integrated gradients" in audit.page(found)) == (way == "integrated-gradients")
    assert ("The maps are occlusion" in audit.page(found)) == (way == "occlusion")


class Coloured(nn.Module):
    """A model without a split that answers by the red spot, through a layer whose output the next changes in place."""

    def __init__(self):
        super().__init__()
        self.red = nn.Conv2d(3, 1, 1)
        self.rest = nn.Sequential(nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 1))
        with torch.no_grad():
            self.red.weight.copy_(torch.tensor([1.0, -1.0, 0.0])[None, :, None, None])
            for parameter, value in zip((self.red.bias, *self.rest.parameters()), (-0.5, 1000.0, -1.0), strict=True):
                parameter.fill_(value)

    def forward(self, images):
        return self.rest(self.red(images))


def test_maps_of_a_named_layer_find_the_planted_spot(spots, refusal):
    labels = pd.read_csv(spots / "labels.csv")[:40]
    found = audited(spots, Coloured(), layer="red", labels=labels)
    assert (found.subject["maps"], found.subject["layer of maps"]) == ("grad-cam", "red")
    assert [finding.of for finding in found.findings if finding.kind == "region"] == ["spot"]
    # each pixel of the layer is one of the picture, and only red ones speak for yes
    row = found.tables["regions_by_cell"].set_index("cell").loc["green, red"]
    assert row["mass"].estimate == pytest.approx(1)
    assert "or of the named layer" in audit.page(found)
    assert found.key != audited(spots, Coloured(), layer="rest.0", labels=labels).key
    said = refusal(spots, model="tests.audit.test_running:Coloured", layer="blue", size=32)
    assert said == "There is no layer 'blue': the model has red, rest, and what these hold (A.B)."
    assert "layer has no effect beside predictions" in refusal(spots, predictions="red", layer="red", data=None)


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
    _, page = of_honest(spots)
    gaps = next(caption for caption in read(page).tables if caption.startswith("Accuracy in the group"))
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
    if value is None or (isinstance(value, dict) and value["estimate"] is None):
        return "n/a"
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
    seen = next(rows for caption, rows in tables.items() if caption.startswith("Shown: larger than"))
    for row, value in zip(seen[1:], values["visible"], strict=True):
        assert row[2:4] == [shown(value["gap"], 3), value["outcome"]]
        assert row[5:] == [shown(value["smallest"], 3), f"{value['needed']:,.0f}"]
    rates = next(rows for caption, rows in tables.items() if caption.startswith("Answers by group"))
    names = ("selection_rate", "true_positive_rate", "false_positive_rate", "false_negative_rate", "precision")
    for row, value in zip(rates[1:], values["rates"], strict=True):
        assert row[1:8] == [value["of"], f"{value['n']:,}", *(shown(value[name], 3) for name in names)]
    apart = next(rows for caption, rows in tables.items() if caption.startswith("How far groups are apart"))
    for row, value in zip(apart[1:], values["disparities"], strict=True):
        assert row[1:] == [value["disparity"], shown(value["difference"], 3), shown(value["ratio"], 3)]
    amplified = next(rows for caption, rows in tables.items() if caption.startswith("How often the model says it"))
    assert amplified[0][:5] == ["group", "direction", "said (labelled), in group", "said (labelled), others", "shift"]
    for row, value in zip(amplified[1:], values["amplification"], strict=True):
        assert row[2] == f"{shown(value['said_in'], 3)} ({shown(value['labelled_in'], 3)})"
        assert row[3] == f"{shown(value['said_out'], 3)} ({shown(value['labelled_out'], 3)})"
        assert row[4:6] == [shown(value["shift"], 3), shown(value["unrelated errors"], 3)]
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
    assert {path.name for path in out.iterdir()} == {
        ".partial-left", "annex.md", "answers.csv", "audit.json", "diary.txt", "model_card.md", "report.html"
    }  # fmt: skip
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


@pytest.mark.slow
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
        f"those marked not red ({share[0]:.1%}). "
    )
    few = audit.run(**(given | {"permutations": 19}))
    assert few.numbers["tests"] == 20
    assert few.tables["amplification"]["p corrected"].isna().all()
    assert any("could not be tested: 30 tests at once need 600 permutations" in reason for reason in few.unmeasured)
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
        ({"predictions": "said", "target": []}, "at least one target"),
        ({"predictions": "said", "permutations": 0}, "permutations must be from 1 to 1,000,000"),
        ({"model": honest(), "data": ".", "group_outputs": [0, 1]}, "1 groups but 2 outputs"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(given, said):
    labels = pd.DataFrame({"file": ["a", "b"], "green": [0, 1], "red": [1, 0], "said": [0, 1]})
    with pytest.raises(BiaslibError, match=said):
        audit.run(**({"labels": labels, "target": "green", "groups": "red"} | given))


def test_the_command_writes_the_report_and_prints_what_it_found(spots, tmp_path, monkeypatch, capsys):
    arguments = {
        "--model": "tests.audit.subjects:biased", "--data": spots / "images", "--labels": spots / "labels.csv",
        "--target": "green", "--group": "red", "--masks": spots / "masks", "--unwanted": "spot", "--size": 32,
        "--out": tmp_path / "out",
    }  # fmt: skip
    command = ["biaslib", "audit", *(str(word) for pair in arguments.items() for word in pair)]
    command += ["--mean", "0", "0", "0", "--std", "1", "1", "1", "--margin", "0.2"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    said, beside = capsys.readouterr()
    assert "not measured: What the model amplifies of its training data" in beside
    assert "green: 100.0% of the answers are right for red" in said
    assert said.splitlines()[-1] == f"the report is at {tmp_path / 'out' / 'report.html'}"
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["margin"] == 0.2
    monkeypatch.setattr(sys, "argv", [*command, "--seed", "1"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("biaslib: ")


def test_the_command_takes_groups_of_many_values_bins_intersections_gaps_and_clusters(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"file": [f"{row}.png" for row in range(402)], "cat": [0, 1] * 201})
    table["skin"], table["age"] = rng.choice(["I", "II", "III"], 402), rng.integers(10, 90, 402)
    table["patient"] = rng.integers(0, 90, 402)
    table["said"] = np.where((table["skin"] == "III") & (rng.random(402) < 0.8), 0, table["cat"])
    table.loc[[0, 1], "skin"] = ""
    table.to_csv(tmp_path / "labels.csv", index=False)
    command = "biaslib audit --predictions said --labels labels.csv --target cat --group skin --group age --out out"
    command += " --bins age=50 --intersections --drop-missing --cluster patient"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    said, beside = capsys.readouterr()
    assert "for skin III and 100.0% for not skin III" in said
    assert "Left out, as they have no value in 'skin': 2 of 402 rows of the labels." in beside
    assert "intervals and tests are by patient (" in beside
    assert (
        "not measured: Whether amplification is more than unrelated errors give: images that come in clusters" in beside
    )
    values = json.loads((tmp_path / "out" / "audit.json").read_text())
    names = [group["column"] for group in values["groups"]]
    assert names[:4] == ["skin I", "skin II", "skin III", "age"]
    assert len(names) == 10
    assert values["numbers"]["tests"] == 20  # gaps alone
    assert values["settings"]["bins"] == "age at 50"
    assert values["settings"]["clusters"] == "patient"
    assert "deals" not in values["settings"]
    answers = pd.read_csv(tmp_path / "out" / "answers.csv")
    pd.testing.assert_series_equal(answers["patient"], table["patient"][2:].reset_index(drop=True))
    assert list(answers)[:3] == ["file", "patient", "cat"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<title>Audit: cat by skin, age</title>" in page
    assert "20 tests" in page


def test_other_clusters_are_another_audit(told):
    labels = told["labels"].assign(patient=np.arange(len(told["labels"])) // 4)
    told |= {"permutations": None}
    audit.run(**(told | {"labels": labels}), cluster="patient")
    with pytest.raises(BiaslibError, match="on other data"):
        audit.run(**(told | {"labels": labels.assign(patient=labels["patient"] // 2)}), cluster="patient")


def test_clusters_follow_the_images_that_can_be_read_and_attention_is_by_cluster(tmp_path):
    draw(tmp_path, n=60)
    (tmp_path / "images" / "005.png").write_bytes(b"no picture")
    labels = pd.read_csv(tmp_path / "labels.csv").assign(patient=np.arange(60) // 3)
    labels["red"] = labels["red"].astype(object).where(labels.index > 3)
    found = audited(tmp_path, biased(), labels=labels, cluster="patient", drop_missing=True, permutations=None)
    assert found.numbers["images"] == 55
    (gap, _) = found.tables["gaps"]["gap"]
    assert gap.high - gap.low < 1
    assert found.tables["regions"]["p"].notna().all()
    assert found.answers["patient"].tolist() == [str(row // 3) for row in range(60) if row > 3 and row != 5]
    # the four that were left out are in the folder, too
    assert any("no row that is used names them: 4 of the images" in note for note in found.notes)


@pytest.mark.parametrize("corrected", [True, False])
def test_of_two_clusters_everything_is_described_and_nothing_tested(tmp_path, corrected):
    columns = many(n=200) | {"site": ["north", "south"] * 100}
    given = {"threshold": 0.5, "cluster": "site", "permutations": None, "corrected": corrected}
    found = from_labels(columns, out=tmp_path / "out", **given)
    assert found.numbers["tests"] == 0
    assert found.findings == ()
    assert found.tables["gaps"]["p"].isna().all()
    assert set(found.tables["visible"]["outcome"]) == {"cannot be told"}
    assert sum("one side has images of fewer than 3 clusters" in reason for reason in found.unmeasured) == 2
    alone = from_labels(columns, threshold=0.5)
    pd.testing.assert_frame_equal(found.tables["counts"], alone.tables["counts"])
    gaps = [[gap.estimate for gap in each.tables["gaps"]["gap"]] for each in (found, alone)]
    assert gaps[0] == gaps[1]
    assert "No gap could have been seen in so few images" in (tmp_path / "out" / "report.html").read_text()


def test_help_loads_nothing_heavy():
    code = "import sys\nfrom biaslib.cli import main\ntry: main()\nfinally: print(sorted(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", code, "audit", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert "run their maker's code when they are opened" in re.sub(r"\s+", " ", done.stdout)
    assert not any(f"'{heavy}'" in done.stderr for heavy in ("torch", "pandas", "timm"))
