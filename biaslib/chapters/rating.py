"""Would a person agree? Ratings of pairs of images, and what they say of a direction (Denton et al. 2019, section 4.4).

A *trial* shows an image and the same one moved along a direction, and asks whether it has less of an attribute, as much
or more. Ratings are rows of a plain table; drawn raters have names that no person can take.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from biaslib import store
from biaslib.errors import BiaslibError
from biaslib.figures import theme
from biaslib.figures.pieces import data_uri
from biaslib.statistics import Interval, crossed_interval
from biaslib.statistics.intervals import percentile_ends

_TRIAL: Final = ["moved", "asked", "pair"]
_COLUMNS: Final = ["rater", *_TRIAL, "swapped", "answer"]
_ANSWERS: Final = {"less": -1, "the same": 0, "more": 1}
_SYNTHETIC: Final = "synthetic"  # how the names of drawn raters begin


def trials(questions: Mapping[str, tuple[str, ...]], *, pairs: int, seed: int) -> pd.DataFrame:
    """All questions (what is moved -> attributes asked about) about all pairs, a row a trial, in a random order."""
    asked = [(moved, attribute) for moved, attributes in questions.items() for attribute in attributes]
    rows = [(*question, pair) for question in asked for pair in range(pairs)]
    if not rows:
        raise BiaslibError("There is nothing to ask: give at least one direction, one attribute and one pair.")
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rows, columns=_TRIAL).iloc[rng.permutation(len(rows))].reset_index(drop=True)
    return table.assign(swapped=rng.random(len(rows)) < 0.5)


def perceived(ratings: pd.DataFrame, *, confidence: float = 0.95, seed: int = 0) -> pd.DataFrame:
    r"""What raters see change along each direction: the attribute-perception sensitivity (Denton et al. 2019, eq. 4).

    $$S(\mathrm{Perceive}_{a'} \circ G, d_a) = \mathbb{E}_z\big[\mathrm{Perceive}_{a'}(G(z), G(z + d_a))\big]$$

    Indexed by `moved` and `asked`, as they appear: `change`, the mean answer, in [-1, 1]; `noticed`, the paper's other
    option, the share of answers that see any difference; both with intervals over raters and pairs (NaN of one).
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


def form(plan: pd.DataFrame, pictures: Mapping[str, np.ndarray], path: Path | str) -> Path:
    """Writes a page for raters, to be filled in on a screen or printed, and its key, which raters do not see.

    `plan` is made by `trials`; `pictures` are what is moved -> (pairs, 2, H, W, 3) uint8. The page needs no network and
    saves a CSV file of `rater`, `trial` and `answer`; answers on paper are typed into such a file. The key, a CSV file
    beside the page, says for `collected` what each trial was.
    """
    file, shown = Path(path), []
    for trial in plan.to_dict("records"):
        moved, pair = trial["moved"], trial["pair"]
        if moved not in pictures or pair >= len(pictures[moved]):
            raise BiaslibError(f"The plan asks about pairs along {moved} that are not among the pictures.")
        # as they are: a browser that enlarges them makes no new edges, so that nobody rates squares
        faces = [data_uri(face) for face in pictures[moved][pair]]
        shown.append((str(trial["asked"]).replace("_", " "), faces[::-1] if trial["swapped"] else faces))
    template = theme.templates("chapters", autoescape=True).get_template("rating.html")
    with store.replacing(file) as page, store.replacing(file.with_suffix(".key.csv")) as key:
        page.write_text(template.render(shown=shown, answers=_ANSWERS), encoding="utf-8")
        plan.assign(trial=range(1, len(plan) + 1)).to_csv(key, index=False)
    return file


def collected(answers: Sequence[Path | str], key: Path | str) -> pd.DataFrame:
    """Ratings from raters' files and the key of their form; `answer`: the moved image has less (-1), as much, more."""
    try:
        parts = [pd.read_csv(file, dtype={"rater": str, "trial": int}) for file in answers]
        table = pd.concat(parts).merge(pd.read_csv(key), on="trial", how="left")
        said = table["answer"].map(_ANSWERS)
    except (KeyError, OSError, ValueError) as error:
        raise BiaslibError(f"The answers need rater, trial and answer, and the form's key: {error}.") from error
    if table["rater"].str.startswith(_SYNTHETIC).any():
        raise BiaslibError(f"A rater's name does not begin with {_SYNTHETIC!r}: give that rater another one.")
    return _checked(table.assign(answer=np.where(table["swapped"].eq(True), -said, said)), "the table of answers")


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
