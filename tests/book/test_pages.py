"""The finished pages in a browser whose network ends at this machine."""

import functools
import html.parser
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.book.conftest import OF_THE_BOOK, ONE_OF_A_KIND, ROOT, RUN, slow_but_for
from tests.browsing import chromium

PAGES = ["index", *re.findall(r"file: (\S+)", (ROOT / "book" / "_toc.yml").read_text())]
# `make check-slow` opens the others as well
OPENED = {"index", "gallery", "course", "api_measuring", "bibliography"}
OPENED |= {f"_executed/{name}" for name in ONE_OF_A_KIND}
SETTLED = """
const done = arguments[0];
Promise.all(document.getAnimations().map((each) => each.finished)).finally(() => done(true));
"""  # colours on their way from one theme to the other have any contrast
DESKTOP, PHONE, PAPER = 1280, 390, 718
WIDE = 930  # pixels that a table can have on that desktop: the text and its margin
TYPESET = """
const done = arguments[0];
if (window.MathJax) MathJax.startup.promise.then(() => done(true)); else done(true);
"""
# the next picture of the page, after what has changed has been laid out
DRAWN = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(true)));"
# elements of the text that stick out and that no scrolling box holds
TOO_WIDE = """
const held = (node) => {
  for (let box = node.parentElement; box && !box.matches("article"); box = box.parentElement)
    if (getComputedStyle(box).overflowX !== "visible") return true;
  return false;
};
return [...document.querySelectorAll("article *")]
  .filter((node) => node.getBoundingClientRect().right > arguments[0] + 1 && !held(node))
  .filter((node) => getComputedStyle(node).position !== "absolute")
  .map((node) => node.outerHTML.slice(0, 120));
"""
MUTE = """
const named = (node) => {
  for (let box = node; box && box !== document.body; box = box.parentElement)
    if ((box.getAttribute("aria-label") || "").trim()) return true;
  return false;
};
return [...document.querySelectorAll("article img, article svg, article canvas")]
  .filter((node) => !((node.getAttribute("alt") || "").trim() || named(node) || node.closest("button")))
  .filter((node) => !node.matches("a:has(span) > img[alt='']"))  // a link that says in words where it leads
  .map((node) => node.outerHTML.slice(0, 120));
"""
# tables with a column out of sight, though there is an empty margin beside them
CUT_TABLES = """
return [...document.querySelectorAll(".biaslib-table .biaslib-scroll")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1 && box.clientWidth < arguments[0])
  .map((box) => box.getAttribute("aria-label"));
"""
# letters that stick out of the drawing they belong to; captions that a box around them cuts off
CUT_LETTERS = """
const outside = (text) => {
  const letters = text.getBoundingClientRect(), box = text.closest("svg").getBoundingClientRect();
  return letters.width > 0 && (letters.left < box.left - 1 || letters.right > box.right + 1);
};
const cut = (caption) => {
  const words = caption.getBoundingClientRect();
  for (let box = caption.parentElement; box; box = box.parentElement) {
    if (getComputedStyle(box).overflowX === "visible") continue;
    const edges = box.getBoundingClientRect();
    if (words.left < edges.left - 1 || words.right > edges.right + 1) return true;
  }
  return false;
};
return [...document.querySelectorAll(".biaslib-drawing svg text")].filter(outside)
  .concat([...document.querySelectorAll(".biaslib-figure figcaption")].filter(cut)).map((text) => text.textContent);
"""
# letters of drawings that are smaller than so many pixels
SMALL_LETTERS = """
return [...document.querySelectorAll(".biaslib-drawing svg text")].filter((text) => {
  const svg = text.closest("svg"), zoom = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return text.textContent.trim() && parseFloat(getComputedStyle(text).fontSize) * zoom < arguments[0];
}).map((text) => text.textContent);
"""
# the contrast of each caption with the page, as WCAG defines it
CAPTIONS = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const drawn = (...colours) => {
  for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const paper = getComputedStyle(document.body).backgroundColor;
return [...document.querySelectorAll(".biaslib-figure figcaption, .biaslib-figure caption")].map((caption) => {
  const [dark, light] = [drawn(paper, getComputedStyle(caption).color), drawn(paper)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
});
"""
# on paper nothing can be scrolled into sight
CUT_ON_PAPER = """
return [...document.querySelectorAll("article .biaslib-table table, article .biaslib-drawing svg")]
  .filter((box) => box.getBoundingClientRect().right > arguments[0] + 1).map((box) => box.outerHTML.slice(0, 120));
"""
# sliders that change nothing in their figure
STUCK = """
const look = (figure) =>
  figure.innerHTML + [...figure.querySelectorAll("canvas")].map((canvas) => canvas.toDataURL()).join();
return [...document.querySelectorAll("article figure input[type=range]")].filter((slider) => {
  const figure = slider.closest("figure"), before = look(figure);
  slider.value = slider.value === slider.max ? slider.min : slider.max;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  slider.dispatchEvent(new Event("change", {bubbles: true}));
  return look(figure) === before;
}).map((slider) => slider.outerHTML);
"""
# quizzes with an answer that says nothing, or what another says; predictions that hide no figure, or for ever
UNANSWERED = """
const mute = [];
for (const quiz of document.querySelectorAll(".exercise.quiz")) {
  const said = [...quiz.querySelectorAll("fieldset input[type=radio]")].map((radio) => {
    radio.click();
    return quiz.querySelector("[aria-live=polite]").textContent.trim();
  });
  if (said.length < 3 || said.includes("") || new Set(said).size < said.length) mute.push(quiz.id);
}
for (const box of document.querySelectorAll(".exercise.predict")) {
  const figure = document.getElementById(box.id.replace("predict-", "")), seen = () => !figure.matches(".veiled");
  const before = seen();
  box.querySelector("button").click();
  if (before || !seen()) mute.push(box.id);
}
return mute;
"""
LUMINANCE = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true}), known = {};
const light = (colour) => {
  if (colour in known) return known[colour];  // a page has hundreds of paragraphs and two or three colours
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return known[colour] = (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
};
const style = (selector) => [...document.querySelectorAll(selector)].map((node) => light(getComputedStyle(node).color));
return {paper: light(getComputedStyle(document.body).backgroundColor), ink: style("article p, .biaslib-figure")};
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="session")
def site(smoke_book) -> Path:
    if smoke_book.build.returncode:
        pytest.fail(f"the book could not be built: {smoke_book.build.stderr}", pytrace=False)
    return smoke_book.project.site


@pytest.fixture(scope="session")
def origin(site) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    folder = tmp_path_factory.mktemp("chromium")
    for chrome in chromium(f"--user-data-dir={folder}", logs=("browser", "performance")):
        chrome.set_script_timeout(60)
        chrome.get("about:blank")
        yield chrome


@pytest.fixture(scope="module", params=slow_but_for(OPENED, PAGES))
def page(request, browser, origin) -> webdriver.Chrome:
    """The browser with this page open: it is loaded once, and each test looks at it through its own screen."""
    visit(browser, f"{origin}/{request.param}.html")
    return browser


def visit(browser, address: str) -> None:
    """Opens a page, formulas set, as a reader at a desk sees it."""
    see_as(browser)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(address)
    browser.execute_async_script(TYPESET)


def see_as(browser, *, width: int = DESKTOP, theme: str = "light", medium: str = "") -> None:
    """Gives the browser a reader's screen and preference; the medium may be "print"."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    preference = {"media": medium, "features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
    browser.execute_async_script(DRAWN)


def errors(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def strangers(browser, origin: str) -> list[str]:
    """What was asked for elsewhere than at the page's own origin."""
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked
    return [address for address in asked if not address.startswith((f"{origin}/", "data:", "blob:"))]


def test_a_page_is_whole_with_no_network(page, origin):
    assert errors(page) == []
    assert strangers(page, origin) == []
    assert page.execute_script("return document.querySelectorAll('article h1').length") == 1
    assert page.execute_script(MUTE) == []
    assert page.execute_script(CUT_TABLES, WIDE) == []
    assert page.execute_script(CUT_LETTERS) == []
    formulas = page.execute_script("return [...document.querySelectorAll('article .math')].map(m => m.innerHTML)")
    assert all("<mjx-container" in formula for formula in formulas)
    assert not any("merror" in formula for formula in formulas)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_fits_a_phone_in_light_and_dark(page, theme):
    see_as(page, width=PHONE, theme=theme)
    assert page.execute_script("return document.documentElement.dataset.theme") == theme
    assert page.execute_script(TOO_WIDE, PHONE) == []
    assert page.execute_script(CUT_LETTERS) == []
    assert page.execute_script(SMALL_LETTERS, 8.9) == []
    assert all(contrast >= 7 for contrast in page.execute_script(CAPTIONS))
    assert page.execute_script("return document.documentElement.scrollWidth") <= PHONE
    seen = page.execute_script(LUMINANCE)
    assert (seen["paper"] > 0.9) if theme == "light" else (seen["paper"] < 0.1)
    assert all(abs(ink - seen["paper"]) > 0.3 for ink in seen["ink"])


def test_nothing_is_cut_on_paper(page):
    see_as(page, width=PAPER, medium="print")
    assert page.execute_script(CUT_ON_PAPER, PAPER) == []


def test_what_can_be_moved_moves(page):
    see_as(page)
    assert page.execute_script(STUCK) == []
    assert errors(page) == []


def test_what_a_page_asks_is_answered(page):
    assert page.execute_script(UNANSWERED) == []
    assert errors(page) == []


def violations(browser, theme: str) -> list[tuple[str, str]]:
    """What axe finds on the open page, with the first place of each."""
    see_as(browser, theme=theme)
    browser.execute_async_script(SETTLED)
    found = Axe().run(browser)
    assert found["passes"]
    return [(each["id"], each["nodes"][0]["html"][:200]) for each in found["violations"]]


@pytest.mark.parametrize("name", ["index", "gallery", "_executed/what_is_bias"])
def test_a_page_is_accessible_in_light(browser, origin, name):
    visit(browser, f"{origin}/{name}.html")
    assert violations(browser, "light") == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_accessible_in_light_and_dark(browser, origin, name, theme):
    browser.set_script_timeout(900)
    browser.command_executor.client_config.timeout = 900  # the page of the whole interface takes minutes
    visit(browser, f"{origin}/{name}.html")
    assert violations(browser, theme) == []


def test_a_term_says_what_it_means_when_it_is_reached(browser, origin):
    visit(browser, f"{origin}/_executed/waterbirds.html")
    term = browser.find_element(By.CSS_SELECTOR, "article .book-term")
    definition = browser.find_element(By.ID, term.get_attribute("aria-describedby"))
    assert not definition.is_displayed()
    browser.execute_script("arguments[0].focus()", term)
    assert definition.is_displayed()
    assert len(definition.text.split()) > 8


def test_a_table_is_sorted_by_the_head_of_a_column(browser, origin):
    visit(browser, f"{origin}/_executed/dial.html")
    table = browser.find_element(By.CSS_SELECTOR, "#choose table")
    column = "return [...arguments[0].tBodies[0].rows].map((row) => parseFloat(row.cells[5].dataset.value))"
    button = table.find_elements(By.CSS_SELECTOR, "thead button")[5]
    browser.execute_script("arguments[0].click()", button)
    up = [value for value in browser.execute_script(column, table) if value is not None]
    assert up == sorted(up)
    browser.execute_script("arguments[0].click()", button)
    assert [value for value in browser.execute_script(column, table) if value is not None] == up[::-1]


def test_a_page_with_a_formula_shows_it(browser, origin):
    visit(browser, f"{origin}/_executed/attention_iou.html")
    assert browser.execute_script("return document.querySelectorAll('article mjx-container').length") > 5


def test_search_finds_a_page_with_no_network(browser, origin):
    visit(browser, f"{origin}/search.html?q=waterbirds")
    found = "return [...document.querySelectorAll('#search-results li a')].map((link) => link.href)"
    wait = WebDriverWait(browser, 20)
    assert wait.until(lambda chrome: any("waterbirds" in link for link in chrome.execute_script(found)))
    assert errors(browser) == []
    assert strangers(browser, origin) == []


@pytest.mark.parametrize("name", RUN)
def test_a_chapter_has_its_notebook_to_download(site, name):
    links = references(site / "_executed" / f"{name}.html")
    downloads = [link for link in links if link.endswith(f"{name}.ipynb")]
    assert downloads
    notebook = json.loads((site / "_executed" / downloads[0]).resolve().read_text())
    assert notebook["cells"]
    assert not re.search(r"/(home|root|tmp)/", json.dumps(notebook["metadata"]))


@OF_THE_BOOK
def test_links_between_pages_lead_somewhere(smoke_book, site, pages):
    assert {*pages} <= {*smoke_book.pages}
    broken = []
    for page in sorted(site.rglob("*.html")):
        for link in references(page):
            if re.match(r"[a-z]+:", link) or not link:
                continue
            path, anchor = urldefrag(unquote(link))
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


@OF_THE_BOOK
def test_nothing_on_a_page_is_fetched_from_another_origin(smoke_book, site, pages):
    assert {*pages} <= {*smoke_book.pages}
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//[^\"]+\"", text), page.name
        assert not re.findall(r"<link[^>]+rel=\"stylesheet\"[^>]+href=\"(?:https?:)?//[^\"]+\"", text), page.name
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet.name


class Collector(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.names = [], set()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "img" and (found.get("src") or "").startswith("gallery/"):
            self.links.append(found["src"])  # drawn by a chapter, which may have changed its name
        self.names |= {found[name] for name in ("id", "name") if found.get(name)}


@functools.cache
def collected(page: Path) -> Collector:
    collector = Collector()
    collector.feed(page.read_text())
    return collector


def references(page: Path) -> list[str]:
    return collected(page).links


def anchors(page: Path) -> set[str]:
    return collected(page).names
