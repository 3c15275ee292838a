"""The rows of the board, by tables whose answers are known; a stranger's metric and world from end to end."""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from biaslib import cli, worlds
from biaslib.dial import board, entries, verdicts
from biaslib.dial.catalogue import EXACT, METRICS, NULL, Metric
from biaslib.dial.measuring import measured, pictures
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError

BARS = Path(__file__).with_name("bars.py")
GAP, WORST = "Accuracy gap", "Worst-group accuracy"
SMALL = ["--models", "2", "--references", "3", "--images", "60", "--test-images", "60"]


def numbers(shifts, seed=0, references=20, models=6):
    """Values of models by name of metric: a metric's risk rises by its shift from strength 0 to 1; spread 1."""
    rng, rows = np.random.default_rng(seed), []
    for world in ("birds", "pets"):
        for strength in (0.0, 0.5, 1.0):
            for number in range(models if strength else references):
                key = (world, "small", strength, number, strength / 2, len(rows))
                rows += [(*key, name, rng.normal(shift * strength)) for name, shift in shifts.items()]
                rows.append((*key, EXACT.name, strength / 2 + 1e-3 * number))
    columns = ["world", "architecture", "strength", "seed", "effect", "model", "metric", "risk_score"]
    table = pd.DataFrame(rows, columns=columns)
    table["model"] = table.groupby(["world", "strength", "seed"]).ngroup()
    return table


def test_a_metric_that_moves_far_is_first_and_one_that_does_not_move_finds_one_in_twenty():
    rows = board.rows(numbers({GAP: 40.0, WORST: 0.0})).set_index("metric")
    assert rows.loc[GAP, "power"] == pytest.approx(1.0, abs=1e-3)
    assert rows.loc[GAP, "low"] > 0.95
    assert rows.loc[WORST, "low"] <= rows.loc[WORST, "power"] <= rows.loc[WORST, "high"]
    assert rows.loc[WORST, "power"] < 0.35
    assert rows.loc[[GAP, WORST], "rank"].tolist() == [1, 2]
    assert rows.loc[GAP, "smallest effect"] == 0.25
    assert np.isnan(rows.loc[WORST, "smallest effect"])
    assert rows.loc[GAP, "tau"] > 0.4 > rows.loc[WORST, "tau"]
    assert abs(rows.loc[GAP, "tau, same strength"]) < 0.35
    for name in (GAP, WORST):
        hits, audits = map(int, rows.loc[name, "alarms"].split(" of "))
        assert audits == 40
        upper = scipy.stats.beta.ppf(0.975, hits + 1, audits - hits)
        assert rows.loc[name, "alarms' upper end"] == pytest.approx(upper)


def test_what_cannot_be_told_apart_shares_a_rank_and_a_tier_has_its_own_first():
    mine = Metric("Mine", "tier 1", "", "above", "", 1, lambda case, rows: 0.0)
    third = Metric("Third", "tier 3", "", "above", "", 3, lambda case, rows: 0.0)
    table = numbers({GAP: 3.0, "Mine": 3.0, WORST: 0.0, "Third": 1.0})
    rows = board.rows(table, [mine, third]).set_index("metric")
    assert rows.loc[[GAP, "Mine", WORST, "Third"], "tier"].tolist() == [1, 1, 1, 3]
    assert rows.loc[[GAP, "Mine"], "rank"].tolist() == [1, 1]
    assert rows.loc[WORST, "rank"] == 3
    assert rows.loc["Third", "rank"] == 1
    # the same draws of models: a metric differs from itself by nothing, however few models there are
    few = table[table["metric"] != "Mine"]
    few = pd.concat([few, few[few["metric"] == GAP].assign(metric="Mine")])
    assert board.rows(few, [mine, third]).set_index("metric").loc[["Mine", GAP], "rank"].tolist() == [1, 1]


def test_the_books_metrics_have_their_tiers():
    tiers = {name: board.tier(metric) for name, metric in METRICS.items()}
    assert tiers["Accuracy on data as biased"] == 0
    assert tiers[WORST] == tiers[GAP] == 1
    assert {tiers[name] for name, metric in METRICS.items() if metric.family == NULL} == {2}
    assert tiers["RMA of the cue, Grad-CAM"] == tiers["Heatmap score"] == tiers["AOPC, Grad-CAM"] == 3
    assert {tiers[name] for name, metric in METRICS.items() if metric.family == "amplification"} == {5}
    assert tiers[EXACT.name] == 6


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process", "store_of_the_module")
def test_a_check_sees_what_answers_otherwise_the_second_time():
    rng = np.random.default_rng(0)
    steady = entries.Entry("Steady", 1, "above", 1.0, lambda case: case.score[case.cue].mean())
    (line,) = board.check([steady])
    assert line.startswith("Steady: tier 1, a number a model, ")
    for function, said in (
        (lambda case: rng.random(), "gives another number when"),
        (lambda case: np.nan, "no number"),
    ):
        with pytest.raises(BiaslibError, match=said):
            board.check([entries.Entry("Mine", 0, "above", 1.0, function)])


@pytest.mark.usefixtures("in_this_process", "store_of_the_module")
def test_a_strangers_metric_gets_its_row_by_one_command_in_a_strangers_world(tmp_path, monkeypatch, capsys):
    """Without an edit of the package, from another folder."""
    shutil.copyfile(BARS, tmp_path / "bars.py")
    (tmp_path / "mine.py").write_text(
        "from biaslib import dial\n\n\n@dial.metric(name='Sure of it', tier=3, side='above', passes=3)\n"
        "def sure(case):\n    return case.map.max(axis=(1, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(board, "HELD_OUT", {"bars": {"sha256": hashlib.sha256(BARS.read_bytes()).hexdigest()}})
    monkeypatch.setattr(
        sys, "argv", ["biaslib", "dial", "run", "mine.py", "--world", "bars.py", *SMALL, "--out", "sent"]
    )
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    printed = capsys.readouterr().out
    assert "* Sure of it" in printed
    assert "0 of 9 models are in a zoo" in printed
    assert "RMA of the object, edges" not in printed  # of another tier
    rows = pd.read_csv("sent/board.csv").set_index("metric")
    assert rows.loc["Sure of it", "tier"] == 3
    assert rows.loc["Sure of it", "alarms"].endswith(" of 3")
    table = pd.read_csv("sent/numbers.csv")
    assert set(table["world"]) == {str(tmp_path / "bars.py")}
    assert table["Sure of it"].notna().sum() == 3 + 3 * 2
    again = verdicts.from_record(table, [Metric("Sure of it", "tier 3", "", "above", "", 3, lambda case, rows: 0.0)])
    assert again["metric"].eq("Sure of it").sum() == 9
    assert again.loc[again["metric"] == "Sure of it", "risk_score"].tolist() == table["Sure of it"].tolist()
    about = json.loads(Path("sent/submission.json").read_text())
    assert about["asked"] == {"models": 2, "references": 3, "images": 60, "test_images": 60}
    assert about["metrics"] == [{"name": "Sure of it", "tier": 3, "side": "above", "passes": 3.0}]
    assert about["held_out"] == {str(tmp_path / "bars.py"): "bars"}
    assert about["sources"] == {"mine.py": hashlib.sha256(Path("mine.py").read_bytes()).hexdigest()}
    assert Path("sent/mine.py").read_text() == Path("mine.py").read_text()


def test_a_board_of_another_architecture_says_so(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from biaslib import dial\n\n\n@dial.metric(name='One', tier=0, side='above')\ndef one(case):\n    return 1.0\n"
    )
    asked = []
    monkeypatch.setattr(board, "run", lambda read, trials: (asked.append(trials), None))
    monkeypatch.setattr(board, "as_text", lambda rows, read: "")
    monkeypatch.setattr(board, "write", lambda *_, **told: asked.append(told))
    for options in ([], ["--architecture", "small_vit"]):
        monkeypatch.setattr(sys, "argv", ["biaslib", "dial", "run", str(tmp_path / "mine.py"), *options, "--out", "x"])
        with pytest.raises(SystemExit):
            cli.main()
    (usual, plain), (other, told) = asked[:2], asked[2:]
    assert {trial.architecture for trial in usual} == {None}
    assert "architecture" not in plain  # folders from before stay as they are
    assert {trial.architecture for trial in other} == {"small_vit"}
    assert told == plain | {"architecture": "small_vit"}
    assert other == board.trials(["birds", "pets"], **told)
    assert {trial.recipe.training.learning_rate for trial in other} == {3e-3}  # in each world


@pytest.mark.usefixtures("in_this_process", "store_of_the_module")
def test_a_world_of_a_file_is_measured_as_the_books_are(tmp_path):
    trial = Trial(world=str(BARS), strength=1.0, images=60, test_images=40, explained=4, size=32)
    (case,) = measured([trial])
    samples = pictures(trial)
    np.testing.assert_array_equal(case.mask("cue").any(axis=(1, 2)), case.cue)
    assert case.mask("object").any(axis=(1, 2)).all()
    assert samples.images.shape == (40, 32, 32, 3)
    assert trial.place.target == "upright or flat bar"
    assert len(case.scores) > 4
    # another world of the same name is another world
    other = tmp_path / "bars.py"
    other.write_text(BARS.read_text().replace("(200, 40, 40)", "(40, 200, 40)"))
    again = Trial(world=str(other), strength=1.0, images=60, test_images=40, explained=4, size=32)
    assert again.fingerprint() != trial.fingerprint()
    assert (pictures(again).images != samples.images).any()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "has no WORLD, a biaslib.worlds.World, or no PLACE"),
        ("1 / 0", r"cannot be run as Python \(ZeroDivisionError: division by zero\)"),
        (BARS.read_text().replace('"kind"', '"sort"'), r"PLACE in .* is not as a section of the dial's table \(.*sort"),
    ],
)
def test_a_file_that_is_no_world_is_one_sentence(tmp_path, text, said):
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(BiaslibError, match=said):
        board.trials([str(file)], models=2, references=3, images=60, test_images=60)
    assert worlds.is_file(str(file))


def test_a_world_that_was_changed_since_is_not_the_one_that_is_held_out(tmp_path, monkeypatch):
    changed = tmp_path / "bars.py"
    changed.write_text(BARS.read_text() + "\n")
    monkeypatch.setattr(board, "HELD_OUT", {"bars": {"sha256": hashlib.sha256(BARS.read_bytes()).hexdigest()}})
    table = numbers({GAP: 1.0}).assign(world=str(changed))
    monkeypatch.setattr(verdicts, "as_record", lambda numbers, decimals: numbers)
    board.write(tmp_path / "sent", [], [], pd.DataFrame(), table)
    assert json.loads((tmp_path / "sent" / "submission.json").read_text())["held_out"] == {}


def test_a_name_of_the_book_is_taken():
    with pytest.raises(BiaslibError, match="'Accuracy gap' is a metric of the book: give yours another name"):
        board.run([entries.Entry(GAP, 1, "above", 1.0, lambda case: 0.0)], [])
