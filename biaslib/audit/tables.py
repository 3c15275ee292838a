"""Tables as files hold them: read as text, and refused where they are not what they seem."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslib.errors import BiaslibError, reason, refused

Table = str | Path | pd.DataFrame

_SHOWN = 3
_SEPARATORS = {"TSV": "\t", "CSV": ","}


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
