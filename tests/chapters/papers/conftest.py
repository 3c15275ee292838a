import pytest

from biaslib.datasets import published
from tests import layouts


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """A generated copy of everything the chapter reads."""
    root = tmp_path_factory.mktemp("released")
    layouts.attention_iou(root, published.attributes())
    return root
