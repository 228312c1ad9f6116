"""Truncate: an empty incarnation replaces a topic in one decision. Pure.

Name, configs, partitions and replicas stay. The topic id changes and the leader epoch increases. Clients detect the
truncation by either. The old incarnation is deleted like any topic, and can be undeleted under another name. With
`keep_offsets` the new logs begin where the old ones end: no offset is used twice, and the groups' committed offsets
stay valid for the new incarnation.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pybroker.broker.cluster.events import TruncatedTopic, TruncateTopics, Truncation
from pybroker.broker.cluster.lookup import living_topic
from pybroker.broker.controller.decision import NOTHING_CLOSED, Decision, FencedTopics, Steps, Units, decides
from pybroker.broker.controller.topic_decisions import belongings, create_operations, encode_state, new_topic, unused_id
from pybroker.broker.controller.topic_deletion import DeletionWrites, add_tombstones, is_protected, refuse_protected
from pybroker.broker.controller.topic_id_visibility import topic_node
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, PartitionImage, TopicImage, target_replicas
from pybroker.broker.metadata.lineage import TRUNCATED, TopicEvent, TopicLineage
from pybroker.broker.metadata.metadata_store import Set, operations_bytes
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode


def topics_to_fence(image: ClusterImage, event: TruncateTopics) -> list[TopicImage]:
    """Return the topics to fence: all topics of the event for which clients could still append records or commit
    offsets."""
    topics = [image.topic_by_id(topic.topic_id) for topic in event.topics]
    return [topic for topic in topics if topic is not None and not topic.internal and not is_protected(topic)]


@decides(TruncateTopics, closes=topics_to_fence)
def decide_truncate(
    image: ClusterImage,
    event: TruncateTopics,
    closed: FencedTopics = NOTHING_CLOSED,
    new_id: Callable[[], Uuid] = Uuid.random,
) -> Decision:
    """Truncate topics; each succeeds or fails independently."""
    steps = Steps()
    removed: dict[Uuid, TopicImage] = {}
    made: list[TopicImage] = []
    ids: set[Uuid] = set()
    records: list[DeletionRecord] = []
    floors: dict[str, int] = {}
    reply: list[TruncatedTopic | KafkaError] = []
    for topic in event.topics:
        try:
            old = living_topic(image, topic.topic_id, removed)
            if old.internal:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic '{old.name}' is internal and cannot be truncated.")
            refuse_protected(old)
            ends = _ends(closed, topic, old)
        except KafkaError as error:
            reply.append(error)
            continue
        topic_id = unused_id(image, ids, new_id)
        ids.add(topic_id)
        offsets = closed.offsets.get(old.topic_id, ())
        what = TopicEvent(TRUNCATED, event.now_ms, event.truncated_by, old.name)
        floors[old.name] = floor = max(
            image.floors.get(old.name, -1), *(partition.leader_epoch for partition in old.partitions)
        )
        # While this incarnation was deleted, before its undelete, the name may have had other incarnations. The epoch
        # floor also covers their epochs.
        lives = old.lineage.ended(max(partition.leader_epoch for partition in old.partitions)).lives
        lineage = TopicLineage((what,), floor + 1, lives if topic.keep_offsets else (), ends)
        new = new_topic(
            image,
            old.name,
            topic_id,
            replicas=[target_replicas(partition) for partition in old.partitions],
            config=old.config,
            lineage=lineage,
            created_ms=event.now_ms,
        )
        made_nodes = create_operations(image, new)
        buried = add_tombstones(
            image,
            old,
            what,
            event.delay_ms,
            offsets=offsets,
            ends=closed.ends.get(old.topic_id, ()),
            successor=topic_id,
            offsets_for=topic_id if topic.keep_offsets and offsets else None,
            beside=operations_bytes(made_nodes),
        )
        if buried.leftover:
            new, units = _in_its_nodes(image, old, new, buried)
            steps.add(units)
        else:
            steps.add([[*buried.units[0], *made_nodes]])
        removed[old.topic_id] = old
        made.append(new)
        records.append(buried.record)
        reply.append(TruncatedTopic(old.name, old.topic_id, topic_id))
    delta = ImageDelta(topics=tuple(made), removed=tuple(removed.values()), deletions=tuple(records), floors=floors)
    return Decision(tuple(steps.operations), delta, reply, seams=tuple(steps.seams))


def _in_its_nodes(
    image: ClusterImage, old: TopicImage, new: TopicImage, buried: DeletionWrites
) -> tuple[TopicImage, Units]:
    """Write the new incarnation into the znodes of the old one, because there are too many znodes for one multi. After
    a crash, the next load finds the states that were not rewritten: their leader epoch is below the epoch floor of the
    name."""
    *before, (_, *deciding) = buried.units
    states: dict[tuple[PartitionImage, int], PartitionImage] = {}
    partitions: list[PartitionImage] = []
    units: Units = []
    for index, (was, will_be) in enumerate(zip(old.partitions, new.partitions, strict=True)):
        key = (will_be, was.state_version)
        if key not in states:
            states[key] = msgspec.structs.replace(will_be, state_version=was.state_version + 1)
        partitions.append(states[key])
        units.append([Set(znodes.state_path(new.name, index), encode_state(will_be), was.state_version)])
    new = msgspec.structs.replace(new, node_version=old.node_version + 1, partitions=tuple(partitions))
    node = Set(znodes.topic_path(new.name), topic_node(new, image.topic_ids), old.node_version)
    return new, [*before, [node, *deciding, *belongings(new)], *units]


def _ends(closed: FencedTopics, one: Truncation, old: TopicImage) -> tuple[int, ...]:
    """Return the log end offsets, at which the new logs begin; empty if the offsets are not kept."""
    if not one.keep_offsets:
        return ()
    ends = tuple(end for _, end in closed.ends.get(old.topic_id, ()))
    if len(ends) != len(old.partitions) or any(end < 0 for end in ends):
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE,
            f"Topic '{old.name}' cannot be truncated with its offsets kept: not every partition has a leader that "
            "knows its log end. Try again when every partition has a leader.",
        )
    return ends
