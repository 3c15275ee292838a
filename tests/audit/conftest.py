import pytest

from tests.audit.subjects import draw


@pytest.fixture(scope="session")
def spots(tmp_path_factory):
    """A folder with images, masks of the red spot, and labels."""
    folder = tmp_path_factory.mktemp("spots")
    draw(folder)
    return folder
