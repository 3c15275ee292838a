"""The table of labels that an audit is given: which image has the target, which belongs to which group."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from biaslib.audit.tables import Table, check_columns, listed, read
from biaslib.errors import BiaslibError, refused

if TYPE_CHECKING:
    from biaslib.audit.records import AuditOptions

_FILE_COLUMNS = ("file", "filename", "image", "image_id", "path")
_SWITCHES = ({"0", "1"}, {"-1", "1"}, {"no", "yes"})
_SPELLED = {"true": "1", "false": "0", "yes": "yes", "no": "no"}  # in any case
_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
SMALL = 30  # images in a cell below which it is flagged
_MOST = 12  # of one column, or of all combinations: each has tests of its own


@dataclass(frozen=True)
class Binary:
    """The two values of a column as text, and words for them; what counts as False is first."""

    name: str
    values: tuple[str, str]
    words: tuple[str, str]

    @classmethod
    def of(cls, name: str, column: pd.Series) -> "Binary":
        """The values of a column of labels; a BiaslibError where there are not two of them."""
        values = sorted(set(_texts(column)), key=_order)
        if len(values) == 1:
            raise BiaslibError(f"{name!r} is {values[0]!r} in every row: to compare, give a table with both values.")
        if len(values) != 2:
            raise refused("column that is not binary", name=name, n=len(values), values=listed(values))
        switch = set(values) in _SWITCHES
        words = (f"not {name}", name) if switch else tuple(f"{name} {v}" if _is_number(v) else v for v in values)
        return cls(name, (values[0], values[1]), (words[0], words[1]))

    def read(self, column: pd.Series, *, what: str) -> np.ndarray:
        """(N,) bool of a column that holds these values, or one of them; a BiaslibError for any other value."""
        texts = _texts(column)
        no, yes = self.values
        if strangers := sorted(set(texts) - {no, yes}):
            raise refused("value that the labels lack", what=what, name=self.name, first=strangers[0], no=no, yes=yes)
        return np.array([text == yes for text in texts], dtype=bool)

    def scores(self, column: pd.Series) -> np.ndarray:
        """(N,) float of a column of scores; a BiaslibError for one that is no finite number."""
        scores = pd.to_numeric(column, errors="coerce").to_numpy(float)
        if not np.isfinite(scores).all():
            wrong = int((~np.isfinite(scores)).sum())
            first = column.iloc[int(np.argmin(np.isfinite(scores)))]
            raise refused("scores that are no numbers", wrong=wrong, n=len(scores), name=self.name, first=str(first))
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
    clusters: np.ndarray | None = None  # (N,) whole numbers; images of one number may depend on each other
    cluster_names: pd.Series | None = None  # (N,) the same as the table writes them, by the name of its column
    notes: tuple[str, ...] = ()  # on rows that were left out, on clusters and on small combinations
    combinations: np.ndarray | None = None  # (N,) words for the groups that an image belongs to, if that is asked for

    @cached_property
    def correct(self) -> np.ndarray:
        """(N,) bool: whether the answer about the target is right."""
        return self.predicted[self.target.name].to_numpy() == self.labels[self.target.name].to_numpy()

    def only(self, rows: np.ndarray) -> "LabelledImages":
        """Some of the images, (N,) bool."""
        parts: dict[str, Any] = {"files": tuple(np.array(self.files)[rows].tolist())}
        for name in ("labels", "predicted", "scores", "clusters", "cluster_names", "combinations"):
            of = getattr(self, name)
            if of is not None and len(of):
                parts[name] = of[rows] if isinstance(of, np.ndarray) else of[rows].reset_index(drop=True)
        return replace(self, **parts)

    def by_image(self, about: str = "") -> pd.DataFrame:
        """A row an image: file, cluster, labels and answers as the table has them, score, 1 if right (`about` what)."""
        words = {one.name: dict(zip((False, True), one.values, strict=True)) for one in (self.target, *self.groups)}
        labels, answers = self.labels.replace(words), self.predicted.replace(words).add_prefix("answer about ")
        score = pd.DataFrame({} if self.scores is None else {f"score{about}": self.scores})
        cluster = pd.DataFrame() if self.cluster_names is None else self.cluster_names.to_frame()
        right = pd.DataFrame({f"right{about}": self.correct.astype(int)})  # a group may be called so, too
        return pd.concat([pd.Series(self.files, name="file"), cluster, labels, score, answers, right], axis=1)

    def cells(self, group: Binary) -> np.ndarray:
        """(N,) words for the value of target and group of each image."""
        words = np.array([f"{mine}, {theirs}" for mine in self.target.words for theirs in group.words])
        return words[2 * self.labels[self.target.name].to_numpy(int) + self.labels[group.name].to_numpy(int)]

    def image_sides(self) -> Iterator[tuple[str, str, list[np.ndarray]]]:
        """Group, value of the target in words, and (N,) bool which images are inside and outside the group."""
        truth = self.labels[self.target.name].to_numpy()
        for group in self.groups:
            member = self.labels[group.name].to_numpy()
            for value in (True, False):
                yield group.name, self.target.words[value], [(truth == value) & inside for inside in (member, ~member)]


def read_labels(options: "AuditOptions") -> LabelledImages:
    """Reads and checks everything that tables say.

    Of a column with more than two values each is a group, against all others. With intersections each combination of
    the columns' values is one, too, where it has images and neither it nor what is outside it is a group already; where
    there are more than 12, those of fewer than 30 images are none.
    """
    target, bins, cluster = str(options.target), options.bins or {}, options.cluster
    wanted = [target, *options.groups]
    if len(options.groups) == 0:
        raise BiaslibError("There is no group to compare: name at least one column of the labels.")
    asked = [*wanted, *filter(None, [cluster])]
    table, notes = _complete(read(options.labels), asked, "labels", options.drop_missing)
    names, binned = _names(table, options.file_column), _binned(table, bins, "labels")
    levels = {name: _levels(binned[name]) for name in options.groups}
    if options.group_outputs and any(levels.values()):
        raise BiaslibError("An output tells a group of two values: leave the outputs for groups out.")
    by_column = [list(levels[name]) or [name] for name in options.groups]
    of_columns = [target, *itertools.chain(*by_column)]
    if len({*of_columns, cluster}) <= len(of_columns):  # where there is no cluster, None is one more
        raise BiaslibError(f"Target, groups and cluster must be different columns, not {listed(asked, 12)}.")
    wide = _widened(binned, levels, "labels")
    columns = {name: Binary.of(name, wide[name]) for name in of_columns}
    labels = pd.DataFrame({name: column.read(wide[name], what="labels") for name, column in columns.items()})
    predicted, scores = pd.DataFrame(), None
    if options.predictions is not None:
        given = _predictions(table, names, cast(Table, options.predictions), target, options.file_column)
        given = _widened(_binned(given, bins, "predictions"), levels, "predictions")
        scores = None if options.threshold is None else columns[target].scores(given[target])
        for name, column in columns.items():
            if name in given:
                predicted[name] = _answers(column, given[name], options.threshold, name == target)
    train = None
    if options.train_labels is not None:
        what = "training labels"
        given, more = _complete(read(options.train_labels), wanted, what, options.drop_missing)
        given, notes = _widened(_binned(given, bins, what), levels, what), notes + more
        train = pd.DataFrame({name: column.read(given[name], what=what) for name, column in columns.items()})
    written = None if cluster is None else pd.Series(_texts(table[cluster]), name=cluster)
    clusters = None if written is None else pd.factorize(written)[0]
    if clusters is not None:
        notes += (f"Images of a {cluster} may be alike: intervals and tests are by {cluster} ({max(clusters) + 1:,}).",)
    crossed, small, together = _crossed(columns, labels, by_column) if options.intersections else ([], (), None)
    for of_images in [each for each in (labels, train) if each is not None and crossed]:
        _, combined = _combined(columns, of_images, by_column)
        of_images[crossed] = pd.DataFrame({name: combined == name for name in crossed})
    columns |= {name: Binary(name, ("0", "1"), (f"not ({name})", name)) for name in crossed}
    if same := [] if train is None else [name for name in columns if train[name].nunique() < 2]:
        raise BiaslibError(f"{same[0]!r} has one value only in the training labels: there is nothing to compare with.")
    of_target, *of_groups = columns.values()
    return LabelledImages(
        tuple(names), labels, predicted, train, of_target, tuple(of_groups), scores, clusters, written,
        notes + small, together,
    )  # fmt: skip


def _complete(table: pd.DataFrame, columns: list[str], what: str, drop: bool) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows that have a value in each column, and a note on the others, which are an error unless they may drop."""
    check_columns(table, columns, f"the table of {what}")
    empty = pd.DataFrame(
        {name: table[name].isna() | table[name].map(str).map(_plain).isin(_MISSING) for name in columns}
    )
    lacking, without = [name for name in empty if empty[name].any()], empty.any(axis=1)
    if lacking and (without.all() or not drop):
        raise refused("rows without a value", n=empty[lacking[0]].sum(), rows=len(table), column=lacking[0])
    note = f"{' or '.join(map(repr, lacking))}: {without.sum():,} of {len(table):,} rows of the {what}."
    return table[~without].reset_index(drop=True), (f"Left out, as they have no value in {note}",) if lacking else ()


def _binned(table: pd.DataFrame, bins: Mapping[str, Sequence[float]], what: str) -> pd.DataFrame:
    """The table with words for numbers; a bin holds its lower edge and not its upper one."""
    for name, edges in bins.items():
        if name in table:
            numbers, edges = pd.to_numeric(table[name], errors="coerce"), [float(edge) for edge in edges]
            if not np.isfinite(numbers).all():
                raise BiaslibError(f"{what} of {name!r} are not all numbers, and so not all in a bin: mend them.")
            inner = [f"{name} {low:g} to {high:g}" for low, high in itertools.pairwise(edges)]
            words = [f"{name} below {edges[0]:g}", *inner, f"{name} {edges[-1]:g} or more"]
            table = table.assign(**{name: pd.cut(numbers, [-np.inf, *edges, np.inf], right=False, labels=words)})
    return table


def _levels(column: pd.Series) -> dict[str, str]:
    """Name of a group -> its value in the column, and a bin is both; empty where two values are one group."""
    texts = set(_texts(column))
    in_order = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else sorted(texts, key=_order)
    values = [text for text in _texts(in_order) if text in texts]
    if len(values) > _MOST:
        remedy = f"give --bins {column.name}=18,40,65" if all(map(_is_number, values)) else "put some of them together"
        raise BiaslibError(f"{column.name!r} has {len(values)} values, more than {_MOST}: {remedy}.")
    names = (text if text.startswith(f"{column.name} ") else f"{column.name} {text}" for text in values)
    return dict(zip(names, values, strict=True)) if len(values) > 2 else {}


def _widened(table: pd.DataFrame, levels: Mapping[str, Mapping[str, str]], what: str) -> pd.DataFrame:
    """The table with a column of True and False for each value that is a group."""
    for column, groups in levels.items():
        if groups and column in table:
            texts = _texts(table[column])
            if strangers := set(texts) - set(groups.values()):
                raise BiaslibError(f"{what} of {column!r} hold {min(strangers)!r}, which the labels do not: mend them.")
            table = table.assign(**{name: [text == value for text in texts] for name, value in groups.items()})
    return table


def _combined(
    columns: Mapping[str, Binary], labels: pd.DataFrame, by_column: list[list[str]]
) -> tuple[list[str], np.ndarray]:
    """Words for every combination of the groups, (N,) each image's; of a column of two values both have words."""
    sides = [some if len(some) > 1 else columns[some[0]].words[::-1] for some in by_column]
    first = [labels[some].to_numpy().argmax(axis=1) if len(some) > 1 else ~labels[some[0]] for some in by_column]
    names = np.array([" x ".join(words) for words in itertools.product(*sides)])
    return names.tolist(), names[np.ravel_multi_index(np.array(first, int), [len(side) for side in sides])]


def _crossed(
    columns: Mapping[str, Binary], labels: pd.DataFrame, by_column: list[list[str]]
) -> tuple[list[str], tuple[str, ...], np.ndarray]:
    """Combinations with images that neither are groups already nor all but one, a note on small ones, each image's."""
    known, crossed = [labels[name] for name in itertools.chain(*by_column)], {}
    names, together = _combined(columns, labels, by_column)
    for name in names:
        inside = together == name
        if inside.any() and not any((inside == other).all() or (inside != other).all() for other in known):
            crossed[name] = int(inside.sum())
            known.append(inside)
    small = [name for name, n in crossed.items() if n < SMALL and len(crossed) > _MOST]
    tested = [name for name in crossed if name not in small]
    if not crossed or len(tested) > _MOST:
        raise BiaslibError(f"There are {len(tested)} combinations, not 1 to {_MOST}: leave --intersections out.")
    words = listed([f"{name} ({crossed[name]})" for name in small], _MOST)
    note = f"Not tested, as they have fewer than {SMALL} images: {len(small)} of {len(crossed)} combinations ({words})."
    return tested, (note,) if small else (), together


def name_column(table: pd.DataFrame, asked: str | None) -> str:
    """The column of the images' names: the one that is asked for, else one that is called so, else the first."""
    if asked is not None:
        check_columns(table, [asked], "the table")
    return asked or next((name for name in _FILE_COLUMNS if name in table), str(table.columns[0]))


def _names(table: pd.DataFrame, file_column: str | None) -> list[str]:
    column = name_column(table, file_column)
    if table[column].isna().any():
        raise BiaslibError(f"{int(table[column].isna().sum())} rows have no name of an image in {column!r}: drop them.")
    names = [str(name) for name in table[column]]
    if outside := [name for name in names if (path := PurePath(name)).is_absolute() or ".." in path.parts]:
        raise BiaslibError(f"{outside[0]!r} in column {column!r} is not inside the folder of images: name files in it.")
    if len(twice := table[column][table[column].duplicated()]):
        raise refused("images named twice", n=len(twice), column=column, which=listed(list(twice)))
    return names


def _predictions(
    table: pd.DataFrame, names: list[str], predictions: Table, target: str, file_column: str | None
) -> pd.DataFrame:
    """N rows, as they are written; the column of the target is among them."""
    if isinstance(predictions, str) and predictions in table:
        return pd.DataFrame({target: table[predictions]})
    if isinstance(predictions, str) and not Path(predictions).is_file():
        raise refused("neither column nor file", predictions=predictions, columns=listed(list(table.columns), shown=12))
    given = read(predictions)
    check_columns(given, [target], "the table of predictions")
    given = given.set_index(pd.Index(_names(given, file_column)))
    if missing := [name for name in names if name not in given.index]:
        raise refused("images without a prediction", n=len(missing), images=len(names), which=listed(missing))
    return given.loc[names]


def _answers(column: Binary, values: pd.Series, threshold: float | None, is_target: bool) -> np.ndarray:
    # a group's predictions may be written as its labels where the target's are scores
    as_labels = not is_target and set(_texts(values)) <= set(column.values)
    if threshold is None or as_labels:
        return column.read(values, what="predictions")
    return column.scores(values) > threshold


def _texts(column: Iterable[Any]) -> list[str]:
    return [_plain(str(value)) for value in column]


@lru_cache(maxsize=4096)  # a column has few values, however many its rows are
def _plain(written: str) -> str:
    text = written.strip()
    if text.casefold() in _SPELLED:
        return _SPELLED[text.casefold()]
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
