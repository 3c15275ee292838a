"""What an audit hands on: its JSON by its schema, the model card, the annex, exit codes, and lines in a log."""

import json
import re
import sys
from functools import cache

import jsonschema
import markdown_it
import numpy as np
import pandas as pd
import pytest
import yaml
from huggingface_hub import ModelCard

from biaslib import audit, cli
from biaslib.audit import findings, predictions, report
from biaslib.errors import BiaslibError
from tests.audit.subjects import PLAIN, biased, honest

N = 400
QUICK = {"permutations": 19}


def table(gap=0.4, seed=0):
    """Labels, answers that are wrong more often in the group, by so much, and others that are not (before)."""
    rng = np.random.default_rng(seed)
    cat, old = np.arange(N) % 2, np.arange(N) // 2 % 2
    wrong = rng.random(N) < 0.1 + gap * old
    return pd.DataFrame(
        {"file": [f"{i}.png" for i in range(N)], "cat": cat, "old": old, "said": cat ^ wrong,
         "before": cat ^ (rng.random(N) < 0.1)}
    )  # fmt: skip


def audited(labels=None, **given):
    asked = {"labels": table() if labels is None else labels, "target": "cat", "groups": "old", "predictions": "said"}
    return audit.run(**(asked | QUICK | given))


@cache
def plain():
    """The audit of that table; several tests read it, none changes it."""
    return audited()


def command(tmp_path, monkeypatch, capsys, labels, *words):
    """Exit code, and what stands on standard error."""
    labels.to_csv(tmp_path / "labels.csv", index=False)
    asked = ["--labels", tmp_path / "labels.csv", "--predictions", "said", "--target", "cat", "--group", "old"]
    every = ["biaslib", "audit", *asked, "--permutations", "19", "--out", tmp_path / "out", *words]
    monkeypatch.setattr(sys, "argv", list(map(str, every)))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def document():
    return json.loads(json.dumps(plain().to_json()))


def spoiled(document, change):
    copy = json.loads(json.dumps(document))
    change(copy)
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.pop("format"),
        lambda it: it.update(format="biaslib-dial"),
        lambda it: it.update(version="1.2"),
        lambda it: it.update(version="4.0"),
        lambda it: it.update(version=1),
        lambda it: it["tables"].pop("gaps"),
        lambda it: it["tables"]["gaps"][0].pop("n_in"),
        lambda it: it["tables"]["gaps"][0]["gap"].pop("n"),
        lambda it: it["tables"]["gaps"][0].update(gap=-0.1),
        lambda it: it["tables"]["gaps"][0].update(p=1.5),
        lambda it: it["tables"]["counts"][0].update(n=-1),
        lambda it: it["tables"]["visible"][0].update(outcome="none"),
        lambda it: it.update(margin=5),
        lambda it: it["tables"].update(more={"no": "rows"}),
        lambda it: it["findings"][0].pop("p"),
        lambda it: it["findings"][0].update(p="small"),
        lambda it: it["target"].update(values=["1"]),
        lambda it: it.update(groups=[]),
        lambda it: it["about"].update(date="yesterday"),
    ],
)
def test_a_wrong_document_is_refused_by_the_schema(schema, document, change):
    schema.validate(document)
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(spoiled(document, change))


def test_what_a_later_minor_version_adds_is_passed_over(schema, document):
    def add(it):
        it.update(version="3.7", purpose="a clinic's")
        it["tables"]["more"] = [{"of": "old", "value": {"estimate": None, "low": None, "high": None, "n": 0}}]
        it["tables"]["gaps"][0]["seen"] = True

    schema.validate(spoiled(document, add))


def test_title_and_author_stand_in_every_file_and_are_no_other_audit(tmp_path):
    out = tmp_path / "out"
    first = audited(out=out)
    assert "<title>Audit: cat by old</title>" in (out / "report.html").read_text()
    named = audited(out=out, title="Cats & <dogs>", author="A. Person")
    assert named.key == first.key
    page = (out / "report.html").read_text()
    assert "<title>Cats &amp; &lt;dogs&gt;</title>" in page
    assert page.index("A. Person") < page.index("What was found")
    settings = json.loads((out / "audit.json").read_text())["settings"]
    assert (settings["title"], settings["author"]) == ("Cats & <dogs>", "A. Person")
    for card in report.cards(named).values():
        assert "Cats \\& \\<dogs\\>" in card
        assert " by A. Person" in card


def test_a_card_with_answers_in_it_stays_unless_forced(tmp_path):
    out = tmp_path / "out"
    audited(out=out)
    card, annex = out / "model_card.md", out / "annex.md"
    card.write_text("my answers")
    annex.unlink()
    audited(out=out, title="again")
    assert card.read_text() == "my answers"
    assert "again" in annex.read_text()
    audited(out=out, force=True)
    assert "To answer" in card.read_text()


def test_the_head_of_the_card_is_what_hugging_face_reads():
    labels = table().assign(cat=lambda it: it["cat"].map({0: 'a "dog": {x}', 1: "cat's 🐈\n- b"}))
    said = labels["said"].map({0: 'a "dog": {x}', 1: "cat's 🐈\n- b"})
    found = audited(labels.assign(said=said))
    text = report.cards(found)["model_card.md"]
    results = ModelCard(text).data.eval_results
    overall = found.tables["overall"].set_index("measure")["value"]
    by_name = {result.metric_name: result for result in results}
    accuracy = by_name[f"accuracy, all images, n = {N}"]
    assert accuracy.metric_value == pytest.approx(overall["accuracy"].estimate)
    assert accuracy.task_type == "image-classification"
    assert by_name["sensitivity, all images, n = 200"].metric_type == "recall"
    cells = [
        result
        for result in results
        if result.metric_name.startswith("accuracy, ") and "all images" not in result.metric_name
    ]
    assert len(cells) == len(found.tables["accuracies"]) == 4
    assert yaml.safe_load(text.split("---\n")[1])["model-index"][0]["name"] == "said"
    assert "license" not in yaml.safe_load(text.split("---\n")[1])


def test_a_measure_that_is_undefined_is_not_in_the_head_of_the_card():
    only_wrong = table().assign(said=lambda it: 1)
    head = yaml.safe_load(report.cards(audited(only_wrong))["model_card.md"].split("---\n")[1])
    values = [metric["value"] for metric in head["model-index"][0]["results"][0]["metrics"]]
    assert all(np.isfinite(values))


def tables_of(text):
    """Rows of cells of every table, as a Markdown reader of its own sees them, and all tags that would be HTML."""
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(text)
    rows = []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open"):
            rows[-1].append("".join(child.content for child in tokens[at + 1].children))
    return rows, tokens


def test_card_and_annex_hold_the_numbers_of_the_audit_with_intervals_and_n():
    found = plain()
    for text in report.cards(found).values():
        rows, _ = tables_of(text)
        for gap in found.tables["gaps"].to_dict("records"):
            value = gap["gap"]
            shown = f"{value.estimate:.1%} [{value.low:.1%}, {value.high:.1%}]".replace("-", "−")
            row = next(row for row in rows if row[2:3] == [shown])
            assert row[:2] == [gap["group"], gap["among"]]
            assert row[4:] == [str(gap["n_in"]), str(gap["n_out"])]
        for accuracy in found.tables["accuracies"]["accuracy"]:
            assert [f"{accuracy.estimate:.1%} [{accuracy.low:.1%}, {accuracy.high:.1%}]", str(accuracy.n)] in [
                row[2:] for row in rows
            ]
        for sentence in (*(finding.sentence for finding in found.findings), *found.unmeasured):
            assert sentence.split(":")[0] in text
        assert text.count("**To answer") > 5


def test_the_sections_are_those_that_are_asked_for():
    card, annex = report.cards(plain()).values()
    mitchell = ("Model details", "Intended use", "Factors", "Metrics", "Evaluation data", "Training data",
                "Quantitative analyses", "Ethical considerations", "Caveats and recommendations")  # fmt: skip
    assert re.findall(r"^## (.+)$", card, re.MULTILINE) == list(mitchell)
    heads = re.findall(r"^## (.+)$", annex, re.MULTILINE)
    assert [head.split(":")[0].split(",")[0] for head in heads] == [
        "Annex IV", "Annex IV", "Annex IV", "Annex IV", "Article 10", "Article 13", "Article 15", "NIST AI RMF",
    ]  # fmt: skip
    # every point of Annex IV has its questions
    for point in (*"abcdefgh", *"456789"):
        assert re.search(rf"To answer \([^)]*\b{point}\b", annex), point


EVIL = "a|b*c_d`e<img src=x>[x](http://y)\n# big $x$ &amp; {{ 7 * 7 }}"


def test_no_name_or_label_becomes_markdown():
    labels = table().rename(columns={"old": EVIL})
    labels["cat"], labels["said"] = (labels[name].map({0: "[1](u)", 1: EVIL}) for name in ("cat", "said"))
    found = audited(labels, groups=EVIL, title=EVIL, author=EVIL)
    plain_rows = [len(row) for row in tables_of(report.cards(plain())["annex.md"])[0]]
    for name, text in report.cards(found).items():
        body = text.split("---\n", 2)[2] if name == "model_card.md" else text
        rows, tokens = tables_of(body)
        if name == "annex.md":
            assert [len(row) for row in rows] == plain_rows
        inline = [child.type for token in tokens for child in token.children or ()]
        assert not {"html_inline", "link_open", "image", "code_inline"} & set(inline)
        assert [token.type for token in tokens].count("html_block") == 1  # the comment at the head
        assert "{{ 7" in "".join(c.content for t in tokens for c in t.children or ())
        shown = "".join(cell for row in rows for cell in row)
        assert "a|b*c_d`e<img src=x>[x](http://y) # big $x$ &amp;" in shown


def test_the_command_stops_a_pipeline_where_it_is_asked_to(tmp_path, monkeypatch, capsys):
    code, said = command(
        tmp_path, monkeypatch, capsys, table(), "--fail-on", "finding", "--title", "T", "--author", "P"
    )
    assert code == 3
    count = len(plain().findings)
    assert said.splitlines()[-1] == f"biaslib: stopped as --fail-on finding asks: {count} found."
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["settings"]["title"] == "T"
    assert (tmp_path / "out" / "report.html").is_file()
    code, said = command(tmp_path, monkeypatch, capsys, table(), "--fail-on", "gap>0.05")
    assert code == 3
    assert said.count("the gap of old among") == 2
    code, said = command(tmp_path, monkeypatch, capsys, table(), "--fail-on", "gap>.6")
    assert code == 0
    assert "fail-on" not in said


def test_quiet_reports_stop_no_pipeline(tmp_path, monkeypatch, capsys):
    labels = table(gap=0)
    assert audited(labels).findings == ()
    for asked in ("finding", "gap>0.05"):
        assert command(tmp_path, monkeypatch, capsys, labels, "--fail-on", asked)[0] == 0


def test_a_gap_stops_a_pipeline_by_its_whole_interval():
    found = plain()
    ends = [abs(end) for gap in found.tables["visible"]["gap"] for end in (gap.low, gap.high)]
    assert findings.failure(found, min(ends) - 1e-9).count("the gap of") == 2
    assert findings.failure(found, max(min(ends[:2]), min(ends[2:])) + 1e-9) == ""


@pytest.mark.parametrize("margin", [0.05, 0.19, 0.3, 0.6])
def test_a_gap_stops_a_pipeline_where_it_is_shown_to_be_larger_than_the_margin(margin):
    found = audited(margin=margin)
    shown = (found.tables["visible"]["outcome"] == "shown").sum()
    assert findings.failure(found, margin).count("the gap of") == shown


@pytest.mark.parametrize("asked", ["gap", "gap>5", "gap>", "gap>x", "gap<0.1", "findings", ""])
def test_what_fail_on_cannot_mean_is_one_sentence(asked):
    with pytest.raises(BiaslibError, match=r"fail-on is 'finding' or a gap such as 'gap>0\.05', in quotation marks"):
        findings.gap_limit(asked)


def test_a_comparison_by_hand():
    found = audited(against="before")
    labels = table()
    change = (labels["said"] == labels["cat"]).astype(int) - (labels["before"] == labels["cat"])
    for row in found.tables["against"].to_dict("records"):
        cell = labels["cat"] == (row["among"] == "cat")
        inside, outside = (change[cell & (labels["old"] == member)] for member in (1, 0))
        assert row["change"].estimate == pytest.approx(inside.mean() - outside.mean())
        assert row["change"].estimate == pytest.approx(row["gap"].estimate - row["gap_other"].estimate)
        assert row["change"].low < row["change"].estimate < row["change"].high
        assert (row["n_in"], row["n_out"], row["change"].n) == (100, 100, 200)
    other = audited(predictions="before", against="said")
    np.testing.assert_allclose(
        [each.estimate for each in other.tables["against"]["change"]],
        [-each.estimate for each in found.tables["against"]["change"]],
    )
    assert {f.kind for f in found.findings} >= {"larger gap", "gap"}
    assert {f.kind for f in other.findings} == {"smaller gap"}
    assert found.numbers["tests"] == plain().numbers["tests"] + 2
    assert findings.failure(other, None) == ""
    assert found.key not in (other.key, plain().key)
    sentence = next(f.sentence for f in found.findings if f.kind == "larger gap")
    assert re.match(
        r"(not )?cat: the gap from not old to old is −\d+\.\d points here and .\d+\.\d points for what", sentence
    )
    alone = audited(predictions="before").tables
    for name in ("rates", "disparities"):
        pd.testing.assert_frame_equal(found.tables[f"{name}_other"], alone[name])
    page = audit.page(found)
    assert "The same rates of what this is compared with" in page
    assert "compared with before" in page
    assert "Each gap beside that of what this is compared with" in page


def test_areas_stand_beside_those_of_what_is_compared_with():
    labels = table()
    scores = {name: labels[name] * 0.5 + np.linspace(0, 0.5, N) for name in ("said", "before")}
    found = audited(labels.assign(**scores), threshold=0.5, against="before")
    alone = audited(labels.assign(**scores), threshold=0.5, predictions="before")
    pd.testing.assert_frame_equal(found.tables["scores_other"], alone.tables["scores"])
    assert "The same of what this is compared with" in audit.page(found)


def test_of_a_comparison_by_clusters_neither_interval_nor_p_is_known():
    labels = table(gap=0.2).assign(patient=lambda it: it.index // 4 % 20)
    by_patient = {"cluster": "patient", "permutations": None}
    alone, together = (audited(labels, against="before", **given) for given in ({}, by_patient))
    for one, other in zip(*(found.tables["against"].itertuples() for found in (alone, together)), strict=True):
        assert one.change.estimate == other.change.estimate
        assert np.isfinite([one.change.low, one.change.high, one.p]).all()
        assert np.isnan([other.change.low, other.change.high, other.p]).all()
    assert any("of changes of gaps, with their p:" in sentence for sentence in together.unmeasured)
    assert not any("of changes" in sentence for sentence in alone.unmeasured)
    assert {finding.kind for finding in together.findings} <= {"gap"}
    counted = together.numbers["tests"], audited(labels, **by_patient).numbers["tests"]
    assert counted[0] == counted[1]


def test_the_same_answers_do_not_differ_and_an_empty_cell_has_no_p():
    same = audited(table().assign(before=lambda it: it["said"]), against="before").tables["against"]
    assert [each.estimate for each in same["change"]] == [0, 0]
    assert (same["p"] == 1).all()
    empty = audited(table().query("not (old == 1 and cat == 0)"), against="before").tables["against"].set_index("among")
    assert np.isnan(empty.loc["not cat", "p"])
    assert np.isnan(empty.loc["not cat", "change"].estimate)


@pytest.mark.slow
def test_unbiased_changes_are_rarely_called_changes():
    # another seed of the same recipe: the second is better everywhere, and no more so in the group
    rng = np.random.default_rng(0)
    p = []
    for _ in range(60):
        labels = table(gap=0, seed=int(rng.integers(1 << 30)))
        labels["before"] = labels["cat"] ^ (rng.random(N) < 0.25)
        inputs = audit.inputs.read_labels(
            audit.AuditOptions(labels=labels, target="cat", groups="old", predictions="said")
        )
        other = audit.inputs.read_labels(
            audit.AuditOptions(labels=labels, target="cat", groups="old", predictions="before")
        )
        p += audit.measurements.against(inputs, other, 0)["p"].tolist()
    assert 0.005 <= np.mean(np.array(p) <= 0.05) <= 0.1


def test_a_second_model_is_asked_about_the_same_images(spots):
    asked = {"data": spots / "images", "labels": spots / "labels.csv", "target": "green", "groups": "red"} | PLAIN
    found = audit.run(model=biased(), against=honest(), **asked, **QUICK)
    alone = audit.run(model=honest(), **asked, **QUICK)
    assert [g.estimate for g in found.tables["against"]["gap_other"]] == [
        g.estimate for g in alone.tables["gaps"]["gap"]
    ]
    assert found.settings["compared with"] == "Spots"
    assert {f.kind for f in found.findings} >= {"larger gap"}
    with pytest.raises(BiaslibError, match="neither a column nor a file 'nope'"):
        audited(against="nope")


def test_trainings_by_hand(schema):
    labels = table().assign(fair=table(gap=0.0, seed=1)["said"], worse=table(gap=0.7, seed=2)["said"])
    found = audited(labels, retrained=["before", "fair", "worse"])
    alone = {name: audited(labels, predictions=name).tables["gaps"]["gap"] for name in ("before", "fair", "worse")}
    rows = found.tables["retrained"].to_dict("records")
    assert [row["among"] for row in rows] == found.tables["gaps"]["among"].tolist()
    for at, row in enumerate(rows):
        theirs, own = np.array([gaps[at].estimate for gaps in alone.values()]), found.tables["gaps"]["gap"][at].estimate
        assert own < -0.2
        assert (row["gap"].estimate, row["lowest"], row["highest"]) == (own, theirs.min(), theirs.max())
        assert (row["as_far"], row["trainings"]) == ((theirs <= own).sum(), 3) == (1, 3)
        assert row["mean"].estimate == pytest.approx((own + theirs.sum()) / 4)
        assert row["mean"].low < theirs.mean() < row["mean"].high
    # it is described, and changes no test
    single = audited(labels)
    pd.testing.assert_frame_equal(found.tables["gaps"], single.tables["gaps"])
    assert found.key != single.key
    assert found.settings["trained again"] == "before, fair, worse"
    assert "Another seed gives another model" in audit.page(found)
    schema.validate(found.to_json())


def test_trainings_stand_beside_a_comparison_and_without_an_image_have_no_gap():
    labels = table().assign(fair=table(gap=0.0, seed=1)["said"])
    both = audited(labels, against="before", retrained=["fair", "before"])
    pd.testing.assert_frame_equal(both.tables["against"], audited(labels, against="before").tables["against"])
    pd.testing.assert_frame_equal(
        both.tables["retrained"], audited(labels, retrained=["fair", "before"]).tables["retrained"]
    )
    empty = audited(labels.query("not (old == 1 and cat == 0)"), retrained=["fair", "before"]).tables["retrained"]
    lacking = empty.set_index("among").loc["not cat"]
    assert np.isnan([lacking["lowest"], lacking["highest"], lacking["as_far"], lacking["mean"].estimate]).all()


@pytest.mark.parametrize(
    ("retrained", "said"),
    [
        (["before"], "One model that was trained again shows no spread"),
        (["before", "nope"], "neither a column nor a file"),
    ],
)
def test_what_is_no_spread_of_trainings_is_refused(retrained, said):
    with pytest.raises(BiaslibError, match=said):
        audited(retrained=retrained)


def test_models_are_trained_again_with_other_weights():
    named = {"model": "resnet18", "weights": "a.pt", "data": ".", "retrained": ["b.pt", "c.pt"]}
    options = audit.AuditOptions(labels="labels.csv", target="cat", groups="old", **named)
    others = [options.other(source) for source in options.retrained]
    assert [(other.model, other.weights) for other in others] == [("resnet18", "b.pt"), ("resnet18", "c.pt")]
    assert {(other.attribution, other.retrained) for other in others} == {("none", ())}


def test_a_log_has_a_line_now_and_then(monkeypatch, capsys):
    clock = [0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    with predictions.progress(5000, "asking the model", "image") as bar:
        for clock[0] in range(7, 60, 7):
            bar.update(256)
    assert capsys.readouterr().err.splitlines() == [
        "asking the model: 768 of 5,000 images",
        "asking the model: 1,536 of 5,000 images",
    ]
    monkeypatch.setenv("TQDM_DISABLE", "1")
    with predictions.progress(5000, "asking the model", "image") as bar:
        for _ in range(8):
            bar.update(256)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with predictions.progress(10, "asking the model", "image") as bar:
        bar.update(10)
    assert "asking the model: 100%" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "against", "expected"),
    [
        ({"predictions": "said"}, "before", {"predictions": "before"}),
        ({"model": "resnet18", "weights": "a.pt"}, "b.pt", {"model": "resnet18", "weights": "b.pt"}),
        ({"model": "folder"}, "other", {"model": "other"}),
    ],
)
def test_what_is_compared_with_takes_the_place_of_what_is_audited(given, against, expected):
    data = {} if "predictions" in given else {"data": "."}
    options = audit.AuditOptions(labels="labels.csv", target="cat", groups="old", against=against, **given, **data)
    assert {name: getattr(options.other(options.against), name) for name in expected} == expected
    assert options.other(options.against).against is None


def test_a_module_takes_the_place_of_a_model_and_its_weights():
    model = honest()
    named = {"model": "resnet18", "weights": "a.pt", "data": ".", "against": model}
    other = audit.AuditOptions(labels="labels.csv", target="cat", groups="old", **named).other(model)
    assert (other.model, other.weights) == (model, None)
