import re

import pytest

from biaslib.book import building, execution, site
from tests.book.conftest import cli, write_notebook

SLOWLY = """
import time

from biaslib.store import stored


@stored("doubled")
def doubled(number):
    time.sleep(1)
    return {"value": 2 * number}
"""


def test_a_build_begins_with_the_longest_page_and_says_how_far_it_is(project, command, monkeypatch):
    monkeypatch.setattr(site, "write", lambda project: project.site / "index.html")
    monkeypatch.setattr(execution, "run", lambda *_, **__: {"seconds": 1.0})
    for name in ("one", "two", "three"):
        write_notebook(project, name, "print(n)")
    (project.notebooks / "seconds.yml").write_text("one: 5\ntwo: 60\n")
    assert list(building._expected_seconds(project, ["one", "three", "two"])) == ["two", "three", "one"]
    # an address that no page asks, as workers of this machine would take seconds to start
    built = command("build", "--jobs", "1", "--scheduler", "tcp://127.0.0.1:1")
    assert built.returncode == 0, built.stderr
    assert re.findall(r"(\w+): running", built.stdout) == ["two", "three", "one"]
    assert re.search(r"two: done in \d+ s \(1 of 3 pages, about \d+ s to go\)", built.stdout)
    assert re.search(r"one: done in \d+ s \(3 of 3 pages\)", built.stdout)


def test_the_last_bar_that_a_page_wrote_is_what_it_computes(project):
    with building._Progress(project, ["one"]) as shown:
        assert shown._computing("one") == ""
        bars = "\rcomputing maps: 3/4\rcomputing maps: 4/4\n\rcomputing model: 13/15\rcomputing model: 3/15 "
        shown.bars("one").write_text(bars)
        assert shown._computing("one") == "computing model: 3/15"


@pytest.mark.slow
def test_a_page_says_what_it_computes_while_it_runs(project, monkeypatch):
    monkeypatch.setenv("BIASLIB_CORES", "1")  # a worker takes seconds to start
    (project.notebooks / "slowly.py").write_text(SLOWLY)
    write_notebook(project, "one", "from slowly import doubled\nprint(doubled.many([n, n + 1, n + 2]))")
    done = cli(project, "run", "one")
    assert done.returncode == 0, done.stderr
    assert "one: computing doubled, 3 in all" in done.stdout
