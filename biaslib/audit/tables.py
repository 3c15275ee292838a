"""Tables, and outlines of regions, as files hold them: read, and refused where they are not what they seem."""

import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, reason, refused

Table = str | Path | pd.DataFrame

_SHOWN = 3
_SEPARATORS = {"TSV": "\t", "CSV": ","}
_WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError)  # what comes of JSON that is not COCO's


def listed(names: Sequence[Any], shown: int = _SHOWN) -> str:
    """The first few of some names."""
    return ", ".join(map(str, names[:shown])) + (", ..." if len(names) > shown else "")


def read(source: Table) -> pd.DataFrame:
    """A table from a file: CSV (.csv), with tabs (.tsv), either compressed (.gz), or parquet (.parquet, .pq)."""
    if isinstance(source, pd.DataFrame):
        _check_names(list(source))
        return source.reset_index(drop=True)
    path = Path(source)
    if not path.is_file():
        raise BiaslibError(f"There is no table {path}: give a CSV or parquet file.")
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".tsv")):
        kind = name[-3:].upper()
    elif path.suffix.lower() in (".parquet", ".pq"):
        kind = "parquet"
    else:
        raise refused("table of another kind", path=path)
    try:
        table = pd.read_parquet(path) if kind == "parquet" else _read_text(path, _SEPARATORS[kind])
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise refused("table that cannot be read", path=path, kind=kind, reason=reason(error)) from error
    if table.empty:
        raise BiaslibError(f"The table {path} has no rows: give one for each image.")
    return table


def check_columns(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    """Refuses names that are no columns of the table."""
    if unknown := [name for name in names if name not in table]:
        columns = listed(list(table.columns), shown=12)
        raise BiaslibError(f"There is no column {unknown[0]!r} in {what}: it has {columns}.")


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    # before the rows: those of another separator may not even have one length
    first = pd.read_csv(path, sep=separator, dtype=str, nrows=1, header=None, index_col=False)
    names = first.iloc[0].dropna().tolist()
    words = {"\t": "tabs", ";": "semicolons", ",": "commas"}
    endings = {"\t": ", or with the ending .tsv", ",": ", or with the ending .csv"}
    for other, word in words.items():
        if other != separator and "".join(names).count(other) >= len(names):
            instead = f"{words[separator]}{endings.get(other, '')}"
            raise BiaslibError(f"The table {path} is separated by {word}: save it with {instead}.")
    _check_names(names)
    # as text: the name 000001 is no number
    table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, na_values=[""])
    if not isinstance(table.index, pd.RangeIndex):
        raise BiaslibError(f"Rows of {path} have more values than its first line has names: name every column.")
    return table


def _check_names(names: Sequence[Any]) -> None:
    # pandas would call the second x.1, and nobody would know that the first was taken
    twice = pd.Series(names, dtype=object).loc[lambda all_names: all_names.duplicated()]
    if len(twice):
        raise BiaslibError(f"{twice.iloc[0]!r} stands twice among the columns of a table: rename one of them.")


@dataclass(frozen=True, eq=False)  # what it holds has no hash, and it has one
class Outline:
    """What a file outlines of one region in one image."""

    name: str  # of the image
    size: tuple[int, int]  # its width and height
    things: Sequence[Mapping[str, Any]]  # as in the file

    def drawn(self) -> np.ndarray:
        """(H, W) bool: the pixels whose centre is inside one of the things; a BiaslibError where one is not COCO's."""
        mask = np.zeros(self.size[::-1], bool)
        try:
            for thing in self.things:
                _draw(mask, thing)
        except _WRONG as error:
            raise refused("no outlines", name=self.name, kind=type(error).__name__, reason=reason(error)) from error
        return mask


Mask = Path | Outline


def read_outlines(file: Path, files: Sequence[str]) -> dict[str, Sequence[Outline | None]]:
    """Name of a category -> its outline in each of these images, known by their `file_name`; None where it has none."""
    things: dict[str, dict[str, list[Any]]] = {}
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
        pictures = {each["id"]: (PurePath(each["file_name"]).as_posix(), each) for each in given["images"]}
        # of two that are called the same, every outline would be of the last
        for part, key in (("images", "id"), ("images", "file_name"), ("categories", "id")):
            called = Counter(PurePath(str(each[key])).as_posix() for each in given[part])
            if max(called.values(), default=1) > 1:
                raise ValueError(f"the {key} {called.most_common(1)[0][0]} stands twice in {part}")
        sizes = {name: (int(each["width"]), int(each["height"])) for name, each in pictures.values()}
        categories = {each["id"]: str(each["name"]) for each in given["categories"]}
        for each in given["annotations"]:
            shape = each.get("segmentation")
            if isinstance(shape, dict) and isinstance(shape.get("counts"), str):
                raise ValueError("runs are packed into text: unpack them with pycocotools")
            of_region = things.setdefault(categories[each["category_id"]], {})
            of_region.setdefault(pictures[each["image_id"]][0], []).append(each)
    except (OSError, RecursionError, *_WRONG) as error:
        raise refused("no file of outlines", file=file, kind=type(error).__name__, reason=reason(error)) from error
    names = [PurePath(name).as_posix() for name in files]
    return {
        region: [Outline(name, sizes[name], of[name]) if name in of else None for name in names]
        for region, of in things.items()
    }


def _draw(mask: np.ndarray, thing: Mapping[str, Any]) -> None:
    """Sets to True what is inside."""
    (height, width), shape = mask.shape, thing.get("segmentation")
    if isinstance(shape, dict):  # runs of pixels outside and inside in turn, column by column
        counts = shape["counts"]
        if sum(counts) != mask.size or shape.get("size", [height, width]) != [height, width]:
            raise ValueError(f"its runs do not fill {width} x {height} pixels")
        mask |= np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T
        return
    polygons = [polygon for polygon in shape or () if polygon]
    left, top, across, down = (0, 0, 0, 0) if polygons else thing["bbox"]
    box = [left, top, left + across, top, left + across, top + down, left, top + down]
    for polygon in polygons or [box]:
        corners, passed = np.array(polygon, float).reshape(-1, 2), np.zeros((height, width + 1), bool)
        if not (np.abs(corners) < 1_000_000).all():
            raise ValueError("a corner lies nowhere")
        for (x, y), (to_x, to_y) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            rows = np.arange(*np.clip(np.ceil(np.sort([y, to_y]) - 0.5), 0, height).astype(int))
            if len(rows):
                edge = x + (rows + 0.5 - y) * (to_x - x) / (to_y - y)
                passed[rows, np.clip(np.ceil(edge - 0.5), 0, width).astype(int)] ^= True
        # inside is what has an odd number of edges to its left; Pillow would move the corners to whole pixels
        mask |= np.logical_xor.accumulate(passed[:, :width], axis=1)
