"""A deleted topic's room is had back in the console, after its id was typed; and its history shows that."""

from __future__ import annotations

from tests.conftest import StartBroker
from tests.console.chromium import Chromium
from tests.console.console_process import console
from tests.topic_ids.lives import Lives, until


def test_a_deleted_topic_is_purged_after_its_id_was_typed(browser: Chromium, start_broker: StartBroker) -> None:
    broker = start_broker()
    lives = Lives(broker.port)
    topic_id = lives.create("heavy")
    lives.produce("heavy", "x" * 1_000)
    lives.delete("heavy")

    def aside() -> bool:
        return any((broker.data_dir / "deleting").glob(f"{topic_id.hex}_*"))

    until(aside)
    with console(broker.bootstrap) as address:
        browser.open(f"{address}/deletions?q=heavy")
        browser.click("table details summary")
        browser.type("table input[name=typed]", "heavy")
        browser.click("table button.danger")
        browser.until(lambda: "What you typed is not the id: nothing was done." in browser.text)
        assert aside()
        browser.click("table details summary")
        browser.type("table input[name=typed]", str(topic_id))
        browser.click("table button.danger")
        browser.until(lambda: "The data is being removed on every broker." in browser.text)
        until(lambda: not aside())
        browser.open(f"{address}/topics/heavy/history")
        whats = [cell.text for cell in browser.all("tbody tr td:nth-child(2)")]
        assert whats == ["purged", "deleted", "created"]
