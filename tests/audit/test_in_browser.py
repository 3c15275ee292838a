"""The report in a real browser without a network: nothing loads, nothing complains, everybody can read it."""

import pandas as pd
import pytest
from axe_core_python.selenium import Axe

from biaslib import audit
from tests.audit.subjects import PLAIN, both
from tests.browsing import chromium


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


@pytest.fixture
def report(spots, tmp_path, store_of_the_module, browser):
    audit.run(
        model=both(), data=spots / "images", labels=spots / "labels.csv", target="green", groups=["red", "random"],
        masks=spots / "masks", unwanted=["spot"], train_labels=spots / "labels.csv", output=0, group_outputs=[1, 1],
        out=tmp_path / "out", permutations=19, **PLAIN,
    )  # fmt: skip
    browser.get((tmp_path / "out" / "report.html").as_uri())
    return browser


def wide(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return browser.execute_script("return document.documentElement.scrollWidth")


@pytest.fixture
def several(spots, tmp_path, browser):
    """A report on two targets by their scores, with combinations of groups."""
    labels = pd.read_csv(spots / "labels.csv").assign(dark=lambda table: table.index % 3 == 0)
    said = labels[["file"]].assign(green=labels["red"] * 0.8, red=labels["green"] * 0.6 + labels["red"] * 0.3)
    audit.run(
        labels=labels, predictions=said, target=["green", "red"], groups=["random", "dark"], intersections=True,
        threshold=0.5, out=tmp_path / "out", permutations=19,
    )  # fmt: skip
    browser.get((tmp_path / "out" / "report.html").as_uri())
    return browser


@pytest.mark.parametrize("kind", ["report", "several"])
def test_the_report_is_whole_accessible_and_fits_every_screen(kind, request):
    report = request.getfixturevalue(kind)
    assert report.get_log("browser") == []
    assert report.execute_script("return performance.getEntriesByType('resource').length") == 0
    images = "return [...document.querySelectorAll('image')].every(i => i.getAttribute('href').startsWith('data:'))"
    assert report.execute_script(images)
    for width in (1600, 1280, 390):
        assert wide(report, width) <= width
        if width > 1000:
            # no column of any table is out of sight
            cut = """return [...document.querySelectorAll('.biaslib-scroll')].filter(b => b.scrollWidth > b.clientWidth)
                     .map(b => b.getAttribute('aria-label') + b.scrollWidth + ' of ' + b.clientWidth)"""
            assert report.execute_script(cut) == []
    for scheme in ("light", "dark"):
        preferred = {"media": "", "features": [{"name": "prefers-color-scheme", "value": scheme}]}
        report.execute_cdp_cmd("Emulation.setEmulatedMedia", preferred)
        found = Axe().run(report)
        assert found["passes"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == []


def test_it_prints(report):
    pages = report.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.3, "paperHeight": 11.7})["data"]
    assert len(pages) > 10_000
    report.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        # on paper nothing can be scrolled into sight
        assert wide(report, 718) <= 718
        cut = "return [...document.querySelectorAll('.biaslib-scroll')].filter(b => b.scrollWidth > 719).length"
        assert report.execute_script(cut) == 0
        # however long a column's name is
        named = "document.querySelectorAll('.biaslib-table tbody th').forEach(each => each.textContent = arguments[0])"
        report.execute_script(named, "perceived_as_annotated_" * 6)
        assert wide(report, 718) <= 718
    finally:
        report.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
