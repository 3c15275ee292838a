"""The command as a reader types it."""

import subprocess
import sys

import pandas as pd
import pytest

from biaslib import cli, datasets, store
from biaslib.chapters import face_generators
from biaslib.errors import BiaslibError


def biaslib(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", "from biaslib.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def call(monkeypatch, *arguments: str) -> int:
    """Runs the command in this process and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["biaslib", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


def test_help_shows_the_commands_with_examples_and_loads_nothing_heavy():
    code = "import sys\nfrom biaslib.cli import main\ntry: main()\nfinally: print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for word in ("build", "run", "store", "data", "version", "Examples:", "biaslib run waterbirds -p seed=1"):
        assert word in done.stdout
    assert "│" not in done.stdout
    loaded = done.stderr.splitlines()[-1]
    assert not any(f"'{heavy}'" in loaded for heavy in ("torch", "pandas", "papermill", "jupytext"))


@pytest.mark.parametrize("command", [("build",), ("run",), ("store", "ls"), ("store", "rm"), ("data", "fetch")])
def test_every_command_has_help(monkeypatch, capsys, command):
    assert call(monkeypatch, *command, "--help") == 0
    assert "Usage: biaslib" in capsys.readouterr().out


def test_an_unknown_option_is_a_sentence_and_exit_code_2(monkeypatch, capsys):
    assert call(monkeypatch, "build", "--fast") == 2
    assert "No such option: --fast" in capsys.readouterr().err


def test_a_users_mistake_is_one_sentence_and_exit_code_2(monkeypatch, capsys):
    def damaged(name):
        raise BiaslibError(f"{name} is damaged: fetch it again.")

    monkeypatch.setattr(datasets, "check", damaged)
    assert call(monkeypatch, "data", "check", "celeba") == 2
    assert capsys.readouterr().err == "biaslib: celeba is damaged: fetch it again.\n"


def test_growing_ones_own_generator_takes_a_source_a_size_options_and_a_file(monkeypatch, capsys, tmp_path):
    grown = []
    monkeypatch.setattr(face_generators, "train_to", lambda setup, path: grown.append(setup) or path)
    own = ("--source", "generated", "--size", "32", "--images", "48000", "--option", "threads=1")
    assert call(monkeypatch, "grow", *own, "--out", str(tmp_path / "own.safetensors")) == 0
    assert grown == [face_generators.configured("generated", size=32, images=48_000, options=["threads=1"])]
    assert "own.safetensors" in capsys.readouterr().out
    for wrong in ([], own, ("faces-0", *own)):
        assert call(monkeypatch, "grow", *wrong) == 2
        assert "alone, or --source and --out of your own" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["record", "open"])
def test_a_run_without_a_page_is_not_silently_recorded_or_opened(monkeypatch, capsys, tmp_path, option):
    assert call(monkeypatch, "run", "digits", f"--{option}", "--out", str(tmp_path / "digits.ipynb")) == 2
    assert "nothing to record or open: leave one out" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_one_sentence(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(datasets, "fetch", lambda name: (tmp_path / "file" / name).mkdir())
    assert call(monkeypatch, "data", "fetch", "celeba") == 2
    assert "Not a directory" in capsys.readouterr().err


def test_store_lists_removes_and_verifies(monkeypatch, capsys):
    for seed in (1, 2):
        store.get_or_compute("squares", {"seed": seed}, lambda seed=seed: {"value": seed**2})
    assert call(monkeypatch, "store", "ls") == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 3
    assert "2 entries" in listed[-1]
    assert listed[0].startswith("squares/")

    assert call(monkeypatch, "store", "verify") == 0
    assert "2 entries, all whole" in capsys.readouterr().out
    (store.entries()[0].path / "value.json").write_text("5")
    assert call(monkeypatch, "store", "verify") == 1
    damaged = capsys.readouterr()
    assert "is damaged: value.json" in damaged.out
    assert "1 damaged" in damaged.err

    assert call(monkeypatch, "store", "rm", "squares") == 0
    assert "removed 2 entries" in capsys.readouterr().out
    assert store.entries() == []
    assert call(monkeypatch, "store", "rm", "nosuch") == 2
    assert "nothing in the store matches 'nosuch'" in capsys.readouterr().err


def test_data_list_names_licence_and_source(monkeypatch, capsys):
    assert call(monkeypatch, "data", "list") == 0
    listed = capsys.readouterr().out
    for line in datasets.listing().itertuples():
        assert line.name in listed
        assert line.licence in listed
        assert line.source in listed


def test_data_check_shows_what_is_wrong_and_ends_with_1(monkeypatch, capsys):
    states = pd.DataFrame({"file": ["a.csv", "b.csv"], "state": ["ok", "missing"], "detail": ["", ""]})
    monkeypatch.setattr(datasets, "check", lambda name: states)
    assert call(monkeypatch, "data", "check", "birds") == 1
    shown = capsys.readouterr()
    assert shown.out == "missing: b.csv\n"
    assert "1 of 2 files of birds" in shown.err
    monkeypatch.setattr(datasets, "check", lambda name: states.head(1))
    assert call(monkeypatch, "data", "check", "birds") == 0
    assert "1 files of birds, all there" in capsys.readouterr().out


def test_version_names_the_libraries(monkeypatch, capsys):
    assert call(monkeypatch, "version") == 0
    assert {"python", "biaslib", "torch", "numpy"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}


def test_outside_a_checkout_the_packages_own_is_found(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from biaslib.book import find_project; print(find_project().root)"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert (cli.Path(done.stdout.strip()) / "_config.yml").is_file()


def test_an_unwritable_store_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "file" / "store"))
    monkeypatch.setattr(datasets, "check", lambda name: store.get_or_compute("x", {}, dict))
    assert call(monkeypatch, "data", "check", "celeba") == 2
    assert "cannot write" in capsys.readouterr().err
