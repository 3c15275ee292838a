import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from biaslib.store import parallel


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    """No test reads or fills the reader's own store."""
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "store"))


@pytest.hookimpl(tryfirst=True)  # before the plugin reads the groups
def pytest_collection_modifyitems(items):
    """Of two processes, one builds the book and opens its pages; the other begins with the rest."""
    for item in items:
        if "smoke_book" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("book"))


@pytest.fixture
def in_this_process(monkeypatch):
    """A process for every kind of result would take longer than the results."""

    @contextlib.contextmanager
    def workers(scheduler=None):
        with ThreadPoolExecutor(1) as executor:
            yield executor, 1

    monkeypatch.setattr(parallel, "workers", workers)
