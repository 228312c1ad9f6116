"""A disk that does not respond for a while: partitions on other disks continue, no record is acknowledged before it is
on disk, and no record is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conftest import StartBroker
from tests.support.disks import StallingDisk, can_mount
from tests.trouble.traffic import Sent, create, missing, read, send

ROUNDS = 5
PATIENCE_MS = 240_000
"""How long a record waits for the disk: longer than all other steps can take."""
TOPICS = [f"topic-{number}" for number in range(6)]


@pytest.mark.timeout(600)
@pytest.mark.checklist("C21", "R19")
def test_a_stalled_disk_holds_up_its_own_partitions_only(start_broker: StartBroker, tmp_path: Path) -> None:
    if not can_mount():
        # Without the right to mount, native/server/tests/slow_disk.rs delays a log in another way.
        return
    disk = StallingDisk(tmp_path / "stalling", 64)
    try:
        healthy, slow = tmp_path / "healthy", disk.path / "data"
        # One data thread serves all clients: if it waited, all of them would.
        broker = start_broker({"log.dirs": f"{healthy},{slow}", "num.network.threads": "1"})
        for topic in TOPICS:
            create(broker, topic)
        on_slow = [topic for topic in TOPICS if (slow / f"{topic}-0").exists()]
        on_healthy = [topic for topic in TOPICS if topic not in on_slow]
        assert on_slow
        assert on_healthy
        sent: dict[str, Sent] = {topic: send(broker, topic, 0, [b"before"]) for topic in TOPICS}
        disk.stall()
        stuck = {topic: Sent() for topic in on_slow}

        def write_to(topic: str) -> None:
            values = [b"during %d" % number for number in range(5)]
            waits = ("message.timeout.ms", "request.timeout.ms", "socket.timeout.ms")
            stuck[topic] = send(broker, topic, 0, values, **dict.fromkeys(waits, PATIENCE_MS))

        writers = [threading.Thread(target=write_to, args=(topic,)) for topic in on_slow]
        for writer in writers:
            writer.start()
        # The disk stops until these requests have their responses: a request that waited for it would hang forever.
        for _ in range(ROUNDS):
            for topic in on_healthy:
                more = send(broker, topic, 0, [b"meanwhile"])
                assert not more.refused
                sent[topic].acknowledged.update(more.acknowledged)
                assert AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
        assert all(writer.is_alive() for writer in writers), "nothing is acknowledged by a disk that does not answer"
        disk.go_on()
        for writer in writers:
            writer.join()
        for topic in on_slow:
            assert not stuck[topic].refused
            sent[topic].acknowledged.update(stuck[topic].acknowledged)
            assert len(sent[topic].acknowledged) == 6
        for topic in TOPICS:
            assert not missing(sent[topic].acknowledged, read(broker, topic, 0))
        broker.kill()
        broker.start()
        for topic in TOPICS:
            assert not missing(sent[topic].acknowledged, read(broker, topic, 0))
        broker.kill()
    finally:
        disk.close()
