from tests.chapters.papers.conftest import released  # noqa: F401
