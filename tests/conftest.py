import pytest


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path, monkeypatch):
    """No test reads or fills the reader's own store."""
    monkeypatch.setenv("BIASLIB_STORE", str(tmp_path / "store"))
