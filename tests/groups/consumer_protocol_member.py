"""Members of a consumer group (KIP-848) that send raw requests: each acts when the test says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.kit import WAIT_S
from tests.wire.client import WireClient

LEAVES, GOES_AWAY = -1, -2
NEVER_MS = 600_000
"""Long enough that a slow machine does not cause a member to be removed."""
MOVING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

Partition = tuple[Uuid, int]
Port = Callable[[], int]
"""Returns the port of the broker that coordinates the group."""


def ask(port: Port, request: Any, version: int, code_of: Callable[[Any], int]) -> Any:
    """Return the response of a coordinator that has loaded. OSError if the coordinator dies meanwhile."""
    give_up = time.monotonic() + WAIT_S
    while True:
        with WireClient(port()) as client:
            answer = client.call(request, version)
        if code_of(answer) not in MOVING:
            return answer
        assert time.monotonic() < give_up, f"still {ErrorCode(code_of(answer)).name} after {WAIT_S} s"
        time.sleep(0.02)


@dataclass
class ConsumerProtocolMember:
    """A member that sends all fields each time, so a lost request can be repeated."""

    port: Port
    group: str
    member_id: str
    topics: tuple[str, ...] = ()
    regex: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    """The heartbeat interval of a member."""
    told: frozenset[Partition] = frozenset()
    """The assigned partitions."""
    owned: frozenset[Partition] = frozenset()
    """The partitions that the member reads."""

    def beat(self) -> None:
        """Send one heartbeat. OSError if the broker does not respond."""
        request = self._request(self.epoch)
        request.rebalance_timeout_ms = NEVER_MS
        request.subscribed_topic_names = list(self.topics)
        request.subscribed_topic_regex = self.regex
        request.topic_partitions = [
            m.ConsumerGroupHeartbeatRequest_TopicPartitions(
                topic_id=topic_id, partitions=sorted(index for one, index in self.owned if one == topic_id)
            )
            for topic_id in {topic_id for topic_id, _ in self.owned}
        ]
        answer = ask(self.port, request, 1, lambda answer: int(answer.error_code))
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.told = frozenset(
                (topic.topic_id, index) for topic in answer.assignment.topic_partitions for index in topic.partitions
            )

    def obey(self) -> None:
        """Read the assigned partitions and no others."""
        self.owned = self.told

    def leave(self, epoch: int = LEAVES) -> None:
        """Leave for ever, or (GOES_AWAY, a static member) temporarily. The member may have left before."""
        answer = ask(self.port, self._request(epoch), 1, lambda answer: int(answer.error_code))
        assert answer.error_code in (0, ErrorCode.UNKNOWN_MEMBER_ID), ErrorCode(answer.error_code).name

    def _request(self, epoch: int) -> m.ConsumerGroupHeartbeatRequest:
        return m.ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commit with the member's id and epoch."""
        one = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = m.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[m.OffsetCommitRequest_OffsetCommitRequestTopic(name=topic, partitions=[one])],
        )
        answer = ask(self.port, request, 9, lambda answer: int(answer.topics[0].partitions[0].error_code))
        assert answer.topics[0].partitions[0].error_code == 0


def settle(*members: ConsumerProtocolMember) -> None:
    """Send heartbeats until every member reads its target partitions."""
    while True:
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            member.beat()
            member.obey()
        if before == [(member.epoch, member.owned) for member in members]:
            return


def picture(port: Port, group: str) -> dict[str, object]:
    """Return everything that the coordinator shows of a group: epochs, members with current and target partitions,
    offsets."""
    request = m.ConsumerGroupDescribeRequest(group_ids=[group])
    shown = ask(port, request, 1, lambda answer: int(answer.groups[0].error_code)).groups[0]
    if shown.error_code:
        return {"error": ErrorCode(shown.error_code).name}
    return {
        "state": shown.group_state,
        "epochs": (shown.group_epoch, shown.assignment_epoch),
        "members": {
            member.member_id: (
                member.instance_id,
                member.member_epoch,
                member.subscribed_topic_names,
                member.subscribed_topic_regex,
                _partitions(member.assignment),
                _partitions(member.target_assignment),
                member.member_type,
            )
            for member in shown.members
        },
        "offsets": _committed(port, group),
    }


def _partitions(assignment: m.ConsumerGroupDescribeResponse_Assignment) -> set[tuple[str, int]]:
    return {(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions}


def _committed(port: Port, group: str) -> dict[tuple[str, int], int]:
    wanted = m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = ask(port, m.OffsetFetchRequest(groups=[wanted]), 8, lambda answer: int(answer.groups[0].error_code))
    assert answer.groups[0].error_code == 0
    return {
        (topic.name, one.partition_index): one.committed_offset
        for topic in answer.groups[0].topics
        for one in topic.partitions
    }
