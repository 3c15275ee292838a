"""Interactive pieces in a real browser: several on one page, by mouse and keyboard, on a phone, with no complaint."""

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from biaslib import figures
from tests.browsing import chromium

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
SCORE = np.arange(15, dtype=float).reshape(3, 5) / 20


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    maps = RNG.random((3, 5, 4, 4))
    masks = np.zeros((5, 16, 16), dtype=bool)
    masks[:, 4:9, 4:9] = True
    pieces = [
        figures.explorer(
            IMAGES, maps, settings=["50 %", "90 %", "100 %"], masks=masks, table={"score": SCORE}, alt="A"
        ),
        figures.explorer(IMAGES[:2], maps[:2, :2], settings=["50 %", "90 %"], alt="B"),
        figures.dial(np.stack([IMAGES, IMAGES[::-1]]), ["0", "1"], notes=["none", "all"], alt="C"),
        figures.map_editor(name="first"),
        figures.map_editor(name="second"),
        figures.show(figures.contact_sheet(IMAGES, columns=5), alt="F"),
    ]
    path = tmp_path_factory.mktemp("page") / "page.html"
    head = '<!doctype html><html data-theme="dark"><meta charset="utf-8"><meta name="viewport" content="width=390">'
    path.write_text(head + "".join(piece.html for piece in pieces), encoding="utf-8")
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    return browser


def figure(page, alt):
    return page.find_element(By.CSS_SELECTOR, f'figure[aria-label="{alt}"]')


def pixels(page, canvas):
    return page.execute_script("return arguments[0].toDataURL()", canvas)


def test_all_pieces_start_and_none_complains(page):
    started = page.find_elements(By.CSS_SELECTOR, "figure[data-ready]")
    editor = figures.map_editor().alt
    assert [one.get_attribute("aria-label") for one in started] == ["A", "B", "C", editor, editor]
    assert not page.find_elements(By.CSS_SELECTOR, ".biaslib-fallback")
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_nothing_is_wider_than_a_phone(page):
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390


def test_the_explorer_answers_to_slider_buttons_and_checkbox(page):
    one = figure(page, "A")
    canvas = one.find_element(By.CSS_SELECTOR, ".biaslib-stage canvas")
    slider = one.find_elements(By.CSS_SELECTOR, "input[type=range]")[0]
    value = lambda: one.find_element(By.CSS_SELECTOR, ".biaslib-readout .biaslib-number").text  # noqa: E731
    assert value() == "0.00"
    seen = {pixels(page, canvas)}
    slider.send_keys(Keys.ARROW_RIGHT)
    assert slider.get_attribute("aria-valuetext") == "90 %"
    assert value() == f"{SCORE[1, 0]:.2f}"
    seen.add(pixels(page, canvas))
    one.find_element(By.CSS_SELECTOR, '[aria-label="previous image"]').click()
    assert "image 5" in canvas.get_attribute("aria-label")
    assert value() == f"{SCORE[1, 4]:.2f}"
    seen.add(pixels(page, canvas))
    one.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    seen.add(pixels(page, canvas))
    assert len(seen) == 4
    one.find_elements(By.CSS_SELECTOR, ".biaslib-strip button")[1].send_keys(Keys.ENTER)
    assert value() == f"{SCORE[1, 1]:.2f}"


def test_two_explorers_do_not_hear_each_other(page):
    other = figure(page, "B")
    assert other.find_element(By.CSS_SELECTOR, "output").text == "50 %"
    assert other.find_element(By.CSS_SELECTOR, ".biaslib-piece-title").text == "image 1 (1 of 2)"
    assert "image 1" in other.find_element(By.CSS_SELECTOR, "canvas").get_attribute("aria-label")


def test_the_dial_changes_pictures_and_note(page):
    one = figure(page, "C")
    canvas = one.find_element(By.CSS_SELECTOR, "canvas")
    before = pixels(page, canvas)
    one.find_element(By.CSS_SELECTOR, "input").send_keys(Keys.ARROW_RIGHT)
    assert one.find_element(By.CSS_SELECTOR, ".biaslib-note").text == "all"
    assert pixels(page, canvas) != before
    assert one.find_element(By.CSS_SELECTOR, "[role=img]").get_attribute("aria-label") == "C bias: 1."


def press(one, name):
    one.find_element(By.XPATH, f'.//button[normalize-space()="{name}"]').click()


def test_the_editor_scores_presets_paint_and_the_empty_map(page):
    one = page.find_element(By.ID, "first")
    score = lambda: one.find_element(By.CSS_SELECTOR, ".biaslib-score").text  # noqa: E731
    verdicts = lambda: [row.text for row in one.find_elements(By.CSS_SELECTOR, "tbody td:last-child")]  # noqa: E731
    for preset, expected in (
        ("one blob, twice", "1.000"),
        ("disjoint", "0.000"),
        ("one cell of a mask", "0.333"),
        ("b is empty", "undefined"),
    ):
        press(one, preset)
        assert score() == expected
    assert verdicts() == ["✓ holds"] + ["undefined"] * 4
    press(one, "two blobs")
    before = score()
    assert verdicts() == ["✓ holds"] * 5
    press(one, "a × 3")
    press(one, "upsample both × 2")
    assert len(one.find_elements(By.CSS_SELECTOR, "[role=gridcell]")) == 2 * 14 * 14
    assert score() == before
    press(one, "shifted by one")
    before = score()
    cell = one.find_element(By.CSS_SELECTOR, "[role=gridcell]")  # row 1, column 1 of map a
    cell.send_keys(Keys.ARROW_DOWN)
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert page.switch_to.active_element.get_attribute("aria-label") == "row 2, column 1: 1.00"
    assert float(score()) < float(before)
    page.switch_to.active_element.send_keys(Keys.DELETE)
    assert score() == before
    one.find_elements(By.CSS_SELECTOR, "[role=gridcell]")[48].click()
    assert float(score()) < float(before)
    assert len(page.find_elements(By.CSS_SELECTOR, "#second [role=gridcell]")) == 2 * 49


def test_still_no_complaint(page):
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


# letters of a figure that its scrolling box cuts off
CUT_LETTERS = """
return [...document.querySelectorAll(".biaslib-scroll svg text")].filter((text) => {
  const letters = text.getBoundingClientRect(), box = text.closest(".biaslib-scroll").getBoundingClientRect();
  return letters.left < box.left - 1 || letters.top < box.top - 1 || letters.bottom > box.bottom + 1;
}).map((text) => text.textContent);
"""


def test_no_label_of_a_figure_is_cut_on_a_phone(browser, tmp_path):
    shares = pd.DataFrame(
        [
            {"setting": f"{share} %, worst-group accuracy", "score": share / 200, "low": 0.1, "high": 0.6, "n": 3}
            for share in (50, 90, 100)
        ]
    )
    drawn = figures.dot_plot(shares, label="setting", value="score", low="low", high="high", n="n", x_label="score")
    head = '<!doctype html><html><meta charset="utf-8"><meta name="viewport" content="width=390">'
    (tmp_path / "page.html").write_text(head + figures.show(drawn, alt="H").html, encoding="utf-8")
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get((tmp_path / "page.html").as_uri())
    assert browser.execute_script("return document.querySelectorAll('svg text').length") > 5
    assert browser.execute_script(CUT_LETTERS) == []
