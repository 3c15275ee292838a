import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from biaslib.store import parallel

# files that share what takes long to make: one process runs them
TOGETHER = {f"tests/book/test_{name}.py": "the smoke book" for name in ("facts", "notebooks", "pages")}
TOGETHER |= {f"tests/chapters/papers/test_{name}.py": "the released files" for name in ("attention_iou", "reported")}


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    """No test reads or fills the reader's own store."""
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "store"))


@pytest.fixture(scope="module")
def _shared(tmp_path_factory):
    return str(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store_of_the_module(store_of_its_own, _shared, monkeypatch):
    """What one test of a module has computed, its others find: the same small models are trained once."""
    monkeypatch.setenv("BIASLIB_STORE", _shared)


def pytest_collection_modifyitems(items):
    """What runs long begins first, so that neither of two processes is left alone with it at the end."""
    first = ["test_facts", "test_notebooks", "test_pages", "test_building", "test_types"]
    last = ["test_plan", "test_claims", "test_words"]  # they read the smoke book, and would wait for it
    places = {f"{name}.py": place - len(first) for place, name in enumerate(first)}
    places |= {f"{name}.py": place + 1 for place, name in enumerate(last)}
    items.sort(key=lambda item: places.get(item.path.name, 0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Of two processes, one builds the book and opens its pages; the other begins with the rest, file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class OneBook(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            return TOGETHER.get(file, file)

    return OneBook(config, log)


@contextlib.contextmanager
def one_worker():
    """In place of `parallel.workers`: this process, as one of its own takes longer to start than to work."""
    with ThreadPoolExecutor(1) as executor:
        yield executor, 1


@pytest.fixture
def in_this_process(monkeypatch):
    """What the store lacks is computed in this process."""
    monkeypatch.setattr(parallel, "workers", one_worker)
