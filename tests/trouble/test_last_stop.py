"""A start reports that the broker had ended unexpectedly, and reports nothing after a clean stop."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import StartBroker
from tests.topic_ids.lives import until


def test_a_start_after_an_unclean_stop_says_so(start_broker: StartBroker, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    broker = start_broker({"log.dirs": f"{first},{second}"})

    def told() -> list[str]:
        lines = broker.console.read_text().splitlines()
        return [line.partition("] ")[2] for line in lines if "clean stop" in line]

    assert told() == [], "new directories"
    broker.restart()
    assert told() == []
    broker.restart(crash=True)
    expected = [
        f"INFO {directory} was not closed by a clean stop; checking its logs from their recovery points "
        "(pybroker.broker.lifecycle.app)"
        for directory in (first, second)
    ]
    until(lambda: told() == expected)
    broker.restart()
    assert len(told()) == 2, "a clean stop again"
