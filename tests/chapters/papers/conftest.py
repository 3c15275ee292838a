import warnings

import pytest

from biaslib.chapters.papers import attention_iou
from biaslib.datasets import DatasetWarning, celeba
from tests import layouts


@pytest.fixture(scope="session")
def released_files(tmp_path_factory):
    """A generated copy of everything the chapter reads."""
    root = tmp_path_factory.mktemp("released")
    layouts.attention_iou(root, list(celeba.ATTRIBUTES))
    return root


@pytest.fixture
def released(released_files, monkeypatch):
    """That copy as the folder of all datasets."""
    monkeypatch.setenv("BIASLIB_DATA", str(released_files))
    return released_files


@pytest.fixture(scope="session")
def computed(released_files):
    """The tables of that copy."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("BIASLIB_DATA", str(released_files))
        warnings.simplefilter("ignore", DatasetWarning)
        return attention_iou.compute(resamples=60)
