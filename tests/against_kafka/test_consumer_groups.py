"""Consumer groups of KIP-848, with classic members in the same group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.against_kafka.conftest import INTERVAL_MS, Story
from tests.against_kafka.sides import Side
from tests.groups.requests import (
    LONG_MS,
    beat,
    commit,
    consumer_beat,
    consumer_join,
    delete_offsets,
    fetch,
    join,
    leave,
    owned,
    sync,
    with_group_settings,
)

LEAVES, GOES_AWAY = -1, -2
NOBODYS = Uuid(7, 7)


def described(side: Side, name: str) -> None:
    """Send each request that describes groups."""
    side.ask(m.ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=True), 1)
    side.ask(m.ConsumerGroupDescribeRequest(group_ids=[name]), 0)
    side.ask(m.DescribeGroupsRequest(groups=[name]), 6)
    answer = side.quietly(m.ListGroupsRequest(), 5)
    side.note("ListGroups", [one for one in answer.groups if one.group_id == name])


def settled(side: Side, group: str, topic_id: Uuid, member: str, epoch: int = 0, **more: Any) -> tuple[int, list[int]]:
    """Send heartbeats until the member reads its assigned partitions and nothing changes; return its epoch and
    partitions."""
    reads: list[int] = []
    calm = 0
    request = consumer_join(group, member, epoch=epoch, **more) if epoch else consumer_join(group, member, **more)
    while calm < 3:
        answer = side.quietly(request, 1)
        assert answer.error_code == 0, answer
        calm = calm + 1 if answer.assignment is None and answer.member_epoch == epoch else 0
        epoch = answer.member_epoch
        if answer.assignment is not None:
            reads = [index for topic in answer.assignment.topic_partitions for index in topic.partitions]
        request = consumer_beat(group, member, epoch, topic_partitions=owned(topic_id, *reads) if reads else [])
    return epoch, reads


def one_alone(side: Side, name: str) -> None:
    topic = side.topic(name, 3)
    side.ask(consumer_join(name, "one", name), 1)
    described(side, name)
    epoch, reads = settled(side, name, topic, "one", subscribed_topic_names=[name])
    side.note("settled", [epoch, reads])
    described(side, name)
    side.ask(consumer_beat(name, "one", epoch), 1)
    side.ask(consumer_beat(name, "one", epoch, subscribed_topic_names=[name]), 1)
    side.ask(consumer_beat(name, "one", epoch, topic_partitions=owned(topic, 0, 1, 2)), 1)
    side.ask(consumer_beat(name, "one", epoch, topic_partitions=owned(topic, 0, 1)), 1)
    side.ask(consumer_beat(name, "one", epoch, topic_partitions=owned(topic, 9)), 1)
    side.ask(consumer_beat(name, "one", epoch + 1), 1)
    side.ask(consumer_beat(name, "one", epoch - 1), 1)
    side.ask(consumer_beat(name, "nobody", epoch), 1)
    side.ask(consumer_beat(name + "x", "one", epoch), 1)
    side.ask(consumer_beat(name, "one", epoch, rebalance_timeout_ms=LONG_MS), 1)
    side.ask(consumer_beat(name, "one", epoch, subscribed_topic_names=[]), 1)
    epoch, reads = settled(side, name, topic, "one", epoch)
    side.note("settled", [epoch, reads])
    described(side, name)
    side.ask(consumer_beat(name, "one", LEAVES), 1)
    described(side, name)
    side.ask(consumer_beat(name, "one", LEAVES), 1)
    side.ask(m.DeleteGroupsRequest(groups_names=[name, name]), 2)
    described(side, name)


def commits(side: Side, name: str) -> None:
    topic = side.topic(name, 2)
    epoch, _ = settled(side, name, topic, "one", subscribed_topic_names=[name])
    for version in (8, 9):
        side.ask(commit(name, name, {0: 5, 7: 1}, epoch, "one", metadata="m"), version)
    side.ask(commit(name, "", {1: 5, 7: 1}, epoch, "one", topic_id=topic), 10)
    side.ask(commit(name, "", {1: 5}, epoch, "one", topic_id=NOBODYS), 10)
    for version in (8, 9):
        side.ask(commit(name, name, {0: 5}, epoch + 1, "one"), version)
        side.ask(commit(name, name, {0: 5}, epoch - 1, "one"), version)
        side.ask(commit(name, name, {0: 5}, epoch, "nobody"), version)
        side.ask(commit(name, name, {0: 5}), version)
        side.ask(commit(name + "x", name, {0: 5}, 3, "one"), version)
    for version in (8, 9):
        side.ask(fetch(name, name, (0, 1, 9)), version)
        side.ask(fetch(name, None), version)
    side.ask(fetch(name, name, (0,), member_id="one", member_epoch=epoch), 9)
    side.ask(fetch(name, name, (0,), member_id="one", member_epoch=epoch + 1), 9)
    side.ask(fetch(name, name, (0,), member_id="one", member_epoch=epoch - 1), 9)
    side.ask(fetch(name, name, (0,), member_id="nobody", member_epoch=epoch), 9)
    side.ask(fetch(name + "x", name, (0,), member_id="one", member_epoch=1), 9)
    side.ask(fetch(name, "", (0, 1, 9), topic_id=topic, member_id="one", member_epoch=epoch), 10)
    side.ask(fetch(name, "", (0,), topic_id=NOBODYS), 10)
    side.ask(delete_offsets(name, name, 0), 0)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 2)
    side.quietly(consumer_beat(name, "one", LEAVES), 1)
    side.ask(commit(name, name, {0: 9}), 9)
    side.ask(commit(name, name, {0: 9}, epoch, "one"), 9)
    side.ask(delete_offsets(name, name, 0), 0)
    side.ask(fetch(name, None), 9)
    described(side, name)


def forms(side: Side, name: str) -> None:
    """Requests that are refused for every client."""
    topic = side.topic(name, 1)
    for more in (
        {"group_id": ""},
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 0},
        {"topic_partitions": None},
        {"topic_partitions": owned(topic, 0)},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"subscribed_topic_regex": "("},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "(unclosed"},
        {"server_assignor": "nonsense"},
        {"server_assignor": ""},
        {"member_epoch": -3},
        {"member_epoch": LEAVES},
        {"member_epoch": GOES_AWAY},
        {"member_epoch": 4},
    ):
        for version in (0, 1):
            request = consumer_join(name, "one", name)
            for field, value in more.items():
                setattr(request, field, value)
            side.ask(request, version)
    side.ask(m.ConsumerGroupDescribeRequest(group_ids=["", name + "x"]), 1)
    side.ask(m.ConsumerGroupDescribeRequest(group_ids=[]), 1)


def two_share(side: Side, name: str) -> None:
    topic = side.topic(name, 4)
    first, _ = settled(side, name, topic, "one", subscribed_topic_names=[name])
    second = side.ask(consumer_join(name, "two", name, server_assignor="range"), 1).member_epoch
    described(side, name)
    # The first member gets the partitions to release; the other one waits for them.
    side.ask(consumer_beat(name, "one", first), 1)
    side.ask(consumer_beat(name, "two", second), 1)
    side.ask(consumer_beat(name, "one", first, topic_partitions=owned(topic, 0, 1)), 1)
    described(side, name)
    answer = side.ask(consumer_beat(name, "one", first, topic_partitions=owned(topic, 0, 1)), 1)
    first, reads = settled(side, name, topic, "one", answer.member_epoch)
    side.note("settled", [first, reads])
    second, reads = settled(side, name, topic, "two", second)
    side.note("settled", [second, reads])
    described(side, name)
    side.ask(consumer_beat(name, "two", second, server_assignor="uniform"), 1)
    side.ask(consumer_beat(name, "one", LEAVES), 1)
    second, reads = settled(side, name, topic, "two", second)
    side.note("settled", [second, reads])
    described(side, name)


def assigned_in_intervals(side: Side, name: str) -> None:
    """Make changes during the assignment interval."""
    topic, more = side.topic(name, 4), side.topic(f"{name}-more", 1)
    side.ask(with_group_settings(name, consumer_assignment_interval_ms=INTERVAL_MS), 1)
    both = [name, f"{name}-more"]
    first = side.ask(consumer_join(name, "one", *both), 1).member_epoch
    second = side.ask(consumer_join(name, "two", name), 1).member_epoch
    described(side, name)
    side.ask(consumer_beat(name, "one", first), 1)
    side.ask(consumer_beat(name, "two", second), 1)
    side.ask(commit(name, name, {0: 1}, second, "two"), 9)
    everything = owned(topic, 0, 1, 2, 3) + owned(more, 0)
    side.ask(consumer_beat(name, "one", first, subscribed_topic_names=[name], topic_partitions=everything), 1)
    side.ask(consumer_beat(name, "one", first, topic_partitions=everything), 1)
    described(side, name)
    side.ask(consumer_beat(name, "one", first, topic_partitions=owned(topic, 0, 1, 2, 3)), 1)
    described(side, name)
    side.ask(consumer_beat(name, "one", first, subscribed_topic_names=[]), 1)
    side.ask(consumer_beat(name, "one", first, topic_partitions=[]), 1)
    described(side, name)
    side.ask(consumer_beat(name, "two", LEAVES), 1)
    described(side, name)
    side.ask(join(name, topic=name), 9)
    member = side.know(side.quietly(join(name, topic=name), 9).member_id, "member")
    classic = side.ask(join(name, member, name), 9).generation_id
    side.ask(beat(name, member, classic), 4)
    side.ask(sync(name, member, classic), 5)
    side.ask(beat(name, member, classic), 4)
    described(side, name)
    side.ask(leave(name, member), 5)
    side.ask(consumer_beat(name, "one", LEAVES), 1)
    described(side, name)


def one_after_another(side: Side, name: str) -> None:
    """The first member of an empty group does not wait for the interval."""
    side.topic(name, 2)
    side.ask(with_group_settings(name, consumer_assignment_interval_ms=INTERVAL_MS), 1)
    for member in ("one", "two"):
        side.ask(consumer_join(name, member, name), 1)
        side.ask(consumer_beat(name, member, LEAVES), 1)
        described(side, name)


def static_members(side: Side, name: str) -> None:
    topic = side.topic(name, 2)
    side.ask(consumer_join(name, "one", name, instance_id="static"), 1)
    epoch, _ = settled(side, name, topic, "one", 2)
    side.ask(consumer_join(name, "two", name, instance_id="static"), 1)
    side.ask(consumer_beat(name, "one", epoch, instance_id="other"), 1)
    side.ask(consumer_beat(name, "one", GOES_AWAY, instance_id="static"), 1)
    described(side, name)
    side.ask(consumer_beat(name, "one", epoch, instance_id="static"), 1)
    side.ask(consumer_beat(name, "two", epoch, instance_id="static"), 1)
    side.ask(consumer_join(name, "two", name, instance_id="static"), 1)
    described(side, name)
    side.ask(consumer_beat(name, "one", epoch, instance_id="static"), 1)
    side.ask(commit(name, name, {0: 1}, epoch, "one", group_instance_id="static"), 9)
    side.ask(commit(name, name, {0: 1}, epoch, "two", group_instance_id="static"), 9)
    side.ask(consumer_beat(name, "two", LEAVES, instance_id="static"), 1)
    described(side, name)


def regular_expressions(side: Side, name: str) -> None:
    topic = side.topic(name, 2)
    expression: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": f"{name}.*"}
    # Kafka resolves the expression asynchronously.
    answer = side.until(
        lambda: consumer_join(name, "one", **expression),
        1,
        lambda answer: bool(answer.assignment and answer.assignment.topic_partitions),
    )
    epoch, reads = settled(side, name, topic, "one", answer.member_epoch)
    side.note("settled", [reads])
    described = side.quietly(m.ConsumerGroupDescribeRequest(group_ids=[name]), 1).groups[0]
    for member in described.members:
        side.note("member", member, but=("member_epoch",))
    side.ask(consumer_beat(name, "one", epoch, subscribed_topic_regex="("), 1)
    side.ask(
        consumer_beat(name, "one", epoch, subscribed_topic_regex="[[:alpha:]]+"), 1, but=("member_epoch", "assignment")
    )
    side.ask(consumer_beat(name, "one", LEAVES), 1)


def of_another_kind(side: Side, name: str) -> None:
    """Classic requests to a consumer group, and the reverse."""
    topic = side.topic(name, 1)
    epoch, _ = settled(side, name, topic, "one", subscribed_topic_names=[name])
    # While this member stays, the group does not become classic; the two brokers would do that at different times.
    stays = side.ask(consumer_join(name, "other", name), 1).member_epoch
    side.ask(join(name, topic=name, protocol_type="connect"), 9)
    side.ask(join(name, topic=name, names=("unknown",)), 9)
    side.ask(join(name, "one", name), 9)
    side.ask(beat(name, "one", epoch), 4)
    side.ask(sync(name, "one", epoch), 5)
    side.ask(leave(name, "one"), 5)
    side.ask(leave(name, "nobody"), 5)
    settled(side, name, topic, "other", stays)
    described(side, name)
    classic = f"{name}-classic"
    member = side.know(side.quietly(join(classic, topic=name, protocol_type="connect"), 9).member_id, "member")
    side.ask(join(classic, member, name, protocol_type="connect"), 9)
    side.ask(sync(classic, member, 1, {member: b"a"}, protocol_type="connect"), 5)
    side.ask(consumer_join(classic, "one", name), 1)
    side.ask(m.ConsumerGroupDescribeRequest(group_ids=[classic]), 1)
    side.ask(m.ShareGroupHeartbeatRequest(group_id=classic, member_id="s", subscribed_topic_names=[name]), 1)
    side.ask(leave(classic, member), 5)
    side.ask(consumer_join(classic, "one", name), 1)
    described(side, classic)
    side.ask(m.ShareGroupHeartbeatRequest(group_id=classic, member_id="s", subscribed_topic_names=[name]), 1)
    side.ask(consumer_beat(classic, "one", LEAVES), 1)
    described(side, classic)


def upgrade(side: Side, name: str) -> None:
    """A classic group with a member becomes a consumer group, and then a classic group again."""
    topic = side.topic(name, 2)
    member = side.know(side.quietly(join(name, topic=name), 9).member_id, "member")
    side.ask(join(name, member, name), 9)
    assignment = b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name.encode()
    assignment += b"\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    side.ask(sync(name, member, 1, {member: assignment}), 5)
    side.ask(commit(name, name, {0: 7}, 1, member), 9)
    newest = side.ask(consumer_join(name, "newer", name), 1).member_epoch
    described(side, name)
    side.ask(beat(name, member, 1), 4)
    side.ask(commit(name, name, {0: 8}, 1, member), 9)
    side.ask(join(name, member, name), 9)
    side.ask(leave(name, member), 5)
    newest, reads = settled(side, name, topic, "newer", newest)
    side.note("settled", [reads])
    side.ask(fetch(name, name, (0,), member_id="newer", member_epoch=newest), 9)
    side.ask(consumer_beat(name, "newer", LEAVES), 1)
    described(side, name)


def downgrade(side: Side, name: str) -> None:
    """The last member with the consumer protocol leaves: a classic member continues in its generation until it joins
    the following rebalance."""
    topic = side.topic(name, 2)
    wanted = {"subscribed_topic_names": [name]}
    epoch, _ = settled(side, name, topic, "newer", **wanted)
    member = side.know(side.quietly(join(name, topic=name), 9).member_id, "member")
    side.ask(join(name, member, name), 9)
    _, reads = settled(side, name, topic, "newer", epoch, **wanted)
    generation = side.ask(join(name, member, name), 9).generation_id
    side.ask(sync(name, member, generation, {}), 5)
    side.ask(beat(name, member, generation), 4)
    (mine,) = {0, 1} - set(reads)
    side.ask(consumer_beat(name, "newer", LEAVES), 1)
    side.until(m.ListGroupsRequest, 5, lambda answer: (name, "classic") in kinds(answer))
    side.ask(beat(name, member, generation), 4)
    side.ask(commit(name, name, {mine: 9}, generation, member), 9)
    assert side.ask(join(name, member, name), 9).generation_id == generation + 1
    side.ask(beat(name, member, generation), 4)


def kinds(listed: m.ListGroupsResponse) -> list[tuple[str, str]]:
    return [(one.group_id, one.group_type) for one in listed.groups]


@pytest.mark.parametrize(
    "story",
    [
        one_alone,
        commits,
        forms,
        two_share,
        assigned_in_intervals,
        one_after_another,
        static_members,
        regular_expressions,
        of_another_kind,
        upgrade,
        downgrade,
    ],
)
def test_what_kafka_answers(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
