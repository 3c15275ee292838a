import doctest
import importlib
from pathlib import Path

import pytest

from biaslib import metrics

FOLDER = Path(metrics.__file__).parent
MODULES = [file for file in sorted(FOLDER.rglob("*.py")) if ">>>" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", [".".join(file.relative_to(FOLDER).with_suffix("").parts) for file in MODULES])
def test_examples_in_the_docstrings_hold(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"biaslib.metrics.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
