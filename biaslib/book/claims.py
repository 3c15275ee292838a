"""What a chapter claims, as code: a sentence, a condition on the chapter's numbers, and the mark that is expected.

A cell of the chapter, tagged `claims`, holds the list `CLAIMS` and a function `numbers`, which makes the numbers that
these rest on from what the chapter records: from its record and from this run alike. The cell is committed before the
record is made that it is judged by. Marks come from intervals, never from estimates alone. A chapter whose run is exact
has no record: its claims are about any run with its defaults.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from numpy.typing import ArrayLike

from biaslib.book import Project, recorded
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval, welch

HOLDS, FAILS, UNCERTAIN = "holds", "does not hold", "too small to tell"
UNKNOWN: Final = Interval(math.nan, math.nan, math.nan, 0)  # of what a run has not measured
Numbers = Mapping[str, Any]


class Condition(NamedTuple):
    """What has to be true of some numbers, by their names; made by `above`, `below`, `within` and `all_of`."""

    names: tuple[str, ...]
    asks: tuple[str, ...]  #: of each number, in words, where its interval must lie
    mark: Callable[[Numbers], str]


@dataclass(frozen=True)
class Claim:
    """One sentence that a chapter stands for."""

    words: str  #: in plain English, without numbers that the record could change
    condition: Condition
    paper: str = ""  #: the paper's own value, where the claim is the paper's
    expected: str = HOLDS  #: the mark that was written down before the record was looked at
    given: str = ""  #: the mark that the record gave, where it is another

    def mark(self, numbers: Numbers) -> str:
        """`HOLDS`, `FAILS` or `UNCERTAIN`; a BiaslibError where a number is missing."""
        if missing := [name for name in self.condition.names if name not in numbers]:
            raise BiaslibError(f"the claim {self.words!r} needs the number {missing[0]!r}: record it or mend the name.")
        return self.condition.mark(numbers)


def above(name: str, bound: float) -> Condition:
    """The whole interval of a number lies above a bound; a number without one is its own interval."""
    return within(name, bound, math.inf)


def below(name: str, bound: float) -> Condition:
    """The whole interval of a number lies below a bound."""
    return within(name, -math.inf, bound)


def within(name: str, low: float, high: float) -> Condition:
    """The whole interval of a number lies between two bounds; `FAILS` where all of it lies outside."""

    def mark(numbers: Numbers) -> str:
        span = _interval(numbers[name])
        if low < span.low and span.high < high:
            return HOLDS
        return FAILS if span.high <= low or high <= span.low else UNCERTAIN

    bounds = [f"above {low:g}"] * (low > -math.inf) + [f"below {high:g}"] * (high < math.inf)
    return Condition((name,), (f"{name}: {' and '.join(bounds).replace('-', '−')}",), mark)


def all_of(*conditions: Condition) -> Condition:
    """Each condition holds; `FAILS` where one of them does."""

    def mark(numbers: Numbers) -> str:
        marks = {condition.mark(numbers) for condition in conditions}
        return next(each for each in (FAILS, UNCERTAIN, HOLDS) if each in marks)

    names, asks = (tuple(chain.from_iterable(parts)) for parts in zip(*(each[:2] for each in conditions), strict=True))
    return Condition(names, asks, mark)


def table(claims: Sequence[Claim], *, record: Numbers | None, this_run: Numbers | None) -> pd.DataFrame:
    """A row a claim: its words, what was measured for it, the paper's value, its marks with the numbers behind them.

    With what was measured stands where its interval must lie. What there is none of (record, run, paper) has no column.
    """
    surprises = [f" (we expected: {claim.expected})" if claim.given else "" for claim in claims]
    columns: dict[str, list[str]] = {"claim": [claim.words for claim in claims]}
    columns["measured"] = ["; ".join(claim.condition.asks) for claim in claims]
    if any(claim.paper for claim in claims):
        columns["paper"] = [claim.paper or "not measured" for claim in claims]
    if record is not None:
        columns["record"] = [_marked(claim, record) + said for claim, said in zip(claims, surprises, strict=True)]
        surprises = [""] * len(claims)  # they are said once
    if this_run is not None:
        columns["this run"] = [_marked(claim, this_run) + said for claim, said in zip(claims, surprises, strict=True)]
    return pd.DataFrame(columns)


def of_notebook(
    project: Project, notebook: str
) -> tuple[list[Claim], Callable[[Mapping[str, Any]], Numbers], tuple[str, str | None]]:
    """`CLAIMS`, `numbers` and `RECORD` of a notebook's cell tagged `claims`, which needs no other cell.

    `RECORD` is the chapter whose record the claims are about, with its preset: the notebook itself and the largest
    there is, unless the cell names another.
    """
    from biaslib.book import execution  # half a second, in every notebook

    names: dict[str, Any] = {"CLAIMS": [], "numbers": dict, "RECORD": (notebook, None)}
    for cell in execution.read(project, notebook).cells:
        if "claims" in cell.metadata.get("tags", ()):
            exec(compile(cell.source, f"{notebook}.md", "exec"), names)
    return names["CLAIMS"], names["numbers"], names["RECORD"]


def compare(
    project: Project, notebook: str, *, given: Mapping[str, Any], preset: str | None = None, **options: Any
) -> str:
    """Each claim of a notebook with its mark in the record, in a run of the preset, and in one with these parameters.

    `options` are those of `execution.run`, which raises what this raises, too; it is a `BiaslibError` where there are
    no parameters, or the notebook states no claims.
    """
    from biaslib.book import execution

    claims, numbers, about = of_notebook(project, notebook)
    if not claims or about[0] != notebook:
        raise BiaslibError(f"{notebook} states no claims of its own that two settings could be compared by.")
    if not given:
        raise BiaslibError("--compare needs a second setting: give it with -p name=value.")
    columns = {"record": numbers(record["values"])} if (record := recorded.get(*about)) else {}
    settings = {preset or "as the page is": {}, ", ".join(f"{name}={value}" for name, value in given.items()): given}
    for setting, new in settings.items():
        with tempfile.TemporaryDirectory() as folder:
            run = execution.run(project, notebook, Path(folder) / "run.ipynb", parameters=new, preset=preset, **options)
        columns[setting] = numbers(recorded.decoded(run["recorded"]["values"]))
    width = max(map(len, columns)) + 1
    lines = []
    for claim in claims:
        lines += [claim.words, *(f"    {at + ':':{width}} {_marked(claim, each)}" for at, each in columns.items()), ""]
    return "\n".join(lines).rstrip()


def unmeasured(listed: Sequence[Claim]) -> dict[str, Any]:
    """`UNKNOWN` for each number that these claims rest on."""
    return {name: UNKNOWN for claim in listed for name in claim.condition.names}


def difference(a: ArrayLike, b: ArrayLike) -> Interval:
    """The mean of some models less that of others, with Welch's interval; n is that of the fewer."""
    test = welch(a, b)
    return Interval(test.difference, test.low, test.high, min(test.n))


def unpaired(a: Any, b: Any) -> Interval:
    """One interval less another, where the pairs behind them are not recorded: rather too wide."""
    a, b = _interval(a), _interval(b)
    return Interval(a.estimate - b.estimate, a.low - b.high, a.high - b.low, min(a.n, b.n))


def counted(numbers: Sequence[Any], low: float = -math.inf, high: float = math.inf) -> Interval:
    """The share of numbers between two bounds: at least of those whose whole interval is, at most of those partly so.

    Those without an estimate are left out; everything is NaN where none is left.
    """
    spans = [span for span in map(_interval, numbers) if not math.isnan(span.estimate)]
    n = len(spans) or math.nan
    inside = sum(low < span.estimate < high for span in spans)
    surely = sum(low < span.low and span.high < high for span in spans)
    never = sum(span.high <= low or high <= span.low for span in spans)
    return Interval(inside / n, surely / n, 1 - never / n, len(spans))


def _marked(claim: Claim, numbers: Numbers) -> str:
    """The mark with the numbers that it rests on, as a table prints them."""
    spans = [_interval(numbers[name]) for name in claim.condition.names]
    if all(math.isnan(span.estimate) for span in spans):
        return "not measured"
    return f"{claim.mark(numbers)}: {'; '.join(map(_in_words, spans))}"


def _interval(number: Any) -> Interval:
    """A number of a record or of this run: an interval, the mapping that a record makes of it, or a plain number."""
    if isinstance(number, Mapping):
        return Interval(number["estimate"], number["low"], number["high"], number.get("n", 1))
    return number if isinstance(number, Interval) else Interval(float(number), float(number), float(number), 1)


def _in_words(span: Interval) -> str:
    if math.isnan(span.estimate):
        return "not measured"
    return (f"{span.estimate:.2f}" if span.low == span.high else f"{span:.2f}").replace("-", "−")
