import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from biaslib.store import parallel

OF_THE_SMOKE_BOOK = {f"tests/book/test_{name}.py" for name in ("facts", "notebooks", "pages")}


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    """No test reads or fills the reader's own store."""
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "store"))


def pytest_collection_modifyitems(items):
    """What runs long begins first, so that neither of two processes is left alone with it at the end."""
    first = ["test_facts", "test_notebooks", "test_pages", "test_building"]
    places = {f"{name}.py": place for place, name in enumerate(first)}
    places |= {"test_claims.py": len(first) + 1, "test_plan.py": len(first) + 1}  # they read the smoke book
    items.sort(key=lambda item: places.get(item.path.name, len(first)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Of two processes, one builds the book and opens its pages; the other begins with the rest, file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class OneBook(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return "the smoke book" if file in OF_THE_SMOKE_BOOK else file

    return OneBook(config, log)


@pytest.fixture
def in_this_process(monkeypatch):
    """A process for every kind of result would take longer than the results."""

    @contextlib.contextmanager
    def workers(scheduler=None):
        with ThreadPoolExecutor(1) as executor:
            yield executor, 1

    monkeypatch.setattr(parallel, "workers", workers)
