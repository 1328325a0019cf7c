"""A real browser for the tests of pages: Debian's chromium, driven through its own chromedriver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
# Nothing of the browser's own may go out, so that whatever does is the page's doing.
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--window-size=1360,860",
)  # fmt: skip


class Page:
    """A browser with one page, and what that page has asked for.

    Attributes:
        driver: selenium's.
    """

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, address: str) -> None:
        self.requests()
        self.driver.get(address)

    def press(self, keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(keys)

    def find(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Of the elements there are, whether in sight or not."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.driver.execute_script(script, selector)

    def wait(self, condition: Any, what: str) -> None:
        """Until `condition()` holds; `what` says what did not happen if it never does."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 20, poll_frequency=0.05).until(lambda _: condition(), what)

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        entries = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in entries if e["method"] == "Network.requestWillBeSent"]

    def errors(self) -> list[str]:
        """What the browser complained of since the last call: scripts that failed, or that a policy held back."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Skips where there is no browser."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not CHROMIUM.exists() or not DRIVER.exists():
        pytest.skip(f"no {CHROMIUM} or no {DRIVER}; on Debian: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    # With its path given, selenium looks for no driver of its own.
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield Page(driver)
    driver.quit()
