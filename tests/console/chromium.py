"""A real headless Chromium, driven by selenium with Debian's own driver."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from axe_selenium_python import Axe  # type: ignore[import-untyped]
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1360,900",
)
WAIT_S = 60.0
"""Time limit for immediate conditions; only a failure reaches it."""


def program(*names: str) -> str:
    """Return the first of these programs that is installed."""
    found = next(filter(None, map(shutil.which, names)), None)
    assert found is not None, f"missing: {names[0]} (Debian/Ubuntu: apt install chromium chromium-driver)"
    return found


class Chromium:
    """A browser with its own profile. Use it as a context manager."""

    def __init__(self, *flags: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        options = Options()
        options.binary_location = program("chromium", "chromium-browser", "google-chrome")
        for flag in (*FLAGS, *flags, f"--user-data-dir={self._profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(program("chromedriver")))
        self.driver.set_page_load_timeout(WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.driver.quit()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self.driver.get(address)

    @property
    def text(self) -> str:
        """Return the visible text of the page."""
        return self.one("body").text

    @property
    def path(self) -> str:
        """Return the path of the browser's address."""
        return "/" + self.driver.current_url.split("/", 3)[3]

    def one(self, selector: str) -> WebElement:
        """Return the first element for a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements for a CSS selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def type(self, selector: str, text: str) -> None:
        """Replace the content of a field."""
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def click(self, selector: str) -> None:
        """Click a button or a link."""
        self.one(selector).click()

    def press(self, *keys: str) -> None:
        """Press keys in the element with the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        """Return the text or label of the element with the focus."""
        script = "const e = document.activeElement; return e.innerText || e.name || e.id || e.tagName"
        return str(self.script(script)).strip()

    def script(self, text: str, *arguments: Any) -> Any:
        """Return the result of a script in the page."""
        return self.driver.execute_script(text, *arguments)

    def until(self, condition: Callable[[], Any], what: str = "the page") -> Any:
        """Wait until a condition holds."""
        give_up = time.monotonic() + WAIT_S
        while True:
            try:
                found = condition()
            except Exception:
                # A page that is being replaced has no elements.
                found = None
            if found:
                return found
            assert time.monotonic() < give_up, f"waited in vain for {what}; the page says: {self.text[:2000]}"
            time.sleep(0.05)

    def complaints(self) -> list[str]:
        """Return messages of the browser's console: script errors, and requests that the policy blocked."""
        entries = (each for each in self.driver.get_log("browser") if each["level"] in ("SEVERE", "WARNING"))
        # Ignore error statuses of pages: a page with an error has one.
        return [each["message"] for each in entries if "the server responded with a status of" not in each["message"]]

    def first_paint_ms(self) -> float:
        """Return the milliseconds from the request to the first thing on the screen."""
        entries = self.until(
            lambda: self.script("return performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)"),
            "the first paint",
        )
        return float(entries[0])

    def violations(self) -> list[str]:
        """Return violations of WCAG 2.1 AA and of axe-core's best practice."""
        axe = Axe(self.driver)
        axe.inject()
        # This version of axe-core knows neither autocomplete="off" of a search field nor a div around dt and dd; HTML
        # allows both.
        rules = {"autocomplete-valid": {"enabled": False}, "dlitem": {"enabled": False}}
        found = axe.run(options=json.dumps({"rules": rules}))["violations"]
        return [f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found]

    @contextlib.contextmanager
    def width(self, pixels: int) -> Iterator[None]:
        """Make the window as narrow as a phone's; a desktop window cannot be that narrow."""
        size = {"width": pixels, "height": 740, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def screenshot(self, path: Path, width: int, height: int) -> None:
        """Return a PNG of the upper left part of the page."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
        path.write_bytes(base64.b64decode(shot["data"]))


TAB = Keys.TAB
ENTER = Keys.ENTER
