"""Models from a zoo in place of training: the same numbers, and no file that was not published."""

import csv
import dataclasses
import hashlib
import shutil
import sys
import zipfile

import numpy as np
import pytest

from biaslib import cli, recipes, training
from biaslib.dial import board
from biaslib.dial.measuring import measurements
from biaslib.dial.trials import Trial
from biaslib.errors import BiaslibError
from tests.conftest import one_worker
from tools import zoo as making

TRIALS = [
    Trial(world="birds", strength=s, images=60, epochs=1, size=32, test_images=20, explained=4) for s in (0.0, 1.0)
]
OTHERS = [
    dataclasses.replace(TRIALS[0], **other) for other in ({"seed": 1}, {"images": 61}, {"epochs": 2}, {"strength": 0.5})
]
NAME = "biaslib_zoo_birds-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two small models: what is measured of them where they were trained, and the folder with their wheel."""
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASLIB_STORE", str(out / "store"))
        patch.setattr("biaslib.store.parallel.workers", one_worker)
        making.make(out, TRIALS)
        return [measurements(trial) for trial in TRIALS], out


@pytest.fixture
def wheel(made, tmp_path, monkeypatch):
    """A copy of the wheel, which stands for one that was published; nothing may be trained."""
    copied = shutil.copyfile(made[1] / NAME, tmp_path / NAME)
    with zipfile.ZipFile(copied) as opened:
        table = opened.read("biaslib_zoo_birds/models.csv")
        opened.extractall(tmp_path / "site")
    monkeypatch.setattr(board, "PUBLISHED", {"birds": hashlib.sha256(table).hexdigest()})
    monkeypatch.setattr(training, "fit_with_criterion", lambda *_, **__: pytest.fail("a model was trained"))
    return copied


def stored():
    return [recipes.train.stored_at(trial.recipe).exists() for trial in TRIALS]


@pytest.mark.parametrize("place", ["wheel", "folder", "installed"])
def test_numbers_are_the_same_to_the_bit_and_nothing_is_trained(made, wheel, tmp_path, monkeypatch, place):
    folder = tmp_path / "site" / "biaslib_zoo_birds"
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder.parent)] if place == "installed" else sys.path)
    assert stored() == [False, False]
    assert board.from_zoo(TRIALS, {"wheel": [wheel], "folder": [folder], "installed": []}[place]) == 2
    assert stored() == [True, True]
    for trial, before in zip(TRIALS, made[0], strict=True):
        again = measurements(trial)
        assert again.keys() == before.keys()
        assert {name for name in again if again[name].tobytes() != before[name].tobytes()} == set()
        assert np.isfinite(again["probability"]).all()


def test_what_a_zoo_has_not_is_left_to_training(wheel):
    assert board.from_zoo([*TRIALS, *OTHERS], [wheel, wheel]) == 2
    assert not any(recipes.train.stored_at(trial.recipe).exists() for trial in OTHERS)
    assert board.from_zoo(OTHERS, [wheel]) == 0
    assert board.from_zoo(TRIALS) == 0  # none is installed


def test_test_images_make_no_other_model(wheel):
    assert board.from_zoo([dataclasses.replace(trial, test_images=40) for trial in TRIALS], [wheel]) == 2


def test_a_setting_that_came_later_is_no_other_model(wheel, monkeypatch):
    settings = board.settings
    monkeypatch.setattr(board, "settings", lambda trial: settings(trial) | {"later": "None"})
    assert board.from_zoo(TRIALS, [wheel]) == 2


def test_a_model_that_the_store_has_stays(wheel, monkeypatch):
    board.from_zoo(TRIALS, [wheel])
    file = recipes.train.stored_at(TRIALS[0].recipe) / "record.json"
    before = file.stat().st_mtime_ns
    assert board.from_zoo(TRIALS, [wheel]) == 2
    assert file.stat().st_mtime_ns == before


def test_a_damaged_file_is_refused(wheel, tmp_path):
    folder = tmp_path / "site" / "biaslib_zoo_birds"
    with (folder / "models.csv").open(newline="") as opened:
        last = folder / [*csv.DictReader(opened)][-1]["file"]
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    with pytest.raises(
        BiaslibError, match=rf"{last} is missing, damaged or not what was published as the zoo of dial-"
    ):
        board.from_zoo(TRIALS, [folder])
    assert stored() == [True, False]  # the one before is whole
    last.unlink()
    with pytest.raises(BiaslibError, match=rf"{last} is missing"):
        board.from_zoo(TRIALS, [folder])


def test_a_damaged_wheel_is_refused(wheel):
    with zipfile.ZipFile(wheel) as opened:
        member = next(info for info in opened.infolist() if info.filename.endswith("1.0-00.safetensors"))
    data = bytearray(wheel.read_bytes())
    middle = member.header_offset + len(member.filename) + member.compress_size // 2
    data[middle : middle + 40] = bytes(40)
    wheel.write_bytes(data)
    with pytest.raises(BiaslibError, match=r"1\.0-00\.safetensors is missing, damaged"):
        board.from_zoo(TRIALS, [wheel])
    wheel.write_bytes(data[: len(data) // 2])
    with pytest.raises(BiaslibError, match=r"models\.csv is missing, damaged"):
        board.from_zoo(TRIALS, [wheel])


def test_another_table_than_the_published_one_is_refused(wheel, tmp_path, monkeypatch):
    table = tmp_path / "site" / "biaslib_zoo_birds" / "models.csv"
    table.write_bytes(table.read_bytes().replace(b",1.0,", b",0.9,"))
    with pytest.raises(BiaslibError, match=rf"{table} is missing, damaged or not what was published"):
        board.from_zoo(TRIALS, [table.parent])
    monkeypatch.setattr(board, "PUBLISHED", {"birds": "0" * 64})
    with pytest.raises(BiaslibError, match=r"models\.csv is missing, damaged or not what was published"):
        board.from_zoo(TRIALS, [wheel])
    assert stored() == [False, False]


def test_the_command_says_how_many_models_a_zoo_has_before_it_trains(wheel, tmp_path, monkeypatch, capsys):
    def run(entries, trials):
        raise BiaslibError(f"{len(trials)} would be trained.")

    (tmp_path / "mine.py").write_text(
        "from biaslib import dial\n\n\n@dial.metric(name='Mine', tier=0, side='above')\ndef mine(case):\n    return 0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(board, "trials", lambda worlds, **asked: TRIALS + OTHERS)
    monkeypatch.setattr(board, "run", run)
    monkeypatch.setattr(sys, "argv", ["biaslib", "dial", "run", "mine.py", "--zoo", NAME])
    with pytest.raises(SystemExit):
        cli.main()
    printed = capsys.readouterr()
    assert printed.out == "2 of 6 models are in a zoo\n"
    assert "6 would be trained." in printed.err


def test_the_published_zoos_are_of_the_worlds_that_the_board_asks_for():
    assert board.PUBLISHED.keys() == {trial.world for trial in making.asked_for()}
    assert all(len(digest) == 64 for digest in board.PUBLISHED.values())
