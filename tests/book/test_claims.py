import functools
import math

import pytest

from biaslib.book import claims, execution, find_project, recorded
from biaslib.book.claims import FAILS, HOLDS, UNCERTAIN, Claim, above, all_of, below, within
from biaslib.errors import BiaslibError
from biaslib.statistics import Interval
from tests.book.conftest import NOTEBOOKS, write_notebook

PROJECT = find_project()
claimed = functools.partial(functools.cache(claims.of_notebook), PROJECT)
CASES = [(name, claim) for name in NOTEBOOKS for claim in claimed(name)[0]]


def span(low, high):
    return Interval((low + high) / 2, low, high, 10)


@pytest.fixture(scope="module")
def known_numbers(request):
    """What a notebook's claims are about: its record, or one that it names; where it has none, its defaults' run."""

    @functools.cache
    def known(notebook):
        _, numbers, source = claimed(notebook)
        record = recorded.get(*source)
        if record:
            return numbers(record["values"])
        book = request.getfixturevalue("smoke_book")
        about = execution.about(book.project.page(notebook))
        assert about["changed"] == {}  # the smoke preset leaves such a page its defaults
        return numbers(recorded.decoded(about["recorded"]["values"]))

    return known


def nothing_known(numbers, names):
    """The numbers, with those of these names so uncertain that nothing follows from them."""
    return {**numbers, **dict.fromkeys(names, Interval(0.0, -math.inf, math.inf, 2))}


@pytest.mark.parametrize(
    ("condition", "value", "mark"),
    [
        (above("x", 0), span(0.1, 0.3), HOLDS),
        (above("x", 0), span(-0.1, 0.3), UNCERTAIN),
        (above("x", 0), span(-0.3, -0.1), FAILS),
        (above("x", 0), span(-0.3, 0.0), FAILS),
        (above("x", 0), 0.2, HOLDS),
        (below("x", 0.5), span(0.1, 0.4), HOLDS),
        (below("x", 0.5), span(0.1, 0.6), UNCERTAIN),
        (within("x", -0.2, 0.2), span(-0.1, 0.1), HOLDS),
        (within("x", -0.2, 0.2), span(-0.3, 0.1), UNCERTAIN),
        (within("x", -0.2, 0.2), span(0.3, 0.4), FAILS),
        (above("x", 0), {"estimate": 0.2, "low": 0.1, "high": 0.3, "n": 10}, HOLDS),
        (above("x", 0), Interval(math.nan, math.nan, math.nan, 0), UNCERTAIN),
    ],
)
def test_a_mark_comes_from_the_whole_interval(condition, value, mark):
    assert Claim("It is so.", condition).mark({"x": value}) == mark


def test_several_conditions_hold_together_or_not_at_all():
    both = Claim("Both.", all_of(above("a", 0), below("b", 0)))
    assert both.mark({"a": span(1, 2), "b": span(-2, -1)}) == HOLDS
    assert both.mark({"a": span(1, 2), "b": span(-2, 1)}) == UNCERTAIN
    assert both.mark({"a": span(-2, -1), "b": span(-2, 1)}) == FAILS


def test_a_difference_without_pairs_takes_the_ends_that_are_furthest_apart():
    recorded_value = {"estimate": 0.1, "low": 0.0, "high": 0.2, "n": 4}
    assert claims.unpaired(span(0.5, 0.75), recorded_value) == Interval(0.525, pytest.approx(0.3), 0.75, 4)


def test_what_was_not_measured_is_unknown_under_the_names_of_the_claims():
    listed = [Claim("One.", above("a", 0)), Claim("Two.", all_of(below("b", 0), above("a", 1)))]
    assert list(claims.unmeasured(listed)) == ["a", "b"]
    assert listed[0].mark(claims.unmeasured(listed)) == UNCERTAIN


def test_what_is_counted_lies_between_what_is_sure_and_what_is_possible():
    spans = [span(0.1, 0.3), span(-0.1, 0.3), span(-0.3, -0.1), span(-0.4, 0.2), Interval(math.nan, -9, 9, 0)]
    assert claims.counted(spans, low=0) == Interval(0.5, 0.25, 0.75, 4)
    assert claims.counted(spans, -0.2, 0.4) == Interval(0.75, 0.5, 1.0, 4)
    assert math.isnan(claims.counted(spans[4:]).estimate)


def test_a_number_that_is_not_there_is_one_sentence():
    with pytest.raises(BiaslibError, match="needs the number 'x': record it or mend the name"):
        Claim("It is so.", above("x", 0)).mark({})


def test_the_table_shows_the_marks_with_their_numbers():
    shown = claims.table(
        [Claim("It is so.", above("x", 0), paper="0.4")], record={"x": span(0.1, 0.3)}, this_run={"x": -1}
    )
    assert shown.to_dict("list") == {
        "claim": ["It is so."], "measured": ["x: above 0"], "paper": ["0.4"], "record": ["holds: 0.20 [0.10, 0.30]"],
        "this run": ["does not hold: −1.00"],
    }  # fmt: skip


def test_the_table_says_where_each_interval_must_lie():
    claim = Claim("They are so.", all_of(within("near", -0.5, 0.5), below("less", 1), above("well-known", -2)))
    shown = claims.table([claim], record=None, this_run={"near": 0, "less": 0, "well-known": 0})
    assert shown["measured"].tolist() == ["near: above −0.5 and below 0.5; less: below 1; well-known: above −2"]


def test_a_number_that_this_run_has_not_is_said():
    shown = claims.table([Claim("It is so.", above("x", 0))], record=None, this_run={"x": math.nan})
    assert shown["this run"].tolist() == ["not measured"]
    half = claims.table(
        [Claim("Both.", all_of(above("x", 0), above("y", 0)))], record=None, this_run={"x": math.nan, "y": 1}
    )
    assert half["this run"].tolist() == ["too small to tell: not measured; 1.00"]
    assert "record" not in shown


def test_a_number_of_one_model_has_no_interval():
    one = Interval(0.4, math.nan, math.nan, 1)
    shown = claims.table([Claim("It is so.", above("x", 0))], record=None, this_run={"x": one})
    assert shown[["claim", "this run"]].to_dict("list") == {
        "claim": ["It is so."],
        "this run": ["too small to tell: 0.40 (no interval)"],
    }


@pytest.mark.parametrize(("notebook", "claim"), CASES, ids=lambda each: getattr(each, "words", each))
def test_a_record_gives_every_claim_the_mark_that_was_expected(known_numbers, notebook, claim):
    numbers = known_numbers(notebook)
    assert claim.mark(numbers) == (claim.given or claim.expected)
    if claim.expected != UNCERTAIN:  # which is the mark of numbers that say nothing
        assert claim.mark(nothing_known(numbers, claim.condition.names)) != claim.expected


CLAIMED = """from biaslib.book.claims import above, Claim


def numbers(values):
    return {"n": values["n"]}


CLAIMS = [Claim("There is more than one.", above("n", 1))]
"""


def test_two_settings_stand_side_by_side(project, monkeypatch):
    monkeypatch.chdir(project.root)
    file = write_notebook(
        project, "few", "from biaslib.book import recorded\n\nrecorded.put('n', n)", parameters="n: int = 1"
    )
    with file.open("a") as page:
        page.write(f"\n```{{code-cell}} ipython3\n:tags: [claims]\n\n{CLAIMED}```\n")
    text = claims.compare(project, "few", given={"n": 2}, preset=None)
    words, before, after = text.splitlines()
    assert words == "There is more than one."
    assert before.split(": ", 1) == ["    as the page is", "does not hold: 1.00"]
    assert after.split() == ["n=2:", "holds:", "2.00"]
    with pytest.raises(BiaslibError, match="-p name=value"):
        claims.compare(project, "few", given={}, preset=None)


def test_a_notebook_without_claims_is_not_compared(project):
    write_notebook(project, "silent", "n")
    with pytest.raises(BiaslibError, match="silent states no claims of its own"):
        claims.compare(project, "silent", given={"n": 2}, preset=None)
