import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    ["amplification.scores", "attention_iou", "groups", "localisation", "perturbation", "precision"],
)
def test_examples_in_the_docstrings_hold(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"biaslib.metrics.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
