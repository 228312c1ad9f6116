"""Classic groups: KIP-62, KIP-345, KIP-394, KIP-496, KIP-709, KIP-800, KIP-848."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.groups.requests import beat, commit, delete_offsets, fetch, join, leave, sync


def joined(side: Side, group: str, topic: str = "t", **more: object) -> tuple[str, int]:
    """Let a member join alone and get its assignment; return its id and generation."""
    member = side.know(side.quietly(join(group, topic=topic, **more), 9).member_id, "member")
    answer = side.quietly(join(group, member, topic, **more), 9)
    side.quietly(sync(group, member, answer.generation_id, {member: b"all"}), 5)
    return member, answer.generation_id


def one_alone(side: Side, name: str) -> None:
    topic = side.topic(name, 3)
    first = side.ask(join(name), 9)
    member = side.know(first.member_id, "member")
    side.ask(beat(name, member, 1), 4)
    answer = side.ask(join(name, member, reason="why not"), 9)
    generation = answer.generation_id
    side.ask(m.DescribeGroupsRequest(groups=[name], include_authorized_operations=True), 6)
    side.ask(beat(name, member, generation), 4)
    side.ask(commit(name, name, {0: 5}, generation, member), 8)
    side.ask(sync(name, member, generation + 1, {member: b"x"}), 5)
    side.ask(sync(name, member, generation, {member: b"x"}, protocol_name="other"), 5)
    side.ask(sync(name, member, generation, {member: b"x"}, protocol_type="connect"), 5)
    side.ask(sync(name, "nobody", generation), 5)
    side.ask(sync(name, member, generation, {member: b"x"}), 5)
    side.ask(sync(name, member, generation), 5)
    for version in (0, 3, 4):
        side.ask(beat(name, member, generation), version)
    side.ask(beat(name, member, generation + 1), 4)
    side.ask(beat(name, "nobody", generation), 4)
    side.ask(beat("", member, generation), 4)
    side.ask(beat(name + "x", member, generation), 4)
    for version in (2, 7, 8, 9):
        side.ask(commit(name, name, {0: version, 7: 1}, generation, member, metadata="m"), version)
    side.ask(commit(name, name, {1: 2}, generation, member, topic_id=topic), 10)
    side.ask(commit(name, name, {0: 1}, generation + 1, member), 9)
    side.ask(commit(name, name, {0: 1}, generation, "nobody"), 9)
    side.ask(commit(name, name, {0: 1}), 9)
    side.ask(commit(name, name, {0: 1}, generation, member, metadata="x" * 5000), 9)
    side.ask(commit(name, "no-such-topic", {0: 1}, generation, member), 9)
    side.ask(commit(name, name, {0: -1, 1: -2}, generation, member), 9)
    for version in (8, 9):
        side.ask(fetch(name, name, (0, 1, 2, 9)), version)
        side.ask(fetch(name, None), version)
    side.ask(fetch(name, "", (0, 2), topic_id=topic), 10)
    side.ask(fetch(name, name, (0,), member_id=member, member_epoch=generation), 9)
    side.ask(fetch(name, name, (0,), member_id="nobody", member_epoch=1), 9)
    for version in (0, 5, 6):
        side.ask(m.DescribeGroupsRequest(groups=[name]), version)
    side.ask(delete_offsets(name, name, 0, 9), 0)
    side.ask(delete_offsets(name, "no-such-topic", 0), 0)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 2)
    side.ask(leave(name, member, reason="tired"), 5)
    side.ask(m.DescribeGroupsRequest(groups=[name], include_authorized_operations=True), 6)
    side.ask(delete_offsets(name, name, 0, 9), 0)
    side.ask(fetch(name, None), 9)
    side.ask(m.DeleteGroupsRequest(groups_names=[name, name + "x"]), 2)
    side.ask(m.DescribeGroupsRequest(groups=[name, name + "x"]), 6)
    side.ask(fetch(name, name, (0,)), 9)


def forms(side: Side, name: str) -> None:
    """Requests that are refused for every client."""
    for number, more in enumerate(
        (
            {"session_timeout_ms": 1},
            {"session_timeout_ms": 2**31 - 1},
            {"rebalance_timeout_ms": -1},
            {"member_id": "who-is-that"},
            {"protocol_type": ""},
            {"names": ()},
            {"group_id": ""},
            {"group_instance_id": "no name!"},
            {"group_instance_id": ""},
        )
    ):
        # Each request has its own group: a group waits for a member that has been assigned an id.
        side.ask(join(f"{name}-{number}", **more), 9)
    side.ask(sync("", "m", 1), 5)
    side.ask(sync(name, "m", 1), 5)
    side.ask(leave("", "m"), 5)
    side.ask(leave(name, "m"), 5)
    side.ask(leave(name), 5)
    side.ask(m.LeaveGroupRequest(group_id=name, member_id="m"), 1)
    side.ask(commit("", "t", {0: 1}), 9)
    side.ask(fetch("", "t", (0,)), 9)
    side.ask(fetch("", None), 9)
    side.ask(fetch(name, None), 9)
    side.ask(m.DeleteGroupsRequest(groups_names=["", name]), 2)
    side.ask(m.DescribeGroupsRequest(groups=["", name]), 6)
    side.ask(m.DescribeGroupsRequest(groups=[]), 6)
    side.ask(delete_offsets("", "t", 0), 0)
    side.ask(delete_offsets(name, "t", 0), 0)


def static_members(side: Side, name: str) -> None:
    side.topic(name, 1)
    answer = side.ask(join(name, topic=name, group_instance_id="one"), 9)
    member = side.know(answer.member_id, "first life")
    side.ask(sync(name, member, 1, {member: b"a"}, group_instance_id="one"), 5)
    side.ask(beat(name, member, 1, group_instance_id="one"), 4)
    side.ask(beat(name, member, 1, group_instance_id="two"), 4)
    side.ask(beat(name, "other", 1, group_instance_id="one"), 4)
    side.ask(join(name, "other", topic=name, group_instance_id="one"), 9)
    side.ask(m.DescribeGroupsRequest(groups=[name]), 6)
    # The member returns without its id: the generation is the same, the member id is not.
    again = side.ask(join(name, topic=name, group_instance_id="one"), 9)
    second = side.know(again.member_id, "second life")
    side.ask(beat(name, member, 1, group_instance_id="one"), 4)
    side.ask(commit(name, name, {0: 1}, 1, member, group_instance_id="one"), 9)
    side.ask(sync(name, second, again.generation_id, group_instance_id="one"), 5)
    side.ask(commit(name, name, {0: 1}, again.generation_id, second, group_instance_id="one"), 9)
    side.ask(leave(name, "", group_instance_id="nobody"), 5)
    side.ask(leave(name, member, group_instance_id="one"), 5)
    side.ask(leave(name, "", group_instance_id="one"), 5)
    side.ask(m.DescribeGroupsRequest(groups=[name]), 6)


def two_members(side: Side, name: str) -> None:
    """One member waits for the other: each has its own connection, and the test records a response when it arrives."""
    side.topic(name, 2)
    member, generation = joined(side, name, name)
    other = Side(side.broker)
    try:
        # The second client knows nothing of the first one's state.
        side.note("JoinGroup", other.quietly(join(name, topic=name, names=("roundrobin",)), 9))
        second = side.know(other.quietly(join(name, topic=name), 9).member_id, "second")
        side.note("JoinGroup", other.quietly(join(name, second, name, names=("roundrobin",)), 9))
        side.note("JoinGroup", other.quietly(join(name, second, name, protocol_type="connect"), 9))
        other.client.send(join(name, second, name, names=("roundrobin", "range")), 9)
        side.until(lambda: beat(name, member, generation), 4, lambda answer: answer.error_code != 0)
        side.ask(beat(name, member, generation), 4)
        side.ask(commit(name, name, {0: 1}, generation, member), 9)
        side.ask(sync(name, member, generation), 5)
        side.ask(m.DescribeGroupsRequest(groups=[name]), 6)
        side.ask(join(name, member, name), 9)
        side.note("JoinGroup", other.client.receive())
        generation += 1
        other.client.send(sync(name, second, generation), 5)
        side.ask(sync(name, member, generation, {member: b"one", second: b"two"}), 5)
        side.note("SyncGroup", other.client.receive())
        side.ask(m.DescribeGroupsRequest(groups=[name]), 6)
        side.ask(commit(name, name, {0: 1}, generation - 1, member), 9)
        side.ask(leave(name, second, "nobody"), 5)
        side.ask(beat(name, member, generation), 4)
        side.ask(beat(name, second, generation), 4)
        # A repeated request without changes: the member leads, so there is a new generation.
        side.ask(join(name, member, name), 9)
        side.ask(leave(name, member), 3)
    finally:
        other.close()


def from_outside(side: Side, name: str) -> None:
    """Commit and fetch offsets without a group membership."""
    side.topic(name, 2)
    side.ask(commit(name, name, {0: 3, 1: 4}, metadata=None), 9)
    side.ask(commit(name, name, {0: 3}, 5, ""), 9)
    side.ask(commit(name, name, {0: 3}, -1, "somebody"), 9)
    side.ask(m.DescribeGroupsRequest(groups=[name], include_authorized_operations=True), 6)
    for version in (1, 5, 7):
        one = m.OffsetFetchRequest_OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1, 2])
        side.ask(m.OffsetFetchRequest(group_id=name, topics=[one]), version)
    for version in (2, 7):
        side.ask(m.OffsetFetchRequest(group_id=name, topics=None), version)
    side.ask(delete_offsets(name, name, 0), 0)
    side.ask(fetch(name, name, (0, 1), ), 8)
    listed(side, name)
    side.ask(delete_offsets(name, name, 1), 0)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 0)
    listed(side, name)


def listed(side: Side, name: str) -> None:
    """List the group with every filter that matches it."""
    for states, types in (
        ([], []),
        (["Stable"], []),
        (["Empty", "PreparingRebalance", "CompletingRebalance"], []),
        (["stable", "dead"], ["classic"]),
        ([], ["consumer", "share", "streams"]),
        (["nonsense"], []),
        ([], ["nonsense"]),
    ):
        for version in (3, 4, 5):
            if (states and version < 4) or (types and version < 5):
                continue
            answer = side.quietly(m.ListGroupsRequest(states_filter=states, types_filter=types), version)
            answer.groups = [one for one in answer.groups if one.group_id == name]
            side.note(f"ListGroups {states} {types}", answer)


def lists(side: Side, name: str) -> None:
    member, generation = joined(side, name)
    listed(side, name)
    side.quietly(leave(name, member), 5)
    listed(side, name)
    assert generation == 1


def old_versions(side: Side, name: str) -> None:
    """Send the oldest version of each request that a broker of 4.4 answers."""
    side.topic(name, 1)
    first = side.ask(join(name, topic=name), 2)
    member = side.know(first.member_id, "member")
    side.ask(sync(name, member, 1, {member: b"a"}), 0)
    side.ask(beat(name, member, 1), 0)
    side.ask(commit(name, name, {0: 1}, 1, member), 2)
    side.ask(m.DescribeGroupsRequest(groups=[name]), 0)
    side.ask(m.LeaveGroupRequest(group_id=name, member_id=member), 0)
    side.ask(m.LeaveGroupRequest(group_id=name, member_id=member), 2)
    side.ask(m.DeleteGroupsRequest(groups_names=[name]), 1)


@pytest.mark.parametrize(
    "story", [one_alone, forms, static_members, two_members, from_outside, lists, old_versions]
)
def test_what_kafka_answers(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
