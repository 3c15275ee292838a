from tests.reanalysis.conftest import released  # noqa: F401
