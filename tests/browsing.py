"""Chromium, for tests that look at a page as its readers do."""

import os
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver

SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def chromium(*switches: str, logs: tuple[str, ...] = ("browser",)) -> Iterator[webdriver.Chrome]:
    """A browser whose network ends at this machine. Without one a test is skipped; in continuous integration it fails.

    Args:
        switches: further ones.
        logs: kept of what it says, all levels.
    """
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        if os.environ.get("CI"):
            pytest.fail(
                "chromium and chromedriver are not installed: .ci/run installs them from Debian's packages",
                pytrace=False,
            )
        pytest.skip("chromium or its driver is not installed, see CONTRIBUTING.md; where CI is set this fails")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in (*SWITCHES, *switches):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()
