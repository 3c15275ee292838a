"""The book as `make book` makes it on a fresh clone: within its time, and the second time at once."""

import json
import time

import pandas as pd
import pytest
import yaml

from biaslib.store import results
from tests.book.conftest import NOTEBOOKS, ROOT, cli, copy_of_the_book

# seconds on two quiet cores, without downloads
BOOK, PAGE, AGAIN = 15 * 60, 60, 30
LONGEST = sorted(SECONDS := yaml.safe_load((ROOT / "notebooks" / "seconds.yml").read_text()), key=SECONDS.get)[-6:]


@pytest.mark.slow
def test_the_book_is_made_from_nothing_within_its_time(tmp_path, monkeypatch):
    project, environment = copy_of_the_book(tmp_path)

    def built() -> float:
        started = time.perf_counter()
        done = cli(project, "build", env=environment, timeout=3 * BOOK)
        assert done.returncode == 0, done.stderr
        return time.perf_counter() - started

    first, second = built(), built()
    runs = [json.loads((project.executed / f"{name}.ipynb").read_text()) for name in NOTEBOOKS]
    pages = pd.Series({name: run["metadata"]["biaslib"]["seconds"] for name, run in zip(NOTEBOOKS, runs, strict=True)})
    printed = [o for run in runs for cell in run["cells"] for o in cell.get("outputs", ()) if o.get("name") == "stderr"]
    monkeypatch.setenv("BIASLIB_STORE", environment["BIASLIB_STORE"])
    kinds = pd.DataFrame([(entry.kind, entry.seconds) for entry in results.entries()], columns=["kind", "seconds"])
    print(
        f"\nthe book: {first:.0f} s, a second time: {second:.0f} s; pages:", pages.sort_values().to_string(), sep="\n"
    )
    print(kinds.groupby("kind")["seconds"].agg(["count", "sum"]).sort_values("sum").round(1).to_string())
    assert [text for output in printed for text in output["text"] if "Warning" in text] == []
    assert first <= BOOK
    assert second <= AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("notebook", LONGEST)
def test_a_page_alone_takes_at_most_a_minute(notebook, tmp_path):
    """Of the book's longest pages; in company they share the cores."""
    project, environment = copy_of_the_book(tmp_path)
    done = cli(project, "run", notebook, "--out", "page.ipynb", env=environment, timeout=10 * PAGE)
    assert done.returncode == 0, done.stderr
    seconds = json.loads((project.root / "page.ipynb").read_text())["metadata"]["biaslib"]["seconds"]
    print(f"\n{notebook}: {seconds} s")
    assert seconds <= PAGE
