"""Numbers of larger runs, kept beside the book so that a page can show them next to its own.

A notebook marks what is worth keeping with `put`; `biaslib run NOTEBOOK --record` collects it with everything needed to
judge it (parameters, data, device, date, commit, time, versions); `get` reads it back. `make record` makes the records
that are missing or not of their presets as they stand (`tools/recording.py`).
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslib import store
from biaslib.book import find_project
from biaslib.errors import BiaslibError

if TYPE_CHECKING:
    from nbformat import NotebookNode  # a second and a half, in every notebook

_MIME = "application/vnd.biaslib.recorded+json"
# the larger the scale, the sooner a page shows it
ALL = "*"
_PRESETS = ("paper", "gpu", "real", "standard", "quick", "smoke")


def put(name: str | Mapping[str, Any], values: Any = None) -> None:
    """Marks values of this notebook as worth recording, such as "mask_scores", or several by name; shows nothing.

    They are numbers, text, lists, mappings, arrays, DataFrames or dataclasses such as intervals (read back as
    mappings), nested as you like. NaN is kept as such. A `BiaslibError` is raised for any other value.
    """
    for each, value in (name if isinstance(name, Mapping) else {name: values}).items():
        _show({"name": each, "values": _encoded(value)})


def data(name: str, **counts: int) -> None:
    """Says what data this notebook used, such as `data("published predictions", models=20, images=4500)`."""
    _show({"data": name, "counts": {key: int(count) for key, count in counts.items()}})


def get(notebook: str, preset: str | None = None) -> dict[str, Any] | None:
    """The record of an earlier run of a preset, or None; without a preset of the largest scale there is.

    A preset with a star, "real*" or `ALL`, is all of a notebook's records that it fits as one: a record of tables that
    is made in parts.
    `values` (name -> what `put` was given, tables as DataFrames), `preset`, `parameters`, `data` (name -> counts),
    `device`, `date`, `commit`, `seconds` and `versions`. A record that cannot be read is a `BiaslibError`.
    """
    if preset and "*" in preset:
        return _joined(notebook, preset)
    for candidate in (preset,) if preset else _PRESETS:
        file = _file(notebook, candidate)
        if file.is_file():
            try:
                record = json.loads(file.read_text(encoding="utf-8"))
                if record.pop("checksum") != _checksum(record):
                    raise ValueError("its numbers are not those that were recorded")
                record["values"] = decoded(record["values"])
                described(record)  # no page finds out later what is missing
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                reason = " ".join(str(error).split())[:200]
                raise BiaslibError(f"the record {file.name} is damaged ({reason}): restore it from git.") from error
            return record
    return None


def described(record: Mapping[str, Any]) -> str:
    """What a record was computed from and when, for a caption; the rest of it is on the page of the status."""
    counts = {name: ", ".join(f"{n:,} {what}" for what, n in each.items()) for name, each in record["data"].items()}
    data_used = "; ".join(f"{name} ({each})" for name, each in counts.items()).replace("_", " ")
    return ", ".join(filter(None, (data_used, record["date"][:10])))


def duration(seconds: float) -> str:
    """Seconds as a reader says them: "8 s", "3 min 20 s", "2 h 5 min"."""
    minutes, whole = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {whole} s" if minutes else f"{whole} s"
    return f"{minutes // 60} h {minutes % 60} min"


def collect(notebook: "NotebookNode") -> dict[str, Any]:
    """Takes the marks out of an executed notebook's outputs."""
    marked: dict[str, Any] = {"values": {}, "data": {}}
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        for mark in (output["data"][_MIME] for output in cell.outputs if _MIME in output.get("data", {})):
            part, name, values = ("values", "name", "values") if "name" in mark else ("data", "data", "counts")
            marked[part][mark[name]] = mark[values]
        cell.outputs = [output for output in cell.outputs if _MIME not in output.get("data", {})]
    return marked


def decoded(value: Any) -> Any:
    """Values as `put` was given them, from what `collect` took out of a notebook or a record holds."""
    if isinstance(value, dict) and set(value) == {"table", "rows", "index"}:
        table = pd.DataFrame(value["rows"], columns=value["table"]).infer_objects()
        return table.set_index(value["table"][: value["index"]]) if value["index"] else table
    if isinstance(value, dict):
        return {key: decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return math.nan if value is None else value


def write(notebook: str, run: Mapping[str, Any]) -> Path:
    """Writes the record of a run (the metadata that `book.run` gives an executed notebook) and returns its file."""
    values, data = run["recorded"]["values"], run["recorded"]["data"]
    if not values:
        raise BiaslibError(f"{notebook} marks nothing to record: call recorded.put(name, values) in one of its cells.")
    provenance = {field: run[field] for field in ("device", "date", "commit", "seconds", "versions")}
    about = {"notebook": notebook, "preset": run["preset"], "parameters": run["parameters"], "data": data}
    record = about | provenance | {"values": values}
    file = _file(notebook, run["preset"])
    record["checksum"] = _checksum(record)
    with store.replacing(file) as partial:
        partial.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return file


def _joined(notebook: str, presets: str) -> dict[str, Any] | None:
    """Records of a notebook as one: tables one below the other, counts and seconds added up, of images the most."""
    files = sorted(find_project().recorded.glob(f"{notebook}-{presets}.json"))
    parts = [part for file in files if (part := get(notebook, file.stem.removeprefix(f"{notebook}-")))]
    if not parts:
        return None
    values: dict[str, Any] = {}
    counts: dict[str, dict[str, int]] = {}
    for part in parts:
        for name, value in part["values"].items():
            first = values.get(name)
            values[name] = value if first is None else pd.concat([first, value], ignore_index=True)
        for name, each in part["data"].items():
            of = counts.setdefault(name, {})
            for what, n in each.items():
                of[what] = max(of.get(what, 0), n) if what.endswith("images") else of.get(what, 0) + n
    last = max(parts, key=lambda part: part["date"])
    return {**last, "values": values, "data": counts, "seconds": sum(part["seconds"] for part in parts)}


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _file(notebook: str, preset: str) -> Path:
    return find_project().recorded / f"{notebook}-{preset}.json"


def _show(content: dict[str, Any]) -> None:
    from IPython.display import display

    display({_MIME: content}, raw=True)


def _encoded(value: Any) -> Any:
    if isinstance(value, pd.Series):
        value = value.to_frame()
    if isinstance(value, pd.DataFrame):
        levels = 0 if isinstance(value.index, pd.RangeIndex) else value.index.nlevels
        flat = value.reset_index() if levels else value
        columns = [str(column) for column in flat.columns]
        rows = [[_encoded(item) for item in row] for row in flat.itertuples(index=False)]
        return {"table": columns, "rows": rows, "index": levels}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _encoded(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value).__name__
    raise BiaslibError(f"cannot record a {kind}: give numbers, text, lists, mappings, arrays or tables.")
