"""Would a person agree? Ratings of pairs of images, and what they say of a direction (Denton et al. 2019, section 4.4).

A *trial* shows an image and the same one moved along a direction, and asks whether it has less of an attribute, as much
or more. Ratings are rows of a plain table; drawn raters have names that no person can take.
"""

import functools
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from filelock import FileLock
from PIL import Image

from biaslib import store
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval, crossed_interval
from biaslib.statistics.intervals import percentile_ends

_TRIAL: Final = ["moved", "asked", "pair"]
_COLUMNS: Final = ["rater", *_TRIAL, "swapped", "answer"]
_ANSWERS: Final = {"less": -1, "the same": 0, "more": 1}
_SYNTHETIC: Final = "synthetic"
_SIDE: Final = 256  # of the pictures in the form, in pixels


def trials(questions: Mapping[str, tuple[str, ...]], *, pairs: int, seed: int) -> pd.DataFrame:
    """All questions (what is moved -> attributes asked about) about all pairs, a row a trial, in a random order."""
    asked = [(moved, attribute) for moved, attributes in questions.items() for attribute in attributes]
    rows = [(*question, pair) for question in asked for pair in range(pairs)]
    if not rows:
        raise BiaslibError("There is nothing to ask: give at least one direction, one attribute and one pair.")
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rows, columns=_TRIAL).iloc[rng.permutation(len(rows))].reset_index(drop=True)
    return table.assign(swapped=rng.random(len(rows)) < 0.5)


def read(path: Path | str) -> pd.DataFrame:
    """The ratings in a CSV file; `answer` is -1, 0 or 1: the moved image has less, as much, or more, wherever shown."""
    file, words = Path(path), dict.fromkeys(("rater", "moved", "asked"), str)
    if not file.is_file():
        raise BiaslibError(f"There is no file {file}: rate some pairs first, or give the right path.")
    try:
        table = pd.read_csv(file, dtype=words, keep_default_na=False, na_values=[""])
    except (ValueError, UnicodeDecodeError) as error:
        raise BiaslibError(f"{file.name} is no table of ratings: {error}") from error
    return _checked(table, file.name)


def perceived(ratings: pd.DataFrame, *, confidence: float = 0.95, seed: int = 0) -> pd.DataFrame:
    r"""What raters see change along each direction: the attribute-perception sensitivity (Denton et al. 2019, eq. 4).

    $$S(\mathrm{Perceive}_{a'} \circ G, d_a) = \mathbb{E}_z\big[\mathrm{Perceive}_{a'}(G(z), G(z + d_a))\big]$$

    Indexed by `moved` and `asked`, as they appear: `change`, the mean answer, in [-1, 1]; `noticed`, the paper's other
    option, the share of answers that see any difference; both with intervals over raters and pairs (NaN ends with one
    of either).
    """
    table = _checked(ratings, "the table of ratings")
    if table.empty:
        raise BiaslibError("There are no ratings: rate some pairs first.")
    spans = functools.partial(crossed_interval, confidence=confidence, seed=seed)
    rows = []
    for (moved, asked), answers in table.groupby(["moved", "asked"], sort=False):
        grid = answers.pivot_table(index="rater", columns="pair", values="answer").to_numpy(float)
        noticed = np.where(np.isnan(grid), np.nan, grid != 0)
        rows.append((moved, asked, spans(grid, bounds=(-1, 1)), spans(noticed, bounds=(0, 1))))
    return pd.DataFrame(rows, columns=["moved", "asked", "change", "noticed"]).set_index(["moved", "asked"])


def krippendorff_alpha(ratings: pd.DataFrame, *, seed: int = 0) -> Interval:
    r"""How far raters agree beyond chance, from the squared differences of their answers (Krippendorff 2004, ch. 11).

    $$\alpha = 1 - D_o / D_e,$$

    the mean squared difference of two raters of one trial over that of any two answers, of trials with two raters or
    more. 1: all agree; 0: as by chance. The interval is over trials. NaN without such trials, or if all answers agree.
    """
    units = _checked(ratings, "the table of ratings").groupby(_TRIAL, sort=False)["answer"]
    parts = units.agg(n="size", sum="sum", squares=lambda answers: (answers**2).sum()).query("n > 1").astype(float)
    if parts.empty:
        return Interval(np.nan, np.nan, np.nan, 0)
    count = len(parts)
    parts["within"] = 2 * parts["n"] * (parts["squares"] - parts["sum"] ** 2 / parts["n"]) / (parts["n"] - 1)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), 2000)
    n, total, squares, apart = (np.vstack([np.ones(count), drawn]) @ parts.to_numpy()).T
    any_two = 2 * (squares - total**2 / n) / (n - 1)
    alphas = 1 - np.divide(apart / n, any_two, out=np.full(len(n), np.nan), where=any_two > 1e-12)
    low, high = percentile_ends(alphas[1:]) if count > 1 else (np.nan, np.nan)
    return Interval(float(alphas[0]), low, high, count)


def synthetic(changes: pd.DataFrame, *, raters: int, seed: int, lapses: float = 0.05) -> pd.DataFrame:
    """Ratings that nobody gave, to try a study before it is made: **they say nothing about people**.

    A drawn rater sees `change`, how much of the attribute is gained in a trial, with noise, answers "more" or "less"
    beyond a threshold of their own, and presses any button in a share of `lapses`.
    """
    rng = np.random.default_rng(seed)
    tables = []
    for number in range(raters):
        threshold = 0.25 * np.exp(rng.normal(0, 0.4))  # their own differ by a factor of about 1.5
        visible = changes["change"].to_numpy(float) + rng.normal(0, 0.15, len(changes))
        answer = np.where(np.abs(visible) > threshold, np.sign(visible), 0).astype(int)
        lapsed = rng.random(len(changes)) < lapses
        answer[lapsed] = rng.integers(-1, 2, lapsed.sum())
        swapped = rng.random(len(changes)) < 0.5
        tables.append(changes[_TRIAL].assign(rater=f"{_SYNTHETIC}-{number + 1}", swapped=swapped, answer=answer))
    return pd.concat(tables, ignore_index=True)[_COLUMNS]


def explained(changes: Sequence[Interval], *, attribute: Interval, target: Interval, margin: float) -> str:
    """What ratings of the attribute and of the target say of changes of the score (Denton et al. 2019, section 4.4).

    "no change" where no kind of classifier's score is shown to change; "smile seen" where the target is seen to change;
    "not seen" where the attribute is not seen to come; "classifier" where it is and the target moves by less than the
    margin; else "unsure". Undefined intervals show nothing.
    """
    if not any(_leaves_zero(change) for change in changes):
        return "no change"
    if _leaves_zero(target):
        return "smile seen"
    if not attribute.low > 0:
        return "not seen"
    return "classifier" if -margin < target.low and target.high < margin else "unsure"


class Session:
    """One rater's way through a plan of `trials`, to go on with any day; raters may share the file of answers."""

    def __init__(self, plan: pd.DataFrame, *, rater: str, path: Path | str) -> None:
        if not rater.strip() or rater.startswith(_SYNTHETIC):
            raise BiaslibError(f"A rater needs a name that does not begin with {_SYNTHETIC!r}, not {rater!r}.")
        self.plan, self.rater, self.path = plan, rater, Path(path)
        if not self._answered().isin(pd.MultiIndex.from_frame(plan[_TRIAL])).all():
            raise BiaslibError(f"{self.path.name} holds {rater}'s answers to another plan: take another file or name.")

    def left(self) -> pd.DataFrame:
        """The trials that this rater has not answered, in the plan's order."""
        return self.plan[~pd.MultiIndex.from_frame(self.plan[_TRIAL]).isin(self._answered())]

    def answer(self, word: str) -> None:
        """Writes the answer to the next trial, about the image on the right compared with the one on the left."""
        if word not in _ANSWERS:
            raise BiaslibError(f"An answer is {', '.join(_ANSWERS)}, not {word!r}.")
        with FileLock(f"{self.path}.lock"):
            row = self.left().head(1)
            if row.empty:
                raise BiaslibError(f"{self.rater} has answered all {len(self.plan)} trials.")
            answer = np.where(row["swapped"], -_ANSWERS[word], _ANSWERS[word])
            row = row.assign(rater=self.rater, answer=answer)[_COLUMNS]
            table = pd.concat([self._table(), row], ignore_index=True)
            with store.replacing(self.path) as partial:
                table.to_csv(partial, index=False)

    def _table(self) -> pd.DataFrame | None:
        return read(self.path) if self.path.is_file() else None

    def _answered(self) -> pd.MultiIndex:
        table = self._table()
        own = self.plan[:0] if table is None else table[table["rater"] == self.rater]
        return pd.MultiIndex.from_frame(own[_TRIAL])


def widget(session: Session, pictures: Mapping[str, np.ndarray]) -> Any:
    """A form for a live notebook, an `ipywidgets.VBox`; pictures: what is moved -> (pairs, 2, H, W, 3) uint8."""
    import ipywidgets as widgets  # takes a moment, and only a live notebook needs it

    for moved, last in session.plan.groupby("moved")["pair"].max().items():
        if moved not in pictures or last >= len(pictures[str(moved)]):
            raise BiaslibError(f"The plan asks about pairs along {moved} that are not among the pictures.")
    left, right = (widgets.Image(format="png", width=_SIDE, height=_SIDE) for _ in range(2))
    question, progress = widgets.HTML(), widgets.HTML()
    buttons = [widgets.Button(description=word) for word in _ANSWERS]
    faces, row = widgets.HBox([left, right]), widgets.HBox(buttons)

    def show() -> None:
        trials = session.left()
        total = len(session.plan)
        progress.value = f"{total - len(trials)} of {total} answered, kept in {session.path.name}"
        if trials.empty:
            question.value = "That was the last pair. Thank you."
            faces.layout.display = row.layout.display = "none"
            return
        trial = trials.iloc[0]
        before, after = pictures[trial["moved"]][trial["pair"]]
        first, second = (after, before) if trial["swapped"] else (before, after)
        left.value, right.value = _png(first), _png(second)
        asked = str(trial["asked"]).replace("_", " ")
        question.value = f"Compared with the face on the left, the one on the right has … of this: <b>{asked}</b>"

    def clicked(button: Any) -> None:
        session.answer(button.description)
        show()

    for button in buttons:
        button.on_click(clicked)
    show()
    return widgets.VBox([faces, question, row, progress])


def _checked(table: pd.DataFrame, name: str) -> pd.DataFrame:
    if missing := [column for column in _COLUMNS if column not in table.columns]:
        raise BiaslibError(f"{name} has no column {missing[0]!r}: ratings have {', '.join(_COLUMNS)}.")
    if table[_COLUMNS].isna().any(axis=None) or not table["answer"].isin(_ANSWERS.values()).all():
        raise BiaslibError(f"{name} has an answer that is not -1, 0 or 1, or an empty cell: mend or remove its row.")
    twice = table[table.duplicated(["rater", *_TRIAL])]
    if not twice.empty:
        raise BiaslibError(f"{name} has two answers of {twice['rater'].iloc[0]} to one trial: remove one of them.")
    return table[_COLUMNS].astype({"pair": int, "swapped": bool, "answer": int})


def _leaves_zero(value: Interval) -> bool:
    return value.low > 0 or value.high < 0


def _png(pixels: np.ndarray) -> bytes:
    """Enlarged without new edges, so that nobody rates squares."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC).save(buffer, format="PNG")
    return buffer.getvalue()
