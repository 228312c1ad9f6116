"""Checks that leaders lead. Metadata names a leader for every partition; this module requests the partition's start
offset from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pybroker.client import AdminClient

ATTEMPTS = 3
PAUSE_S = 1.0
"""Seconds before a retry. A broker that has just become leader may not know it yet, and Metadata may be out of date."""
PARTITIONS_MAX = 2_000
"""Limit of partitions in one request."""
ANSWER_SECONDS_MAX = 10.0


class LeaderView(NamedTuple):
    """A partition as Metadata shows it."""

    topic: str
    topic_id: Any
    partition: int
    leader: int
    epoch: int


class LeaderProblem(NamedTuple):
    """A partition whose leader responds with an error."""

    led: LeaderView
    code: int


async def find_not_led(admin: AdminClient, at: int | Literal["any"]) -> list[LeaderProblem]:
    """Query all leaders that the Metadata response of broker `at` names. Return the partitions whose leader responds
    with an error each time. Skip brokers that do not respond."""
    found: list[LeaderProblem] = []
    names: list[str] | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_S)
        led = await _metadata(admin, at, names)
        answers = await asyncio.gather(*(_ask(admin, leader, batch) for leader, batch in _batches(led)))
        found = [view for answer in answers for view in answer]
        if not found:
            break
        names = sorted({view.led.topic for view in found})
    return found


async def _metadata(admin: AdminClient, at: int | Literal["any"], names: list[str] | None) -> list[LeaderView]:
    from pybroker.protocol import messages as m

    topics = None if names is None else [m.MetadataRequest_MetadataRequestTopic(name=name) for name in names]
    answer = await admin.send(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), node=at)
    return [
        LeaderView(
            topic.name or "", topic.topic_id, partition.partition_index, partition.leader_id, partition.leader_epoch
        )
        for topic in answer.topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    ]


def _batches(led: list[LeaderView]) -> Iterator[tuple[int, list[LeaderView]]]:
    by_leader: dict[int, list[LeaderView]] = {}
    for view in led:
        by_leader.setdefault(view.leader, []).append(view)
    for leader, all_of in by_leader.items():
        for at in range(0, len(all_of), PARTITIONS_MAX):
            yield leader, all_of[at : at + PARTITIONS_MAX]


async def _ask(admin: AdminClient, leader: int, batch: list[LeaderView]) -> list[LeaderProblem]:
    from pybroker.client.client_errors import KafkaError
    from pybroker.client.offset_types import OffsetSpec
    from pybroker.protocol import messages as m
    from pybroker.protocol.error_codes import ErrorCode

    passing = (
        0,
        # The partition was deleted or moved after the Metadata response, or the user may not read its offsets.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    asked: dict[tuple[str, int], LeaderView] = {(record.topic, record.partition): record for record in batch}
    topics: dict[str, list[LeaderView]] = {}
    for record in batch:
        topics.setdefault(record.topic, []).append(record)
    request = m.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            m.ListOffsetsRequest_ListOffsetsTopic(
                name=name,
                partitions=[
                    m.ListOffsetsRequest_ListOffsetsPartition(
                        partition_index=row.partition,
                        current_leader_epoch=row.epoch,
                        timestamp=OffsetSpec.earliest().timestamp,
                    )
                    for row in rows
                ],
            )
            for name, rows in topics.items()
        ],
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await admin.send(request, node=leader)
    except (KafkaError, TimeoutError, OSError):
        return []
    codes: Mapping[tuple[str, int], int] = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }
    return [LeaderProblem(led, codes[key]) for key, led in asked.items() if codes.get(key, 0) not in passing]
