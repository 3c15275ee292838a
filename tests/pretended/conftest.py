import pytest

from tests import pretended


@pytest.fixture(scope="session", autouse=True)
def sim():
    if not pretended.can_be_built():
        pytest.skip("the pretended device is built by a C++ compiler and ninja, and one of them is missing here")
    return pretended.install()
