"""The records that coordinators write into internal topics are those of Apache Kafka: its own classes read both logs.

For each key, both brokers write the same values in the same order. Ids and times differ, and the order of list elements
has no meaning.

Differs from Kafka:
- Kafka writes a classic group without a generation when it creates it; pybroker writes its first generation.
- While a share group deletes the state of a topic, pybroker keeps the partitions in the record, because the topic may
  no longer exist.
- A share partition stores its start offset with every write, and the batches after it. Kafka moves the start offset
  one write later. The tests compare the last write.
- Kafka resolves regular expressions asynchronously, in an epoch of its own, and replaces a returning static member in
  two steps. The tests compare the last values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka import test_consumer_groups as consumer_groups
from tests.against_kafka import test_share_groups as share_groups
from tests.against_kafka import test_streams_groups as streams_groups
from tests.against_kafka import test_transactions as transactions
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.stored_records import TOPICS, as_kafka_reads, raw_records
from tests.groups.kit import create_topic, unique, until
from tests.groups.requests import commit, consumer_beat, consumer_join, delete_offsets, join, leave, owned, sync
from tests.streams.member import StreamsMember, subtopology
from tests.support.brokers import BrokerProcess

LEAVES, GOES_AWAY = -1, -2
PREPARE_ABORT = 3
TIMES = re.compile(r"timestamp(ms)?$", re.IGNORECASE)
OTHER_PRODUCERS = ("previousProducerId", "nextProducerId")
GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Key = tuple[str, int, str]
"""Coordinator, key type, and the rest of the key as JSON."""
Log = dict[Key, list[Any]]
"""Key → its values (version and content) in order; None: a tombstone."""


def delete_group(side: Side, name: str) -> None:
    side.quietly(m.DeleteGroupsRequest(groups_names=[name]), 2)


def consumer_group(side: Side, name: str) -> None:
    """Two members, of which one revokes partitions. Both leave, and the group is deleted."""
    topic = side.topic(name, 4)
    first, _ = consumer_groups.settled(side, name, topic, "one", subscribed_topic_names=[name], rack_id="rack")
    second = side.quietly(consumer_join(name, "two", name, server_assignor="range"), 1).member_epoch
    side.quietly(consumer_beat(name, "one", first), 1)
    side.quietly(consumer_beat(name, "two", second), 1)
    # Confirm the revocation.
    first = side.quietly(consumer_beat(name, "one", first, topic_partitions=owned(topic, 0, 1)), 1).member_epoch
    second, _ = consumer_groups.settled(side, name, topic, "two", second, subscribed_topic_names=None)
    side.quietly(commit(name, name, {0: 5}, first, "one", metadata="m"), 9)
    side.quietly(consumer_beat(name, "one", LEAVES), 1)
    # Kafka computes the next target assignment with the next heartbeat.
    reads = {"topic_partitions": owned(topic, 2, 3)}
    consumer_groups.settled(side, name, topic, "two", second, subscribed_topic_names=None, **reads)
    side.quietly(consumer_beat(name, "two", LEAVES), 1)
    side.quietly(delete_offsets(name, name, 0), 0)
    delete_group(side, name)


def static_member(side: Side, name: str) -> None:
    topic = side.topic(name, 2)
    side.quietly(consumer_join(name, "one", name, instance_id="static"), 1)
    consumer_groups.settled(side, name, topic, "one", 2, subscribed_topic_names=None)
    side.quietly(consumer_beat(name, "one", GOES_AWAY, instance_id="static"), 1)


def static_member_returns(side: Side, name: str) -> None:
    static_member(side, name)
    side.quietly(consumer_join(name, "one", name, instance_id="static"), 1)


def static_member_returns_with_another_id(side: Side, name: str) -> None:
    static_member(side, name)
    side.quietly(consumer_join(name, "two", name, instance_id="static"), 1)


def regular_expression(side: Side, name: str) -> None:
    side.topic(name, 2)
    side.until(
        lambda: consumer_join(name, "one", subscribed_topic_names=None, subscribed_topic_regex=f"{name}.*"),
        1,
        lambda answer: bool(answer.assignment and answer.assignment.topic_partitions),
    )


def regular_expression_ends(side: Side, name: str) -> None:
    regular_expression(side, name)
    side.quietly(consumer_beat(name, "one", LEAVES), 1)


def classic_group(side: Side, name: str) -> None:
    side.topic(name, 1)
    member = side.know(side.quietly(join(name, topic=name), 9).member_id, "member")
    side.quietly(join(name, member, name), 9)
    side.quietly(sync(name, member, 1, {member: b"a"}), 5)
    side.quietly(commit(name, name, {0: 5}, 1, member), 9)
    side.quietly(leave(name, member), 5)
    delete_group(side, name)


def share_group(side: Side, name: str) -> None:
    share_groups.deliveries(side, name)


def share_group_ends(side: Side, name: str) -> None:
    share_group(side, name)
    delete_group(side, name)


def streams_group(side: Side, name: str) -> None:
    """Two members, of which one revokes tasks. Both leave, and the group is deleted."""

    def port() -> int:
        return side.broker.port

    topics = f"{name}-lines", f"{name}-other"
    for topic in topics:
        create_topic(side.broker.bootstrap, 4, topic)
    probe = StreamsMember(port, f"{name}-probe", "one", [subtopology("0", sources=topics)])
    until(lambda: not probe.beat().status, "the topics are known")
    probe.leave()
    streams_groups.two_share(port, name, topics, streams_groups.Responses())
    delete_group(side, name)


def expected_log(found: Log) -> Log:
    """Remove what differs: see the module."""
    expected: Log = {}
    for key, values in found.items():
        coordinator, kind, _ = key
        if (coordinator, kind) == ("share", 1):
            expected[key] = [value for value in values[-1:] if value]
            continue
        kept = [value for value in values if not _differs(coordinator, kind, value)]
        expected[key] = [value for at, value in enumerate(kept) if not at or value != kept[at - 1]]
    return expected


def _differs(coordinator: str, kind: int, value: Any) -> bool:
    if value is None or coordinator != "group":
        return False
    _, content = value
    return (kind == 2 and content["generation"] == 0) or (kind == 15 and bool(content["deletingTopics"]))


def last_values(found: Log, kinds: set[int]) -> Log:
    return {key: values[-1:] for key, values in found.items() if key[1] in kinds}


def log_of(broker: BrokerProcess, name: str) -> tuple[Log, list[int]]:
    """Return what the coordinators of a broker wrote about the groups and transactional ids whose name begins with
    `name`, and the types of the tombstones of whole groups in order."""
    # Kafka creates the topic for share groups with the first of them.
    raw = [record for topic in TOPICS for record in raw_records(broker.bootstrap, topic)]
    log: Log = {}
    ends: list[int] = []
    for (coordinator, _, _), record in zip(raw, as_kafka_reads(raw), strict=True):
        assert record.get("complete"), record
        key = record["key"]
        who = next(key[field] for field in ("groupId", "group", "transactionalId") if field in key)
        if not who.startswith(name) or who.startswith(f"{name}-probe"):
            continue
        place = coordinator, record["type"], json.dumps(comparable(key), sort_keys=True)
        value = None if record["version"] is None else (record["version"], comparable(record["value"]))
        log.setdefault(place, []).append(value)
        if value is None and list(key) in (["groupId"], ["group"]):
            ends.append(record["type"])
    return log, ends


def comparable(value: Any, name: str = "") -> Any:
    """Return the content of a record without ids, times and the order of lists."""
    if isinstance(value, dict):
        found = {field: comparable(content, field) for field, content in value.items()}
        if value.get("transactionPartitions") == [] and value["transactionStatus"] == PREPARE_ABORT:
            # An abort without a transaction starts a new one.
            found["starts now"] = value["transactionStartTimestampMs"] == value["transactionLastUpdateTimestampMs"]
        found |= {
            field: "the same" if value[field] == value["producerId"] else "another"
            for field in OTHER_PRODUCERS
            if field in value
        }
        return found
    if isinstance(value, list):
        return sorted((comparable(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
    if name == "topicId":
        return "an id"
    if name == "metadataHash":
        return bool(value)
    if TIMES.search(name) or name in ("producerId", "version"):
        return value >= 0
    return GENERATED.sub("generated", value) if isinstance(value, str) else value


def differences(ours: Log, kafkas: Log) -> Iterator[str]:
    for key in ours | kafkas:
        if ours.get(key) != kafkas.get(key):
            yield f"{key}:"
            yield from (f"  pybroker     {value}" for value in ours.get(key, []))
            yield from (f"  Apache Kafka {value}" for value in kafkas.get(key, []))


def told(both: Iterable[BrokerProcess], story: Story) -> list[tuple[Log, list[int]]]:
    """Run a story against both brokers; return both logs."""
    name = unique("story")
    logs = []
    for broker in both:
        side = Side(broker)
        try:
            story(side, name)
        finally:
            side.close()
        logs.append(log_of(broker, name))
    return logs


CONSUMER, SHARE, STREAMS = {3, 5, 6, 7, 8}, {*range(10, 16)}, {17, *range(19, 24)}


@pytest.mark.parametrize(
    ("story", "types"),
    [
        (consumer_group, {("group", kind) for kind in {1, 4, *CONSUMER}}),
        (classic_group, {("group", 1), ("group", 2)}),
        (share_group_ends, {*(("group", kind) for kind in SHARE), ("share", 0), ("share", 1)}),
        (streams_group, {("group", kind) for kind in {1, *STREAMS}}),
        (transactions.version_1, {("transaction", 0)}),
        (transactions.version_2, {("transaction", 0)}),
    ],
)
def test_records_are_those_of_kafka(both: list[BrokerProcess], story: Story, types: set[tuple[str, int]]) -> None:
    (ours, our_ends), (kafkas, kafkas_ends) = told(both, story)
    ours, kafkas = expected_log(ours), expected_log(kafkas)
    assert {key[:2] for key in kafkas} == types
    assert not list(differences(ours, kafkas)), "\n".join(differences(ours, kafkas))
    # A tombstone that is repeated changes nothing.
    assert list(dict.fromkeys(reversed(our_ends))) == list(dict.fromkeys(reversed(kafkas_ends)))


@pytest.mark.parametrize(
    ("story", "kinds"),
    [
        (regular_expression, {5, 16}),
        (regular_expression_ends, {5, 16}),
        (static_member_returns, CONSUMER),
        (static_member_returns_with_another_id, CONSUMER),
    ],
)
def test_last_records_are_those_of_kafka(both: list[BrokerProcess], story: Story, kinds: set[int]) -> None:
    (ours, _), (kafkas, _) = told(both, story)
    ours, kafkas = last_values(ours, kinds), last_values(kafkas, kinds)
    assert {key[1] for key in kafkas} == kinds
    assert not list(differences(ours, kafkas)), "\n".join(differences(ours, kafkas))
