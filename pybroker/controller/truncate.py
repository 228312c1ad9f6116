"""Truncate: an empty incarnation takes a topic's place, in one decision. Pure.

Name, configs, partitions and replicas stay; the id is new, and leader epochs go on, so that by-id clients and clients
that know epochs notice. The old incarnation goes the way of every deletion, and can be undeleted under another name.
With `keep_offsets` the new logs begin where the old ones end: no offset is ever used twice, and what groups have
committed stays true for the new incarnation.
"""

from __future__ import annotations

from collections.abc import Callable

from pybroker.cluster.events import TruncatedTopic, TruncateTopics, Truncation
from pybroker.cluster.lookup import living_topic
from pybroker.controller.decision import NOTHING_CLOSED, Closed, Decision, decides
from pybroker.controller.topic_deletion import bury, floor_after
from pybroker.controller.topics import create_operations, new_topic, unused_id
from pybroker.errors import KafkaError
from pybroker.metadata.deletion_records import DeletionRecord
from pybroker.metadata.image import ClusterImage, ImageDelta, TopicImage, target_replicas
from pybroker.metadata.lineage import TRUNCATED, TopicEvent, TopicLineage
from pybroker.metadata.store import Operation
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


def to_be_closed(image: ClusterImage, event: TruncateTopics) -> list[TopicImage]:
    """Of what is to be truncated: what takes appends of clients and commits of groups."""
    topics = [image.topic_by_id(one.topic_id) for one in event.topics]
    return [topic for topic in topics if topic is not None and not topic.internal]


@decides(TruncateTopics, closes=to_be_closed)
def decide_truncate(
    image: ClusterImage,
    event: TruncateTopics,
    closed: Closed = NOTHING_CLOSED,
    new_id: Callable[[], Uuid] = Uuid.random,
) -> Decision:
    """Truncates what can be truncated; each topic succeeds or fails by itself."""
    operations: list[Operation] = []
    removed: dict[Uuid, TopicImage] = {}
    made: list[TopicImage] = []
    records: list[DeletionRecord] = []
    floors: dict[str, int] = {}
    reply: list[TruncatedTopic | KafkaError] = []
    for one in event.topics:
        try:
            old = living_topic(image, one.topic_id, removed)
            if old.internal:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic '{old.name}' is internal and cannot be truncated.")
            ends = _ends(closed, one, old)
        except KafkaError as error:
            reply.append(error)
            continue
        topic_id = unused_id(image, made, new_id)
        offsets = closed.offsets.get(old.topic_id, ())
        what = TopicEvent(TRUNCATED, event.now_ms, event.truncated_by, old.name)
        record, operations_of_old = bury(
            image,
            old,
            what,
            event.delay_ms,
            offsets=offsets,
            ends=closed.ends.get(old.topic_id, ()),
            successor=topic_id,
            offsets_for=topic_id if one.keep_offsets and offsets else None,
        )
        floors[old.name] = floor_after(image, record)
        # A name may have had incarnations since this one was undeleted: the floor knows them.
        lineage = TopicLineage((what,), floors[old.name] + 1, record.lineage.lives if one.keep_offsets else (), ends)
        new = new_topic(
            image,
            old.name,
            topic_id,
            replicas=[target_replicas(partition) for partition in old.partitions],
            config=old.config,
            lineage=lineage,
            created_ms=event.now_ms,
        )
        operations += [*operations_of_old, *create_operations(image, new)]
        removed[old.topic_id] = old
        made.append(new)
        records.append(record)
        reply.append(TruncatedTopic(old.name, old.topic_id, topic_id))
    delta = ImageDelta(topics=tuple(made), removed=tuple(removed.values()), deletions=tuple(records), floors=floors)
    return Decision(tuple(operations), delta, reply)


def _ends(closed: Closed, one: Truncation, old: TopicImage) -> tuple[int, ...]:
    """Where the new logs begin; nothing when offsets are not kept."""
    if not one.keep_offsets:
        return ()
    ends = tuple(end for _, end in closed.ends.get(old.topic_id, ()))
    if len(ends) != len(old.partitions) or any(end < 0 for end in ends):
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE,
            f"Topic '{old.name}' cannot keep its offsets now: not every partition has a leader that knows its end.",
        )
    return ends
