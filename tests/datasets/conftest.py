from tests.chapters.papers.conftest import released, released_files  # noqa: F401
