"""Kafka Streams with group.protocol=streams: its topics get made, its tasks are shared out, moved and copied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.groups.kit import create_topic, unique
from tests.streams.kit import QUICK, Counts, Instance, say, until
from tests.support.brokers import PybrokerProcess

TASKS = frozenset({"a0_0", "a0_1", "a1_0", "a1_1"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(Path(tmp_path_factory.mktemp("streams")), QUICK)
    broker.start()
    yield broker
    broker.stop()


def test_an_application_counts_words_and_goes_on_after_a_crash(broker: PybrokerProcess, tmp_path: Path) -> None:
    topics = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 2)
    application = unique("words")
    say(broker.bootstrap, topics[0], ["to be or not", "to be"])
    with (
        Instance(broker.bootstrap, application, topics, tmp_path) as instance,
        Counts(broker.bootstrap, topics[1]) as counts,
    ):
        counts.reach({"to": 2, "be": 2, "or": 1, "not": 1}, instance)
        until(lambda: instance.tasks == TASKS, "it runs all tasks", instance)
        broker.restart(crash=True)
        say(broker.bootstrap, topics[0], ["that is", "to be"])
        counts.reach({"to": 3, "be": 3, "or": 1, "not": 1, "that": 1, "is": 1}, instance)
        instance.stop()
