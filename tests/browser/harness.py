"""A real browser without a window, which opens a page and notes whatever goes wrong in it."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import needs

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-quic",
)
_WATCH = """
window.noted = [];
addEventListener("securitypolicyviolation", (event) =>
  noted.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
addEventListener("error", (event) => noted.push(`error: ${event.message}`));
addEventListener("unhandledrejection", (event) => noted.push(`rejected: ${event.reason}`));
for (const name of ["alert", "confirm", "prompt"]) {
  window[name] = () => noted.push(name);
}
"""
_SETTLED = """
const panel = document.getElementById("what-if-panel");
const lengths = document.querySelector("[data-chart=lengths] p[aria-live]");
return document.readyState === "complete"
  && (panel === null || document.getElementById("what-if-summary").textContent !== "")
  && (lengths === null || lengths.textContent !== "");
"""


class Keys:
    """Keys, by their codes in the WebDriver standard."""

    ENTER = "\ue006"
    ESCAPE = "\ue00c"
    SPACE = "\ue00d"
    TAB = "\ue004"
    HOME = "\ue011"
    END = "\ue010"
    PAGE_UP = "\ue00e"
    PAGE_DOWN = "\ue00f"
    ARROW_LEFT = "\ue012"
    ARROW_UP = "\ue013"
    ARROW_RIGHT = "\ue014"
    ARROW_DOWN = "\ue015"


class Page:
    """A page in the browser.

    Attributes:
        driver: of the browser, by Selenium.
        address: of the page.
    """

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address

    def js(self, script: str, *arguments: object) -> Any:
        """What a function body returns, or what its promise is fulfilled with."""
        return self.driver.execute_script(script, *arguments)

    def cdp(self, command: str, **parameters: object) -> Any:
        """What a command of the browser's debugger returns."""
        return self.driver.execute_cdp_cmd(command, parameters)

    def wait(self, script: str, *arguments: object, seconds: float = 30) -> None:
        """Wait until a function body returns something true."""
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(self.driver, seconds, poll_frequency=0.05)
        waiting.until(lambda _: self.js(script, *arguments), f"never true: {script}")

    def frame(self) -> None:
        """Wait until the page has drawn what has changed."""
        self.js("return new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def find(self, selector: str) -> Any:
        """The first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """The text of an element, shown or not."""
        found: str = self.js("return document.querySelector(arguments[0]).textContent", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements of a selector, on one line each."""
        script = (
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((each) => each.textContent.trim().replace(/\\s+/gu, ' '))"
        )
        found: list[str] = self.js(script, selector)
        return found

    def press(self, *keys: str) -> None:
        """Press keys, whatever has the focus."""
        for key in keys:
            self._actions().send_keys(key).perform()

    def point(self, selector: str) -> None:
        """Move the pointer over an element."""
        self._actions().move_to_element(self.find(selector)).perform()

    def drag(self, selector: str, across: int) -> None:
        """Drag an element by some pixels to the right."""
        self._actions().drag_and_drop_by_offset(self.find(selector), across, 0).perform()

    def _actions(self) -> Any:
        from selenium.webdriver import ActionChains

        return ActionChains(self.driver)

    def focus(self, selector: str) -> None:
        """Give an element the focus."""
        self.js("document.querySelector(arguments[0]).focus()", selector)

    def noted(self) -> list[str]:
        """Exceptions, violations of the policy and dialogs since the last call."""
        found: list[str] = self.js("return (window.noted ?? []).splice(0)")
        return found

    def look(
        self, *, width: int = 1000, height: int = 900, scheme: str = "light", media: str = ""
    ) -> None:
        """Show the page as on a screen of some size, in a colour scheme, or printed."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", media=media, features=features)
        self.frame()


class Browser:
    """A browser that opens one page at a time."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        # Printing takes the focus away, without which a page is given no focus events.
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})

    @contextmanager
    def page(
        self, file: Path, *, width: int = 1000, scheme: str = "light", script: bool = True
    ) -> Iterator[Page]:
        """Open a file; at the end, nothing must have gone wrong, or been asked of a network."""
        page = Page(self._driver, file.resolve().as_uri())
        self._driver.get("about:blank")
        self._empty_logs()
        page.look(width=width, scheme=scheme)
        page.cdp("Emulation.setScriptExecutionDisabled", value=not script)
        try:
            self._driver.get(page.address)
            if script:
                page.wait(_SETTLED)
            yield page
            if script:
                page.frame()
            assert page.noted() == []
            assert self.severe() == []
            assert self.requests(page.address) == []
        finally:
            page.cdp("Emulation.setScriptExecutionDisabled", value=False)

    def _empty_logs(self) -> None:
        for kind in ("browser", "performance"):
            self._driver.get_log(kind)

    def severe(self) -> list[str]:
        """Errors in the console since the last call."""
        entries = self._driver.get_log("browser")
        return [each["message"] for each in entries if each["level"] == "SEVERE"]

    def requests(self, address: str) -> list[str]:
        """Addresses that the page has asked for since the last call, other than its own."""
        found = []
        for entry in self._driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url.partition("#")[0] != address and not url.startswith(("data:", "blob:")):
                    found.append(url)
        return found


@contextmanager
def started_browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it.

    The test is skipped without a browser and Selenium, or fails where BATCHSTAT_TEST_ALL is set.
    """
    webdriver = needs("selenium.webdriver")
    service = needs("selenium.webdriver.chrome.service")
    binary = next(filter(None, map(shutil.which, _NAMES)), None)
    chromedriver = shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        words = f"{' or '.join(_NAMES)}, and chromedriver, are not all installed"
        if os.environ.get("BATCHSTAT_TEST_ALL"):
            pytest.fail(words)
        pytest.skip(words)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With both paths given, Selenium looks for no driver to download.
    driver = webdriver.Chrome(options=options, service=service.Service(chromedriver))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
