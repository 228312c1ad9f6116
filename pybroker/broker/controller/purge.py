"""Purge: removes a deleted topic's data immediately, or earlier than planned. Pure.

The deletion record contains the new delay, and every broker gets the record; a broker that is down gets it after its
start. A purge closes the deletion, so that no undelete can begin and find only half of the topic. If the purge only
shortens the delay, an undelete is possible until the delay ends.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import PurgedTopic, PurgeTopics
from pybroker.broker.cluster.lookup import unknown_topic
from pybroker.broker.controller.decision import Decision, Steps, decides
from pybroker.broker.metadata.deletion_records import (
    DELETING,
    FOUND,
    REMOVED,
    STAGED,
    UNDELETING,
    DeletionRecord,
    write_operations,
)
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.lineage import PURGED, TopicEvent
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


@decides(PurgeTopics)
def decide_purge(image: ClusterImage, event: PurgeTopics) -> Decision:
    """Shorten delays; each topic succeeds or fails independently. Report success if the data is already removed."""
    steps = Steps()
    records: dict[Uuid, DeletionRecord] = {}
    reply: list[PurgedTopic | KafkaError] = []
    for topic_id in event.topics:
        try:
            record = records.get(topic_id) or _deleted(image, topic_id)
        except KafkaError as error:
            reply.append(error)
            continue
        shortened = _shortened(record, event)
        if shortened != record:
            records[topic_id], written = write_operations(record, shortened)
            steps.add([written])
        reply.append(PurgedTopic(record.topic, topic_id, shortened.remove_after_ms))
    delta = ImageDelta(deletions=tuple(records.values()))
    return Decision(tuple(steps.operations), delta, reply, seams=tuple(steps.seams))


def _deleted(image: ClusterImage, topic_id: Uuid) -> DeletionRecord:
    live = image.topic_by_id(topic_id)
    if live is not None:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic id {topic_id} ('{live.name}') is not deleted: only deleted topics can be purged.",
        )
    record = image.deletions.get(topic_id)
    if record is None:
        raise unknown_topic(image, topic_id)
    if record.state == UNDELETING:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic id {topic_id} is being undeleted.")
    if record.state == FOUND:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Topic id {topic_id} was not deleted: brokers found its data as stray replicas. Remove it with "
            f"`pybroker topics deletions --discard {topic_id}`.",
        )
    return record


def _shortened(record: DeletionRecord, event: PurgeTopics) -> DeletionRecord:
    if record.state == REMOVED or 0 <= record.delay_max_ms <= event.delay_ms:
        return record
    assert record.state in (DELETING, STAGED)
    if event.delay_ms > 0:
        until_ms = record.deleted_ms + event.delay_ms
        if until_ms >= record.remove_after_ms:
            return record
        return msgspec.structs.replace(record, delay_max_ms=event.delay_ms, remove_after_ms=until_ms)
    purged = TopicEvent(PURGED, event.now_ms, event.purged_by, record.topic)
    return msgspec.structs.replace(
        record,
        delay_max_ms=0,
        remove_after_ms=min(record.remove_after_ms, event.now_ms),
        closed=True,
        lineage=record.lineage.with_event(purged),
    )
