"""Decisions about brokers that will not come back under their id (UnregisterBroker). Pure functions.

The broker must be down and have no replica: no acknowledged record may depend on it. Deletions, undeletes and pending
replica removals no longer wait for it. If it comes back, no replica is assigned to it. It removes data of topics that
were deleted or moved as usual, after the usual delay; data of unknown topics stays for the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from pybroker.broker.cluster.events import UnregisterBroker
from pybroker.broker.controller.decision import Decision, Steps, decides, nothing
from pybroker.broker.controller.internal_events import BrokerForgotten
from pybroker.broker.controller.topic_deletion import not_awaiting, write_moved
from pybroker.broker.controller.topic_id_visibility import topic_node
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.deletion_records import (
    DELETING,
    FOUND,
    STAGED,
    UNDELETING,
    DeletionRecord,
    forget_operations,
)
from pybroker.broker.metadata.image import UNREGISTERED, ClusterImage, ImageDelta, TopicImage
from pybroker.broker.metadata.metadata_store import Operation, Set
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

NAMED_MAX = 10
"""Limit of partitions named in an error message."""

WAITING = (DELETING, STAGED, UNDELETING, FOUND)
"""States of deletions in which brokers may hold data."""


@decides(UnregisterBroker)
def decide_unregister(image: ClusterImage, event: UnregisterBroker) -> Decision:
    """Remove all references to the broker. The last write marks its broker epoch as unregistered. If a crash prevents
    some of the writes, the operator repeats the command, which makes the missing writes."""
    broker_id = event.broker_id
    _check(image, broker_id)
    records = {
        deletion.topic_id: deletion
        for deletion in image.deletions.values()
        if deletion.state in WAITING and _names(deletion, broker_id)
    }
    left = [topic for topic in image.topics.values() if topic.left(broker_id)]
    if not (records or left or image.broker_epochs.get(broker_id, UNREGISTERED) != UNREGISTERED):
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    steps = Steps()
    moved: dict[Uuid, DeletionRecord] = {}
    forgotten: list[DeletionRecord] = []
    for topic_id, record in records.items():
        after = _without(record, broker_id)
        if after.state == FOUND and not after.brokers:
            forgotten.append(record)
        else:
            moved[topic_id] = after
    leftovers = write_moved(image, moved, steps)
    steps.add(forget_operations(record) for record in forgotten)
    topics = tuple(_not_left(topic, broker_id) for topic in left)
    steps.add(_set_topic(image, before, after) for before, after in zip(left, topics, strict=True))
    epochs = {**image.broker_epochs, broker_id: UNREGISTERED}
    steps.add([[Set(znodes.BROKER_EPOCHS, znodes.encode_broker_epochs(epochs))]])
    delta = ImageDelta(
        topics=topics,
        deletions=tuple(moved.values()),
        forgotten_deletions=tuple(record.topic_id for record in forgotten),
        leftovers=leftovers,
        broker_epochs={broker_id: UNREGISTERED},
    )
    line = f"unregistered broker={broker_id}: its data of deleted topics and removed replicas is no longer waited for"
    return Decision(tuple(steps.operations), delta, None, seams=tuple(steps.seams), warnings=(line,))


@decides(BrokerForgotten)
def decide_forgotten(image: ClusterImage, event: BrokerForgotten) -> Decision:
    """Remove the mark of an unregistered broker, unless the broker has come back."""
    if image.broker_epochs.get(event.broker_id) != UNREGISTERED:
        return nothing(None)
    epochs = {broker_id: epoch for broker_id, epoch in image.broker_epochs.items() if broker_id != event.broker_id}
    written = Set(znodes.BROKER_EPOCHS, znodes.encode_broker_epochs(epochs))
    return Decision((written,), ImageDelta(forgotten_brokers=(event.broker_id,)), None)


def _check(image: ClusterImage, broker_id: int) -> None:
    """Raise KafkaError INVALID_REQUEST if the cluster may still need the broker."""
    if broker_id in image.brokers:
        in_quorum = image.features.metadata_version is not None
        timeout = "broker.session.timeout.ms" if in_quorum else "zookeeper.session.timeout.ms"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {broker_id} is registered as running: stop it first. If it has died, wait until its "
            f"registration ends, at the latest after {timeout}.",
        )
    first = list(islice(_hosted(image, broker_id), NAMED_MAX))
    if first:
        count = sum(1 for _ in _hosted(image, broker_id))
        more = "" if count == len(first) else ", …"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {broker_id} still has replicas of {count} partitions ({', '.join(first)}{more}): move them to "
            "other brokers first.",
        )
    if image.damaged:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"It is unknown whether broker {broker_id} has replicas of topic {min(image.damaged)}, because the "
            "metadata of the topic is damaged. Repair the topic first.",
        )


def _hosted(image: ClusterImage, broker_id: int) -> Iterator[str]:
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.replicas:
                yield f"{name}-{index}"


def _names(record: DeletionRecord, broker_id: int) -> bool:
    return broker_id in record.unconfirmed or bool(record.held_by(broker_id))


def _without(record: DeletionRecord, broker_id: int) -> DeletionRecord:
    waits = broker_id in record.unconfirmed
    record = msgspec.structs.replace(record, unregistered=tuple(sorted({*record.unregistered, broker_id})))
    return not_awaiting(record, (broker_id,)) if waits else record


def _not_left(topic: TopicImage, broker_id: int) -> TopicImage:
    departed = {
        index: {broker: epoch for broker, epoch in brokers.items() if broker != broker_id}
        for index, brokers in topic.departed.items()
    }
    departed = {index: brokers for index, brokers in departed.items() if brokers}
    return msgspec.structs.replace(topic, departed=departed, node_version=topic.node_version + 1)


def _set_topic(image: ClusterImage, before: TopicImage, after: TopicImage) -> list[Operation]:
    return [Set(znodes.topic_path(after.name), topic_node(after, image.topic_ids), before.node_version)]
