import re

from biaslib.book import building
from tests.book.conftest import cli, write_notebook


def test_a_build_begins_with_the_longest_page_and_says_how_far_it_is(project, monkeypatch):
    for name in ("one", "two", "three"):
        write_notebook(project, name, "print(n)")
    (project.notebooks / "seconds.yml").write_text("one: 5\ntwo: 60\n")
    assert list(building._expected_seconds(project, ["one", "three", "two"])) == ["two", "three", "one"]
    built = cli(project, "build", "--jobs", "1")
    assert built.returncode == 0, built.stderr
    assert re.findall(r"(\w+): running", built.stdout) == ["two", "three", "one"]
    assert re.search(r"two: done in \d+ s \(1 of 3 pages, about \d+ s to go\)", built.stdout)
    assert re.search(r"one: done in \d+ s \(3 of 3 pages\)", built.stdout)
