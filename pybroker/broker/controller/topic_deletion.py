"""Deletions of topics. Every step is stored, so a deletion continues after a crash or a change of the controller.

    deleting    one multi has freed the name and written the record; replicas get StopReplica
    staged      every replica has confirmed that its data is in `deleting/`; it stays until `remove_after_ms`
    removed     the data is removed on every broker; the record stays as a tombstone: it proves that the id is deleted

    found       stray replicas: brokers hold data of an unknown topic id, and keep it

Transitions in this module: found → deleting (on request), deleting → staged → removed, and deleting → removed for a
topic whose replicas held nothing. `undelete` has the transitions back. In clusters without topic ids (`by_order`) the
first transition frees the name: it removes the topic's znode and the request in `/admin/delete_topics`. If there are
more than `topic.history.max.incarnations` tombstones, the oldest are removed. A replica of such a topic that appears
later is kept for the operator: without a tombstone nothing proves that its topic was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pybroker.broker.cluster.events import CloseDeletions, DeletedTopic, DeleteTopics, FoundReplicas
from pybroker.broker.cluster.lookup import living_topic
from pybroker.broker.controller.decision import NOTHING_CLOSED, Decision, FencedTopics, Steps, Units, decides, nothing
from pybroker.broker.controller.internal_events import AdvanceDeletions, RemoveLeftovers
from pybroker.broker.controller.topic_decisions import leftover_units
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import (
    DELETING,
    FOUND,
    LIVE,
    REMOVED,
    STAGED,
    UNDELETING,
    DeletionRecord,
    forget_operations,
    prepare_operations,
    write_operations,
)
from pybroker.broker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.broker.metadata.lineage import DELETED, TopicEvent
from pybroker.broker.metadata.metadata_store import (
    DECISION_BYTES_MAX,
    PART_OPERATIONS_MAX,
    Create,
    Delete,
    Operation,
    Set,
    operations_bytes,
)
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

TOMBSTONES_MAX = 10_000
"""Default of the broker's setting `topic.history.max.incarnations`."""

_MOVES: dict[str, tuple[str, ...]] = {
    DELETING: (STAGED, REMOVED),
    STAGED: (REMOVED,),
    UNDELETING: (),
    LIVE: (),
    FOUND: (),
    REMOVED: (),
}


PROTECTION = "delete.protection.enable"
"""The topic config that protects a topic against deletion."""


def is_protected(topic: TopicImage) -> bool:
    """Return whether the topic is protected: it may be neither deleted nor truncated."""
    return topic.config.get(PROTECTION) == "true"


def refuse_protected(topic: TopicImage) -> None:
    """Raise KafkaError POLICY_VIOLATION if the topic is protected."""
    if is_protected(topic):
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Topic '{topic.name}' is protected: set {PROTECTION}=false before it is deleted or truncated.",
        )


def topics_to_fence(image: ClusterImage, event: DeleteTopics) -> list[TopicImage]:
    """Return the topics to fence: all topics of the event for which clients could still append records or commit
    offsets."""
    topics = [image.topic_by_id(which) for which in event.topics]
    return [topic for topic in topics if topic is not None and not topic.internal and not is_protected(topic)]


@decides(DeleteTopics, closes=topics_to_fence)
def decide_delete(image: ClusterImage, event: DeleteTopics, closed: FencedTopics = NOTHING_CLOSED) -> Decision:
    """Delete topics at once: one multi removes the topic's znodes, writes its deletion record and raises the epoch
    floor of the topic name.

    After the multi, the name is free and the topic id is deleted, even if replicas do not respond. Without topic ids,
    the multi writes the request to delete and keeps the topic's znode: the name is free when the replicas have
    responded.
    """
    steps = Steps()
    removed: dict[Uuid, TopicImage] = {}
    records: list[DeletionRecord] = []
    floors: dict[str, int] = {}
    leftovers: dict[str, int] = {}
    reply: list[DeletedTopic | KafkaError] = []
    for which in event.topics:
        found = image.deletions.get(which) if isinstance(which, Uuid) else None
        if found is not None and found.state == FOUND and found.topic_id not in image.names:
            after, written = write_operations(found, _ordered(found, event))
            steps.add([written])
            records.append(after)
            reply.append(DeletedTopic(after.topic, after.topic_id))
            continue
        try:
            topic = living_topic(image, which, removed)
            refuse_protected(topic)
        except KafkaError as error:
            reply.append(error)
            continue
        what = TopicEvent(DELETED, event.now_ms, event.deleted_by, topic.name)
        buried = add_tombstones(
            image,
            topic,
            what,
            event.delay_ms,
            offsets=closed.offsets.get(topic.topic_id, ()),
            ends=closed.ends.get(topic.topic_id, ()),
        )
        removed[topic.topic_id] = topic
        records.append(buried.record)
        floors[topic.name] = floor_after(image, buried.record)
        if buried.leftover:
            leftovers[topic.name] = len(topic.partitions)
        steps.add(buried.units)
        reply.append(DeletedTopic(topic.name, topic.topic_id))
    delta = ImageDelta(removed=tuple(removed.values()), deletions=tuple(records), floors=floors, leftovers=leftovers)
    return Decision(tuple(steps.operations), delta, reply, seams=tuple(steps.seams))


def _ordered(found: DeletionRecord, event: DeleteTopics) -> DeletionRecord:
    """Turn the record of stray replicas into the record of a requested deletion."""
    return msgspec.structs.replace(
        found,
        state=DELETING,
        how=DELETED,
        deleted_by=event.deleted_by,
        deleted_ms=event.now_ms,
        remove_after_ms=event.now_ms + event.delay_ms,
        missing=None,
    )


@decides(FoundReplicas)
def decide_found(image: ClusterImage, event: FoundReplicas) -> Decision:
    """Record the brokers that hold stray replicas. Ignore topic ids that the cluster knows."""
    steps = Steps()
    records: list[DeletionRecord] = []
    for topic in event.topics:
        before = image.deletions.get(topic.topic_id)
        if topic.topic_id in image.names or (before is not None and before.state != FOUND):
            continue
        # `holders` omits unregistered brokers. A broker that has come back is added again.
        known = {} if before is None else {index: before.holders(index) for index in before.partitions}
        new = {index: tuple(sorted({*known.get(index, ()), event.broker_id})) for index in topic.partitions}
        if before is not None and known == {**known, **new}:
            continue
        record = DeletionRecord(
            topic=topic.name if before is None else before.topic or topic.name,
            topic_id=topic.topic_id,
            state=FOUND,
            created_ms=-1,
            deleted_ms=event.now_ms if before is None else before.deleted_ms,
            deleted_by="",
            remove_after_ms=-1,
            partitions={**known, **new},
            config={},
            leader_epoch_max=max(topic.last_epoch, -1 if before is None else before.leader_epoch_max),
            how=FOUND,
        )
        record, written = write_operations(before, record)
        steps.add([written])
        records.append(record)
    return Decision(tuple(steps.operations), ImageDelta(deletions=tuple(records)), None, seams=tuple(steps.seams))


class DeletionWrites(msgspec.Struct, frozen=True):
    """The deletion of a topic: its record and the writes. The last unit of writes makes the deletion effective."""

    record: DeletionRecord
    units: Units
    leftover: bool = False
    """Whether the znodes of the topic's partitions still exist after the writes."""


def add_tombstones(
    image: ClusterImage,
    topic: TopicImage,
    what: TopicEvent,
    delay_ms: int,
    *,
    offsets: tuple[Mapping[str, Any], ...],
    ends: tuple[tuple[int, int], ...],
    successor: Uuid | None = None,
    offsets_for: Uuid | None = None,
    beside: int = 0,
) -> DeletionWrites:
    """Return the deletion record of a topic and the operations that delete it. `beside`: the size in bytes of other
    operations in the same multi.

    If one multi cannot contain all operations, earlier units write most of the record, and later multis remove the
    znodes of the partitions. In this case the first operation of the last unit marks the topic's own znode as deleted.
    """
    last_epoch = max((partition.leader_epoch for partition in topic.partitions), default=-1)
    before = image.deletions.get(topic.topic_id)
    record = DeletionRecord(
        topic=topic.name,
        topic_id=topic.topic_id,
        state=DELETING,
        created_ms=topic.created_ms,
        deleted_ms=what.at_ms,
        deleted_by=what.by,
        remove_after_ms=what.at_ms + delay_ms,
        partitions={index: partition.replicas for index, partition in enumerate(topic.partitions)},
        config=topic.config,
        leader_epoch_max=last_epoch,
        offsets=offsets,
        how=what.what,
        ends=ends,
        lineage=topic.lineage.with_event(what).ended(last_epoch),
        successor=successor,
        offsets_for=offsets_for,
        by_order=not image.topic_ids,
        isr=tuple(partition.isr for partition in topic.partitions),
        # Keep the transaction markers that an earlier undelete has not written yet.
        outcomes=() if before is None else before.outcomes,
        departed={index: tuple(brokers) for index, brokers in topic.departed.items()},
    )
    free, gone = _name_given_up(image, topic, record), _belongings(topic)
    path, data = znodes.floor_path(topic.name), znodes.encode_floor(floor_after(image, record))
    floor = Set(path, data) if topic.name in image.floors else Create(path, data)
    # If the topic was undeleted only a moment ago, its deletion record still exists.
    after, written = write_operations(before, record)
    whole = [*free, *gone, *written, floor]
    if record.by_order or before is not None or operations_bytes(whole) + beside <= DECISION_BYTES_MAX:
        return DeletionWrites(after, [whole])
    after, pieces, decided = prepare_operations(record)
    marked = Set(znodes.topic_path(topic.name), znodes.encode_leftover(topic.topic_id), topic.node_version)
    if topic.name in image.delete_orders:
        gone.append(Delete(znodes.old_deletion_path(topic.name)))
    return DeletionWrites(after, [*pieces, [marked, *gone, decided, floor]], leftover=True)


def _name_given_up(image: ClusterImage, topic: TopicImage, record: DeletionRecord) -> list[Operation]:
    if record.by_order:
        operations: list[Operation] = [Delete(znodes.topic_id_path(topic.name))]
        if topic.name not in image.delete_orders:
            operations.append(Create(znodes.old_deletion_path(topic.name)))
        return operations
    operations = name_operations(topic.name, len(topic.partitions), topic.node_version)
    if topic.name in image.delete_orders:
        operations.append(Delete(znodes.old_deletion_path(topic.name)))
    return operations


def _belongings(topic: TopicImage) -> list[Operation]:
    operations: list[Operation] = []
    if topic.config_version >= 0:
        operations.append(Delete(znodes.topic_config_path(topic.name)))
    if not topic.lineage.empty:
        operations.append(Delete(znodes.lineage_path(topic.topic_id)))
    return operations


@decides(RemoveLeftovers)
def decide_remove_leftovers(image: ClusterImage, event: RemoveLeftovers) -> Decision:
    """Remove as many leftover znodes of a deleted topic as fit into one multi."""
    left = image.leftovers.get(event.name)
    if left is None:
        return nothing(None)
    units, own = leftover_units(event.name, left)
    operations: list[Operation] = []
    size = operations_bytes(own)
    for unit in units:
        size += operations_bytes(unit)
        if size > DECISION_BYTES_MAX or len(operations) >= PART_OPERATIONS_MAX:
            break
        operations += unit
        left -= 1
    if not left:
        operations += own
        left = -1
    return Decision(tuple(operations), ImageDelta(leftovers={event.name: left}), None)


def name_operations(name: str, partitions: int, version: int = -1) -> list[Operation]:
    """Return the operations that remove all znodes of a topic name."""
    prefix = znodes.partitions_path(name)
    operations: list[Operation] = []
    for index in range(partitions):
        operations.append(Delete(f"{prefix}/{index}/state"))
        operations.append(Delete(f"{prefix}/{index}"))
    return [*operations, Delete(prefix), Delete(znodes.topic_path(name), version)]


def floor_after(image: ClusterImage, record: DeletionRecord) -> int:
    """Return the epoch floor of the topic name after the deletion of this incarnation."""
    return max(image.floors.get(record.topic, -1), record.leader_epoch_max)


@decides(AdvanceDeletions)
def decide_advance(image: ClusterImage, event: AdvanceDeletions) -> Decision:
    """Advance deletions. Ignore an impossible transition: a late confirmation causes it."""
    moved: dict[Uuid, DeletionRecord] = {}
    for topic_id, brokers in event.confirmed:
        record = image.deletions.get(topic_id)
        if record is not None and record.unconfirmed & set(brokers):
            moved[topic_id] = not_awaiting(record, brokers)
    for state, ids in ((STAGED, event.staged), (REMOVED, event.removed)):
        for topic_id in ids:
            record = moved.get(topic_id) or image.deletions.get(topic_id)
            if record is not None and state in _MOVES[record.state]:
                moved[topic_id] = _moved(record, state)
    steps = Steps()
    leftovers = write_moved(image, moved, steps)
    forgotten = _oldest_tombstones({**image.deletions, **moved}, event.tombstones_max)
    steps.add(forget_operations(record) for record in forgotten)
    gone = frozenset(record.topic_id for record in forgotten)
    kept = tuple(record for record in moved.values() if record.topic_id not in gone)
    delta = ImageDelta(deletions=kept, forgotten_deletions=tuple(gone), leftovers=leftovers)
    return Decision(tuple(steps.operations), delta, None, seams=tuple(steps.seams))


def not_awaiting(record: DeletionRecord, brokers: Iterable[int]) -> DeletionRecord:
    """Return the record, but wait no longer for brokers that have confirmed or never will."""
    missing = tuple(sorted(record.unconfirmed.difference(brokers)))
    # The name stays in use only for the current replicas, not for brokers that lost their replica earlier.
    by_order = record.by_order and not record.brokers.isdisjoint(missing)
    return msgspec.structs.replace(record, missing=missing, by_order=by_order)


def write_moved(image: ClusterImage, moved: dict[Uuid, DeletionRecord], steps: Steps) -> dict[str, int]:
    """Add the writes of changed records to `steps` and the written records to `moved`. Free the names that waited for
    replicas. Return the names that still have leftover znodes."""
    leftovers: dict[str, int] = {}
    for topic_id, record in moved.items():
        before = image.deletions[topic_id]
        moved[topic_id], written = write_operations(before, record)
        if before.by_order and not record.by_order:
            freed = name_operations(record.topic, len(record.partitions))
            if operations_bytes([*written, *freed]) > DECISION_BYTES_MAX:
                freed = [Set(znodes.topic_path(record.topic), znodes.encode_leftover(topic_id))]
                leftovers[record.topic] = len(record.partitions)
            written += [*freed, Delete(znodes.old_deletion_path(record.topic))]
        steps.add([written])
    return leftovers


def _moved(record: DeletionRecord, state: str) -> DeletionRecord:
    # A tombstone needs no offsets, unless a successor still has to restore them.
    offsets = record.offsets if state != REMOVED or record.offsets_for is not None else ()
    outcomes = record.outcomes if state != REMOVED else ()
    return msgspec.structs.replace(
        record, state=state, offsets=offsets, outcomes=outcomes, by_order=False, missing=None
    )


@decides(CloseDeletions)
def decide_close(image: ClusterImage, event: CloseDeletions) -> Decision:
    """Allow brokers to remove the data. Ignore deletions that already allow it, and undeleted topics."""
    steps = Steps()
    closed = []
    for topic_id in event.topics:
        record = image.deletions.get(topic_id)
        if record is not None and record.state in (DELETING, STAGED) and not record.closed:
            after, written = write_operations(record, msgspec.structs.replace(record, closed=True))
            steps.add([written])
            closed.append(after)
    return Decision(tuple(steps.operations), ImageDelta(deletions=tuple(closed)), None, seams=tuple(steps.seams))


def _oldest_tombstones(records: dict[Uuid, DeletionRecord], tombstones_max: int) -> list[DeletionRecord]:
    dead = [record for record in records.values() if record.state == REMOVED and record.offsets_for is None]
    surplus = len(dead) - tombstones_max
    if surplus <= 0:
        return []
    dead.sort(key=lambda record: record.deleted_ms)
    return dead[:surplus]
