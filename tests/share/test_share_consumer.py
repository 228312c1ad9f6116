"""Kafka's own share consumer reads the produced records once, although the broker dies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.client import AcknowledgeType
from pybroker.client.blocking import ShareConsumer
from tests.groups.kit import create_topic, delete_topic, fill, unique
from tests.share.kit import WAIT_S, accepted, reader, seen, set_group
from tests.support.brokers import PybrokerProcess
from tests.support.kafka_tools import run_tool

SETTINGS = {"share.coordinator.state.topic.num.partitions": "3"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PybrokerProcess]:
    broker = PybrokerProcess(Path(tmp_path_factory.mktemp("share")), SETTINGS)
    broker.start()
    yield broker
    broker.stop()


def _group(broker: PybrokerProcess) -> str:
    group = unique("share")
    set_group(broker.port, group, {"share.auto.offset.reset": "earliest"})
    return group


def test_what_was_acknowledged_is_not_given_again_after_a_crash(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 2)
    fill(broker.bootstrap, topic, 2, 50, "before")
    first = accepted(seen(reader(broker.bootstrap, group, topic, 100)))
    assert len(first) == 100
    assert set(first.values()) == {1}
    broker.restart(crash=True)
    fill(broker.bootstrap, topic, 2, 50, "after")
    second = accepted(seen(reader(broker.bootstrap, group, topic, 100)))
    assert len(second) == 100
    assert not second.keys() & first.keys()


def test_what_was_released_comes_again_and_what_was_rejected_does_not(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    fill(broker.bootstrap, topic, 1, 20)
    records = seen(reader(broker.bootstrap, group, topic, 20, how="release-odd"))
    assert Counter((one.what, one.deliveries) for one in records) == {
        ("ACCEPT", 1): 10,
        ("RELEASE", 1): 10,
        ("ACCEPT", 2): 10,
    }
    fill(broker.bootstrap, topic, 1, 20, "more")
    rejected = seen(reader(broker.bootstrap, group, topic, 10, how="reject-odd"))
    assert Counter(one.what for one in rejected) == {"ACCEPT": 10, "REJECT": 10}
    fill(broker.bootstrap, topic, 1, 5, "last")
    assert len(accepted(seen(reader(broker.bootstrap, group, topic, 5)))) == 5


def test_what_a_killed_member_had_goes_to_another(broker: PybrokerProcess) -> None:
    """The records are delivered again at once, because the killed member's connection is closed."""
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    fill(broker.bootstrap, topic, 1, 10)
    first = reader(broker.bootstrap, group, topic, 10, how="none", ms=WAIT_S * 1000)
    assert first.stdout is not None
    assert first.stdout.readline().split() == ["seen", "0", "0", "1"]
    first.kill()
    first.wait()
    records = seen(reader(broker.bootstrap, group, topic, 10))
    assert sorted((one.offset, one.deliveries) for one in records) == [(offset, 2) for offset in range(10)]


def test_a_topic_of_the_same_name_begins_anew(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    fill(broker.bootstrap, topic, 1, 30, "old")
    assert len(accepted(seen(reader(broker.bootstrap, group, topic, 20, max_poll_records="10")))) >= 20
    delete_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, 1, topic)
    fill(broker.bootstrap, topic, 1, 30, "new")
    records = seen(reader(broker.bootstrap, group, topic, 30))
    assert [(one.offset, one.deliveries) for one in records] == [(offset, 1) for offset in range(30)]
    assert all(one.value.startswith("new") for one in records)


def test_an_aborted_transaction_is_not_given(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    set_group(broker.port, group, {"share.isolation.level": "read_committed"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique("id")})
    producer.init_transactions(WAIT_S)
    for name, end in (("no", producer.abort_transaction), ("yes", producer.commit_transaction)):
        producer.begin_transaction()
        for index in range(5):
            producer.produce(topic, f"{name}{index}")
        end(WAIT_S)
    assert accepted(seen(reader(broker.bootstrap, group, topic, 5))) == {f"yes{index}": 1 for index in range(5)}


def test_a_group_says_how_often_a_record_is_given(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    set_group(broker.port, group, {"share.delivery.count.limit": "2"})
    fill(broker.bootstrap, topic, 1, 3)
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    given: list[tuple[int, int]] = []
    with ShareConsumer(config) as consumer:
        consumer.subscribe(topic)
        for record in consumer:
            given.append((record.offset, consumer.delivery_count(record)))
            if len(given) == 7:
                break
            consumer.acknowledge(record, AcknowledgeType.RELEASE)
            if len(given) == 6:
                consumer.commit()
                fill(broker.bootstrap, topic, 1, 1, "next")
    assert sorted(given[:6]) == [(offset, count) for offset in range(3) for count in (1, 2)]
    assert given[6] == (3, 1)


def test_records_that_are_on_disk_only_are_given(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    fill(broker.bootstrap, topic, 1, 200)
    for segment in broker.data_dir.glob(f"**/{topic}-0/*.log"):
        with segment.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert len(accepted(seen(reader(broker.bootstrap, group, topic, 200)))) == 200


def test_kafkas_tool_lists_describes_and_sets_groups(broker: PybrokerProcess) -> None:
    group, topic = _group(broker), create_topic(broker.bootstrap, 1)
    fill(broker.bootstrap, topic, 1, 10)
    assert len(accepted(seen(reader(broker.bootstrap, group, topic, 10)))) == 10
    fill(broker.bootstrap, topic, 1, 3)

    def tool(*arguments: str) -> list[list[str]]:
        lines = run_tool("kafka-share-groups", ["--bootstrap-server", broker.bootstrap, *arguments]).splitlines()
        return [line.split() for line in lines]

    assert [group] in tool("--list")
    assert any(row[:4] == [group, topic, "0", "10"] for row in tool("--describe", "--group", group))
    tool("--reset-offsets", "--to-earliest", "--topic", topic, "--group", group, "--execute")
    assert any(row[:4] == [group, topic, "0", "0"] for row in tool("--describe", "--group", group))
    again = seen(reader(broker.bootstrap, group, topic, 13))
    assert [one.deliveries for one in again] == [1] * 13
    tool("--delete-offsets", "--topic", topic, "--group", group)
    assert not any(topic in row for row in tool("--describe", "--group", group))
    tool("--delete", "--group", group)
    assert [group] not in tool("--list")
