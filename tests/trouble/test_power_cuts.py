"""A power cut loses no acknowledged record, duplicates none and revives none: one partition, 200 partitions whose small
appends share the journal's flushes, rolled segments, and a topic that is deleted and re-created meanwhile."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.acknowledged import Writer, violations
from tests.clients.api import Received
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.delivered import offset_and_value
from tests.support.disks import LoopDisk
from tests.trouble.traffic import PATIENCE_S, create, missing, read, send

PARTITIONS = {"one": 1, "many": 200, "small": 2}


def cut_power(broker: BrokerProcess, disk: LoopDisk | None) -> None:
    """Cut the power of the disk. First send SIGKILL: from then on no running call returns to the broker. ext4 sometimes
    reports success for an fdatasync that the cut overtakes; a running broker would acknowledge data that is not on the
    disk. The cut follows at once: a dying process does not sync. Without a disk that can lose its power, only the
    process is killed."""
    os.kill(broker.pid, signal.SIGKILL)
    if disk:
        disk.cut()
    broker.kill()
    if disk:
        disk.reboot()


def wait_for_progress(broker: BrokerProcess, writers: list[Writer], more: int) -> None:
    goals = [writer.count + more for writer in writers]
    give_up = time.monotonic() + PATIENCE_S
    while any(writer.count < goal for writer, goal in zip(writers, goals, strict=True)):
        assert time.monotonic() < give_up, f"writers do not get on\n{broker.log_tail()}"
        time.sleep(0.01)


def delete(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topic], request_timeout=30)[topic].result(PATIENCE_S)


class RecreatedTopic:
    """A topic name whose topic is created, filled and deleted again and again."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._life = 0
        self._acknowledged: dict[int, bytes] = {}
        self._begin()

    def _begin(self) -> None:
        create(self._broker, "again")
        self._life += 1
        self._acknowledged = {}

    def go_on(self) -> None:
        values = [b"life %d, record %d" % (self._life, number) for number in range(10)]
        sent = send(self._broker, "again", 0, values)
        assert not sent.refused
        self._acknowledged |= sent.acknowledged

    def live_again(self) -> None:
        delete(self._broker, "again")
        self._begin()

    def check(self) -> None:
        found = read(self._broker, "again", 0)
        assert not missing(self._acknowledged, found)
        assert all(value.startswith(b"life %d," % self._life) for value in found.values()), "of another life"


def cycles(broker: BrokerProcess, disk: LoopDisk | None, count: int, seed: int) -> None:
    chance = random.Random(seed)
    for topic, partitions in PARTITIONS.items():
        create(broker, topic, partitions, segment_bytes=1 << 20 if topic == "small" else 1 << 30)
    writers = [
        Writer(broker.bootstrap, topic, partitions, f"w-{topic}", "lz4" if topic == "small" else "none")
        for topic, partitions in PARTITIONS.items()
    ]
    again = RecreatedTopic(broker)
    for _ in range(count):
        wait_for_progress(broker, writers, chance.randrange(100, 1000))
        again.go_on()
        if chance.random() < 0.5:
            again.live_again()
            again.go_on()
        time.sleep(chance.random() * 0.05)
        cut_power(broker, disk)
        broker.start()
        again.check()
    wait_for_progress(broker, writers, 100)
    for history in [writer.finish() for writer in writers]:
        wrong = violations(read_all(broker, history.topic), [history])
        assert not wrong, f"seed {seed}: {len(wrong)} violations, first {wrong[:10]}"
    broker.stop()


def read_all(broker: BrokerProcess, topic: str) -> list[Received]:
    """Return all records of all partitions, in the order of each partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "error", "log_level": 0})
    left = set(range(PARTITIONS[topic]))
    found = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        give_up = time.monotonic() + PATIENCE_S
        while left:
            assert time.monotonic() < give_up, f"the ends of {left} were not reached"
            message = consumer.poll(1.0)
            if message is None:
                continue
            problem, partition = message.error(), message.partition()
            assert partition is not None
            if problem is None:
                offset, value = offset_and_value(message)
                found.append(Received(partition, offset, None, value.decode()))
            elif problem.code() == KafkaError._PARTITION_EOF:
                left.discard(partition)
            else:
                assert problem.retriable(), f"{topic}-{partition}: {problem}"
    finally:
        consumer.close()
    return found


def directory(disk: LoopDisk | None, folder: Path) -> dict[str, str]:
    return {"log.dirs": str((disk.path if disk else folder) / "data")}


@pytest.mark.checklist("C2")
@pytest.mark.timeout(600)
def test_ten_power_cuts_lose_nothing(disk: LoopDisk | None, start_broker: StartBroker, tmp_path: Path) -> None:
    cycles(start_broker(directory(disk, tmp_path)), disk, 10, seed=1)


@pytest.mark.slow
@pytest.mark.checklist("C2")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 8))
def test_three_hundred_power_cuts_lose_nothing(
    disk: LoopDisk | None, start_broker: StartBroker, tmp_path: Path, seed: int
) -> None:
    """There are fifty for each seed."""
    cycles(start_broker(directory(disk, tmp_path)), disk, 50, seed)
