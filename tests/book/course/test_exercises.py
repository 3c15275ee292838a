"""Every exercise: the answer is right, the stub is open, each wrong answer hears its own sentence, and mutants fail."""

import json
import re
import time
import warnings

import pytest
import yaml

from biaslib.book import lab
from biaslib.book.course import checks
from biaslib.errors import BiaslibError
from tests.book.course.conftest import BOOK, LABS, codes, exercises, heard, ran, run_in, source
from tests.book.course.mutants import mutants
from tests.book.test_words import HOUSE_WORDS, crowded, prose, typed_results

EXERCISES = [pytest.param(*each, id=each[1]) for each in exercises()]
WRONG = [
    pytest.param(name, label, cell.metadata.tags[1], cell.source, id=f"{label}-{cell.metadata.tags[1]}")
    for name in LABS
    for label, cell in lab.tagged(source(name), "wrong")
]
# other right answers: what is asked for can be had in more than one way
SURVIVORS = {
    ("lab-1-gap", "another number, in line 4"),  # says waterbird for the small birds
    ("lab-1-cancel", "another comparison, in line 4"),  # turns the other half of the birds
    ("lab-2-reason", "sum for mean, in line 4"),  # counts in another unit
    ("lab-3-permute", "another comparison, in line 6"),  # takes the two values in the other order
    ("lab-3-wins", "ones_like for zeros_like, in line 4"),  # always says laptop
}
SECONDS = yaml.safe_load((BOOK.notebooks / "seconds.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "label", "answer", "check"), EXERCISES)
def test_the_answer_is_right(defined, name, label, answer, check):
    assert heard(check, lab.solved(answer, label), defined(name)) is None


@pytest.mark.parametrize(("name", "label", "misconception", "answer"), WRONG)
def test_a_wrong_answer_hears_its_own_sentence(defined, name, label, misconception, answer):
    check = dict(lab.tagged(source(name), "check"))[label].source
    sentence = heard(check, answer, defined(name))
    assert sentence is not None
    assert sentence.misconception == misconception
    assert str(sentence)[0].isupper()
    assert str(sentence).endswith((".", "?"))
    assert not re.search(r"[{}]|nan|float64", str(sentence))
    assert sentence._render_traceback_() == [f"Not yet. {sentence}"]


def test_each_exercise_has_two_wrong_answers_and_each_sentence_one_that_hears_it():
    tried = {(each.values[1], each.values[2]) for each in WRONG}
    sentences = {label: set(own) - {"right"} for label, own in checks.TEXTS.items() if label != "any"}
    assert tried == {(label, name) for label, own in sentences.items() for name in own}
    assert min(map(len, sentences.values())) >= 2
    assert set(sentences) == set(checks._CHECKS) == {each.values[1] for each in EXERCISES}
    words = [sentence for own in checks.TEXTS.values() for sentence in own.values()]
    assert len(words) == len(set(words))


def test_at_least_nine_mutants_in_ten_are_caught(defined):
    survived, count = set(), 0
    for name, label, answer, check in exercises():
        for what, mutant in mutants(answer):
            count += 1
            try:
                with warnings.catch_warnings(action="ignore"):  # an undefined number is a wrong one
                    caught = heard(check, mutant, defined(name)) is not None
            except Exception:  # whatever the mutant itself raises is seen, too
                caught = True
            survived |= set() if caught else {(label, what)}
    assert count > 60
    assert survived == SURVIVORS
    assert len(survived) <= 0.1 * count


@pytest.mark.parametrize("name", LABS)
def test_in_the_students_notebook_stubs_are_open_and_nothing_else_fails(defined, name):
    defined(name)  # what it trains is in the store
    student, names, open_exercises = lab.for_readers(source(name), answer=lab.stub), {}, set()
    for code in codes(student):
        try:
            run_in(names, code)
        except NotImplementedError as error:
            open_exercises.add(str(error).split(":")[0])
    assert open_exercises == {label for label, _ in lab.tagged(source(name), "answer")}


@pytest.mark.parametrize("name", LABS)
def test_no_line_of_an_answer_no_wrong_answer_and_no_note_is_in_the_students_notebook(name):
    student = json.dumps(lab.copy_of(BOOK, name))
    code = "\n".join(codes(lab.copy_of(BOOK, name)))
    for _, cell in lab.tagged(source(name), "answer"):
        solution = lab._SOLUTION.search(cell.source)[2]
        assert [line for line in solution.splitlines() if line.strip() and line in code.splitlines()] == []
    for _, cell in lab.tagged(source(name), "wrong"):
        assert cell.source.rstrip() not in code
    assert "SOLUTION" not in student
    assert "instructor" not in student
    assert "For the teacher" not in student
    assert "biaslib run" not in student  # it would write the answers
    assert all(
        note.strip()[:60] not in student for cell in source(name).cells for note in lab._NOTE.findall(cell.source)
    )


@pytest.mark.parametrize("name", LABS)
def test_a_lab_keeps_its_time(name):
    text = (BOOK.notebooks / f"{name}.md").read_text(encoding="utf-8")
    whole = int(re.search(r"^\*(\d+) minutes\. Needs", text, re.MULTILINE)[1])
    each = [int(minutes) for minutes in re.findall(r"^\*(\d+) minutes\. Predict first: ", text, re.MULTILINE)]
    assert len(each) == len(lab.tagged(source(name), "answer"))
    assert sum(each) < whole == 40
    assert SECONDS[name] <= 20


def test_a_lab_of_arrays_runs_in_seconds(defined):
    started = time.process_time()
    for name in ("lab_3", "lab_4"):
        ran(*codes(lab.for_readers(source(name))))
    assert time.process_time() - started < 10


@pytest.mark.parametrize("name", LABS)
def test_a_lab_is_in_plain_english(name):
    text = prose(name)
    assert typed_results(text) == []
    assert crowded(text) == []
    assert [word for word in HOUSE_WORDS if re.search(rf"\b{re.escape(word)}\b", text.lower())] == []


def test_a_page_shows_the_stub_and_folds_the_answer_below_the_exercise():
    page = lab.for_readers(source("lab_1"))
    lab.as_page(page)
    code = "\n".join(codes(page))
    assert "raise NotImplementedError" in code
    assert "on_water, on_land" not in code
    (folded,) = [cell.source for cell in page.cells if "{solution} lab-1-effect" in cell.source]
    assert folded.index("{exercise-end}") < folded.index("{solution}") < folded.index("on_water, on_land")
    assert not lab.tagged(page, "wrong")
    assert "instructor" not in json.dumps(page)


def test_data_are_the_same_each_time():
    seen = []

    def spy(heat, mask):
        seen.append(heat)
        return 0.0

    for _ in range(2):
        with pytest.raises(checks.NotYet, match=r"^Your answer is 0, but [\d.]+ is right"):
            checks.check("lab-2-flat", spy)
    assert (seen[0] == seen[1]).all()


@pytest.mark.parametrize("label", checks._CHECKS)
def test_a_forgotten_return_is_said(label):
    with pytest.raises(checks.NotYet, match="gives back nothing: does it end with `return`"):
        checks.check(label, lambda *_: None)


def test_each_of_two_answers_is_a_probability():
    with pytest.raises(checks.NotYet):
        checks.check("lab-1-cancel", lambda table: table["background"] * 3.0 - 1)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda first, second: first, r"has the shape \(4, 50\), but the shape \(\) is asked for"),
        (lambda first, second: float("nan"), "Your answer is nan, but 0.5"),
    ],
)
def test_what_is_no_answer_is_said(answer, sentence):
    with pytest.raises(checks.NotYet, match=sentence):
        checks.check("lab-2-unit", answer)


def test_an_exercise_that_there_is_not_is_named():
    with pytest.raises(BiaslibError, match="the exercise must be one of lab-1-effect"):
        checks.check("lab-9", lambda: None)


def test_a_right_answer_hears_what_it_has_shown(capsys):
    checks.check("lab-1-gap", lambda table: table["waterbird"] * (table["scale"] > 0.5) * 1.0)
    assert capsys.readouterr().out.startswith("lab-1-gap: right. Statement 2 is true and statement 3 is not: the acc")
