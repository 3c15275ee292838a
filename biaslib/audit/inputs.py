"""The table of labels that an audit is given: which image has the target, which belongs to which group."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslib.errors import BiaslibError, reason

if TYPE_CHECKING:
    from biaslib.audit.records import AuditOptions

Table = str | Path | pd.DataFrame

_FILE_COLUMNS = ("file", "filename", "image", "image_id", "path")
_SWITCHES = ({"0", "1"}, {"-1", "1"}, {"false", "true"}, {"no", "yes"})
_SHOWN = 3
_SEPARATORS = {"TSV": "\t", "CSV": ","}


@dataclass(frozen=True)
class Binary:
    """The two values of a column as text, and words for them; what counts as False is first."""

    name: str
    values: tuple[str, str]
    words: tuple[str, str]

    @classmethod
    def of(cls, name: str, column: pd.Series) -> "Binary":
        """The values of a column of labels; a BiaslibError where one is missing or there are not two of them."""
        if column.isna().any():
            empty = int(column.isna().sum())
            raise BiaslibError(
                f"{empty} of {len(column)} rows have no value in {name!r}: fill them in or drop those rows."
            )
        values = sorted(set(_texts(column)), key=_order)
        if len(values) == 1:
            raise BiaslibError(
                f"{name!r} is {values[0]!r} in every row, so there is nothing to compare: give a table with both "
                "values."
            )
        if len(values) != 2:
            raise BiaslibError(
                f"{name!r} has {len(values)} values ({listed(values)}), and an audit compares two: make a column of 0 "
                "and 1 for each value and name that one."
            )
        switch = {value.casefold() for value in values} in _SWITCHES
        words = (f"not {name}", name) if switch else tuple(f"{name} {v}" if _is_number(v) else v for v in values)
        return cls(name, (values[0], values[1]), (words[0], words[1]))

    def read(self, column: pd.Series, *, what: str) -> np.ndarray:
        """(N,) bool of a column that holds these values, or one of them; a BiaslibError for any other value."""
        texts = _texts(column)
        strangers = sorted(set(texts) - set(self.values))
        if strangers:
            raise BiaslibError(
                f"{what} of {self.name!r} hold {strangers[0]!r}, but the labels {self.values[0]!r} and "
                f"{self.values[1]!r}: write them as the labels are, or give the threshold above which a score is a "
                f"{self.values[1]!r}."
            )
        return np.array([text == self.values[1] for text in texts], dtype=bool)

    def scores(self, column: pd.Series) -> np.ndarray:
        """(N,) float of a column of scores; a BiaslibError for one that is no finite number."""
        scores = pd.to_numeric(column, errors="coerce").to_numpy(float)
        if not np.isfinite(scores).all():
            wrong = int((~np.isfinite(scores)).sum())
            first = column.iloc[int(np.argmin(np.isfinite(scores)))]
            raise BiaslibError(
                f"{wrong:,} of {len(scores):,} predictions of {self.name!r} are no finite numbers (the first is "
                f"{str(first)!r}): with a threshold every prediction is a score, so mend them or leave the threshold "
                "out."
            )
        return scores


@dataclass(frozen=True)
class LabelledImages:
    """What tables say of N images, and what was answered about them."""

    files: tuple[str, ...]  # N names, relative to the folder of images
    labels: pd.DataFrame  # N rows of bool: the target and the groups
    predicted: pd.DataFrame  # likewise: what there are predictions of; without columns before a model was asked
    train: pd.DataFrame | None  # labels of the training images, the same columns
    target: Binary
    groups: tuple[Binary, ...]
    scores: np.ndarray | None = None  # (N,) of the target, larger for yes; None where only yes and no are known

    @cached_property
    def correct(self) -> np.ndarray:
        """(N,) bool: whether the answer about the target is right."""
        return self.predicted[self.target.name].to_numpy() == self.labels[self.target.name].to_numpy()

    def by_image(self) -> pd.DataFrame:
        """A row an image: file, labels and answers as the table writes them, score, and 1 where the answer is right."""
        words = {one.name: dict(zip((False, True), one.values, strict=True)) for one in (self.target, *self.groups)}
        labels, answers = self.labels.replace(words), self.predicted.replace(words).add_prefix("answer about ")
        score = pd.DataFrame({} if self.scores is None else {"score": self.scores})
        right = pd.DataFrame({"right": self.correct.astype(int)})  # a group may be called so, too
        return pd.concat([pd.Series(self.files, name="file"), labels, score, answers, right], axis=1)

    def cells(self, group: Binary) -> np.ndarray:
        """(N,) words for the value of target and group of each image."""
        words = np.array([f"{mine}, {theirs}" for mine in self.target.words for theirs in group.words])
        return words[2 * self.labels[self.target.name].to_numpy(int) + self.labels[group.name].to_numpy(int)]

    def sides(self) -> Iterator[tuple[str, str, list[np.ndarray]]]:
        """Group, value of the target in words, and whether the answers are right inside and outside the group."""
        truth = self.labels[self.target.name].to_numpy()
        for group in self.groups:
            member = self.labels[group.name].to_numpy()
            for value in (True, False):
                sides = [self.correct[(truth == value) & inside] for inside in (member, ~member)]
                yield group.name, self.target.words[value], sides


def read_labels(options: "AuditOptions") -> LabelledImages:
    """Reads and checks everything that tables say."""
    target, groups, file_column = options.target, options.groups, options.file_column
    table = _read(options.labels)
    wanted = [target, *groups]
    if len(groups) == 0:
        raise BiaslibError("There is no group to compare: name at least one column of the labels.")
    if len(set(wanted)) < len(wanted):
        raise BiaslibError(f"The target and the groups must be different columns, not {listed(wanted)}.")
    _check_columns(table, wanted, "the table of labels")
    names = _names(table, file_column)
    columns = {name: Binary.of(name, table[name]) for name in wanted}
    predicted, scores = {}, None
    if options.predictions is not None:
        given = _predictions(table, names, options.predictions, wanted, file_column)
        scores = None if options.threshold is None else columns[target].scores(given[target])
        for name in wanted:
            if name in given:
                predicted[name] = _answers(columns[name], given[name], options.threshold, name == target)
    return LabelledImages(
        files=tuple(names),
        labels=pd.DataFrame({name: columns[name].read(table[name], what="labels") for name in wanted}),
        predicted=pd.DataFrame(predicted),
        train=None if options.train_labels is None else _train(options.train_labels, columns),
        target=columns[target],
        groups=tuple(columns[name] for name in groups),
        scores=scores,
    )


def _read(source: Table) -> pd.DataFrame:
    """A table from a file: CSV (.csv), with tabs (.tsv), either compressed (.gz), or parquet (.parquet, .pq)."""
    if isinstance(source, pd.DataFrame):
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
        raise BiaslibError(
            f"The table {path} is not read: a table ends in .csv, .tsv (or these with .gz) or .parquet; save it as CSV "
            "in UTF-8, with commas."
        )
    try:
        table = pd.read_parquet(path) if kind == "parquet" else _read_text(path, _SEPARATORS[kind])
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise BiaslibError(
            f"The table {path} cannot be read as {kind} ({reason(error)}): save it anew as CSV in UTF-8, "
            "with the ending .csv, or as parquet."
        ) from error
    if table.empty:
        raise BiaslibError(f"The table {path} has no rows: give one for each image.")
    return table


def listed(names: Sequence[Any], shown: int = _SHOWN) -> str:
    """The first few of some names."""
    return ", ".join(map(str, names[:shown])) + (", ..." if len(names) > shown else "")


def _names(table: pd.DataFrame, file_column: str | None) -> list[str]:
    if file_column is not None:
        _check_columns(table, [file_column], "the table")
    column = file_column or next((name for name in _FILE_COLUMNS if name in table), str(table.columns[0]))
    if table[column].isna().any():
        raise BiaslibError(f"{int(table[column].isna().sum())} rows have no name of an image in {column!r}: drop them.")
    names = [str(name) for name in table[column]]
    outside = [name for name in names if PurePath(name).is_absolute() or ".." in PurePath(name).parts]
    if outside:
        raise BiaslibError(f"{outside[0]!r} in column {column!r} is not inside the folder of images: name files in it.")
    twice = table[column][table[column].duplicated()]
    if len(twice):
        raise BiaslibError(
            f"{len(twice)} names stand twice in column {column!r} ({listed(list(twice))}): keep one row an image, or "
            "say which column holds the names of the images."
        )
    return names


def _predictions(
    table: pd.DataFrame, names: list[str], predictions: Table, wanted: list[str], file_column: str | None
) -> pd.DataFrame:
    """N rows, as they are written; the first of the wanted columns, that of the target, is among them."""
    target = wanted[0]
    if isinstance(predictions, str) and predictions in table:
        return pd.DataFrame({target: table[predictions]})
    if isinstance(predictions, str) and not Path(predictions).is_file():
        raise BiaslibError(
            f"There is neither a column nor a file {predictions!r}: the table of labels has "
            f"{listed(list(table.columns), shown=12)}."
        )
    given = _read(predictions)
    _check_columns(given, [target], "the table of predictions")
    given = given.set_index(pd.Index(_names(given, file_column)))
    missing = [name for name in names if name not in given.index]
    if missing:
        raise BiaslibError(
            f"{len(missing):,} of {len(names):,} images have no prediction ({listed(missing)}): predict every image, "
            "or drop those rows of the labels."
        )
    return given.loc[names]


def _answers(column: Binary, values: pd.Series, threshold: float | None, is_target: bool) -> np.ndarray:
    # a group's predictions may be written as its labels where the target's are scores
    as_labels = not is_target and set(_texts(values)) <= set(column.values)
    if threshold is None or as_labels:
        return column.read(values, what="predictions")
    return column.scores(values) > threshold


def _train(source: Table, columns: dict[str, Binary]) -> pd.DataFrame:
    table = _read(source)
    _check_columns(table, list(columns), "the table of training labels")
    labels = pd.DataFrame({name: column.read(table[name], what="training labels") for name, column in columns.items()})
    for name in labels:
        if labels[name].nunique() < 2:
            raise BiaslibError(f"{name!r} has one value only in the training labels: there is nothing to compare with.")
    return labels


def _check_columns(table: pd.DataFrame, names: Sequence[str], what: str) -> None:
    unknown = [name for name in names if name not in table]
    if unknown:
        columns = listed(list(table.columns), shown=12)
        raise BiaslibError(f"There is no column {unknown[0]!r} in {what}: it has {columns}.")


def _texts(column: pd.Series) -> list[str]:
    return [_text(value) for value in column]


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    text = str(value).strip()
    # 1.0 and 1 are one value
    if not _is_number(text):
        return text
    number = float(text)
    return str(int(number)) if number.is_integer() else repr(number)


def _is_number(text: str) -> bool:
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


def _order(text: str) -> tuple[bool, float, str]:
    return (False, float(text), "") if _is_number(text) else (True, 0.0, text)


def _read_text(path: Path, separator: str) -> pd.DataFrame:
    # before the rows: those of another separator may not even have one length
    names = [str(name) for name in pd.read_csv(path, sep=separator, dtype=str, nrows=0, index_col=False)]
    words = {"\t": "tabs", ";": "semicolons", ",": "commas"}
    endings = {"\t": ", or with the ending .tsv", ",": ", or with the ending .csv"}
    for other, word in words.items():
        if other != separator and "".join(names).count(other) >= len(names):
            instead = f"{words[separator]}{endings.get(other, '')}"
            raise BiaslibError(f"The table {path} is separated by {word}: save it with {instead}.")
    # as text: the name 000001 is no number
    table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, na_values=[""])
    if not isinstance(table.index, pd.RangeIndex):
        raise BiaslibError(
            f"The rows of the table {path} have more values than its first line has names: give every column a name."
        )
    return table
