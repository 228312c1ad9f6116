"""Browser actions shared by several test files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pybroker.client import Uuid
from tests.console.chromium import Chromium


def remove_after_its_id_was_typed(
    browser: Chromium, address: str, data_dir: Path, topic_id: Uuid, *, done: str
) -> None:
    """Remove the data of a deleted or unknown topic on the page of deletions. First type a wrong id, which must change
    nothing. done: the text of the page afterwards."""

    def is_on_disk() -> bool:
        return any((data_dir / "deleting").glob(f"{topic_id.hex}_*"))

    def submit(typed: str, answer: str) -> None:
        browser.click("table details summary")
        browser.type("table input[name=typed]", typed)
        browser.click("table button.danger")
        browser.until(lambda: answer in browser.text, answer)

    browser.until(is_on_disk, "the data of the topic on disk")
    page = f"{address}/deletions?q={topic_id}"
    browser.until(_opened(browser, page, "table details"), "the topic on the page")
    submit(str(Uuid.random()), "The text differs from the id. Nothing was changed.")
    assert is_on_disk()
    submit(str(topic_id), done)
    browser.until(lambda: not is_on_disk(), "the end of the data")


def _opened(browser: Chromium, page: str, selector: str) -> Callable[[], bool]:
    """Return whether the page, loaded again each time, has such an element."""

    def look() -> bool:
        browser.open(page)
        return bool(browser.all(selector))

    return look
