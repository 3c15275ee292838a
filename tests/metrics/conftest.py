import warnings
from typing import Any

import pytest


@pytest.fixture(scope="session")
def quantus() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source has escape sequences that Python warns of when it compiles them
        import quantus
    return quantus
