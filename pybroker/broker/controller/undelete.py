"""Undelete: a deleted topic comes back under its id while its data is still staged. Pure.

    deleting | staged ──UndeleteTopic──► undeleting ──FinishUndelete──► live ──OffsetsRestored, OutcomesWritten──► (no
                             the name is reserved;        its znodes are back;                                  record)
                             replicas move data back      groups get their offsets, transactions their markers

If a topic cannot come back (a broker has begun to remove its data, or a disk fails), it returns to `deleting`. The
controller stores every step before brokers or clients see it, and the next controller can repeat it: replicas accept
the same request twice.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.events import KeepOffsets, OffsetsRestored, UndeletedTopic, UndeleteTopic
from pybroker.broker.controller.decision import Decision, Steps, decides, nothing
from pybroker.broker.controller.internal_events import FinishUndelete
from pybroker.broker.controller.topic_decisions import (
    check_name_is_free,
    cleared,
    create_units,
    first_leader_epoch,
    new_topic,
)
from pybroker.broker.metadata.deletion_records import (
    DELETING,
    FOUND,
    LIVE,
    REMOVED,
    STAGED,
    UNDELETING,
    DeletionRecord,
    forget_operations,
    write_operations,
)
from pybroker.broker.metadata.image import NO_LEADER, ClusterImage, ImageDelta, PartitionImage, TopicImage
from pybroker.broker.metadata.lineage import UNDELETED, TopicEvent
from pybroker.errors import KafkaError
from pybroker.native import INTERNAL_TOPICS, Uuid
from pybroker.printable import time_text
from pybroker.protocol.error_codes import ErrorCode


@decides(UndeleteTopic)
def decide_undelete(image: ClusterImage, event: UndeleteTopic) -> Decision:
    """If the topic can be restored, reserve its name and order the replicas to move their data back."""
    record = image.deletions.get(event.topic_id)
    try:
        record = _waiting(image, event, record)
        name = record.topic if event.new_name is None else event.new_name
        _check_name(image, name, record)
    except KafkaError as error:
        return nothing(error)
    after = msgspec.structs.replace(
        record,
        state=UNDELETING,
        restore_as=name,
        restored_by=event.undeleted_by,
        restored_ms=event.now_ms,
        missing=None,
    )
    after, operations = write_operations(record, after)
    return Decision(tuple(operations), ImageDelta(deletions=(after,)), UndeletedTopic(name, record.topic_id))


def _waiting(image: ClusterImage, event: UndeleteTopic, record: DeletionRecord | None) -> DeletionRecord:
    live = image.topic_by_id(event.topic_id)
    if live is not None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic id {event.topic_id} ('{live.name}') is not deleted.")
    if record is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"No deleted topic has the id {event.topic_id}.")
    if record.state == UNDELETING:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic id {event.topic_id} is being undeleted already.",
        )
    if record.by_order:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic id {event.topic_id} ('{record.topic}') is marked for deletion, and not all of its replicas "
            "have confirmed. Try again later.",
        )
    if record.state not in (DELETING, STAGED, FOUND) or record.closed:
        raise _gone(record)
    missing = sorted(set(range(max(record.partitions, default=0) + 1)) - record.partitions.keys())
    if missing:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Topic id {event.topic_id} cannot be undeleted: no broker has found a replica of partition {missing[0]}.",
        )
    lost = next((index for index in sorted(record.partitions) if not record.in_sync(index)), None)
    if lost is not None:
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Topic id {event.topic_id} cannot be undeleted: only unregistered brokers had all records of "
            f"partition {lost}.",
        )
    if not (event.new_name or record.topic):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The name of topic id {event.topic_id} is unknown: choose one with --as NAME."
        )
    return record


def _gone(record: DeletionRecord) -> KafkaError:
    if record.purged:
        purged = record.lineage.events[-1]
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"Topic id {record.topic_id} ('{record.topic}') cannot be undeleted: {purged.by} purged it at "
            f"{time_text(purged.at_ms)}, and its data is gone.",
        )
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_ID,
        f"Topic id {record.topic_id} ('{record.topic}') cannot be undeleted: it was deleted at "
        f"{time_text(record.deleted_ms)}, its data was kept until {time_text(record.remove_after_ms)}, and is "
        "gone.",
    )


def _check_name(image: ClusterImage, name: str, record: DeletionRecord) -> None:
    if name in INTERNAL_TOPICS and name != record.topic:
        # The broker would trust records that clients have written to this internal topic, and the internal topic's
        # retention would delete them.
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Topic id {record.topic_id} cannot be undeleted as '{name}': the name is reserved for the broker's "
            "internal topic.",
        )
    try:
        check_name_is_free(image, name, {})
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS,
            f"Topic id {record.topic_id} cannot be undeleted as '{name}': the name is taken. Choose another one "
            "with --as NAME.",
        ) from None


@decides(FinishUndelete)
def decide_finish_undelete(image: ClusterImage, event: FinishUndelete) -> Decision:
    """Restore the topic's znodes, or continue its deletion."""
    record = image.deletions.get(event.topic_id)
    if record is None or record.state != UNDELETING or record.restore_as is None:
        return nothing(
            KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"Topic {image.describe(event.topic_id)} is not being undeleted.")
        )
    if event.problem is not None:
        # Restart the deletion. Replicas that have moved their data back must stage it again.
        after, operations = write_operations(
            record,
            msgspec.structs.replace(
                record,
                state=FOUND if record.how == FOUND else DELETING,
                restore_as=None,
                restored_by="",
                restored_ms=-1,
            ),
        )
        error = KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Topic id {record.topic_id} ('{record.topic}') cannot be undeleted: {event.problem}",
        )
        return Decision(tuple(operations), ImageDelta(deletions=(after,)), error)
    name = record.restore_as
    epoch = max(first_leader_epoch(image, name), first_leader_epoch(image, record.topic), record.leader_epoch_max + 1)
    undeleted = TopicEvent(UNDELETED, record.restored_ms, record.restored_by, name)
    topic = new_topic(
        image,
        name,
        record.topic_id,
        replicas=[record.replicas(index) for index in range(len(record.partitions))],
        config=record.config,
        lineage=record.lineage.with_event(undeleted).resumed(epoch),
        created_ms=record.created_ms,
    )
    partitions = _led_by_holders(image, record, topic, event)
    departed = {}
    for index, brokers in record.departed.items():
        awaited = [broker for broker in brokers if broker not in record.unregistered]
        if awaited:
            departed[index] = dict.fromkeys(awaited, partitions[index].leader_epoch)
    topic = msgspec.structs.replace(topic, partitions=partitions, departed=departed)
    cleared_names = cleared(image, [topic])
    if not (record.offsets or record.outcomes):
        written = forget_operations(record)
        delta = ImageDelta(topics=(topic,), forgotten_deletions=(record.topic_id,), leftovers=cleared_names)
    else:
        after, written = write_operations(
            record,
            msgspec.structs.replace(
                record, state=LIVE, offsets_for=record.topic_id if record.offsets else None, offsets_given=()
            ),
        )
        delta = ImageDelta(topics=(topic,), deletions=(after,), leftovers=cleared_names)
    steps = Steps()
    steps.add(create_units(image, topic, beside=written))
    reply = UndeletedTopic(name, record.topic_id)
    return Decision(tuple(steps.operations), delta, reply, seams=tuple(steps.seams))


def _led_by_holders(
    image: ClusterImage, record: DeletionRecord, topic: TopicImage, event: FinishUndelete
) -> tuple[PartitionImage, ...]:
    """Return the partitions with leader and ISR. The ISR consists of the replicas that were in sync before the deletion
    and have their data back."""
    staying = image.brokers.keys() - image.leaving
    known: dict[tuple[PartitionImage, tuple[int, ...]], PartitionImage] = {}
    partitions = []
    for index, partition in enumerate(topic.partitions):
        holders = partition.replicas if event.holders is None else event.holders.get(index, ())
        isr = tuple(
            replica for replica in partition.replicas if replica in holders and replica in record.in_sync(index)
        )
        key = (partition, isr)
        if key not in known:
            alive = tuple(broker_id for broker_id in isr if broker_id in staying)
            known[key] = msgspec.structs.replace(
                partition,
                leader=alive[0] if alive else NO_LEADER,
                isr=alive or isr or partition.isr,
                young=False,
            )
        partitions.append(known[key])
    return tuple(partitions)


@decides(KeepOffsets)
def decide_keep_offsets(image: ClusterImage, event: KeepOffsets) -> Decision:
    """Add offsets to the deletion record, or replace older ones in it. If the topic is live again, or a successor
    continues its offsets, the groups then get them back."""
    before = image.deletions.get(event.topic_id)
    live = image.topic_by_id(event.topic_id)
    if before is not None:
        target = _heir(image, before)
        if target is None and (before.closed or before.state == REMOVED):
            return nothing(False)
        record = before
    elif live is not None:
        target, record = live.topic_id, _record_of_live(live)
    else:
        return nothing(False)
    late = record.lacking(event.offsets)
    if not late:
        return nothing(live is not None)
    groups = {offset["group"] for offset in late}
    replaced = {(offset["group"], offset["partition"]) for offset in late}
    others = (offset for offset in record.offsets if (offset["group"], offset["partition"]) not in replaced)
    after, operations = write_operations(
        before,
        msgspec.structs.replace(
            record,
            offsets=(*others, *late),
            offsets_for=target,
            offsets_given=tuple(group for group in record.offsets_given if group not in groups),
        ),
    )
    return Decision(tuple(operations), ImageDelta(deletions=(after,)), live is not None)


def _heir(image: ClusterImage, record: DeletionRecord) -> Uuid | None:
    """Return the live incarnation in which the record's offsets are valid; None if there is none."""
    if record.state == LIVE:
        return record.topic_id
    successor = None if record.successor is None else image.topic_by_id(record.successor)
    # Only a successor that keeps the offsets begins at the old log ends.
    return successor.topic_id if successor is not None and successor.lineage.start_offsets else None


def _record_of_live(topic: TopicImage) -> DeletionRecord:
    """Return a new record for an undeleted topic whose record has been removed. It exists until the groups have their
    offsets."""
    return DeletionRecord(
        topic=topic.name,
        topic_id=topic.topic_id,
        state=LIVE,
        created_ms=topic.created_ms,
        deleted_ms=-1,
        deleted_by="",
        remove_after_ms=-1,
        partitions={},
        config={},
        leader_epoch_max=-1,
        lineage=topic.lineage,
    )


@decides(OffsetsRestored)
def decide_offsets_restored(image: ClusterImage, event: OffsetsRestored) -> Decision:
    """Record the groups that have their offsets back. When all groups have them, remove the record of a live topic. The
    record of a truncated topic loses only its pending offsets."""
    record = image.deletions.get(event.topic_id)
    if record is None or record.offsets_for != event.target or record.offsets_mark != event.mark:
        return nothing(None)
    returned = {*record.offsets_given, *event.groups}
    if not returned.issuperset(offset["group"] for offset in record.offsets):
        if len(returned) == len(record.offsets_given):
            return nothing(None)
        counted = msgspec.structs.replace(record, offsets_given=tuple(sorted(returned)))
        after, operations = write_operations(record, counted)
        return Decision(tuple(operations), ImageDelta(deletions=(after,)), None)
    if record.state == LIVE and not record.outcomes:
        return Decision(tuple(forget_operations(record)), ImageDelta(forgotten_deletions=(record.topic_id,)), None)
    after, operations = write_operations(
        record, msgspec.structs.replace(record, offsets_for=None, offsets_given=())
    )
    return Decision(tuple(operations), ImageDelta(deletions=(after,)), None)
