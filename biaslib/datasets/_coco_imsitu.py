"""Reading what others released for COCO and imSitu: labels, captions (JSON) and ratios (CSV) in one folder."""

import functools
import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from biaslib.datasets import registry

Split = Literal["train", "val", "test"]
RATIOS = ["training", "before", "after"]


@functools.cache
def dataset() -> registry.Dataset:
    """The registry's entry of the folder."""
    return registry.get("coco-imsitu")


def find(root: Path | None, name: str) -> Path:
    """One of its files, which must be there."""
    return registry.require(dataset(), registry.root(root) / "coco-imsitu" / name)


def read_json(path: Path) -> Any:
    """The content of a file of JSON.

    Raises:
        BiaslibError: where it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise registry.damaged(dataset(), path, f"it is no JSON: {error}") from error


def read_rows(path: Path, *fields: str) -> list[dict[str, Any]]:
    """A list of entries that all have these fields.

    Raises:
        BiaslibError: where it is damaged.
    """
    rows = read_json(path)
    whole = isinstance(rows, list) and rows and all(isinstance(row, dict) and set(fields) <= set(row) for row in rows)
    if not whole:
        raise registry.damaged(dataset(), path, f"it is no list of entries with {', '.join(fields)}")
    return rows


def names(root: Path | None, name: str, key: str) -> list[str]:
    """The names numbered 0, 1, ... in a `map.json`.

    Raises:
        BiaslibError: where it is missing or damaged.
    """
    path = find(root, name)
    content = read_json(path)
    try:
        return [content[key][str(i)] for i in range(len(content[key]))]
    except (KeyError, TypeError) as error:
        raise registry.damaged(dataset(), path, f"its {key} does not number names from 0") from error


def ratios(root: Path | None, name: str, item: str) -> pd.DataFrame:
    """Men's share for each item (object or verb): in the training labels, and predicted before and after RBA.

    Raises:
        BiaslibError: where the file is missing or damaged.
    """
    path = find(root, name)
    columns = [item, "training_ratio", "gender_ratio_before_RBA", "gender_ratio_after_RBA"]
    try:
        table = pd.read_csv(path)[columns].set_axis([item, *RATIOS], axis=1)
        inside = ((table[RATIOS] >= 0) & (table[RATIOS] <= 1)).all(axis=None)
    except (ValueError, KeyError, TypeError) as error:
        raise registry.damaged(dataset(), path, f"it is no table of {', '.join(columns)}") from error
    if not inside or table[item].duplicated().any():
        raise registry.damaged(dataset(), path, f"a ratio lies outside 0 to 1 or one {item} stands there twice")
    return table
