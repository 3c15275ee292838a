"""Repairs of others: what they are told, how they are judged, and what is refused."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from biaslib import cli, recipes
from biaslib.dial import entries, repairing
from biaslib.dial.measuring import measured
from biaslib.dial.repairing import Repair, Trained, outcome
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from biaslib.metrics import worst_group_accuracy
from biaslib.store.files import sha256

pytestmark = pytest.mark.usefixtures("in_this_process", "store_of_the_module")

TINY = {"world": "birds", "images": 64, "epochs": 1, "size": 32, "test_images": 40, "explained": 4}
BIASED = Trial(strength=0.8, seed=3, **TINY)


def written(tmp_path, body, name="Mine", labels=10, file="mine.py"):
    head = "import torch\nfrom torch import nn\n\nfrom biaslib import dial\n\n\n"
    head += f"@dial.repair(name={name!r}, labels={labels})\ndef mine(case):\n"
    (tmp_path / file).write_text(head + "".join(f"    {line}\n" for line in body.split("\n")))
    return tmp_path / file


def entered(*files):
    return entries.read([*files], what="repair")


def test_a_decorator_of_another_module_is_not_the_repairs_source(tmp_path):
    file = tmp_path / "mine.py"
    head = "import torch\n\nfrom biaslib import dial\n\n\n@dial.repair(name='Mine', labels=0)\n"
    file.write_text(head + "@torch.no_grad()\ndef mine(case):\n    return case.network\n")
    (repair,) = entered(file)
    assert repair.file == str(file.resolve())


def test_without_a_repair_it_is_the_dials_own_effect():
    case, row = measured([BIASED])[0], outcome(BIASED, Repair())
    assert row["effect"] == pytest.approx(case.effect.mean(), abs=1e-6)
    assert row["accuracy"] == case.correct.mean()
    assert row["worst group"] == worst_group_accuracy(case.correct, case.group)
    assert row["answers changed"] == ((case.probability[:, 0] > 0.5) != (case.probability[:, 1] > 0.5)).mean()
    assert row["seconds"] == 0


def test_a_repair_is_told_its_budget_of_the_cue_and_no_more(tmp_path, monkeypatch):
    (repair,) = entered(written(tmp_path, "return case.network"))
    told = []
    monkeypatch.setattr(repairing, "module_of", lambda file: None)
    monkeypatch.setitem(repairing._functions, "Mine", lambda case: told.append(case) or case.network)
    for labels in (0, 5, 10):
        outcome.compute((BIASED, Repair("Mine", labels, repair.file)))
    table = BIASED.recipe.table()
    assert [len(case.rows) for case in told] == [len(case.cue) for case in told] == [0, 5, 10]
    np.testing.assert_array_equal(told[1].rows, told[2].rows[:5])  # of a larger budget the smaller is a part
    assert len(set(told[2].rows)) == 10
    np.testing.assert_array_equal(told[2].cue, BIASED.cue(table)[told[2].rows])
    np.testing.assert_array_equal(told[2].target, table[BIASED.recipe.targets])
    assert told[2].pictures.shape == (64, 32, 32, 3)
    assert {*Trained.__dataclass_fields__} == {"network", "pictures", "target", "rows", "cue", "seed"}


def test_each_is_asked_once_at_a_budget_that_is_the_same_to_it(tmp_path):
    few = written(tmp_path, "return case.network", labels=3)
    none = written(tmp_path, "return case.network", "None", labels=0, file="none.py")
    asked = repairing.calls(entered(few, none), [BIASED], [5, 2, 20])
    assert [(each.name, each.labels) for _, each in asked] == [("", 0), ("Mine", 2), ("Mine", 3), ("None", 0)]


def test_nothing_that_a_repair_does_to_its_copies_stays(tmp_path):
    body = "case.pictures[:] = 0\nfor part in case.network.parameters():\n    nn.init.zeros_(part)\nreturn case.network"
    (spoils,) = entered(written(tmp_path, body))
    before, state = outcome(BIASED, Repair()), recipes.load(BIASED.recipe).state_dict()
    assert outcome(BIASED, spoils)["effect"] == 0
    assert BIASED.data.samples().images.any()
    assert all(torch.equal(part, state[name]) for name, part in recipes.load(BIASED.recipe).state_dict().items())
    assert outcome.compute((BIASED, Repair())) == before


def test_torchs_random_numbers_are_the_models_own(tmp_path):
    body = "nn.init.normal_(list(case.network.parameters())[-1])\nreturn case.network"
    (draws,) = entered(written(tmp_path, body))
    torch.manual_seed(1)
    first = outcome.compute((BIASED, draws))
    torch.manual_seed(2)
    again = outcome.compute((BIASED, draws))
    assert {**first, "seconds": 0} == {**again, "seconds": 0}


def test_another_source_is_another_repair(tmp_path):
    file = written(tmp_path, "return case.network")
    (repair,) = entered(file)
    before = outcome.stored_at((BIASED, repair))
    assert outcome.stored_at((BIASED, repair)) == before
    file.write_text(file.read_text() + "# mended\n")
    assert outcome.stored_at((BIASED, repair)) != before


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", r"The repair 'Mine', or the network .*, stopped with AttributeError \(.*parameters"),
        ("return 1 / 0", r"stopped with ZeroDivisionError \(division by zero\): mend its function"),
        ("return nn.Conv2d(3, 3, 1)", "gave a network whose outputs are not 40 rows of 2 finite numbers"),
        (
            "return nn.Sequential(nn.Flatten(), nn.LazyLinear(5))",
            "are not 40 rows of 2 finite numbers: return one with",
        ),
        (
            "for part in case.network.parameters():\n    nn.init.constant_(part, torch.nan)\nreturn case.network",
            "are not 40 rows of 2 finite numbers",
        ),
    ],
)
def test_what_is_no_network_with_these_outputs_is_refused(tmp_path, body, said):
    (repair,) = entered(written(tmp_path, body))
    with pytest.raises(BiaslibError, match=said):
        outcome(BIASED, repair)


def test_a_file_without_a_repair_and_names_given_twice_are_refused(tmp_path):
    metric = tmp_path / "metric.py"
    metric.write_text(
        "from biaslib import dial\n\n@dial.metric(name='M', tier=0, side='above')\ndef m(case):\n    ...\n"
    )
    with pytest.raises(BiaslibError, match=r"metric\.py enters no repair: put @dial\.repair\(\.\.\.\) over"):
        entered(metric)
    file = written(tmp_path, "return case.network")
    with pytest.raises(BiaslibError, match=r"mine\.py enters no metric: put @dial\.metric"):
        entries.read([file])
    with pytest.raises(BiaslibError, match="'Mine' is the name of two repairs: give each its own"):
        entered(file, written(tmp_path, "return 1", file="other.py"))
    with pytest.raises(BiaslibError, match=r"labels must be a whole number .*, not -1"):
        entered(written(tmp_path, "return 1", labels=-1))


def test_models_that_answer_more_than_the_target_are_refused():
    with pytest.raises(BiaslibError, match="Models of digits answer more than one question: repair those of another"):
        repairing.calls([], [Trial(world="digits", strength=0.5)], [1])


def test_changes_are_paired_and_kinds_are_apart():
    rows = []
    for strength, before in ((0.0, 0.1), (0.6, 0.5), (1.0, 0.9)):
        for seed in range(4):
            values = {"answers changed": 0.3, "accuracy": 0.8, "worst group": 0.7, "seconds": 2.0}
            model = {"world": "birds", "strength": strength, "seed": seed}
            # a repair takes 0.2 of every effect, however far the models are apart
            rows.append({**model, "repair": "Mine", "labels": 5, "effect": before + 0.1 * seed - 0.2, **values})
            rows.append({**model, "repair": "", "labels": 0, "effect": before + 0.1 * seed, **values})
    table = repairing.summary(pd.DataFrame(rows))
    table = table[table["repair"] == "Mine"].set_index(["world", "models"])
    assert table["n"].to_dict() == {
        ("all", "unbiased"): 4, ("all", "biased"): 8, ("birds", "strength 0"): 4, ("birds", "strength 0.6"): 4,
        ("birds", "strength 1"): 4,
    }  # fmt: skip
    for change in table["change of effect"]:
        assert (change.low, change.high) == pytest.approx((-0.2, -0.2))
    assert table.loc[("birds", "strength 0.6"), "effect"].estimate == pytest.approx(0.45)
    assert table.loc[("all", "biased"), "effect"].high - table.loc[("all", "biased"), "effect"].low > 0.1
    assert (table["seconds"] == 2).all()


def test_a_strangers_repair_from_end_to_end(tmp_path, monkeypatch, capsys):
    file, out = written(tmp_path, "return case.network"), tmp_path / "out"
    small = ["--models", "2", "--references", "2", "--images", "60", "--test-images", "50"]
    asked = ["dial", "repair", file, "--world", "birds", "--labels", "4", *small, "--out", out]
    monkeypatch.setattr(sys, "argv", ["biaslib", *map(str, asked)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    said = capsys.readouterr().out
    assert "change of effect" in said
    assert "Mine" in said
    about = json.loads((out / "repairs.json").read_text())
    assert about["sources"] == {"mine.py": sha256(file)}
    assert about["asked"]["labels"] == [4]
    sent = pd.read_csv(out / "numbers.csv", keep_default_na=False)
    assert len(sent) == 2 * 8
    both = [sent[sent["repair"] == name].drop(columns=["repair", "labels", "seconds"]) for name in ("", "Mine")]
    pd.testing.assert_frame_equal(*(each.reset_index(drop=True) for each in both))
    assert {each.name for each in out.iterdir()} == {"mine.py", "numbers.csv", "repairs.csv", "repairs.json"}
