"""A person purges a deleted topic in the console after typing its id, which frees the space; the topic's history shows
the purge."""

from __future__ import annotations

from tests.conftest import StartBroker
from tests.console.chromium import Chromium
from tests.console.console_process import console
from tests.console.kit import remove_after_its_id_was_typed
from tests.topic_ids.lives import Lives


def test_a_deleted_topic_is_purged_after_its_id_was_typed(browser: Chromium, start_broker: StartBroker) -> None:
    broker = start_broker()
    lives = Lives(broker.port)
    topic_id = lives.create("heavy")
    lives.produce("heavy", "x" * 1_000)
    lives.delete("heavy")
    with console(broker.bootstrap) as address:
        said = "All brokers are removing the data."
        remove_after_its_id_was_typed(browser, address, broker.data_dir, topic_id, done=said)
        browser.open(f"{address}/topics/heavy/history")
        whats = [cell.text for cell in browser.all("tbody tr td:nth-child(2)")]
        assert whats == ["purged", "deleted", "created"]
