"""What is asked of learners, and the pages for teachers: complete, and of what the book has."""

import base64
import re
from pathlib import Path

import pytest
import yaml
from axe_core_python.selenium import Axe
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from biaslib.book import Project, site
from book import pages
from tests.book.conftest import HEADER, NOTEBOOKS, ROOT
from tests.browsing import chromium

BOOK, STATIC = ROOT / "book", ROOT / "book" / "_static"
TEXTS = {name: (ROOT / "notebooks" / f"{name}.md").read_text(encoding="utf-8") for name in NOTEBOOKS}
BLOCK = re.compile(r"^(:{3,}|`{3,})\{(exercise|solution)[\w-]*\}[^\n]*\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"^\*(\d+) minutes\.", re.MULTILINE)
GUIDE = (BOOK / "instructor.md").read_text(encoding="utf-8")


def exercises(kind: str) -> dict[str, tuple[str, str]]:
    """Label -> page and text of each exercise of a class."""
    found = {}
    for name, text in TEXTS.items():
        for _, _, body in BLOCK.findall(text):
            if f":class: {kind}\n" in body:
                label = re.search(r"^:label: (\S+)$", body, re.MULTILINE)[1]
                assert label not in found
                found[label] = (name, re.sub(r"^:\w+:.*\n", "", body, flags=re.MULTILINE).strip())
    return found


QUIZZES, PREDICTIONS = exercises("quiz"), exercises("predict")
LABELS = {label for text in TEXTS.values() for label in re.findall(r"^:label: (\S+)$", text, re.MULTILINE)}


# what each chapter teaches


def test_the_table_of_objectives_says_what_the_heads_say():
    table = site.objectives(Project(ROOT))
    rows = {re.search(r"_executed/(\w+)`", line)[1]: line for line in table.splitlines() if line.startswith("| {doc}")}
    with_head = [name for name in NOTEBOOKS if HEAD.search(TEXTS[name])]
    assert set(rows) == set(with_head)
    for name, row in rows.items():
        _, _, can, minutes, needs, _ = row.split("|")
        assert minutes.strip() == HEAD.search(TEXTS[name])[1]
        assert re.search(rf"\*\*After this (page|lab) you can\*\* {re.escape(can.strip())}", TEXTS[name])
        assert re.sub(r"\{doc\}`([^<]+) <[^>]+>`", r"\1", needs.strip()) in re.sub(r"\]\([^)]+\)|\[", "", TEXTS[name])
        assert "](" not in needs


def test_a_chapter_without_a_head_has_no_row(project):
    project.notebooks.mkdir(exist_ok=True)
    (project.notebooks / "old.md").write_text(HEADER + "# Old\n\n*7 minutes.* It says no more.\n")
    contents = "format: jb-book\nroot: index\nparts:\n  - caption: P\n    chapters:\n      - file: _executed/old\n"
    (project.book / "_toc.yml").write_text(contents)
    assert site.objectives(project) == ""


# quizzes


def test_there_are_fifteen_quizzes():
    assert len(QUIZZES) == 15
    assert all(label.startswith("quiz-") for label in QUIZZES)


@pytest.mark.parametrize("label", QUIZZES)
def test_a_quiz_has_one_right_answer_and_a_reason_for_each(label):
    question, answers = QUIZZES[label][1].split("\n\n")  # two paragraphs, and nothing else
    assert question.endswith("?")
    found = [re.fullmatch(r"- \[([ x])\] ([^*]+[.?]) \*([^*`]+\.)\*", line) for line in answers.splitlines()]
    assert None not in found
    assert len(found) >= 3
    marks, words, reasons = zip(*(each.groups() for each in found), strict=True)
    assert [mark == "x" for mark in marks].count(True) == 1
    assert [reason.startswith("Right") for reason in reasons] == [mark == "x" for mark in marks]
    assert len(set(words)) == len(set(reasons)) == len(found)


# predictions


def test_there_are_eight_predictions():
    assert len(PREDICTIONS) == 8


@pytest.mark.parametrize("label", PREDICTIONS)
def test_a_prediction_stands_before_its_figure_and_ends_with_a_number_of_the_run(label):
    page, text = PREDICTIONS[label]
    figure = f'name="{label.removeprefix("predict-")}"'
    assert 0 < TEXTS[page].index(f":label: {label}\n") < TEXTS[page].index(figure)
    question, answer = text.split("\n\n")
    assert "?" in question
    number = re.search(r"\{glue:text\}`(\w+)`", answer)[1]
    # no sentence above has given it away
    assert f"`{number}`" not in TEXTS[page][: TEXTS[page].index(f":label: {label}\n")]


# exercises that run a chapter anew


def test_a_command_in_an_exercise_keeps_the_page_and_says_how_long_it_takes():
    commands = []
    for name, text in TEXTS.items():
        if not HEAD.search(text):
            continue  # a chapter in the first edition's shape
        for _, _, body in BLOCK.findall(text):
            commands += [(name, found[0]) for found in re.finditer(r"`biaslib run [^`]+`[^`]{0,60}", body)]
    assert len(commands) > 12
    assert [each for each in commands if " --out " not in each[1]] == []
    assert [each for each in commands if not re.search(r"\([^)]*(second|minute)", each[1])] == []


# the pages for teachers


def test_each_misconception_is_exposed_by_an_item_of_the_book():
    table = GUIDE[GUIDE.index("## Twelve misconceptions") :]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 12
    for row in rows:
        first = re.findall(r"<([\w-]+)>", row.split("|")[2])
        assert first, row
        assert set(re.findall(r"<([\w-]+)>", row)) <= LABELS, row
        labs = re.findall(r"`(lab-(\d)-\w+)`", row)
        assert {label for label, number in labs if f"lab_{number}" in TEXTS} <= LABELS, row


def test_every_quiz_and_every_label_of_the_guide_is_in_the_book():
    named = set(re.findall(r"\{ref\}`[^<`]+ <([\w-]+)>`", GUIDE))
    assert named <= LABELS
    assert set(QUIZZES) <= named


def test_each_session_has_its_parts_and_its_ninety_minutes():
    sessions = re.findall(r"^## Session \d: .*?(?=^## )", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(sessions) == 4
    for text in sessions:
        for part in ("**Purpose.**", "**Before.**", "**Prompts**", "**What goes wrong.**"):
            assert part in text
        assert sum(int(minutes) for minutes in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)) == 90
        assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) == 3
        assert re.search(r"lab \d, \*", text, re.IGNORECASE)


def test_the_guide_says_how_long_its_chapters_take():
    timed = yaml.safe_load((ROOT / "notebooks" / "seconds.yml").read_text(encoding="utf-8"))
    said = {name: int(seconds) for name, seconds in re.findall(r"`(\w+)` \((\d+) s\)", GUIDE)}
    run = {name for line in re.findall(r"`(biaslib build [^`]+)`", GUIDE) for name in re.findall(r"--only (\w+)", line)}
    assert run == set(said)
    assert all(0.5 * timed[name] <= seconds <= 2 * timed[name] for name, seconds in said.items())


def test_the_deck_has_the_figures_that_are_predicted():
    shown = re.findall(r'src="gallery/(\w+?)-([a-z-]+)\.svg" alt="[^"]{30,}"', (BOOK / "deck.md").read_text())
    assert {(page, f"predict-{name}") for page, name in shown} == {(page, at) for at, (page, _) in PREDICTIONS.items()}


# in a browser

PAGE = """<!doctype html><html lang="en"><head><title>A page</title><style>{style}</style></head><body><main>
<h1>A page</h1>{quiz}
<div class="exercise predict admonition" id="predict-board"><p class="admonition-title">Exercise</p><section>
<p>How many?</p><p>In the record <span class="pasted-text">17 of 100</span>.</p></section></div>
<figure id="board"><p>The figure.</p></figure></main><script>{script}</script></body></html>"""
ITEM = '<li class="task-list-item"><p><input class="task-list-item-checkbox"{} disabled type="checkbox"> {}</p></li>\n'
QUIZ = (
    '<div class="exercise quiz admonition" id="quiz-a"><p class="admonition-title">Exercise</p><section><p>Which?</p>'
    f'<ul class="contains-task-list simple">{ITEM.format("", "One. <em>No.</em>")}'
    f"{ITEM.format(' checked', 'Two. <em>Right, two.</em>')}</ul></section></div>"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    for chrome in chromium(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        chrome.set_script_timeout(60)
        yield chrome


@pytest.fixture
def small_page(tmp_path: Path) -> str:
    """A quiz and a prediction with the book's script and style, as the book makes them."""
    style, script = (STATIC.joinpath(f"course.{kind}").read_text() for kind in ("css", "js"))
    file = tmp_path / "page.html"
    file.write_text(pages.asked(PAGE.format(style=style, script=script, quiz=QUIZ)), encoding="utf-8")
    return file.as_uri()


def test_a_quiz_answers_the_keyboard(browser, small_page):
    browser.get(small_page)
    radios = browser.find_elements(By.CSS_SELECTOR, "#quiz-a fieldset input[type=radio]")
    said = browser.find_element(By.CSS_SELECTOR, "#quiz-a [aria-live=polite]")
    assert browser.find_element(By.CSS_SELECTOR, "#quiz-a legend").text == "Which?"
    assert said.text == ""
    radios[0].send_keys(Keys.SPACE)
    assert (said.text, said.get_attribute("class")) == ("No.", "quiz-why wrong")
    radios[0].send_keys(Keys.ARROW_DOWN)
    assert radios[1].is_selected()
    assert (said.text, said.get_attribute("class")) == ("Right, two.", "quiz-why right")
    assert Axe().run(browser)["violations"] == []


def test_a_figure_waits_for_a_guess_but_not_on_paper(browser, small_page):
    browser.get(small_page)
    figure = browser.find_element(By.CSS_SELECTOR, "#board p")
    assert not figure.is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert figure.is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    slider, answer = (
        browser.find_element(By.CSS_SELECTOR, f"#predict-board {each}") for each in ("input", "p[hidden]")
    )
    slider.send_keys(Keys.ARROW_RIGHT)
    guess, _ = browser.find_elements(By.CSS_SELECTOR, "#predict-board button")
    guess.send_keys(Keys.ENTER)
    assert figure.is_displayed()
    assert answer.text == "You said 51 of 100. In the record 17 of 100."
    assert browser.switch_to.active_element == answer
    places = browser.execute_script(
        "return [...document.querySelectorAll('.predict-scale span')].map(e => e.style.left)"
    )
    assert places == ["51%", "17%"]
    assert Axe().run(browser)["violations"] == []


def test_a_figure_is_shown_to_those_who_only_look_and_to_those_who_follow_a_link(browser, small_page):
    browser.get("about:blank")
    browser.get(f"{small_page}#board")
    assert browser.find_element(By.CSS_SELECTOR, "#board p").is_displayed()
    browser.get("about:blank")
    browser.get(small_page)
    browser.find_elements(By.CSS_SELECTOR, "#predict-board button")[1].click()
    assert browser.find_element(By.CSS_SELECTOR, "#board p").is_displayed()
    assert browser.find_elements(By.CSS_SELECTOR, ".predict-scale") == []


def test_without_scripts_everything_can_be_read(browser, small_page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get("about:blank")
    browser.get(small_page)
    assert browser.find_element(By.CSS_SELECTOR, "#board p").is_displayed()
    assert "17 of 100" in browser.find_element(By.ID, "predict-board").text
    answers = browser.find_elements(By.CSS_SELECTOR, "#quiz-a summary")
    answers[1].send_keys(Keys.ENTER)
    assert browser.find_element(By.ID, "quiz-a").text.split("\n")[-2:] == ["Two.", "Right, two."]
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_of_the_deck_each_question_is_printed_on_a_sheet_of_its_own_and_nothing_else(browser, tmp_path):
    css = "".join((STATIC / f"{name}.css").read_text() for name in ("book", "course"))
    figure = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 3"><rect width="4" height="3"/></svg>'
    (tmp_path / "tall.svg").write_text(figure)
    sheet = "<section><h2>A question</h2><p>It is asked.</p>"
    sheet += '<figure class="book-slide"><img src="tall.svg" alt="A figure."></figure><p>Look at it.</p></section>'
    contents = '<style>@media print { .onlyprint { display: block !important; } }</style><div id="jb-print-docs-body"'
    page = f'<html data-theme="light"><style>{css}</style><body>{contents} class="onlyprint"><h1>Contents</h1></div>'
    page += f'<article class="bd-article"><section><h1>A deck</h1><p>Print.</p>{3 * sheet}</section></article></body>'
    (tmp_path / "deck.html").write_text(f"<!doctype html>{page}</html>")
    browser.get((tmp_path / "deck.html").as_uri())
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    boxes = re.findall(rb"/MediaBox \[0 0 (\d+)[\d.]* (\d+)", printed)
    assert boxes == [(b"841", b"594")] * 3  # A4, landscape


def test_what_every_page_carries_is_small():
    assert sum(len(STATIC.joinpath(f"course.{kind}").read_text().splitlines()) for kind in ("css", "js")) <= 200
    assert STATIC.joinpath("course.js").stat().st_size < 4_000
