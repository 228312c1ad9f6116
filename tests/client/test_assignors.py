"""The assignment strategies, without a group."""

from __future__ import annotations

import random

import pytest

from pybroker.client import ClientConfigError, TopicPartition
from pybroker.client.consumer.group.partition_assignors import assignors
from pybroker.client.consumer.group.protocol_bytes import (
    ProtocolSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)


def assign(
    name: str, counts: dict[str, int], members: dict[str, ProtocolSubscription]
) -> dict[str, list[TopicPartition]]:
    return assignors([name])[0].assign(counts, members)


def wants(*topics: str, owned: tuple[TopicPartition, ...] = (), generation: int = -1) -> ProtocolSubscription:
    return ProtocolSubscription(topics, owned, generation)


def some(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def test_range_gives_neighbours() -> None:
    members = {"m1": wants("a", "b"), "m2": wants("a")}
    assert assign("range", {"a": 3, "b": 2}, members) == {
        "m1": some("a", 0, 1) + some("b", 0, 1),
        "m2": some("a", 2),
    }


def test_round_robin_gives_in_turn() -> None:
    members = {"m1": wants("a", "b"), "m2": wants("a", "b"), "m3": wants("b")}
    given = assign("roundrobin", {"a": 3, "b": 2}, members)
    assert given == {"m1": some("a", 0, 2), "m2": some("a", 1) + some("b", 0), "m3": some("b", 1)}


def test_a_sticky_member_keeps_what_it_has_and_gives_up_before_another_gets_it() -> None:
    members = {"m1": wants("a", owned=tuple(some("a", 0, 1, 2, 3)), generation=1), "m2": wants("a")}
    first = assign("cooperative-sticky", {"a": 4}, members)
    assert len(first["m1"]) == 2
    assert first["m2"] == []
    members = {"m1": wants("a", owned=tuple(first["m1"]), generation=2), "m2": wants("a", generation=2)}
    second = assign("cooperative-sticky", {"a": 4}, members)
    assert second["m1"] == first["m1"]
    assert sorted(second["m1"] + second["m2"]) == some("a", 0, 1, 2, 3)


def test_of_two_claims_the_newer_counts() -> None:
    members = {
        "m1": wants("a", owned=tuple(some("a", 0, 1)), generation=3),
        "m2": wants("a", owned=tuple(some("a", 0)), generation=4),
    }
    given = assign("cooperative-sticky", {"a": 2}, members)
    assert given == {"m1": some("a", 1), "m2": some("a", 0)}


@pytest.mark.parametrize("name", ["range", "roundrobin", "cooperative-sticky"])
def test_everything_is_read_once_by_those_who_want_it(name: str) -> None:
    numbers = random.Random(7)
    for _ in range(50):
        counts = {f"t{index}": numbers.randint(1, 6) for index in range(4)}
        members = {
            f"m{index}": wants(*numbers.sample(sorted(counts), numbers.randint(1, 4)))
            for index in range(numbers.randint(1, 5))
        }
        given = assign(name, counts, members)
        wanted = {topic for member in members.values() for topic in member.topics}
        every = sorted(TopicPartition(topic, index) for topic in wanted for index in range(counts[topic]))
        assert sorted(each for partitions in given.values() for each in partitions) == every
        assert all(each.topic in members[member].topics for member, those in given.items() for each in those)


def test_what_members_tell_each_other() -> None:
    subscription = ProtocolSubscription(("a", "b"), (TopicPartition("a", 1), TopicPartition("a", 2)), 5, b"data")
    assert read_subscription(write_subscription(subscription)) == subscription
    assert read_assignment(write_assignment(some("b", 1, 0) + some("a", 3))) == some("a", 3) + some("b", 0, 1)
    assert read_assignment(b"") == []
    with pytest.raises(ClientConfigError, match="valid: range"):
        assignors(["sticky-ish"])
    assert assignors(["org.apache.kafka.clients.consumer.RangeAssignor"])[0].name == "range"
