import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from biaslib.book import building, execution, recorded, site
from biaslib.errors import BiaslibError
from biaslib.store import results
from tests.book.conftest import write_notebook


def executed(project, name):
    return (project.executed / f"{name}.ipynb").read_text()


def html(project, name):
    return (project.site / "_executed" / f"{name}.html").read_text()


def wait_for(condition, *, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


@pytest.fixture
def without_site(monkeypatch):
    """Leaves the pages away where a test is about the notebooks only: they take seconds."""
    monkeypatch.setattr(site, "write", lambda project: project.site / "index.html")


def test_build_runs_what_is_chosen_and_has_changed_drops_what_is_gone_and_leaves_the_rest(
    project, command, monkeypatch
):
    monkeypatch.setenv("BIASLIB_CORES", "3")  # all at a time, without the workers that more pages would share
    write_notebook(project, "one", "print(n + 1)")
    write_notebook(project, "two", "print(n + 2)")
    leaving = write_notebook(project, "three", "print(n + 3)")
    chosen = ["build", "--only", "one", "--only", "three"]
    first = command(*chosen)
    assert first.returncode == 0, first.stderr
    assert "one: running" in first.stdout
    assert "three: done" in first.stdout
    assert "two: running" not in first.stdout
    assert "not run yet: two" in first.stdout
    assert "has not been run" in html(project, "two")
    assert str(project.site / "index.html") in first.stdout
    assert "6\n" in html(project, "three")

    made = (project.site / "index.html").stat().st_mtime_ns
    (project.book / "__pycache__").mkdir()
    (project.book / "__pycache__" / "pages.cpython-311.pyc").touch()  # Sphinx compiles what the book imports
    second = command(*chosen)
    assert second.returncode == 0, second.stderr
    assert "running" not in second.stdout
    assert (project.site / "index.html").stat().st_mtime_ns == made

    leaving.unlink()
    write_notebook(project, "two", "print(n + 20)")
    third = command("build")
    assert third.returncode == 0, third.stderr
    assert "two: running" in third.stdout
    assert "two: done" in third.stdout
    assert "one: running" not in third.stdout
    assert "23\n" in html(project, "two")
    assert "4\n" in html(project, "one")
    assert not (project.executed / "three.ipynb").exists()
    assert not (project.site / "_executed" / "three.html").exists()


def test_other_words_on_a_page_run_the_page_and_no_experiment(project, without_site):
    ran = project.root / "ran"
    cell = "from biaslib import store\n"
    cell += f"def experiment():\n    open({str(ran)!r}, 'a').write('x')\n    return {{'value': 7}}\n"
    cell += "print(store.get_or_compute('experiment', {'n': n}, experiment))"
    file = write_notebook(project, "one", cell)
    assert building.build(project)
    file.write_text(file.read_text().replace("A first paragraph.", "Other words."))
    assert building.build(project)
    assert "Other words." in executed(project, "one")
    assert "'value': 7" in executed(project, "one")
    assert ran.read_text() == "x"


def test_a_failing_notebook_is_explained_and_leaves_the_old_page(project, command, without_site):
    write_notebook(project, "bad", "print('an old result')")
    building.build(project)
    old = executed(project, "bad")

    write_notebook(project, "bad", "ratio = n\nratio / 0")
    failed = command("build")
    assert failed.returncode == 1
    assert "bad stopped at cell" in failed.stderr
    assert "ratio / 0" in failed.stderr
    assert "ZeroDivisionError: division by zero" in failed.stderr
    assert "papermill" not in failed.stderr
    assert executed(project, "bad") == old
    assert not project.site.exists()
    assert not list(project.executed.glob(".partial-*"))


def test_a_users_mistake_inside_a_notebook_is_one_sentence(project, command):
    code = "from biaslib.errors import BiaslibError\nraise BiaslibError('the file labels.csv is missing: fetch it.')"
    write_notebook(project, "one", code)
    failed = command("build")
    assert failed.returncode == 2
    assert failed.stderr.strip() == "biaslib: one: the file labels.csv is missing: fetch it."


def test_a_kernel_that_dies_is_a_sentence(project, tmp_path):
    write_notebook(project, "one", "import os\nos._exit(1)")
    with pytest.raises(execution.PageError, match="one: its kernel ended before the last cell"):
        execution.run(project, "one", tmp_path / "one.ipynb")
    assert list(tmp_path.glob("*one.ipynb")) == []


def test_a_warning_while_making_the_pages_is_an_error_and_keeps_the_old_site(project):
    project.site.mkdir(parents=True)
    (project.site / "index.html").write_text("the old site")
    (project.book / "index.md").write_text("# A small book\n\n{ref}`nowhere-at-all`\n")
    with pytest.raises(execution.PageError, match="nowhere-at-all"):
        building.build(project)
    assert (project.site / "index.html").read_text() == "the old site"


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_build_leaves_no_half_page_and_resumes(project, without_site, capsys, end):
    pid_file, gate = project.root / "pid", project.root / "gate"
    write_notebook(project, "fast", "print(n)")
    waiting = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\n"
    waiting += f"while not os.path.exists({str(gate)!r}): time.sleep(0.1)\nprint('through the gate')"
    write_notebook(project, "slow", waiting)
    # what was started in a shell's background ignores interrupts, and its children with it
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", f"{heeding}from biaslib.cli import main; main()", "build", "--jobs", "2"]
    with subprocess.Popen(command, cwd=project.root, stdout=subprocess.DEVNULL) as build:
        try:
            wait_for(lambda: (project.executed / "fast.ipynb").exists() and pid_file.exists() and pid_file.read_text())
            build.send_signal(end)
            assert build.wait(timeout=60) in (-signal.SIGKILL, 130)
        finally:
            build.kill()
    assert json.loads(executed(project, "fast"))["cells"]
    assert not (project.executed / "slow.ipynb").exists()
    assert not project.site.exists()
    kernel = int(pid_file.read_text())
    wait_for(lambda: not is_running(kernel))

    gate.touch()
    building.build(project)
    assert "fast: running" not in capsys.readouterr().out
    assert "through the gate" in executed(project, "slow")
    assert not list(project.executed.glob(".partial-*"))


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"  # a zombie has ended and waits to be collected
    except FileNotFoundError:
        return False


def test_a_notebook_or_part_that_there_is_not_cannot_be_chosen(project):
    write_notebook(project, "one", "print(n)")
    with pytest.raises(BiaslibError, match="no notebook or part 'three'"):
        building.build(project, only=["three"])


def test_a_page_says_at_its_top_which_parameters_are_not_the_books(project, without_site):
    write_notebook(project, "one", "print('n is', n)")
    building.page(project, "one", parameters={"n": 7})
    content = json.loads(executed(project, "one"))
    top = content["cells"][0]["source"]
    assert "n is 7" in executed(project, "one")
    assert "".join(top).startswith("# The page one")
    assert "`n = 7` (default `3`)" in "".join(top)
    assert "".join(top).index("This page was run with") < "".join(top).index("A first paragraph.")

    building.build(project)
    assert "n is 3" in executed(project, "one")
    assert "This page was run with" not in executed(project, "one")


def test_the_kernel_is_this_interpreter_and_is_told_of_threads_scheduler_and_folders(project, tmp_path, monkeypatch):
    spec = tmp_path / "home" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["/bin/false"], "display_name": "x", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(spec.parents[1]))  # whatever is registered as python3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIASLIB_DATA", "somewhere")
    names = "OMP_NUM_THREADS", "BIASLIB_SCHEDULER", "BIASLIB_DATA"
    cell = f"import os, sys\nprint(sys.executable)\nprint(*(os.environ[name] for name in {names}))"
    write_notebook(project, "one", cell)
    out = tmp_path / "one.ipynb"
    execution.run(project, "one", out, threads=3, scheduler="tcp://127.0.0.1:1")
    assert sys.executable in out.read_text()
    assert f"3 tcp://127.0.0.1:1 {tmp_path / 'somewhere'}" in out.read_text()


def test_an_output_that_cannot_be_written_is_one_sentence(project, command):
    write_notebook(project, "one", "print(n)")
    (project.root / "file").touch()
    done = command("run", "one", "--out", str(project.root / "file" / "one.ipynb"))
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_record_keeps_the_marked_numbers_and_what_they_came_from(project, without_site, monkeypatch):
    code = "import numpy as np, pandas as pd\nfrom biaslib.book import recorded\n"
    code += "recorded.put('scores', pd.DataFrame({'x': [1.5, np.nan], 'who': ['a', 'b']}))\n"
    code += "recorded.put('mean', {'x': np.float32(0.25), 'gap': float('nan')})\n"
    code += "recorded.data('made up', images=n)"
    write_notebook(project, "one", code)
    (project.presets / "real.yml").write_text("one: {n: 5}")
    monkeypatch.chdir(project.root)
    building.page(project, "one", preset="real", record=True)
    assert recorded._MIME not in executed(project, "one")

    record = recorded.get("one")
    assert record["preset"] == "real"
    assert record["parameters"] == {"n": 5}
    assert record["data"] == {"made up": {"images": 5}}
    assert record["values"]["mean"]["x"] == 0.25
    assert math.isnan(record["values"]["mean"]["gap"])
    assert record["values"]["scores"]["who"].tolist() == ["a", "b"]
    assert record["values"]["scores"]["x"].isna().tolist() == [False, True]
    assert "made up (5 images), 20" in recorded.described(record)
    assert recorded.get("one", preset="gpu") is None
    assert "NaN" not in (project.recorded / "one-real.json").read_text()


MARK = "from biaslib.book import recorded\nrecorded.put('n', n)"


def test_a_preset_without_an_entry_is_refused_and_never_recorded(project, without_site, monkeypatch):
    monkeypatch.chdir(project.root)
    write_notebook(project, "one", MARK)
    write_notebook(project, "two", MARK)
    (project.presets / "paper.yml").write_text("two: {}")
    sentence = "the preset 'paper' has no entry for one: choose quick."
    with pytest.raises(BiaslibError, match=re.escape(sentence)):
        building.page(project, "one", preset="paper", record=True)
    building.build(project, preset="paper", record=True)
    assert "one" in executed(project, "one")
    assert [file.name for file in project.recorded.glob("*")] == ["two-paper.json"]
    building.build(project, record=True)
    assert {file.name for file in project.recorded.glob("*")} == {"two-paper.json", "one-quick.json", "two-quick.json"}


def test_a_record_names_the_commit_and_device_of_its_run_and_does_not_undo_its_page(
    project, without_site, monkeypatch, capsys
):
    monkeypatch.chdir(project.root)
    write_notebook(project, "one", MARK + "\nrecorded.get('one')")
    monkeypatch.setattr(results, "commit", lambda folder: "then")
    monkeypatch.setattr(results, "device", lambda: "there")
    building.build(project)
    monkeypatch.setattr(results, "commit", lambda folder: "now")
    monkeypatch.setattr(results, "device", lambda: "here")
    capsys.readouterr()
    building.build(project, record=True)
    building.build(project)
    assert "one: running" not in capsys.readouterr().out
    assert (recorded.get("one")["commit"], recorded.get("one")["device"]) == ("then", "there")


def test_only_a_notebook_that_names_data_depends_on_which_are_there(project, tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLIB_DATA", str(tmp_path / "raw"))
    write_notebook(project, "one", "print(n)")
    write_notebook(project, "two", "from biaslib import datasets")
    before = {name: building._key(project, name, None) for name in ("one", "two")}
    (tmp_path / "raw" / "celeba").mkdir(parents=True)
    assert building._key(project, "one", None) == before["one"]
    assert building._key(project, "two", None) != before["two"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("m=3", "one has no parameter 'm': it has n, rate, name, biases, counts."),
        ("nmae=3", "did you mean 'name'?"),
        ("n=many", "parameter n of one must be a whole number (its default is 3), not 'many'."),
        ("n=true", "parameter n of one must be a whole number"),
        ("rate=x", "parameter rate of one must be a number"),
        ("n", "'n' is not a parameter: write it as name=value"),
        ("n=[1", "cannot read the value '[1' of n"),
        (
            "biases=[0.5, x]",
            "parameter biases of one must be a list of numbers (its default is [0.5, 0.9]), not [0.5, 'x']",
        ),
        ("biases=[0.5, [1]]", "parameter biases of one must be a list of numbers"),
        ("biases=[]", "parameter biases of one must be a list of numbers (its default is [0.5, 0.9]), not []"),
        ("counts=[1.5]", "parameter counts of one must be a list of whole numbers"),
    ],
)
def test_a_wrong_parameter_is_one_sentence(project, given, sentence):
    lists = "biases = [0.5, 0.9]\ncounts = [4]"
    write_notebook(project, "one", "print(n)", parameters=f"n = 3\nrate: float = 0.5\nname = 'x'\n{lists}")
    with pytest.raises(BiaslibError, match=re.escape(sentence)):
        execution.read_parameters(project, "one", [given])


def test_parameters_are_read_as_their_defaults_are(project):
    write_notebook(project, "one", parameters="n = 3\nrate: float = 0.5\nname = 'x'\nbiases = [0.5]\nlimit = None")
    given = ["n=4", "rate=1", "name=12", "biases=[0.1, 1]", "limit=2"]
    read = execution.read_parameters(project, "one", given)
    assert read == {"n": 4, "rate": 1.0, "name": "12", "biases": [0.1, 1], "limit": 2}
    assert isinstance(read["rate"], float)
    assert isinstance(read["biases"][1], float)


def test_a_parameters_cell_that_computes_is_refused(project):
    write_notebook(project, "one", parameters="n = len('abc')")
    with pytest.raises(BiaslibError, match="must be a plain value"):
        execution.read_parameters(project, "one", [])


def test_unknown_notebooks_and_presets_are_named(project, command):
    write_notebook(project, "one", "print(n)")
    with pytest.raises(BiaslibError, match=re.escape("there is no notebook 'oen': the book has one; did you mean")):
        execution.read_parameters(project, "oen", [])
    with pytest.raises(BiaslibError, match="there is no preset 'huge': choose quick"):
        building.build(project, preset="huge")
    done = command("run", "oen")
    assert done.returncode == 2
    assert done.stderr.startswith("biaslib: there is no notebook")
    assert len(done.stderr.strip().splitlines()) == 1


def test_small_numbers_may_be_written_in_exponents_and_impossible_days_are_one_sentence(project):
    write_notebook(project, "one", "print(rate)", parameters="rate = 0.5\nseed = 0")
    assert execution.read_parameters(project, "one", ["rate=1e-3"]) == {"rate": 0.001}
    with pytest.raises(BiaslibError, match="cannot read the value '2024-13-45' of seed"):
        execution.read_parameters(project, "one", ["seed=2024-13-45"])


def test_a_file_outside_the_notebooks_is_no_notebook(project):
    write_notebook(project, "one")
    (project.root / "README.md").write_text("# no notebook")
    with pytest.raises(BiaslibError, match=r"no notebook '\.\./README'"):
        execution.read(project, "../README")


@pytest.mark.parametrize("out", ["", "page.html", "."])
def test_an_output_that_is_no_notebook_file_is_refused_before_the_run(project, out):
    write_notebook(project, "one")
    with pytest.raises(BiaslibError, match=r"must go to a file that ends in \.ipynb"):
        execution.run(project, "one", Path(out))


def test_a_damaged_store_entry_is_said_outside_the_page(project, capfd):
    cell = "import warnings\nfrom biaslib import store\nwarnings.warn('entry is damaged', store.DamagedEntryWarning)"
    write_notebook(project, "one", cell)
    execution.run(project, "one", project.root / "one.ipynb")
    printed = capfd.readouterr()
    assert "one: entry is damaged" in printed.out + printed.err
