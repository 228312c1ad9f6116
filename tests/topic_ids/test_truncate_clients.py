"""A topic is truncated under an idempotent producer and a consumer that keep running."""

from __future__ import annotations

import time

import confluent_kafka as ck
import pytest

from tests.clients.acknowledged import Writer
from tests.support.brokers import BrokerProcess
from tests.topic_ids.lives import Lives, until

PATIENCE_S = 120.0
TURNS = 3


class Reader:
    """A consumer of one partition without a group, and the records that it has read: (offset, value) in order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = ck.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reads-on",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
        self.found: list[tuple[int, str]] = []

    def poll(self) -> None:
        """Poll once; an error that the client reports in between is not final."""
        for message in self._consumer.consume(500, 0.1):
            if message.error() is None:
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                self.found.append((offset, value.decode()))

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.checklist("U2", "R4", "R5", "A30")
@pytest.mark.parametrize("keep", [False, True])
def test_producer_and_consumer_go_on(broker: BrokerProcess, keep: bool) -> None:
    lives = Lives(broker.port)
    topic = f"running-{keep}"
    lives.create(topic)
    writer = Writer(broker.bootstrap, topic, 1, "w", "none")
    reader = Reader(broker.bootstrap, topic)
    old = []
    try:
        for _ in range(TURNS):
            acknowledged, read = len(writer.history.acknowledged), len(reader.found)
            give_up = time.monotonic() + PATIENCE_S
            while len(writer.history.acknowledged) < acknowledged + 500 or len(reader.found) < read + 500:
                assert time.monotonic() < give_up, (
                    f"{len(writer.history.acknowledged) - acknowledged} more acknowledged, "
                    f"{len(reader.found) - read} more read, failures {dict(writer.history.failed)}"
                )
                reader.poll()
            result = lives.truncate(topic, keep_offsets=keep)
            assert result.error_code == 0
            old.append(result.old_topic_id)
        acknowledged = len(writer.history.acknowledged)
        until(lambda: len(writer.history.acknowledged) > acknowledged + 500, "the producer goes on")
    finally:
        history = writer.finish()
    # No send failed, and the last incarnation is read from its first record to its last.
    assert dict(history.failed) == {}
    start, end = lives.ends(topic)
    last = list(zip(range(start, end), lives.read(topic, start), strict=True))
    give_up = time.monotonic() + PATIENCE_S
    while not reader.found or reader.found[-1] != last[-1]:
        assert time.monotonic() < give_up
        reader.poll()
    reader.close()
    assert reader.found[-len(last) :] == last

    # Each acknowledged record is at its offset in one of the incarnations, and each incarnation is in order.
    logs = [last]
    for number, topic_id in enumerate(old):
        assert lives.undelete(topic_id, f"{topic}-{number}").error_code == 0
        name = f"{topic}-{number}"
        start, end = lives.ends(name)
        logs.append(list(zip(range(start, end), lives.read(name, start), strict=True)))
    everywhere = {(offset, value.split(":")[1]) for log in logs for offset, value in log}
    assert {(offset, str(number)) for (_, number), offset in history.acknowledged.items()} <= everywhere
    for log in logs:
        numbers = [int(value.split(":")[1]) for _, value in log]
        assert numbers == sorted(set(numbers))
    if keep:
        offsets = [offset for offset, _ in reader.found]
        assert offsets == sorted(set(offsets))
