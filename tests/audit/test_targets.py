"""Several targets in one report: each measured as if alone, the tests of all corrected together."""

import json
import re
import sys
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import pytest
from huggingface_hub import ModelCard

from biaslib import audit, cli
from biaslib.audit import findings, report, running
from biaslib.errors import BiaslibError
from biaslib.statistics import holm
from tests.audit.subjects import PLAIN, both
from tests.audit.test_running import read

pytestmark = pytest.mark.usefixtures("store_of_the_module")

N = 400
ENOUGH = 199  # permutations for a test of every amplification
TESTED = ("gaps", "amplification")
FILES = [f"{row:03d}.png" for row in range(N)]


def table(seed=0):
    """Labels, and answers about two targets: those about cats are wrong more often in the group."""
    rng = np.random.default_rng(seed)
    cat, tall, old = (rng.integers(0, 2, N) for _ in range(3))
    said = {"said_cat": cat ^ (rng.random(N) < 0.1 + 0.3 * old), "said_tall": tall ^ (rng.random(N) < 0.1)}
    return pd.DataFrame({"file": FILES, "cat": cat, "tall": tall, "old": old, **said})


def audited(**given):
    asked = {"labels": table(), "target": ["cat", "tall"], "predictions": ["said_cat", "said_tall"]}
    return audit.run(**(asked | {"groups": "old", "permutations": 19} | given))


def measured(found, name):
    """A table without what depends on the number of tests."""
    return found.tables[name].drop(columns=["p corrected"], errors="ignore")


@pytest.fixture(scope="module")
def found():
    return audited(permutations=ENOUGH)


@pytest.fixture(scope="module")
def alone():
    return [audited(target=name, predictions=f"said_{name}", permutations=ENOUGH) for name in ("cat", "tall")]


def test_each_target_is_measured_as_if_it_were_alone(found, alone):
    assert found.target.name == "cat"
    assert [one.target.name for one in found.further] == ["tall"]
    for (_, one), single in zip(found.parts(), alone, strict=True):
        for name in ("overall", "counts", "correlations", "accuracies", "rates", "disparities", *TESTED):
            pd.testing.assert_frame_equal(measured(one, name), measured(single, name))
        assert one.unmeasured == single.unmeasured
        assert one.key == found.key != single.key


def test_the_tests_of_all_targets_are_one_family(found, alone):
    p = np.concatenate([one.tables[name]["p"] for _, one in found.parts() for name in TESTED])
    corrected = np.concatenate([one.tables[name]["p corrected"] for _, one in found.parts() for name in TESTED])
    np.testing.assert_array_equal(corrected, holm(p))
    assert [one.numbers["tests"] for _, one in found.parts()] == [6, 6]
    assert [one.numbers["tests"] for one in alone] == [3, 3]
    for (_, one), single in zip(found.parts(), alone, strict=True):
        assert one.settings["confidence of outcomes"] == f"{1 - 0.05 / 6:.2%}"
        assert (one.tables["visible"]["smallest"] > single.tables["visible"]["smallest"]).all()
    # what is only found where nobody else is asked
    plain = audited(corrected=False)
    np.testing.assert_array_equal(plain.further[0].tables["gaps"]["p corrected"], plain.further[0].tables["gaps"]["p"])


@pytest.mark.slow
def test_permutations_are_enough_for_the_tests_of_all_targets():
    rng = np.random.default_rng(1)
    groups = [f"g{at}" for at in range(5)]
    labels = table().assign(**{name: rng.integers(0, 2, N) for name in groups})[:100]
    found = audited(labels=labels, groups=groups, permutations=None)
    assert found.numbers["tests"] == 2 * 5 * 3
    assert found.settings["deals"] == found.further[0].settings["deals"] == str(20 * 30)
    few = audited(labels=labels, groups=groups, permutations=19)
    for _, one in few.parts():
        assert one.tables["amplification"]["p corrected"].isna().all()
        assert any("30 tests at once need 600 permutations" in sentence for sentence in one.unmeasured)


def test_permutations_of_all_targets_take_no_longer_than_those_of_one(monkeypatch):
    monkeypatch.setattr(running, "_SOON_PERMUTED", 0)
    for most, permutations in ((23_999, "99"), (24_000, "120")):  # 6 tests need 120, of 100 images of 2 targets
        monkeypatch.setattr(running, "_MOST_PERMUTED", most)
        assert audited(labels=table()[:100], permutations=None).settings["deals"] == permutations


def test_a_model_is_opened_once_for_all_targets(spots, monkeypatch):
    opened, opening = [], running.open_model
    monkeypatch.setattr(running, "open_model", lambda *given: opened.append(given) or opening(*given))
    labels = pd.read_csv(spots / "labels.csv")[:40]
    labels["red"] = labels["red"].astype(object).where(labels.index > 3)
    given = {"labels": labels, "data": spots / "images", "groups": "random", "threshold": 0.0, "permutations": 19}
    given |= {"model": "tests.audit.subjects:both", "drop_missing": True, "attribution": "none"} | PLAIN
    found = audit.run(target=["green", "red"], output=[0, 1], against=both(), **given)
    assert opened[0][0] == "tests.audit.subjects:both"
    assert len(opened) == 2
    for (_, one), name, at in zip(found.parts(), ("green", "red"), (0, 1), strict=True):
        single = audit.run(target=name, output=at, **given)
        pd.testing.assert_frame_equal(measured(one, "gaps"), measured(single, "gaps"))
        assert one.subject == single.subject


def test_pictures_masks_and_features_are_read_once_for_all_targets(spots, monkeypatch):
    called = Counter()
    whole = {name: getattr(running, name) for name in ("check_files", "check_pictures", "find_masks", "file_digests")}
    whole["embed"] = running.discovery.embed

    def counted(name, *given, **more):
        called[name] += 1
        return whole[name](*given, **more)

    for name in whole:
        monkeypatch.setattr(running.discovery if name == "embed" else running, name, partial(counted, name))
    asked = {"labels": spots / "labels.csv", "data": spots / "images", "masks": spots / "masks", "groups": "random"}
    asked |= {"model": both(), "threshold": 0.0, "permutations": 19, "discover": True, "repair": True} | PLAIN
    found = audit.run(target=["green", "red"], output=[0, 1], **asked)
    assert called == dict.fromkeys(whole, 1)
    single = audit.run(target="red", output=1, **asked)
    for name in ("gaps", "regions", "repair", "repair_costs", "slices"):
        pd.testing.assert_frame_equal(measured(found.further[0], name), measured(single, name))


def test_a_list_of_one_target_is_that_target(alone):
    one = audited(target=["cat"], predictions=["said_cat"], permutations=ENOUGH)
    assert one.to_json() == alone[0].to_json()
    assert "further" not in one.to_json()
    assert one.answers.equals(alone[0].answers)
    assert audit.page(one) == audit.page(alone[0])


def test_one_table_may_have_a_column_a_target(found, tmp_path):
    said = table()[["file", "said_cat", "said_tall"]].rename(columns=lambda name: name.removeprefix("said_"))
    said.to_csv(tmp_path / "said.csv", index=False)
    for given in (said, str(tmp_path / "said.csv")):
        again = audited(predictions=given, against=given)
        for (_, one), (_, other) in zip(found.parts(), again.parts(), strict=True):
            pd.testing.assert_frame_equal(measured(one, "gaps"), measured(other, "gaps"))
            assert [change.estimate for change in other.tables["against"]["change"]] == [0, 0]
    scores = said.assign(cat=said["cat"] * 0.8, tall=said["tall"] * 0.6)
    by_score = audited(predictions=scores, threshold=0.5)
    assert {"scores", "calibration"} <= set(by_score.further[0].tables)
    pd.testing.assert_frame_equal(measured(by_score.further[0], "gaps"), measured(found.further[0], "gaps"))


def test_the_files_hold_every_target(found, schema, tmp_path):
    again = audited(out=tmp_path / "out", permutations=ENOUGH)
    assert again.key == found.key
    values = json.loads((tmp_path / "out" / "audit.json").read_text())
    schema.validate(values)
    schema.validate(values["further"][0])
    assert values["version"] == "3.0"
    assert [values["target"]["column"], values["further"][0]["target"]["column"]] == ["cat", "tall"]
    assert values["further"][0]["tables"] == found.further[0].to_json()["tables"]
    answers = pd.read_csv(tmp_path / "out" / "answers.csv")
    assert list(answers) == [
        "file", "cat", "old", "answer about cat", "right about cat", "tall", "answer about tall", "right about tall"
    ]  # fmt: skip
    labels = table()
    assert answers["file"].tolist() == labels["file"].tolist()
    for name in ("cat", "tall"):
        assert answers[f"answer about {name}"].tolist() == labels[f"said_{name}"].tolist()
        assert answers[f"right about {name}"].tolist() == (labels[name] == labels[f"said_{name}"]).astype(int).tolist()


def test_the_page_has_a_first_table_and_a_part_for_each_target(found):
    page = audit.page(found)
    assert "<title>Audit: cat, tall by old</title>" in page
    heads = re.findall(r"<h1>(.*?)</h1>", page)
    assert heads == ["Audit: cat, tall by old", "cat", "tall", "All targets"]
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for once in ("What these numbers cannot show", "How far these measures can be trusted", "How this report was made"):
        assert page.count(f">{once}</h2>") == 1
    assert page.count(">What could not be measured, and why</h2>") == 2
    first = next(rows for caption, rows in read(page).tables.items() if caption.startswith("Each target"))
    assert first[0] == ["target", "right", "group", "images with", "gap", "larger than 5 points?", "found"]
    for row, (_, one) in zip(first[1:], found.parts(), strict=True):
        right = one.tables["overall"]["value"][0]
        gap = max(one.tables["visible"]["gap"], key=lambda gap: max(gap.low, -gap.high))
        shown = [
            f"{value.estimate:.3f} [{value.low:.3f}, {value.high:.3f}]".replace("-", "−") for value in (right, gap)
        ]
        assert [row[1], row[4]] == shown
        assert (row[0], row[6]) == (one.target.name, str(len(one.findings)))
    assert "6 tests over all of them; correction of p-values: Holm" in page
    assert "<title>My title</title>" in audit.page(audited(title="My title"))


def test_the_cards_hold_every_target(found, alone):
    for name, text in report.cards(found).items():
        for single in alone:
            for line in re.findall(r"^\| .*old.*%.* \|$", report.cards(single)[name], re.MULTILINE):
                if single.target.name in line:
                    # all but corrected values
                    assert line.split("|")[1:4] in [each.split("|")[1:4] for each in text.splitlines()]
        assert text.count("Not measured: tall: ") == len(found.further[0].unmeasured)
        assert "**tall**" in text
    tasks = [result.task_name for result in ModelCard(report.cards(found)["model_card.md"]).data.eval_results]
    assert tasks.count("tall") == tasks.count("cat") == 7


def test_what_the_command_says_and_when_it_stops_are_about_every_target():
    swapped = audited(target=["tall", "cat"], predictions=["said_tall", "said_cat"], permutations=ENOUGH)
    assert swapped.findings == ()
    assert swapped.conclusions()[0].startswith("tall: nothing that these images can tell from chance")
    assert any(sentence.startswith("not cat: ") for sentence in swapped.conclusions())
    assert all(re.match(r"not measured: (cat|tall): ", remark) for remark in swapped.remarks())
    assert findings.failure(swapped, None) == f"{len(swapped.further[0].findings)} found"
    assert "the gap of old among cat is" in findings.failure(swapped, 0.05)


def test_a_target_without_a_value_loses_its_own_rows_only():
    labels = table()
    labels["tall"] = labels["tall"].astype(object).where(labels.index >= 10)
    found = audited(labels=labels, drop_missing=True)
    assert [one.numbers["images"] for _, one in found.parts()] == [N, N - 10]
    assert len(found.answers) == N
    assert found.answers["right about tall"].isna().sum() == 10
    assert found.answers["right about cat"].notna().all()


def test_answers_stand_in_the_order_of_the_labels_whichever_target_they_are_about():
    labels = table().sample(frac=1, random_state=0).reset_index(drop=True)
    labels["tall"] = labels["tall"].astype(object).where(labels.index % 7 > 0)
    labels["cat"] = labels["cat"].astype(object).where(labels.index % 7 != 3)
    answers = audited(labels=labels, drop_missing=True).answers
    assert answers["file"].tolist() == labels["file"].tolist()
    assert answers["old"].astype(int).tolist() == labels["old"].tolist()
    assert answers["right about cat"].isna().tolist() == (labels.index % 7 == 3).tolist()
    assert answers["right about tall"].isna().tolist() == (labels.index % 7 == 0).tolist()
    # a column of names that is neither the first nor called so
    named = labels.rename(columns={"file": "photo"})[["cat", "tall", "photo", "old", "said_cat", "said_tall"]]
    again = audited(labels=named, drop_missing=True, file_column="photo").answers
    pd.testing.assert_frame_equal(again, answers)
    # another column may hold the same names, in another order
    named.insert(0, "pair", named["photo"].to_numpy()[::-1])
    again = audited(labels=named, drop_missing=True, file_column="photo").answers
    pd.testing.assert_frame_equal(again, answers)


def test_answers_about_a_group_stand_once_where_the_tables_of_predictions_agree():
    said = table().rename(columns={"said_cat": "cat_", "said_tall": "tall_"})
    first = said[["file", "cat_", "old"]].rename(columns={"cat_": "cat"})
    second = said[["file", "tall_", "old"]].rename(columns={"tall_": "tall"})
    agreed = audited(predictions=[first, second]).answers
    assert len(agreed) == N
    assert [name for name in agreed if "about old" in name] == ["answer about old"]
    wrong = second.assign(old=second["old"] ^ (np.arange(N) % 10 == 0))
    answers = audited(predictions=[first, wrong]).answers
    assert answers["file"].tolist() == FILES
    assert answers["answer about old"].astype(int).tolist() == first["old"].tolist()
    assert answers["answer about old (tall)"].astype(int).tolist() == wrong["old"].tolist()


@pytest.mark.parametrize("force", [True, False])
def test_a_report_never_lies_over_one_of_several_tables_of_predictions(tmp_path, force):
    said = []
    for name in ("cat", "tall"):
        said.append(tmp_path / name / "answers.csv")
        said[-1].parent.mkdir()
        table()[["file", f"said_{name}"]].rename(columns={f"said_{name}": name}).to_csv(said[-1], index=False)
        text = said[-1].read_text()
    for given in (said, list(map(str, said))):
        with pytest.raises(BiaslibError, match=r"tall is or holds .*answers\.csv: name a folder of its own"):
            audited(predictions=given, out=tmp_path / "tall", force=force)
    assert said[-1].read_text() == text


def test_sequences_of_any_kind_are_one_for_each_target(found, spots):
    asked = {"target": pd.Index(["cat", "tall"]), "predictions": np.array(["said_cat", "said_tall"])}
    again = audited(permutations=ENOUGH, **asked)
    assert again.key == found.key
    asked = {"data": spots / "images", "labels": pd.read_csv(spots / "labels.csv")[:20], "groups": "random"}
    asked |= {"target": pd.Series(["green", "red"]), "model": both(), "threshold": 0.0, "permutations": 19, **PLAIN}
    keys = {audit.run(output=given, **asked).key for given in (range(2), [0, 1], np.arange(2))}
    assert len(keys) == 1
    assert audited(target=pd.Index(["cat"]), predictions=pd.Index(["said_cat"])).target.name == "cat"


def test_the_cards_name_every_column_or_table_of_predictions(found):
    cards = report.cards(found)
    assert "* Model: said\\_cat, said\\_tall" in cards["model_card.md"]
    assert "* Model that was audited: said\\_cat, said\\_tall" in cards["annex.md"]
    said = table().rename(columns=lambda name: name.removeprefix("said_") if "said" in name else f"{name}_")
    said = said.rename(columns={"file_": "file"})
    assert "* Model: a table of 400 rows\n" in report.cards(audited(predictions=said))["model_card.md"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"predictions": "typo.csv"}, "There is neither a column nor a file 'typo.csv': the table of labels has file,"),
        ({"against": both()}, "'Spots' is no table: to compare several targets, give one with all of them"),
        ({"predictions": range(3)}, "There are 2 targets but 3 columns or tables"),
        ({"target": []}, r"Name at least one target, and each once, not \[\]"),
        ({"target": ["cat", "cat"]}, r"each once, not \['cat', 'cat'\]"),
        ({"target": ["cat", "old"]}, "must be different columns, not old, old"),
        ({"predictions": "said_cat"}, "There are 2 targets but 1 columns or tables of predictions for them"),
        ({"predictions": ["said_cat"] * 3}, "There are 2 targets but 3 columns or tables"),
        ({"target": "cat"}, "There are 1 targets but 2 columns or tables"),
        ({"against": "said_tall"}, "'said_tall' is no table: to compare several targets, give one with all of them"),
        ({"predictions": None, "model": both(), "data": "."}, "There are 2 targets but 0 outputs for them"),
        ({"predictions": None, "model": both(), "data": ".", "output": 1}, "There are 2 targets but 1 outputs"),
        (
            {"predictions": None, "model": both(), "data": ".", "yes": [1], "no": [0]},
            "Classes of which the largest wins tell one target, not 2: name an output for each",
        ),
        ({"cluster": "old"}, "clusters are not permuted: leave out the cluster or permutations"),
    ],
)
def test_targets_that_have_no_answers_of_their_own_are_refused(given, said):
    with pytest.raises(BiaslibError, match=said):
        audited(**given)


def test_two_outputs_of_a_model_are_two_targets_of_the_command(spots, tmp_path, monkeypatch, capsys):
    labels = pd.read_csv(spots / "labels.csv")
    asked = {"data": spots / "images", "groups": "random", "labels": labels, "threshold": 0.0, "permutations": 19}
    alone = [
        audit.run(model=both(), target=name, output=at, masks=spots / "masks", **asked, **PLAIN)
        for name, at in (("green", 0), ("red", 1))
    ]
    words = f"biaslib audit --model tests.audit.subjects:both --data {spots / 'images'} --labels {spots / 'labels.csv'}"
    words += (
        f" --target green --target red --output 0 --output 1 --threshold 0 --group random --masks {spots / 'masks'}"
    )
    words += f" --size 32 --mean 0 0 0 --std 1 1 1 --permutations 19 --out {tmp_path / 'out'}"
    monkeypatch.setattr(sys, "argv", words.split())
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    values = json.loads((tmp_path / "out" / "audit.json").read_text())
    for one, single in zip((values, values["further"][0]), alone, strict=True):
        expected = json.loads(json.dumps(single.to_json()))
        for name in ("overall", "accuracies", "regions_by_cell"):
            assert one["tables"][name] == expected["tables"][name]
        assert one["model"]["answer"] == expected["model"]["answer"]
    assert values["model"]["answer"] != values["further"][0]["model"]["answer"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="average-maps-target-1"' in page
    assert 'id="average-maps-target-2"' in page
    assert "output 1, counted from 0" in page
    assert "red: nothing that these images can tell" in capsys.readouterr().out
