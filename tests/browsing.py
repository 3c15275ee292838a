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
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def chromium() -> Iterator[webdriver.Chrome]:
    """A browser without a network; where there is none the test is skipped, in continuous integration it fails."""
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
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()
