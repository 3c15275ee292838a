"""What lies in data/submissions is whole: sources, numbers and board belong together, and a tenth is measured again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslib.dial import board, entries, verdicts
from biaslib.dial.catalogue import METRICS
from biaslib.dial.measuring import measured
from biaslib.store.files import sha256

SUBMISSIONS = Path(__file__).parents[2] / "data" / "submissions"
FOLDERS = sorted(file.parent for file in SUBMISSIONS.glob("*/submission.json"))
EACH = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
MODEL = ["world", "strength", "seed"]
REFERENCES = 4  # from this tier on metrics see models that are not in the tenth


def told(folder):
    return json.loads((folder / "submission.json").read_text())


def test_there_is_one_and_no_folder_without_what_it_is_made_of():
    assert FOLDERS
    assert sorted(SUBMISSIONS.iterdir()) == FOLDERS


@EACH
def test_sources_are_those_that_were_measured(folder):
    about = told(folder)
    assert about["protocol"] == board.PROTOCOL
    assert about["sources"] == {file.name: sha256(file) for file in folder.glob("*.py")}
    allowed = {"board.csv", "numbers.csv", "submission.json", *about["sources"]}
    assert {file.name for file in folder.iterdir() if file.is_file()} == allowed  # and what Python compiled


@EACH
def test_the_board_follows_from_the_numbers(folder):
    metrics = [entries.Entry(**each, function=len).as_metric([]) for each in told(folder)["metrics"]]
    again = board.rows(verdicts.from_record(pd.read_csv(folder / "numbers.csv"), metrics), metrics)
    sent = pd.read_csv(folder / "board.csv")
    assert list(again["metric"]) == list(sent["metric"])
    assert list(again["alarms"]) == list(sent["alarms"])
    numeric = sent.select_dtypes("number").columns
    assert {"rank", "power", "smallest effect", "alarms' upper end", "tau, same strength"} < {*numeric}
    np.testing.assert_allclose(again[numeric].astype(float), sent[numeric].astype(float), atol=1e-6)


@pytest.mark.slow
@EACH
@pytest.mark.usefixtures("store_of_the_module")
def test_a_tenth_of_the_models_has_these_numbers_again(folder, tmp_path):
    """Trained anew; which tenth follows from the numbers themselves. Not of metrics that may see reference models.

    On one kind of processor the numbers are the same; another may move them, by a tenth of how far unbiased models of
    the world differ from each other.
    """
    about, numbers = told(folder), pd.read_csv(folder / "numbers.csv")
    trials = board.trials(list(dict.fromkeys(numbers["world"])), **about["asked"])
    keys = [(trial.world, trial.strength, trial.seed) for trial in trials]
    assert keys == list(numbers[MODEL].itertuples(index=False, name=None))
    rng = np.random.default_rng(int(sha256(folder / "numbers.csv")[:8], 16))
    chosen = sorted(rng.choice(len(trials), len(trials) // 10, replace=False))
    files = [Path(shutil.copy(folder / name, tmp_path)) for name in about["sources"]]
    cases = measured([trials[at] for at in chosen])
    given = [entry.as_metric([]) for entry in entries.read(files) if entry.tier < REFERENCES]
    again = verdicts.as_record(verdicts.numbers(cases, given), decimals=9)
    sent, calm = again[MODEL].merge(numbers.loc[chosen], on=MODEL), numbers[numbers["strength"] == 0]
    assert len(sent) == len(chosen)
    for name in ["effect", *(name for name in again if name in METRICS or name in [each.name for each in given])]:
        spread = sent["world"].map(calm.groupby("world")[name].std()).fillna(0)
        apart = (again[name] - sent[name]).abs()
        assert (apart.isna() | (apart <= 0.1 * spread + 1e-4)).all(), f"{name}: {apart.max()}"
        assert (again[name].isna() == sent[name].isna()).all(), name
